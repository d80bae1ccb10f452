"""Threads of parallel loops: how many, and by which runtime.

Generated code calls `tileloom_parallel(body, ctx, max_workers)`, whose address is `address()`.
It runs on the OpenMP runtime that the process already holds, so that we share PyTorch's threads
instead of competing with them, else on a pool of our own. TILELOOM_THREADING=omp loads
`libgomp.so.1` when there is none; the pool does better than that: 0.4 us for a region against
0.9, and no bad luck with where the system puts the threads.

After a fork the child always uses the pool: libgomp would wait for its parent's threads.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import ArgumentError
from ..base.settings import settings
from ..target import machine
from . import native

_SERIAL, _OPENMP, _POOL = range(3)
_LIBRARY = re.compile(r"\s(/\S*/lib(?:gomp|omp|iomp5)[-\w]*\.so[.\d]*)$", re.MULTILINE)
_OPENMP_FUNCTIONS = (
    "GOMP_parallel",
    "omp_get_thread_num",
    "omp_get_num_threads",
    "omp_in_parallel",
)
# About 20 us of waiting awake, by both kinds of threads: more than the gap between two loops of one
# program, and not much more than what sleeping and waking costs (8 us), so that little is lost
# when the thread waited for has no core to run on. Longer is a risk: with 10000 rounds, a loop on
# two busy cores took 500 us.
_SPINS = 400


def _is_forked_worker() -> bool:
    """Whether multiprocessing forked this process, maybe before we could watch: after that, an
    OpenMP runtime that the parent used is of no use, whoever loaded it."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return False
    return "--multiprocessing-fork" not in sys.orig_argv  # which, in spite of its name, is spawn's


class _State(ctypes.Structure):
    """The head of the state block in the native helper."""

    _fields_ = [
        ("threads", ctypes.c_int32),
        ("mode", ctypes.c_int32),
        ("spins", ctypes.c_int32),
        ("omp_parallel", ctypes.c_void_p),
        ("omp_number", ctypes.c_void_p),
        ("omp_count", ctypes.c_void_p),
        ("omp_inside", ctypes.c_void_p),
    ]


class _Runtime:
    """The native helper, once loaded, and the number of threads asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked = 0  # by set_num_threads; 0: not asked
        self.forked = _is_forked_worker()
        self.code: native.Loaded | None = None
        self.state: Any = None
        self.library = ""

    def start(self) -> native.Loaded:
        """Load the native helper; the first caller waits, others find it there."""
        with self.lock:
            if self.code is None:
                code = native.load("parallel", {})
                self.state = _State.from_address(_call(code, "tileloom_parallel_state"))
                self._choose()
                self.code = code
            return self.code

    def _choose(self) -> None:
        state, wanted = self.state, settings().threading
        state.spins = _SPINS if machine.usable_cores() > 1 else 0
        state.mode = _SERIAL if wanted == "serial" else _POOL
        if wanted in ("auto", "omp") and not self.forked:
            self._use_openmp(_openmp() or (_fresh_openmp() if wanted == "omp" else None))

    def _use_openmp(self, library: ctypes.CDLL | None) -> None:
        if library is None:
            return
        fields = ("omp_parallel", "omp_number", "omp_count", "omp_inside")
        for field, name in zip(fields, _OPENMP_FUNCTIONS, strict=True):
            setattr(self.state, field, _address(library, name))
        self.state.mode = _OPENMP
        self.library = library._name

    def refresh(self) -> None:
        """Follow what changed since: the number of threads, and PyTorch brings its OpenMP along."""
        self.state.threads = get_num_threads()
        pool = self.state.mode == _POOL and settings().threading == "auto" and not self.forked
        if pool and "torch" in sys.modules:
            self._use_openmp(_openmp())

    def after_fork(self) -> None:
        """In the child: no thread but the caller is left."""
        self.lock = threading.Lock()
        self.forked = True
        if self.code is not None:
            _call(self.code, "tileloom_parallel_forget")
            if self.state.mode == _OPENMP:
                self.state.mode = _POOL


def _call(code: native.Loaded, name: str) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address(name))
    return function() or 0


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _openmp() -> ctypes.CDLL | None:
    """An OpenMP runtime in this process that speaks GCC's interface."""
    try:
        with open("/proc/self/maps") as maps:
            loaded = dict.fromkeys(_LIBRARY.findall(maps.read()))
    except OSError:
        return None
    return next((library for path in loaded if (library := _open(path)) is not None), None)


def _fresh_openmp() -> ctypes.CDLL | None:
    with _bounded_spinning():
        return _open("libgomp.so.1")


def _open(path: str) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    return library if all(hasattr(library, name) for name in _OPENMP_FUNCTIONS) else None


@contextmanager
def _bounded_spinning() -> Iterator[None]:
    """libgomp reads its settings when it is loaded; by default its idle threads spin for
    milliseconds, which steals time from whatever runs between two of our loops."""
    if {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = str(_SPINS)
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


_runtime = _Runtime()
os.register_at_fork(after_in_child=_runtime.after_fork)


def address() -> int:
    """The address of `i32 tileloom_parallel(ptr body, ptr ctx, i32 max_workers)`."""
    code = _runtime.start()
    _runtime.refresh()
    return code.address("tileloom_parallel")


def get_num_threads() -> int:
    """Threads that a parallel loop uses.

    What `set_num_threads` said; else TILELOOM_NUM_THREADS; else OMP_NUM_THREADS; else the cores
    that this process may use, by its affinity and its control group's CPU quota.
    """
    return asked_num_threads() or machine.usable_cores()


def asked_num_threads() -> int:
    """The number of threads that somebody has asked for; 0 if nobody has."""
    if _runtime.asked or settings().num_threads:
        return _runtime.asked or settings().num_threads
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdigit() else 0


def set_num_threads(count: int) -> None:
    """Set the number of threads that parallel loops use from now on; 0 goes back to the default."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ArgumentError(f"a number of threads is a positive integer, not {count!r}")
    _runtime.asked = count
    if _runtime.code is not None:
        _runtime.state.threads = get_num_threads()


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    """Another number of threads for the length of a `with` block."""
    before = _runtime.asked
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


def describe() -> str:
    """Which runtime parallel loops use, for people."""
    address()
    mode = ("serial", f"OpenMP ({_runtime.library})", "own pool")[_runtime.state.mode]
    return f"{mode}, {get_num_threads()} threads"
