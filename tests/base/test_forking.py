"""Processes forked while other threads hold locks, import and compile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tileloom.base import forking
from tileloom.base.compiling import compiling
from tileloom.base.forking import ForkLock

SOURCE = str(Path(forking.__file__).parents[2])
SECONDS = 60  # after which a child counts as hanging

# Forks while a thread compiles; from the first import of the code generator on.
COMPILING = f"""
import os, signal, sys, threading, time
import numpy as np, tileloom

def compile_for_ever():
    for n in range(10**6):
        tileloom.jit(lambda x: x * float(n) + np.tanh(x + n))(np.ones((17, n % 50 + 3), "f4"))

threading.Thread(target=compile_for_ever, daemon=True).start()
bad = []
for k in range(4):
    time.sleep(0.02 + 0.11 * k)
    child = os.fork()
    if child == 0:
        signal.alarm({SECONDS})
        x = np.ones((33, 7), "f4")
        good = np.allclose(tileloom.jit(lambda x: np.sinh(x) + 3 * x)(x), np.sinh(x) + 3 * x)
        os._exit(not good)
    status = os.waitpid(child, 0)[1]
    if status:
        bad.append(status)
print(bad, flush=True)
os._exit(0)
"""


def in_child(work: Callable[[], bool]) -> None:
    """Run in a forked process, which must say that it went well, and soon."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os._exit(not work())
    assert os.waitpid(child, 0)[1] == 0


@contextmanager
def another_thread_in(enter: Callable[[], object]) -> Iterator[None]:
    """While another thread is inside a `with` block of this."""
    inside, leave = threading.Event(), threading.Event()

    def run() -> None:
        with enter():  # type: ignore[attr-defined]
            inside.set()
            leave.wait()

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    try:
        yield
    finally:
        leave.set()
        thread.join()


def free(lock: ForkLock) -> bool:
    with lock, lock:
        return True


def test_a_lock_of_another_thread_is_free_in_the_child() -> None:
    lock = ForkLock()
    with another_thread_in(lambda: lock):
        in_child(lambda: free(lock))


def test_a_lock_of_the_forking_thread_stays_its_own() -> None:
    lock = ForkLock()

    def taken_from_outside() -> bool:
        with another_thread_in(lambda: lock):
            return True

    def still_held() -> bool:
        threading.Thread(target=taken_from_outside, daemon=True).start()
        return free(lock) and lock._lock._is_owned()  # type: ignore[attr-defined]

    with lock:
        in_child(still_held)


def test_a_fork_waits_for_what_must_not_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, left = ForkLock(), []
    monkeypatch.setattr(forking, "_awaited", [lock])
    inside = threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            threading.Event().wait(0.2)
            left.append(True)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    in_child(lambda: left == [True] and free(lock))
    thread.join()
    assert free(lock)


def test_compilations_of_other_threads_end_with_a_fork() -> None:
    import gc

    @contextmanager
    def compilation() -> Iterator[None]:
        compiling_now, end = threading.Event(), threading.Event()

        @compiling
        def run() -> None:
            compiling_now.set()
            end.wait()

        thread = threading.Thread(target=run)
        thread.start()
        compiling_now.wait()
        yield
        end.set()
        thread.join()

    limit = sys.getrecursionlimit()
    with compilation():
        assert not gc.isenabled()
        in_child(lambda: gc.isenabled() and sys.getrecursionlimit() == limit)
        in_child(lambda: compiling(lambda: not gc.isenabled())() and gc.isenabled())
    assert gc.isenabled()


def test_children_compile_whatever_their_parent_does(tmp_path: Path) -> None:
    where = {**os.environ, "PYTHONPATH": SOURCE, "TILELOOM_CACHE_DIR": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", COMPILING], env=where, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]", said.stderr


def test_a_fork_waits_for_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tileloom_slow"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("from . import gate\ngate()\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(forking, "__name__", "tileloom_slow.forking")
    import tileloom_slow  # type: ignore[import-not-found]

    reached = threading.Event()

    def gate() -> None:
        reached.set()
        threading.Event().wait(0.2)

    tileloom_slow.gate = gate
    thread = threading.Thread(target=lambda: __import__("tileloom_slow.part"))
    thread.start()
    reached.wait()

    def imports() -> bool:
        from tileloom_slow.part import value  # type: ignore[import-not-found]

        return bool(value == 3)

    in_child(imports)
    thread.join()
    for name in ("tileloom_slow", "tileloom_slow.part"):
        monkeypatch.delitem(sys.modules, name)


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
