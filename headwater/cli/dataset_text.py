"""Versions, files and differences in words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headwater.cli import output
from headwater.rules.identity import display

if TYPE_CHECKING:
    from headwater.connectors.catalog.versions import Version
    from headwater.consumers.dataset.condemnation import Condemned
    from headwater.consumers.dataset.difference import FileDifference
    from headwater.consumers.dataset.verification import Verification
    from headwater.schemas.manifest import ManifestRow

_SIGNS = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "metadata": ("m", "blue"),
    "renamed": ("→", "cyan"),
}

_COLLISIONS_NAMED = 3


def summary(version: Version) -> str:
    """What a version did and holds."""
    excepted = f", {version.exceptions:,} paths excepted" if version.exceptions else ""
    return (
        f"{version.added:,} added, {version.changed:,} changed, {version.removed:,} removed; {version.files:,} files, "
        f"{output.size(version.content_bytes)}{excepted}; commit {(version.commit_id or '')[:12]}"
    )


def document(version: Version) -> dict[str, Any]:
    """A version without its cut, which may name a thousand exceptions."""
    return {name: value for name, value in output.plain(version).items() if name != "cut"}


def when(version: Version) -> str:
    """When it was published, in this machine's time zone."""
    return version.published_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if version.published_at else ""


def line(row: ManifestRow) -> Text:
    """One file of a listing: mode, size, time, place; its true path where lakeFS cannot hold it."""
    line = Text(
        f"{row.mode & 0o7777:04o} {output.size(row.size):>11}  {output.moment(row.mtime_ns // 1_000_000)[:19]}  ",
        style="dim",
    )
    line.append(display(row.place.encode()), style="not dim")
    if row.place != f"{row.source}/{os.fsdecode(row.path)}":
        line.append(f"  is {display(row.path)}", style="yellow")
    return line if row.link_target is None else line.append(f" → {display(row.link_target)}", style="cyan")


def difference(one: FileDifference) -> Text:
    """One file that differs."""
    sign, style = _SIGNS[one.kind.value]
    line = Text(f"{sign} ", style=style).append(display(one.place.encode()))
    if one.kind.value == "renamed" and one.before is not None:
        line.append(f"  from {display(one.before.place.encode())}", style="dim")
    elif one.after is not None and one.kind.value != "metadata":
        line.append(f"  {output.size(one.after.size)}", style="dim")
    return line


def verdict(found: Verification, *, deep: bool, compared: bool) -> Text:
    """The last word of a verification."""
    checked = f"{found.files:,} files are listed as the manifest says"
    if deep:
        read = f"{found.objects_read:,} objects ({output.size(found.bytes_read)})"
        checked += f"; {read} were read, each byte compared by BLAKE3"
    if compared:
        checked += f"; {found.source_files:,} files compared with their sources"
    if found.is_right:
        return Text("✓ ", style="green").append(f"v{found.version.version} is right: {checked}.", style="default")
    return Text("✗ ", style="red").append(
        f"v{found.version.version}: {found.problem_count:,} differences.", style="bold red"
    )


def collisions(found: Verification) -> Text:
    """The names that some readers take for one, where there are any."""
    named = "; ".join(map(str, found.collisions[:_COLLISIONS_NAMED]))
    more = found.collision_count - _COLLISIONS_NAMED
    return Text("! ", style="yellow").append(
        f"Names that differ from another in case or Unicode form alone: {found.collision_count:,} ({named}"
        + (f"; and {more:,} more" if more > 0 else "")
        + "). They are right; Windows, macOS and SMB shares take each pair for one, and an export there is refused.",
        style="default",
    )


def condemned(done: Condemned) -> str:
    """What happens about objects that are broken."""
    said = [f"Objects condemned: {done.objects:,}."]
    if done.asked:
        sources = ", ".join(sorted({one.source for one in done.asked}))
        said.append(f"Files asked for again: {len(done.asked):,} (of {sources}); the next version has them.")
    if done.lost:
        said.append(f"Contents that no source has any more: {done.lost:,}; bring their files back from a copy.")
    return " ".join(said)
