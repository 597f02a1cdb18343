"""Programs as models: what they are given, what their words and exit codes mean, and how they are stopped."""

from __future__ import annotations

import json
import time

import pytest

from headwater.connectors.models.backends import build
from headwater.connectors.models.protocol import Failure, ModelError, Output, Stopped, Wish, log_tail
from headwater.rules.errors import BadRecord, BadSettings

WRITE = "open(json.load(sys.stdin)['output'], 'wb').write(b'x')"


@pytest.fixture
def run(program, capabilities, work, notes):
    """Runs a program of this text on a work; its outcome, the work and the course."""

    def ran(text, *arguments, course=None, asked=None, **options):
        model = build("command", {"command": [*program(text), *arguments], "capabilities": capabilities, **options})
        model.load()
        one, course = asked or work(), course or notes()
        (outcome,) = model.generate([one], course)
        return outcome, one, course

    return ran


def test_placeholders_are_replaced_once_and_no_shell_reads_them(run, work, tmp_path):
    prompt = "{output} $(exit 1) `id` \"'\n{parameters.seed}"
    asked = work(prompt=prompt, parameters={"seed": 7, "loras": [{"name": "noir"}]})
    heard = tmp_path / "heard.json"

    outcome, one, _ = run(
        f"json.dump(sys.argv[1:], open({str(heard)!r}, 'w'))\n" + WRITE,
        "--prompt={prompt}", "{width}x{height}/{seconds}", "{parameters.seed}{parameters.none}", "{parameters.loras}",
        "{resume}", "{job}:{epoch}", "{ unknown } {unknown}", "{folder}", "{output}", asked=asked,
    )  # fmt: skip

    assert outcome == Output(one.folder / "output.mp4")
    assert json.loads(heard.read_text()) == [
        f"--prompt={prompt}", "64x64/2", "7", '[{"name": "noir"}]', "", "video_1:1", "{ unknown } {unknown}",
        str(one.folder), str(one.folder / "output.mp4"),
    ]  # fmt: skip


def test_the_same_comes_as_json_on_standard_input(run, work, tmp_path):
    heard, picture = tmp_path / "heard.json", tmp_path / "in.png"
    picture.write_bytes(b"picture")
    asked = work(parameters={"seed": 7}, input=picture)

    run(f"text = sys.stdin.read(); open({str(heard)!r}, 'w').write(text)", asked=asked)

    said = json.loads(heard.read_text())
    assert (said["prompt"], said["seconds"], said["parameters"]) == ("a red fox", 2, {"seed": 7})
    assert (said["input"], said["resume"]) == (str(picture), "")


def test_a_program_that_reads_nothing_is_no_failure(run, work):
    outcome, _, _ = run("import pathlib; pathlib.Path(sys.argv[1]).touch()", "{output}", asked=work(prompt="x" * 4000))

    assert isinstance(outcome, Output)


def test_its_lines_are_steps_checkpoints_or_its_log(run):
    outcome, one, course = run(
        "print('loading'); print('step 1/3'); open('c.pt', 'w').write('1'); print('checkpoint 1 c.pt')\n"
        "print('step 3/3'); print('step 4/3'); print('step x/3'); print('done', file=sys.stderr); " + WRITE
    )

    assert isinstance(outcome, Output)
    assert course.steps == [(1, 3), (3, 3)]
    assert course.saves == [("video_1", 1, one.folder / "c.pt")]
    assert set(log_tail(one.folder).splitlines()) == {"loading", "step 4/3", "step x/3", "done"}


@pytest.mark.parametrize("path", ["../../secret", "/etc/hostname", "none.pt"])
def test_a_checkpoint_outside_of_its_folder_or_missing_is_none(run, path):
    _, one, course = run(f"print('checkpoint 1 {path}'); {WRITE}")

    assert course.saves == []
    assert "checkpoint 1" in log_tail(one.folder)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("sys.exit(3)", "model_failed", "exit code 3"),
        ("sys.exit(42)", "license_gone", "exit code 42"),
        ("sys.exit(65)", "invalid_input", "exit code 65"),
        ("sys.exit(74)", "node", "exit code 74"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "node", "SIGTERM"),
        ("pass", "bad_output", "wrote no output"),
    ],
)
def test_how_it_ends_is_the_failures_code(run, text, code, said):
    outcome, _, _ = run(text, exit_codes={42: "license_gone"})

    assert isinstance(outcome, Failure)
    assert outcome.code == code
    assert said in outcome.message


def test_the_log_of_a_failure_is_kept(run):
    _, one, _ = run("raise ValueError('no such latent')")

    assert log_tail(one.folder).endswith("ValueError: no such latent")


def test_a_program_that_does_not_hear_sigterm_is_killed_with_its_children(run, notes, eventually):
    started = time.monotonic()

    outcome, one, _ = run(
        "import subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'], start_new_session=True)\n"
        "open('child', 'w').write(str(child.pid)); print('step 1/2', flush=True)\n"
        "while True: print('I do not hear you', flush=True); time.sleep(0.01)",
        course=notes(wishes={1: Wish.stop}), stop_seconds=0.3,
    )  # fmt: skip

    assert outcome == Stopped()
    assert time.monotonic() - started < 60
    child = (one.folder / "child").read_text()
    eventually(lambda: not _lives(child), 30)


def test_a_program_that_hears_sigterm_may_save_before_it_ends(run, notes):
    outcome, _, course = run(
        "def leave(*_): open('c.pt', 'w').write('1'); os.write(1, b'checkpoint 1 c.pt\\n'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave); print('step 1/2', flush=True); time.sleep(1000)",
        course=notes(wishes={1: Wish.leave}), stop_seconds=60,
    )  # fmt: skip

    assert outcome == Stopped()
    assert [step for _, step, _ in course.saves] == [1]


def test_what_it_left_running_is_killed_when_it_ends(run, eventually):
    outcome, one, _ = run(
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'], start_new_session=True)\n"
        f"open('child', 'w').write(str(child.pid)); {WRITE}"
    )

    assert isinstance(outcome, Output)
    child = (one.folder / "child").read_text()
    eventually(lambda: not _lives(child), 30)


def test_a_nul_in_the_prompt_is_the_inputs_fault(program, capabilities, work, notes):
    model = build("command", {"command": [*program("pass"), "{prompt}"], "capabilities": capabilities})

    (outcome,) = model.generate([work(prompt="a\0b")], notes())

    assert isinstance(outcome, Failure)
    assert outcome.code == "invalid_input"


def test_a_program_that_is_not_there_is_told_when_it_is_loaded(capabilities):
    model = build("command", {"command": ["/no/such/program"], "capabilities": capabilities})

    with pytest.raises(ModelError, match="no program"):
        model.load()


def test_settings_that_make_no_sense_are_refused(capabilities):
    with pytest.raises(BadSettings, match="command is empty"):
        build("command", {"command": [], "capabilities": capabilities})
    with pytest.raises(BadSettings, match="max_batch"):
        build("command", {"command": ["true"], "capabilities": {**capabilities, "max_batch": 2}})
    with pytest.raises(BadRecord, match="sizes"):
        build("command", {"command": ["true"], "capabilities": {**capabilities, "sizes": []}})


def _lives(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
