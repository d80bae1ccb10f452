"""Parallel regions: every way of running them, nested, from many threads, and after a fork."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError
from tileloom.base.settings import override
from tileloom.runtime import parallel

ROOT = Path(__file__).resolve().parents[2]

# count[worker] += workers; a nested call adds its own to count[worker + 32].
KERNEL = """
declare i32 @tileloom_parallel(ptr, ptr, i32)
define void @count(ptr %ctx, i32 %worker, i32 %workers) {
  %i = sext i32 %worker to i64
  %p = getelementptr i32, ptr %ctx, i64 %i
  %old = atomicrmw add ptr %p, i32 %workers seq_cst
  ret void
}
define void @nest(ptr %ctx, i32 %worker, i32 %workers) {
  call void @count(ptr %ctx, i32 %worker, i32 %workers)
  %place = sext i32 %worker to i64
  %inner = add i64 %place, 32
  %q = getelementptr i32, ptr %ctx, i64 %inner
  %r = call i32 @tileloom_parallel(ptr @count, ptr %q, i32 0)
  ret void
}
define i32 @run(ptr %ctx, i32 %max) {
  %r = call i32 @tileloom_parallel(ptr @count, ptr %ctx, i32 %max)
  ret i32 %r
}
define i32 @run_nested(ptr %ctx) {
  %r = call i32 @tileloom_parallel(ptr @nest, ptr %ctx, i32 0)
  ret i32 %r
}
"""


@pytest.fixture(params=["omp", "pool", "serial"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A fresh runtime in one mode."""
    monkeypatch.setattr(parallel, "_runtime", parallel._Runtime())
    with override(threading=request.param):
        if request.param == "omp" and "OpenMP" not in parallel.describe():
            pytest.skip("no OpenMP runtime here")
        yield request.param


@pytest.fixture
def region(mode: str, assemble: Callable[..., Any]) -> tuple[Any, ...]:
    loaded = assemble(KERNEL, {"tileloom_parallel": parallel.address()})
    run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(loaded.address("run"))
    nested = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(loaded.address("run_nested"))
    return loaded, run, nested


def counts(function: Any, *rest: int) -> list[int]:
    result = np.zeros(128, np.int32)
    assert function(result.ctypes.data, *rest) == 0
    return result.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_worker_runs_once(mode: str, region: tuple[Any, ...], threads: int) -> None:
    parallel.set_num_threads(threads)
    team = 1 if mode == "serial" else threads
    for _ in range(50):
        assert counts(region[1], 0) == [team] * team + [0] * (128 - team)


def test_max_workers_limits(mode: str, region: tuple[Any, ...]) -> None:
    parallel.set_num_threads(4)
    for limit, team in [(1, 1), (2, 2), (9, 4), (-1, 4)]:
        team = 1 if mode == "serial" else team
        assert counts(region[1], limit)[: team + 1] == [team] * team + [0]


def test_changing_the_number_of_threads_back_and_forth(mode: str, region: tuple[Any, ...]) -> None:
    for threads in [5, 2, 6, 1, 3] * 10:
        parallel.set_num_threads(threads)
        team = 1 if mode == "serial" else threads
        assert counts(region[1], 0)[: team + 1] == [team] * team + [0]


def test_nested_regions_run_serially(mode: str, region: tuple[Any, ...]) -> None:
    parallel.set_num_threads(3)
    result = counts(region[2])
    team = 1 if mode == "serial" else 3
    assert result[: team + 1] == [team] * team + [0]
    assert result[32 : 32 + team + 1] == [1] * team + [0]


def test_regions_from_many_python_threads(mode: str, region: tuple[Any, ...]) -> None:
    parallel.set_num_threads(2)
    wrong = []

    def work() -> None:
        for _ in range(200):
            result = counts(region[1], 0)
            if result not in ([2, 2] + [0] * 126, [1] + [0] * 127):
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def fork_and(check: Callable[..., Any]) -> int:
    """The child's exit status: 0 when `check()` holds there."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    timer = threading.Timer(20, os.kill, (child, 9))
    timer.start()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    return status


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_works(mode: str, region: tuple[Any, ...]) -> None:
    parallel.set_num_threads(2)
    counts(region[1], 0)
    # Forked children are to work while the parent keeps working, and grandchildren too.
    team = 1 if mode == "serial" else 2

    def works() -> bool:
        return all(counts(region[1], 0)[:3] == [team] * team + [0] * (3 - team) for _ in range(20))

    # monkeypatch replaced the runtime that the fork handler knows, as at most one lives otherwise.
    os.register_at_fork(after_in_child=parallel._runtime.after_fork)
    assert fork_and(works) == 0
    assert fork_and(lambda: fork_and(works) == 0) == 0
    assert works()


def test_thread_count_comes_from_the_environment() -> None:
    script = "from tileloom.runtime import parallel; print(parallel.get_num_threads())"
    for given, expected in [
        ({"OMP_NUM_THREADS": "3,2"}, "3"),
        ({"OMP_NUM_THREADS": "3", "TILELOOM_NUM_THREADS": "5"}, "5"),
        ({"OMP_NUM_THREADS": "nonsense"}, str(len(os.sched_getaffinity(0)))),
    ]:
        environment = {"PYTHONPATH": str(ROOT / "src"), **given}
        shown = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        )
        assert shown.stdout.strip() == expected, shown.stderr


def test_affinity_is_honoured() -> None:
    script = textwrap.dedent("""
        import os
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
        from tileloom.runtime import parallel
        print(parallel.get_num_threads())
    """)
    environment = {"PYTHONPATH": str(ROOT / "src")}
    shown = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "1", shown.stderr


@pytest.mark.parametrize("count", [-1, 1.5, True, "2", None])
def test_bad_thread_counts_are_refused(count: Any) -> None:
    with pytest.raises(ArgumentError, match="number of threads"):
        parallel.set_num_threads(count)


def test_num_threads_in_a_block() -> None:
    before = parallel.get_num_threads()
    with parallel.num_threads(before + 3):
        assert parallel.get_num_threads() == before + 3
    assert parallel.get_num_threads() == before


def describe(*statements: str) -> str:
    """What a fresh process says of its threads after these statements."""
    script = "\n".join(
        [
            "from tileloom.target import Target",
            "from tileloom.codegen import jit, parallel_stub",
            "from tileloom.runtime import load_object, native, parallel",
            "make = lambda n, s: load_object(jit.compile_ir(parallel_stub.source(",
            "    Target.host().arch), Target.host(), 0), s)",
            "native.connect(make)",
            *statements,
            "print(parallel.describe())",
        ]
    )
    environment = {"PYTHONPATH": str(ROOT / "src")}
    shown = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    return shown.stdout + shown.stderr


@pytest.mark.skipif(ctypes.util.find_library("gomp") is None, reason="no libgomp here")
def test_a_loaded_openmp_runtime_is_shared() -> None:
    assert describe().startswith("own pool")
    assert "libgomp" in describe("import ctypes; ctypes.CDLL('libgomp.so.1')")
    # One that comes along with PyTorch later, too.
    late = "import ctypes, sys; ctypes.CDLL('libgomp.so.1'); sys.modules['torch'] = sys"
    assert "libgomp" in describe("parallel.address()", late)


@pytest.mark.skipif(ctypes.util.find_library("gomp") is None, reason="no libgomp here")
def test_a_worker_that_was_forked_before_we_were_there_uses_the_pool() -> None:
    program = textwrap.dedent("""
        import multiprocessing, sys
        def work():
            {}
        if __name__ == "__main__":
            worker = multiprocessing.get_context(sys.argv[1]).Process(target=work)
            worker.start()
            worker.join(60)
    """)
    inner = [
        "import ctypes; ctypes.CDLL('libgomp.so.1')",
        "from tileloom.target import Target",
        "from tileloom.codegen import jit, parallel_stub",
        "from tileloom.runtime import load_object, native, parallel",
        "native.connect(lambda n, s: load_object(jit.compile_ir(parallel_stub.source("
        "Target.host().arch), Target.host(), 0), s))",
        "print(parallel.describe())",
    ]
    text = program.format("\n    ".join(inner))
    for method, expected in [("fork", "own pool"), ("spawn", "OpenMP")]:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(text)
            file.flush()
            shown = subprocess.run(
                [sys.executable, file.name, method],
                env={"PYTHONPATH": str(ROOT / "src")},
                capture_output=True,
                text=True,
            )
        assert shown.stdout.startswith(expected), shown.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_workers_keep_off_the_core_of_the_caller(region: tuple[Any, ...], mode: str) -> None:
    if mode != "pool":
        pytest.skip("about the pool")
    parallel.set_num_threads(2)
    allowed = os.sched_getaffinity(0)
    before = set(os.listdir("/proc/self/task"))
    counts(region[1], 0)
    [worker] = set(os.listdir("/proc/self/task")) - before
    try:
        for core in sorted(allowed)[:2] * 2:
            os.sched_setaffinity(0, {core})
            counts(region[1], 0)
            assert os.sched_getaffinity(int(worker)) == allowed - {core}
    finally:
        os.sched_setaffinity(0, allowed)
