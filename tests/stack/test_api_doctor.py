"""What `headwater doctor` says of the ports of the HTTP service."""

from __future__ import annotations

import socket

from headwater.producers.api.config import ApiConfig
from headwater.stack.api_doctor import examine_api


def test_a_port_that_another_program_has_fails_with_the_setting_that_moves_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        config = ApiConfig(port=other.getsockname()[1], internal_port=free.getsockname()[1])
        free.close()

        taken, open_ = examine_api(config, running=False)
        ours, _ = examine_api(config, running=True)

    assert (taken.level, taken.fix) == ("fail", "Set api.port to a free port.")
    assert open_.level == "ok"
    assert (ours.level, ours.found) == ("ok", f"{config.port} is ours")


def test_any_free_port_is_one_that_nobody_finds() -> None:
    assert {check.level for check in examine_api(ApiConfig(port=0, internal_port=0), running=False)} == {"warn"}
