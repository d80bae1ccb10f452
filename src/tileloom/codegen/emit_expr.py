"""Expressions to LLVM values.

Index arithmetic (subscripts, loop bounds) is done in 64 bits and assumed not to overflow, which is
what lets LLVM see strides; the same expression used as data wraps around in its own type, and so do
hashes of data that serve as indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llvmlite.ir as ir

from ..base import DType, dtype
from ..base.errors import InternalError, UnsupportedError
from ..expr import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    is_pure_op,
)
from ..expr.dot_ops import is_bare_dot
from ..tir import Buffer, BufferLoad
from ..tir.atomics import has_atomic
from . import arith, calls, memory
from .types import I32, I64, constant, element_bytes, lanes_of, register_type, splat

_INT64 = dtype("int64")
# A value already computed: an expression, as an index or not, and the mask it was loaded under.
_Key = tuple[Expr, bool, ir.Value | None]


class ExprEmitter:
    """Emits expressions at the builder's position; the base of `FunctionEmitter`."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder
        self.env: dict[Var, ir.Value] = {}
        self.non_negative: set[Var] = set()
        self.mask: ir.Value | None = None  # lanes in which a vector expression is wanted
        self.flags: tuple[str, ...] = arith.CONTRACT  # what may be done to roundings
        self._values: dict[_Key, ir.Value] = {}
        self._loads: dict[_Key, ir.Value] = {}
        self._made: list[_Key] = []  # the keys in both, in order: what a scope forgets

    # ------------------------------------------------------------------ scopes

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside are forgotten at the end: they do not dominate what follows."""
        start = len(self._made)
        try:
            yield
        finally:
            for key in self._made[start:]:
                self._values.pop(key, None)
                self._loads.pop(key, None)
            del self._made[start:]

    @contextmanager
    def bound(self, var: Var, value: ir.Value) -> Iterator[None]:
        """`var` means `value` inside, whatever it means elsewhere: copies of code share names."""
        before, tables = self.env.get(var), (self._values, self._loads, self._made)
        if before is not None:
            self._values, self._loads, self._made = {}, {}, []
        self.env[var] = value
        try:
            with self.scope():
                yield
        finally:
            if before is None:
                del self.env[var]
            else:
                self._values, self._loads, self._made = tables
                self.env[var] = before

    def forget_loads(self) -> None:
        """Memory may have changed: loaded values are not to be used again."""
        self._loads.clear()

    def _remember(self, expr: Expr, as_index: bool, emit: Callable[[], ir.Value]) -> ir.Value:
        loads = reads_memory(expr)
        key = (expr, as_index, self.mask if loads else None)
        known = (self._loads if loads else self._values).get(key)
        if known is None:
            known = emit()
            self._keep(key, loads, known)
        return known

    def _keep(self, key: _Key, loads: bool, value: ir.Value) -> None:
        (self._loads if loads else self._values)[key] = value
        self._made.append(key)

    # ------------------------------------------------------------------ values

    def alignment(self, buffer: Buffer, first: Expr) -> int:
        """The bytes of which the address of a vector's first element is known to be a multiple."""
        return element_bytes(buffer.dtype)

    def streamed(self, buffer: Buffer) -> int:
        """The bytes that vectors stored past the caches are aligned to; 0 where none are."""
        return 0

    def compute_capability(self) -> int:
        """Of the GPU that code is made for; 0 on a CPU."""
        return 0

    def value(self, expr: Expr) -> ir.Value:
        """The value in the expression's own type."""
        match expr:
            case Var():
                return self.lookup(expr)
            case IntImm(kind, number) | FloatImm(kind, number):
                return constant(kind, number)
        loads = reads_memory(expr)  # not `_remember`: expressions are deep, and Python's stack not
        key = (expr, False, self.mask if loads else None)
        known = (self._loads if loads else self._values).get(key)
        if known is None:
            known = self._emit(expr)
            if not has_atomic(expr):  # which counts as often as it is written
                self._keep(key, loads, known)
        return known

    def check_call(self, number: ir.Value) -> None:
        """What a function that was called says went wrong is for statements to hand on."""
        raise InternalError("a function is called where none can be left")

    def lookup(self, var: Var) -> ir.Value:
        """The value bound to a variable."""
        found = self.env.get(var)
        if found is None:
            raise InternalError(f"variable {var.name!r} is used outside its scope")
        if var.dtype.is_int and found.type != register_type(var.dtype):
            narrow = register_type(var.dtype)  # a loop variable
            return self._remember(var, False, lambda: self.builder.trunc(found, narrow))
        return found

    def _emit(self, expr: Expr) -> ir.Value:
        b = self.builder
        match expr:
            case BufferLoad():
                return memory.load(self, expr)
            case And() | Or() if expr.dtype.lanes == 1 and reads_memory(expr.b):
                return self._guarded(expr)
            case Add(x, Call() as term) if is_bare_dot(term):
                return self.value(term.with_children((x, *term.args[1:])))
            case BinaryOp(x, y):
                values = self.value(x), self.value(y)
                return arith.binary(b, type(expr), x.dtype, *values, self.flags)
            case Not(x):
                return b.not_(self.value(x))
            case Cast(kind, x):
                return arith.cast(b, self.value(x), x.dtype, kind)
            case Select(condition, yes, no):
                return self._select(condition, yes, no)
            case Call():
                return calls.emit_call(self, expr)
            case Broadcast(x, lanes):
                return self._broadcast(x, lanes)
            case Ramp():
                return self._ramp(expr)
            case Shuffle():
                return self._shuffle(expr)
            case Let(var, bound, body):
                with self.bound(var, self.value(bound)):
                    return self.value(body)
            case _:
                raise UnsupportedError(f"no CPU code for {type(expr).__name__}: {expr}")

    def _select(self, condition: Expr, yes: Expr, no: Expr) -> ir.Value:
        """Both sides are there for the taking, unless a single condition may guard a load."""
        if condition.dtype.lanes == 1 and (reads_memory(yes) or reads_memory(no)):
            return self.where(condition, yes, no)
        return self.builder.select(self.value(condition), self.value(yes), self.value(no))

    def _broadcast(self, x: Expr, lanes: int) -> ir.Value:
        if x.dtype.lanes == 1:
            return splat(self.builder, self.value(x), lanes)
        value, n = self.value(x), x.dtype.lanes
        picks = ir.Constant(ir.VectorType(I32, n * lanes), list(range(n)) * lanes)
        return self.builder.shuffle_vector(value, value, picks)

    def _ramp(self, expr: Ramp) -> ir.Value:
        if expr.base.dtype.lanes != 1:
            raise UnsupportedError(f"no CPU code for a ramp of vectors: {expr}")
        b, lanes, kind = self.builder, expr.lanes, register_type(expr.base.dtype)
        base = splat(b, self.value(expr.base), lanes)
        if isinstance(expr.stride, IntImm):
            step = expr.stride.value
            return b.add(
                base, ir.Constant(ir.VectorType(kind, lanes), [step * i for i in range(lanes)])
            )
        iota = ir.Constant(ir.VectorType(kind, lanes), list(range(lanes)))
        return b.add(base, b.mul(splat(b, self.value(expr.stride), lanes), iota))

    def _shuffle(self, expr: Shuffle) -> ir.Value:
        b = self.builder
        if len(expr.indices) == 1:
            vector, at = expr.vectors[0], expr.indices[0]
            for vector in expr.vectors:
                if at < vector.dtype.lanes:
                    break
                at -= vector.dtype.lanes
            value = self.value(vector)
            return value if lanes_of(value) == 1 else b.extract_element(value, I32(at))
        if all(v.dtype.lanes == 1 for v in expr.vectors):
            result = ir.Constant(register_type(expr.dtype), ir.Undefined)
            for lane, pick in enumerate(expr.indices):
                result = b.insert_element(result, self.value(expr.vectors[pick]), I32(lane))
            return result
        if len(expr.vectors) > 2 or expr.vectors[0].dtype is not expr.vectors[-1].dtype:
            raise UnsupportedError(f"no CPU code for a shuffle of these vectors: {expr}")
        first, last = self.value(expr.vectors[0]), self.value(expr.vectors[-1])
        picks = ir.Constant(ir.VectorType(I32, len(expr.indices)), list(expr.indices))
        return b.shuffle_vector(first, last, picks)

    # ------------------------------------------------------------------ indices

    def index(self, expr: Expr) -> ir.Value:
        """A scalar integer as `i64`, computed without wrapping."""
        match expr:
            case IntImm(_, number):
                return I64(number)
            case Var():
                return self.lookup64(expr)
            case FloorDiv(x) | FloorMod(x) if reads_memory(x):
                # Hashes of data wrap in their own type before they are reduced.
                return self._remember(expr, True, lambda: self._widen(expr))
            case Add() | Sub() | Mul() | FloorDiv() | FloorMod():
                return self._remember(
                    expr, True, lambda: self.index_operation(expr, self.index, _INT64)
                )
            case Cast(kind, x) if _keeps_value(x.dtype, kind):
                return self.index(x)
            case _:
                return self._remember(expr, True, lambda: self._widen(expr))

    def lookup64(self, var: Var) -> ir.Value:
        """A variable's value as `i64`."""
        found = self.env.get(var)
        if found is None:
            raise InternalError(f"variable {var.name!r} is used outside its scope")
        return found if found.type == I64 else self._remember(var, True, lambda: self._widen(var))

    def _widen(self, expr: Expr) -> ir.Value:
        value = self.value(expr)
        if value.type == I64:
            return value
        extend = self.builder.zext if expr.dtype.code != "int" else self.builder.sext
        return extend(value, I64)

    def index_operation(
        self, expr: BinaryOp, operand: Callable[[Expr], ir.Value], kind: DType
    ) -> ir.Value:
        """An operation of indices in a type in which they do not overflow."""
        b, x, y = self.builder, operand(expr.a), operand(expr.b)
        match expr:
            case Add():
                return b.add(x, y, flags=("nsw",))
            case Sub():
                return b.sub(x, y, flags=("nsw",))
            case Mul():
                return b.mul(x, y, flags=("nsw",))
        positive = isinstance(expr.b, IntImm) and expr.b.value > 0
        if positive and self.is_non_negative(expr.a):
            return b.udiv(x, y) if isinstance(expr, FloorDiv) else b.urem(x, y)
        return arith.binary(b, type(expr), kind, x, y)

    def is_non_negative(self, expr: Expr) -> bool:
        """Whether an index is known not to be negative."""
        match expr:
            case IntImm(_, number):
                return number >= 0
            case Var():
                return expr in self.non_negative
            case Add(x, y) | Mul(x, y):
                return self.is_non_negative(x) and self.is_non_negative(y)
            case FloorDiv(x, IntImm(_, number)):
                return number > 0 and self.is_non_negative(x)
            case FloorMod(_, IntImm(_, number)):
                return number > 0
            case _:
                return expr.dtype.is_unsigned

    # ------------------------------------------------------------------ conditions

    def where(self, condition: Expr, yes: Expr, no: Expr) -> ir.Value:
        """`yes` or `no`, each evaluated only where it is wanted."""
        if condition.dtype.lanes > 1:
            return self._where_lanes(condition, yes, no)
        if is_cheap(yes) and is_cheap(no):
            return self._select(condition, yes, no)
        b = self.builder
        test = self.value(condition)
        with b.if_else(test) as (then, otherwise):
            with then, self.scope():
                first = self.value(yes)
                from_then = b.block
            with otherwise, self.scope():
                second = self.value(no)
                from_else = b.block
        phi = b.phi(first.type)
        phi.add_incoming(first, from_then)
        phi.add_incoming(second, from_else)
        return phi

    def _where_lanes(self, condition: Expr, yes: Expr, no: Expr) -> ir.Value:
        b, outer = self.builder, self.mask
        test = self.value(condition)
        sides = []
        for side, lanes in ((yes, test), (no, b.not_(test))):
            if reads_memory(side):
                self.mask = lanes if outer is None else b.and_(outer, lanes)
                sides.append(self.value(side))
                self.mask = outer
            else:
                sides.append(self.value(side))
        return b.select(test, *sides)

    def _guarded(self, expr: And | Or) -> ir.Value:
        """`and` or `or` of scalars whose second part may fault where the first decides."""
        if isinstance(expr, And):
            return self.where(expr.a, expr.b, IntImm("bool", 0))
        return self.where(expr.a, IntImm("bool", 1), expr.b)


def _keeps_value(source: DType, target: DType) -> bool:
    """Whether a cast between integer types never changes a value."""
    if not (source.is_int and target.is_int):
        return False
    if source.is_unsigned == target.is_unsigned:
        return target.bits >= source.bits
    return source.is_unsigned and target.bits > source.bits


def reads_memory(expr: Expr) -> bool:
    """Whether the value depends on memory, or may (memoised)."""
    known = expr.memo.get("reads_memory")
    if known is None:
        known = isinstance(expr, BufferLoad) or any(map(reads_memory, expr.children))
        if isinstance(expr, Call) and not is_pure_op(expr.op):
            known = True
        expr.memo["reads_memory"] = known
    return bool(known)


def is_cheap(expr: Expr) -> bool:
    """Whether evaluating it in vain costs little and cannot fault (memoised)."""
    known = expr.memo.get("is_cheap")
    if known is None:
        known = not isinstance(expr, (Call, BufferLoad, Let)) and all(map(is_cheap, expr.children))
        expr.memo["is_cheap"] = known
    return bool(known)
