"""Case 25: a host whose clock is wrong by more than S3 allows (15 minutes), and the same process once it is set right.

The clock is turned for a whole process, whatever language asks for it: a few lines of C before libc.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TURN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *out) {
    static int (*ask)(clockid_t, struct timespec *);
    if (!ask) ask = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = ask(id, out), seconds = 0;
    FILE *file;
    if (id == CLOCK_REALTIME && (file = fopen(getenv("CLOCK_AHEAD"), "r"))) {
        if (fscanf(file, "%d", &seconds) == 1) out->tv_sec += seconds;
        fclose(file);
    }
    return answer;
}
"""

CLIENT = """
import sys
from pathlib import Path
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import Unavailable

store, ahead, wrong = ObjectStore(S3Config.from_url(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
upload = store.create_multipart("objects/ab/large.1")
ahead.write_text(wrong)
for put in (lambda: store.put_whole("objects/ab/x.1", b"light"),
            lambda: store.upload_part("objects/ab/large.1", upload, 1, b"part")):
    try:
        put()
    except Unavailable as error:
        assert "15 minutes" in error.advice, error
        assert "because of its time" in error.happened, error
    else:
        raise AssertionError("the server took a request of another time")
ahead.write_text("0")  # as NTP would: the same client signs anew, and what it began goes on
store.put_whole("objects/ab/x.1", b"light")
store.complete_multipart("objects/ab/large.1", upload, {1: store.upload_part("objects/ab/large.1", upload, 1, b"part")})
assert store.get("objects/ab/x.1") == b"light" and store.get("objects/ab/large.1") == b"part"
"""


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that turns the clock. Where nothing compiles C, the test is skipped."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "turn.c").write_text(TURN)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O", "-o", folder / "turn.so", folder / "turn.c", "-ldl"], check=True
    )
    return folder / "turn.so"


@pytest.mark.parametrize("ahead", [20 * 60, -20 * 60])
def test_a_wrong_clock_is_named_and_its_requests_pass_once_it_is_right(
    turned: Path, bucket: str, tmp_path: Path, ahead: int
) -> None:
    clock = tmp_path / "ahead"
    clock.write_text("0")
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, bucket, clock, str(ahead)],
        env={"LD_PRELOAD": str(turned), "CLOCK_AHEAD": str(clock), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
