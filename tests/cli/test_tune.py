"""`tileloom tune`, called as users call it, with measurements made up."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from tileloom.base.settings import override
from tileloom.cli import tune_command
from tileloom.cli.app import cli
from tileloom.cli.tuning_display import Board, LiveTable, shown
from tileloom.records import Record, open_records, target_key, workload_key
from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.target import Target
from tileloom.tir import IRModule, PrimFunc
from tileloom.tuner.context import TuneContext
from tileloom.tuner.task_scheduler import Progress
from tileloom.tuner.tune_program import TuneOptions
from tileloom.tuner.tuner import TuningTask

SCRIPT = """
@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
"""


def call(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["tune", *map(str, arguments)])


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "double.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "tuned.db"


def faster(task: TuningTask) -> Any:
    """The steps of a candidate."""
    sch = Schedule(task.context.mod)
    for name in task.context.mod.script().split('T.block("')[1:]:
        sch.annotate(sch.get_block(name.partition('"')[0]), "pragma_nothing", 1)
    assert sch.trace is not None
    return sch.trace.as_json()


UNCOMPARED = 13  # the batch with which nothing is chosen


def tune(tasks: Sequence[TuningTask], options: TuneOptions) -> None:
    """Takes 2 ms for what the planner makes of each kernel, and 1 ms for something else."""
    progress = [Progress(task.weight, name=task.context.name) for task in tasks]
    with open_records(options.records or "") as store:
        for k, task in enumerate(tasks):
            keys = workload_key(task.context.mod), target_key(task.context.target)
            for trace, seconds in ((task.firsts[0], 2e-3), (faster(task), 1e-3)):
                record = Record(*keys, trace, (seconds,), extra={"status": "ok", "score": 0.5})
                store.add(record)
                progress[k].note(seconds, "ok", is_default=seconds == 2e-3)
                if options.on_trial is not None:
                    options.on_trial(progress, k, record)
            if options.batch != UNCOMPARED:
                store.choose(Record(*keys, trace, (1e-3,), extra={"default_seconds": [2e-3]}))
            if options.on_round is not None:
                options.on_round(progress, k, 2 * k + 2)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[TuneOptions]:
    """What the tuner is told, which then makes up measurements."""
    found: list[TuneOptions] = []

    def noted(tasks: Sequence[TuningTask], options: TuneOptions) -> None:
        found.append(options)
        tune(tasks, options)

    monkeypatch.setattr(tune_command, "tune_programs", noted)
    monkeypatch.setattr(tune_command, "find_spec", lambda name: name)
    return found


def test_a_script(script: Path, place: Path, tmp_path: Path, told: list[TuneOptions]) -> None:
    page = tmp_path / "page.html"
    result = call(script, "--trials", 7, "--trials-per-task", 5, "--batch", 3, "--workers", 2,
                  "--executor", "local:2", "--records", place, "--report", page)  # fmt: skip
    assert result.exit_code == 0, result.output
    (options,) = told
    assert (options.trials, options.trials_per_task, options.batch) == (7, 5, 3)
    assert (options.workers, options.executor) == (2, "local:2")
    for text in ("double: 1.00 ms (2.00x) after 2 trials; 2/7 trials", "all calls", "2.00 ms",
                 f"TILELOOM_RECORDS={place}", f"wrote {page}"):  # fmt: skip
        assert text in result.output
    assert "Tuning of double.py" in page.read_text()
    assert "whole program" not in result.output  # a function alone is its only kernel


def test_a_program_is_timed_as_a_whole(
    place: Path, told: list[TuneOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(calls: dict[str, Any]) -> dict[str, float]:
        (planner,), (tuned,) = (call() for call in calls.values())
        np.testing.assert_allclose(planner.sum(1), np.ones(4), rtol=1e-5)
        np.testing.assert_allclose(planner, tuned, rtol=1e-5)
        return {"planner": 3e-3, "tuned": 1e-3}

    monkeypatch.setattr(tune_command, "interleaved_times", times)
    with override(records=str(place), cache_dir=tmp_path):
        result = call("softmax", "--shape", "4x8")
    assert result.exit_code == 0, result.output
    assert "whole program, measured: 3.00 ms -> 1.00 ms (3.00x)" in result.output
    assert "the next compilation takes what was chosen" in result.output


def test_what_is_on_record(script: Path, place: Path, told: list[TuneOptions]) -> None:
    none = call(script, "--trials", 0, "--records", place)
    assert none.exit_code == 2 and "is on record" in none.output and not place.exists()
    assert call(script, "--records", place).exit_code == 0
    again = call(script, "--trials", 0, "--records", place)
    assert again.exit_code == 0 and "2.00x" in again.output and len(told) == 1


def test_what_was_not_compared(script: Path, place: Path, told: list[TuneOptions]) -> None:
    result = call(script, "--records", place, "--batch", UNCOMPARED)
    assert result.exit_code == 0, result.output
    assert "not compared yet for 1 kernel, which stay" in result.output
    assert "nothing was chosen" in result.output and "TILELOOM_RECORDS" not in result.output


@pytest.mark.parametrize("measured", [True, False])
def test_interrupts(
    script: Path, place: Path, monkeypatch: pytest.MonkeyPatch, measured: bool
) -> None:
    def interrupted(tasks: Sequence[TuningTask], options: TuneOptions) -> None:
        try:
            if measured:
                tune(tasks, options)
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)  # while what was found is compared

    monkeypatch.setattr(tune_command, "tune_programs", interrupted)
    monkeypatch.setattr(tune_command, "find_spec", lambda name: name)
    before = signal.getsignal(signal.SIGINT)
    result = call(script, "--records", place)
    assert result.exit_code == 130 and signal.getsignal(signal.SIGINT) is before
    assert result.output.count("stopping: ") == 2
    said = "goes on from there" if measured else "before anything was measured"
    assert said in result.output and ("1.00 ms" in result.output) == measured


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing"], "no file and no built-in program 'nothing'"),
        (["softmax", "--shape", "4x8", "--executor", "far"], "address of no executor"),
        (["softmax", "--shape", "4x8", "--records", "ftp://x"], "records cannot be kept in ftp"),
        (["softmax", "--shape", "4x8", "--target", "toaster"], "toaster"),
        (["softmax", "--target", "cpu -mtriple=aarch64-linux-gnu"], "cannot run code for"),
    ],
)
def test_refusals(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    with override(records=str(tmp_path / "r.db")):
        result = call(*arguments)
    assert result.exit_code == 2 and complaint in result.output, result.output
    assert "Traceback" not in result.output


def test_what_is_missing_is_said(
    script: Path, place: Path, told: list[TuneOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "tileloom[tune]" not in call(script, "--records", place).output
    monkeypatch.setattr(tune_command, "find_spec", lambda name: None)
    result = call(script, "--records", place)
    assert result.exit_code == 0 and "tileloom[tune]" in result.output


def test_functions_of_a_module_go_by_their_names(
    tmp_path: Path, place: Path, told: list[TuneOptions]
) -> None:
    path = tmp_path / "two.py"
    function = SCRIPT.strip().replace("\n", "\n    ")
    other = function.replace("double", "triple").replace("float32(2)", "float32(3)")
    path.write_text(f"@I.ir_module\nclass Module:\n    {function}\n\n    {other}\n")
    result = call(path, "--records", place)
    assert result.exit_code == 0, result.output
    assert "double: 1.00 ms" in result.output and "triple: 1.00 ms" in result.output


def test_nothing_ran(script: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(tasks: Sequence[TuningTask], options: TuneOptions) -> None:
        with open_records(options.records or "") as store:
            for task in tasks:
                keys = workload_key(task.context.mod), target_key(task.context.target)
                store.add(
                    Record(*keys, [[], []], (), "no [way]\nat all", extra={"status": "error"})
                )

    monkeypatch.setattr(tune_command, "tune_programs", failing)
    result = call(script, "--records", place, "--report", place.with_suffix(".html"))
    assert result.exit_code == 0, result.output
    assert "double: all candidates failed, such as by error: no [way]\n" in result.output
    assert "kernels are made as before" in result.output
    assert "No candidate ran." in place.with_suffix(".html").read_text()


def test_programs_are_listed() -> None:
    assert "layer_norm" in call("list").output


# ---------------------------------------------------------------------------- the display


def board(count: int) -> Board:
    """At each look at its clock ten seconds have passed."""
    clock = iter(range(0, 10**6, 10))
    func = from_source(SCRIPT)
    assert isinstance(func, PrimFunc)
    module = IRModule({"main": func})
    task = TuningTask(TuneContext(module, Target.host()))
    return Board([task] * count, 40, clock=lambda: float(next(clock)))


RECORD = Record("w", "t", [], (1e-3,))


def test_the_time_left() -> None:
    found = board(1)
    assert found.status() == "0/40 trials in 10 s"
    one = Progress(3.0, name="k", default_seconds=2e-3, fastest=1e-3)
    found.on_trial([one], 0, None)
    found.on_trial([one], 0, RECORD)
    times = "1/40 trials in 20 s, 19 min 30 s left, all calls 6.00 ms -> 3.00 ms (2.00x)"
    assert found.status() == times


def drawn(found: Board, height: int) -> list[str]:
    console = Console(width=100, height=height, record=True, file=StringIO())
    console.print(LiveTable(found))
    return [line.rstrip() for line in console.export_text().splitlines() if line.strip()]


def test_the_table_fits_the_terminal() -> None:
    found = board(9)
    progress = [
        Progress(name=f"k{n}", fastest=1e-3 * n, default_seconds=9e-3) for n in range(1, 10)
    ]
    progress[1].phase = "measuring"
    found.on_trial(progress, 1, RECORD)
    found.say("stopping")
    lines = drawn(found, 30)
    assert [line.split()[0] for line in lines[2:11]] == [f"k{n}" for n in range(9, 0, -1)]
    assert lines[9].split() == [
        "k2",
        "1",
        "2.00",
        "ms",
        "0.00000400",
        "4.50x",
        "0",
        "0",
        "measuring",
    ]
    assert lines[-1] == "stopping" and "1/40 trials" in lines[-2]
    few = drawn(found, 11)
    # Those that take most of the time, and the one that is worked at.
    assert [line.split()[0] for line in few[2:6]] == ["k9", "k8", "k7", "k2"]
    assert few[6].strip() == "and 5 more" and len(few) < 11


def test_a_terminal_gets_the_table_and_a_file_lines() -> None:
    for is_terminal in (True, False):
        found, text = board(1), StringIO()
        console = Console(file=text, force_terminal=is_terminal, width=100)
        with shown(found, console) as on_round:
            one = Progress(name="k[1]", fastest=1e-3)
            found.on_trial([one], 0, RECORD)
            assert (on_round is None) == is_terminal
            if on_round is not None:
                on_round([one], 0, 1)
        assert ("kernel" in text.getvalue()) == is_terminal
        assert ("k[1]: 1.00 ms after 0 trials; 1/40" in text.getvalue()) != is_terminal


@pytest.mark.slow
def test_a_program_from_beginning_to_end(script: Path, place: Path, tmp_path: Path) -> None:
    """Measured on this machine, and reported."""
    pytest.importorskip("xgboost")
    page = tmp_path / "page.html"
    result = call(script, "--trials", 3, "--batch", 3, "--workers", 1, "--records", place,
                  "--report", page)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "/3 trials in" in result.output and "<svg" in page.read_text()
    assert "TILELOOM_RECORDS" in result.output  # something was chosen
