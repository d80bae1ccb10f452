"""How long schedules and scripts take: replaying a trace, lowering a scheduled module; importing,
parsing and printing one.

`python -m benchmarks.schedule_speed` prints a table; `--profile replay`, `--profile lower` or
`--profile script` shows where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tileloom import IRModule, PrimFunc, Schedule, lower, te
from tileloom.expr import intrin
from tileloom.schedule import Trace

from . import startup

# Nothing but Python itself is there before the clock starts. The script is a file that Python
# imports: the decorator parses its text.
_SCRIPT = """
import sys, time
sys.path.insert(0, FOLDER)
start = time.perf_counter()
from tileloom.script import ir, tir
loaded = time.perf_counter()
import a_script
parsed = time.perf_counter()
printed = str(a_script.Module)
done = time.perf_counter()
print(CHOSEN)
"""
_IMPORTS = "from tileloom.script import ir as I, tir as T\n\n"
_PARTS = {
    "import tileloom.script": ("loaded - start", None),
    "import a script of 200 lines, which parses it": ("parsed - loaded", None),
    "print it": ("done - parsed", None),
    "all three, in a fresh process": ("done - start", 0.030),
}


@dataclass(frozen=True)
class Timing:
    """One measurement in seconds: samples by the clock, and of the CPU that was used."""

    name: str
    limit: float | None
    clock: list[float]
    cpu: list[float]

    @property
    def busy(self) -> bool:
        """Whether others had the CPU for much of the time; then the CPU used is what counts."""
        return median(self.cpu) < 0.8 * median(self.clock)

    @property
    def decisive(self) -> float:
        """What is held against the limit. Others who keep the machine busy take its caches too."""
        return min(self.cpu) if self.busy else median(self.clock)

    @property
    def within(self) -> bool:
        """Whether the limit is kept."""
        return self.limit is None or self.decisive <= self.limit


def matmul(n: int = 512) -> PrimFunc:
    """A matrix product with an element-wise step after it."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_prim_func([A, B, C])


def schedule_matmul(sch: Schedule) -> None:
    """Two levels of tiling, a cached result, parallel, vectorised and unrolled loops."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    copy = sch.cache_write(block, 0, "global")
    i0, i1, i2 = sch.split(i, [None, *_tile(sch, i)])  # type: ignore[list-item]
    j0, j1, j2 = sch.split(j, [None, *_tile(sch, j)])  # type: ignore[list-item]
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, i1, j1, k0, i2, k1, j2)
    sch.reverse_compute_at(copy, j1)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(j2)
    sch.unroll(k1)
    sch.annotate(k0, "pragma_auto_unroll_max_step", 64)
    sch.vectorize(sch.get_loops(copy)[-1])
    sch.decompose_reduction(block, k0)


def _tile(sch: Schedule, loop: object) -> list[object]:
    tile: list[object] = sch.sample_perfect_tile(loop, 3, 16, decision=[8, 4, 16])  # type: ignore[arg-type, assignment]
    return tile[1:]


def replay_call() -> Callable[[], None]:
    """Replays the trace on a fresh schedule."""
    func = matmul()
    made = Schedule(func, seed=1)
    schedule_matmul(made)
    trace = made.trace
    assert trace is not None

    def call() -> None:
        trace.apply_to_schedule(Schedule(func, seed=1), remove_postproc=False)

    return call


def json_call() -> Callable[[], None]:
    """The same from JSON."""
    func = matmul()
    made = Schedule(func, seed=1)
    schedule_matmul(made)
    assert made.trace is not None
    data = made.trace.as_json()
    return lambda: Trace.apply_json_to_schedule(data, Schedule(func, seed=1))


def uneven() -> PrimFunc:
    """exp(A @ B / 100) in tiles that do not divide the sizes, A copied and C kept for each tile."""
    n, m, depth = 101, 103, 97
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, m), lambda i, j: intrin.exp(C[i, j] * 0.01), name="D")
    sch = Schedule(te.create_prim_func([A, B, D]))
    block, after = sch.get_block("C"), sch.get_block("D")
    (i0, i1), (j0, j1), (k0, k1) = (
        sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(block), (16, 16, 8))
    )
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.compute_at(sch.cache_read(block, 0, "global"), k0)
    sch.reverse_compute_at(after, j0)
    sch.set_scope(block, 0, "local")
    sch.parallel(i0)
    sch.vectorize(j1)
    sch.vectorize(sch.get_loops(after)[-1])
    return sch.mod["main"]


def lower_call(times: int) -> Callable[[], None]:
    """Lowers an uneven module, a new one each time: what is known of the old one would help."""
    modules = iter([uneven() for _ in range(times)])

    def call() -> None:
        lower(next(modules))

    return call


def module_text(lines: int = 200) -> str:
    """A module of about so many lines: matrix products scheduled in several ways."""
    functions: dict[str, PrimFunc] = {}
    while len(str(IRModule(functions)).splitlines()) < lines:
        n = 64 * (len(functions) + 1)
        sch = Schedule(matmul(n))
        if len(functions) % 2 == 0:
            schedule_matmul(sch)
        functions[f"matmul_{n}"] = sch.mod["main"]
    return _IMPORTS + str(IRModule(functions))


def timings(rounds: int) -> list[Timing]:
    """All measurements."""
    found = [
        _in_process("replay of a matmul trace", 0.015, replay_call(), rounds),
        _in_process("replay of it from JSON", 0.015, json_call(), rounds),
        _in_process("lowering of a matmul in uneven tiles", 0.010, lower_call(rounds + 1), rounds),
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a_script.py").write_text(module_text())
        for name, (chosen, limit) in _PARTS.items():
            code = _SCRIPT.replace("FOLDER", repr(folder)).replace("CHOSEN", chosen)
            cached = {"PYTHONDONTWRITEBYTECODE": ""}
            startup.run(code, cached)  # fills Python's own cache
            own = code.replace("perf_counter", "process_time")
            times = range(max(3, rounds // 4))
            clock, cpu = ([startup.run(text, cached) for _ in times] for text in (code, own))
            found.append(Timing(name, limit, clock, cpu))
    return found


def _in_process(name: str, limit: float, call: Callable[[], None], rounds: int) -> Timing:
    clock, cpu = [], []
    call()
    for _ in range(rounds):
        gc.collect()
        start, used = time.perf_counter(), time.process_time()
        call()
        clock.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return Timing(name, limit, clock, cpu)


def markdown(found: Sequence[Timing]) -> str:
    """A table. Limits are held against medians by the clock; against the least CPU used (marked ~)
    where others keep the machine busy."""
    head = "| | limit ms | median ms | least ms | CPU ms | least CPU ms | |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for one in found:
        limit = "" if one.limit is None else f"{one.limit * 1e3:g}"
        verdict = "" if one.limit is None else "met" if one.within else "**missed**"
        mark = " ~" if verdict and one.busy else ""
        times = (median(one.clock), min(one.clock), median(one.cpu), min(one.cpu))
        cells = " | ".join(f"{seconds * 1e3:.1f}" for seconds in times)
        lines.append(f"| {one.name} | {limit} | {cells} | {verdict}{mark} |")
    return "\n".join(lines) + "\n"


def profile(what: str) -> None:
    """Where the time goes."""
    if what == "replay":
        call = replay_call()
    elif what == "lower":
        call = lower_call(11)
    else:
        from tileloom.script import from_source

        text = module_text()
        call = lambda: print(len(str(from_source(text))))  # noqa: E731
    call()
    profiler = cProfile.Profile()
    profiler.runcall(lambda: [call() for _ in range(10)])
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--profile", choices=["replay", "lower", "script"])
    options = parser.parse_args(arguments)
    if options.profile:
        profile(options.profile)
        return 0
    found = timings(options.rounds)
    print(markdown(found))
    return int(not all(one.within for one in found))


if __name__ == "__main__":
    sys.exit(main())
