"""What compilations ask records for: the trace that a kernel is to be made by.

The place is the one that the setting `records` (TILELOOM_RECORDS) names. The usual one is a file
next to compiled kernels, and a machine where nothing was tuned has none: then nothing is asked.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.late import load
from ..base.settings import settings

if TYPE_CHECKING:
    from .store import RecordStore

#: The setting that stands for no records at all.
NONE = "none"
_USUAL = "records.db"


def usual_place() -> Path | None:
    """The file that records are in where the setting names no place; None if there is no folder."""
    folder = settings().cache_dir
    return None if folder is None else folder / _USUAL


def chosen_trace(workload: str, target: str) -> Any | None:
    """The steps that were chosen for a kernel, as `Trace.as_json` gives them.

    Args:
        workload: the `workload_key` of its blocks.
        target: the `target_key` of the machine.

    Raises:
        UserError: the place that the setting names cannot be used. Of the usual one a warning says
            so.
    """
    store = _store()
    record = None if store is None else store.chosen(workload, target)
    noted = _NOTED.get()
    if noted is not None:
        noted[workload, target] = "" if record is None else f"{record.created} {record.latency}"
    return None if record is None else record.trace


def has_records() -> bool:
    """Whether there is a place to look in."""
    return _store() is not None


@contextmanager
def noting() -> Iterator[dict[tuple[str, str], str]]:
    """Note what is asked for within a `with` block.

    Yields:
        Receives, for each workload and target, text that changes with what is chosen for them.
    """
    noted: dict[tuple[str, str], str] = {}
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


_NOTED: ContextVar[dict[tuple[str, str], str] | None] = ContextVar("noted", default=None)
#: The place that was looked in last: what tells it apart, and the store.
_OPEN: list[tuple[Any, RecordStore | None]] = []


def _store() -> RecordStore | None:
    named = settings().records
    place = named or usual_place()
    if place is None or named == NONE:
        return None
    which = (str(place), os.getpid()) if named else _identity(place)
    if which is None:
        return None
    if not _OPEN or _OPEN[0][0] != which:
        _OPEN[:] = [(which, _opened(place, bool(named)))]
    return _OPEN[0][1]


def _identity(path: str | Path) -> tuple[Any, ...] | None:
    """What tells a file apart from one that takes its place later; None if there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return str(path), os.getpid(), about.st_ino


def _opened(place: str | Path, is_named: bool) -> RecordStore | None:
    try:
        opened: RecordStore = load("tileloom.records.places").open_records(place)
        return opened
    except UserError as error:
        if is_named:
            raise
        warnings.warn(f"kernels are made without records: {error.message}", stacklevel=2)
        return None
