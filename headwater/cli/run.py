"""``headwater run``: one member of a consumer group, the committer of a dataset, a part of the service of jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import frame
from headwater.cli.frame import AsJson, Frame
from headwater.cli.job_groups import JOB_GROUPS, run_job_group
from headwater.rules.errors import NotFound

if TYPE_CHECKING:
    from headwater.connectors.s3.store import ObjectStore
    from headwater.streams.runtime.processor import Processor

FILE_GROUPS = {
    "upload-files": "records this site's changes and sends its files up to 64 MiB",
    "upload-parts": "sends its larger files, part by part",
    "verify-objects": "reads stored objects back and compares their hashes",
    "verify-large": "the same for objects that were sent in parts",
    "commit": "makes versions of a dataset",
}
"""In the order of a file's way."""
WATCHING_GROUPS = {
    "views": "adds up what all processes say of themselves, for `headwater fleet`",
    "gossip": "adds up what the peers of each cast have, rack by rack",
}
GROUPS = FILE_GROUPS | WATCHING_GROUPS | JOB_GROUPS
"""What `headwater run` can run."""


def run_name(group: str) -> str:
    """What `headwater run` calls a group: upload-files for upload-files.lab. A name that it does not know stays."""
    return next((name for name in GROUPS if group == name or group.startswith(f"{name}.")), group)


def run(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="One of: " + ", ".join(GROUPS) + ".")],
    dataset: Annotated[str | None, typer.Option(help="For commit: the dataset. Default: the setting.")] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="For views: forget them, and read the log from its beginning.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run one member of a consumer group.

    Until SIGTERM or Ctrl-C, which let it finish what it has in hand. Start as many as you like, on as many hosts: they
    share the work. The upload groups run where their site's sources are mounted; one committer runs for each dataset;
    of several views one works, and the others wait to take its place; several of gossip share the racks, several of
    dispatch the pools, and several of outbox, sweep and webhooks what is due.
    --json makes the log JSON.
    """
    the = frame.of(context)
    if group not in GROUPS:
        raise NotFound(
            f"there is no group {group!r}.",
            asked="A member of a group was to be run.",
            advice="There are: " + "; ".join(f"{name} ({does})" for name, does in GROUPS.items()) + ".",
        )
    the.log_as_a_service(as_json=as_json)
    if group == "commit":
        _commit(the, dataset or the.settings.dataset)
    elif group == "views":
        _views(the, rebuild=rebuild)
    elif group == "gossip":
        _gossip(the)
    elif group in JOB_GROUPS:
        run_job_group(the, group)
    else:
        _member(the, group)


def _member(the: Frame, group: str) -> None:
    from headwater.cli.service import health_of, run_until_signalled, serving, speaking
    from headwater.schemas.records import Stage
    from headwater.streams.runtime.member import Member

    member = Member(the.kafka, _processor(the, group), the.settings.member)
    health = health_of(member.state)
    stage = Stage.uploaded if group.startswith("upload-") else Stage.verified
    with serving(the.settings, group, health), speaking(the.kafka, member.group, stage, health):
        run_until_signalled(member)


def _views(the: Frame, *, rebuild: bool) -> None:
    from headwater.cli.service import health_of, run_until_signalled, serving, speaking
    from headwater.observe import logs
    from headwater.schemas.records import Stage
    from headwater.streams.views.process import ViewsProcess
    from headwater.streams.views.rebuild import rebuild as forget_and_rewind

    logs.adopt("faust", "mode", "aiokafka", "asyncio")
    if rebuild:
        forget_and_rewind(the.kafka)
    process = ViewsProcess(the.kafka)
    health = health_of(process.state)
    with serving(the.settings, "views", health), speaking(the.kafka, "views", Stage.other, health):
        run_until_signalled(process)


def _gossip(the: Frame) -> None:
    from headwater.cli.service import health_of, run_until_signalled, serving, speaking
    from headwater.schemas.records import Stage
    from headwater.streams.gossip.gossip import Gossip

    gossip = Gossip(the.kafka)
    health = health_of(gossip.state)
    with serving(the.settings, "gossip", health), speaking(the.kafka, "gossip", Stage.other, health):
        run_until_signalled(gossip)


def _processor(the: Frame, group: str) -> Processor:
    from headwater.streams.upload.files_lane import FilesLane
    from headwater.streams.upload.parts_lane import PartsLane
    from headwater.streams.verify.verifier import Verifier

    the.store.check_bucket()
    if group == "upload-files":
        return FilesLane(the.settings.upload, the.catalog, _store_to_write(the))
    if group == "upload-parts":
        return PartsLane(the.settings.upload, the.catalog, _store_to_write(the))
    return Verifier(the.settings.verify, the.catalog, the.store, large=group == "verify-large")


def _store_to_write(the: Frame) -> ObjectStore:
    """The store, in the mode that the server's answers to the probe allow. Raises Refused where they allow none."""
    from headwater.connectors.s3.mode import choose, findings
    from headwater.connectors.s3.probe import probe
    from headwater.connectors.s3.store import ObjectStore
    from headwater.observe import logs, metrics

    config = the.settings.needed_s3()
    answers = probe(config)
    for one in findings(answers):
        metrics.S3_CAPABILITY.labels(one.capability).set(one.has)
        if not one.has:
            logs.logger().warning("s3.lacks", capability=one.capability, means=one.means)
    mode = choose(answers, config.place)
    logs.logger().info("s3.mode", bucket=config.place, mode=str(mode))
    return ObjectStore(config, mode)


def _commit(the: Frame, dataset: str) -> None:
    from headwater.cli.service import run_until_signalled, serving, speaking
    from headwater.observe.http import Health
    from headwater.schemas.records import Stage
    from headwater.streams.commit.committer import Committer

    config = the.settings.commit
    if dataset != config.dataset:  # the repository that the settings name is the one of their dataset
        config = replace(config, dataset=dataset, repository=None)
    the.store.check_bucket()
    committer = Committer(config, catalog=the.catalog, objects=_store_to_write(the), lakefs=the.lakefs, kafka=the.kafka)

    def health() -> Health:
        trouble = committer.trouble
        return Health(not trouble, "degraded" if trouble else "running", trouble, {"dataset": dataset})

    name = f"commit-{dataset}"
    with serving(the.settings, name, health), speaking(the.kafka, name, Stage.committed, health):
        run_until_signalled(committer)
