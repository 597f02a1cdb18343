"""Any program as a model: one run a work.

    command = ["/opt/wan/generate", "--prompt={prompt}", "--size={size}", "--out={output}", "--seed={parameters.seed}"]

It is run without a shell. Placeholders stand for prompt, seconds, size, width, height, job, epoch, input, resume,
folder (its own, also its working folder), output (the file that it must write), and ``parameters.NAME``; what is absent
is empty. The same comes as one JSON object on its standard input, for whoever prefers that.

What it says on standard output, a line each:

    step 3/40                     it has done 3 of 40 steps; without such lines the whole run counts as one step
    checkpoint 20 state.pt        a file below its folder from which ``resume`` can go on, if capabilities say so

Everything else, and its standard error, is the log of the work. It is asked to stop by SIGTERM to its process group;
after ``stop_seconds`` it is killed, with all that it started. Exit code 0 means that the output is complete.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Any

from headwater.connectors.models import guard
from headwater.connectors.models.protocol import Course, Failure, ModelError, Outcome, Output, Stopped, Wish, Work
from headwater.rules.errors import BadSettings
from headwater.rules.jobs.capabilities import Capabilities, pixels

_PLACEHOLDER = re.compile(r"\{([a-z]+(?:\.[A-Za-z0-9_]+)?)\}")
_STEP = re.compile(rb"step ([0-9]{1,9})/([0-9]{1,9})\s*")
_CHECKPOINT = re.compile(rb"checkpoint ([0-9]{1,9}) (\S.*?)\s*")
_LOOK_SECONDS = 0.05
_ENDED_FROM_OUTSIDE = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_EXIT_CODES = {64: "invalid_input", 65: "invalid_input", 66: "invalid_input", 69: "model_unavailable", 74: "node"}
"""As sysexits.h names them: usage, data, no input, unavailable, I/O."""
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    command: tuple[str, ...]
    """Program and arguments. A prompt may begin with a dash: write ``--prompt={prompt}``, not two arguments."""
    capabilities: Mapping[str, Any]
    """As in rules/jobs/capabilities.py. Without ``step`` lines, step_limit_seconds bounds the whole run."""
    exit_codes: Mapping[int, str] = field(default_factory=dict)
    """What its exit codes mean, beside those of sysexits.h: codes of failures.py, or your own in ``[failures]``."""
    stop_seconds: float = 3.0
    """From SIGTERM to SIGKILL; less than the worker waits for a model that is to stop."""


class Command:
    def __init__(self, config: CommandConfig) -> None:
        self._config = config
        self._capabilities = Capabilities.from_json(config.capabilities)
        if not config.command or self._capabilities.max_batch != 1:
            raise BadSettings(
                "command is empty." if not config.command else "capabilities.max_batch is not 1.",
                asked="A program was to be used as a model.",
                advice="Name the program; it runs once for each work.",
            )

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def load(self) -> None:
        if shutil.which(self._config.command[0]) is None:
            raise ModelError("model_unavailable", f"There is no program {self._config.command[0]} on this worker.")

    def generate(self, batch: Sequence[Work], course: Course) -> Sequence[Outcome]:
        (work,) = batch
        output = work.folder / f"output.{'mp4' if self._capabilities.container == 'mp4' else 'bin'}"
        values = _values(work, output)
        argv = [_filled(argument, values) for argument in self._config.command]
        if any("\x00" in argument for argument in argv):
            return [Failure("invalid_input", "A NUL character cannot be passed to a program.")]
        request = work.folder / "request.json"
        request.write_text(json.dumps(values))
        with request.open("rb") as stdin, work.log.open("ab") as log:
            process = subprocess.Popen(
                guard.guarded(argv), stdin=stdin, stdout=subprocess.PIPE, stderr=log,
                cwd=work.folder, start_new_session=True,
            )  # fmt: skip
            with process:
                try:
                    stopped = self._followed(process, work, course, log)
                finally:
                    guard.end(process)
        return [Stopped() if stopped else self._outcome(process.returncode, output)]

    def _followed(self, process: subprocess.Popen[bytes], work: Work, course: Course, log: IO[bytes]) -> bool:
        """Hears the program until it has ended, and stops it if that is wished; whether it was."""
        assert process.stdout is not None
        kill_at: float | None = None
        for line in _lines(process.stdout):
            if line:
                _hear(line, work, course, log)
            if kill_at is None and course.wish(work) is not Wish.go_on:
                guard.terminate(process)
                kill_at = time.monotonic() + self._config.stop_seconds
            elif kill_at is not None and time.monotonic() > kill_at:
                guard.end(process)
        process.wait()
        return kill_at is not None

    def _outcome(self, code: int, output: Path) -> Outcome:
        program = Path(self._config.command[0]).name
        if code == 0:
            if not output.is_file():
                return Failure("bad_output", f"{program} ended well, but wrote no output.")
            return Output(output)
        if code < 0:
            died_of = signal.Signals(-code)
            kind = "node" if died_of in _ENDED_FROM_OUTSIDE else "crashed"
            return Failure(kind, f"{program} died of {died_of.name}.")
        if code == _NOT_FOUND:
            return Failure("model_unavailable", f"{program} cannot be run.")
        kind = self._config.exit_codes.get(code) or _EXIT_CODES.get(code, "model_failed")
        return Failure(kind, f"{program} ended with exit code {code}.")


def _values(work: Work, output: Path) -> dict[str, Any]:
    width, height = pixels(work.size)
    return {
        "job": work.job,
        "epoch": work.epoch,
        "prompt": work.prompt,
        "seconds": work.seconds,
        "size": work.size,
        "width": width,
        "height": height,
        "parameters": dict(work.parameters),
        "folder": str(work.folder),
        "output": str(output),
        "input": str(work.input or ""),
        "resume": str(work.resume or ""),
    }


def _filled(argument: str, values: Mapping[str, Any]) -> str:
    """The argument with its placeholders replaced, once: what a prompt holds in braces stays as it is."""

    def value(placeholder: re.Match[str]) -> str:
        name, _, inner = placeholder[1].partition(".")
        if name not in values:
            return placeholder[0]
        found = values[name].get(inner, "") if inner and isinstance(values[name], dict) else values[name]
        return found if isinstance(found, str) else json.dumps(found)

    return _PLACEHOLDER.sub(value, argument)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The stream's lines as they come, and an empty one whenever none came for a while; to its end."""
    with DefaultSelector() as selector:
        selector.register(stream, EVENT_READ)
        rest = b""
        while True:
            if not selector.select(_LOOK_SECONDS):
                yield b""
                continue
            piece = stream.read1(1 << 16)  # type: ignore[attr-defined]
            if not piece:
                break
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in lines)
            if len(rest) > 1 << 16:
                yield rest
                rest = b""
    if rest:
        yield rest


def _hear(line: bytes, work: Work, course: Course, log: IO[bytes]) -> None:
    if (step := _STEP.fullmatch(line)) and int(step[1]) <= int(step[2]) > 0:
        course.step(int(step[1]), int(step[2]))
        return
    if saved := _CHECKPOINT.fullmatch(line):
        path = (work.folder / saved[2].decode(errors="surrogateescape")).resolve()
        if path.is_relative_to(work.folder.resolve()) and path.is_file():
            course.saved(work, int(saved[1]), path)
            return
    log.write(line)
    log.flush()
