"""Changes of layout that are not needed: of what is made, or read, in any layout at no cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.attributes import DenseElementsAttr, constant_attribute
from ..ir.core import Operation
from ..ir.interning import Attribute
from ..ir.rewriter import PatternRewriter, Rewrite, pattern
from ..ir.types import MemDescType, TensorType, Type
from ..layouts.encodings import DotOperandEncoding, NvidiaMmaEncoding
from ..layouts.infer import infer_dst_encoding
from ..layouts.properties import elements_per_thread
from .inlining import patterns_of

CONVERT = "ttg.convert_layout"


def convert_layout_patterns() -> Mapping[str, Sequence[Rewrite]]:
    """The rewrites of conversions of layouts alone, for `apply_patterns`."""
    return patterns_of(
        *(CONVERT, "tt.reshape", "tt.histogram", "tt.split"), "ttg.local_alloc", "ttg.local_store"
    )


def _converted(op: Operation, index: int = 0) -> Operation | None:
    """The conversion that gives an operand of an operation, or None."""
    if len(op.operands) <= index:
        return None
    source = op.operands[index].defining_op
    return source if source is not None and source.name == CONVERT else None


def is_expensive_view(source: Type, result: Type) -> bool:
    """Whether threads hold another number of elements after a reshape."""
    if not isinstance(source, TensorType) or not isinstance(result, TensorType):
        return False
    if source.encoding is None or result.encoding is None:
        return False
    return elements_per_thread(source) != elements_per_thread(result)


def may_reorder(op: Operation) -> bool:
    """Whether a reshape may give its elements in any order, and no layout is wanted of it."""
    return "allow_reorder" in op.attributes and "efficient_layout" not in op.attributes


@pattern("tt.reshape")
def reshape_of_conversion(op: Operation, rewriter: PatternRewriter) -> bool:
    """A reshape that may reorder its elements takes them in any layout."""
    conversion = _converted(op)
    if conversion is None or not may_reorder(op):
        return False
    source = conversion.operands[0]
    if is_expensive_view(source.type, op.results[0].type):
        return False
    op.set_operand(0, source)
    rewriter.modified(op)
    rewriter.push(conversion)
    return True


@pattern("tt.histogram", "ttg.local_alloc", "ttg.local_store")
def use_in_any_layout(op: Operation, rewriter: PatternRewriter) -> bool:
    """What takes its operand in any layout does not need it converted."""
    conversion = _converted(op)
    if conversion is None:
        return False
    op.set_operand(0, conversion.operands[0])
    rewriter.modified(op)
    rewriter.push(conversion)
    return True


@pattern("tt.split")
def split_of_conversion(op: Operation, rewriter: PatternRewriter) -> bool:
    """A split of another layout that gives the same layout takes it as it is."""
    conversion = _converted(op)
    if conversion is None:
        return False
    source = conversion.operands[0]
    encoding = infer_dst_encoding(op, source.type.encoding)  # type: ignore[attr-defined]
    if encoding is None or encoding is not op.results[0].type.encoding:  # type: ignore[attr-defined]
        return False
    op.set_operand(0, source)
    rewriter.modified(op)
    rewriter.push(conversion)
    return True


@pattern(CONVERT)
def conversion_of_producer(op: Operation, rewriter: PatternRewriter) -> bool:
    """What gives its result in any layout gives it in the one wanted."""
    source, type = op.operands[0], op.results[0].type
    producer = source.defining_op
    if producer is None or not isinstance(type, TensorType) or _keeps_fragments(op):
        return False
    match producer.name:
        case "tt.reshape" | "tt.histogram" | "tt.cat" | "ttg.convert_layout":
            if not _gives_any(producer, type):
                return False
            rewriter.replace_with(op, producer.name, producer.operands, (type,), _own(producer))
        case "tt.splat" | "tt.make_range":
            rewriter.replace_with(op, producer.name, producer.operands, (type,), _own(producer))
        case "ttg.local_load":
            rewriter.before_op(producer)  # writes to the memory may come between
            made = rewriter.create("ttg.local_load", producer.operands, (type,), _own(producer))
            rewriter.replace_op(op, made.results)
        case "arith.constant":
            value = producer.attributes["value"]
            if not isinstance(value, DenseElementsAttr) or value.splat is None:
                return False
            made_value = constant_attribute(value.splat, type)
            rewriter.replace_with(op, "arith.constant", (), (type,), {"value": made_value})
        case _:
            return False
    return True


def _own(op: Operation) -> dict[str, Attribute]:
    return dict(op.attributes)


def _gives_any(producer: Operation, type: TensorType) -> bool:
    if producer.name == "tt.reshape":
        return may_reorder(producer) and not is_expensive_view(producer.operands[0].type, type)
    if producer.name == "tt.cat":
        own = producer.results[0].type
        return isinstance(own, TensorType) and elements_per_thread(type) >= elements_per_thread(own)
    return True


def _keeps_fragments(op: Operation) -> bool:
    """Whether a conversion is between the fragments of two products, which stay as they are."""
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(source, TensorType) or not isinstance(source.encoding, NvidiaMmaEncoding):
        return False
    encoding = getattr(result, "encoding", None)
    if isinstance(encoding, DotOperandEncoding):
        return True
    return isinstance(result, MemDescType)
