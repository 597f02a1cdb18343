"""Programs that are built from a small ``go.mod`` of ours: the versions and checksums of every module are committed."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from headwater.stack import cache, toolchains
from headwater.stack.description import compose_file, program
from headwater.stack.progress import Report, step


@dataclass(frozen=True, slots=True)
class Build:
    """Builds ``package`` with ``compose/FOLDER/go.mod``, for the program ``name`` of the stack."""

    name: str
    folder: str
    package: str

    def path(self) -> Path:
        """Where the binary is once it is built."""
        return self._entry() / self.folder

    def binary(self, report: Report) -> Path:
        """The binary, built now if it is not in the cache."""
        cache.built(self._entry(), lambda draft: self._build(draft, report))
        return self.path()

    def _entry(self) -> Path:
        inputs = [compose_file(self.folder, name).read_bytes() for name in ("go.mod", "go.sum")]
        target = f"{sys.platform}-{platform.machine()}".encode()
        return cache.entry(self.folder, program(self.name).version, [*inputs, target])

    def _build(self, draft: Path, report: Report) -> None:
        go = toolchains.go(report)
        described = program(self.name)
        source = draft / "source"
        source.mkdir()
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(compose_file(self.folder, name), source / name)
        # -mod=readonly: what go.sum does not know is refused instead of added.
        argv = [str(go), "build", "-mod=readonly", "-trimpath", "-o", str(draft / self.folder), self.package]
        with step(report, self.name, f"build {self.folder} {described.version}", described.build_seconds):
            toolchains.run(argv, cwd=source, env={**os.environ, "GOWORK": "off", "GOTOOLCHAIN": "local"})
        shutil.rmtree(source)
