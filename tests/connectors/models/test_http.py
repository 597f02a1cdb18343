"""A model behind a real HTTP server: the form that it is sent, what each answer means, and hanging up."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from headwater.connectors.models.backends import build
from headwater.connectors.models.protocol import Failure, ModelError, Output, Stopped, Wish
from headwater.rules.errors import BadSettings


@pytest.fixture
def ask(server, capabilities, work, notes):
    """Sends one work to the server; the outcome."""

    def asked(course=None, one=None, **options):
        model = build("http", {"url": server.url, "capabilities": capabilities, **options})
        model.load()
        (outcome,) = model.generate([one or work()], course or notes())
        return outcome

    return asked


def test_the_request_is_the_form_of_vllm_omni(ask, server, work, tmp_path):
    picture = tmp_path / "start.png"
    picture.write_bytes(b"a picture")
    parameters = {"num_inference_steps": 40, "guidance_scale": 4.5, "extra_params": {"a": [1]}, "generate_sound": True}

    outcome = ask(one=work(prompt="füchse\n", parameters=parameters, input=picture), model="wan")

    assert isinstance(outcome, Output)
    assert server.forms == [
        {
            "prompt": "füchse\n".encode(),
            "seconds": b"2",
            "size": b"64x64",
            "model": b"wan",
            "num_inference_steps": b"40",
            "guidance_scale": b"4.5",
            "extra_params": b'{"a": [1]}',
            "generate_sound": b"true",
            "input_reference": b"a picture",
        }
    ]


def test_parameters_do_not_replace_the_requests_own_fields(ask, server, work):
    ask(one=work(parameters={"prompt": "another", "size": "9x9"}))

    assert (server.forms[0]["prompt"], server.forms[0]["size"]) == (b"a red fox", b"64x64")


def test_the_key_comes_from_a_file_and_goes_as_a_bearer_token(ask, server, tmp_path):
    (tmp_path / "key").write_text("secret\n")

    ask(key_file=str(tmp_path / "key"))

    assert server.headers[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (400, {"error": {"message": "bad size", "code": 400}}, "invalid_input", "400: bad size"),
        (422, {"detail": [{"loc": ["seconds"]}]}, "invalid_input", "seconds"),
        (400, {"error": {"message": "no", "code": "content_policy_violation"}}, "content_refused", "no"),
        (500, {"error": {"message": "CUDA out of memory."}}, "out_of_memory", "CUDA out of memory."),
        (500, {"detail": "it broke"}, "model_failed", "it broke"),
        (500, [1], "model_failed", "[1]"),
        (503, {"error": {"message": "loading"}}, "model_unavailable", "503: loading"),
        (429, {}, "model_unavailable", "429"),
        (404, {}, "model_unavailable", "404"),
        (504, {}, "timed_out", "504"),
    ],
)
def test_an_error_answer_is_a_failure_with_a_code(ask, server, status, body, code, message):
    server.answer = status, "application/json", json.dumps(body).encode()

    outcome = ask()

    assert isinstance(outcome, Failure)
    assert (outcome.code, message in outcome.message) == (code, True)


def test_an_error_that_is_no_json_and_long_is_shortened(ask, server):
    server.answer = 502, "text/html", b"<html>" + b"x" * 200_000

    outcome = ask()

    assert isinstance(outcome, Failure)
    assert len(outcome.message) <= 500


def test_an_answer_that_is_no_video_is_a_bad_output(ask, server):
    server.answer = 200, "application/json; charset=utf-8", b'{"id": "video-1", "status": "queued"}'

    assert ask().code == "bad_output"


def test_an_answer_that_ends_too_early_is_no_output(ask, server):
    server.cut = True

    assert ask().code == "model_unavailable"


def test_a_server_that_takes_too_long_is_hung_up_on(ask, server):
    server.delay_seconds = 60

    outcome = ask(request_seconds=0.3)

    assert (outcome.code, "0.3 s" in outcome.message) == ("timed_out", True)


def test_a_request_that_is_stopped_is_hung_up_on(ask, server, notes, monkeypatch, eventually):
    server.delay_seconds = 60
    monkeypatch.setattr(notes, "wish", lambda *_: Wish.stop if server.forms else Wish.go_on)

    assert ask(course=notes()) == Stopped()
    eventually(lambda: server.hang_ups == 1, 30)


def test_the_lease_waits_as_long_as_the_request_may_take(server, capabilities):
    model = build("http", {"url": server.url, "capabilities": capabilities, "request_seconds": 100})

    assert model.capabilities().step_limit_seconds == 130


def test_a_server_that_is_loading_is_waited_for(server, capabilities, monkeypatch, eventually):
    monkeypatch.setattr("headwater.connectors.models.http._HEALTH_SECONDS", 0.02)
    server.healthy = False
    model = build("http", {"url": server.url, "capabilities": capabilities})
    loading = threading.Thread(target=model.load)
    loading.start()
    eventually(lambda: server.asked_for_health >= 3, 30)
    assert loading.is_alive()

    server.healthy = True

    loading.join(60)
    assert not loading.is_alive()


def test_a_server_that_is_not_there_is_unavailable(capabilities, work, notes):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        model = build("http", {"url": url, "capabilities": capabilities, "load_seconds": 0.1})

        with pytest.raises(ModelError, match="not healthy"):
            model.load()
        (outcome,) = model.generate([work()], notes())

    assert outcome.code == "model_unavailable"


def test_batches_are_the_servers_own_affair(capabilities):
    with pytest.raises(BadSettings, match="max_batch"):
        build("http", {"capabilities": {**capabilities, "max_batch": 4}})
