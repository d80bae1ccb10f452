"""`tvm.meta_schedule.database`: what was measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

from ....base.errors import UserError
from ....records import Record, target_key
from ....records.tvm_files import JsonStore
from ....schedule import Schedule as OurSchedule
from ....target import Target as Machine
from ....tir import IRModule
from .._names import missing
from ..ir.module import as_module
from ..target import Target
from ..tir.schedule import Schedule
from ._record import EQUALITIES, FAILED, TuningRecord, Workload, module_of, same_anchor
from .arg_info import ArgInfo
from .utils import NotOverriddenError, Overridable


class Database(Overridable):
    """Records of schedules, by program; `with database:` makes it the current one."""

    _entered: ClassVar[list[Database]] = []

    def has_workload(self, mod: IRModule) -> bool:
        """Whether a program is known."""
        raise NotOverriddenError.of("PyDatabase", "HasWorkload", "has_workload")

    def commit_workload(self, mod: IRModule) -> Workload:
        """The entry of a program, which is made if there is none."""
        raise NotOverriddenError.of("PyDatabase", "CommitWorkload", "commit_workload")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record."""
        raise NotOverriddenError.of("PyDatabase", "CommitTuningRecord", "commit_tuning_record")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest records of a program."""
        raise NotOverriddenError.of("PyDatabase", "GetTopK", "get_top_k")

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records."""
        raise NotOverriddenError.of("PyDatabase", "GetAllTuningRecords", "get_all_tuning_records")

    def __len__(self) -> int:
        raise NotOverriddenError.of("PyDatabase", "Size", "__len__")

    def __bool__(self) -> bool:
        return True  # an empty one, too

    def query_tuning_record(
        self, mod: IRModule, target: Target, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The fastest record of a program."""
        if not self.has_workload(mod):
            return None
        found = self.get_top_k(self.commit_workload(mod), 1)
        return found[0] if found else None

    def query_schedule(
        self, mod: IRModule, target: Target, workload_name: str | None = None
    ) -> OurSchedule | None:
        """The fastest schedule of a program."""
        record = self.query_tuning_record(mod, target, workload_name)
        return None if record is None else record.schedule()

    def query_ir_module(
        self, mod: IRModule, target: Target, workload_name: str | None = None
    ) -> IRModule | None:
        """The program, scheduled."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(
        self,
        mod: IRModule,
        target: Target,
        *,
        workload_name: str = "main",
        kind: str = "schedule",
    ) -> Any:
        """One of the three above: `kind` is "record", "schedule" or "ir_module"."""
        ways = {
            "record": self.query_tuning_record,
            "schedule": self.query_schedule,
            "ir_module": self.query_ir_module,
        }
        if kind not in ways:
            raise ValueError(f"unknown kind {kind!r}, known are {list(ways)}")
        return ways[kind](mod, target, workload_name)

    def dump_pruned(self, destination: Database) -> None:
        """Copy the fastest record of each program."""
        best: dict[int, TuningRecord] = {}
        for record in self.get_all_tuning_records():
            known = best.setdefault(id(record.workload), record)
            if record.mean < known.mean:
                best[id(record.workload)] = record
        for record in filter(TuningRecord.is_valid, best.values()):
            workload = destination.commit_workload(record.workload.mod)
            destination.commit_tuning_record(
                TuningRecord(
                    record.trace, workload, record.run_secs, record.target, record.args_info
                )
            )

    def __enter__(self) -> Self:
        Database._entered.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        Database._entered.pop()

    @staticmethod
    def current() -> Database | None:
        """The innermost that is entered."""
        return Database._entered[-1] if Database._entered else None

    @staticmethod
    def create(kind: Any = "json", *args: Any, **options: Any) -> Database:
        """A database by its kind, or of a function that schedules."""
        if callable(kind):
            return ScheduleFnDatabase(kind, *args, **options)
        kinds: dict[str, Callable[..., Database]] = {
            "json": JSONDatabase,
            "memory": MemoryDatabase,
            "union": UnionDatabase,
            "ordered_union": OrderedUnionDatabase,
        }
        if kind not in kinds:
            raise ValueError(f"unknown database {kind!r}, known are {list(kinds)}")
        return kinds[kind](*args, **options)


class PyDatabase(Database):
    """A database of the user's."""


class MemoryDatabase(Database):
    """Records in the memory of this process."""

    def __init__(self, module_equality: str = "structural") -> None:
        if module_equality not in EQUALITIES:
            raise ValueError(f"unknown equality {module_equality!r}, known are {[*EQUALITIES]}")
        self._equal = EQUALITIES[module_equality]
        self._workloads: list[Workload] = []
        self._records: list[TuningRecord] = []

    def _find(self, mod: IRModule) -> Workload | None:
        return next((w for w in self._workloads if self._equal(w.mod, mod)), None)

    def has_workload(self, mod: IRModule) -> bool:
        """Whether a program is known."""
        return self._find(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        """The entry of a program, which is made if there is none."""
        found = self._find(mod)
        if found is None:
            found = Workload(mod)
            self._workloads.append(found)
        return found

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record."""
        self._records.append(record)

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest records of a program, by their mean times, without those that failed."""
        known = [r for r in self._records if r.workload is workload or self._is(r, workload)]
        return sorted(filter(TuningRecord.is_valid, known), key=lambda r: r.mean)[: max(top_k, 0)]

    def _is(self, record: TuningRecord, workload: Workload) -> bool:
        return record.workload.shash == workload.shash or (
            self._equal is same_anchor and self._equal(record.workload.mod, workload.mod)
        )

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, in the order they came."""
        return list(self._records)

    def __len__(self) -> int:
        return len(self._records)


class JSONDatabase(MemoryDatabase):
    """Records in two files of a folder, which `tileloom.records` reads and writes, too.

    Args:
        path_workload: of the file of programs.
        path_tuning_record: of the file of records, in the same folder.
        work_dir: the folder, for both files under their usual names.
        allow_missing: whether files that are not there are made.
        module_equality: when two programs are one: "structural", "ignore-ndarray" or
            "anchor-block".
    """

    def __init__(
        self,
        path_workload: str | None = None,
        path_tuning_record: str | None = None,
        *,
        work_dir: str | None = None,
        allow_missing: bool = True,
        module_equality: str = "structural",
    ) -> None:
        super().__init__(module_equality)
        if work_dir is not None:
            path_workload = path_workload or os.path.join(work_dir, "database_workload.json")
            path_tuning_record = path_tuning_record or os.path.join(
                work_dir, "database_tuning_record.json"
            )
        if path_workload is None or path_tuning_record is None:
            raise ValueError("say work_dir, or path_workload and path_tuning_record")
        self.path_workload, self.path_tuning_record = path_workload, path_tuning_record
        self._store = self._opened(Path(path_workload), Path(path_tuning_record), allow_missing)
        self._load()

    def _opened(self, workloads: Path, records: Path, allow_missing: bool) -> JsonStore:
        if workloads.parent != records.parent:
            raise UserError("both files of a database are in one folder")
        for path in (workloads, records):
            if not allow_missing and not path.exists():
                raise ValueError(f"there is no file {path}")
        store = JsonStore(workloads.parent, workloads.name, records.name)
        workloads.touch()
        records.touch()
        return store

    def _load(self) -> None:
        scripts = self._store.workloads()
        known = {key: Workload(module_of(text)) for key, text in scripts.items() if text}
        self._workloads = [*known.values()]
        for record in self._store.all():
            if record.workload in known:
                about = [record.trace, list(record.seconds) or [FAILED], _target(record)]
                json_obj = [*about, record.extra.get("args_info")]
                self._records.append(TuningRecord.from_json(json_obj, known[record.workload]))

    def commit_workload(self, mod: IRModule) -> Workload:
        """The entry of a program, which is made if there is none."""
        found = super().commit_workload(mod)
        self._store.add_workload(found.shash, found.mod.script())
        return found

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record."""
        super().commit_tuning_record(record)
        trace, seconds, target, types = record.as_json()
        machine = Machine.host() if record.target is None else record.target.tileloom
        extra = {"args_info": types, "target": target}
        self._store.add(
            Record(
                record.workload.shash,
                target_key(machine),
                trace,
                tuple(seconds or ()),
                extra={name: value for name, value in extra.items() if value is not None},
            )
        )


def _target(record: Record) -> Any:
    """The target of a record as TVM describes it; None where only its key is known."""
    if "target" in record.extra:
        return record.extra["target"]
    return json.loads(record.target) if record.target.startswith("{") else None


class UnionDatabase(Database):
    """The fastest record that any of several databases has."""

    def __init__(self, *databases: Database) -> None:
        self.databases = list(databases)

    def query_tuning_record(
        self, mod: IRModule, target: Target, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The fastest record of a program."""
        found = list(self._found(mod, target, workload_name))
        return min(found, key=lambda record: record.mean, default=None)

    def _found(
        self, mod: IRModule, target: Target, workload_name: str | None
    ) -> Iterator[TuningRecord]:
        for database in self.databases:
            record = database.query_tuning_record(mod, target, workload_name)
            if record is not None:
                yield record


class OrderedUnionDatabase(UnionDatabase):
    """The record of the first of several databases that has one."""

    def query_tuning_record(
        self, mod: IRModule, target: Target, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The record of a program."""
        return next(self._found(mod, target, workload_name), None)


class ScheduleFnDatabase(MemoryDatabase):
    """Schedules that a function of the user's makes; it says whether it has made one."""

    def __init__(
        self, schedule_fn: Callable[[OurSchedule], bool], module_equality: str = "structural"
    ) -> None:
        super().__init__(module_equality)
        self.schedule_fn = schedule_fn

    def query_tuning_record(
        self, mod: IRModule, target: Target, workload_name: str | None = None
    ) -> TuningRecord | None:
        """What the function makes of a program."""
        sch = Schedule.build(mod)
        if not self.schedule_fn(sch) or sch.trace is None:
            return None
        types = ArgInfo.from_entry_func(as_module(mod))
        return TuningRecord(sch.trace, Workload(mod), None, target, types)


__all__ = [
    "Database", "JSONDatabase", "MemoryDatabase", "OrderedUnionDatabase", "PyDatabase",
    "ScheduleFnDatabase", "TuningRecord", "UnionDatabase", "Workload",
]  # fmt: skip
__getattr__ = missing(__name__)
