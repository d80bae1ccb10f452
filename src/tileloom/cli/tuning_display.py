"""What one sees while programs are tuned: a table that is kept up to date, or a line a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import get_args

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..records import Record
from ..report import rate_text, ratio_text, time_text
from ..tuner.operations import count_operations
from ..tuner.task_scheduler import Phase, Progress
from ..tuner.tuner import OnRound, TuningTask
from .console import table

#: Lines of the terminal that are no kernels.
_AROUND = 7
COLUMNS = ["kernel", "calls", "best", "GFLOP/s", "speedup", "trials", "failed", ""]


@dataclass
class Board:
    """How far a run has come.

    Attributes:
        tasks: the programs.
        trials: candidates that it may measure.
        progress: of the programs, in their order; empty until the first is begun.
        done: candidates that were measured in this run.
        chosen: the number of the program that is worked at.
        note: what else is to be said.
        echo: says it where the board itself is not seen.
    """

    tasks: Sequence[TuningTask]
    trials: int
    progress: Sequence[Progress] = ()
    done: int = 0
    chosen: int = 0
    note: str = ""
    echo: Callable[[str], None] | None = None
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()
        self.operations = [count_operations(task.context.mod["main"]) for task in self.tasks]

    def on_trial(self, tasks: Sequence[Progress], chosen: int, record: Record | None) -> None:
        """See `OnTrial`."""
        self.progress, self.chosen = tasks, chosen
        self.done += record is not None

    def say(self, text: str) -> None:
        """Have something else seen."""
        self.note = text
        if self.echo is not None:
            self.echo(text)

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.started

    @property
    def seconds_left(self) -> float:
        """Until the last candidate, if it goes on as it went; NaN before the first."""
        if not self.done:
            return nan
        return self.elapsed / self.done * max(0, self.trials - self.done)

    def sums(self) -> tuple[float, float]:
        """Seconds of all calls, as the planner makes the kernels and with the best so far.

        Of those kernels of which both are known.
        """
        known = [p for p in self.progress if isfinite(p.default_seconds) and isfinite(p.fastest)]
        before = sum(p.weight * p.default_seconds for p in known)
        return before, sum(p.weight * min(p.fastest, p.default_seconds) for p in known)

    def status(self) -> str:
        """The state in one line."""
        parts = [f"{self.done}/{self.trials} trials in {clock_text(self.elapsed)}"]
        left = self.seconds_left
        if isfinite(left):
            parts.append(f"{clock_text(left)} left")
        before, after = self.sums()
        if before:
            speedup = ratio_text(before / after)
            parts.append(f"all calls {time_text(before)} -> {time_text(after)} ({speedup})")
        return ", ".join(parts)


def clock_text(seconds: float) -> str:
    """A length of time, roughly.

    >>> clock_text(7.2), clock_text(75), clock_text(3725)
    ('7 s', '1 min 15 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def speedup_of(progress: Progress) -> float:
    """How many times as fast as what the planner makes; NaN where that is not known."""
    ratio = progress.default_seconds / progress.fastest
    return max(1.0, ratio) if isfinite(ratio) else nan


@dataclass
class LiveTable:
    """A board as a table and a bar, drawn anew as often as rich asks."""

    board: Board

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        board = self.board
        rows = Table.grid()
        rows.add_row(self._table(options.size.height - _AROUND))
        rows.add_row(ProgressBar(total=board.trials, completed=board.done, width=60))
        rows.add_row(Text(board.status()))
        rows.add_row(Text(board.note, style="yellow"))
        yield rows

    def _table(self, most: int) -> Table:
        rows = table("", COLUMNS)
        for column in rows.columns:
            column.overflow, column.no_wrap = "ellipsis", True
            column.min_width = len(str(column.header))
        rows.columns[-1].min_width = max(map(len, get_args(Phase)))
        for number in self._shown(max(3, most)):
            self._row(rows, number)
        left = len(self.board.progress) - rows.row_count
        if left > 0:
            rows.add_row(f"and {left} more", style="dim")
        return rows

    def _shown(self, most: int) -> list[int]:
        """The kernels that take most of the time, and the one that is worked at."""
        progress = self.board.progress
        order = sorted(range(len(progress)), key=lambda k: _share(progress[k]), reverse=True)
        shown = order[:most]
        if self.board.chosen not in shown and shown:
            shown[-1] = self.board.chosen
        return sorted(shown, key=order.index)

    def _row(self, rows: Table, number: int) -> None:
        one = self.board.progress[number]
        speedup = speedup_of(one)
        rows.add_row(
            one.name,
            f"{one.weight:g}",
            time_text(one.fastest),
            rate_text(self.board.operations[number], one.fastest),
            f"[green]{ratio_text(speedup)}[/]" if speedup > 1 else ratio_text(speedup),
            str(one.trials),
            str(one.failures.total()),
            one.phase or ("done" if one.is_over else ""),
            style="bold" if one.phase else None,
        )


def _share(progress: Progress) -> float:
    return progress.weight * progress.fastest if isfinite(progress.fastest) else inf


@dataclass
class PlainLines:
    """A line a round, for files and for terminals that cannot go back."""

    board: Board
    echo: Callable[[str], None]

    def on_round(self, tasks: Sequence[Progress], chosen: int, trials: int) -> None:
        """See `OnRound`."""
        one = tasks[chosen]
        speedup = f" ({ratio_text(speedup_of(one))})" if isfinite(speedup_of(one)) else ""
        failed = f", {one.failures.total()} failed" if one.failures else ""
        done = f"{time_text(one.fastest)}{speedup} after {one.trials} trials{failed}"
        self.echo(f"{one.name}: {done}; {self.board.status()}")


@contextmanager
def shown(board: Board, console: Console) -> Iterator[OnRound | None]:
    """Show a board while it changes.

    Yields:
        What is to be called after each round, if anything.
    """
    if console.is_terminal:
        with Live(LiveTable(board), console=console, refresh_per_second=4, transient=True):
            yield None
    else:

        def echo(text: str) -> None:
            console.print(text, soft_wrap=True, highlight=False, markup=False)

        board.echo = echo
        yield PlainLines(board, echo).on_round
