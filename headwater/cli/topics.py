"""``headwater topics``: the cluster's topics against the catalogue of topics."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli import frame, output
from headwater.cli.default import meaning
from headwater.cli.frame import AsJson
from headwater.schemas.topics import Topic, catalogue

app = typer.Typer(cls=meaning("describe"), help="The topics of the log: show them, mend them.")

Replication = Annotated[
    int | None, typer.Option(help="Copies of each partition. Default: kafka.replication, else the brokers' own.")
]


@app.command()
def describe(context: typer.Context, replication: Replication = None, as_json: AsJson = False) -> None:
    """Show each topic, and where it differs from the catalogue.

    What `headwater topics` does by itself.
    """
    from headwater.connectors.kafka import topics

    kafka = frame.of(context).kafka
    wanted = _catalogue(context)
    found = topics.describe(kafka, wanted)
    differences = topics.drift(wanted, found, replication or kafka.config.replication)
    if as_json:
        output.print_json(
            {
                "topics": {t.name: found.get(t.name) for t in wanted},
                "differences": differences,
                "prefix": kafka.config.prefix,
            }
        )
        return
    wrong = {topic.name: [change for change in differences if change.topic == topic.name] for topic in wanted}
    rows = [
        (
            topic.name,
            topic.record.schema_name,
            topic.key,
            topic.partitions,
            _days(topic),
            found[topic.name].replication if topic.name in found else "",
            "; ".join(
                "missing"
                if change.found is None
                else f"{change.setting} is {change.found}, should be {change.expected}"
                for change in wrong[topic.name]
            )
            or "as it should be",
        )
        for topic in wanted
    ]
    columns = ("topic", "record", "key", "partitions", "kept", "copies", "state")
    output.console().print(output.table(columns, rows, right=("partitions", "copies")))
    if differences:
        output.console().print("\n`headwater topics apply` mends what can be mended without moving keys.")


@app.command()
def apply(context: typer.Context, replication: Replication = None, as_json: AsJson = False) -> None:
    """Make the cluster's topics match the catalogue.

    Creates what is missing and alters what may be altered. Safe to repeat. A partition count is never changed: it
    decides where each key goes.
    """
    from headwater.connectors.kafka import topics

    mended = topics.apply(frame.of(context).kafka, _catalogue(context), replication)
    if as_json:
        output.print_json({"mended": mended})
        return
    for change in mended:
        did = (
            f"created, {change.expected}"
            if change.found is None
            else f"{change.setting} {change.found} → {change.expected}"
        )
        output.console().print(f"{change.topic}: {did}")
    if not mended:
        output.console().print("Every topic is as it should be.")


def _catalogue(context: typer.Context) -> tuple[Topic, ...]:
    return catalogue((frame.of(context).settings.site,))


def _days(topic: Topic) -> str:
    return "for ever" if topic.retention is None else f"{topic.retention.days} days"
