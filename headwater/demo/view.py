"""What the demo shows: on a terminal a live table under a running text, elsewhere one plain line now and then.

``Screen`` is the only thing that prints. The nouns below are all it needs to know of the system.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headwater.stack.progress import Step

RATE_WINDOW_SECONDS = 5.0
PLAIN_LINE_SECONDS = 5.0
REFRESHES_PER_SECOND = 8
MOST_LINES = 24
LINES_A_KIND = 3
WIDTH_OF_LOGS = 120
"""Where no terminal tells its width."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How far the folder has come: ``files`` and ``bytes`` that reached the stage, counted once each."""

    name: str
    meaning: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a consumer group has still to read; ``seconds`` is the age of the oldest such record."""

    group: str
    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    stages: tuple[Stage, ...]
    lags: tuple[GroupLag, ...]


@dataclass(slots=True)
class Rates:
    """Files and bytes a second over the last few seconds, from the snapshots that were shown."""

    seen: deque[tuple[float, Snapshot]] = field(default_factory=deque)

    def add(self, now: float, snapshot: Snapshot) -> None:
        self.seen.append((now, snapshot))
        while now - self.seen[0][0] > RATE_WINDOW_SECONDS and len(self.seen) > 2:
            self.seen.popleft()

    def of(self, stage: str) -> tuple[float, float]:
        """(files, bytes) a second."""
        if len(self.seen) < 2:
            return 0.0, 0.0
        (began, first), (ended, last) = self.seen[0], self.seen[-1]
        before, after = _stage(first, stage), _stage(last, stage)
        seconds = max(ended - began, 0.001)
        return (after.files - before.files) / seconds, (after.bytes - before.bytes) / seconds


class Screen:
    """Prints the demo. Use it as a context manager: it gives the terminal back as it was."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or _console()
        self._clock = clock
        self._began = clock()
        self._rates = Rates()
        self._picture: RenderableType | None = None
        self._waiting_for = ""
        self._steps: dict[tuple[str, str], tuple[Step, float]] = {}
        self._last_line, self._last_line_at = "", -PLAIN_LINE_SECONDS
        self._live = (
            Live(
                get_renderable=self._render,
                console=self.console,
                transient=True,
                refresh_per_second=REFRESHES_PER_SECOND,
            )
            if self.console.is_terminal
            else None
        )

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def act(self, number: int, title: str, sentence: str) -> None:
        """Begin an act: its title, and what will happen, in a sentence."""
        self.console.print()
        self.console.rule(f"[bold]{number}. {escape(title)}[/]", align="left", style="cyan")
        self.console.print(escape(sentence))
        self.console.print()

    def say(self, sentence: str) -> None:
        """One thing that was done."""
        self._item("[cyan]·[/]", escape(sentence))

    def check(self, sentence: str) -> None:
        """One thing that was checked and holds."""
        self._item("[green]✓[/]", escape(sentence))

    def quote(self, command: str, output: str) -> None:
        """A command as the user would type it, and what it answered."""
        self.command(command)
        self.answer(output)

    def command(self, command: str) -> None:
        """A command as the user would type it; its ``answer`` comes later."""
        self._item("[bold]$[/]", f"[bold]{escape(command)}[/]")

    def answer(self, output: str) -> None:
        for line in excerpt(output.rstrip().splitlines()):
            answer = Text.from_ansi(line)
            if self.console.is_terminal:
                self.console.print(Padding(answer, (0, 0, 0, 4)))
            else:
                self.console.print(Text("    ") + answer, soft_wrap=True)

    def table(self, title: str, rows: Iterable[tuple[str, str]]) -> None:
        """Things and what they are, below a title."""
        self.console.print(f"\n[bold]{escape(title)}[/]")
        lines = Table.grid(padding=(0, 2))
        for thing, meaning in rows:
            lines.add_row(Text(f"  {thing}", style="cyan", no_wrap=True), Text(meaning, style="dim"))
        self.console.print(lines)

    def _item(self, mark: str, markup: str) -> None:
        """Wrapped below its own beginning on a terminal; a log's lines stay whole, so that they can be searched."""
        if self.console.is_terminal:
            line = Table.grid(padding=(0, 1))
            line.add_row(f"  {mark}", Text.from_markup(markup, overflow="fold"))
            self.console.print(line)
        else:
            self.console.print(f"  {mark} {markup}", soft_wrap=True)

    def waiting(self, what: str) -> None:
        """What the demo waits for now; empty when it does not wait."""
        self._waiting_for = what

    def step(self, step: Step) -> None:
        """A step of bringing the stack up (``headwater.stack`` reports it, from any of its threads)."""
        key = (step.program, step.action)
        if step.seconds is None:
            self._steps[key] = (step, self._clock())
            if not self._live and step.estimate_seconds >= PLAIN_LINE_SECONDS:
                self.say(f"{step.program}: {step.action}, about {step.estimate_seconds:.0f} s")
        else:
            self._steps.pop(key, None)
            if step.action != "check":
                self.check(f"{step.program}: {step.action}, {step.seconds:.1f} s")

    def show(self, snapshot: Snapshot) -> None:
        """The state of the river, as often as it is known."""
        self._rates.add(self._clock(), snapshot)
        self.present(river(snapshot, self._rates), plain(snapshot))

    def present(self, picture: RenderableType, line: str) -> None:
        """What there is to see now: a picture below the running text on a terminal, else a line now and then."""
        now = self._clock()
        self._picture = picture
        if not self._live and now - self._last_line_at >= PLAIN_LINE_SECONDS and line != self._last_line:
            self._last_line, self._last_line_at = line, now
            self.console.print(f"  {minutes(now - self._began)}  {line}", soft_wrap=True)

    def _render(self) -> RenderableType:
        now = self._clock()
        parts: list[RenderableType] = [
            Text(
                f"  {step.program}: {step.action}, {now - since:.0f} s of about {step.estimate_seconds:.0f} s",
                style="dim",
            )
            for step, since in list(self._steps.values())
        ]
        if self._picture:
            parts.append(self._picture)
        if self._waiting_for:
            parts.append(Spinner("dots", Text(f"{self._waiting_for}  ({minutes(now - self._began)})", style="dim")))
        return Group(*parts)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_LOGS)


def excerpt(lines: list[str]) -> list[str]:
    """All lines, or of a long answer the first few of each kind (by what they begin with) and its last line."""
    if len(lines) <= MOST_LINES:
        return lines
    shown: list[str] = []
    of_kind: Counter[str] = Counter()
    for line in filter(None, lines[:-1]):
        kind = Text.from_ansi(line).plain[:1]
        of_kind[kind] += 1
        if of_kind[kind] <= LINES_A_KIND:
            shown.append(line)
    return [*shown, f"… {of_kind.total() - len(shown)} lines more", lines[-1]]


def river(snapshot: Snapshot, rates: Rates) -> RenderableType:
    """The stages beside each other with rates, the lag per group below."""
    stages = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    stages.add_column("stage", style="bold", min_width=10)
    stages.add_column("", style="dim")
    for name in ("files", "bytes", "files/s", "MiB/s"):
        stages.add_column(name, justify="right", min_width=9)
    for stage in snapshot.stages:
        files_rate, bytes_rate = rates.of(stage.name)
        stages.add_row(
            stage.name,
            stage.meaning,
            f"{stage.files:,}",
            size(stage.bytes),
            f"{files_rate:,.0f}" if files_rate >= 0.5 else "",
            f"{bytes_rate / 2**20:,.1f}" if bytes_rate >= 50_000 else "",
        )
    lags = Text("  lag  ", style="bold")
    for lag in snapshot.lags:
        style = "green" if lag.records == 0 else "yellow"
        lags.append(f"{lag.group} ", style="dim").append(lag_text(lag), style=style).append("   ")
    return Group(stages, lags) if snapshot.lags else stages


def plain(snapshot: Snapshot) -> str:
    stages = " · ".join(f"{stage.name} {stage.files:,} ({size(stage.bytes)})" for stage in snapshot.stages)
    behind = ", ".join(f"{lag.group} {lag_text(lag)}" for lag in snapshot.lags if lag.records)
    return f"{stages} · lag: {behind or 'none'}"


def lag_text(lag: GroupLag) -> str:
    return f"{lag.records:,} ({lag.seconds:.0f} s)" if lag.records else "0"


def size(count: float) -> str:
    """Bytes for people, as the other commands show them."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _stage(snapshot: Snapshot, name: str) -> Stage:
    return next(stage for stage in snapshot.stages if stage.name == name)
