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
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError
from tileloom.base.settings import override
from tileloom.runtime import parallel
from tileloom.target import machine

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


@pytest.mark.parametrize(
    ("asked", "setting", "variable", "count"),
    [(0, 0, None, 6), (0, 0, "3,2", 3), (0, 0, " 4 ", 4), (0, 0, "0", 6), (0, 0, "nonsense", 6),
     (0, 0, "-2", 6), (0, 0, "1", 1), (0, 5, "3", 5), (0, 1, None, 1), (2, 5, "3", 2),
     (1, 5, "3", 1)],
)  # fmt: skip
def test_who_says_how_many_threads(
    monkeypatch: pytest.MonkeyPatch, asked: int, setting: int, variable: str | None, count: int
) -> None:
    monkeypatch.setattr(parallel, "_runtime", parallel._Runtime())
    monkeypatch.setattr(machine, "usable_cores", lambda: 6)
    if variable is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    with override(num_threads=setting):
        if asked:
            parallel.set_num_threads(asked)
        assert parallel.get_num_threads() == count


@pytest.mark.parametrize(
    ("module", "arguments", "forked"),
    [
        (None, [], False),
        (SimpleNamespace(parent_process=lambda: None), [], False),
        (SimpleNamespace(parent_process=lambda: "parent"), ["python", "-c", "..."], True),
        (SimpleNamespace(parent_process=lambda: "parent"), ["--multiprocessing-fork"], False),
    ],
)
def test_workers_that_were_forked(
    monkeypatch: pytest.MonkeyPatch, module: Any, arguments: list[str], forked: bool
) -> None:
    monkeypatch.setitem(sys.modules, "multiprocessing.process", module)
    monkeypatch.setattr(sys, "orig_argv", arguments)
    assert parallel._is_forked_worker() is forked


@pytest.mark.parametrize(
    ("wanted", "forked", "there", "fresh", "mode", "spins"),
    [
        ("serial", False, True, True, 0, True), ("pool", False, True, True, 2, True),
        ("auto", False, True, True, 1, True), ("auto", False, False, True, 2, True),
        ("auto", True, True, True, 2, True), ("omp", False, True, True, 1, False),
        ("omp", False, False, True, 1, False), ("omp", False, False, False, 2, False),
        ("omp", True, True, True, 2, False),
    ],
)  # fmt: skip
def test_which_runtime_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
    wanted: str, forked: bool, there: bool, fresh: bool, mode: int, spins: bool,
) -> None:  # fmt: skip
    """An OpenMP runtime that is there, one that is asked for, or threads of ours."""
    monkeypatch.setattr(machine, "usable_cores", lambda: 1 + spins)
    names = {name: k + 1 for k, name in enumerate(parallel._OPENMP_FUNCTIONS)}
    library: Any = SimpleNamespace(_name="libomp", **names)
    monkeypatch.setattr(parallel, "_openmp", lambda: library if there else None)
    monkeypatch.setattr(parallel, "_fresh_openmp", lambda: library if fresh else None)
    monkeypatch.setattr(parallel, "_address", getattr)
    runtime = parallel._Runtime()
    runtime.forked, runtime.state = forked, parallel._State()
    with override(threading=wanted):
        runtime._choose()
    state = runtime.state
    assert state.mode == mode and (state.spins > 0) is spins
    found = [state.omp_parallel, state.omp_number, state.omp_count, state.omp_inside]
    assert found == ([1, 2, 3, 4] if mode == 1 else [None] * 4)
    assert runtime.library == ("libomp" if mode == 1 else "")


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("wanted", ["auto", "pool"])
def test_a_runtime_that_comes_along_with_pytorch(
    monkeypatch: pytest.MonkeyPatch, torch: bool, forked: bool, wanted: str
) -> None:
    used: list[Any] = []
    monkeypatch.setattr(parallel, "_openmp", lambda: "library")
    monkeypatch.setattr(parallel._runtime, "asked", 0)  # whatever tests before have asked for
    runtime = parallel._Runtime()
    runtime.state = parallel._State(mode=2)
    runtime.forked = forked
    monkeypatch.setattr(runtime, "_use_openmp", used.append)
    if torch:
        monkeypatch.setitem(sys.modules, "torch", sys)
    else:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    with override(threading=wanted, num_threads=3):
        runtime.refresh()
    assert runtime.state.threads == 3
    assert used == ["library"] * (torch and not forked and wanted == "auto")


@pytest.mark.parametrize("given", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_openmp_is_told_to_wait_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with parallel._bounded_spinning():
        wanted = given.get("GOMP_SPINCOUNT", None if given else str(parallel._SPINS))
        assert os.environ.get("GOMP_SPINCOUNT") == wanted
    assert {
        n: v for n, v in os.environ.items() if n in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    } == given


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
