"""What every place keeps: all of a record, found by workload and target, the fastest first."""

from __future__ import annotations

import math
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from records.places import record
from schedule.common import MATMUL
from tileloom import Schedule, UserError
from tileloom.records import (
    Record,
    RecordStore,
    copy_records,
    open_records,
    target_key,
    workload_key,
)
from tileloom.records.sql import SqlStore
from tileloom.schedule.trace import Trace
from tileloom.tir import IRModule
from tuner.mutators.traces import context, cpu_steps, traced


def test_records_come_back_as_they_were(url: str) -> None:
    kept = [
        record(1),
        record(2, seconds=(), error="no registers\nleft: \u2014"),
        record(3, target="other", extra={"deep": [{"a": 1.5}, None], "args_info": [["T"]]}),
    ]
    with open_records(url) as store:
        store.add(kept[0])
        store.add(*kept[1:])
        assert store.all() == kept
        store.add()
    with open_records(url) as store:
        assert store.all() == kept
        assert store.all(target="other") == kept[2:]
        assert store.all("w", "t") == kept[:2]
        assert store.all("none") == store.best("none", "t") == []


def test_the_fastest_come_first_by_their_medians(url: str) -> None:
    times = [(5.0,), (1.0, 9.0, 2.0), (), (3.0,), (2.0, 2.0)]
    with open_records(url) as store:
        for number, seconds in enumerate(times):
            store.add(record(number, seconds=seconds), record(9, workload="v", seconds=(0.0,)))
        found = store.best("w", "t", 9)
        assert [r.extra["number"] for r in found] == [1, 4, 3, 0]  # of equal ones the older first
        assert store.best("w", "t", 2) == found[:2]
        assert store.best("w", "t") == found[:1]


def test_programs_are_kept_by_their_keys(url: str) -> None:
    with open_records(url) as store:
        store.add_workload("b", "text: \u03c0\n")
        store.add_workload("a", "other")
        store.add_workload("b", "too late")
        assert dict(store.workloads()) == {"b": "text: \u03c0\n", "a": "other"}
        assert [*store.workloads()] == ["b", "a"]


def test_a_search_goes_on_where_it_ended(url: str) -> None:
    """The fastest candidate is made anew from what was kept, in the program that was kept."""
    about = context()
    traces = [traced(about, cpu_steps, seed) for seed in (1, 2, 3)]
    key, machine = workload_key(about.mod), target_key(about.target)
    with open_records(url) as store:
        store.add_workload(key, str(about.mod))
        for seconds, trace in zip((3.0, 1.0, 2.0), traces, strict=True):
            store.add(Record(key, machine, trace.as_json(), (seconds,)))
    with open_records(url) as store:
        [fastest] = store.best(key, machine)
        sch = Schedule(about.mod)
        Trace.apply_json_to_schedule(fastest.trace, sch)
        assert str(sch.mod) == str(_after(about.mod, traces[1]))
        assert store.workloads()[key] == str(about.mod)


def _after(mod: IRModule, trace: Trace) -> IRModule:
    sch = Schedule(mod)
    trace.apply_to_schedule(sch, remove_postproc=False)
    return sch.mod


def test_two_stores_see_each_other(url: str) -> None:
    with open_records(url) as one, open_records(url) as two:
        one.add(record(1))
        two.add(record(0))
        one.add_workload("w", "text")
        assert one.best("w", "t", 5) == two.best("w", "t", 5) == [record(0), record(1)]
        assert two.workloads() == {"w": "text"}


def test_the_last_choice_counts(url: str) -> None:
    with open_records(url) as one, open_records(url) as two:
        assert one.chosen("w", "t") is None
        one.choose(record(0))
        two.choose(record(1))
        assert one.chosen("w", "t") == two.chosen("w", "t") == record(1)
        assert one.chosen("w", "other") is None and not one.all()
    with open_records(url) as store:
        assert store.chosen("w", "t") == record(1)


def test_summaries_tell_what_traces_are_not_needed_for(url: str) -> None:
    kept = [record(k, extra={"candidate": f"c{k}", "status": "ok"}) for k in range(3)]
    kept[1] = record(1, seconds=(), extra={})
    with open_records(url) as store:
        store.add(*kept, record(0, workload="v"))
        found = store.summaries("w", "t")
        assert [(s.candidate, s.latency, s.status) for s in found] == [
            ("c0", kept[0].latency, "ok"), ("", math.inf, ""), ("c2", kept[2].latency, "ok"),
        ]  # fmt: skip
        assert store.summaries("w", "t", found[0].number) == found[1:]
        numbers = [s.number for s in found]
        assert store.numbered(numbers[::-1]) == kept[::-1]
        assert not store.summaries("none", "t") and not store.numbered([])


def test_a_candidate_is_one_stores_at_a_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_records(url) as one, open_records(url) as two:
        assert one.claim("w", "t", ["a", "b"], 60.0) == {"a", "b"}
        assert two.claim("w", "t", ["b", "c"], 60.0) == {"c"}
        assert two.claim("w", "other", ["b"], 60.0) == {"b"}
        # What is claimed takes the place of what was.
        assert one.claim("w", "t", ["c", "b", "b"], 60.0) == {"b", "c"}
        assert two.claim("w", "t", ["a", "b"], 60.0) == {"a"}
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 50.0)
        one.add(record())  # one is alive, two is not
        monkeypatch.setattr(time, "time", lambda: now + 70.0)
        with open_records(url) as three:
            assert three.claim("w", "t", ["a", "b"], 60.0) == {"a"}
    with open_records(url) as store:  # those that were closed hold nothing
        assert store.claim("w", "t", ["a", "b", "c"], 60.0) == {"a", "b", "c"}


def test_threads_share_a_store(url: str) -> None:
    with open_records(url) as store:
        threads = [threading.Thread(target=store.add, args=(record(k),)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {r.extra["number"] for r in store.all()} == {*range(8)}


def add_in_child(store: RecordStore) -> None:
    store.add(record(1))
    if isinstance(store, SqlStore) and not store._inherited:
        raise ValueError("the connection of the parent is not kept, so it would be closed")


def test_a_child_has_a_connection_of_its_own(url: str) -> None:
    with open_records(url) as store:
        store.add(record(0))
        child = multiprocessing.get_context("fork").Process(target=add_in_child, args=(store,))
        child.start()
        child.join()
        assert child.exitcode == 0
        store.add(record(2))
        assert store.all() == [record(0), record(1), record(2)]


def test_what_is_no_json_is_refused_and_nothing_of_it_kept(url: str) -> None:
    with open_records(url) as store:
        with pytest.raises(UserError, match="JSON data"):
            store.add(record(0), record(1, trace=[{1, 2}]))
        store.add(record(2))
        assert store.all() == [record(2)]


def test_a_closed_store_says_so(url: str) -> None:
    store = open_records(url)
    store.close()
    store.close()
    with pytest.raises(UserError, match="closed"):
        store.all()


@pytest.mark.parametrize("odd", ["a\0b", "half \ud800 pair"])
def test_odd_texts_of_errors(url: str, odd: str) -> None:
    with open_records(url) as store:
        store.add(record(error=odd, seconds=()))
        [kept] = store.all()
        assert kept.failed and kept.error[0] == odd[0] and kept.error[-1] == odd[-1]


def test_copies_do_not_double(url: str, tmp_path: Path) -> None:
    with open_records(tmp_path / "from.db") as source, open_records(url) as destination:
        source.add(record(1), record(2, seconds=(), error="lost"))
        source.add_workload("w", "text")
        assert copy_records(source, destination) == 2
        assert copy_records(source, destination) == 0
        assert destination.all() == source.all()
        assert destination.workloads() == {"w": "text"}


@pytest.mark.parametrize("seconds", [(math.nan,), (1.0, math.inf), (-1.0,)])
def test_times_are_times(seconds: Any) -> None:
    with pytest.raises(UserError, match="finite"):
        record(seconds=seconds)
    assert record(seconds=()).latency == math.inf


def test_keys_tell_machines_and_programs_apart() -> None:
    machine = context().target
    assert target_key(machine) != target_key(machine.with_cores(machine.cores + 1))
    other = context(MATMUL.replace("96", "97"))
    assert workload_key(context().mod) != workload_key(other.mod)
