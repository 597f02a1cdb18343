"""What docs/jobs.md says of states and webhooks is so."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from headwater.consumers.webhooks.attempt import signed
from headwater.rules.jobs.states import TRANSITIONS, JobState
from headwater.rules.jobs.webhooks import new_secret, webhook_body, webhook_id

PAGE = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text("utf-8")
SECRET = new_secret(bytes(range(32)))


def test_the_states_are_those_of_the_table_under_the_names_that_the_api_gives_them() -> None:
    found = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*)\|$", PAGE, re.MULTILINE)
    assert {state: public for state, public, _ in found} == {state: state.public for state in JobState}
    for state, _, after in found:
        named = {name.strip() for name in after.split(",") if name.strip()}
        assert named == TRANSITIONS.get(JobState(state), frozenset()), state


@pytest.fixture
def receive() -> Any:
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.replace("whsec_…", SECRET), names)
    return names["receive"]


def test_the_receiver_of_the_page_takes_what_we_sign_once_and_nothing_else(
    receive: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    body = webhook_body("video.completed", now, {"id": "video_1", "status": "completed"})
    headers = signed(webhook_id("video_1", "video.completed"), now, body, [SECRET])

    assert [receive(headers, body) for _ in range(2)] == [204, 204]

    assert capsys.readouterr().out == "video.completed video_1 completed\n"
    with pytest.raises(WebhookVerificationError):
        receive(headers, body.replace(b"completed", b"cancelled"))
