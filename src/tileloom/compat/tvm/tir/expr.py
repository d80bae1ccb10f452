"""`tvm.tir.expr`: expression nodes, built from TVM's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....expr import Expr, ExprLike, Range, as_expr, match_types, nodes, reduction
from ....expr.op_name import OpName
from ....tir import BufferLoad as _BufferLoad
from .._names import NodeType, missing, node_type
from ..ir import PointerType, PrimType

PrimExpr = Expr
ExprOp = Expr
ConstExpr = (nodes.IntImm, nodes.FloatImm, nodes.StringImm)
BinaryOpExpr = nodes.BinaryOp
CmpExpr = nodes.CompareOp
PrimExprWithOp = Expr


def _binary(kind: type[nodes.BinaryOp]) -> Any:
    def build(a: ExprLike, b: ExprLike) -> Expr:
        if isinstance(a, Expr) and isinstance(b, Expr):
            return kind(a, b)
        return kind(*match_types(a, b))

    return node_type(kind, build)


Add, Sub, Mul = _binary(nodes.Add), _binary(nodes.Sub), _binary(nodes.Mul)
Div, Mod = _binary(nodes.Div), _binary(nodes.Mod)
FloorDiv, FloorMod = _binary(nodes.FloorDiv), _binary(nodes.FloorMod)
Min, Max = _binary(nodes.Min), _binary(nodes.Max)
EQ, NE, LT = _binary(nodes.EQ), _binary(nodes.NE), _binary(nodes.LT)
LE, GT, GE = _binary(nodes.LE), _binary(nodes.GT), _binary(nodes.GE)
And, Or = _binary(nodes.And), _binary(nodes.Or)
EqualOp, NotEqualOp = EQ, NE


def _variable(kind: type[nodes.Var]) -> Any:
    def build(name: str, dtype: Any = "int32") -> nodes.Var:
        if isinstance(dtype, PointerType):
            element = dtype.element_type
            return kind(name, "handle", (getattr(element, "dtype", element), dtype.storage_scope))
        return kind(name, dtype.dtype if isinstance(dtype, PrimType) else dtype)

    return node_type(kind, build)


Var, SizeVar = _variable(nodes.Var), _variable(nodes.SizeVar)


def _exprs(values: Sequence[ExprLike]) -> list[Expr]:
    return [as_expr(value) for value in values]


def _call(dtype: str, op: Any, args: Sequence[ExprLike]) -> Expr:
    if not isinstance(op, OpName) and "." not in str(op):
        raise ValueError(f"an operation is called like 'tir.exp', got {op!r}")
    return nodes.Call(dtype, str(op), _exprs(args))


IntImm = node_type(nodes.IntImm, lambda dtype, value: nodes.IntImm(dtype, value))
FloatImm = node_type(nodes.FloatImm, lambda dtype, value: nodes.FloatImm(dtype, value))
StringImm = node_type(nodes.StringImm)
Cast = node_type(nodes.Cast, lambda dtype, value: nodes.Cast(dtype, as_expr(value)))
Not = node_type(nodes.Not, lambda a: nodes.Not(as_expr(a)))
Select = node_type(
    nodes.Select,
    lambda condition, true_value, false_value: nodes.Select(
        as_expr(condition), *match_types(true_value, false_value)
    ),
)
Ramp = node_type(
    nodes.Ramp, lambda base, stride, lanes: nodes.Ramp(*match_types(base, stride), int(lanes))
)
Broadcast = node_type(
    nodes.Broadcast, lambda value, lanes: nodes.Broadcast(as_expr(value), int(lanes))
)
Shuffle = node_type(
    nodes.Shuffle,
    lambda vectors, indices: nodes.Shuffle(_exprs(vectors), [int(i) for i in indices]),
)
Let = node_type(
    nodes.Let, lambda var, value, body: nodes.Let(var, as_expr(value, var.dtype), as_expr(body))
)
Call = node_type(nodes.Call, _call)
BufferLoad = node_type(
    _BufferLoad,
    lambda buffer, indices, predicate=None: _BufferLoad(buffer, _exprs(indices), predicate),
)
ProducerLoad = node_type(
    reduction.ProducerLoad,
    lambda producer, indices: reduction.ProducerLoad(producer, _exprs(indices)),
)
CommReducer = node_type(
    reduction.CommReducer,
    lambda lhs, rhs, result, identity_element: reduction.CommReducer(
        lhs, rhs, _exprs(result), _exprs(identity_element)
    ),
)


def _reduce(
    combiner: Any, src: Any, rdom: Any, condition: ExprLike, value_index: int, init: Any = None
) -> Expr:
    source = src if isinstance(src, (list, tuple)) else [src]
    axes = rdom if isinstance(rdom, (list, tuple)) else [rdom]
    start = [] if init is None else init if isinstance(init, (list, tuple)) else [init]
    parts = _exprs(source), _exprs(start)
    return reduction.Reduce(combiner, *parts, axes, as_expr(condition), int(value_index))


Reduce = node_type(reduction.Reduce, _reduce)


class IterVar(metaclass=NodeType, node=reduction.IterVar):
    """`IterVar(dom, var, iter_type, thread_tag)`: a variable with its domain and its role."""

    DataPar, ThreadIndex, CommReduce, Ordered, DimInfo = range(5)
    Unrolled, Vectorized, Parallelized, Tensorized = range(5, 9)
    Opaque = DimInfo

    @staticmethod
    def build(dom: Any, var: Any, iter_type: int = 0, thread_tag: str = "") -> reduction.IterVar:
        """As TVM: `dom` may be a pair of begin and end, `var` a name."""
        if isinstance(dom, (list, tuple)):
            low, high = match_types(*dom)
            dom = Range(low, high - low)
        if isinstance(var, str):
            var = nodes.Var(var, dom.extent.dtype if dom is not None else "int32")
        return reduction.IterVar(dom, var, int(iter_type), thread_tag)


def convert(value: Any) -> Any:
    """A number or string as an expression; sequences item by item; nodes as they are."""
    if isinstance(value, (list, tuple)):
        return [convert(item) for item in value]
    if isinstance(value, dict):
        return {key: convert(item) for key, item in value.items()}
    if isinstance(value, (bool, int, float, str)):
        return as_expr(value)
    return value


__all__ = [
    "Add", "And", "BinaryOpExpr", "Broadcast", "BufferLoad", "Call", "Cast", "CmpExpr",
    "CommReducer", "ConstExpr", "Div", "EQ", "EqualOp", "ExprOp", "FloatImm", "FloorDiv",
    "FloorMod", "GE", "GT", "IntImm", "IterVar", "LE", "LT", "Let", "Max", "Min", "Mod", "Mul",
    "NE", "Not", "NotEqualOp", "Or", "PrimExpr", "PrimExprWithOp", "ProducerLoad", "Ramp",
    "Reduce", "Select", "Shuffle", "SizeVar", "StringImm", "Sub", "Var", "convert",
]  # fmt: skip
__getattr__ = missing(__name__)
