"""``headwater cast publish``: one file to everybody who shall have it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextlib import closing as closes
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import frame, output
from headwater.cli.cast import quantities
from headwater.cli.frame import AsJson, Frame
from headwater.rules.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.cli.cast.publication import Publication
    from headwater.connectors.kafka.cast_log import CastLog
    from headwater.consumers.peer.peer import Peer
    from headwater.producers.caster.caster import Caster
    from headwater.producers.caster.config import CasterConfig
    from headwater.producers.caster.copy import Copy
    from headwater.producers.caster.source import Source

_READY_SECONDS = 10.0
"""The origin may read the log so long before its cast is announced: a log that is away is told of by the caster."""
_GLANCE_SECONDS = 0.02


def publish(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file. Leave it alone until everybody has it.")],
    name: Annotated[str, typer.Option(help="The cast's name. A newer cast of a name replaces the older one.")],
    targets: Annotated[
        str, typer.Option(metavar="HOST,rack:NAME,…", help="Who shall have it. Default: every peer.")
    ] = "",
    file_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="What peers call the file. Default: its own name.")
    ] = None,
    expires: Annotated[
        float, typer.Option(parser=quantities.span, metavar="TIME", help="When peers give up: 90min, 24h, 7d.")
    ] = "24h",  # type: ignore[assignment]  # typer parses defaults as it does what is typed
    copy: Annotated[
        bool,
        typer.Option(
            "--copy/--no-copy", help="Also to S3, for when this host dies. It shares the uplink with the cast."
        ),
    ] = False,
    chunk: Annotated[
        int | None,
        typer.Option(parser=quantities.size, metavar="SIZE", help="Bytes of a chunk. Default: by the file's size."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where peers reach this origin. 0: any free port.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Cast a file: hash it, serve it, until all targets have it.

    Peers begin with the first hashes, and install the file only when the whole of it was hashed and found unchanged. A
    file that changes meanwhile, or that somebody writes, is never installed anywhere: the cast is aborted.

    Without targets it is for every peer, and ends a few seconds after all that there are have it. Ctrl-C before the
    file is hashed aborts the cast; after it, peers go on among themselves, and from the copy. Exit code 3: the cast
    expired, and those who lack the file are named. A copy's address is valid for 7 days at most, however late the cast
    expires.
    """
    from headwater.cli.cast.publication import Publication
    from headwater.cli.cast.publication_text import finish
    from headwater.producers.caster.caster import Caster
    from headwater.producers.caster.config import CasterConfig
    from headwater.producers.caster.order import Order
    from headwater.producers.caster.source import Source

    the = frame.of(context)
    config = CasterConfig()
    order = Order(
        name=name,
        file_name=file.name if file_name is None else file_name,
        targets=tuple(filter(None, (target.strip() for target in targets.split(",")))),
        origin=the.settings.peer.host,
        expires_seconds=expires,
        chunk_bytes=chunk,
    )
    if copy:
        the.store.check_bucket()
    with ExitStack() as closing:
        source = closing.enter_context(Source(file))
        caster = Caster(config, the.kafka, the.catalog, source, order)
        began = time.monotonic()
        origins: list[Peer] = []
        caster.announce(lambda: origins.append(_origin(the, caster, source, port, closing)))
        closing.callback(_sweep, the)
        [origin], reader = origins, _reader(the, caster, closing)
        publication = Publication(
            config,
            source,
            caster,
            reader,
            (lambda: _copy(the, config, caster, source)) if copy else None,
            lambda: origin.failure,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: publication.interrupt())
        with _view(the, publication, as_json=as_json) as looked:
            ending = publication.run(looked)
    finish(publication, ending, time.monotonic() - began, as_json=as_json)


def _origin(the: Frame, caster: Caster, source: Source, port: int, closing: ExitStack) -> Peer:
    """The peer that serves the file until ``closing`` ends it, known to the others before the cast is announced to
    them. A cast for which it cannot be had is aborted."""
    from headwater.consumers.peer.bytes.seed import SeedFile
    from headwater.consumers.peer.peer import Peer

    with _or_abort(caster, "its origin did not start"):
        seed = closing.enter_context(closes(SeedFile(source.path, caster.chunks)))
        config = replace(the.settings.peer, host=caster.origin, port=port)
        origin = closing.enter_context(Peer(config, the.kafka, only=caster.cast.name, seeds={caster.cast.epoch: seed}))
        deadline = time.monotonic() + _READY_SECONDS
        while not origin.ready and origin.failure is None and time.monotonic() < deadline:
            time.sleep(_GLANCE_SECONDS)
    return origin


def _reader(the: Frame, caster: Caster, closing: ExitStack) -> CastLog:
    from headwater.connectors.kafka.cast_log import CastLog

    with _or_abort(caster, "its publisher cannot read the log"):
        return closing.enter_context(closes(CastLog(the.kafka, str(caster.cast.epoch))))


@contextmanager
def _or_abort(caster: Caster, reason: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        caster.abort(f"{reason}: {getattr(error, 'happened', None) or repr(error)}")
        raise


def _sweep(the: Frame) -> None:
    """Copies that no cast needs any more, such as that of the cast which this one replaced; or the next one sweeps."""
    from headwater.cli.cast.control import drop_spare_copies
    from headwater.observe import logs

    try:
        drop_spare_copies(the)
    except HeadwaterError as error:
        logs.logger().warning("copies.not_swept", reason=error.happened)


def _copy(the: Frame, config: CasterConfig, caster: Caster, source: Source) -> Copy:
    from headwater.producers.caster.copy import Copy

    return Copy(config, the.kafka, the.catalog, the.store, source, caster.cast, caster.hashes)


@contextmanager
def _view(the: Frame, publication: Publication, *, as_json: bool) -> Iterator[Callable[[], None]]:
    """Live on a terminal; elsewhere the log tells. Yields what shows it as it is now."""
    from rich.live import Live

    from headwater.cli.cast.publication_text import shown

    if as_json or not sys.stdout.isatty():
        the.log_as_a_service(as_json=True if as_json else None)
        yield lambda: None
        return
    with Live(shown(publication), console=output.console(), auto_refresh=False) as live:
        yield lambda: live.update(shown(publication), refresh=True)
