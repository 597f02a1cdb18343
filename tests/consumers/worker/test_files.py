"""The files of attempts: whatever goes wrong with them is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.client import Web
from headwater.consumers.worker.attempts import Trouble
from headwater.consumers.worker.files import CheckpointKept, Files, Finished, Prepared


class Attempted:
    """As much of a held job as its files look at."""

    def __init__(self, output: Path) -> None:
        self.attempt = ("video_1", 1)
        self.output = output


def test_an_error_that_nobody_foresaw_is_told_as_trouble_and_leaves_no_attempt_without_an_outcome(
    tmp_path: Path, eventually: Callable[..., object]
) -> None:
    # given files whose store is broken in a way of its own
    output = tmp_path / "output"
    output.write_bytes(b"result")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_bytes(b"so far")
    told: list[Prepared | CheckpointKept | Finished] = []
    nothing: Any = object()
    files = Files(
        cast(ObjectStore, nothing), cast(Web, nothing), finishing=1, tell=told.append, wanted=lambda _attempt: True
    )
    held: Any = Attempted(output)

    # when an output is to be stored, and a checkpoint, and a job to be prepared, then each hears of it
    files.finish(held, "bytes")
    files.keep_checkpoint(held, 8, checkpoint)
    files.prepare(held)
    eventually(lambda: len(told) == 3)
    files.close()
    by_kind = {type(one): one for one in told}
    finished, prepared = by_kind[Finished], by_kind[Prepared]
    assert isinstance(finished, Finished)
    assert isinstance(finished.trouble, Trouble)
    assert finished.trouble.code == "internal"
    assert "put_file" in finished.trouble.message
    assert isinstance(prepared, Prepared)
    assert prepared.trouble is not None
    assert by_kind[CheckpointKept] == CheckpointKept(("video_1", 1), None)
