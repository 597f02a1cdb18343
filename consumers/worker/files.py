"""The files of attempts, between this host and S3: work of CPU, disk and network that takes no slot of a model.

Two pools of threads: one prepares (inputs, checkpoints to resume from) and saves checkpoints, one finishes outputs, so
that a long upload delays no start. Where S3 is away, what is here is kept and sent again while the attempt lives.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from headwater.connectors.media import BadOutput, probe, thumbnail
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.client import Web
from headwater.consumers.worker.attempts import Held, Trouble
from headwater.consumers.worker.messages import Attempt
from headwater.observe import job_metrics, logs
from headwater.rules.errors import BadUrl, HeadwaterError, NotFound, Refused, Transient
from headwater.schemas.worker_api import StoredCheckpoint

log = logs.logger()

Outcome = TypeVar("Outcome")

_PREPARING = 4
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 5.0
_INPUT_BYTES = 512 * 1024 * 1024
Container: TypeAlias = Literal["mp4", "bytes"]
_NAMES: dict[Container, str] = {"mp4": "video.mp4", "bytes": "output"}


@dataclass(frozen=True, slots=True)
class Prepared:
    attempt: Attempt
    input: Path | None = None
    resume: Path | None = None
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class CheckpointKept:
    """``checkpoint``: None where it could not be stored; the next one may."""

    attempt: Attempt
    checkpoint: StoredCheckpoint | None


@dataclass(frozen=True, slots=True)
class Finished:
    """``result``: as the job shows it."""

    attempt: Attempt
    result: dict[str, Any] | None = None
    trouble: Trouble | None = None


Told: TypeAlias = Prepared | CheckpointKept | Finished


class GivenUp(Exception):
    """The attempt is over: nobody waits for the outcome."""


class Files:
    """``tell`` gets each outcome, in a thread of the pools; ``wanted``: is an attempt still this worker's?"""

    def __init__(
        self,
        store: ObjectStore,
        web: Web,
        *,
        finishing: int,
        tell: Callable[[Told], None],
        wanted: Callable[[Attempt], bool],
    ) -> None:
        self._store, self._web = store, web
        self._tell, self._wanted = tell, wanted
        self._preparing = ThreadPoolExecutor(_PREPARING, "prepare")
        self._finishing = ThreadPoolExecutor(finishing, "finish")

    def close(self) -> None:
        """Waits for nobody: what is under way writes to keys that belong to its attempt alone."""
        self._preparing.shutdown(wait=False, cancel_futures=True)
        self._finishing.shutdown(wait=False, cancel_futures=True)

    def prepare(self, held: Held) -> None:
        attempt = held.attempt
        self._preparing.submit(
            self._run, lambda trouble: Prepared(attempt, trouble=trouble), self._prepare, attempt, held
        )

    def keep_checkpoint(self, held: Held, step: int, path: Path) -> None:
        attempt = held.attempt
        self._preparing.submit(
            self._run, lambda _trouble: CheckpointKept(attempt, None), self._keep_checkpoint, attempt, step, path
        )

    def finish(self, held: Held, container: Container) -> None:
        assert held.output is not None
        attempt, output = held.attempt, held.output
        self._finishing.submit(
            self._run, lambda trouble: Finished(attempt, trouble=trouble), self._finish, attempt, output, container
        )

    def remove(self, folder: Path) -> None:
        self._preparing.submit(shutil.rmtree, folder, ignore_errors=True)

    def _run(
        self,
        failed: Callable[[Trouble], Told],
        work: Callable[..., Told],
        attempt: Attempt,
        *given: Any,
    ) -> None:
        """Each attempt that is wanted hears an outcome: beats would keep one that hears nothing alive for ever."""
        try:
            outcome = work(attempt, *given)
        except GivenUp:
            return
        except Exception as error:
            log.exception("worker.unexpected", job=attempt[0], epoch=attempt[1])
            outcome = failed(Trouble("internal", f"{type(error).__name__}: {error}"))
        self._tell(outcome)

    def _prepare(self, attempt: Attempt, held: Held) -> Prepared:
        try:
            resume = self._resume(attempt, held.claimed.checkpoint, held.folder)
            return Prepared(attempt, self._input(held.claimed.request.get("input_url"), held.folder), resume)
        except (BadUrl, Refused) as error:
            return Prepared(attempt, trouble=Trouble("input_refused", str(error)))
        except OSError as error:
            return Prepared(attempt, trouble=Trouble("node", str(error)))
        except Transient as error:
            return Prepared(attempt, trouble=Trouble("input_unavailable", str(error)))
        except HeadwaterError as error:
            return Prepared(attempt, trouble=Trouble("internal", str(error)))

    def _input(self, url: str | None, folder: Path) -> Path | None:
        if not url:
            return None
        path = folder / "input"
        self._web.download(url, path, most_bytes=_INPUT_BYTES)
        return path

    def _resume(self, attempt: Attempt, checkpoint: StoredCheckpoint | None, folder: Path) -> Path | None:
        """A checkpoint that is gone is none: the attempt begins from the start."""
        if checkpoint is None:
            return None
        path = folder / "resume"

        def download() -> Path | None:
            try:
                with path.open("wb") as file:
                    for chunk in self._store.chunks(checkpoint.key):
                        file.write(chunk)
            except NotFound:
                path.unlink()
                log.warning("checkpoint.gone", job=attempt[0], key=checkpoint.key)
                return None
            return path

        return self._persistently(attempt, download)

    def _keep_checkpoint(self, attempt: Attempt, step: int, path: Path) -> CheckpointKept:
        job, epoch = attempt
        key = f"r/{job}/{epoch}/checkpoint-{step}"
        try:
            self._persistently(attempt, lambda: self._store.put_file(key, path))
        except (HeadwaterError, OSError) as error:
            log.error("checkpoint.not_kept", job=job, epoch=epoch, step=step, error=str(error))
            return CheckpointKept(attempt, None)
        finally:
            path.unlink(missing_ok=True)
        return CheckpointKept(attempt, StoredCheckpoint(key=key, step=step, epoch=epoch))

    def _finish(self, attempt: Attempt, output: Path, container: Container) -> Finished:
        try:
            with job_metrics.WORKER_UPLOAD_SECONDS.time():
                return Finished(attempt, self._stored(attempt, output, container))
        except BadOutput as error:
            return Finished(attempt, trouble=Trouble("bad_output", str(error)))
        except HeadwaterError as error:
            return Finished(attempt, trouble=Trouble("upload_failed", str(error)))
        except OSError as error:
            return Finished(attempt, trouble=Trouble("node", str(error)))

    def _stored(self, attempt: Attempt, output: Path, container: Container) -> dict[str, Any]:
        """What the job's result says of the output, once all of it is in S3."""
        probed = probe(output, container)
        base = f"r/{attempt[0]}/{attempt[1]}"
        keys = {"key": f"{base}/{_NAMES[container]}"}
        self._persistently(attempt, lambda: self._store.put_file(keys["key"], output))
        if probed.frames:
            picture = output.with_name("thumbnail.jpg")
            thumbnail(output, picture)
            keys["thumbnail"] = f"{base}/thumbnail.jpg"
            self._persistently(attempt, lambda: self._store.put_file(keys["thumbnail"], picture))
        return {**keys, **asdict(probed)}

    def _persistently(self, attempt: Attempt, step: Callable[[], Outcome]) -> Outcome:
        """Again and again while S3 is away and the attempt is wanted."""
        wait = _FIRST_WAIT_SECONDS
        while self._wanted(attempt):
            try:
                return step()
            except Transient as error:
                log.warning("worker.waits_for_s3", job=attempt[0], epoch=attempt[1], error=str(error))
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
        raise GivenUp
