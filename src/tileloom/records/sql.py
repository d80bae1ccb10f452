"""`SqlStore`: records as rows of tables, in the SQL that databases share.

A connection belongs to one process: after a fork the child opens its own, and leaves the one of its
parent alone, since closing it there would say goodbye in the name of the parent.
"""

from __future__ import annotations

import json
import math
import os
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any
from uuid import uuid4

from ..base.errors import UserError
from .record import CANDIDATE, STATUS, Record, RecordSummary, json_text
from .store import Outcome, RecordStore

Statement = tuple[str, Sequence[Any]]

FORMAT = 3
#: `{serial}` is what the database calls a number that counts up by itself. Tables have a prefix,
#: since a database may hold those of others.
_FIELDS = (
    "workload TEXT NOT NULL, target TEXT NOT NULL, trace TEXT NOT NULL, seconds TEXT NOT NULL,"
    " latency DOUBLE PRECISION, error TEXT NOT NULL, created DOUBLE PRECISION NOT NULL,"
    " extra TEXT NOT NULL"
)
TABLES = (
    "CREATE TABLE IF NOT EXISTS tileloom_format (version INTEGER PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS tileloom_workloads"
    " (id {serial} PRIMARY KEY, key TEXT NOT NULL UNIQUE, script TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tileloom_records"
    f" (id {{serial}} PRIMARY KEY, token TEXT NOT NULL UNIQUE, {_FIELDS})",
    "CREATE INDEX IF NOT EXISTS tileloom_fastest"
    " ON tileloom_records (workload, target, latency, id)",
    "CREATE TABLE IF NOT EXISTS tileloom_choices"
    f" (id {{serial}} PRIMARY KEY, token TEXT NOT NULL UNIQUE, {_FIELDS})",
    "CREATE INDEX IF NOT EXISTS tileloom_chosen ON tileloom_choices (workload, target, id)",
    "CREATE TABLE IF NOT EXISTS tileloom_claims"
    " (workload TEXT NOT NULL, target TEXT NOT NULL, candidate TEXT NOT NULL, owner TEXT NOT NULL,"
    " until DOUBLE PRECISION NOT NULL, PRIMARY KEY (workload, target, candidate))",
    f"INSERT INTO tileloom_format VALUES ({FORMAT}) ON CONFLICT DO NOTHING",
)
#: The table that came last: formats before had the others, and it is all that they lack.
NEWEST = "tileloom_claims"
_COLUMNS = "workload, target, trace, seconds, error, created, extra"
_VALUES = f"(token, latency, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD = f"INSERT INTO tileloom_records {_VALUES} ON CONFLICT DO NOTHING"
_CHOOSE = f"INSERT INTO tileloom_choices {_VALUES} ON CONFLICT DO NOTHING"
_CHOSEN = (
    f"SELECT {_COLUMNS} FROM tileloom_choices"
    " WHERE workload = ? AND target = ? ORDER BY id DESC LIMIT 1"
)
_ADD_WORKLOAD = "INSERT INTO tileloom_workloads (key, script) VALUES (?, ?) ON CONFLICT DO NOTHING"
_BEST = (
    f"SELECT {_COLUMNS} FROM tileloom_records"
    " WHERE workload = ? AND target = ? AND latency IS NOT NULL ORDER BY latency, id LIMIT ?"
)
_ALL = f"SELECT {_COLUMNS} FROM tileloom_records"
#: Traces are most of a record: reading them takes several times as long as all else.
_OUTCOMES = (
    "SELECT workload, latency, extra FROM tileloom_records"
    " WHERE target = ? ORDER BY id DESC LIMIT ?"
)
_SUMMARIES = (
    "SELECT id, latency, {candidate}, {status} FROM tileloom_records"
    " WHERE workload = ? AND target = ? AND id > ? ORDER BY id"
)
_NUMBERED = f"SELECT id, {_COLUMNS} FROM tileloom_records WHERE id IN "
_AT_A_TIME = 500  # values in a statement, of which databases take only so many
_CLAIM = (
    "INSERT INTO tileloom_claims (workload, target, candidate, owner, until)"
    " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_CLAIMED = "SELECT candidate FROM tileloom_claims WHERE workload = ? AND target = ? AND owner = ?"
_RETURN = "DELETE FROM tileloom_claims WHERE owner = ? OR until < ?"
_PROLONG = "UPDATE tileloom_claims SET until = ? WHERE owner = ?"
_VERSION = "SELECT max(version) FROM tileloom_format"


class SqlStore(RecordStore):
    """Records in a database; derived classes connect to one.

    Args:
        place: for error messages.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = RLock()
        self._process = os.getpid()
        self._inherited: list[Any] = []
        self._token = uuid4().hex
        self._lease = 0.0  # seconds, where there are claims
        self._connection: Any = self._connect()
        self._check_format()

    # ------------------------------------------------------------------ of each database

    @abstractmethod
    def _connect(self) -> Any:
        """A connection to the database, which has our tables then."""

    @abstractmethod
    def _read(self, connection: Any, sql: str, values: Sequence[Any]) -> list[Any]:
        """The rows that a query gives."""

    @abstractmethod
    def _write(self, connection: Any, statements: Sequence[Statement]) -> None:
        """Take all statements, in one transaction."""

    #: A value in the column `extra`, by its name.
    _from_extra: str
    #: What stands before statements about claims, which may wait for each other in circles else.
    _before_claims: tuple[Statement, ...] = ()

    # ------------------------------------------------------------------ records

    def add(self, *records: Record) -> None:
        """Keep records, in one transaction."""
        statements: list[Statement] = [(_ADD, _row(record)) for record in records]
        with self._lock:
            if self._lease:
                until = time.time() + self._lease
                statements += [*self._before_claims, (_PROLONG, (until, self._owner))]
            self._write(self._open(), statements)

    def claim(
        self, workload: str, target: str, candidates: Sequence[str], seconds: float
    ) -> set[str]:
        """Take candidates to measure; those that no other store has taken."""
        now, owner = time.time(), self._owner
        taken = [(_CLAIM, (workload, target, name, owner, now + seconds)) for name in candidates]
        with self._lock:
            self._lease = seconds
            self._write(self._open(), [*self._before_claims, (_RETURN, (owner, now)), *taken])
            return {str(name) for (name,) in self._rows(_CLAIMED, (workload, target, owner))}

    @property
    def _owner(self) -> str:
        return f"{self._token}-{os.getpid()}"

    def add_workload(self, key: str, script: str) -> None:
        """Keep the text of a program; nothing happens if there is one under this key."""
        with self._lock:
            self._write(self._open(), [(_ADD_WORKLOAD, (key, _plain(script)))])

    def workloads(self) -> Mapping[str, str]:
        """The texts of programs by their keys, in the order they came."""
        return dict(self._rows("SELECT key, script FROM tileloom_workloads ORDER BY id"))

    def best(self, workload: str, target: str, count: int = 1) -> list[Record]:
        """The fastest records, fastest first, without those that failed; by their median times."""
        return list(map(_record, self._rows(_BEST, (workload, target, count))))

    def all(self, workload: str | None = None, target: str | None = None) -> list[Record]:
        """Records of a workload and a target, or of any, in the order they came."""
        wanted = {"workload": workload, "target": target}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given)
        sql = _ALL + (f" WHERE {where}" if given else "") + " ORDER BY id"
        return list(map(_record, self._rows(sql, tuple(given.values()))))

    def outcomes(self, target: str, newest: int) -> list[Outcome]:
        """What came of the newest records of a target, of any workload, without their traces."""
        rows = reversed(self._rows(_OUTCOMES, (target, newest)))
        return [
            (workload, math.inf if latency is None else latency, json.loads(extra))
            for workload, latency, extra in rows
        ]

    def summaries(self, workload: str, target: str, after: int = 0) -> list[RecordSummary]:
        """Records of a workload and a target, in the order they came, without their traces."""
        names = {name: self._from_extra.format(name) for name in (CANDIDATE, STATUS)}
        rows = self._rows(_SUMMARIES.format(**names), (workload, target, after))
        return [_summary(*row) for row in rows]

    def numbered(self, numbers: Sequence[int]) -> list[Record]:
        """The records of these numbers."""
        found: dict[int, Record] = {}
        for first in range(0, len(numbers), _AT_A_TIME):
            some = numbers[first : first + _AT_A_TIME]
            marks = ", ".join("?" * len(some))
            rows = self._rows(f"{_NUMBERED} ({marks})", some)
            found |= {number: _record(rest) for number, *rest in rows}
        return [found[number] for number in numbers]

    def choose(self, record: Record) -> None:
        """Have kernels of this workload made by this trace from now on, on such machines."""
        with self._lock:
            self._write(self._open(), [(_CHOOSE, _row(record))])

    def chosen(self, workload: str, target: str) -> Record | None:
        """What kernels of a workload are made by; None if the planner makes them."""
        return next(map(_record, self._rows(_CHOSEN, (workload, target))), None)

    def close(self) -> None:
        """Close the connection; closing twice does nothing."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                if self._lease:
                    with suppress(UserError):  # the server is gone: claims end by themselves
                        returned = (_RETURN, (self._owner, time.time()))
                        self._write(self._connection, [*self._before_claims, returned])
                self._connection.close()
            self._connection = None

    # ------------------------------------------------------------------ connections

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._read(self._open(), sql, values)

    def _open(self) -> Any:
        """The connection of this process."""
        if self._connection is None:
            raise UserError(f"the records in {self._place} are closed")
        if self._process != os.getpid():
            self._inherited.append(self._connection)
            self._process = os.getpid()
            self._connection = self._connect()
        return self._connection

    def _check_format(self) -> None:
        [(version,)] = self._rows(_VERSION)
        if version != FORMAT:
            self.close()
            raise UserError(
                f"{self._place} has records of format {version}, this is Tileloom for {FORMAT}",
                hint="use the version of Tileloom that wrote them, or another place",
            )


def _row(record: Record) -> tuple[Any, ...]:
    """The values of `_ADD`; the token tells a record that is sent twice from two that are equal."""
    return (
        uuid4().hex,
        None if record.failed else record.latency,
        record.workload,
        record.target,
        json_text(record.trace),
        json_text(list(record.seconds)),
        _plain(record.error),
        record.created,
        json_text(dict(record.extra)),
    )


def _plain(text: str) -> str:
    """Text that every database takes: no zeros and no halves of surrogate pairs."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _record(row: Sequence[Any]) -> Record:
    workload, target, trace, seconds, error, created, extra = row
    return Record(
        workload, target, json.loads(trace), tuple(json.loads(seconds)), error, created,
        json.loads(extra),
    )  # fmt: skip


def _summary(
    number: int, latency: float | None, candidate: str | None, status: str | None
) -> RecordSummary:
    seconds = math.inf if latency is None else latency
    return RecordSummary(number, seconds, candidate or "", status or "")
