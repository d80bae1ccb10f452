"""Expressions as Python source for the interpreter.

Scalar integers are Python ints, wrapped where an interval analysis cannot rule overflow out; scalar
floats are NumPy scalars, which round after every operation; vectors are NumPy arrays.
"""

from __future__ import annotations

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
    post_order,
)
from ..expr.bounds import type_range
from ..expr.effects import CALL_FUNCTION
from ..expr.ops import find_op
from ..expr.tile_ops import TILE_CALLS
from . import run_support as support
from .atomics import atomic_place, atomic_values, has_atomic, is_atomic
from .nodes import Buffer, BufferLoad
from .run_ints import INT_CALLS, INT_DIVISIONS, INT_RULES, NEVER_OVERFLOWS, ValueCode, wrap
from .tile_registers import TileRegisters
from .warps import FENCE, is_warp_call

_LARGEST = 400  # nodes of an expression written out as a tree, beyond which parts are shared
_DEEPEST = 40  # nested parentheses in one Python expression; the parser allows about 200


@dataclass(slots=True)
class View:
    """A buffer in scope: the Python name of its array, and of its shape and mask of writes."""

    name: str
    shape: tuple[str, ...]
    written: str | None


class ExprCompiler:
    """Turns expressions into Python source in the scope that statements set up."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.lines: list[str] = []
        self.indent = 1
        self.globals: dict[str, Any] = dict(support.HELPERS)
        self.vars: dict[Var, ValueCode] = {}
        self.views: dict[Buffer, View] = {}
        self._count = 0
        self._constants: dict[Any, str] = {}
        self._shared: dict[Expr, ValueCode | None] = {}  # parts to evaluate once, and their source

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

    def whole(self, expr: Expr) -> ValueCode:
        """The source of an expression that is evaluated once each time its statement runs.

        As a tree, an expression can be exponentially larger than it is with its parts shared.
        """
        if _tree_size(expr) <= _LARGEST:
            return self.compile(expr)
        self._shared = dict.fromkeys(_shared_parts(expr))
        value = self.compile(expr)
        self._shared = {}
        return value

    def compile(self, expr: Expr) -> ValueCode:
        """The source of an expression's value."""
        if expr not in self._shared:
            return self.compile_node(expr)
        known = self._shared[expr]
        if known is None:
            known = self._shared[expr] = self.once(self.compile_node(expr))
        return known

    def once(self, value: ValueCode) -> ValueCode:
        """The same value through a local function that keeps it; evaluated only if it is needed."""
        name = self.fresh("_part")
        cell = f"{name}_kept"
        self.emit(f"{cell} = []")
        self.emit(f"def {name}():")
        self.emit(f" if not {cell}: {cell}.append({value.code})")
        self.emit(f" return {cell}[0]")
        return ValueCode(f"{name}()", value.lo, value.hi)

    def compile_node(self, expr: Expr) -> ValueCode:
        """The source of one node over that of its parts."""
        kind = type(expr)
        rule = _RULES.get(kind) or next((_RULES[k] for k in kind.__mro__ if k in _RULES), None)
        if rule is None:
            raise UnsupportedError(f"the interpreter does not know {kind.__name__}: {expr}")
        value: ValueCode = rule(self, expr)
        if value.depth > _DEEPEST:
            return self.outline(value)
        return value

    def outline(self, value: ValueCode) -> ValueCode:
        """The same value through a local function: its text has grown too deep to be parsed."""
        name = self.fresh("_part")
        self.emit(f"def {name}(): return {value.code}")
        return ValueCode(f"{name}()", value.lo, value.hi)

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

    def index(self, buffer: Buffer, axis: int, expr: Expr, view: View) -> ValueCode:
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
        return ValueCode(code, depth=value.depth + 2)

    def indices(self, buffer: Buffer, exprs: tuple[Expr, ...], view: View) -> tuple[str, int]:
        if len(exprs) != buffer.ndim:
            raise VerifyError(
                f"buffer {buffer.name!r} has {buffer.ndim} dimensions, got {len(exprs)} indices"
            )
        parts = [self.index(buffer, axis, e, view) for axis, e in enumerate(exprs)]
        depth = max((part.depth for part in parts), default=0) + 1
        return ", ".join(part.code for part in parts), depth

    def vector_indices(self, exprs: tuple[Expr, ...]) -> ValueCode:
        """A tuple of indices that may be vectors; whoever uses it checks them."""
        parts = [self.compile(e) for e in exprs]
        depth = max((part.depth for part in parts), default=0) + 1
        return ValueCode("(" + "".join(f"{part.code}, " for part in parts) + ")", depth=depth)

    def load(self, expr: BufferLoad) -> ValueCode:
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
            return ValueCode(f"{copied}.copy()", depth=depth + 2)
        if kind.is_float:
            return ValueCode(access, depth=depth)
        if kind.is_bool:
            return ValueCode(f"bool({access})", 0, 1, depth + 1)
        return ValueCode(f"int({access})", *type_range(kind), depth + 1)

    def dtype(self, kind: DType) -> str:
        return self.constant(kind, kind)

    def vector_load(self, expr: BufferLoad, view: View) -> ValueCode:
        mask = ValueCode("None") if expr.predicate is None else self.compile(expr.predicate)
        if len(expr.indices) != expr.buffer.ndim:
            raise VerifyError(f"wrong number of indices for buffer {expr.buffer.name!r}")
        where = self.vector_indices(expr.indices)
        name = expr.buffer.name
        code = f"_gather({view.name}, {name!r}, {where.code}, {mask.code}, {view.written})"
        if expr.dtype.is_int and expr.dtype.bits < 8:
            code = f"{self.constant(support.wrap_lanes)}({code}, {self.dtype(expr.dtype)})"
        return ValueCode(code, depth=max(where.depth, mask.depth) + 2)

    # ------------------------------------------------------------------ rules

    def variable(self, expr: Var) -> ValueCode:
        found = self.vars.get(expr)
        if found is None:
            raise VerifyError(f"variable {expr.name!r} is used where it has no value")
        return found

    def integer(self, expr: IntImm) -> ValueCode:
        code = str(bool(expr.value)) if expr.dtype.is_bool else str(expr.value)
        return ValueCode(f"({code})" if expr.value < 0 else code, expr.value, expr.value)

    def floating(self, expr: FloatImm) -> ValueCode:
        with np.errstate(all="ignore"):
            return ValueCode(self.constant(expr.dtype.numpy.type(expr.value), expr))

    def binary(self, expr: BinaryOp) -> ValueCode:
        a, b = self.compile(expr.a), self.compile(expr.b)
        kind, depth = expr.a.dtype, max(a.depth, b.depth) + 1
        if isinstance(expr, CompareOp):
            if kind.lanes > 1 and isinstance(expr, (And, Or)):
                return ValueCode(
                    f"({a.code} {'&' if isinstance(expr, And) else '|'} {b.code})", 0, 1, depth
                )
            return ValueCode(f"({a.code} {expr.symbol} {b.code})", 0, 1, depth)
        if kind.lanes > 1:
            return self.vector_binary(expr, a, b, depth)
        if kind.is_float:
            return self.float_binary(expr, a, b, depth)
        return INT_RULES[type(expr)](kind, a, b, depth)

    def float_binary(self, expr: BinaryOp, a: ValueCode, b: ValueCode, depth: int) -> ValueCode:
        kind = expr.dtype
        if isinstance(expr, (Add, Sub, Mul, Div)):
            return ValueCode(f"({a.code} {expr.symbol} {b.code})", depth=depth)
        if isinstance(expr, (Min, Max)):
            name = "_fmin" if isinstance(expr, Min) else "_fmax"
            return ValueCode(f"{name}({a.code}, {b.code})", depth=depth)
        function = support.float_function(_FLOAT_FUNCTIONS[type(expr)], kind)
        return ValueCode(f"{self.constant(function)}({a.code}, {b.code})", depth=depth)

    def vector_binary(self, expr: BinaryOp, a: ValueCode, b: ValueCode, depth: int) -> ValueCode:
        kind, op = expr.dtype, type(expr)
        if isinstance(expr, (Add, Sub, Mul)) or (isinstance(expr, Div) and kind.is_float):
            code = f"({a.code} {expr.symbol} {b.code})"
            if kind.is_int and kind.bits < 8:
                code = f"{self.constant(support.wrap_lanes)}({code}, {self.dtype(kind)})"
            return ValueCode(code, depth=depth + 1)
        if isinstance(expr, (Min, Max)):
            name = "minimum" if isinstance(expr, Min) else "maximum"
            return ValueCode(f"np.{name}({a.code}, {b.code})", depth=depth)
        if kind.is_float:
            function = support.map_lanes(
                support.float_function(_FLOAT_FUNCTIONS[op], kind.element), kind
            )
        else:
            function = support.divide_lanes(INT_DIVISIONS[op], kind)
        return ValueCode(f"{self.constant(function)}({a.code}, {b.code})", depth=depth)

    def negation(self, expr: Not) -> ValueCode:
        a = self.compile(expr.a)
        symbol = "not " if expr.dtype.lanes == 1 else "~"
        return ValueCode(f"({symbol}{a.code})", 0, 1, a.depth + 1)

    def cast(self, expr: Cast) -> ValueCode:
        value, source, target = self.compile(expr.value), expr.value.dtype, expr.dtype
        depth = value.depth + 1
        if target.lanes > 1:
            function = support.cast_lanes(source, target)
            return ValueCode(f"{self.constant(function)}({value.code})", depth=depth)
        if target.is_bool:
            return ValueCode(f"({value.code} != 0)", 0, 1, depth)
        if target.is_float:
            wide = not source.is_float and max(-value.lo, value.hi) > 1 << 53
            convert = support.to_float(target) if wide else target.numpy.type
            key = ("to_float", target) if wide else target.numpy
            return ValueCode(f"{self.constant(convert, key)}({value.code})", depth=depth)
        if source.is_float:
            name = self.constant(support.to_int(target), ("to_int", target))
            return ValueCode(f"{name}({value.code})", *type_range(target), depth)
        code = f"int({value.code})" if source.is_bool else value.code
        result = wrap(code, value.lo, value.hi, target, depth)
        if result.code == value.code:
            return value  # still below the same extent
        return result

    def choice(self, condition: Expr, yes: Expr, no: Expr) -> ValueCode:
        c, a, b = self.compile(condition), self.compile(yes), self.compile(no)
        depth = max(c.depth, a.depth, b.depth) + 1
        if condition.dtype.lanes > 1:
            return ValueCode(f"np.where({c.code}, {a.code}, {b.code})", depth=depth)
        lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
        return ValueCode(f"({a.code} if {c.code} else {b.code})", lo, hi, depth)

    def ramp(self, expr: Ramp) -> ValueCode:
        base, stride = self.compile(expr.base), self.compile(expr.stride)
        name = self.constant(support.ramp(expr.lanes, expr.dtype), ("ramp", expr.lanes, expr.dtype))
        depth = max(base.depth, stride.depth) + 1
        return ValueCode(f"{name}({base.code}, {stride.code})", depth=depth)

    def broadcast(self, expr: Broadcast) -> ValueCode:
        value = self.compile(expr.value)
        function = support.broadcast(expr.lanes, expr.dtype)
        if isinstance(expr.value, (IntImm, FloatImm)):
            with np.errstate(all="ignore"):
                return ValueCode(self.constant(function(expr.value.value), expr))
        name = self.constant(function, ("broadcast", expr.lanes, expr.dtype))
        return ValueCode(f"{name}({value.code})", depth=value.depth + 1)

    def shuffle(self, expr: Shuffle) -> ValueCode:
        parts = [self.compile(vector) for vector in expr.vectors]
        name = self.constant(support.shuffle(expr.indices, expr.dtype))
        depth = max(part.depth for part in parts) + 1
        code = f"{name}({', '.join(part.code for part in parts)})"
        return ValueCode(code, *_default_range(expr.dtype), depth)

    def let(self, expr: Let) -> ValueCode:
        value = self.compile(expr.value)
        # A cell and not a local: the body may be outlined into a function of its own.
        cell = self.fresh(expr.var.name)
        self.emit(f"{cell} = [None]")
        before = self.vars.get(expr.var)
        self.vars[expr.var] = ValueCode(f"{cell}[0]", value.lo, value.hi)
        body = self.compile(expr.body)
        if before is not None:
            self.vars[expr.var] = before
        code = f"({cell}.__setitem__(0, {value.code}), {body.code})[1]"
        return ValueCode(code, body.lo, body.hi, max(value.depth, body.depth) + 2)

    # ------------------------------------------------------------------ calls

    def atomic(self, expr: Call) -> ValueCode:
        """A change of one element; threads run one after another, so nothing comes between."""
        place, kind = atomic_place(expr), expr.dtype
        values = [self.typed(v.dtype, self.compile(v).code) for v in atomic_values(expr)]
        if place.load is not None:
            buffer, view = place.load.buffer, self.view(place.load.buffer)
            index, _ = self.indices(buffer, place.load.indices, view)
            array, mask = view.name, view.written
        else:
            array, mask = self.pointed_to(place.data, place.dtype)
            index = self.compile(place.index).code if place.index is not None else "0"
        change = self.constant(support.atomic(expr.op, place.dtype), (expr.op, place.dtype))
        where = f"({index},), {place.data.name!r}, {mask}"
        code = f"{change}({', '.join([array, where, *values])})"
        return ValueCode(code, *_default_range(kind), 4)

    def tile_call(self, expr: Call) -> ValueCode:
        """A call on tile registers, of which there is one set: threads run one after another."""
        name = expr.op.removeprefix("tir.amx_")
        args: list[str] = []
        for arg in expr.args:
            match arg:
                case Call(op="tir.address_of", args=[BufferLoad() as load]):
                    view = self.view(load.buffer)
                    index, _ = self.indices(load.buffer, load.indices, view)
                    args.append(f"({view.name}, {view.written}, ({index},))")
                case _:
                    args.append(self.compile(arg).code)
        tiles = self.constant(TileRegisters(), "tile registers")
        if name == "load_once":
            name = "load"
        elif name.startswith("dot_"):
            name, args = "dot", [repr(expr.op), *args]
        return ValueCode(f"({tiles}.{name}({', '.join(args)}) or 0)", 0, 0)

    def pointed_to(self, data: Var, kind: DType) -> tuple[str, str | None]:
        """The flat array of a pointer, and its mask of writes."""
        raise UnsupportedError(f"the interpreter knows no memory for {data.name!r}")

    def call_function(self, expr: Call) -> ValueCode:
        """The result of another function of the module, which takes numbers."""
        name, *args = expr.args
        if any(arg.dtype.is_handle for arg in args):
            raise UnsupportedError(f"the interpreter passes no memory to the function {name}")
        given = ", ".join(self.compile(arg).code for arg in args)
        label = getattr(name, "value", str(name))
        return ValueCode(
            f"given[{CALL_FUNCTION!r}]({label!r}, {given})", *_default_range(expr.dtype), 2
        )

    def call(self, expr: Call) -> ValueCode:
        if is_atomic(expr):
            return self.atomic(expr)
        if expr.op == FENCE:
            return ValueCode("0", 0, 0)  # there is one thread
        if is_warp_call(expr):
            raise UnsupportedError(
                f"the interpreter runs threads one after another and cannot run {expr.op!r}",
                hint='the emulator can: build(..., "cuda", device="emulator")',
            )
        if expr.op in TILE_CALLS:
            return self.tile_call(expr)
        if expr.op == "tir.if_then_else":
            return self.choice(*expr.args)
        if expr.op == "tir.likely":
            return self.compile(expr.args[0])
        if expr.op == CALL_FUNCTION:
            return self.call_function(expr)
        op = find_op(expr.op)
        if expr.op != "tir.reinterpret" and (op is None or op.evaluate is None):
            raise UnsupportedError(f"the interpreter has no meaning for the call {expr.op!r}")
        args = [self.compile(arg) for arg in expr.args]
        depth = max((arg.depth for arg in args), default=0) + 2
        kind = expr.dtype
        if expr.op == "tir.reinterpret":
            name = self.constant(support.reinterpret(expr.args[0].dtype, kind))
            return ValueCode(f"{name}({args[0].code})", *_default_range(kind), depth)
        simple = INT_CALLS.get(expr.op) if kind.is_int and kind.lanes == 1 else None
        if simple is not None:
            whole = type_range(kind)
            code = f"({simple.format(*(arg.code for arg in args))})"
            if expr.op in NEVER_OVERFLOWS:
                return ValueCode(code, *whole, depth)
            return wrap(code, whole[0] - 1, whole[1] + 1, kind, depth)
        return self.general_call(expr, args, depth)

    def general_call(self, expr: Call, args: list[ValueCode], depth: int) -> ValueCode:
        """A call through the registry's own evaluation."""
        kind = expr.dtype
        op = find_op(expr.op)
        key = ("call", expr.op, kind, *(arg.dtype for arg in expr.args))
        name = self._constants.get(key)
        if name is None and op is not None and op.evaluate is not None:
            name = self.constant(_lane_call(op.evaluate, expr), key)
        typed = (self.typed(e.dtype, arg.code) for e, arg in zip(expr.args, args, strict=True))
        return ValueCode(f"{name}({', '.join(typed)})", *_default_range(kind), depth)


def _tree_size(expr: Expr) -> int:
    """How many nodes an expression has if it is written out."""
    known = expr.memo.get("tree_size")
    if known is None:
        for part in post_order(expr):
            if "tree_size" not in part.memo:
                part.memo["tree_size"] = 1 + sum(_tree_size(child) for child in part.children)
        known = expr.memo["tree_size"]
    return int(known)


def _shared_parts(expr: Expr) -> list[Expr]:
    """The nodes that occur in several places and are worth keeping."""
    uses: dict[Expr, int] = {}
    for part in post_order(expr):
        for child in part.children:
            uses[child] = uses.get(child, 0) + 1
    return [part for part, count in uses.items() if count > 1 and _worth(part)]


def _worth(expr: Expr) -> bool:
    """Whether to keep a value that occurs again; an atomic call counts each time it is written."""
    return _tree_size(expr) > 8 and not has_atomic(expr)


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
    return type_range(kind) if (kind.is_int or kind.is_bool) and kind.lanes == 1 else (0, 0)


_FLOAT_FUNCTIONS: dict[type[Expr], Any] = {
    Mod: np.fmod,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
}
_RULES: dict[type[Any], Callable[[Any, Any], ValueCode]] = {
    Var: ExprCompiler.variable,
    IntImm: ExprCompiler.integer,
    FloatImm: ExprCompiler.floating,
    StringImm: lambda self, expr: ValueCode(repr(expr.value)),
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
