"""What people type for sizes, rates, shares and times, read in one place: 100GB, 16MiB, 25Gbps, 3GB/s, 20@50%, 500ms.

GB = 10⁹ bytes and GiB = 2³⁰. Rates in bits a second (25Gbps, 25Gbit/s) become bytes a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import typer

_NUMBER = r"(?P<number>\d+(?:\.\d+)?)\s*"
_SIZE = re.compile(_NUMBER + r"(?P<unit>[kKMGTP]?i?)B", re.ASCII)
_BYTE_RATE = re.compile(_NUMBER + r"(?P<unit>[kKMGTP]?i?)B(?:/s|ps)", re.ASCII)
_BIT_RATE = re.compile(_NUMBER + r"(?P<unit>[kKMGTP]?)(?:bps|bit/s|b/s)", re.ASCII)
_SPAN = re.compile(_NUMBER + r"(?P<unit>ms|s|min|h|d)", re.ASCII)
_PART = re.compile(r"(?P<count>\d+)@(?P<percent>\d+(?:\.\d+)?)%", re.ASCII)

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Part:
    """Some hosts and a share from 0 to 1: 20 of them at a half is written 20@50%."""

    count: int
    share: float


def size(text: str) -> int:
    """Bytes of ``100GB``, ``16MiB``, ``512B``."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size. Write it as 100GB (10⁹ bytes each) or 16MiB (2²⁰ bytes each).")
    return round(_scaled(found))


def rate(text: str) -> float:
    """Bytes a second of ``25Gbps``, ``25Gbit/s`` (bits) or ``3GB/s`` (bytes). Never zero."""
    text = text.strip()
    in_bits, in_bytes = _BIT_RATE.fullmatch(text), _BYTE_RATE.fullmatch(text)
    found = in_bits or in_bytes
    per_second = _scaled(found) / (8 if in_bits else 1) if found else 0.0
    if per_second <= 0:
        raise typer.BadParameter(f"{text!r} is no rate. Write it as 25Gbps (bits a second) or 3GB/s (bytes a second).")
    return per_second


def span(text: str) -> float:
    """Seconds of ``500ms``, ``1s``, ``5min``, ``24h``, ``7d``."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no length of time. Write it as 500ms, 1s, 5min, 24h or 7d.")
    return float(found["number"]) * _SECONDS[found["unit"]]


def part(text: str) -> Part:
    """Of ``20@50%`` the 20 and the half. Raises for shares above 100 %."""
    found = _PART.fullmatch(text.strip())
    if found is None or not 0 <= float(found["percent"]) <= 100:
        raise typer.BadParameter(f"{text!r} is no part of the hosts. Write it as 20@50%: 20 hosts, at 50 %.")
    return Part(int(found["count"]), float(found["percent"]) / 100)


def _scaled(found: re.Match[str]) -> float:
    unit = found["unit"]
    base = 1024 if unit.endswith("i") else 1000
    return float(found["number"]) * float(base ** _POWERS[unit.removesuffix("i").upper()])
