"""Random schedules by the thousand: every one is proven and run, and none may change a result.

    cd tests && python -m schedule.walk --count 50000 --steps 12 --seed 7 --workers 2

A walk takes random steps on a random program. After `--steps` accepted ones, and after each
`--stride` more, the schedule is one of those that are counted: `verify()` judges it, and it is run
by the interpreter, one of `--compile` also as machine code, against the program it began with. Each
failure is printed with the program, the fewest steps that still fail, and the seed to walk again
(`--seed N --count 1`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
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
from tileloom.expr import IndexMap
from tileloom.schedule import Trace
from tileloom.tir import PrimFunc, run

Array = np.ndarray[Any, Any]
#: How many refusals in a row end a walk, and how many schedules of one walk count at most.
_STUCK, _STAGES = 120, 3


@dataclass(frozen=True)
class Options:
    """How far walks go, and how schedules are judged."""

    steps: int = 12
    stride: int = 6
    compile: int = 40


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
        super().__init__(text)
        self.kind = kind


def walk(seed: int, options: Options) -> Outcome:
    """One walk, and the schedules that it came to."""
    rng = random.Random(seed)
    func = program(rng)
    sch = Schedule(func, seed=seed % (1 << 30) + 1, debug_mask="all" if seed % 16 == 0 else 0)
    walker, outcome = Walker(sch, rng.getrandbits(32)), Outcome()
    for stage in range(_STAGES):
        try:
            _go(walker, options.steps + stage * options.stride)
        except Exception:
            text = f"{traceback.format_exc(limit=-30)}after\n{_shown(sch.trace)}"
            outcome.reports.append(("internal error in a step", _report(seed, func, text)))
            break
        if len(walker.accepted) < options.steps:
            outcome.counts["walks that got stuck"] += 1
            break
        number = seed * _STAGES + stage
        outcome.counts["schedules"] += 1
        try:
            outcome.counts[judge(func, sch, number, number % options.compile == 0)] += 1
        except FailureError as failure:
            fewest = minimal(func, sch, number, failure.kind)
            text = f"{failure}\nby\n{fewest}\nfrom\n{_shown(sch.trace)}"
            outcome.reports.append((failure.kind, _report(seed, func, text)))
            break
    outcome.accepted.update(walker.accepted)
    outcome.refused.update(walker.refused)
    for kind, _ in outcome.reports:
        outcome.counts[kind] += 1
    return outcome


def _shown(trace: Trace | None) -> str:
    return "" if trace is None else str(trace.simplified(remove_postproc=False))


def _go(walker: Walker, steps: int) -> None:
    tries = len(walker.refused) + _STUCK
    while len(walker.accepted) < steps and len(walker.refused) < tries:
        walker.step()


def _report(seed: int, func: PrimFunc, text: str) -> str:
    return f"seed {seed}\n{func}\n{text}"


# ---------------------------------------------------------------------------- judging


def judge(func: PrimFunc, sch: Schedule, number: int, compiled: bool) -> str:
    """What `verify` says, where results are right: "ok" or "unknown"."""
    wanted = inputs(func, number)
    given = [a.copy() for a in wanted]
    _running("the program", partial(run, func, *wanted))
    scheduled = sch.mod["main"]
    got = _laid_out(sch, scheduled, given)
    _running("the interpreter", partial(run, scheduled, *got))
    _compare(sch, got, wanted, "wrong result")
    report = _running("verify", sch.verify)
    kinds = {violation.kind for violation in report.violations}
    if kinds == {"unfinished"} and report.unknown:
        return "unfinished sums, not comparable"  # read again when finished, which is not proven
    if kinds:
        raise FailureError("verify says wrong", str(report))
    if compiled:
        got = _laid_out(sch, scheduled, given)
        try:
            kernel = build(scheduled)
        except UserError as error:
            if "software_pipeline" in str(error):
                return "refused by build"  # later steps have changed the loop of a pipeline
            raise FailureError("error in build", str(error)) from error
        except Exception as error:
            raise FailureError("internal error in build", traceback.format_exc()) from error
        _running("machine code", lambda: kernel(*got))
        _compare(sch, got, wanted, "wrong result as machine code")
    return "unknown" if report.unknown else "ok"


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


def minimal(func: PrimFunc, sch: Schedule, number: int, kind: str) -> str:
    """The fewest steps of a trace that still fail in one way."""
    trace = sch.trace.simplified(remove_postproc=False) if sch.trace else Trace([])
    steps, decisions = list(trace.insts), dict(trace.decisions)
    start = time.monotonic()
    shrunk = True
    while shrunk and time.monotonic() - start < 20:
        shrunk = False
        for k in reversed(range(len(steps))):
            fewer = list(_without(steps, k))
            if len(fewer) < len(steps) and _fails(func, Trace(fewer, decisions), number, kind):
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


def _fails(func: PrimFunc, trace: Trace, number: int, kind: str) -> bool:
    sch = Schedule(func, seed=1)
    try:
        trace.apply_to_schedule(sch, remove_postproc=False)
        judge(func, sch, number, kind.endswith("machine code"))
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
    parser.add_argument("--stride", type=int, default=6, help="steps between those of one walk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", type=int, default=40, help="one of so many as machine code")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="end after so long")
    given = parser.parse_args(arguments)
    options = Options(given.steps, given.stride, given.compile)
    total, until = Outcome(), time.monotonic() + given.minutes * 60
    for outcome in _outcomes(given.seed, options, given.workers):
        total.counts += outcome.counts
        total.accepted += outcome.accepted
        total.refused += outcome.refused
        for kind, text in outcome.reports:
            print(f"==== {kind}: {text}", flush=True)
            total.reports.append((kind, text))
        if total.counts["schedules"] >= given.count:
            break
        if given.minutes and time.monotonic() > until:
            break
    _summary(total)
    return len(total.reports)


def _outcomes(seed: int, options: Options, workers: int) -> Iterator[Outcome]:
    seeds = iter(range(seed, sys.maxsize))
    if workers <= 1:
        yield from (walk(number, options) for number in seeds)
        return
    with multiprocessing.Pool(workers, initializer=os.nice, initargs=(10,)) as pool:
        ahead = 16 * workers
        waiting = [pool.apply_async(walk, (next(seeds), options)) for _ in range(ahead)]
        while True:
            yield waiting.pop(0).get()
            waiting.append(pool.apply_async(walk, (next(seeds), options)))


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
