"""Statements and values of flat code for many threads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any

import numpy as np

from ..base import DType
from ..base.errors import UnsupportedError
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from ..expr.ops import get_op
from ..target.instructions import BARRIER_SCOPES
from ..tir import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from ..tir.atomics import is_atomic
from .approximations import Random, perturbed
from .atomics import run_atomic
from .conversions import to_integers
from .defects import KernelDefect
from .engines import Engines
from .indices import exact_index
from .instructions import VALUES, run_instruction
from .livelock import LivelockDetector
from .memory import Allocation, ThreadAccess
from .thread_batch import Array, ThreadBatch
from .warps import WARP_CALLS

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    Add: np.add, Sub: np.subtract, Mul: np.multiply, Min: np.minimum, Max: np.maximum,
    EQ: np.equal, NE: np.not_equal, LT: np.less, LE: np.less_equal, GT: np.greater,
    GE: np.greater_equal, FloorDiv: np.floor_divide, FloorMod: np.mod,
}  # fmt: skip


class Machine:
    """Runs one kernel for the threads of a batch.

    Values are arrays over the threads that are active, [threads] or [threads, lanes] for vectors;
    or single numbers, where all threads have the same.
    """

    def __init__(
        self,
        batch: ThreadBatch,
        memory: Mapping[Var, Allocation],
        env: Mapping[Var, Any],
        units: Mapping[Var, int],
        starts_empty: bool = True,
        warps: int = 0,
    ) -> None:
        self.batch = batch
        self.warps = warps  # of a block, if each runs on its own
        self.memory = dict(memory)
        self.env: dict[Var, Any] = dict(env)
        self.units = units
        self.starts_empty = starts_empty
        self.everyone = np.arange(batch.size)
        self.kinds: dict[Var, DType] = {}  # of what the kernel allocates
        self.stmt: Stmt | None = None
        self.steps = 0
        self.engines = Engines(self)
        self.random: Random | None = None  # what functions are off by, where they are approximated

    # ------------------------------------------------------------------ statements

    def run(self, stmt: Stmt, lanes: Array) -> None:
        """Run a statement on some of the threads."""
        if not len(lanes):
            return
        self.steps += len(lanes)
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.run(part, lanes)
            case For():
                for here in self.iterations(stmt, lanes):
                    self.run(stmt.body, here)
            case IfThenElse():
                self._branch(stmt, lanes)
            case LetStmt():
                self.let(stmt, lanes)
                self.run(stmt.body, lanes)
            case BufferStore():
                self._store(stmt, lanes)
            case Allocate():
                self.allocate(stmt, lanes)
                self.run(stmt.body, lanes)
            case AttrStmt() | DeclBuffer():
                self.run(stmt.body, lanes)
            case While():
                detector = LivelockDetector(self, stmt)
                while len(lanes := lanes[self.holds(stmt, stmt.condition, lanes)]):
                    detector.check(lanes)
                    self.run(stmt.body, lanes)
            case AssertStmt():
                self.run(stmt.body, lanes[self.holds(stmt, stmt.condition, lanes)])
            case Evaluate():
                self.stmt = stmt
                self._evaluate(stmt.value, lanes)
            case _:
                raise UnsupportedError(f"the emulator runs flat code, not {type(stmt).__name__}")

    def let(self, stmt: LetStmt, lanes: Array) -> None:
        """A name for a value."""
        self.stmt = stmt
        self._bind(stmt.var, self.value(stmt.value, lanes), lanes)

    def iterations(self, stmt: For, lanes: Array) -> Iterator[Array]:
        """The threads that run each iteration, with the loop's variable bound."""
        self.stmt = stmt
        low, extent = self.value(stmt.min, lanes), self.value(stmt.extent, lanes)
        kind = stmt.loop_var.dtype.numpy.type
        if np.ndim(low) == 0 and np.ndim(extent) == 0:
            for k in range(int(extent)):
                self.env[stmt.loop_var] = kind(low + k)
                yield lanes
            return
        low, extent = (np.broadcast_to(part, lanes.shape) for part in (low, extent))
        for k in range(int(extent.max(initial=0))):
            here = k < extent
            self._bind(stmt.loop_var, (low[here] + k).astype(kind), lanes[here])
            yield lanes[here]

    def _branch(self, stmt: IfThenElse, lanes: Array) -> None:
        holds = self.holds(stmt, stmt.condition, lanes)
        self.run(stmt.then_case, lanes[holds])
        if stmt.else_case is not None:
            self.run(stmt.else_case, lanes[~holds])

    def holds(self, stmt: Stmt, condition: Expr, lanes: Array) -> Array:
        """In which of the threads a condition holds."""
        self.stmt = stmt
        return np.broadcast_to(np.asarray(self.value(condition, lanes), bool), lanes.shape)

    def _bind(self, var: Var, value: Any, lanes: Array) -> None:
        """A name means a value in these threads; what it means in others stays."""
        if np.ndim(value) == 0:
            self.env[var] = value
            return
        full = np.zeros((self.batch.size, *value.shape[1:]), value.dtype)
        before = self.env.get(var)
        if before is not None and np.shape(before) == full.shape:
            full[:] = before
        full[lanes] = value
        self.env[var] = full

    def _store(self, stmt: BufferStore, lanes: Array) -> None:
        self.stmt = stmt
        value = self.value(stmt.value, lanes)
        index = self._index(stmt.indices, lanes)
        if stmt.predicate is not None:
            self._store_some(stmt, lanes, index, value)
            return
        value = np.broadcast_to(_as_rows(value, index.ndim), index.shape)
        access = ThreadAccess(self.batch, lanes, index, stmt.buffer, stmt, stmt.indices[0])
        self._of(stmt.buffer).store(access, value)

    def _store_some(self, stmt: BufferStore, lanes: Array, index: Array, value: Any) -> None:
        """Store the elements of vectors that a predicate names."""
        wanted = np.broadcast_to(self.value(stmt.predicate, lanes), index.shape)  # type: ignore[arg-type]
        value = np.broadcast_to(_as_rows(value, index.ndim), index.shape)
        memory = self._of(stmt.buffer)
        for k in range(index.shape[1] if index.ndim == 2 else 1):
            column = (slice(None), k) if index.ndim == 2 else slice(None)
            here = wanted[column]
            access = ThreadAccess(self.batch, lanes[here], index[column][here], stmt.buffer, stmt)
            memory.store(access, value[column][here])

    def _index(self, indices: tuple[Expr, ...], lanes: Array) -> Array:
        """The place of an access for every thread."""
        if len(indices) != 1:
            what = f"not accesses with {len(indices)} indices"
            raise UnsupportedError(f"the emulator runs flat code, {what}", hint="lower it first")
        (index,) = indices
        value = np.asarray(exact_index(self, index, lanes), np.int64)
        return np.broadcast_to(value, (len(lanes), *value.shape[1:]))

    def _of(self, buffer: Buffer) -> Allocation:
        found = self.memory.get(buffer.data)
        if found is None:
            raise UnsupportedError(f"the emulator knows no memory for {buffer.name!r}")
        return found

    def allocate(self, stmt: Allocate, lanes: Array) -> None:
        """Memory that a kernel allocates: once, and empty each time."""
        known = self.memory.get(stmt.buffer_var)
        if known is not None:
            if not self.warps or known.writes is None:  # shared memory is there for all warps
                known.clear(lanes)
            return
        count = 1
        for extent in stmt.extents:
            count *= int(np.max(self.value(extent, lanes)))
        scope = "global" if stmt.buffer_var.pointee is None else stmt.buffer_var.pointee[1]
        size = -(-count * stmt.dtype.element.numpy.itemsize * stmt.dtype.lanes // 16) * 16
        shared, fragment = scope.startswith("shared"), scope.startswith("wmma.")
        if not shared and not fragment and scope != "local":
            raise UnsupportedError(f"the emulator has no {scope!r} memory in a kernel")
        rows, row_of = self.batch.size, self.everyone
        if shared:
            rows, row_of = len(self.batch.blocks), self.batch.block
        elif fragment:
            rows, row_of = len(self.batch.warp_passed), self.batch.warp
        self.kinds[stmt.buffer_var] = stmt.dtype
        unit = self.units.get(stmt.buffer_var, stmt.dtype.element.numpy.itemsize)
        self.memory[stmt.buffer_var] = Allocation(
            stmt.buffer_var.name,
            np.zeros((rows, size), np.uint8)[:, : count * stmt.dtype.element.numpy.itemsize],
            gcd(unit, max(1, count * stmt.dtype.element.numpy.itemsize)),
            row_of,
            starts_empty=self.starts_empty and not fragment,
            watched=shared,
            warps=self.batch.actors if self.warps else 0,
        )
        if self.batch.actors > self.batch.warps:
            self.memory[stmt.buffer_var].hide()

    # ------------------------------------------------------------------ values

    def value(self, expr: Expr, lanes: Array) -> Any:
        """The value of an expression in some of the threads."""
        match expr:
            case IntImm() | FloatImm():
                return expr.dtype.numpy.type(expr.value)
            case Var():
                found = self.env[expr]
                if np.ndim(found) == 0 or len(lanes) == self.batch.size:
                    return found
                return found[lanes]
            case BufferLoad():
                return self._load(expr, lanes)
            case And() | Or() if expr.dtype.lanes == 1:
                return self._both(expr, lanes)
            case Div() | Mod() if expr.dtype.is_int:
                return self._truncated(expr, lanes)
            case BinaryOp():
                return self._binary(expr, lanes)
            case Not():
                return np.logical_not(self.value(expr.a, lanes))
            case Cast():
                value = np.asarray(self.value(expr.value, lanes))
                if expr.value.dtype.is_float and expr.dtype.is_int:
                    return to_integers(value, expr.dtype.element)[()]
                return value.astype(expr.dtype.element.numpy)[()]
            case Select():
                return self._choice(expr.condition, expr.true_value, expr.false_value, lanes)
            case Ramp():
                base, step = self.value(expr.base, lanes), self.value(expr.stride, lanes)
                steps = np.arange(expr.dtype.lanes, dtype=expr.dtype.element.numpy)
                return np.reshape(base, (-1, 1)) + np.reshape(step, (-1, 1)) * steps
            case Broadcast():
                value = np.reshape(self.value(expr.value, lanes), (-1, 1))
                return np.broadcast_to(value, (len(value), expr.dtype.lanes))
            case Shuffle():
                return self._picked(expr, lanes)
            case Let():
                self._bind(expr.var, self.value(expr.value, lanes), lanes)
                return self.value(expr.body, lanes)
            case Call():
                return self._call(expr, lanes)
            case _:
                raise UnsupportedError(f"the emulator has no value for {expr}")

    def _load(self, expr: BufferLoad, lanes: Array) -> Any:
        index = self._index(expr.indices, lanes)
        memory, stmt = self._of(expr.buffer), self.stmt
        if stmt is None:
            raise UnsupportedError("a load outside of statements")
        if expr.predicate is None:
            access = ThreadAccess(self.batch, lanes, index, expr.buffer, stmt, expr.indices[0])
            return memory.load(access)
        wanted = np.broadcast_to(self.value(expr.predicate, lanes), index.shape)
        result = np.zeros(index.shape, expr.buffer.dtype.element.numpy)
        for k in range(index.shape[1] if index.ndim == 2 else 1):
            at = (slice(None), k) if index.ndim == 2 else slice(None)
            here = wanted[at]
            access = ThreadAccess(self.batch, lanes[here], index[at][here], expr.buffer, stmt)
            found = memory.load(access)
            result[(here, k) if index.ndim == 2 else here] = found
        return result

    def _binary(self, expr: BinaryOp, lanes: Array) -> Any:
        a, b = _together(self.value(expr.a, lanes), self.value(expr.b, lanes))
        if isinstance(expr, (And, Or)):
            return (np.logical_and if isinstance(expr, And) else np.logical_or)(a, b)
        function = np.divide if isinstance(expr, Div) else _BINARY.get(type(expr))
        if function is None:
            raise UnsupportedError(f"the emulator has no value for {expr}")
        result = np.asarray(function(a, b)).astype(expr.dtype.element.numpy, copy=False)
        if self.random is not None and isinstance(expr, Div):
            result = perturbed(self.random, "/", expr.dtype, [a, b], result)
        return result[()]

    def _truncated(self, expr: Div | Mod, lanes: Array) -> Any:
        a, b = _together(self.value(expr.a, lanes), self.value(expr.b, lanes))
        quotient = np.floor_divide(a, b)
        rest = a - quotient * b
        up = (rest != 0) & ((a < 0) != (b < 0)) & (b != 0)
        quotient = quotient + up.astype(quotient.dtype)
        result = quotient if isinstance(expr, Div) else np.where(b == 0, 0, a - quotient * b)
        return np.asarray(result).astype(expr.dtype.element.numpy, copy=False)[()]

    def _both(self, expr: And | Or, lanes: Array) -> Any:
        """The second part only where the first leaves it open: it may guard an access."""
        first = np.broadcast_to(np.asarray(self.value(expr.a, lanes), bool), lanes.shape)
        open_ = first if isinstance(expr, And) else ~first
        result = first.copy()
        if open_.any():
            result[open_] = self.value(expr.b, lanes[open_])
        return result

    def _choice(self, condition: Expr, yes: Expr, no: Expr, lanes: Array) -> Any:
        test = np.asarray(self.value(condition, lanes), bool)
        if test.ndim == 2:
            parts = _together(self.value(yes, lanes), self.value(no, lanes))
            return np.where(test, *parts)
        if test.ndim == 0:
            return self.value(yes if test else no, lanes)
        if test.all() or not test.any():
            return self.value(yes if test.all() else no, lanes)
        first, second = self.value(yes, lanes[test]), self.value(no, lanes[~test])
        shape = (len(lanes), *(np.shape(first)[1:] or np.shape(second)[1:]))
        result = np.zeros(shape, yes.dtype.element.numpy)
        result[test], result[~test] = first, second
        return result

    def _picked(self, expr: Shuffle, lanes: Array) -> Any:
        vectors = [
            np.broadcast_to(np.reshape(v, (-1, kind.lanes)), (len(lanes), kind.lanes))
            for v, kind in ((self.value(v, lanes), v.dtype) for v in expr.vectors)
        ]
        picked = np.concatenate(vectors, axis=1)[:, list(expr.indices)]
        return picked[:, 0] if len(expr.indices) == 1 else picked

    # ------------------------------------------------------------------ calls

    def _call(self, call: Call, lanes: Array) -> Any:
        if call.op == "tir.if_then_else":
            condition, yes, no = call.args
            return self._choice(condition, yes, no, lanes)
        if is_atomic(call):
            return run_atomic(self, call, lanes)
        if call.op == "tir.memory_fence":
            if self.batch.fences is not None and getattr(call.args[0], "value", "") != "block":
                self.batch.fences.fence(self.batch.number[lanes])
            return np.int32(0)
        together = WARP_CALLS.get(call.op)
        if together is not None:
            return together(self, call, lanes)
        if call.op in VALUES:
            return VALUES[call.op](self, call, lanes)
        if call.op == "tir.tvm_warp_activemask":
            return np.uint32(0xFFFFFFFF)
        function = get_op(call.op).evaluate
        if function is None:
            raise UnsupportedError(f"the emulator has no meaning for the call {call.op!r}")
        values = _together(*(self.value(arg, lanes) for arg in call.args))
        result = np.asarray(function(*values)).astype(call.dtype.element.numpy, copy=False)
        if self.random is not None:
            result = perturbed(self.random, call.op, call.dtype, values, result)
        return result[()]

    def _evaluate(self, value: Expr, lanes: Array) -> None:
        match value:
            case Call(_, "tir.tvm_storage_sync", (scope, *_)):
                self._barrier(self.check_scope(scope), lanes)
            case IntImm():
                pass
            case Call() if run_instruction(self, value, lanes):
                pass
            case _:
                self.value(value, lanes)

    @staticmethod
    def check_scope(scope: Expr) -> str:
        """The memory that a barrier orders."""
        if not isinstance(scope, StringImm) or scope.value not in BARRIER_SCOPES:
            raise UnsupportedError(f"no barrier orders {scope} memory within a kernel")
        return scope.value

    def _barrier(self, scope: str, lanes: Array) -> None:
        batch = self.batch
        by_warp = scope == "warp"
        group, passed = (batch.warp, batch.warp_passed) if by_warp else (batch.block, batch.passed)
        here = np.bincount(group[lanes], minlength=len(passed))
        whole = np.bincount(group, minlength=len(passed))
        if ((here != 0) & (here != whole)).any():
            first = int(np.nonzero((here != 0) & (here != whole))[0][0])
            absent = np.setdiff1d(np.nonzero(group == first)[0], lanes)
            raise KernelDefect(
                "divergent barrier",
                f"{here[first]} of {whole[first]} threads reach a barrier; these do not",
                self.stmt, batch.places(absent), self.stmt.span if self.stmt else None,
                hint="move the barrier out of the condition or the loop",
            )  # fmt: skip
        if by_warp:
            batch.pass_warps(np.flatnonzero(here))
        else:
            passed[here != 0] += 1
            if batch.fences is not None:
                batch.fences.pass_barrier(batch.blocks[here != 0])


def _as_rows(value: Any, rank: int) -> Any:
    """A value for every thread beside vectors of elements."""
    if rank == 2 and np.ndim(value) == 1:
        return np.reshape(value, (-1, 1))
    return value


def _together(*values: Any) -> list[Any]:
    """Values of single elements beside vectors."""
    rank = max((np.ndim(value) for value in values), default=0)
    return [_as_rows(value, rank) for value in values]
