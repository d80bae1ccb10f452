"""Records by TVM's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileloom.compat.tvm import meta_schedule as ms
from tileloom.compat.tvm import tir
from tileloom.compat.tvm.ir import structural_equal
from tileloom.compat.tvm.script import from_source
from tileloom.compat.tvm.target import Target
from tileloom.records import open_records, target_key, workload_key

from .programs import product, sums

CPU = Target("llvm -num-cores 4")


def halved() -> Any:
    sch = tir.Schedule(product())
    sch.split(sch.get_loops("C")[0], [2, None])
    return sch


def commit(database: Any, *seconds: Any) -> None:
    workload = database.commit_workload(product())
    types = ms.arg_info.ArgInfo.from_entry_func(product())
    for each in seconds:
        record = ms.database.TuningRecord(halved().trace, workload, each, CPU, types)
        database.commit_tuning_record(record)


def seconds(database: Any, count: int) -> list[list[float]]:
    found = database.get_top_k(database.commit_workload(product()), count)
    return [record.run_secs for record in found]


def test_the_fastest_by_their_means(tmp_path: Path) -> None:
    for database in (ms.database.MemoryDatabase(), ms.Database.create(work_dir=str(tmp_path))):
        commit(database, [1.0, 4.0], None, [2.0], [], [1e10])
        assert len(database) == 5
        assert seconds(database, 9) == [[2.0], [1.0, 4.0]]
        assert seconds(database, 1) == [[2.0]] and seconds(database, 0) == []
        assert not database.has_workload(sums())


def test_a_folder_is_read_again(tmp_path: Path) -> None:
    commit(ms.database.JSONDatabase(work_dir=str(tmp_path)), [1.0], [0.5])
    again = ms.database.JSONDatabase(work_dir=str(tmp_path))
    assert seconds(again, 2) == [[0.5], [1.0]]
    record = again.query_tuning_record(product(), CPU)
    assert record is not None and record.run_secs is not None
    assert record.run_secs[0].value == 0.5
    assert str(record.target) == str(CPU)
    assert str(record.args_info) == str(ms.arg_info.ArgInfo.from_entry_func(product()))
    found = again.query_schedule(product(), CPU)
    assert found is not None and structural_equal(found.mod, halved().mod)


def test_a_folder_is_one_of_records(tmp_path: Path) -> None:
    """Which `tileloom.tune` finds under its own keys."""
    commit(ms.database.JSONDatabase(work_dir=str(tmp_path)), [1.0], [0.5])
    with open_records(f"jsonl:{tmp_path}") as records:
        key, machine = workload_key(product()), target_key(CPU.tileloom)
        assert [record.seconds for record in records.best(key, machine, 9)] == [(0.5,), (1.0,)]
        assert workload_key(from_source(records.workloads()[key])) == key


def test_a_record_as_json() -> None:
    workload = ms.database.Workload(product())
    record = ms.database.TuningRecord(halved().trace, workload, [1.5], CPU)
    copied = ms.database.Workload.from_json(workload.as_json())
    assert structural_equal(copied.mod, workload.mod) and copied.shash == workload.shash
    again = ms.database.TuningRecord.from_json(record.as_json(), copied)
    assert again.as_json() == record.as_json()
    assert structural_equal(again.as_measure_candidate().sch.mod, halved().mod)


def test_unions() -> None:
    slow, fast = ms.database.MemoryDatabase(), ms.database.MemoryDatabase()
    commit(slow, [1.0])
    commit(fast, [0.5])
    for database, expected in (
        (ms.database.UnionDatabase(slow, fast), [0.5]),
        (ms.database.OrderedUnionDatabase(slow, fast), [1.0]),
    ):
        record = database.query(product(), CPU, kind="record")
        assert record.run_secs == expected
        assert database.query(sums(), CPU) is None


def test_a_function_as_a_database() -> None:
    def by_two(sch: Any) -> bool:
        if "C" not in str(sch.mod) or sch.mod["main"].params[2:] == ():
            return False
        sch.split(sch.get_loops("C")[0], [2, None])
        return True

    with ms.Database.create(by_two) as database:
        assert ms.Database.current() is database
        found = database.query_ir_module(product(), CPU)
        assert found is not None and structural_equal(found, halved().mod)
        assert database.query_ir_module(sums(), CPU) is None
    assert ms.Database.current() is None


def test_pruning_keeps_the_fastest() -> None:
    source, kept = ms.database.MemoryDatabase(), ms.database.MemoryDatabase()
    commit(source, [2.0], [1.0], [1e10])
    source.dump_pruned(kept)
    assert len(kept) == 1 and seconds(kept, 3) == [[1.0]]


def test_programs_with_one_anchor() -> None:
    database = ms.database.MemoryDatabase("anchor-block")
    commit(database, [1.0])
    other = halved().mod  # other loops, the same block
    assert database.has_workload(other) and not database.has_workload(product(32))
    with pytest.raises(ValueError, match="unknown equality"):
        ms.database.MemoryDatabase("by-name")


def test_a_database_of_files_needs_to_know_where(tmp_path: Path) -> None:
    given: Any
    for given in ({}, {"path_workload": str(tmp_path / "w.json")}):
        with pytest.raises(ValueError, match="say work_dir, or path_workload"):
            ms.database.JSONDatabase(**given)
