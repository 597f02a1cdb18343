"""``headwater cast simulate``: a cast to a thousand hosts on this machine, and what simpler plans would take."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli import output
from headwater.cli.cast import quantities
from headwater.cli.cast.options import Disk, Hosts, Nic, Oversubscription, Racks, Size, Slow
from headwater.cli.cast.quantities import Part
from headwater.cli.frame import AsJson
from headwater.rules.cast.chunks import chunk_bytes_for

Kill = Annotated[
    Part | None,
    typer.Option(parser=quantities.part, metavar="N@SHARE", help="20@50%: 20 hosts die when half of all is there."),
]
Gossip = Annotated[
    float,
    typer.Option(parser=quantities.span, metavar="TIME", help="How often the racks' summaries are renewed: 1s, 500ms."),
]
Cache = Annotated[
    int | None,
    typer.Option(parser=quantities.size, metavar="SIZE", help="Page cache of each host, beside --disk. Default: none."),
]
Chunk = Annotated[
    int | None,
    typer.Option(parser=quantities.size, metavar="SIZE", help="Of a chunk. Default: by the file's size, as publish."),
]


def simulate(
    hosts: Hosts = 1000,
    racks: Racks = 25,
    size: Size = "100GB",  # type: ignore[assignment]  # typer parses defaults as it does what is typed
    nic: Nic = "25Gbps",  # type: ignore[assignment]
    oversubscription: Oversubscription = 8.0,
    kill: Kill = None,
    slow: Slow = None,
    gossip: Gossip = "1s",  # type: ignore[assignment]
    disk: Disk = None,
    cache: Cache = None,
    chunk: Chunk = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a cast by the peers' own rules, and simpler plans.

    GB is 10⁹ bytes; the rate of a link is that of its payload. One core is busy for some minutes with 1,000 hosts and
    100 GB, and for another when it runs for the first time. docs/broadcast.md says how far this can be trusted.
    """
    from headwater.cli.cast import comparison
    from headwater.simulator.scenario import Scenario

    dying, slowed = kill or Part(0, 0.5), slow or Part(0, 1.0)
    if dying.count + slowed.count >= hosts:
        raise typer.BadParameter("no host is left that neither dies nor is slow.", param_hint="'--kill', '--slow'")
    scenario = Scenario(
        hosts=hosts,
        racks=racks,
        size_bytes=size,
        chunk_bytes=chunk or chunk_bytes_for(size),
        nic_bytes_per_second=nic,
        oversubscription=oversubscription,
        disk_read_bytes_per_second=disk,
        disk_write_bytes_per_second=disk,
        page_cache_bytes=None if disk is None else cache or 0,
        gossip_seconds=gossip,
        crashes=dying.count,
        crash_share=dying.share,
        slow=slowed.count,
        slow_share=slowed.share,
        sampled_hosts=-(-hosts // racks),
        sample_seconds=min(0.1, max(0.001, size / nic / 64)),
    )
    told = f"simulating {hosts:,} hosts and {scenario.chunks.count:,} chunks on one core …"
    with output.console(errors=True).status(told):
        compared = comparison.compare(scenario)
    if as_json:
        output.print_json(comparison.document(compared))
    else:
        comparison.show(compared)
