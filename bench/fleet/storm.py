"""``python -m fleet.storm``: many processes of headwater within milliseconds, each as if started by itself.

Reads a JSON list from its input: of each process its ``words``, ``environment``, ``folder`` and ``log``. Everything is
imported once; then all are forked, wait at one gate, and go. Ends when all have ended, with the number that failed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> int:
    started: Sequence[Mapping[str, Any]] = json.load(sys.stdin)
    import headwater.cli.cast.join  # noqa: F401  what each of them would import

    gate, opener = os.pipe()
    children = [_fork(one, gate, opener) for one in started]
    os.close(opener)  # whoever reads at the gate now reads its end
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return sum(code != 0 for code in codes)


def _fork(one: Mapping[str, Any], gate: int, opener: int) -> int:
    """The child's pid; the child itself never returns."""
    child = os.fork()
    if child:
        return child
    os.close(opener)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    log = os.open(one["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.environ.clear()
    os.environ.update(one["environment"])
    os.chdir(one["folder"])
    os.read(gate, 1)
    from headwater.cli import main as headwater

    sys.argv = ["headwater", *one["words"]]
    code = 0
    try:
        headwater()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # no child may go on as its parent
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
