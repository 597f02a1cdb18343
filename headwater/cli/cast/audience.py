"""Who shall have a cast, and who has it, for its publisher. Pure: from what the log says of the cast."""

from __future__ import annotations

from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_manifest import RACK
from headwater.schemas.cast_records import CastState


def expected(history: CastHistory) -> set[str]:
    """The hosts that are targets by name, and those that are there now and that the cast names."""
    manifest = history.manifest
    present = {host.name for rack in history.view.racks.values() for host in rack if manifest.names(host)}
    return present | {target for target in manifest.targets if not target.startswith(RACK)}


def installed(history: CastHistory) -> dict[str, str]:
    """The rack of each host that has the whole file under its name, whatever became of the host later."""
    steps = history.steps.items()
    return {host: step.said.rack for host, step in steps if step.said.state is CastState.installed}


def missing(history: CastHistory) -> set[str]:
    return expected(history) - installed(history).keys()


def complete(history: CastHistory) -> bool:
    """Everybody who is expected has it, and of each rack that is a target somebody does."""
    has_it = installed(history)
    racks = {RACK + rack for rack in has_it.values()}
    wanted = {target for target in history.manifest.targets if target.startswith(RACK)}
    return bool(has_it) and not missing(history) and wanted <= racks


def others_may_come(history: CastHistory) -> bool:
    """A host that joins later may be named too: the targets are not all hosts."""
    targets = history.manifest.targets
    return not targets or any(target.startswith(RACK) for target in targets)


def over(history: CastHistory) -> str:
    """Why the cast ended or no longer counts; empty while it does."""
    if history.manifest.ended:
        return f"it was {history.manifest.state}: {history.manifest.reason}"
    return f"cast {history.replaced_by} of the same name replaced it" if history.replaced_by is not None else ""
