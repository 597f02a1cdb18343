"""How the test card fails on request, for tests and for showing what the service does then.

A worker's option ``faults`` allows it; otherwise the parameters below are in no schema, and the API refuses them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

from headwater.connectors.models.protocol import ModelError, Work

_STEP = {"type": "integer", "minimum": 0}
SCHEMA: dict[str, Any] = {
    "fail_at_step": {**_STEP, "description": "Raise an error with the code `fail_code` before this step."},
    "fail_code": {"type": "string", "pattern": "^[a-z_]{1,40}$", "default": "model_failed"},
    "crash_at_step": {**_STEP, "description": "Die of a segmentation fault."},
    "killed_at_step": {**_STEP, "description": "Die as the kernel kills a process when memory runs out."},
    "oom_at_step": {**_STEP, "description": "Ask for more memory than there is."},
    "hang_at_step": {**_STEP, "description": "Never come back."},
    "hold_at_step": {**_STEP, "description": "Keep the interpreter's lock for `hold_seconds`."},
    "hold_seconds": {"type": "number", "minimum": 0, "maximum": 600, "default": 1},
    "until_epoch": {"type": "integer", "minimum": 1, "description": "Only in attempts up to this one."},
    "step_seconds": {"type": "number", "minimum": 0, "maximum": 60, "description": "How long each step takes."},
}


def befall(work: Work, step: int) -> None:
    """Does to the process what the work asks for before ``step``."""
    asked: Mapping[str, Any] = work.parameters
    if work.epoch > asked.get("until_epoch", work.epoch):
        return
    if asked.get("fail_at_step") == step:
        raise ModelError(asked.get("fail_code", "model_failed"), f"It was asked to fail at step {step}.")
    if asked.get("crash_at_step") == step:
        os.kill(os.getpid(), signal.SIGSEGV)
    if asked.get("killed_at_step") == step:
        os.kill(os.getpid(), signal.SIGKILL)
    if asked.get("oom_at_step") == step:
        bytearray(1 << 62)
    if asked.get("hang_at_step") == step:
        threading.Event().wait()
    if asked.get("hold_at_step") == step:
        microseconds = round(asked.get("hold_seconds", 1) * 1_000_000)
        ctypes.PyDLL(None).usleep(microseconds)  # called so, a C function keeps the lock
