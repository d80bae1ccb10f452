"""`JsonStore`: records in the files of TVM's JSON database, for exchange.

A folder has `database_workload.json` with lines `[key, base64 of length and JSON]` and
`database_tuning_record.json` with lines `[line of the workload, [trace, run times, target, types of
the arguments]]`. What these have no room for (errors, times, the rest) is in a third file, which
TVM does not look at; so is what was chosen, in a fourth.

Programs are the one thing that differs: TVM writes them as a graph of its own nodes, here they are
TVMScript text. docs/tuning-records.md says what follows from that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

from ..base.errors import UserError
from .claims import ClaimFile
from .lines import LineFile, locked
from .record import Record, RecordSummary, json_text
from .store import RecordStore

_FAILED = 1e10  # seconds, which TVM writes for a candidate that failed
_LOST = 1e9  # more than this is such a one


class JsonStore(RecordStore):
    """Records in a folder, all in memory once it was read.

    Args:
        folder: made if there is none.
        workloads: the name of the file of programs.
        records: the name of the file of records.
    """

    def __init__(
        self,
        folder: str | Path,
        workloads: str = "database_workload.json",
        records: str = "database_tuning_record.json",
    ) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot keep records in {folder}: {error}") from error
        self._workload_file = LineFile(self._folder / workloads)
        self._record_file = LineFile(self._folder / records)
        self._rest_file = LineFile(self._folder / "tileloom_record.json")
        self._choice_file = LineFile(self._folder / "tileloom_choice.json")
        self._claims = ClaimFile(self._folder / "tileloom_claims.json")
        self._choices: dict[tuple[str, str], Record] = {}
        self._lock = RLock()
        self._open = True
        self._keys: list[str] = []  # by line
        self._scripts: dict[str, str] = {}
        self._lines: list[Any] = []
        self._rest: dict[int, Any] = {}
        self._refresh()

    def add(self, *records: Record) -> None:
        """Keep records: their lines are written at once."""
        with self._lock, locked(self._folder / "tileloom.lock"):
            self._refresh()
            missing = dict.fromkeys(r.workload for r in records if r.workload not in self._scripts)
            if missing:
                self._workload_file.append([workload_line(key, "") for key in missing])
                self._refresh()
            first = len(self._lines)
            # Before the records: if this process dies in between, the next one writes them over.
            rest = [[first + k, r.error, r.created, dict(r.extra)] for k, r in enumerate(records)]
            self._rest_file.append(rest)
            self._record_file.append([self._record_line(record) for record in records])
            self._claims.prolong()

    def add_workload(self, key: str, script: str) -> None:
        """Keep the text of a program; nothing happens if there is one under this key."""
        with self._lock, locked(self._folder / "tileloom.lock"):
            self._refresh()
            if not self._scripts.get(key):
                self._workload_file.append([workload_line(key, script)])

    def workloads(self) -> Mapping[str, str]:
        """The texts of programs by their keys; empty for those that TVM has written."""
        with self._lock:
            self._refresh()
            return dict(self._scripts)

    def best(self, workload: str, target: str, count: int = 1) -> list[Record]:
        """The fastest records, fastest first, without those that failed; by their median times."""
        ran = [record for record in self.all(workload, target) if not record.failed]
        return sorted(ran, key=lambda record: record.latency)[:count]

    def all(self, workload: str | None = None, target: str | None = None) -> list[Record]:
        """Records of a workload and a target, or of any, in the order they came."""
        with self._lock:
            self._refresh()
            records = [self._record(k, *line) for k, line in enumerate(self._lines)]
        return [
            record
            for record in records
            if workload in (None, record.workload) and target in (None, record.target)
        ]

    def summaries(self, workload: str, target: str, after: int = 0) -> list[RecordSummary]:
        """Records of a workload and a target, in the order they came, without their traces."""
        with self._lock:
            self._refresh()
            records = {k: self._record(k - 1, *self._lines[k - 1]) for k in self._after(after)}
        return [
            RecordSummary(k, record.latency, record.candidate, record.status)
            for k, record in records.items()
            if (record.workload, record.target) == (workload, target)
        ]

    def _after(self, number: int) -> range:
        """Numbers of lines, the first being 1."""
        return range(max(0, number) + 1, len(self._lines) + 1)

    def numbered(self, numbers: Sequence[int]) -> list[Record]:
        """The records of these numbers."""
        with self._lock:
            self._refresh()
            return [self._record(k - 1, *self._lines[k - 1]) for k in numbers]

    def claim(
        self, workload: str, target: str, candidates: Sequence[str], seconds: float
    ) -> set[str]:
        """Take candidates to measure; those that no other store has taken."""
        names = {json_text([workload, target, name]): name for name in candidates}
        with self._lock, locked(self._folder / "tileloom.lock"):
            return {names[taken] for taken in self._claims.take(list(names), seconds)}

    def choose(self, record: Record) -> None:
        """Have kernels of this workload made by this trace from now on, on such machines."""
        line = [record.workload, record.target, record.trace, list(record.seconds), record.error]
        with self._lock, locked(self._folder / "tileloom.lock"):
            self._choice_file.append([[*line, record.created, dict(record.extra)]])

    def chosen(self, workload: str, target: str) -> Record | None:
        """What kernels of a workload are made by; None if the planner makes them."""
        with self._lock:
            self._refresh()
            return self._choices.get((workload, target))

    def close(self) -> None:
        """Nothing is held open; claims are given back."""
        if self._open:
            with self._lock, locked(self._folder / "tileloom.lock"):
                self._claims.give_back()
        self._open = False

    # ------------------------------------------------------------------ lines

    def _refresh(self) -> None:
        """Read what was added since the last time, by others too."""
        if not self._open:
            raise UserError(f"the records in {self._folder} are closed")
        # In the reverse order of writing, so that all that belongs to a record is there.
        self._lines += self._record_file.new_values()
        for key, packed in self._workload_file.new_values():
            self._keys.append(key)
            self._scripts[key] = self._scripts.get(key) or script_of(packed)
        for index, *rest in self._rest_file.new_values():
            self._rest[index] = rest
        for name, target, trace, seconds, *rest in self._choice_file.new_values():
            self._choices[name, target] = Record(name, target, trace, tuple(seconds), *rest)

    def _record(self, number: int, workload: int, parts: list[Any]) -> Record:
        trace, seconds, target, types = parts
        error, created, extra = self._rest.get(number, ("", 0.0, {}))
        ran = tuple(float(s) for s in seconds or () if float(s) < _LOST)
        if types is not None:
            extra = {"args_info": types, **extra}
        return Record(self._keys[workload], _target_key(target), trace, ran, error, created, extra)

    def _record_line(self, record: Record) -> list[Any]:
        seconds = list(record.seconds) or [_FAILED]
        target = _target(record.target)
        types = record.extra.get("args_info")
        index = self._keys.index(record.workload)
        return [index, [record.trace, seconds, target, types]]


def workload_line(key: str, script: str) -> list[str]:
    """A program as a line of the file of programs."""
    text = json_text({"script": script}).encode()
    return [key, base64.b64encode(_length(text) + text).decode()]


def _length(text: bytes) -> bytes:
    """What TVM writes before a string."""
    return len(text).to_bytes(8, "little")


def script_of(packed: str) -> str:
    """The text of a program, if it is one; empty for a graph of TVM's nodes."""
    try:
        data = base64.b64decode(packed)
        text = data[8:] if data[:8] == _length(data[8:]) else data
        value = json.loads(text)
    except ValueError as error:
        raise UserError(f"a workload is not base64 of JSON: {error}") from None
    script = value.get("script", "") if isinstance(value, dict) else ""
    return script if isinstance(script, str) else ""


def _target(key: str) -> Any:
    """A target as TVM reads it: one that it has written, or ours in the tag."""
    if key.startswith("{"):
        return json.loads(key)
    kind, keys = ("cuda", ["cuda", "gpu"]) if key.startswith("cuda") else ("llvm", ["cpu"])
    return {"kind": kind, "keys": keys, "tag": key}


def _target_key(target: Any) -> str:
    """The tag, which has our key, or all that TVM says about it."""
    tag = target.get("tag", "") if isinstance(target, dict) else ""
    return tag or json.dumps(target, sort_keys=True)
