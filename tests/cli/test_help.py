import pytest
import typer

from headwater.cli.app import app
from headwater.cli.errors import EXIT_CODES

COMMANDS = {
    "up": [],
    "down": [],
    "status": [],
    "logs": [],
    "doctor": [],
    "demo": [],
    "sync": [],
    "run": [],
    "consent": [],
    "progress": [],
    "cast": ["abort", "analyze", "join", "limit", "list", "publish", "report", "rm", "simulate", "watch"],
    "peer": [],
    "api": [],
    "worker": [],
    "jobs": [
        "attempts",
        "cancel",
        "delete",
        "download",
        "list",
        "models",
        "redrive",
        "show",
        "submit",
        "undelete",
        "watch",
        "webhooks",
    ],
    "pools": ["list", "set", "workers"],
    "tenants": ["add", "key", "list", "revoke", "secret", "set", "show"],
    "topics": ["apply", "describe"],
    "fleet": [],
    "lag": [],
    "why": [],
    "trace": [],
    "transactions": [],
    "group": ["reset", "history"],
    "inspect": [],
    "registry": [],
    "dead": ["list", "show", "redrive"],
    "dataset": ["commit", "log", "diff", "show", "ls", "cat", "verify", "export"],
}
WIDTH = 60
"""What fits beside a command's name in a window of 80."""


def found() -> dict[str, typer.core.TyperCommand]:
    return typer.main.get_command(app).commands


def test_every_promised_command_is_there():
    assert {name: sorted(getattr(made, "commands", {})) for name, made in found().items()} == {
        name: sorted(below) for name, below in COMMANDS.items()
    }


def test_help_reads_like_a_table_of_contents():
    for made in found().values():
        for one in (made, *getattr(made, "commands", {}).values()):
            first = one.help.split("\n\n")[0]
            assert len(first) <= WIDTH, f"{one.name}: {first}"
            assert first.endswith("."), f"{one.name}: {first}"


def test_every_option_says_what_it_does():
    for made in found().values():
        for one in getattr(made, "commands", {}).values() or [made]:
            for parameter in one.params:
                assert parameter.help, f"{one.name} {parameter.name}"


def test_the_first_page_names_every_command_and_exit_code(command):
    ended = command("--help")

    assert ended.code == 0
    for name in COMMANDS:
        assert f" {name} " in ended.out
    for code in EXIT_CODES:
        assert str(code) in ended.out


@pytest.mark.parametrize("arguments", [["-h"], ["dead", "redrive", "--help"], ["inspect", "--help"], ["topics", "-h"]])
def test_help_is_no_error(command, arguments):
    assert command(*arguments).code == 0


def test_the_version(command):
    from headwater import __version__

    assert command("--version").out == f"headwater {__version__}\n"
