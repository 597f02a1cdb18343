"""Where a demo lives: ``headwater.toml`` and ``.headwater/`` in the current folder, so that ``headwater up`` goes on.

A demo that is run again starts afresh: the state of the one before is removed. Only a demo's own state ever is: when
somebody edited the settings file, or used the state folder for a source of their own, nothing is touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from headwater.rules.errors import Refused, Unavailable

SITE = "demo"
SOURCE = "demo"
DELETE_HOLD_SECONDS = 5
WEAK_SETTLE_SECONDS = 2
LEASE_SECONDS = 5
FREE_BYTES = 5 * 1024**3
"""What the demo's folder, its objects, the log and the databases take, with room to breathe."""

_SIGNED = "# Written by `headwater demo`, which replaces this file and .headwater/ when it runs again: "


@dataclass(frozen=True, slots=True)
class Workplace:
    """``folder`` is the current folder of the demo. ``dataset`` and ``source`` share one name."""

    folder: Path
    name: str = SOURCE

    @property
    def settings_file(self) -> Path:
        return self.folder / "headwater.toml"

    @property
    def state(self) -> Path:
        return self.folder / ".headwater"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def media(self) -> Path:
        """The folder that is synced: a copy, to be edited freely."""
        return self.state / "demo" / "media"

    @property
    def exported(self) -> Path:
        """Where the last version is written to for the independent check."""
        return self.state / "demo" / "exported"

    @property
    def peers(self) -> Path:
        """Below it a folder for each peer, where the file that is cast appears."""
        return self.state / "demo" / "peers"

    @property
    def videos(self) -> Path:
        """Where a finished video is downloaded to."""
        return self.state / "demo" / "videos"

    def settings(self, ports: Mapping[str, int], api: Mapping[str, int]) -> str:
        """The settings file's text, signed, so that an edit shows. ``ports``: those of the stack, ``api``: those of the
        HTTP service, where unusual."""
        stack = "".join(f"{name}_port = {port}\n" for name, port in ports.items())
        service = "".join(f"{name} = {port}\n" for name, port in api.items())
        text = f"""\
# A longer delete_hold_seconds (60 by default) gives slow moves more time to be seen as renames.
site = "{SITE}"
dataset = "{self.name}"
state_folder = ".headwater"

[sources.{self.name}]
root = ".headwater/demo/media"
delete_hold_seconds = {DELETE_HOLD_SECONDS}
# Inside a container the disk is often an overlay, where nothing proves that a file is quiet: 30 by default there.
weak_settle_seconds = {WEAK_SETTLE_SECONDS}

# A worker that dies is missed after this: 10 by default.
[jobs]
lease_seconds = {LEASE_SECONDS}

# The demo's receiver of webhooks is on this machine, without TLS; by default only public addresses are called.
[web]
allow_http = true
allow_networks = ["127.0.0.0/8"]

{"[api]" if service else ""}
{service}
{"[stack]" if stack else ""}
{stack}"""
        return f"{_SIGNED}{_digest(text)}\n{text}"

    def is_ours(self) -> bool:
        """Is what is here just as a demo wrote it, with no source but the demo's?"""
        if not self.settings_file.exists():
            return not self.state.exists()
        if any(not source.name.startswith(SOURCE) for source in self.state.glob("sources/*")):
            return False
        first, _, rest = self.settings_file.read_text("utf-8").partition("\n")
        return first == f"{_SIGNED}{_digest(rest)}"

    def require_ours(self) -> None:
        """Raises Refused when replacing what is here would lose somebody's work, Unavailable when the disk is full."""
        if not self.is_ours():
            found = self.settings_file if self.settings_file.exists() else self.state
            raise Refused(
                f"{found} is not a demo's, or was changed since.",
                asked=f"The demo was to run in {self.folder}.",
                kept="Nothing was changed.",
                advice="Run it in another folder (mkdir demo && cd demo), or move that away.",
            )
        free = shutil.disk_usage(self.folder).free
        if free < FREE_BYTES:
            raise Unavailable(
                f"{free / 1e9:.1f} GB are free, the demo needs {FREE_BYTES / 1e9:.0f} GB.",
                asked=f"The demo was to run in {self.folder}.",
                kept="Nothing was changed.",
                advice="Free some space, or run it in a folder on another disk.",
            )

    def clear(self) -> bool:
        """Remove what a demo before left. True if there was something. Its processes must have ended."""
        there = self.state.exists()
        shutil.rmtree(self.state, ignore_errors=True)
        if self.state.exists():
            raise Refused(
                f"{self.state} could not be removed.",
                asked="The demo was to start afresh.",
                advice="Remove it by hand, or run the demo in another folder.",
            )
        self.settings_file.unlink(missing_ok=True)
        return there

    def prepare(self, ports: Mapping[str, int], api: Mapping[str, int]) -> None:
        """Write the settings and make the folder that will be synced, still empty."""
        self.media.mkdir(parents=True)
        self.settings_file.write_text(self.settings(ports, api), "utf-8")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
