"""Expressions as TVMScript text that reads back as the very same expression.

The operators of the language match types and fold constants. Where folding would change what is
printed, the node's own name is written instead: `T.Add(x, 0)`.
"""

from __future__ import annotations

import math

from .. import target as targets
from ..base import DType
from ..base.errors import UserError
from ..base.late import TYPE_CHECKING, package
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
    CommReducer,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    binary,
)
from ..expr.effects import CALL_FUNCTION
from ..tir import Buffer, BufferLoad, BufferRegion
from .builders import lookup
from .intrinsics import DTYPE_FIRST, is_intrinsic
from .names import Names

if TYPE_CHECKING:
    import collections.abc as abc
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as np
else:
    np, abc = package("numpy"), package("collections.abc")

_COMPARE, _NOT, _CLOSED = 4, 3, 9
_LEVEL: dict[type[Expr], int] = {
    Or: 1, And: 2, EQ: 4, NE: 4, LT: 4, LE: 4, GT: 4, GE: 4, Add: 5, Sub: 5, Mul: 6, Div: 6,
    FloorDiv: 6, FloorMod: 6,
}  # fmt: skip
_FUNCTIONS: dict[type[Expr], str] = {Min: "min", Max: "max", Mod: "truncmod"}
_ESCAPES: dict[int, str] = {
    **{code: f"\\x{code:02x}" for code in range(32)},
    **{ord(plain): f"\\{letter}" for plain, letter in zip('"\\\n\r\t', '"\\nrt')},
}
_Text = tuple[str, int]  # the text and how tightly its outermost operator binds


class ExprPrinter:
    """Prints expressions and attribute values with the names of one `Names`."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = names or Names()
        self._print: dict[type[Any], Callable[[Any], _Text]] = {
            IntImm: lambda e: (show_int(e.dtype, e.value), _CLOSED),
            FloatImm: lambda e: (f"T.{e.dtype}({show_float(e.value)})", _CLOSED),
            StringImm: lambda e: (show_string(e.value), _CLOSED),
            BufferLoad: self._load,
            Not: self._not,
            Call: self._call,
            Let: self._let,
            Reduce: self._reduce,
            **dict.fromkeys((*_LEVEL, *_FUNCTIONS), self._binary),
        }

    def __call__(self, expr: Expr) -> str:
        """The text of an expression."""
        return self.text(expr)[0]

    def text(self, expr: Expr) -> _Text:
        """The text of an expression and how tightly it binds."""
        if isinstance(expr, Var):
            return self.names.get(expr) or expr.name, _CLOSED
        handler = self._print.get(type(expr))
        return (self._plain(expr), _CLOSED) if handler is None else handler(expr)

    def list(self, exprs: Sequence[Expr]) -> str:
        """Expressions with commas."""
        return ", ".join([self.text(expr)[0] for expr in exprs])

    def tuple(self, exprs: Sequence[Expr]) -> str:
        """Expressions as a Python tuple."""
        return f"({self(exprs[0])},)" if len(exprs) == 1 else f"({self.list(exprs)})"

    def buffer(self, buffer: Buffer) -> str:
        """The name of a buffer."""
        return self.names.get(buffer) or buffer.name

    def index(self, indices: Sequence[Expr]) -> str:
        """Indices between brackets; a vector of consecutive positions as a slice."""
        return ", ".join([self._index(index) for index in indices]) or "()"

    def region(self, region: BufferRegion) -> str:
        """A box of a buffer."""
        parts = ", ".join([self._range(item) for item in region.region])
        return f"{self.buffer(region.buffer)}[{parts or '()'}]"

    def value(self, value: Any) -> str:
        """An attribute's value: a literal, an expression, a buffer, or containers of these."""
        match value:
            case Expr():
                return self(value)
            case DType():
                return show_string(value)
            case str():
                return show_string(value)
            case None | bool() | int():
                return repr(value)
            case float():
                return repr(value) if math.isfinite(value) else f'float("{value}")'
            case Buffer():
                return self.buffer(value)
            case BufferRegion():
                return self.region(value)
            case IterVar():
                return self.names.get(value.var) or value.var.name
            case CommReducer():
                return self._combiner(value)
            case dict():
                items = (f"{self.value(k)}: {self.value(v)}" for k, v in value.items())
                return f"{{{', '.join(items)}}}"
            case list():
                return f"[{', '.join(map(self.value, value))}]"
            case tuple():
                comma = "," if len(value) == 1 else ""
                return f"({', '.join(map(self.value, value))}{comma})"
            case targets.Target():
                return f"T.target({show_string(str(value))})"
            case abc.Mapping():
                return self.value(dict(value))
            case np.ndarray() | np.generic():
                return self.value(value.tolist())
            case _:
                return repr(value)

    # ------------------------------------------------------------------------ nodes

    def _index(self, index: Expr) -> str:
        if isinstance(index, Ramp) and index.lanes > 1 and index.base.dtype.lanes == 1:
            step = index.stride
            if isinstance(step, IntImm) and step.dtype is index.base.dtype and step.value > 0:
                stop = binary(Add, index.base, index.lanes * step.value)
                tail = "" if step.value == 1 else f":{step.value}"
                return f"{self(index.base)}:{self(stop)}{tail}"
        return self(index)

    def _range(self, item: Range) -> str:
        if isinstance(item.extent, IntImm) and item.extent.value == 1:
            return self(item.min)
        return f"{self(item.min)}:{self(binary(Add, item.min, item.extent))}"

    def _load(self, expr: BufferLoad) -> _Text:
        buffer = self.buffer(expr.buffer)
        if expr.predicate is None:
            return f"{buffer}[{self.index(expr.indices)}]", _CLOSED
        indices, mask = self.list(expr.indices), self(expr.predicate)
        return f"{buffer}.vload([{indices}], predicate={mask})", _CLOSED

    def _binary(self, expr: BinaryOp) -> _Text:
        # Down the left side in a loop: sums of many terms are deep there.
        spine = [expr]
        while type(spine[-1].a) in _LEVEL and not _folds(spine[-1]):
            spine.append(spine[-1].a)  # type: ignore[arg-type]
        text, level = self._one_binary(spine.pop(), None)
        while spine:
            text, level = self._one_binary(spine.pop(), (text, level))
        return text, level

    def _one_binary(self, expr: BinaryOp, left_text: _Text | None) -> _Text:
        kind = type(expr)
        if kind not in _LEVEL or _folds(expr):
            name = kind.__name__ if _folds(expr) else _FUNCTIONS[kind]
            return f"T.{name}({self(expr.a)}, {self(expr.b)})", _CLOSED
        level = _LEVEL[kind]
        left, left_level = left_text or self.text(expr.a)
        right, right_level = self.text(expr.b)
        # Comparisons do not associate: Python would read a < b < c as a chain.
        if left_level < level or level == left_level == _COMPARE:
            left = f"({left})"
        if right_level <= level:
            right = f"({right})"
        return f"{left} {kind.symbol} {right}", level

    def _not(self, expr: Not) -> _Text:
        if isinstance(expr.a, IntImm):
            return f"T.Not({self(expr.a)})", _CLOSED
        text, level = self.text(expr.a)
        return f"not {text}" if level == _CLOSED else f"not ({text})", _NOT

    def _call(self, expr: Call) -> _Text:
        name = expr.op.removeprefix("tir.")
        args = [self(arg) for arg in expr.args]
        if expr.op == CALL_FUNCTION and isinstance(expr.args[0], StringImm):
            return f"Module.{expr.args[0].value}({', '.join(args[1:])})", _CLOSED
        if not expr.op.startswith("tir.") or not is_intrinsic(name):
            return self._any_call(expr, args), _CLOSED
        if name in DTYPE_FIRST:
            args = [f'"{expr.dtype}"', *args]
        elif not _reads_back(name, expr):
            return self._any_call(expr, args), _CLOSED
        return f"T.{name}({', '.join(args)})", _CLOSED

    def _any_call(self, expr: Call, args: Sequence[str]) -> str:
        return f"T.Call({', '.join([show_string(expr.dtype), show_string(expr.op), *args])})"

    def _let(self, expr: Let) -> _Text:
        value = self(expr.value)
        self.names.push()
        name = self.names.define(expr.var, expr.var.name)
        text = f"T.Let({self(expr.body)}, where={{{name}: {value}}})"
        self.names.pop()
        return text, _CLOSED

    def _combiner(self, combiner: CommReducer) -> str:
        self.names.push()
        both = (*combiner.lhs, *combiner.rhs)
        names = ", ".join([self.names.define(var, var.name) for var in both])
        result = self.list(combiner.result)
        self.names.pop()
        if len(combiner.result) > 1:
            result = f"({result})"
        return f"T.comm_reducer(lambda {names}: {result}, [{self.list(combiner.identity)}])"

    def _reduce(self, expr: Reduce) -> _Text:
        axes = ", ".join(f"{axis.var.name}: {self._range(axis.domain)}" for axis in expr.axis)
        source, result = self.list(expr.source), self.list(expr.combiner.result)
        tail = "" if expr.value_index == 0 else f", value_index={expr.value_index}"
        return f"T.Reduce({source}, axis=[{axes}], combiner=({result}){tail})", _CLOSED

    def _plain(self, expr: Expr) -> str:
        args = self.list(expr.children)
        match expr:
            case Cast(kind, _):
                return f'T.Cast("{kind}", {args})'
            case Select():
                return f"T.Select({args})"
            case Ramp(_, _, lanes) | Broadcast(_, lanes):
                return f"T.{type(expr).__name__}({args}, {lanes})"
            case Shuffle(_, indices):
                return f"T.Shuffle([{args}], {list(indices)})"
            case ProducerLoad(producer, _):
                return f"{producer.name}[{args}]"
            case _:
                return str(expr)  # a node of a room above


def _folds(expr: BinaryOp) -> bool:
    """Whether the operator, applied to the operands, gives something else than the node."""
    a, b = expr.a, expr.b
    kind = type(expr)
    if kind in (Div, Mod) and (kind is Div) != expr.dtype.is_float:
        return True  # `/` is of floats alone, T.truncmod of integers
    if isinstance(a, (IntImm, FloatImm)) or isinstance(b, (IntImm, FloatImm)) or a.dtype.is_bool:
        try:
            return binary(kind, a, b) is not expr
        except (UserError, ValueError, ArithmeticError):
            return True  # such as a division by zero
    return False


def _reads_back(name: str, expr: Call) -> bool:
    """Whether `T.name(args)` is the very same call: nothing folds, and the type follows."""
    args = [arg.value if _is_bare(arg) else arg for arg in expr.args]  # type: ignore[attr-defined]
    try:
        return lookup(name)(*args) is expr
    except (UserError, TypeError, ValueError, ArithmeticError):
        return False


def _is_bare(expr: Expr) -> bool:
    """Whether it is written as a Python number or string."""
    return (isinstance(expr, IntImm) and expr.dtype == "int32") or isinstance(expr, StringImm)


def show_int(kind: DType, value: int) -> str:
    """An integer constant; `int32` needs no type."""
    if kind == "int32":
        return str(value)
    if kind.is_bool:
        return f"T.bool({bool(value)})"
    return f'T.IntImm("{kind}", {value})' if kind.is_handle else f"T.{kind}({value})"


def show_float(value: float) -> str:
    """A float that reads back exactly; infinities and NaN as strings."""
    return repr(value) if math.isfinite(value) else f'"{value}"'


def show_string(value: str) -> str:
    """A string literal in double quotes."""
    return f'"{value.translate(_ESCAPES)}"'
