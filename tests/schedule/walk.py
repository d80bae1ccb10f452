"""Random schedules by the thousand: every one is proven and run, and none may change a result.

    cd tests && python -m schedule.walk --count 50000 --steps 12 --seed 7 --workers 2

A walk takes random steps on a random program. After `--steps` accepted ones, and after each
`--stride` more, the schedule is one of those that are counted: it is run by the interpreter, one of
`--compile` also as machine code, against the program it began with. `verify()` judges the last one
of each walk, which holds the steps of all before it, or every one of `--verify`. Each failure is
printed with the program, the steps, and the seed to walk again; `--shrink` seconds are spent on
finding the fewest steps that still fail (`--seed N --count 1 --shrink 60`).
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import pickle
import random
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from schedule.random_steps import Walker
from schedule.walk_programs import program
from tileloom import Schedule, build
from tileloom.base.errors import UserError
from tileloom.expr import Analyzer, IndexMap
from tileloom.schedule import Trace
from tileloom.schedule.verify import verify_program
from tileloom.tir import For, LetStmt, PrimFunc, Stmt, collect, run, stmt_children

Array = np.ndarray[Any, Any]
#: How many refusals in a row end a walk, and how many schedules of one walk count at most.
_STUCK, _STAGES = 120, 5
#: A schedule of more loop iterations is not run: it repeats what other blocks make, over and over.
_MOST_ITERATIONS = 2_000_000
#: How long `verify` may think: a fraction of what it may by itself, which can be minutes.
_EFFORT = 1_500_000
#: And how many seconds.
_PATIENCE = 30.0
#: What `verify` may find of programs that come to the right results.
_ABOUT_VALUES = {"unfinished", "repeated", "missing", "late-init"}
#: How many walks for each worker are asked for before the oldest one is waited for: results come
#: in the order of seeds, and a walk can take a hundred times as long as most.
_AHEAD = 256
#: One of how many walks derives everything that analyses remember anew after each step.
_DEBUGGED = 64


@dataclass(frozen=True)
class Options:
    """How far walks go, and how schedules are judged."""

    steps: int = 12
    stride: int = 3
    compile: int = 40
    verify: int = 0
    shrink: float = 0.0


@dataclass
class Outcome:
    """What one walk came to."""

    counts: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reports: list[tuple[str, str]] = field(default_factory=list)


class FailureError(Exception):
    """A schedule is not what it should be: the kind of fault, and what is known of it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text

    def __str__(self) -> str:
        return self.text


def walk(seed: int, options: Options) -> Outcome:
    """One walk, and the schedules that it came to."""
    rng = random.Random(seed)
    func = program(rng)
    mask = "none" if seed % _DEBUGGED else "all"
    sch = Schedule(func, seed=seed % (1 << 30) + 1, debug_mask=mask, error_render_level="none")
    walker, outcome = Walker(sch, rng.getrandbits(32)), Outcome()
    judge = Judge(func, seed)
    try:
        _stages(walker, judge, options, outcome.counts)
    except FailureError as failure:
        steps = _shown(sch.trace)
        if options.shrink and failure.kind != "internal error in a step":
            steps = f"{minimal(func, sch, seed, failure.kind, options.shrink)}\nfrom\n{steps}"
        text = f"seed {seed}\n{func}\n{failure}\nby\n{steps}"
        outcome.reports.append((failure.kind, text))
        outcome.counts[failure.kind] += 1
    outcome.accepted.update(walker.accepted)
    outcome.refused.update(walker.refused)
    return outcome


def _stages(walker: Walker, judge: Judge, options: Options, counts: Counter[str]) -> None:
    """Take steps, and judge where they lead to now and then."""
    for stage in range(_STAGES):
        before = len(walker.accepted)
        stuck = not _go(walker, options.steps + stage * options.stride)
        if len(walker.accepted) < options.steps:
            counts["walks that got stuck"] += 1
            return
        if _iterations(walker.sch.mod["main"].body) > _MOST_ITERATIONS:
            counts["walks that became too long to run"] += 1
            return
        number = judge.seed * _STAGES + stage
        if len(walker.accepted) > before:
            counts["schedules"] += 1
            counts["run as machine code"] += judge.runs(
                walker.sch, _one_of(options.compile, number)
            )
        if stuck or stage == _STAGES - 1 or _one_of(options.verify, number):
            counts[f"verify says {judge.proves(walker.sch)}"] += 1
        if stuck:
            return


def _iterations(stmt: Stmt) -> int:
    """About how many iterations the innermost loops have, taken together."""
    inner = sum(_iterations(child) for child in stmt_children(stmt))
    if not isinstance(stmt, For):
        return inner
    extent = Analyzer().const_int_bound(stmt.extent).max_value
    return max(1, inner) * min(max(extent, 0), _MOST_ITERATIONS)


def _one_of(many: int, number: int) -> bool:
    return many > 0 and number % many == 0


def _shown(trace: Trace | None) -> str:
    return "" if trace is None else str(trace.simplified(remove_postproc=False))


def _go(walker: Walker, steps: int) -> bool:
    """Whether so many steps were accepted in the end."""
    tries = len(walker.refused) + _STUCK
    try:
        while len(walker.accepted) < steps and len(walker.refused) < tries:
            walker.step()
    except Exception as error:
        raise FailureError("internal error in a step", traceback.format_exc(limit=-30)) from error
    return len(walker.accepted) >= steps


# ---------------------------------------------------------------------------- judging


class Judge:
    """Says whether schedules of a program mean what it means.

    Args:
        func: the program.
        seed: of the numbers that it is run with.
    """

    def __init__(self, func: PrimFunc, seed: int) -> None:
        self.func, self.seed = func, seed
        # Pairs of which one is picked: verify does not read them as a reduction.
        self.picks = bool(collect(func.body, LetStmt))
        self.given = inputs(func, seed)
        self.wanted = [a.copy() for a in self.given]
        _running("the program", partial(run, func, *self.wanted))

    def runs(self, sch: Schedule, compiled: bool) -> bool:
        """Run what is scheduled in the interpreter, and as machine code if that is to be built."""
        scheduled = sch.mod["main"]
        got = _laid_out(sch, scheduled, self.given)
        _running("the interpreter", partial(run, scheduled, *got))
        _compare(sch, got, self.wanted, "wrong result")
        if not compiled:
            return False
        got = _laid_out(sch, scheduled, self.given)
        try:
            kernel = build(scheduled)
        except UserError as error:
            if "pipeline" in str(error):
                return False  # annotations promise what `build` finds not to hold
            raise FailureError("error in build", str(error)) from error
        except Exception as error:
            raise FailureError("internal error in build", traceback.format_exc()) from error
        _running("machine code", lambda: kernel(*got))
        _compare(sch, got, self.wanted, "wrong result as machine code")
        return True

    def proves(self, sch: Schedule) -> str:
        """What `verify` says, where it does not say that something is wrong.

        A process of its own asks it: some sets keep the integer library busy for many minutes.
        """
        found = _in_a_child(partial(self._proves, sch), _PATIENCE)
        if found is None:
            return "unknown, out of time"
        if isinstance(found, FailureError):
            raise found
        return str(found)

    def _proves(self, sch: Schedule) -> str:
        layouts = {k: layout for (_, k), layout in sch._layouts.items()}
        report = _running(
            "verify",
            partial(
                verify_program,
                sch.mod["main"],
                original=self.func,
                layouts=layouts,
                max_operations=_EFFORT,
            ),
        )
        kinds = {violation.kind for violation in report.violations}
        if self.picks and "different" in kinds and kinds - {"different"} <= _ABOUT_VALUES:
            return "another order"
        if kinds <= _ABOUT_VALUES and report.unknown:
            return "doubtful"  # how sums are made, where it is not decided what they come to
        if kinds:
            raise FailureError("verify says wrong", str(report))
        return "unknown" if report.unknown else "ok"


def _in_a_child(work: Callable[[], Any], seconds: float) -> Any:
    """What a forked process returns or raises; None if it takes longer than that."""
    ready, result = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer: Any = work()
        except FailureError as failure:
            answer = failure
        with os.fdopen(result, "wb") as out:
            pickle.dump(answer, out)
        os._exit(0)
    os.close(result)
    with os.fdopen(ready, "rb") as pipe:
        said, _, _ = select.select([pipe], [], [], seconds)
        data = pipe.read() if said else b""
    if not data:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def _running(what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except UserError as error:
        raise FailureError(f"error in {what}", str(error)) from error
    except Exception as error:
        text = traceback.format_exc(limit=-30)
        raise FailureError(f"internal error in {what}", text) from error


def inputs(func: PrimFunc, seed: int) -> list[Array]:
    """Small numbers, of which sums are exact."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 4, b.static_shape).astype(str(b.dtype))
        if b.dtype.is_int
        else rng.integers(-3, 4, b.static_shape).astype(str(b.dtype))
        for b in func.buffers
    ]


def _laid_out(sch: Schedule, func: PrimFunc, arrays: list[Array]) -> list[Array]:
    """The arrays in the layouts that the schedule has given to parameters."""
    result = []
    for k, (array, buffer) in enumerate(zip(arrays, func.buffers, strict=True)):
        layout = sch._layouts.get(("main", k))
        if layout is None:
            result.append(array.copy())
            continue
        other = np.zeros(buffer.static_shape or (), array.dtype)
        other[_places(layout, array.shape)] = array
        result.append(other)
    return result


def _places(layout: IndexMap, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Where each element of an array of a shape goes."""
    points = [layout.map_indices([*map(int, point)]) for point in np.ndindex(shape)]
    columns = zip(*([int(i) for i in point] for point in points), strict=True)
    return tuple(np.array(column).reshape(shape) for column in columns)


def _compare(sch: Schedule, got: list[Array], wanted: list[Array], kind: str) -> None:
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        layout = sch._layouts.get(("main", k))
        there = a if layout is None else a[_places(layout, b.shape)]
        if not np.allclose(there, b, rtol=1e-4, atol=1e-4, equal_nan=True):
            raise FailureError(kind, f"argument {k} is\n{there}\nnot\n{b}")


# ---------------------------------------------------------------------------- minimal steps


def minimal(func: PrimFunc, sch: Schedule, seed: int, kind: str, seconds: float = 20.0) -> str:
    """The fewest steps of a trace that still fail in one way, as far as time allows."""
    trace = sch.trace.simplified(remove_postproc=False) if sch.trace else Trace([])
    steps, decisions = list(trace.insts), dict(trace.decisions)
    start = time.monotonic()
    shrunk = True
    while shrunk and time.monotonic() - start < seconds:
        shrunk = False
        for k in reversed(range(len(steps))):
            fewer = list(_without(steps, k))
            if len(fewer) < len(steps) and _fails(func, Trace(fewer, decisions), seed, kind):
                steps, shrunk = fewer, True
                break
    return _shown(Trace(steps, decisions))


def _without(steps: list[Any], k: int) -> Iterator[Any]:
    """The steps without one, and without what depends on it."""
    gone: set[Any] = set()
    for i, step in enumerate(steps):
        if i == k or _uses(step.inputs, gone):
            gone.update(step.outputs)
        else:
            yield step


def _uses(value: Any, gone: set[Any]) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_uses(item, gone) for item in value)
    return isinstance(value, object) and value.__hash__ is not None and value in gone


def _fails(func: PrimFunc, trace: Trace, seed: int, kind: str) -> bool:
    sch, judge = Schedule(func, seed=1), Judge(func, seed)
    try:
        trace.apply_to_schedule(sch, remove_postproc=False)
        judge.runs(sch, kind.endswith(("machine code", "build")))
        judge.proves(sch)
    except FailureError as failure:
        return failure.kind == kind
    except Exception:
        return False
    return False


# ---------------------------------------------------------------------------- many walks


def main(arguments: list[str] | None = None) -> int:
    """The command line; answers how many schedules failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000, help="how many schedules, at least")
    parser.add_argument("--steps", type=int, default=12, help="accepted steps of the first")
    parser.add_argument("--stride", type=int, default=3, help="steps between those of one walk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", type=int, default=40, help="one of so many as machine code")
    parser.add_argument("--verify", type=int, default=0, help="one of so many verified as well")
    parser.add_argument("--shrink", type=float, default=0.0, help="seconds to shrink a failure")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="end after so long")
    given = parser.parse_args(arguments)
    options = Options(given.steps, given.stride, given.compile, given.verify, given.shrink)
    total, until = Outcome(), time.monotonic() + (given.minutes * 60 or math.inf)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        _collect(total, _outcomes(given.seed, options, given.workers), given.count, until)
    except KeyboardInterrupt:
        print("interrupted")
    _summary(total)
    return len(total.reports)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _collect(total: Outcome, outcomes: Iterator[Outcome], count: int, until: float) -> None:
    """Add outcomes up, and say how far it is, until there are enough or time is over."""
    said = 0
    for outcome in outcomes:
        total.counts += outcome.counts
        total.accepted += outcome.accepted
        total.refused += outcome.refused
        for kind, text in outcome.reports:
            print(f"==== {kind}: {text}", flush=True)
            total.reports.append((kind, text))
        done = total.counts["schedules"]
        if done // 500 > said:
            said = done // 500
            print(f"{done} schedules, {len(total.reports)} failures", flush=True)
        if done >= count or time.monotonic() > until:
            return


def _outcomes(seed: int, options: Options, workers: int) -> Iterator[Outcome]:
    seeds = iter(range(seed, sys.maxsize))
    if workers <= 1:
        yield from (walk(number, options) for number in seeds)
        return
    with multiprocessing.Pool(workers, initializer=_begin) as pool:
        ahead = _AHEAD * workers
        waiting = [pool.apply_async(walk, (next(seeds), options)) for _ in range(ahead)]
        while True:
            yield waiting.pop(0).get()
            waiting.append(pool.apply_async(walk, (next(seeds), options)))


def _begin() -> None:
    """Workers give way to others, and leave it to the first process to be interrupted."""
    os.nice(max(0, 10 - os.nice(0)))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _summary(total: Outcome) -> None:
    for what, counts in (
        ("steps accepted", total.accepted),
        ("steps refused", total.refused),
    ):
        named = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        print(f"{what}: {counts.total()}: {named}")
    for name, count in total.counts.most_common():
        print(f"{name}: {count}")
    kinds = Counter(kind for kind, _ in total.reports)
    print(f"failures: {kinds.total()}", *(f"{kind}: {n}" for kind, n in kinds.items()), sep="\n  ")


if __name__ == "__main__":
    raise SystemExit(min(main(), 100))
