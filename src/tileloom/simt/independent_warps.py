"""Warps that run each on their own, and wait for each other at numbered barriers.

A kernel whose warps reach barriers in different places cannot be run in lockstep: a producer
waits for a consumer that has not begun. Here every warp of one block is a generator that
yields where it waits. It runs until it waits; when none can go on, they wait for each other.

Who has seen what is kept as vector clocks, warp by warp: a barrier hands on what those who came
had seen. `ClockedHistory` finds races by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UnsupportedError
from ..expr import Call, StringImm
from ..expr.warp_ops import NAMED_BARRIERS
from ..target.instructions import SELF_ORDERED
from ..tir import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    collect,
    pre_order,
)
from .defects import KernelDefect
from .engines import Waiting
from .thread_batch import WARP, Array

if TYPE_CHECKING:
    from .machine import Machine

Ready = Callable[[], bool]
_SYNC, _WAIT = "tir.tvm_storage_sync", "tir.ptx_mbarrier_wait"


def needs_independent_warps(body: Stmt) -> bool:
    """Whether warps of the kernel may wait for each other in different places."""
    calls = (node.value for node in collect(body, Evaluate))
    return any(isinstance(call, Call) and call.op in NAMED_BARRIERS for call in calls) or (
        uses_engines(body)
    )


def uses_engines(body: Stmt) -> bool:
    """Whether something works beside the warps of the kernel."""
    calls = (node.value for node in collect(body, Evaluate))
    return any(isinstance(call, Call) and call.op in SELF_ORDERED for call in calls)


def _waits(stmt: Evaluate) -> bool:
    call = stmt.value
    if not isinstance(call, Call):
        return False
    if call.op != _SYNC:
        return call.op in NAMED_BARRIERS or call.op == _WAIT
    return not (isinstance(call.args[0], StringImm) and call.args[0].value == "warp")


@dataclass
class _Barrier:
    """One of a block's barriers.

    Attributes:
        expected: threads that it waits for, said by the first to come.
        arrived: threads that have come, whole warps.
        seen: what they had seen, of every warp.
        phase: how often it has been complete.
        warps: those that have come.
        done: what those who came had seen, by phase.
    """

    expected: int = 0
    arrived: int = 0
    seen: Array | None = None
    phase: int = 0
    warps: set[int] = field(default_factory=set)
    done: dict[int, Array] = field(default_factory=dict)


@dataclass
class _Warp:
    steps: Iterator[Ready]
    lanes: Array
    env: dict[Any, Any]
    ready: Ready | None = None
    stmt: Stmt | None = None


class WarpScheduler:
    """Runs a kernel for one block, warp by warp."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.barriers: dict[int, _Barrier] = {}
        self.waiting: set[Stmt] = set()

    def run(self, body: Stmt) -> None:
        """Run all warps to the end.

        Raises:
            KernelDefect: warps wait for others that do not come.
        """
        machine, batch = self.machine, self.machine.batch
        for stmt in pre_order(body):
            if any(_waits(node) for node in collect(stmt, Evaluate)):
                self.waiting.add(stmt)
        live = []
        for warp in range(batch.warps):
            lanes = np.flatnonzero(batch.warp == warp)
            live.append(_Warp(self._steps(body, lanes), lanes, dict(machine.env)))
        while live:
            able = [running for running in live if running.ready is None or running.ready()]
            if not able:
                if machine.engines.advance():
                    continue
                self._stuck(live)
            for running in able:
                machine.env = running.env
                try:
                    running.ready, running.stmt = next(running.steps), machine.stmt
                except StopIteration:
                    live.remove(running)
        machine.engines.finish()

    def _stuck(self, live: list[_Warp]) -> None:
        """Say who waits for whom."""
        for running in live:
            if isinstance(running.ready, Waiting):
                self._never(running, running.ready)
        first = live[0]
        open_ = [f"{m.arrived} of {m.expected}" for m in self.barriers.values() if m.arrived]
        number = next((n for n, m in self.barriers.items() if m.arrived), 0)
        raise KernelDefect(
            "divergent barrier",
            f"{open_[0] if open_ else 'no'} threads reach barrier {number}, and the rest never do",
            first.stmt,
            self.machine.batch.places(np.concatenate([running.lanes for running in live])),
            first.stmt.span if first.stmt else None,
            hint="count the threads that come to the barrier, and in which order",
        )

    def _never(self, running: _Warp, waiting: Waiting) -> None:
        raise KernelDefect(
            "deadlock",
            f"a warp waits for parity {waiting.parity}; {waiting.reason()}, and nobody can go on",
            running.stmt,
            self.machine.batch.places(running.lanes),
            running.stmt.span if running.stmt else None,
            hint="count the arrivals and the bytes of a phase, and look at the parity",
        )

    # ------------------------------------------------------------------ statements

    def _steps(self, stmt: Stmt, lanes: Array) -> Iterator[Ready]:
        machine = self.machine
        if stmt not in self.waiting or not len(lanes):
            machine.run(stmt, lanes)
            return
        machine.steps += len(lanes)
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    yield from self._steps(part, lanes)
            case For():
                for here in machine.iterations(stmt, lanes):
                    yield from self._steps(stmt.body, here)
            case IfThenElse():
                holds = machine.holds(stmt, stmt.condition, lanes)
                yield from self._steps(stmt.then_case, lanes[holds])
                if stmt.else_case is not None:
                    yield from self._steps(stmt.else_case, lanes[~holds])
            case LetStmt():
                machine.let(stmt, lanes)
                yield from self._steps(stmt.body, lanes)
            case Allocate():
                machine.allocate(stmt, lanes)
                yield from self._steps(stmt.body, lanes)
            case AttrStmt() | DeclBuffer():
                yield from self._steps(stmt.body, lanes)
            case While():
                while len(lanes := lanes[machine.holds(stmt, stmt.condition, lanes)]):
                    yield from self._steps(stmt.body, lanes)
            case Evaluate(value=Call(op=op) as call) if op == _WAIT:
                machine.stmt = stmt
                yield from machine.engines.wait(call.args[0], call.args[1], lanes)
            case Evaluate(value=Call() as call):
                machine.stmt = stmt
                yield from self._reach_barrier(call, lanes)
            case _:
                raise UnsupportedError(f"no warp can wait inside of {type(stmt).__name__}")

    def _reach_barrier(self, call: Call, lanes: Array) -> Iterator[Ready]:
        batch = self.machine.batch
        if call.op == _SYNC:
            self.machine.check_scope(call.args[0])
            number, count = 0, batch.warps * WARP
        else:
            number, count = (self._same(arg, lanes) for arg in call.args)
        warp = int(batch.warp[lanes[0]])
        whole = np.flatnonzero(batch.warp == warp)
        if len(lanes) != len(whole):
            self._defect(
                f"{len(lanes)} of {len(whole)} threads of a warp reach a barrier; these do not",
                np.setdiff1d(whole, lanes),
            )
        barrier = self.barriers.setdefault(number, _Barrier())
        phase = self._arrive(barrier, number, count, warp, lanes)
        if call.op == "tir.barrier_arrive":
            return
        while barrier.phase < phase:
            yield lambda: barrier.phase >= phase
        batch.learn(warp, barrier.done[phase])

    def _arrive(self, barrier: _Barrier, number: int, count: int, warp: int, lanes: Array) -> int:
        """Count a warp in; the phase that it belongs to."""
        if barrier.arrived and barrier.expected != count:
            self._defect(
                f"barrier {number} is for {count} threads here and {barrier.expected} elsewhere",
                lanes,
            )
        if count <= 0 or count % WARP or not 0 <= number < 16:
            self._defect(f"there is no barrier {number} of {count} threads", lanes)
        if warp in barrier.warps:
            self._defect(
                f"a warp comes to barrier {number} again before all {count} threads have come: it "
                "is counted twice",
                lanes,
            )
        barrier.warps.add(warp)
        batch = self.machine.batch
        known = batch.release(warp)
        barrier.seen = known if barrier.seen is None else np.maximum(barrier.seen, known)
        barrier.expected, phase = count, barrier.phase + 1
        barrier.arrived += WARP
        if barrier.arrived == count:
            barrier.done[phase] = barrier.seen
            barrier.phase, barrier.arrived, barrier.seen = phase, 0, None
            barrier.warps.clear()
            if number == 0 and batch.fences is not None:
                batch.fences.pass_barrier(batch.blocks)
        return phase

    def _same(self, arg: Any, lanes: Array) -> int:
        values = np.unique(np.asarray(self.machine.value(arg, lanes)))
        if len(values) > 1:
            self._defect(f"threads of a warp come to barriers {values.tolist()}", lanes)
        return int(values[0])

    def _defect(self, what: str, lanes: Array) -> None:
        stmt, places = self.machine.stmt, self.machine.batch.places(lanes)
        raise KernelDefect("divergent barrier", what, stmt, places, stmt.span if stmt else None)
