"""What the acts of the demo work with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from headwater.connectors.kafka.client import Kafka
from headwater.demo.commands import CommandLine
from headwater.demo.river import River
from headwater.demo.view import Screen
from headwater.demo.workplace import Workplace


@dataclass(frozen=True, slots=True)
class World:
    """``found`` and ``arrivals`` are folders of media, to be copied."""

    place: Workplace
    screen: Screen
    headwater: CommandLine
    kafka: Kafka
    river: River
    random: Random
    found: Path
    arrivals: Path
