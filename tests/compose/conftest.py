"""Prometheus and its promtool, as the distribution packages them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def _program(name: str) -> Path:
    """A program of the package ``prometheus``. Missing: installed in CI, a reason to skip at home."""
    if shutil.which(name) is None:
        if not os.environ.get("CI"):
            pytest.skip(f"{name} is not installed: apt-get install prometheus")
        for command in (
            ["apt-get", "-qq", "update"],
            ["apt-get", "-qq", "install", "--no-install-recommends", "prometheus"],
        ):
            subprocess.run(
                [*command, "-y"] if "install" in command else command,
                check=True,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
    found = shutil.which(name)
    assert found is not None, f"the package prometheus has no {name}"
    return Path(found)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return _program("prometheus")
