"""A plugin for pytest: which functions each test calls. Needs Python 3.12 (`sys.monitoring`).

`TILELOOM_CALLS` names the folder that receives a file for each process of the run.
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
    """Every function is reported once in a test; that makes it cheap."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.functions: dict[tuple[str, int], int] = {}
        self.tests: dict[str, tuple[float, list[int]]] = {}
        self._now: set[int] = set()
        monitoring = sys.monitoring
        monitoring.use_tool_id(_TOOL, "calls")
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, self._start)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)

    def _start(self, code: CodeType, _offset: int) -> object:
        file = code.co_filename
        if _MARK in file:
            name = file[file.rindex(_MARK) + 1 :]
            key = (name, code.co_firstlineno)
            self._now.add(self.functions.setdefault(key, len(self.functions)))
        return sys.monitoring.DISABLE

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record a test."""
        self._now = set()
        sys.monitoring.restart_events()
        begin = time.perf_counter()
        result = yield
        self.tests[item.nodeid] = (time.perf_counter() - begin, sorted(self._now))
        return result

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        functions = [list(key) for key in self.functions]
        text = json.dumps({"functions": functions, "tests": self.tests})
        (self.folder / f"calls-{os.getpid()}.json").write_text(text)


def pytest_configure(config: pytest.Config) -> None:
    """Start."""
    folder = os.environ.get("TILELOOM_CALLS")
    if folder:
        config.pluginmanager.register(Calls(Path(folder)))
