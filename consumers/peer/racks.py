"""Which rack this host stands in."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from headwater.consumers.peer.config import PeerConfig
from headwater.observe import logs
from headwater.rules.errors import BadSettings

log = logs.logger()


def rack_of(config: PeerConfig) -> str:
    """The rack that the settings name, else the one that the topology file gives this host, else none: empty.

    Raises BadSettings where the file cannot be read, or says something else than racks of hosts.
    """
    if config.rack:
        return config.rack
    rack = _topology(config.topology_file).get(config.host, "") if config.topology_file is not None else ""
    if not rack:
        log.warning("peer.unlabelled", host=config.host, means="all hosts without a rack are taken for one rack")
    return rack


def _topology(file: Path) -> Mapping[str, str]:
    try:
        text = file.read_text("utf-8")
        racks = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise _bad(file, f"it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _bad(file, str(error)) from error
    if not isinstance(racks, dict) or not all(isinstance(rack, str) for rack in racks.values()):
        raise _bad(file, 'it holds something else than lines of host = "rack"')
    return racks


def _bad(file: Path, happened: str) -> BadSettings:
    return BadSettings(
        f"peer.topology_file is {str(file)!r}: {happened}.",
        asked="This host's rack was looked for.",
        kept="Nothing was started.",
        advice='Correct the file: TOML or JSON that gives each host its rack, such as lab-17 = "r4".',
        key="peer.topology_file",
    )
