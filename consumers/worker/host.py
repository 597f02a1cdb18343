"""The process that runs a model: one batch at a time, told what to do over a socket, and replaceable at any moment.

    python -m headwater.consumers.worker.host FD SPEC

``FD`` is its end of a socket pair (messages.py), ``SPEC`` is ``{"model": name, "options": {…}}``. The model has the
main thread, as frameworks like it; a second thread hears the supervisor. Neither beats: a model that keeps the
interpreter to itself stops its own steps and nothing else. When the socket ends, the supervisor is gone or wants this
process gone, and it exits at once; the guard that it runs under takes whatever the model started
(connectors/models/guard.py).

What the model prints while it runs one work goes to that work's log, whose end the job's owner may read. What it prints
at other times, or with several works in hand, stays with the operator: it could hold another tenant's prompt.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from headwater.connectors.models.backends import build
from headwater.connectors.models.protocol import Failure, Model, Outcome, Output, Wish, Work, failure_of
from headwater.consumers.worker import messages
from headwater.consumers.worker.messages import (
    Attempt,
    Checkpoint,
    FromHost,
    Generate,
    Hello,
    Loaded,
    LoadFailed,
    Result,
    ResultKind,
    Results,
    Steps,
    Stop,
)

_UNUSABLE = {"driver"}
"""After these failures the process goes: a GPU's context does not recover, and would fail each later job too."""


class Host:
    """One model, and the conversation about it."""

    def __init__(self, model: Model, channel: socket.socket) -> None:
        self._model = model
        self._channel = channel
        self._sending = threading.Lock()
        self._batches: queue.SimpleQueue[tuple[Work, ...]] = queue.SimpleQueue()
        self._wishes: dict[Attempt, Wish] = {}

    def run(self) -> None:
        """Returns where the model cannot be loaded or used any more."""
        self.tell(Hello(self._model.capabilities().to_json()))
        threading.Thread(target=self._hear, name="supervisor", daemon=True).start()
        if not self._loaded():
            return
        usable = True
        while usable:
            batch = self._batches.get()
            started = time.monotonic()
            outcomes = self._generated(batch)
            seconds = (time.monotonic() - started) / len(batch)
            usable = not any(isinstance(one, Failure) and one.code in _UNUSABLE for one in outcomes)
            results = tuple(_result(work, one, seconds) for work, one in zip(batch, outcomes, strict=True))
            for work in batch:
                self._wishes.pop((work.job, work.epoch), None)
            self.tell(Results(results))

    def _loaded(self) -> bool:
        started = time.monotonic()
        try:
            self._model.load()
        except Exception as error:
            traceback.print_exc()
            failure = failure_of(error, otherwise="model_unavailable")
            self.tell(LoadFailed(failure.code, failure.message))
            return False
        self.tell(Loaded(time.monotonic() - started))
        return True

    def _generated(self, batch: Sequence[Work]) -> Sequence[Outcome]:
        course = HostCourse(self, batch)
        course.step(0, 0)
        with _logged(batch):
            try:
                outcomes = self._model.generate(batch, course)
            except Exception as error:
                traceback.print_exc()
                failure = failure_of(error)
                if len(batch) > 1:  # its words could be about another one's work
                    failure = Failure(failure.code, f"The batch that it ran in failed: {type(error).__name__}.")
                return [failure] * len(batch)
        if len(outcomes) != len(batch):
            return [Failure("model_failed", "The model did not answer for each of its works.")] * len(batch)
        return outcomes

    def wish(self, work: Work) -> Wish:
        return self._wishes.get((work.job, work.epoch), Wish.go_on)

    def _hear(self) -> NoReturn:
        try:
            with self._channel.makefile("rb") as lines:
                for line in lines:
                    self._heard(messages.decode(line))
        except ConnectionResetError:
            pass  # the supervisor was killed, and had not read all that we said
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)

    def _heard(self, message: messages.ToHost | FromHost) -> None:
        if isinstance(message, Generate):
            works = tuple(_work(work) for work in message.works)
            self._wishes.update({(work.job, work.epoch): Wish.go_on for work in works})
            self._batches.put(works)
        elif isinstance(message, Stop):
            wish = Wish.leave if message.checkpoint else Wish.stop
            self._wishes.update({work: wish for work in message.works if work in self._wishes})

    def tell(self, message: FromHost) -> None:
        with self._sending:
            self._channel.sendall(messages.encode(message))


class HostCourse:
    """The supervisor's view of one batch, kept up to date."""

    def __init__(self, host: Host, batch: Sequence[Work]) -> None:
        self._host = host
        self._batch = batch

    def step(self, step: int, steps: int) -> None:
        self._host.tell(Steps(tuple((work.job, work.epoch, step, steps) for work in self._batch)))

    def wish(self, work: Work) -> Wish:
        return self._host.wish(work)

    def saved(self, work: Work, step: int, path: Path) -> None:
        self._host.tell(Checkpoint(work.job, work.epoch, step, str(path)))


def _work(said: messages.HostWork) -> Work:
    return Work(
        job=said.job,
        epoch=said.epoch,
        prompt=said.prompt,
        seconds=int(said.seconds),
        size=said.size,
        parameters=said.parameters,
        folder=Path(said.folder),
        input=Path(said.input) if said.input else None,
        resume=Path(said.resume) if said.resume else None,
    )


def _result(work: Work, outcome: Outcome, seconds: float) -> Result:
    def ended(kind: ResultKind, path: str = "", code: str = "", message: str = "") -> Result:
        return Result(
            kind=kind, job=work.job, epoch=work.epoch, gpu_seconds=seconds, path=path, code=code, message=message
        )

    if isinstance(outcome, Output):
        return ended(ResultKind.done, path=str(outcome.path))
    if isinstance(outcome, Failure):
        return ended(ResultKind.failed, code=outcome.code, message=outcome.message)
    return ended(ResultKind.stopped)


@contextmanager
def _logged(batch: Sequence[Work]) -> Iterator[None]:
    """While one work is alone, what is printed goes to its log: also by the model's libraries, and by its children."""
    if len(batch) > 1:
        yield
        return
    ours = [os.dup(1), os.dup(2)]
    log = os.open(batch[0].log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        _point_output_at([log, log])
        yield
    finally:
        _point_output_at(ours)
        for descriptor in (*ours, log):
            os.close(descriptor)


def _point_output_at(descriptors: Sequence[int]) -> None:
    for stream, number, descriptor in zip((sys.stdout, sys.stderr), (1, 2), descriptors, strict=True):
        stream.flush()
        os.dup2(descriptor, number)


def main(descriptor: int, spec: str) -> None:
    # Whoever ends a service may signal all its processes: the supervisor says when this one's work is over.
    for told in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(told, signal.SIG_IGN)
    faulthandler.enable()
    said = json.loads(spec)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)  # what the model starts must not hold it open
    Host(build(said["model"], said["options"]), channel).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
