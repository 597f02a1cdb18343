"""sync-rescan: a second run over 1,000,000 unchanged files of 1 KiB, by headwater and by rclone copy, and its memory.

Headwater: ``headwater sync ROOT --source NAME --once``, from the start of the process to its end, over the index of a
first run whose files are all verified. rclone: ``copy --fast-list --update --use-server-modtime`` into a bucket that
has every file. Both have everything in the page cache, end having found nothing to do, and that is checked.

Prepared once, not counted, kept in the cache: the tree (1,000 distinct contents); servers with the log, the catalog
and the objects of a first run of ours, which is measured too; and rclone's bucket, laid down in the S3 server's folder
(hard links, which the server cannot tell from files). The first quarter of the tree is a second source: memory beside
it shows what grows with the number of files.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import peers
import platformdirs
from installation import Installation
from measured import Measured, measured

from headwater.connectors.s3.config import S3Config
from headwater.producers.filesystem.index.database import FORMAT
from headwater.rules.errors import Unavailable
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.local import Stack

OWN_STACK = True
FILES_A_FOLDER = 1_000
CONTENTS = 1_000
FILE_BYTES = 1024
BUCKET = "rclone"
GROUPS = ("upload-files", "upload-parts")
"""A single run wants the site's uploaders alive."""


@dataclass(frozen=True, slots=True)
class Size:
    files: int
    rounds: int


FULL = Size(files=1_000_000, rounds=5)
QUICK = Size(files=20_000, rounds=1)


def run(quick: bool) -> dict[str, object]:
    """Measure both in turn, as often as ``Size`` says; returns the keys of the result."""
    size = QUICK if quick else FULL
    cache = platformdirs.user_cache_path("headwater") / "bench"
    tree = files(size, cache)
    home = cache / f"{tree.name}-index-{FORMAT}"
    first = prepared(size, tree, home)
    whole: list[Measured] = []
    quarter: list[Measured] = []
    rclone: list[Measured] = []
    with servers(home) as addresses:
        ours = Installation(addresses, "rescan", home / "rescan")
        ours.prepare()  # what younger code adds to topics and tables
        bucket = replace(S3Config.from_url(addresses.s3), bucket=BUCKET)
        with ours.members(*GROUPS):
            for number in range(size.rounds):
                warm(tree, home / "s3" / "objects" / BUCKET)
                quarter.append(second_run(ours, tree / "0", "quarter", size.files // 4))
                whole.append(second_run(ours, tree, "whole", size.files))
                rclone.append(peers.rclone_update(tree, bucket))
                print(f"round {number + 1}: headwater {_line(whole[-1])}; rclone {_line(rclone[-1])}", flush=True)
    return {
        "files": size.files,
        "rounds": size.rounds,
        "seconds": _median(whole),
        "rclone_seconds": _median(rclone),
        "ratio": round(statistics.median(r.seconds for r in rclone) / statistics.median(o.seconds for o in whole), 2),
        "rss_mib": round(max(one.rss_mib for one in whole), 1),
        "rss_mib_quarter": round(max(one.rss_mib for one in quarter), 1),
        "quarter_seconds": _median(quarter),
        "rclone_rss_mib": round(max(one.rss_mib for one in rclone), 1),
        "cpu_seconds": {"headwater": _median_cpu(whole), "rclone": _median_cpu(rclone)},
        "first_run": first,
        "peers": peers.versions(),
    }


def files(size: Size, cache: Path) -> Path:
    """The tree, in four quarters, seeded by number; made once into the cache."""
    tree = cache / f"rescan-{size.files}"
    if tree.exists():
        return tree
    cache.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=cache, prefix="draft-"))
    contents = [Random(number).randbytes(FILE_BYTES) for number in range(CONTENTS)]
    for number, place in places(size, draft):
        place.write_bytes(contents[number % CONTENTS])
    draft.rename(tree)
    return tree


def places(size: Size, root: Path) -> Iterator[tuple[int, Path]]:
    """Each file's number and place below ``root``; its folder exists."""
    folders = size.files // FILES_A_FOLDER
    for folder in range(folders):
        place = root / f"{folder * 4 // folders}" / f"{folder:04d}"
        place.mkdir(parents=True)
        for number in range(folder * FILES_A_FOLDER, (folder + 1) * FILES_A_FOLDER):
            yield number, place / f"{number:07d}.bin"


@contextmanager
def servers(home: Path) -> Iterator[Addresses]:
    stack = Stack(home, asdict(Ports.free()), environment={})
    try:
        yield stack.up()
    finally:
        stack.down()


def prepared(size: Size, tree: Path, home: Path) -> dict[str, object]:
    """Servers as a first run of each source left them, and rclone's bucket; returns the figures of the first run.

    What was interrupted goes on where it was.
    """
    first: dict[str, object] = {}
    bucket = home / "s3" / "objects" / BUCKET
    if not bucket.exists():
        lay_down(size, bucket)
    for source, root, expected in (("whole", tree, size.files), ("quarter", tree / "0", size.files // 4)):
        done = home / f"first-run-{source}.json"
        if not done.exists():
            print(f"preparing: a first run over {expected:,} files", flush=True)
            done.write_text(json.dumps(first_run(home, root, source, expected)), "utf-8")
        first[source] = json.loads(done.read_text("utf-8"))
    return first


def first_run(home: Path, root: Path, source: str, expected: int) -> dict[str, float]:
    with servers(home) as addresses:
        ours = Installation(addresses, "rescan", home / "rescan")
        ours.prepare()
        before = _seq(ours, source)
        with ours.members(*GROUPS, "verify-objects"):
            ran, _ = once(ours, root, source)
    return {
        "files_per_s": round((expected - before) / ran.seconds, 1),
        "rss_mib": round(ran.rss_mib, 1),
        "cpu_seconds": round(ran.cpu_seconds, 1),
    }


def lay_down(size: Size, bucket: Path) -> None:
    """rclone's bucket, in the folder that the S3 server serves. Its files are younger than the tree's."""
    bucket.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=bucket.parent, prefix="draft-"))
    originals: list[Path] = []
    for number, place in places(size, draft):
        if number < CONTENTS:
            place.write_bytes(Random(number).randbytes(FILE_BYTES))
            originals.append(place)
        else:
            os.link(originals[number % CONTENTS], place)
    draft.rename(bucket)


def warm(*folders: Path) -> None:
    """The same start for every run: names and stats are in the page cache, the disk has no older writes to do."""
    os.sync()
    for folder in folders:
        subprocess.run(["find", folder, "-newermt", "2100-01-01"], check=True, stdout=subprocess.DEVNULL)


def second_run(ours: Installation, root: Path, source: str, expected: int) -> Measured:
    """Raises Unavailable where the run found anything to do."""
    before = _seq(ours, source)
    ran, status = once(ours, root, source)
    if (status["files"], status["seq"], status["pending"]) != (expected, before, 0):
        raise Unavailable(
            f"a second run of {source} over {expected} files, at {before}, found changes: {status}.",
            advice="If files were touched, or the index or the catalog changed too much, remove the prepared folder.",
        )
    return ran


def once(ours: Installation, root: Path, source: str) -> tuple[Measured, dict[str, object]]:
    command = ours.command("sync", str(root), "--source", source, "--once", "--json")
    ran = measured(command, ours.environment())
    return ran, json.loads(ran.output.splitlines()[-1])


def _seq(ours: Installation, source: str) -> int:
    """The last change that the catalog knows of the source."""
    with ours.catalog() as catalog, catalog.transaction() as transaction:
        row = transaction.execute(
            "SELECT coalesce(max(seq), 0) FROM file_versions WHERE source = %s", [source]
        ).fetchone()
    return int(row[0]) if row else 0


def _median(runs: list[Measured]) -> float:
    return round(statistics.median(one.seconds for one in runs), 2)


def _median_cpu(runs: list[Measured]) -> float:
    return round(statistics.median(one.cpu_seconds for one in runs), 1)


def _line(ran: Measured) -> str:
    return f"{ran.seconds:.1f} s, {ran.cpu_seconds:.1f} s of CPU, {ran.rss_mib:.0f} MiB"
