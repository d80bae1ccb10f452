"""What records say about a tuning run, and the page of it."""

from __future__ import annotations

from html.parser import HTMLParser
from math import inf, isnan
from pathlib import Path
from typing import Any

import pytest

from tileloom import te
from tileloom.records import Record, open_records, target_key, workload_key
from tileloom.report import TuningHistory, read_history, tuning_html
from tileloom.schedule import Schedule
from tileloom.target import Target
from tileloom.tir import IRModule
from tileloom.tuner.context import TuneContext
from tileloom.tuner.tuner import TuningTask

HOST = Target.host()


def doubled(size: int) -> IRModule:
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * 2.0, name="B")
    return IRModule({"main": te.create_prim_func([a, b])})


def trace(mod: IRModule, factor: int) -> Any:
    sch = Schedule(mod)
    sch.split(sch.get_loops("B")[0], [None, factor])
    assert sch.trace is not None
    return sch.trace.as_json()


def task(size: int, weight: float, name: str) -> TuningTask:
    return TuningTask(TuneContext(doubled(size), HOST, name), weight, [trace(doubled(size), 2)])


TASKS = [task(8, 2.0, "kernel<8>"), task(16, 1.0, "kernel16")]
# factor of the split, seconds, status, error, score: in the order of measuring
MEASURED = {
    0: [
        (2, 4e-3, "ok", "", 0.2),
        (4, 0.0, "wrong", "B is off by 0.31 (at most 1e-05)", 0.9),
        (8, 2e-3, "ok", "", 0.8),
        (1, 3e-3, "ok", "", 0.5),
    ],
    1: [(2, 1e-3, "ok", "", 0.1), (4, 0.0, "wrong", "B is off by 0.72 (at most 1e-05)", 0.9)],
}


@pytest.fixture
def history(tmp_path: Path) -> TuningHistory:
    with open_records(tmp_path / "r.db") as store:
        for number, entries in MEASURED.items():
            mod = TASKS[number].context.mod
            keys = workload_key(mod), target_key(HOST)
            for k, (factor, seconds, status, error, score) in enumerate(entries):
                times = (seconds,) if seconds else ()
                extra = {"status": status, "score": score}
                made = trace(mod, factor)
                store.add(Record(*keys, made, times, error, 100.0 * number + k, extra))
        keys = workload_key(TASKS[0].context.mod), target_key(HOST)
        final = {"default_seconds": [4.2e-3, 4.4e-3, 9e-3]}
        best = trace(TASKS[0].context.mod, 8)
        store.choose(Record(*keys, best, (2.2e-3,), extra=final))
        return read_history("net & co", TASKS, store, "r.db")


def test_a_kernel(history: TuningHistory) -> None:
    first, second = history.tasks
    assert first.default_seconds == 4.4e-3 and first.first_default_seconds == 4e-3
    assert first.seconds == 2.2e-3 and first.speedup == 2.0
    assert not first.keeps_default and second.keeps_default and second.speedup == 1.0
    assert first.operations == 8 and first.argument_bytes == 64
    assert first.failures == {"wrong": 1}
    assert first.complaints() == [("wrong", "B is off by 0.31 (at most 1e-05)", 1)]
    assert first.improvements() == [(1, 4e-3), (3, 2e-3)]
    assert first.predictions() == [(0.2, 0.5), (0.8, 1.0), (0.5, pytest.approx(2 / 3))]
    assert isnan(first.correlation)  # of too few
    assert first.best is not None
    assert "factors=[None, 8]" in first.steps(first.best.trace)
    assert "T.grid(1, 8)" in first.script(first.best.trace)


def test_a_program(history: TuningHistory) -> None:
    assert history.changes and not TuningHistory("net", "cpu", "", history.tasks[1:]).changes
    assert history.trials == 6 and history.failed == 2 and history.period == (0.0, 101.0)
    assert history.seconds == pytest.approx(2 * 2.2e-3 + 1e-3)
    assert history.default_seconds == pytest.approx(2 * 4.4e-3 + 1e-3)
    assert [(k, round(s * 1e3, 3)) for k, s in history.sums()] == [(0, 9.0), (3, 5.0)]
    assert [one.name for one in history.by_share()] == ["kernel<8>", "kernel16"]


def test_nothing_measured(tmp_path: Path) -> None:
    with open_records(tmp_path / "r.db") as store:
        history = read_history("net", TASKS, store)
    assert history.trials == 0 and history.speedup == 1.0 and history.tasks[0].seconds == inf
    assert "Nothing was measured of it" in page_of(history).text


class _Page(HTMLParser):
    """Checks that what is opened is closed, in order, and gathers the text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.tags: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "path", "circle", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "circle"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(history: TuningHistory) -> _Page:
    page = _Page(tuning_html(history))
    assert not page.open
    return page


def test_the_page(history: TuningHistory) -> None:
    page = page_of(history)
    for text in ("Tuning of net & co", "2 of them failed (33%)", "9.80 ms → 5.40 ms", "1.81x",
                 "1 of 2", "kernel<8>", "3 candidates, too few", "B is off by 0.31",
                 "The planner's own schedule stays", "factors=[None, 8]",
                 "T.grid(1, 8)"):  # fmt: skip
        assert text in page.text, text
    assert page.tags.count("svg") == 5  # the program, and two of each kernel
    assert not {"script", "link", "img", "iframe"} & set(page.tags)


def test_records_of_other_versions(history: TuningHistory) -> None:
    """Without a status and a score, with steps that there are no longer."""
    first = history.tasks[0]
    record = Record("w", "t", [[["NoSuchStep", [], [], []]], []], (), "", 5.0)
    old = type(first)(TASKS[0], (record, Record("w", "t", record.trace, (1e-3,))), None)
    assert old.failures == {"failed": 1} and old.predictions() == []
    assert old.complaints() == [("failed", "nothing is known", 1)]
    text = page_of(TuningHistory("net", "cpu", "", [old])).text
    assert "Nothing was chosen yet" in text
    assert "NoSuchStep" in text and "too few candidates to predict" in text
