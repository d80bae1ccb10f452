"""A plugin for pytest: which functions each test calls. Needs Python 3.12 (`sys.monitoring`).

`TILELOOM_CALLS` names the folder that receives a file for each process of the run.
`TILELOOM_CASES` limits the cases of a parametrized test that are run; they are spread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

_TOOL = 4
_MARK = f"{os.sep}tileloom{os.sep}"


class Calls:
    """Every function is reported once in a test; that makes it cheap.

    The file has a line for each test that passes: its name, its seconds, the numbers of the
    functions, and those that are new, by number. A process that dies leaves what it has seen.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"calls-{os.getpid()}.jsonl").open("w")
        self._functions: dict[tuple[str, int], int] = {}
        self._new: dict[int, tuple[str, int]] = {}
        self._now: set[int] = set()
        self._passed = True
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        monitoring.use_tool_id(_TOOL, "calls")
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, self._start)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)

    def _start(self, code: CodeType, _offset: int) -> object:
        file = code.co_filename
        if _MARK in file:
            key = (file[file.rindex(_MARK) + 1 :], code.co_firstlineno)
            number = self._functions.get(key)
            if number is None:
                number = self._functions[key] = len(self._functions)
                self._new[number] = key
            self._now.add(number)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record a test."""
        self._now = set()
        self._passed = True
        sys.monitoring.restart_events()  # type: ignore[attr-defined]
        begin = time.perf_counter()
        result = yield
        seconds = round(time.perf_counter() - begin, 4)
        if self._passed:
            line = (item.nodeid, seconds, sorted(self._now), self._new)
            print(json.dumps(line), file=self._file, flush=True)
            self._new = {}
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails as it is shows nothing."""
        self._passed &= not report.failed

    def pytest_sessionfinish(self) -> None:
        """Stop: functions are called while Python ends, too."""
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.NO_EVENTS)  # type: ignore[attr-defined]
        self._file.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep some cases of each test."""
    most = int(os.environ.get("TILELOOM_CASES", "0"))
    cases: dict[str, list[int]] = {}
    for k, item in enumerate(items):
        cases.setdefault(item.nodeid.split("[")[0], []).append(k)
    if most:
        kept = (
            k
            for found in cases.values()
            for k in {found[len(found) * part // most] for part in range(most)}
        )
        items[:] = [items[k] for k in sorted(kept)]


def pytest_configure(config: pytest.Config) -> None:
    """Start."""
    folder = os.environ.get("TILELOOM_CALLS")
    if folder:
        config.pluginmanager.register(Calls(Path(folder)))
