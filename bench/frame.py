"""What bench/run does around each benchmark: find it, give it a stack, describe the machine, keep the result."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import psutil

from headwater.observe import logs
from headwater.rules.errors import HeadwaterError
from headwater.stack.addresses import Addresses, from_environment
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.progress import Step


def main(folder: Path, arguments: Sequence[str]) -> int:
    known = benchmarks(folder)
    parser = argparse.ArgumentParser(prog="bench/run", description="Measure headwater beside its peers.")
    parser.add_argument("name", choices=["list", *known], metavar="NAME", help="a benchmark, or: list")
    parser.add_argument("--quick", action="store_true", help="the same work at a size that ends within a minute")
    chosen = parser.parse_args(arguments)
    if chosen.name == "list":
        for name, sentence in known.items():
            print(f"{name:<16}{sentence}")
        return 0
    logs.configure(level="error")
    try:
        benchmark = importlib.import_module(chosen.name.replace("-", "_"))
        if getattr(benchmark, "OWN_STACK", False):
            result = benchmark.run(chosen.quick)
        else:
            with stack() as addresses:
                result = benchmark.run(addresses, chosen.quick)
    except HeadwaterError as error:
        print(f"bench/run {chosen.name}: {error}", file=sys.stderr)
        return error.exit_code
    keep(folder, chosen.name, chosen.quick, result)
    print(json.dumps(result))
    if hasattr(benchmark, "failure") and (failure := benchmark.failure(result)):
        print(f"bench/run {chosen.name}: {failure}", file=sys.stderr)
        return 1
    return 0


def benchmarks(folder: Path) -> dict[str, str]:
    """The name of each benchmark and its sentence, from the docstrings: nothing is imported."""
    found = {}
    for module in sorted(folder.glob("*.py")):
        name = module.stem.replace("_", "-")
        first_line = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").partition("\n")[0]
        if first_line.startswith(f"{name}: "):
            found[name] = first_line.removeprefix(f"{name}: ")
    return found


@contextmanager
def stack() -> Iterator[Addresses]:
    """The servers that HEADWATER_* name, where all four are set; else a stack of its own, gone afterwards."""
    named = from_environment(os.environ)
    if len(named) == 4:
        yield Addresses(**named)
        return
    home = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    own = Stack(home, asdict(Ports.free()))
    try:
        yield own.up(_print_step)
    finally:
        own.down()
        shutil.rmtree(home, ignore_errors=True)


def keep(folder: Path, name: str, quick: bool, result: dict[str, object]) -> None:
    results = folder / "results"
    results.mkdir(exist_ok=True)
    kept = {"name": name, "quick": quick, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    text = json.dumps({**kept, "machine": machine(), "result": result}, indent=2)
    (results / f"{name}{'.quick' if quick else ''}.json").write_text(text + "\n", "utf-8")


def machine() -> dict[str, object]:
    """What a reader needs to compare these figures with others."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _print_step(step: Step) -> None:
    if step.seconds is None:
        print(f"stack: {step.program}: {step.action} (about {step.estimate_seconds:.0f} s)", file=sys.stderr)
