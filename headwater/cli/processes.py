"""``headwater up | down | status | logs | doctor``: everything on this machine, brought up, looked at, taken down."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson, Frame

if TYPE_CHECKING:
    from headwater.cli.members import ProcessStatus
    from headwater.stack.doctor import Check
    from headwater.stack.local import ServerStatus


def up(
    context: typer.Context,
    servers_only: Annotated[
        bool, typer.Option("--servers", help="Only the servers, none of our own processes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start what is missing: servers, groups, agents.

    The four servers; the catalog's tables and the topics; one member of each group, one committer of each dataset,
    one agent of each source in the settings; the service of generation jobs, unless jobs.serve is false. A server
    whose address the environment names is used as it is. What runs already is left alone. The first time, programs are
    fetched and built, which takes some minutes. Restarting what dies later is your service manager's work.
    """
    from headwater.stack.home import stack_home
    from headwater.stack.live import live
    from headwater.stack.local import Stack

    the = frame.of(context)
    console = output.console(errors=as_json)
    servers = Stack(stack_home(the.settings.state_folder), the.settings.stack.ports())
    with live(console) as report:
        servers.up(report)
    del the.settings  # the stack's addresses are known only now
    _prepare(the, console)
    if not servers_only:
        _start_members(the, console)
    console.print()
    _print_status(the, as_json=as_json)
    if not as_json:
        console.print(
            "\nNext: `headwater progress`, `headwater lag --watch`, `headwater worker --pool demo --model testcard`, "
            "`headwater logs NAME`, `headwater down`.",
            style="dim",
        )


def _prepare(the: Frame, console: Console) -> None:
    """What the servers must hold before a process of ours starts. Safe to repeat."""
    from headwater.cli.jobs import local
    from headwater.connectors.kafka import topics
    from headwater.schemas.topics import catalogue

    if applied := the.catalog.migrate():
        console.print(f"catalog   applied {', '.join(applied)}")
    if mended := topics.apply(the.kafka, catalogue((the.settings.site,))):
        console.print(f"kafka     mended {len(mended)} differences of topics")
    the.store.ensure_bucket()
    for said in local.prepare(the):
        console.print(said)


def _start_members(the: Frame, console: Console) -> None:
    from headwater.cli import members

    settings = the.settings
    options = members.options_for_children(the.config, the.assignments, settings)
    processes = members.wanted(settings)
    if settings.jobs.serve and not members.serves_jobs(settings):
        console.print(
            "jobs      are not served here: no worker.key is set (jobs.serve = false says that none shall be)"
        )
    for process in processes:
        if members.status(process.name, settings.state_folder).state == "stopped":
            members.start(process, settings.state_folder, options, os.environ)
            console.print(f"started   {process.name}")
    with console.status("waiting until they answer …"), ThreadPoolExecutor(len(processes)) as pool:
        for waited in [
            pool.submit(members.wait_until_it_answers, process, settings.state_folder) for process in processes
        ]:
            waited.result()


def down(context: typer.Context, as_json: AsJson = False) -> None:
    """Stop what `up` started. Keeps the data.

    Our processes first finish what they have in hand; then the servers stop.
    """
    from headwater.stack import processes
    from headwater.stack.live import live

    the = frame.of(context)
    folder = the.settings.state_folder
    running = [name for name in processes.names(folder) if processes.alive(name, folder)]
    console = output.console(errors=as_json)
    if running:
        with console.status(f"stopping {', '.join(running)} …"), ThreadPoolExecutor(len(running)) as pool:
            list(pool.map(lambda name: processes.stop(name, folder, grace_seconds=_GRACE_SECONDS), running))
    with live(console) as report:
        servers = the.stack.down(report)
    stopped = [*running, *servers]
    if as_json:
        output.print_json({"stopped": stopped})
    else:
        said = f"Stopped {', '.join(stopped)}. Their data is kept." if stopped else "Nothing was running."
        output.say(console, said)


_GRACE_SECONDS = 40.0
"""A member that drains finishes its step within 30 s."""


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what runs, how it is, and where it answers."""
    _print_status(frame.of(context), as_json=as_json)


def _print_status(the: Frame, *, as_json: bool) -> None:
    from headwater.cli import members
    from headwater.rules.errors import NotFound
    from headwater.stack import processes

    folder = the.settings.state_folder
    names = [process.name for process in members.wanted(the.settings)]
    names += [name for name in processes.names(folder) if name not in names and processes.alive(name, folder)]
    try:
        servers = the.stack.status()
    except NotFound:
        servers = []
    statuses = [members.status(name, folder) for name in names]
    if as_json:
        output.print_json({"state_folder": folder, "servers": servers, "processes": statuses})
        return
    console = output.console()
    if servers:
        console.print(output.table(_SERVER, [_server_row(one) for one in servers], right=("memory",)))
    else:
        output.say(console, f"There is no local stack in {folder} yet: `headwater up` starts one.")
    console.print()
    console.print(output.table(_PROCESS, [_process_row(one) for one in statuses], right=("pid",)))
    for process in statuses:
        if process.reason:
            output.say(console, f"\n{process.name} is {process.state}: {process.reason}")


_SERVER = ("server", "state", "address", "version", "up", "memory")
_PROCESS = ("process", "state", "up", "pid", "metrics, health, schemas")
_STYLES = {
    "running": "green",
    "external": "green",
    "paused": "green",
    "stopped": "dim",
    "draining": "yellow",
    "starting": "yellow",
}


def _server_row(server: ServerStatus) -> tuple[str | Text, ...]:
    up = output.duration(server.usage.uptime_seconds) if server.usage else ""
    memory = output.size(server.usage.memory_bytes) if server.usage else ""
    state = server.state if server.answering or server.state == "stopped" else f"{server.state}, does not answer"
    return server.name, Text(state, style=_STYLES.get(state, "red")), server.address, server.version, up, memory


def _process_row(process: ProcessStatus) -> tuple[str | Text, ...]:
    up = output.duration(process.uptime_seconds) if process.uptime_seconds is not None else ""
    state = Text(process.state, style=_STYLES.get(process.state, "red"))
    return process.name, state, up, str(process.pid or ""), process.url or ""


def logs(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Server or process. Default: list those that have a log.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 100,
) -> None:
    """Show the log of a server or a process."""
    from headwater.rules.errors import NotFound
    from headwater.stack.logs import follow as following
    from headwater.stack.logs import log_names, tail
    from headwater.stack.processes import log_path

    the = frame.of(context)
    homes = {known: home for home in (the.stack.home, the.settings.state_folder) for known in log_names(home)}
    if name is None:
        rows = [(known, log_path(known, home)) for known, home in sorted(homes.items())]
        output.console().print(output.table(("name", "log"), rows))
        return
    if name not in homes:
        raise NotFound(
            f"nothing named {name!r} has logged here.",
            asked="A log was to be shown.",
            advice=f"There are: {', '.join(sorted(homes))}." if homes else "Run `headwater up` first.",
        )
    read = following(name, homes[name], lines) if follow else tail(name, homes[name], lines)
    for line in read:
        print(line, flush=follow)


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Check this machine, its sources, its S3 server, its peer.

    The peer where a folder for casts is set, and the ports of the service of jobs where it is served. Exit code 1 when
    something would stop us; what would only slow us down is a warning.
    """
    from headwater.cli.members import serves_jobs
    from headwater.stack.addresses import from_environment
    from headwater.stack.api_doctor import examine_api
    from headwater.stack.description import Ports
    from headwater.stack.doctor import examine, examine_s3, examine_source
    from headwater.stack.peer_doctor import examine_peer
    from headwater.stack.processes import alive

    the = frame.of(context)
    ports = replace(Ports.default(), **the.settings.stack.ports())
    external = {f"port {port}" for server in from_environment() for port in ports.of(server).values()}
    checks = [check for check in examine(the.stack.home, ports) if check.name not in external]
    if the.settings.s3 is not None:
        checks += examine_s3(the.settings.s3)
    checks += [examine_source(source) for source in the.settings.sources.values()]
    brokers = the.settings.kafka.bootstrap_servers if the.settings.kafka else None
    folder = the.settings.state_folder
    checks += examine_peer(the.settings.peer, brokers, running=alive("peer", folder) is not None)
    if serves_jobs(the.settings):
        checks += examine_api(the.settings.api, running=alive("api", folder) is not None)
    if as_json:
        output.print_json(checks)
    else:
        rows = [(_mark(check), check.name, check.found, check.fix) for check in checks]
        output.console().print(output.table(("", "check", "found", "what to do"), rows))
    if any(check.level == "fail" for check in checks):
        raise typer.Exit(1)


def _mark(check: Check) -> Text:
    return {"ok": Text("✓", style="green"), "warn": Text("!", style="yellow"), "fail": Text("✗", style="red")}[
        check.level
    ]
