"""`tileloom tune`: look for faster schedules of the kernels of a program."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from ..base.errors import UserError
from ..base.settings import override, settings
from ..driver import backend_of, compile_graph, kernels_of
from ..graph.nodes import Graph, Tensor
from ..records import open_records, usual_place
from ..records.lookup import NONE
from ..report import (
    TuningHistory,
    rate_text,
    ratio_text,
    read_history,
    time_text,
    tuning_html,
    without_password,
)
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from ..tuner.tune_program import TuneOptions, place_of, tune_programs
from ..tuner.tuner import TuningTask
from . import models
from .console import err, out, table
from .opt_command import read_script
from .programs import PROGRAMS, program_graph
from .timing import interleaved_times
from .tuning_display import Board, shown

#: How places begin that are no paths of files.
_OTHERS = ("sqlite:", "postgres", "jsonl:")
_WIDTH = 120  # of tables that are not for a terminal
INTERRUPTED = 130  # what shells expect after Ctrl-C


@click.command("tune")
@click.argument("what", metavar="MODEL|PROGRAM")
@models.model_options
@click.option("--target", default="cpu", show_default=True, help='As "cpu -mcpu=x86-64-v3".')
@click.option("--shape", metavar="64x128", help="Of the argument of a built-in program.")
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Candidates to measure, over all kernels; 0 shows what is on record.",
)
@click.option("--trials-per-task", type=click.IntRange(min=1), help="Of one kernel at most.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="A round.")
@click.option(
    "--records",
    metavar="PLACE",
    help="Where measurements are kept: a file, sqlite:///, postgresql:// or jsonl:FOLDER.",
)
@click.option(
    "--executor",
    metavar="URL",
    default="local",
    show_default=True,
    help="Where candidates run: local, local:N, dask://host:port, ray://host:port.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes that make candidates.")
@click.option(
    "--report", metavar="FILE.html", type=click.Path(dir_okay=False), help="Write a page."
)
def command(
    what: str, inputs: Sequence[str], dims: Sequence[str], seed: int, target: str,
    shape: str | None, trials: int, trials_per_task: int | None, batch: int, records: str | None,
    executor: str, workers: int | None, report: str | None,
) -> None:  # fmt: skip
    """Look for faster schedules of a program's kernels, by measuring many.

    MODEL is an ONNX file, an AKG graph (.info, .json), or TVMScript text (.py, .txt). PROGRAM is a
    built-in program; `list` prints their names. What is found is kept, and the next compilation
    takes it. Ctrl-C ends the search; the same command goes on where it was.
    """
    if what == "list":
        for program in PROGRAMS:
            click.echo(f"{program.name:12} {program.shape}")
        return
    machine, place = parse_target(target), place_of(records)
    with err.status("planning"):
        found = program_of(what, inputs, dims, seed, shape)
        tasks = tasks_of(found, machine)
    fine = True
    if trials:
        if executor.startswith("local"):
            backend_of(machine)  # which says so if such a machine is not here
        about = (trials, trials_per_task, place, executor, workers, seed + 1, batch)
        fine = search(tasks, TuneOptions(*about))
    if not fine and not is_known(tasks, place):
        err.print("interrupted before anything was measured")
        raise SystemExit(INTERRUPTED)
    history = read(what, tasks, place)
    (out if out.is_terminal else Console(width=_WIDTH)).print(summary(history))
    for line in failures(history):
        err.print(line, soft_wrap=True, highlight=False, markup=False)
    if isinstance(found, Graph) and fine and history.changes:
        show_whole(found, machine, place)
    if report is not None:
        Path(report).write_text(tuning_html(history), encoding="utf-8")
        err.print(f"wrote {report}")
    err.print(advice(place, records is not None, fine, history), soft_wrap=True, highlight=False)
    if not fine:
        raise SystemExit(INTERRUPTED)


def program_of(
    what: str, inputs: Sequence[str], dims: Sequence[str], seed: int, shape: str | None
) -> Graph | IRModule | PrimFunc:
    """The program in a file, or a built-in one."""
    if not Path(what).is_file():
        return program_graph(what, seed, shape)
    if not models.is_model(what):
        script: IRModule | PrimFunc = read_script(what)
        return script
    extents = models.parse_dims(dims)
    model = models.load(what, extents)
    return models.graph_of(model, models.make_inputs(model.get_inputs(), inputs, extents, seed))


def tasks_of(program: Graph | IRModule | PrimFunc, target: Target) -> list[TuningTask]:
    """The kernels of a graph, or the functions of a script, by their own names."""
    if isinstance(program, Graph):
        return kernels_of(program, target)
    if isinstance(program, PrimFunc):
        functions = {program.name: program}
    else:
        functions = dict(program.functions)
    found = []
    for name, func in functions.items():
        (task,) = kernels_of(IRModule({"main": func.with_attr("global_symbol", "main")}), target)
        found.append(replace(task, context=replace(task.context, name=name)))
    return found


# ---------------------------------------------------------------------------- the search


def search(tasks: Sequence[TuningTask], options: TuneOptions) -> bool:
    """Tune, and show how it goes; whether it was not interrupted.

    Raises:
        UserError: the executor or the records cannot be used.
    """
    if find_spec("xgboost") is None:
        text = "without XGBoost the cost model learns nothing: pip install 'tileloom[tune]'"
        err.print(text, soft_wrap=True, highlight=False, markup=False)
    board = Board(tasks, options.trials)
    kernels = f"{len(tasks)} kernel{'s' * (len(tasks) != 1)}"
    err.print(
        f"tuning {kernels}; records in {without_password(str(options.records))}",
        soft_wrap=True,
        highlight=False,
    )
    try:
        with interrupts(board), shown(board, err) as on_round:
            tune_programs(tasks, replace(options, on_round=on_round, on_trial=board.on_trial))
    except KeyboardInterrupt:
        return False
    return True


@contextmanager
def interrupts(board: Board) -> Iterator[None]:
    """Say what Ctrl-C does, when it is pressed."""

    def interrupt(_signal: int, _frame: Any) -> None:
        board.say("stopping: comparing what was found; Ctrl-C again ends that, too")
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------------------- what was found


def is_known(tasks: Sequence[TuningTask], place: str | Path) -> bool:
    """Whether anything of these kernels is on record."""
    with open_records(place) as store:
        return read_history("", tasks, store).trials > 0


def read(what: str, tasks: Sequence[TuningTask], place: str | Path) -> TuningHistory:
    """What is on record.

    Raises:
        UserError: nothing is.
    """
    is_file = isinstance(place, Path) or not place.startswith(_OTHERS)
    history = None
    if not is_file or Path(place).is_file():
        with open_records(place) as store:
            history = read_history(Path(what).name, tasks, store, str(place))
    if history is None or not history.trials:
        raise UserError(
            f"no kernel of {what} is on record in {without_password(str(place))}",
            hint="--trials 100",
        )
    return history


def summary(history: TuningHistory) -> Table:
    """The kernels before and after, those that take most of the time first."""
    columns = ["kernel", "calls", "planner", "tuned", "speedup", "GFLOP/s", "trials", "failed"]
    rows = table(f"{history.name}: one call of each kernel", columns)
    for task in history.by_share():
        rows.add_row(
            task.name,
            f"{task.weight:g}",
            time_text(task.default_seconds),
            time_text(task.seconds),
            _marked(task.speedup) if isfinite(task.default_seconds) else "-",
            rate_text(task.operations, task.seconds),
            str(len(task.records)),
            str(task.failures.total()),
        )
    rows.add_section()
    times = time_text(history.default_seconds), time_text(history.seconds)
    counts = str(history.trials), str(history.failed)
    rows.add_row("all calls", "", *times, _marked(history.speedup), "", *counts, style="bold")
    return rows


def failures(history: TuningHistory) -> Iterator[str]:
    """A line for each kernel of which nothing ran."""
    for task in history.tasks:
        if task.records and task.best is None:
            ((kind, text, _),) = task.complaints(1)
            yield f"{task.name}: all candidates failed, such as by {kind}: {text}"


def _marked(speedup: float) -> str:
    return f"[green]{ratio_text(speedup)}[/]" if speedup > 1 else ratio_text(speedup)


def show_whole(graph: Graph, target: Target, place: str | Path) -> None:
    """Compile and time the whole program, as the planner makes it and with what was found."""
    try:
        with err.status("timing the whole program"):
            before, after = whole_times(graph, target, place)
    except UserError as error:  # such as a target that is not here
        err.print(f"the whole program was not timed: {error.message}", highlight=False)
        return
    speedup = _marked(before / after)
    out.print(f"whole program, measured: {time_text(before)} -> {time_text(after)} ({speedup})")


def whole_times(graph: Graph, target: Target, place: str | Path) -> tuple[float, float]:
    """Median seconds of a run, without and with records."""
    with override(records=NONE, traces=None):
        before = compile_graph(graph, target)
    with override(records=str(place), traces=None):
        after = compile_graph(graph, target)
    rng = np.random.default_rng(0)
    arrays = [_random(tensor, rng) for tensor in graph.inputs]
    times = interleaved_times({"planner": lambda: before(*arrays), "tuned": lambda: after(*arrays)})
    return times["planner"], times["tuned"]


def _random(tensor: Tensor, rng: np.random.Generator) -> Any:
    shape = [int(extent) for extent in tensor.type.shape]
    dtype = tensor.type.dtype.numpy
    if dtype.kind in "biu":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def advice(place: str | Path, is_named: bool, fine: bool, history: TuningHistory) -> str:
    """What happens next.

    Args:
        is_named: whether the place was said on the command line.
        fine: whether the search came to its end.
    """
    shown_place = without_password(str(place))
    lines = [f"what was measured is in {shown_place}"]
    if not fine:
        lines[0] = f"interrupted: {lines[0]}; the same command goes on from there"
    waiting = sum(task.best is not None and task.chosen is None for task in history.tasks)
    if waiting:
        kernels = f"{waiting} kernel{'s' * (waiting != 1)}"
        lines.append(f"what was found was not compared yet for {kernels}, which stay as they were")
    if all(task.chosen is None for task in history.tasks):
        lines.append("nothing was chosen: kernels are made as before")
    elif is_named and str(place) != (settings().records or str(usual_place())):
        lines.append(
            f"compilations take what was chosen where TILELOOM_RECORDS={shown_place} is set"
        )
    else:
        lines.append("the next compilation takes what was chosen")
    return "\n".join(lines)
