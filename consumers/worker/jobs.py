"""What becomes of each attempt that this worker holds. Belongs to the supervisor's thread; nothing here waits.

    granted ─► claimed ─► prepared ─► waiting ─► generating ─► generated ─► finishing ─► ending ─► gone
                                               └─► concluding (stopped or failed) ──┘

At any point it may be stopped (cancelled, drained, hung, lost to another worker), or fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwater.connectors.models.protocol import log_tail
from headwater.consumers.worker import batching, measures
from headwater.consumers.worker.asking import Asking, EndsAnswered
from headwater.consumers.worker.attempts import Attempts, Ending, Held, Phase, Trouble
from headwater.consumers.worker.batching import Waiting
from headwater.consumers.worker.config import WorkerConfig
from headwater.consumers.worker.files import CheckpointKept, Files, Finished, Prepared
from headwater.consumers.worker.messages import Attempt, Checkpoint, Result, ResultKind, Results, Steps
from headwater.consumers.worker.slots import Slots
from headwater.observe import job_metrics, logs
from headwater.schemas.worker_api import Beat, Claimed, ClaimOutcome, Completed, Failed, Stage, Stopped

log = logs.logger()

_FINISHING_SECONDS = 0.05
"""What is over sooner needs no beat of its own."""
_MESSAGE_CHARACTERS = 4_000
_HUNG = Trouble("timed_out", "The model made no step for longer than its limit, and was killed.")


class Jobs:
    """``attempts`` is read by the beats too."""

    def __init__(self, config: WorkerConfig, folder: Path, attempts: Attempts, slots: Slots) -> None:
        self._config = config
        self._folder = folder
        self._slots = slots
        self.attempts = attempts
        self.draining = False

    def connect(self, asking: Asking, files: Files) -> None:
        """They tell what happens here to others, and were made after it."""
        self._asking, self._files = asking, files

    # What is new

    def claimed(self, claim: Claimed, now: float) -> None:
        attempt = (claim.job, claim.epoch)
        if claim.outcome is not ClaimOutcome.claimed or attempt in self.attempts:
            return
        held = Held(claim, self._folder / f"{claim.job}.{claim.epoch}", now)
        self.attempts.add(held)
        log.info("job.claimed", job=claim.job, epoch=claim.epoch, resume=claim.checkpoint and claim.checkpoint.step)
        try:
            held.folder.mkdir(parents=True)
        except OSError as error:
            self._fail(held, Trouble("node", f"the work folder takes no more: {error}"))
            return
        if self.draining:
            self.stop(held, Ending.released, now)
        elif claim.checkpoint is None and not claim.request.get("input_url"):
            held.phase = Phase.waiting
        else:
            self._files.prepare(held)

    def prepared(self, event: Prepared) -> None:
        held = self.attempts.get(event.attempt)
        if held is None or held.phase is not Phase.preparing:
            return
        if event.trouble is not None:
            self._fail(held, event.trouble)
        else:
            held.input, held.resume = event.input, event.resume
            held.phase = Phase.waiting

    def begin(self, now: float) -> float | None:
        """Give the free hosts what waits; returns in how many seconds to look again though nothing happens."""
        capabilities = self._slots.capabilities
        assert capabilities is not None
        waiting = [Waiting(held.attempt, held.shape, held.since) for held in self.attempts.of_phase(Phase.waiting)]
        free_slots = max(0, self._config.slots - self.attempts.occupied)
        for host in self._slots.free():
            batch = batching.next_batch(
                waiting,
                now=now,
                max_batch=capabilities.max_batch,
                wait_seconds=capabilities.batch_wait_seconds,
                free=free_slots,
            )
            if not batch:
                break
            self._generate(host, [self.attempts.held[one.attempt] for one in batch], now)
            waiting = [one for one in waiting if one not in batch]
        return batching.patience(waiting, now=now, wait_seconds=capabilities.batch_wait_seconds)

    def _generate(self, host: int, batch: Sequence[Held], now: float) -> None:
        job_metrics.WORKER_BATCH.observe(len(batch))
        for held in batch:
            held.phase, held.host, held.since = Phase.generating, host, now
        self._slots.generate(host, [held.work() for held in batch])

    # What the model says

    def stepped(self, event: Steps) -> None:
        for job, epoch, step, steps in event.steps:
            if (held := self.attempts.get((job, epoch))) is not None:
                held.step, held.steps, held.begun = step, steps, True

    def checkpointed(self, event: Checkpoint) -> None:
        """One upload at a time for a job; of those that came meanwhile only the newest."""
        held = self.attempts.get((event.job, event.epoch))
        if held is None:
            return
        if held.uploading:
            held.newest_file = (event.step, Path(event.path))
        else:
            held.uploading = True
            self._files.keep_checkpoint(held, event.step, Path(event.path))

    def kept(self, event: CheckpointKept) -> None:
        held = self.attempts.get(event.attempt)
        if held is None:
            return
        held.checkpoint = event.checkpoint or held.checkpoint
        held.uploading = held.newest_file is not None
        if held.newest_file is not None:
            step, path = held.newest_file
            held.newest_file = None
            self._files.keep_checkpoint(held, step, path)
        elif held.phase is Phase.concluding:
            self._tell_end(held)

    def resulted(self, host: int, event: Results) -> None:
        for result in event.results:
            held = self.attempts.get((result.job, result.epoch))
            if held is not None and held.phase is Phase.generating:
                held.gpu_seconds = result.gpu_seconds
                self._resulted(held, result)
        if not self.attempts.of_host(host):
            self._slots.done(host)

    def _resulted(self, held: Held, result: Result) -> None:
        held.phase, held.end_by = Phase.generated, None
        if held.ending in (Ending.cancelled, Ending.lost) or (held.ending and result.kind is ResultKind.stopped):
            self._conclude(held)
        elif result.kind is ResultKind.done:
            held.output = Path(result.path)
            held.ending = None
        elif result.kind is ResultKind.failed:
            self._fail(held, Trouble(result.code, result.message))
        else:
            held.ending = Ending.released
            self._conclude(held)

    def host_died(self, host: int, now: float, *, of_itself: bool) -> None:
        """Its batch fails, where we did not kill it; where we did, those go back whom nobody meant. What it had not
        begun with waits for another host."""
        batch = self.attempts.of_host(host)
        for held in batch:
            if held.ending is None and not held.begun:
                held.phase, held.host = Phase.waiting, None
                continue
            held.phase, held.gpu_seconds = Phase.generated, (now - held.since) / len(batch)
            if held.ending is None and of_itself:
                self._fail(held, Trouble("crashed", "The model's process died."))
            else:
                held.ending = held.ending or Ending.released
                self._conclude(held)

    # What comes after the model

    def finish(self, now: float) -> None:
        """Let finish what is generated; too many at once would pile up, so that the rest keeps its slots."""
        assert self._slots.capabilities is not None
        room = self._config.finishing + 2 * self._config.slots - len(self.attempts.of_phase(Phase.finishing))
        generated = [held for held in self.attempts.of_phase(Phase.generated) if held.ending is None]
        for held in generated[: max(0, room)]:
            held.phase, held.since = Phase.finishing, now
            self._files.finish(held, self._slots.capabilities.container)

    def long_finishing(self, now: float) -> bool:
        """Is there news for who grants: a slot that is free while its last job takes its time to end?"""
        news = [held for held in self.attempts.of_phase(Phase.finishing) if not held.told_finishing]
        late = [held for held in news if now - held.since > _FINISHING_SECONDS]
        for held in late:
            held.told_finishing = True
        return bool(late)

    def finished(self, event: Finished) -> None:
        held = self.attempts.get(event.attempt)
        if held is None or held.phase is not Phase.finishing:
            return
        if event.result is None:
            assert event.trouble is not None
            self._fail(held, event.trouble)
            return
        held.phase = Phase.ending
        self._asking.report(
            Completed(job=held.claimed.job, epoch=held.claimed.epoch, result=event.result, gpu_seconds=held.gpu_seconds)
        )

    def ended(self, event: EndsAnswered) -> None:
        for end in event.ends:
            held = self.attempts.get((end.job, end.epoch))
            log.info("job.ended", job=end.job, epoch=end.epoch, said=event.kind.__name__, outcome=end.outcome.value)
            if held is not None:
                measures.ended(event.kind, end.outcome)
                self._remove(held)

    # Ends before time

    def stop(self, held: Held, ending: Ending, now: float) -> None:
        """Stop an attempt wherever it is. ``lost`` outweighs what was wished before."""
        if held.ending is ending or (held.ending is not None and ending is not Ending.lost):
            return
        log.info("job.stopping", job=held.claimed.job, epoch=held.claimed.epoch, why=ending.value, phase=held.phase)
        held.ending = ending
        if held.phase is Phase.generating:
            assert held.host is not None
            held.end_by = now + self._config.stop_seconds
            if ending is Ending.hung:
                self._slots.kill(held.host)
            else:
                self._slots.stop(held.host, held.attempt, checkpoint=ending is Ending.released)
        elif held.phase is Phase.ending and ending is not Ending.lost:
            return  # the answer to what is being told decides
        else:
            self._conclude(held)

    def kill_overdue(self, now: float) -> None:
        """Models that do not stop. A batch goes on for those of it that are wanted; the others end with it."""
        for host in {held.host for held in self.attempts.of_phase(Phase.generating) if held.end_by is not None}:
            assert host is not None
            if all(held.end_by is not None and now > held.end_by for held in self.attempts.of_host(host)):
                log.warning("host.killed", host=host)
                self._slots.kill(host)

    def give_back(self, attempt: Attempt) -> None:
        """A grant that this worker does not want to claim."""
        self._asking.report(Beat(job=attempt[0], epoch=attempt[1], step=0, steps=0, stage=Stage.granted))

    def conclude_overdue(self, now: float) -> None:
        """Checkpoints that S3 does not take in time are left behind."""
        for held in self.attempts.of_phase(Phase.concluding):
            if held.end_by is None:
                held.end_by = now + self._config.stop_seconds
            elif now > held.end_by:
                self._tell_end(held)

    def _fail(self, held: Held, trouble: Trouble) -> None:
        log.warning(
            "job.failed", job=held.claimed.job, epoch=held.claimed.epoch, code=trouble.code, why=trouble.message
        )
        held.trouble = trouble
        self._conclude(held)

    def _conclude(self, held: Held) -> None:
        """It is over, but for a checkpoint that is on its way to S3 and that another attempt would go on from."""
        held.phase, held.end_by = Phase.concluding, None
        if held.ending is Ending.hung:
            held.trouble = _HUNG
        if not held.uploading or held.ending in (Ending.cancelled, Ending.lost):
            self._tell_end(held)

    def _tell_end(self, held: Held) -> None:
        job, epoch = held.attempt
        held.phase = Phase.ending
        if held.ending is Ending.lost:
            measures.lost()
            self._remove(held)
        elif held.ending is Ending.cancelled:
            self._asking.report(Stopped(job=job, epoch=epoch, gpu_seconds=held.gpu_seconds))
        elif held.trouble is not None:
            self._asking.report(
                Failed(
                    job=job,
                    epoch=epoch,
                    code=held.trouble.code,
                    message=held.trouble.message[:_MESSAGE_CHARACTERS],
                    log_tail=log_tail(held.folder),
                    gpu_seconds=held.gpu_seconds,
                    checkpoint=held.checkpoint,
                )
            )
        else:
            self._asking.report(held.last_beat())

    def _remove(self, held: Held) -> None:
        self.attempts.remove(held.attempt)
        self._files.remove(held.folder)
