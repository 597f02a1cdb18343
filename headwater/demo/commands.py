"""The demo drives the product as its user does: by the ``headwater`` command, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from secrets import token_hex

from headwater.demo.workplace import Workplace
from headwater.rules.errors import HeadwaterError, Unavailable
from headwater.stack.processes import start_detached

LOOK_SECONDS = 0.15
DEADLINE_SECONDS = 300.0


OWN_SETTINGS = (
    "HEADWATER_CONFIG",
    "HEADWATER_SITE",
    "HEADWATER_DATASET",
    "HEADWATER_STATE_FOLDER",
    "HEADWATER_SOURCES",
    "HEADWATER_PEER",
    "HEADWATER_API",
    "HEADWATER_CLIENT",
    "HEADWATER_WORKER",
    "HEADWATER_JOBS",
    "HEADWATER_WEB",
)


def demo_environment(place: Workplace) -> dict[str, str]:
    """This process's environment with the demo's settings file. Addresses of servers and secrets pass through; what
    the demo sets itself does not, since a variable would win over its file."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)}
    return {**kept, "HEADWATER_CONFIG": str(place.settings_file)}


def nothing() -> None:
    """What to do meanwhile where there is nothing to see yet."""


class CommandLine:
    """Runs ``headwater`` with the demo's settings."""

    def __init__(self, place: Workplace, *, colour: bool, width: int) -> None:
        self._place = place
        look = {"FORCE_COLOR": "1"} if colour else {"NO_COLOR": "1"}
        # Of the demo's own fleet and workers, wherever they meet.
        keys = {"HEADWATER_PEER__KEY": token_hex(32), "HEADWATER_WORKER__KEY": token_hex(32)}
        self._environment = {**demo_environment(place), **keys, "COLUMNS": str(width), **look}

    def know(self, variable: str, value: str) -> None:
        """Every command from now on has this variable."""
        self._environment[variable] = value

    def __call__(self, *arguments: str, meanwhile: Callable[[], object] = nothing) -> str:
        """What the command printed. ``meanwhile`` is called again and again while it runs.

        Raises HeadwaterError with what the command said of itself and its exit code, Unavailable when it hangs.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "headwater.cli", *arguments],
                cwd=self._place.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
            self._wait(process, arguments, meanwhile)
            out.seek(0)
            err.seek(0)
            if process.returncode != 0:
                raise _failure(arguments, process.returncode, (err.read() or out.read()).decode(errors="replace"))
            return out.read().decode(errors="replace")

    def start(self, name: str, *arguments: str) -> None:
        """Run the command detached, as process ``name`` of the demo's state folder: `headwater down` ends it."""
        argv = [sys.executable, "-m", "headwater.cli", *arguments]
        start_detached(name, argv, self._environment, self._place.state)

    def _wait(
        self, process: subprocess.Popen[bytes], arguments: tuple[str, ...], meanwhile: Callable[[], object]
    ) -> None:
        waited = 0.0
        try:
            while True:
                try:
                    process.wait(LOOK_SECONDS)
                    return
                except subprocess.TimeoutExpired:
                    waited += LOOK_SECONDS
                if waited > DEADLINE_SECONDS:
                    raise Unavailable(
                        f"it did not end within {DEADLINE_SECONDS:.0f} s.",
                        asked=f"The demo ran: {shown(*arguments)}",
                        kept="It was ended; what it had done is kept.",
                        advice=f"See the logs in {self._place.logs}.",
                    )
                meanwhile()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def shown(*arguments: str) -> str:
    """The command as a user would type it."""
    return " ".join(["headwater", *(json.dumps(word) if " " in word else word for word in arguments)])


def _failure(arguments: tuple[str, ...], code: int, said: str) -> HeadwaterError:
    failure = HeadwaterError(
        f"it ended with {code} and said:\n{said.strip()}", asked=f"The demo ran: {shown(*arguments)}"
    )
    failure.exit_code = code
    return failure
