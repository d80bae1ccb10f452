"""`open_records`: the place that a URL names; and records from one place to another."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import UserError
from .postgres import PostgresStore
from .record import Record, json_text
from .sqlite import SqliteStore
from .store import RecordStore
from .tvm_files import JsonStore

_PLACES = "a path, sqlite:///path, jsonl:folder or postgresql://user@host/database"


def open_records(url: str | Path) -> RecordStore:
    """The records in a place, which is made if there is none.

    Args:
        url: a path or `sqlite:///path` for a file of SQLite's (four slashes start an absolute
            path), `jsonl:folder` for files in TVM's format, `postgresql://...` for a server.

    Raises:
        UserError: the place cannot be used, or a package for it is missing.
    """
    text = str(url)
    scheme, colon, rest = text.partition(":")
    if isinstance(url, Path) or not colon or "/" in scheme:
        return SqliteStore(text)
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > len("///"):
        return SqliteStore(rest.removeprefix("///"))
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        return PostgresStore(text)
    if scheme == "jsonl" and rest:
        return JsonStore(rest)
    raise UserError(f"records cannot be kept in {scheme}:...", hint=f"use {_PLACES}")


def copy_records(source: RecordStore, destination: RecordStore) -> int:
    """Copy what one place has and the other has not; how many records that were."""
    for key, script in source.workloads().items():
        destination.add_workload(key, script)
    known = set(map(_identity, destination.all()))
    new = [record for record in source.all() if _identity(record) not in known]
    if new:
        destination.add(*new)
    return len(new)


def _identity(record: Record) -> tuple[str, ...]:
    about = (record.trace, record.seconds, record.created)
    return (record.workload, record.target, *map(json_text, about))
