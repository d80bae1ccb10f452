"""Changes of shape of changes of shape, and of what has one value."""

from __future__ import annotations

from ..dialects.arith_folds import operation_of
from ..ir.attributes import DenseArrayAttr
from ..ir.core import Operation
from ..ir.rewriter import PatternRewriter, pattern
from ..ir.types import I32, TensorType
from ..layouts.encodings import Encoding
from ..layouts.infer import infer_src_encoding


@pattern("tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape")
def shape_of_splat(op: Operation, rewriter: PatternRewriter) -> bool:
    """One value everywhere has any shape."""
    splat = operation_of(op.operands[0], "tt.splat")
    if splat is None:
        return False
    rewriter.replace_with(op, "tt.splat", splat.operands)
    return True


@pattern("tt.broadcast")
def broadcast_once(op: Operation, rewriter: PatternRewriter) -> bool:
    """A broadcast of a broadcast is one."""
    inner = operation_of(op.operands[0], "tt.broadcast")
    if inner is None:
        return False
    rewriter.replace_with(op, "tt.broadcast", inner.operands)
    return True


@pattern("tt.reshape")
def reshape_once(op: Operation, rewriter: PatternRewriter) -> bool:
    """A reshape of a reshape is one; it may reorder if one of them may."""
    inner = operation_of(op.operands[0], "tt.reshape")
    if inner is None:
        return False
    attributes = dict(op.attributes)
    if "allow_reorder" in inner.attributes:
        attributes["allow_reorder"] = inner.attributes["allow_reorder"]
    rewriter.replace_with(op, "tt.reshape", inner.operands, attributes=attributes)
    return True


@pattern("tt.trans", "ttg.memdesc_trans")
def transpose_once(op: Operation, rewriter: PatternRewriter) -> bool:
    """A transposition of a transposition is one."""
    inner = operation_of(op.operands[0], op.name)
    if inner is None:
        return False
    order, first = (each.attributes["order"].values for each in (op, inner))  # type: ignore[attr-defined]
    made = DenseArrayAttr(I32, [first[dim] for dim in order])
    rewriter.replace_with(op, op.name, inner.operands, attributes={"order": made})
    return True


@pattern("tt.expand_dims")
def expand_before_broadcast(op: Operation, rewriter: PatternRewriter) -> bool:
    """A dimension is inserted before a broadcast."""
    inner = operation_of(op.operands[0], "tt.broadcast")
    result = op.results[0].type
    if inner is None or not isinstance(result, TensorType):
        return False
    source = inner.operands[0].type
    axis = op.integer("axis")
    if not isinstance(source, TensorType):
        return False
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    encoding = result.encoding
    if isinstance(encoding, Encoding) and infer_src_encoding(op, encoding) is not source.encoding:
        return False
    rewriter.before_op(op)
    expanded = rewriter(
        "tt.expand_dims",
        inner.operands[0],
        type=TensorType(shape, source.element, encoding),
        attributes=op.attributes,
    )
    rewriter.replace_with(op, "tt.broadcast", (expanded,))
    return True
