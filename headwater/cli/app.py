"""All commands under one name, and the one place where a command ends: its exit code, its error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer._click.exceptions import ClickException

from headwater import __version__
from headwater.cli import (
    api,
    cast,
    consent,
    dataset,
    dead,
    demo,
    errors,
    fleet,
    group,
    inspect,
    jobs,
    lag,
    peer,
    pools,
    processes,
    progress,
    registry,
    run,
    sync,
    tenants,
    topics,
    trace,
    transactions,
    why,
    worker,
)
from headwater.cli.frame import Frame
from headwater.rules.errors import HeadwaterError, Unavailable

_EPILOG = "Exit codes: " + ", ".join(f"**{code}** {meaning}" for code, meaning in errors.EXIT_CODES.items()) + "."

app = typer.Typer(
    name="headwater",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def headwater(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Settings file; else HEADWATER_CONFIG, ./headwater.toml.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, over file and environment.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, and log all.")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Keeps a dataset in step with a folder, casts files to many hosts, has videos made: over an Apache Kafka log.

    Begin with `headwater up`, then `headwater sync FOLDER --source NAME`, then `headwater progress`; or with
    `headwater worker --pool demo --model testcard`, then `headwater jobs submit "a red fox" --model testcard --watch`.
    """
    from headwater.observe import logs

    logs.configure(level="debug" if debug else "critical")
    frame: Frame = context.obj
    frame.config, frame.assignments, frame.debug = config, tuple(assignments or ()), debug


_RUN, _CARRY, _CAST = "Bring it up", "Carry files", "One file to many hosts"
_JOBS = "Have videos made"
_LOOK, _VERSIONS = "Look into the log", "Versions of a dataset"
app.command("up", rich_help_panel=_RUN)(processes.up)
app.command("down", rich_help_panel=_RUN)(processes.down)
app.command("status", rich_help_panel=_RUN)(processes.status)
app.command("logs", rich_help_panel=_RUN)(processes.logs)
app.command("doctor", rich_help_panel=_RUN)(processes.doctor)
app.command("demo", rich_help_panel=_RUN)(demo.demo)
app.command("sync", rich_help_panel=_CARRY)(sync.sync)
app.command("run", rich_help_panel=_CARRY)(run.run)
app.command("consent", rich_help_panel=_CARRY)(consent.consent)
app.command("progress", rich_help_panel=_CARRY)(progress.progress)
app.add_typer(cast.app, name="cast", rich_help_panel=_CAST)
app.command("peer", rich_help_panel=_CAST)(peer.peer)
app.add_typer(jobs.app, name="jobs", rich_help_panel=_JOBS)
app.command("worker", rich_help_panel=_JOBS)(worker.worker)
app.command("api", rich_help_panel=_JOBS)(api.api)
app.add_typer(pools.app, name="pools", rich_help_panel=_JOBS)
app.add_typer(tenants.app, name="tenants", rich_help_panel=_JOBS)
app.add_typer(topics.app, name="topics", rich_help_panel=_LOOK)
app.command("fleet", rich_help_panel=_LOOK)(fleet.fleet)
app.command("lag", rich_help_panel=_LOOK)(lag.lag)
app.command("why", rich_help_panel=_LOOK)(why.why)
app.command("trace", rich_help_panel=_LOOK)(trace.trace)
app.command("inspect", rich_help_panel=_LOOK)(inspect.inspect)
app.add_typer(dead.app, name="dead", rich_help_panel=_LOOK)
app.command("transactions", rich_help_panel=_LOOK)(transactions.transactions)
app.add_typer(group.app, name="group", rich_help_panel=_LOOK)
app.command("registry", rich_help_panel=_LOOK)(registry.registry)
app.add_typer(dataset.app, name="dataset", rich_help_panel=_VERSIONS)


def main() -> None:
    """The entry point of the ``headwater`` program."""
    code = execute(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def execute(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Errors are shown, never raised."""
    frame = Frame()
    as_json = "--json" in arguments
    try:
        with frame.closing:
            code = app(args=list(arguments), prog_name="headwater", standalone_mode=False, obj=frame)
            return code if isinstance(code, int) else 0
    except ClickException as error:
        if as_json:
            errors.show(_usage(error), as_json=True, debug=False)
        else:
            from typer import rich_utils

            rich_utils.rich_format_error(error)
        return errors.USAGE
    except (KeyboardInterrupt, typer.Abort):
        return errors.INTERRUPTED
    except BrokenPipeError:
        return 0
    except HeadwaterError as error:
        if isinstance(error, Unavailable):
            frame.explain(error)
        errors.show(error, as_json=as_json, debug=frame.debug)
        return error.exit_code
    except Exception as error:
        ours = errors.as_ours(error)
        errors.show(ours, as_json=as_json, debug=frame.debug)
        return ours.exit_code


def _usage(error: ClickException) -> HeadwaterError:
    wrong = HeadwaterError(error.format_message(), advice="See `headwater --help`.")
    wrong.exit_code = errors.USAGE
    return wrong
