"""``headwater cast analyze``: how fast it could be at best, and what sets that."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from headwater.cli import output
from headwater.cli.cast.options import Disk, Hash, Hosts, Nic, Oversubscription, Racks, Size, Slow
from headwater.cli.cast.quantities import Part
from headwater.cli.frame import AsJson
from headwater.rules.cast.bounds import Bound, Fleet, binding, bounds, goodput_share, slow_floor

MTUS = (1500, 9000)


def analyze(
    hosts: Hosts = 1000,
    racks: Racks = 25,
    size: Size = "100GB",  # type: ignore[assignment]  # typer parses defaults as it does what is typed
    nic: Nic = "25Gbps",  # type: ignore[assignment]
    oversubscription: Oversubscription = 8.0,
    slow: Slow = None,
    disk: Disk = None,
    hashing: Hash = "12GB/s",  # type: ignore[assignment]
    as_json: AsJson = False,
) -> None:
    """Show how fast a cast can be at best, and what limits it.

    GB is 10⁹ bytes. The rate of a link is that of its payload; what headers take at two sizes of packets is told below
    the table.
    """
    fleet = _fleet(hosts, racks, nic, oversubscription, slow, disk, hashing)
    found = bounds(size, fleet)
    if as_json:
        output.print_json(_document(size, fleet, found))
        return
    floor = binding(found)
    rows = [
        (bound.resource, bound.formula, f"{bound.seconds:,.2f}", "binds" if bound in floor else "") for bound in found
    ]
    console = output.console()
    console.print(output.table(("resource", "at least", "seconds", ""), rows, right=("seconds",)))
    names = " and ".join(bound.resource for bound in floor)
    output.say(console, Text(f"\nfloor {floor[0].seconds:,.2f} s", style="bold").append(f": {names}", style="not bold"))
    for mtu, seconds in _floors_on_the_wire(size, fleet).items():
        output.say(console, f"where links carry so many bits with all headers, MTU {mtu}: {seconds:,.2f} s")
    if fleet.slow_hosts:
        output.say(console, f"the {fleet.slow_hosts} slow hosts themselves: {slow_floor(size, fleet):,.2f} s")


def _fleet(
    hosts: int,
    racks: int,
    nic: float,
    oversubscription: float,
    slow: Part | None,
    disk: float | None,
    hashing: float,
) -> Fleet:
    """Raises BadSettings."""
    return Fleet(
        hosts=hosts,
        racks=racks,
        host_bytes_per_second=nic,
        origin_bytes_per_second=nic,
        oversubscription=oversubscription,
        slow_hosts=slow.count if slow else 0,
        slow_share=slow.share if slow else 1.0,
        disk_read_bytes_per_second=disk,
        disk_write_bytes_per_second=disk,
        page_cache=disk is None,
        hash_bytes_per_second=hashing,
    )


def _floors_on_the_wire(size: int, fleet: Fleet) -> dict[int, float]:
    """The floor by MTU, where the links' rates are those of their bits and not of their payload."""
    floors = {}
    for mtu in MTUS:
        share = goodput_share(mtu)
        slower = replace(
            fleet,
            host_bytes_per_second=fleet.host_bytes_per_second * share,
            origin_bytes_per_second=fleet.origin_bytes_per_second * share,
        )
        floors[mtu] = binding(bounds(size, slower))[0].seconds
    return floors


def _document(size: int, fleet: Fleet, found: tuple[Bound, ...]) -> dict[str, object]:
    floor = binding(found)
    return {
        "size": size,
        "fleet": fleet,
        "bounds": {bound.resource: bound.seconds for bound in found},
        "floor_seconds": floor[0].seconds,
        "binding": [bound.resource for bound in floor],
        "floor_seconds_by_mtu": _floors_on_the_wire(size, fleet),
        "slow_floor_seconds": slow_floor(size, fleet) if fleet.slow_hosts else None,
    }
