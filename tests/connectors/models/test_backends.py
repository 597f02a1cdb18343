"""Setting up a back end: by name, with its own options, and with errors that say what would be right."""

from __future__ import annotations

import pytest

from headwater.connectors.models.backends import BACKENDS, build
from headwater.connectors.models.protocol import failure_of, log_tail, shortened
from headwater.rules.errors import BadSettings, Unavailable


def test_there_are_these_four():
    assert sorted(BACKENDS) == ["command", "http", "noop", "testcard"]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("testcart", {}, "command, http, noop, testcard"),
        ("testcard", {"step_second": 1}, "step_seconds"),
        ("testcard", {"step_seconds": "fast"}, "step_seconds"),
        ("command", {}, "command"),
        ("noop", {"colour": 1}, "max_batch, seconds"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(name, options, said):
    with pytest.raises(BadSettings) as raised:
        build(name, options)

    assert said in str(raised.value)


def test_options_may_be_text_as_a_command_line_gives_them():
    assert "crash_at_step" in build("testcard", {"faults": "true"}).capabilities().parameters["properties"]


def test_an_exception_is_known_by_its_words_where_they_betray_it():
    assert failure_of(OSError(28, "No space left on device")).code == "node"
    assert failure_of(ValueError("a latent")).code == "model_failed"
    assert failure_of(ImportError("no torch"), otherwise="model_unavailable").code == "model_unavailable"
    assert failure_of(Unavailable("S3 is away.", advice="Wait.")).message == "S3 is away. Wait."
    assert failure_of(MemoryError()).message == "MemoryError"


def test_messages_are_one_line_that_every_store_takes():
    assert shortened("a\n  b\x00c\ud800") == "a bc?"
    assert len(shortened("x" * 10_000)) == 500


def test_the_end_of_a_log_is_read_whatever_is_in_it(tmp_path):
    assert log_tail(tmp_path) == ""
    (tmp_path / "log.txt").write_bytes(b"x" * 10_000 + b"\xff\x00 the end\n")

    assert log_tail(tmp_path).endswith("� the end")
    assert len(log_tail(tmp_path)) <= 4096
