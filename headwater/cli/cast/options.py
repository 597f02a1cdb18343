"""Options that say which fleet and which file a command is to think about."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.cast import quantities

Hosts = Annotated[int, typer.Option(min=1, help="Hosts that get the file.")]
Racks = Annotated[int, typer.Option(min=1, help="Racks that they stand in, evenly.")]
Size = Annotated[int, typer.Option(parser=quantities.size, metavar="SIZE", help="Of the file: 100GB, 1TB, 16MiB.")]
Nic = Annotated[
    float,
    typer.Option(parser=quantities.rate, metavar="RATE", help="Payload of each link, each way at once: 25Gbps, 3GB/s."),
]
Oversubscription = Annotated[float, typer.Option("--oversub", min=1, help="Of a rack's uplink: 8 is 8:1.")]
Slow = Annotated[
    quantities.Part | None,
    typer.Option(parser=quantities.part, metavar="N@SHARE", help="20@25%: 20 hosts at a quarter of the rate."),
]
Disk = Annotated[
    float | None,
    typer.Option(parser=quantities.rate, metavar="RATE", help="A disk's, reading and writing at once. No page cache."),
]
Hash = Annotated[
    float,
    typer.Option(
        "--hash", parser=quantities.rate, metavar="RATE", help="The origin's hashing, with all its cores together."
    ),
]
