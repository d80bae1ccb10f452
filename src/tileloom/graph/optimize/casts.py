"""Casts: collapsed where the one in between loses nothing, and moved to where data is narrow.

Contract: the values that are cast at the end are the same. Narrow sums are not raised here: every
reduction accumulates in `compute.accumulator` of its type (float32 for narrower floats), in one
place, `ops.common.accumulate`. What may be asked for is to drop the rounding of such a result to
the narrow type where it is widened again at once.
"""

from __future__ import annotations

import ml_dtypes

from ...base import DType
from ..nodes import Node, Tensor
from ..symbols import hint
from .coded import coded
from .reshapes import source_of
from .rewriter import Rewriter
from .rule import Rule

_FAMILY = "casts"
_MOVES = ("transpose", "slice")
#: Ops that choose among their operands or flip the sign: they commute with a cast that keeps order.
_INSENSITIVE = ("neg", "abs", "relu", "maximum", "minimum", "where")


def keeps_values(source: DType, target: DType) -> bool:
    """Whether every value of one type is a value of the other.

    >>> from tileloom.base import dtype
    >>> keeps_values(dtype("float16"), dtype("float32"))
    True
    >>> keeps_values(dtype("int32"), dtype("float32")), keeps_values(dtype("bool"), dtype("int8"))
    (False, True)
    """
    if source is target or source.is_bool:
        return True
    if target.is_bool:
        return False
    if source.is_float:
        return target.is_float and _float_fits(source, target)
    unsigned = source.is_unsigned
    digits = source.bits - (0 if unsigned else 1)
    if target.is_float:
        return digits <= ml_dtypes.finfo(target.numpy).nmant + 1 and target.bits >= 16
    if target.is_unsigned and not unsigned:
        return False
    return digits <= target.bits - (0 if target.is_unsigned else 1)


def _float_fits(source: DType, target: DType) -> bool:
    if source.bits >= target.bits:
        return False
    a, b = ml_dtypes.finfo(source.numpy), ml_dtypes.finfo(target.numpy)
    return bool(a.nmant <= b.nmant and a.maxexp <= b.maxexp and a.minexp >= b.minexp)


@coded("cast-to-same", _FAMILY, "cast(A, type of A) = A", "cast")
def cast_to_same(node: Node, rewriter: Rewriter) -> Tensor | None:
    x = node.inputs[0]
    return x if x.dtype is node.outputs[0].dtype else None


@coded("cast-of-cast", _FAMILY, "cast(cast(A, t), u) = cast(A, u)", ("cast", "cast"),
       note="where t has all values of A's type, or all three are integers and t is not narrower "
       "than u")  # fmt: skip
def cast_of_cast(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, middle, last = source_of(node), node.inputs[0].dtype, node.outputs[0].dtype
    wraps = x.dtype.is_int and middle.is_int and last.is_int and middle.bits >= last.bits
    if not (wraps or keeps_values(x.dtype, middle)):
        return None
    return x if x.dtype is last else rewriter.make("cast", (x,), dtype=last)


@coded("move-before-widening", _FAMILY, "move(cast(A, wider)) = cast(move(A), wider)",
       *((name, "cast") for name in _MOVES),
       note="transpose, slice; where nobody else reads the cast")  # fmt: skip
def move_before_widening(node: Node, rewriter: Rewriter) -> Tensor | None:
    wide, x = node.inputs[0], source_of(node)
    if x.dtype.bits >= wide.dtype.bits or not rewriter.may_replace(wide):
        return None
    moved = rewriter.make(node.op.name, (x,), **node.attrs)
    return rewriter.make("cast", (moved,), dtype=wide.dtype)


@coded("narrow-before-move", _FAMILY, "cast(move(A), narrower) = move(cast(A, narrower))",
       *(("cast", name) for name in _MOVES),
       note="transpose; where nobody else reads what is moved")  # fmt: skip
def narrow_before_move(node: Node, rewriter: Rewriter) -> Tensor | None:
    moved, x, kind = node.inputs[0], source_of(node), node.outputs[0].dtype
    below = moved.node
    if below is None or kind.bits >= x.dtype.bits or hint(moved.type.size) < hint(x.type.size):
        return None
    if not rewriter.may_replace(moved):
        return None
    narrow = rewriter.make("cast", (x,), dtype=kind)
    return rewriter.make(below.op.name, (narrow,), **below.attrs)


@coded("widen-after-op", _FAMILY, "op(cast(A, wider)) = cast(op(A), wider)",
       *((name, "cast", None) for name in _INSENSITIVE if name != "where"),
       ("where", None, "cast"), safety={"float": "exact"}, default=False,
       note="neg, abs, relu, maximum, minimum, where on floats; pays where narrow arithmetic is "
       "as fast")  # fmt: skip
def widen_after_op(node: Node, rewriter: Rewriter) -> Tensor | None:
    wide = node.outputs[0].dtype
    values = node.inputs[1:] if node.op.name == "where" else node.inputs
    bare = []
    for tensor in values:
        below = tensor.node
        if below is None or below.op.name != "cast" or not rewriter.read_once(tensor):
            return None
        bare.append(below.inputs[0])
    kind = bare[0].dtype
    if not kind.is_float or kind.bits >= wide.bits or not keeps_values(kind, wide):
        return None
    if any(x.dtype is not kind for x in bare):
        return None
    inputs = (*node.inputs[: len(node.inputs) - len(values)], *bare)
    return rewriter.make("cast", (rewriter.make(node.op.name, inputs, **node.attrs),), dtype=wide)


def _raises(node: Node) -> bool:
    """Whether the cast widens narrow floats to a type in which they were accumulated anyway."""
    narrow, wide = node.inputs[0].dtype, node.outputs[0].dtype
    return narrow.is_float and narrow.bits < 32 and wide == "float32"


@coded("sum-in-float32", _FAMILY, "cast(sum(A), float32) = sum(cast(A, float32))",
       ("cast", "reduce_sum"), ("cast", "reduce_prod"), safety={"float": "reassociating"},
       note="of float16 and bfloat16: one rounding less")  # fmt: skip
def sum_in_float32(node: Node, rewriter: Rewriter) -> Tensor | None:
    total = node.inputs[0].node
    if total is None or not _raises(node) or not rewriter.may_replace(node.inputs[0]):
        return None
    wide = rewriter.make("cast", (total.inputs[0],), dtype=node.outputs[0].dtype)
    return rewriter.make(total.op.name, (wide,), **total.attrs)


@coded("product-in-float32", _FAMILY, "cast(matmul(A, B), float32) = matmul(A, B) in float32",
       ("cast", "matmul"), safety={"float": "reassociating"},
       note="of float16 and bfloat16: one rounding less")  # fmt: skip
def product_in_float32(node: Node, rewriter: Rewriter) -> Tensor | None:
    below = node.inputs[0].node
    if below is None or not _raises(node) or below.attrs.get("out_dtype") is not None:
        return None
    if not rewriter.may_replace(node.inputs[0]):
        return None
    attrs = {**below.attrs, "out_dtype": node.outputs[0].dtype}
    return rewriter.make("matmul", below.inputs, **attrs)


CASTS: tuple[Rule, ...] = (
    cast_to_same, cast_of_cast, move_before_widening, narrow_before_move, widen_after_op,
    sum_in_float32, product_in_float32,
)  # fmt: skip
