"""Tries changes of functions in children of one process that has collected the tests once.

A child puts the changed code into the function as it lives in memory and runs the tests that call
it: there is no start, no import and no collection, which is most of what a killed change costs.
What this cannot show (a change outside functions, one that acts while modules are imported or in
processes that tests start) survives here, and `mutate` tries it again in a copy of the tree.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import resource
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol
from mutation_sites import Site

from tileloom.base.settings import _current as read_settings

#: Tests, and the seconds that they may take.
Batch = tuple[Sequence[str], float]
#: The exit status of a child in which no function lives whose code is changed.
UNCHANGED = 2


class Forks:
    """A plugin for pytest that tries changes instead of running the tests that were collected.

    `batches` says which tests a change is tried with, `done` is told by which test it was killed:
    an empty name where it survived, None where it could not be made. Every one of `workers`
    processes takes its share of the sites.
    """

    def __init__(
        self,
        source: Path,
        sites: Sequence[Site],
        batches: Callable[[Site], Sequence[Batch]],
        done: Callable[[Site, str | None], None],
        *,
        workers: int,
        memory: int,
    ) -> None:
        self._source, self._sites = source, sites
        self._batches, self._done = batches, done
        self._workers, self._memory = workers, memory
        self._items: dict[str, list[pytest.Item]] = defaultdict(list)
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)
        self._fit: dict[str, bool] = {}

    def run(self, options: Sequence[str] = ()) -> None:
        """Collect the tests of the tree, then try all sites."""
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", *options], plugins=[self])

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Share the sites out among children."""
        for item in session.items:
            file, test = item.nodeid.split("::")[0], item.nodeid.split("[")[0]
            for name in {file, test, item.nodeid}:
                self._items[name].append(item)
        for site in self._sites:  # handlers and the like are imported late
            name = site.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if not name.endswith("__main__"):
                importlib.import_module(name)
        gc.unfreeze()  # what was collected may be frozen, and is not listed then
        self._caches = list(self._find_living())
        gc.collect()
        gc.freeze()  # a child's collector would copy every page that it marks
        workers = [os.fork() or self._work(k) for k in range(self._workers)]
        for worker in workers:
            os.waitpid(worker, 0)
        return True

    def _find_living(self) -> Iterator[functools._lru_cache_wrapper[object]]:
        """Note the functions of the sources by file; give what they keep of earlier calls."""
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                path = Path(found.__code__.co_filename)
                if path.is_relative_to(self._source):
                    self._functions[str(path.relative_to(self._source))].append(found)
            elif isinstance(found, functools._lru_cache_wrapper) and _is_own(found):
                yield found

    def _work(self, number: int) -> int:
        try:
            for site in self._sites[number :: self._workers]:
                self._done(site, self._try(site))
        finally:
            os._exit(0)

    def _try(self, site: Site) -> str | None:
        """The test that kills a change, if one does that passes without it; None: not tried."""
        for names, limit in self._batches(site):
            items = list(dict.fromkeys(item for name in names for item in self._items[name]))
            while items and (killer := self._child(site, items, limit)) != "":
                if killer is None:
                    return None
                found = [item for item in items if item.nodeid == killer]
                if not found or self._is_fit(found[0]):
                    return killer
                items = items[items.index(found[0]) + 1 :]
        return ""

    def _is_fit(self, item: pytest.Item) -> bool:
        """Whether a test passes in a child at all."""
        if item.nodeid not in self._fit:
            self._fit[item.nodeid] = not self._child(None, [item], 300)
        return self._fit[item.nodeid]

    def _child(self, site: Site | None, items: Sequence[pytest.Item], limit: float) -> str | None:
        """The first test that fails with a change, or how the child ended; empty if none does.

        None where there is nothing to change.
        """
        message, end = os.pipe()
        cache = tempfile.mkdtemp(prefix="tileloom-mutation-")
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            os.environ["TILELOOM_CACHE_DIR"] = cache
            os._exit(self._run(site, items, end))
        os.close(end)
        try:
            status = _wait(child, limit)
            with os.fdopen(message) as text:
                failed = text.read() if status is not None else ""
        finally:
            shutil.rmtree(cache, ignore_errors=True)
        if status is None:
            return "it takes too long"
        if status == UNCHANGED << 8:
            return None
        return failed or ("" if status == 0 else f"exit status {status}")

    def _run(self, site: Site | None, items: Sequence[pytest.Item], end: int) -> int:
        """In the child: run tests until one fails, and say which."""
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            resource.setrlimit(resource.RLIMIT_DATA, (self._memory, self._memory))
            for cache in self._caches:
                cache.cache_clear()
            read_settings.clear()  # they are read from the environment once
            if site is not None and not self._change(site):
                return UNCHANGED
            for item in items:
                if any(report.failed for report in runtestprotocol(item, log=False)):
                    os.write(end, item.nodeid.encode())
                    return 0
        except BaseException:
            return 1
        return 0

    def _change(self, site: Site) -> int:
        """Give the living functions of a file their changed code; how many there are."""
        path = self._source / site.file
        codes = {
            (code.co_qualname, code.co_firstlineno): code
            for code in _codes(compile(site.apply_in_place(path.read_bytes()), path, "exec"))
        }
        changed = 0
        for function in self._functions[site.file]:
            old = function.__code__
            new = codes.get((old.co_qualname, old.co_firstlineno), old)
            if new != old and len(new.co_freevars) == len(old.co_freevars):
                function.__code__ = new
                changed += 1
        return changed


def _is_own(wrapper: object) -> bool:
    return str(getattr(wrapper, "__module__", "")).startswith("tileloom")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _wait(child: int, limit: float) -> int | None:
    """The exit status of a child, None where it took too long and was killed with its own."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
