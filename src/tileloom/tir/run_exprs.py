"""Expressions as Python source for the interpreter.

Scalar integers are Python ints, wrapped where an interval analysis cannot rule overflow out; scalar
floats are NumPy scalars, which round after every operation; vectors are NumPy arrays.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import DType
from ..base.dtype import wrap_int
from ..base.errors import UnsupportedError, VerifyError
from ..expr import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
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
    trunc_div,
)
from ..expr.ops import find_op
from . import run_support as support
from .nodes import Buffer, BufferLoad

_DEEPEST = 40  # nested parentheses in one Python expression; the parser allows about 200


@dataclass(frozen=True, slots=True)
class Val:
    """Python source of a value; for scalar integers an interval that holds it."""

    code: str
    lo: int = 0
    hi: int = 0
    depth: int = 0
    extent: Expr | None = None  # the value is below this expression, whatever that is


@dataclass(slots=True)
class View:
    """A buffer in scope: the Python name of its array, and of its shape and mask of writes."""

    name: str
    shape: tuple[str, ...]
    written: str | None


def int_range(kind: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type or bool."""
    if kind.is_bool:
        return 0, 1
    if kind.code == "int":
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, (1 << kind.bits) - 1


class ExprCompiler:
    """Turns expressions into Python source in the scope that statements set up."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.lines: list[str] = []
        self.indent = 1
        self.globals: dict[str, Any] = dict(support.HELPERS)
        self.vars: dict[Var, Val] = {}
        self.views: dict[Buffer, View] = {}
        self._count = 0
        self._constants: dict[Any, str] = {}

    # ------------------------------------------------------------------ source

    def emit(self, line: str) -> None:
        self.lines.append(" " * self.indent + line)

    def fresh(self, name: str) -> str:
        self._count += 1
        return f"{re.sub(r'[^A-Za-z0-9]', '_', name)}_{self._count}"

    def constant(self, value: Any, key: Any = None) -> str:
        """The global name of a value that the source refers to."""
        found = self._constants.get(key) if key is not None else None
        if found is None:
            found = f"_c{len(self.globals)}"
            self.globals[found] = value
            if key is not None:
                self._constants[key] = found
        return found

    def compile(self, expr: Expr) -> Val:
        """The source of an expression's value."""
        kind = type(expr)
        rule = _RULES.get(kind) or next((_RULES[k] for k in kind.__mro__ if k in _RULES), None)
        if rule is None:
            raise UnsupportedError(f"the interpreter does not know {kind.__name__}: {expr}")
        value: Val = rule(self, expr)
        if value.depth > _DEEPEST:
            return self.outline(value)
        return value

    def outline(self, value: Val) -> Val:
        """The same value through a local function: its text has grown too deep to be parsed."""
        name = self.fresh("_part")
        self.emit(f"def {name}(): return {value.code}")
        return Val(f"{name}()", value.lo, value.hi)

    def wrap(self, code: str, lo: int, hi: int, kind: DType, depth: int) -> Val:
        """An integer result reduced to its type, if it can leave it."""
        low, high = int_range(kind)
        if kind.is_bool:
            return Val(f"({code} != 0)", 0, 1, depth + 1)
        if low <= lo and hi <= high:
            return Val(code, lo, hi, depth)
        mask = (1 << kind.bits) - 1
        if low == 0:
            return Val(f"({code} & {mask})", low, high, depth + 1)
        return Val(f"(({code} + {-low} & {mask}) - {-low})", low, high, depth + 2)

    def typed(self, kind: DType, code: str) -> str:
        """`code` as a NumPy scalar, for functions that want one."""
        if kind.lanes > 1 or kind.is_float:
            return code
        return f"{self.constant(kind.numpy.type, kind.numpy)}({code})"

    # ------------------------------------------------------------------ access

    def view(self, buffer: Buffer) -> View:
        found = self.views.get(buffer)
        if found is None:
            raise VerifyError(f"buffer {buffer.name!r} is used where it has no memory")
        return found

    def index(self, buffer: Buffer, axis: int, expr: Expr, view: View) -> Val:
        """One scalar index, checked unless it is known to be inside."""
        value, extent = self.compile(expr), buffer.shape[axis]
        inside = value.lo >= 0 and (
            value.extent is extent or (isinstance(extent, IntImm) and value.hi < extent.value)
        )
        if inside:
            return value
        name, bound = self.fresh("_i"), view.shape[axis]
        error = f"_oob({buffer.name!r}, {axis}, {name}, {bound})"
        code = f"({name} if 0 <= ({name} := {value.code}) < {bound} else {error})"
        return Val(code, depth=value.depth + 2)

    def indices(self, buffer: Buffer, exprs: tuple[Expr, ...], view: View) -> tuple[str, int]:
        if len(exprs) != buffer.ndim:
            raise VerifyError(
                f"buffer {buffer.name!r} has {buffer.ndim} dimensions, got {len(exprs)} indices"
            )
        parts = [self.index(buffer, axis, e, view) for axis, e in enumerate(exprs)]
        depth = max((part.depth for part in parts), default=0) + 1
        return ", ".join(part.code for part in parts), depth

    def vector_indices(self, exprs: tuple[Expr, ...]) -> str:
        return "(" + "".join(self.compile(e).code + ", " for e in exprs) + ")"

    def load(self, expr: BufferLoad) -> Val:
        buffer, view = expr.buffer, self.view(expr.buffer)
        kind = buffer.dtype
        if expr.dtype.lanes > kind.lanes or expr.predicate is not None:
            return self.vector_load(expr, view)
        code, depth = self.indices(buffer, expr.indices, view)
        access = f"{view.name}[{code or '()'}]"
        if view.written is not None:
            error = f"_uninitialised({buffer.name!r}, ({code}{',' * bool(code)}))"
            access = f"({access} if {view.written}[{code or '()'}] else {error})"
        if kind.lanes > 1:
            copied = self.constant(support.wrap_lanes) + f"({access}, {self.dtype(kind)})"
            return Val(f"{copied}.copy()", depth=depth + 2)
        if kind.is_float:
            return Val(access, depth=depth)
        if kind.is_bool:
            return Val(f"bool({access})", 0, 1, depth + 1)
        return Val(f"int({access})", *int_range(kind), depth + 1)

    def dtype(self, kind: DType) -> str:
        return self.constant(kind, kind)

    def vector_load(self, expr: BufferLoad, view: View) -> Val:
        mask = "None" if expr.predicate is None else self.compile(expr.predicate).code
        if len(expr.indices) != expr.buffer.ndim:
            raise VerifyError(f"wrong number of indices for buffer {expr.buffer.name!r}")
        where = self.vector_indices(expr.indices)
        name = expr.buffer.name
        code = f"_gather({view.name}, {name!r}, {where}, {mask}, {view.written})"
        if expr.dtype.is_int and expr.dtype.bits < 8:
            code = f"{self.constant(support.wrap_lanes)}({code}, {self.dtype(expr.dtype)})"
        return Val(code, depth=4)

    # ------------------------------------------------------------------ rules

    def variable(self, expr: Var) -> Val:
        found = self.vars.get(expr)
        if found is None:
            raise VerifyError(f"variable {expr.name!r} is used where it has no value")
        return found

    def integer(self, expr: IntImm) -> Val:
        code = str(bool(expr.value)) if expr.dtype.is_bool else str(expr.value)
        return Val(f"({code})" if expr.value < 0 else code, expr.value, expr.value)

    def floating(self, expr: FloatImm) -> Val:
        with np.errstate(all="ignore"):
            return Val(self.constant(expr.dtype.numpy.type(expr.value), expr))

    def binary(self, expr: BinaryOp) -> Val:
        a, b = self.compile(expr.a), self.compile(expr.b)
        kind, depth = expr.a.dtype, max(a.depth, b.depth) + 1
        if isinstance(expr, CompareOp):
            if kind.lanes > 1 and isinstance(expr, (And, Or)):
                return Val(
                    f"({a.code} {'&' if isinstance(expr, And) else '|'} {b.code})", 0, 1, depth
                )
            return Val(f"({a.code} {expr.symbol} {b.code})", 0, 1, depth)
        if kind.lanes > 1:
            return self.vector_binary(expr, a, b, depth)
        if kind.is_float:
            return self.float_binary(expr, a, b, depth)
        return _INT_RULES[type(expr)](self, kind, a, b, depth)

    def float_binary(self, expr: BinaryOp, a: Val, b: Val, depth: int) -> Val:
        kind = expr.dtype
        if isinstance(expr, (Add, Sub, Mul, Div)):
            return Val(f"({a.code} {expr.symbol} {b.code})", depth=depth)
        if isinstance(expr, (Min, Max)):
            name = "_fmin" if isinstance(expr, Min) else "_fmax"
            return Val(f"{name}({a.code}, {b.code})", depth=depth)
        function = support.float_function(_FLOAT_FUNCTIONS[type(expr)], kind)
        return Val(f"{self.constant(function)}({a.code}, {b.code})", depth=depth)

    def vector_binary(self, expr: BinaryOp, a: Val, b: Val, depth: int) -> Val:
        kind, op = expr.dtype, type(expr)
        if isinstance(expr, (Add, Sub, Mul)) or (isinstance(expr, Div) and kind.is_float):
            code = f"({a.code} {expr.symbol} {b.code})"
            if kind.is_int and kind.bits < 8:
                code = f"{self.constant(support.wrap_lanes)}({code}, {self.dtype(kind)})"
            return Val(code, depth=depth + 1)
        if isinstance(expr, (Min, Max)):
            name = "minimum" if isinstance(expr, Min) else "maximum"
            return Val(f"np.{name}({a.code}, {b.code})", depth=depth)
        if kind.is_float:
            function = support.map_lanes(
                support.float_function(_FLOAT_FUNCTIONS[op], kind.element), kind
            )
        else:
            function = support.divide_lanes(_INT_DIVISIONS[op], kind)
        return Val(f"{self.constant(function)}({a.code}, {b.code})", depth=depth)

    def negation(self, expr: Not) -> Val:
        a = self.compile(expr.a)
        symbol = "not " if expr.dtype.lanes == 1 else "~"
        return Val(f"({symbol}{a.code})", 0, 1, a.depth + 1)

    def cast(self, expr: Cast) -> Val:
        value, source, target = self.compile(expr.value), expr.value.dtype, expr.dtype
        depth = value.depth + 1
        if target.lanes > 1:
            function = support.cast_lanes(source, target)
            return Val(f"{self.constant(function)}({value.code})", depth=depth)
        if target.is_bool:
            return Val(f"({value.code} != 0)", 0, 1, depth)
        if target.is_float:
            wide = not source.is_float and max(-value.lo, value.hi) > 1 << 53
            convert = support.to_float(target) if wide else target.numpy.type
            key = ("to_float", target) if wide else target.numpy
            return Val(f"{self.constant(convert, key)}({value.code})", depth=depth)
        if source.is_float:
            name = self.constant(support.to_int(target), ("to_int", target))
            return Val(f"{name}({value.code})", *int_range(target), depth)
        code = f"int({value.code})" if source.is_bool else value.code
        result = self.wrap(code, value.lo, value.hi, target, depth)
        if result.code == value.code:
            return value  # still below the same extent
        return result

    def choice(self, condition: Expr, yes: Expr, no: Expr) -> Val:
        c, a, b = self.compile(condition), self.compile(yes), self.compile(no)
        depth = max(c.depth, a.depth, b.depth) + 1
        if condition.dtype.lanes > 1:
            return Val(f"np.where({c.code}, {a.code}, {b.code})", depth=depth)
        lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
        return Val(f"({a.code} if {c.code} else {b.code})", lo, hi, depth)

    def ramp(self, expr: Ramp) -> Val:
        base, stride = self.compile(expr.base), self.compile(expr.stride)
        name = self.constant(support.ramp(expr.lanes, expr.dtype), ("ramp", expr.lanes, expr.dtype))
        depth = max(base.depth, stride.depth) + 1
        return Val(f"{name}({base.code}, {stride.code})", depth=depth)

    def broadcast(self, expr: Broadcast) -> Val:
        value = self.compile(expr.value)
        function = support.broadcast(expr.lanes, expr.dtype)
        if isinstance(expr.value, (IntImm, FloatImm)):
            with np.errstate(all="ignore"):
                return Val(self.constant(function(expr.value.value), expr))
        name = self.constant(function, ("broadcast", expr.lanes, expr.dtype))
        return Val(f"{name}({value.code})", depth=value.depth + 1)

    def shuffle(self, expr: Shuffle) -> Val:
        parts = [self.compile(vector) for vector in expr.vectors]
        name = self.constant(support.shuffle(expr.indices, expr.dtype))
        depth = max(part.depth for part in parts) + 1
        code = f"{name}({', '.join(part.code for part in parts)})"
        return Val(code, *_default_range(expr.dtype), depth)

    def let(self, expr: Let) -> Val:
        value = self.compile(expr.value)
        # A cell and not a local: the body may be outlined into a function of its own.
        cell = self.fresh(expr.var.name)
        self.emit(f"{cell} = [None]")
        before = self.vars.get(expr.var)
        self.vars[expr.var] = Val(f"{cell}[0]", value.lo, value.hi)
        body = self.compile(expr.body)
        if before is not None:
            self.vars[expr.var] = before
        code = f"({cell}.__setitem__(0, {value.code}), {body.code})[1]"
        return Val(code, body.lo, body.hi, max(value.depth, body.depth) + 2)

    # ------------------------------------------------------------------ calls

    def call(self, expr: Call) -> Val:
        if expr.op == "tir.if_then_else":
            return self.choice(*expr.args)
        if expr.op == "tir.likely":
            return self.compile(expr.args[0])
        op = find_op(expr.op)
        if expr.op != "tir.reinterpret" and (op is None or op.evaluate is None):
            raise UnsupportedError(f"the interpreter has no meaning for the call {expr.op!r}")
        args = [self.compile(arg) for arg in expr.args]
        depth = max((arg.depth for arg in args), default=0) + 2
        kind = expr.dtype
        if expr.op == "tir.reinterpret":
            name = self.constant(support.reinterpret(expr.args[0].dtype, kind))
            return Val(f"{name}({args[0].code})", *_default_range(kind), depth)
        simple = _INT_CALLS.get(expr.op) if kind.is_int and kind.lanes == 1 else None
        if simple is not None:
            whole = int_range(kind)
            code = f"({simple.format(*(arg.code for arg in args))})"
            if expr.op in _NEVER_OVERFLOWS:
                return Val(code, *whole, depth)
            return self.wrap(code, whole[0] - 1, whole[1] + 1, kind, depth)
        return self.general_call(expr, args, depth)

    def general_call(self, expr: Call, args: list[Val], depth: int) -> Val:
        """A call through the registry's own evaluation."""
        kind = expr.dtype
        op = find_op(expr.op)
        key = ("call", expr.op, kind, *(arg.dtype for arg in expr.args))
        name = self._constants.get(key)
        if name is None and op is not None and op.evaluate is not None:
            name = self.constant(_lane_call(op.evaluate, expr), key)
        typed = (self.typed(e.dtype, arg.code) for e, arg in zip(expr.args, args, strict=True))
        return Val(f"{name}({', '.join(typed)})", *_default_range(kind), depth)


def _lane_call(evaluate: Callable[..., Any], expr: Call) -> Callable[..., Any]:
    """The evaluation function with arguments and result in the interpreter's representation."""
    kind = expr.dtype
    scalar = kind.numpy.type
    # ml_dtypes knows arithmetic, but not every function of NumPy.
    wide = any(arg.dtype.element.numpy.kind == "V" for arg in expr.args)

    def run(*args: Any) -> Any:
        if wide:
            args = tuple(np.asarray(a, np.float64)[()] for a in args)
        value = evaluate(*args)
        if kind.lanes > 1:
            return support.wrap_lanes(np.asarray(value), kind)
        if kind.is_bool:
            return bool(value)
        return scalar(value) if kind.is_float else wrap_int(int(value), kind)

    return run


def _default_range(kind: DType) -> tuple[int, int]:
    return int_range(kind) if (kind.is_int or kind.is_bool) and kind.lanes == 1 else (0, 0)


# ---------------------------------------------------------------------------- integers


def _corners(function: Callable[[int, int], int], a: Val, b: Val) -> tuple[int, int]:
    values = [function(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return min(values), max(values)


def _plain(symbol: str, function: Callable[[int, int], int]) -> Callable[..., Val]:
    def rule(self: ExprCompiler, kind: DType, a: Val, b: Val, depth: int) -> Val:
        lo, hi = _corners(function, a, b)
        return self.wrap(f"({a.code} {symbol} {b.code})", lo, hi, kind, depth)

    return rule


def _extreme(name: str, function: Callable[..., int]) -> Callable[..., Val]:
    def rule(self: ExprCompiler, kind: DType, a: Val, b: Val, depth: int) -> Val:
        lo, hi = function(a.lo, b.lo), function(a.hi, b.hi)
        return Val(f"{name}({a.code}, {b.code})", lo, hi, depth)

    return rule


def _quotient(truncated: bool) -> Callable[..., Val]:
    def rule(self: ExprCompiler, kind: DType, a: Val, b: Val, depth: int) -> Val:
        floor = f"({a.code} // {b.code})"
        if b.lo > 0 and (a.lo >= 0 or not truncated):
            return Val(floor, *_corners(operator.floordiv, a, b), depth)
        code = f"_tdiv({a.code}, {b.code})" if truncated else floor
        low, high = int_range(kind)
        return self.wrap(code, low, high + (a.lo == low), kind, depth)  # -min / -1 overflows

    return rule


def _remainder(truncated: bool) -> Callable[..., Val]:
    def rule(self: ExprCompiler, kind: DType, a: Val, b: Val, depth: int) -> Val:
        floor = f"({a.code} % {b.code})"
        if b.lo > 0 and (a.lo >= 0 or not truncated):
            return Val(floor, 0, min(b.hi - 1, a.hi) if a.lo >= 0 else b.hi - 1, depth)
        code = f"_tmod({a.code}, {b.code})" if truncated else floor
        return Val(code, *int_range(kind), depth)

    return rule


_INT_RULES: dict[type[Expr], Callable[..., Val]] = {
    Add: _plain("+", operator.add),
    Sub: _plain("-", operator.sub),
    Mul: _plain("*", operator.mul),
    Div: _quotient(True),
    FloorDiv: _quotient(False),
    Mod: _remainder(True),
    FloorMod: _remainder(False),
    Min: _extreme("min", min),
    Max: _extreme("max", max),
}
_INT_DIVISIONS: dict[type[Expr], Callable[[int, int], int]] = {
    Div: trunc_div,
    Mod: support.truncated_mod,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
}
_FLOAT_FUNCTIONS: dict[type[Expr], Any] = {
    Mod: np.fmod,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
}
_INT_CALLS = {
    "tir.bitwise_and": "{} & {}",
    "tir.bitwise_or": "{} | {}",
    "tir.bitwise_xor": "{} ^ {}",
    "tir.bitwise_not": "~{}",
    "tir.shift_left": "_shl({}, {})",
    "tir.shift_right": "{} >> {}",
    "tir.abs": "abs({})",
    "tir.pow": "{} ** {}",
}
_NEVER_OVERFLOWS = {"tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor", "tir.shift_right"}
_RULES: dict[type[Any], Callable[[Any, Any], Val]] = {
    Var: ExprCompiler.variable,
    IntImm: ExprCompiler.integer,
    FloatImm: ExprCompiler.floating,
    StringImm: lambda self, expr: Val(repr(expr.value)),
    BinaryOp: ExprCompiler.binary,
    Not: ExprCompiler.negation,
    Cast: ExprCompiler.cast,
    Select: lambda self, e: self.choice(e.condition, e.true_value, e.false_value),
    Ramp: ExprCompiler.ramp,
    Broadcast: ExprCompiler.broadcast,
    Shuffle: ExprCompiler.shuffle,
    Let: ExprCompiler.let,
    Call: ExprCompiler.call,
    BufferLoad: ExprCompiler.load,
}
