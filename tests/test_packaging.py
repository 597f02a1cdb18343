"""The wheel carries every room and its data, and a user's own folder of the same name never shadows one."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]


def run(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, HOME, cwd=folder)
    (wheel,) = folder.glob("headwater-*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder))
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel,
        cwd=folder,
    )  # fmt: skip
    # Named in a .pth file, a folder's own .pth files (our editable install) are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_the_wheel_works_beside_a_users_own_schemas(python: Path, tmp_path: Path) -> None:
    for room in ("schemas", "rules", "streams"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("MINE = True")

    said = run(
        python,
        "-c",
        "import headwater, headwater.schemas.codec, schemas, rules, streams; "
        "print(headwater.schemas.__file__); assert schemas.MINE and rules.MINE and streams.MINE",
        cwd=tmp_path,
    )

    assert Path(said).is_relative_to(python.parents[1]), "headwater.schemas is the wheel's"


def test_the_wheel_carries_the_data_of_every_room(python: Path, tmp_path: Path) -> None:
    said = run(
        python,
        "-c",
        "from headwater.schemas.codec import history; from headwater.stack.description import compose_file, program; "
        "from importlib.resources import files; "
        "print(len(history()), program('lakefs').version, compose_file('lakefs', 'go.sum').exists()); "
        "migrations = files('headwater.connectors.catalog') / 'migrations'; "
        "print(sorted(file.name for file in migrations.iterdir() if file.name.endswith('.sql')))",
        cwd=tmp_path,
    )

    schemas = len(list((HOME / "schemas" / "history").glob("*.avsc")))
    migrations = sorted(file.name for file in (HOME / "connectors" / "catalog" / "migrations").glob("*.sql"))
    assert said == f"{schemas} 1.84.0 True\n{migrations}"


def test_the_installed_command_says_its_version(python: Path, tmp_path: Path) -> None:
    assert run(python.parent / "headwater", "--version", cwd=tmp_path).endswith("0.1.0")
