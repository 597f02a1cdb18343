"""``headwater dataset``: the versions of a dataset."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli import dataset_text, frame, output
from headwater.cli.frame import AsJson

if TYPE_CHECKING:
    from headwater.consumers.dataset.dataset import Dataset

app = typer.Typer(no_args_is_help=True, help="Make versions, compare them, prove them, take them out.")

Name = Annotated[str | None, typer.Option("--dataset", "-d", help="The dataset. Default: the setting.")]
Ref = Annotated[str, typer.Argument(help="v3, 3, latest, or the beginning of a lakeFS commit id.")]
Prefix = Annotated[str, typer.Argument(help="Only places that start so: source, or source/folder/.")]

_EXCEPTIONS_SHOWN = 20


@app.command()
def commit(
    context: typer.Context,
    message: Annotated[str, typer.Option("--message", "-m", help="What this version is.")] = "",
    name: Name = None,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="For the committer's answer.")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Make a version of what is verified now.

    The dataset's committer (`headwater run commit`) makes it; this asks and waits. Nothing new: no version.
    """
    from headwater.consumers.dataset.requests import request_commit

    dataset = _dataset(context, name)
    with output.console(errors=True).status(f"waiting for the committer of {dataset.name} …"):
        version = request_commit(dataset, message, wait_seconds=wait)
    if as_json:
        output.print_json(version)
    elif version is None:
        output.console().print(f"Nothing of {dataset.name} has changed since its last version.")
    else:
        said = Text(f"v{version.version}", style="bold green")
        output.console().print(
            said.append(f"  {dataset_text.summary(version)}", style="not bold default"), soft_wrap=True
        )


@app.command()
def log(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Show the versions, newest first."""
    found = _dataset(context, name).log(limit)
    if as_json:
        output.print_json([dataset_text.document(version) for version in found])
        return
    rows = [
        (
            f"v{version.version}",
            dataset_text.when(version),
            f"+{version.added:,} ~{version.changed:,} -{version.removed:,}",
            f"{version.files:,}",
            output.size(version.content_bytes),
            f"{version.exceptions:,}" if version.exceptions else "–",
            (version.commit_id or "")[:12],
            version.message,
        )
        for version in found
    ]
    columns = ("version", "published", "changes", "files", "size", "exceptions", "commit", "message")
    output.console().print(
        output.table(columns, rows, right=("files", "size", "exceptions")) if rows else "No version was published yet."
    )


@app.command()
def show(context: typer.Context, ref: Ref = "latest", name: Name = None, as_json: AsJson = False) -> None:
    """Show all that a version says of itself.

    The cut names, for each source, up to which change the version is complete, and each path that it holds at an
    older state, or not at all, and why.
    """
    from headwater.consumers.dataset.reading import show as find

    version = find(_dataset(context, name), ref)
    if as_json:
        output.print_json(version)
        return
    console = output.console()
    facts = [
        (
            "version",
            f"v{version.version} of {version.dataset}" + (f", after v{version.parent}" if version.parent else ""),
        ),
        ("message", version.message),
        ("published", dataset_text.when(version)),
        ("commit", version.commit_id or ""),
        ("manifest", version.manifest_hash.hex() if version.manifest_hash else ""),
        ("changes", f"{version.added:,} added, {version.changed:,} changed, {version.removed:,} removed"),
        ("holds", f"{version.files:,} files, {output.size(version.content_bytes)}"),
    ]
    for fact, value in facts:
        console.print(Text(f"{fact:>10}  ", style="dim").append(value, style="not dim"), soft_wrap=True)
    for source, cut in sorted(version.cut.items()):
        complete = (
            "nothing is complete yet" if cut["complete_to"] is None else f"complete to change {cut['complete_to']:,}"
        )
        console.print(Text(f"{'source':>10}  ", style="dim").append(f"{source}: {complete}", style="not dim"))
        count = cut["exception_count"]
        for exception in cut["exceptions"][:_EXCEPTIONS_SHOWN]:
            line = Text(f"{'excepted':>10}  ", style="dim").append(exception["display"], style="not dim yellow")
            console.print(line.append(f"  {exception['reason']}", style="not yellow dim"), soft_wrap=True)
        if count > _EXCEPTIONS_SHOWN:
            console.print(
                Text(f"{'':>10}  and {count - _EXCEPTIONS_SHOWN:,} more (--json has the first thousand)", style="dim")
            )


@app.command()
def diff(
    context: typer.Context,
    left: Annotated[str, typer.Argument(metavar="A", help="v3, 3, latest, or the beginning of a commit id.")],
    right: Annotated[str, typer.Argument(metavar="B", help="The same; default latest.")] = "latest",
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Show which files differ between two versions."""
    from headwater.consumers.dataset.difference import diff as differences

    found = differences(_dataset(context, name), left, right)
    if as_json:
        output.print_json(
            [{"kind": one.kind, "place": one.place, "before": one.before, "after": one.after} for one in found]
        )
        return
    console = output.console()
    for one in found:
        console.print(dataset_text.difference(one), soft_wrap=True)
    counts = Counter(one.kind.value for one in found)
    said = ", ".join(
        f"{count:,} {'metadata only' if kind == 'metadata' else kind}" for kind, count in counts.most_common()
    )
    console.print(f"\n{said}." if found else f"{left} and {right} hold the same.")


@app.command()
def ls(
    context: typer.Context, ref: Ref = "latest", prefix: Prefix = "", name: Name = None, as_json: AsJson = False
) -> None:
    """List the files of a version.

    A place is <source>/<path>, as lakeFS has it. With --json, one line a file.
    """
    from headwater.consumers.dataset.reading import ls as files

    console, count = output.console(), 0
    for row in files(_dataset(context, name), ref, prefix):
        count += 1
        if as_json:
            output.print_json({"place": row.place, **output.plain(row)}, lines=True)
        else:
            console.print(dataset_text.line(row), soft_wrap=True)
    if not count and not as_json:
        console.print("No file." if not prefix else f"No file below {prefix}", style="dim")


@app.command()
def cat(
    context: typer.Context,
    ref: Ref,
    place: Annotated[str, typer.Argument(help="As `headwater dataset ls` shows it.")],
    name: Name = None,
) -> None:
    """Write a file's bytes to stdout.

    They are hashed on the way: exit code 5, after the last byte, says that they are not what was committed.
    """
    from headwater.consumers.dataset.reading import cat as pieces

    for piece in pieces(_dataset(context, name), ref, place):
        sys.stdout.buffer.write(piece)


@app.command()
def verify(
    context: typer.Context,
    ref: Ref = "latest",
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every byte from the bucket, and compare hashes.")
    ] = False,
    with_sources: Annotated[
        bool, typer.Option("--with-sources", help="Also read the source folders of the settings, and compare.")
    ] = False,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Prove a version against its manifest.

    Exit code 1: it differs. Always compared: manifest, catalog and lakeFS name the same files, addresses, sizes and
    checksums. --deep condemns each object that is lost or spoiled, and asks its source for the files again: the next
    version has them. --with-sources compares what the folders hold now: a file that was edited since differs, rightly.
    Names that differ in case or Unicode form alone are counted: they are right, but one to Windows, macOS or SMB.
    """
    from headwater.consumers.dataset.condemnation import condemn
    from headwater.consumers.dataset.verification import verify as prove

    dataset = _dataset(context, name)
    sources = frame.of(context).settings.sources.items() if with_sources else ()
    roots = {source: os.fsencode(config.root) for source, config in sources if config.dataset == dataset.name}
    with _counting("verifying") as counted:
        found = prove(dataset, ref, deep=deep, source_roots=roots, progress=counted)
    condemned = condemn(dataset, frame.of(context).kafka, found.broken) if found.broken else None
    if as_json:
        output.print_json({"right": found.is_right, **output.plain(found), "condemned": output.plain(condemned)})
    else:
        console = output.console()
        for problem in found.problems:
            console.print(Text("✗ ", style="red").append(problem, style="default"), soft_wrap=True)
        if found.problem_count > len(found.problems):
            console.print(f"and {found.problem_count - len(found.problems):,} more")
        if found.collision_count:
            output.say(console, dataset_text.collisions(found))
        output.say(console, dataset_text.verdict(found, deep=deep, compared=bool(roots)))
        if condemned is not None:
            output.say(console, dataset_text.condemned(condemned))
    if not found.is_right:
        raise typer.Exit(1)


@app.command()
def export(
    context: typer.Context,
    ref: Ref,
    folder: Annotated[Path, typer.Argument(help="Where to. Files that are right already are kept.")],
    prefix: Prefix = "",
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Take a version out into a folder.

    As <source>/<path>, with times, modes and symbolic links. Each file appears whole or not at all, its hash checked.
    Where the folder has one place for two names, as case or Unicode form do not count there, nothing is written.
    Run it again to go on after an interruption. Exit code 3: done, but for paths that were named.
    """
    from headwater.consumers.dataset.export import export as take_out

    with _counting("exporting") as counted:
        found = take_out(_dataset(context, name), ref, folder, prefix=prefix, progress=counted)
    if as_json:
        output.print_json({"whole": found.is_whole, **output.plain(found)})
    else:
        console = output.console()
        for problem in found.problems:
            console.print(Text("✗ ", style="red").append(problem, style="default"), soft_wrap=True)
        for place in found.shadowed:
            console.print(
                Text("! ", style="yellow").append(
                    f"{place}: a newer file or folder stands in its place", style="default"
                )
            )
        output.say(
            console,
            f"v{found.version.version} in {folder}: {found.written:,} files written "
            f"({output.size(found.bytes_written)}), {found.kept:,} were there already, {found.links:,} links.",
        )
    if not found.is_whole:
        raise typer.Exit(3)


def _dataset(context: typer.Context, name: str | None) -> Dataset:
    from headwater.consumers.dataset.dataset import Dataset

    the = frame.of(context)
    return Dataset(name or the.settings.dataset, the.catalog, the.store, the.lakefs)


@contextmanager
def _counting(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A live count on stderr, where a person watches."""
    with output.console(errors=True).status(f"{doing} …") as status:
        yield lambda files, read: status.update(f"{doing} … {files:,} files, {output.size(read)}")
