"""Operands of products: transposed in memory, converted before they are computed on."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.slices import backward_operations
from ..conversions.properties import is_expensive_access
from ..ir.attributes import DenseArrayAttr
from ..ir.core import Operation, Value
from ..ir.definitions import Trait
from ..ir.rewriter import PatternRewriter, Rewrite, apply_patterns
from ..ir.types import I1, I32, MemDescType, TensorType, as_tensor, element_bits, element_type
from ..layouts.encodings import DotOperandEncoding, NvidiaMmaEncoding, SharedEncoding
from ..layouts.properties import cta_layout, order_of
from ..layouts.shared import shared_for_operand, shared_for_wgmma
from ..patterns.layouts import convert_layout_patterns
from .canonicalize import canonicalize
from .registry import tile_pass


@tile_pass("tritongpu-optimize-dot-operands", hoist_layout_conversion=True)
def optimize_dot_operands(module: Operation, hoist_layout_conversion: bool) -> None:
    """Moves conversions to operands of products up, and transposes operands in shared memory.

    Args:
        hoist_layout_conversion: converts what operands are computed from, instead of them.
    """
    patterns: dict[str, Sequence[Rewrite]] = {
        "ttg.convert_layout": [
            transpose_in_memory,
            *([hoist_over_elementwise] if hoist_layout_conversion else []),
        ],
        "ttng.warp_group_dot": [transpose_for_warp_group, operand_in_registers],
    }
    canonicalize(module)
    simple = convert_layout_patterns()
    for name, rewrites in simple.items():
        patterns[name] = [*patterns.get(name, ()), *rewrites]
    apply_patterns(module, patterns)


def _operand_encoding(value: Value) -> DotOperandEncoding | None:
    type = value.type
    encoding = type.encoding if isinstance(type, TensorType) else None
    return encoding if isinstance(encoding, DotOperandEncoding) else None


def transpose_in_memory(op: Operation, rewriter: PatternRewriter) -> bool:
    """`convert(trans(x))` to an operand: x is stored, and loaded by a transposed view."""
    encoding = _operand_encoding(op.results[0])
    transposition = op.operands[0].defining_op
    if encoding is None or transposition is None or transposition.name != "tt.trans":
        return False
    order = transposition.attributes["order"].values  # type: ignore[attr-defined]
    source = as_tensor(transposition.operands[0].type)
    parent = encoding.parent
    if order != (1, 0) or not isinstance(parent, NvidiaMmaEncoding) or parent.version != 2:
        return False
    result = as_tensor(op.results[0].type)
    layout = shared_for_operand(
        encoding,
        result.shape,
        order_of(source.encoding),
        element_bits(source),
        cta_layout(source.encoding),
        transposed=True,
    )
    memory = MemDescType(source.shape, source.element, layout)
    stored = rewriter.create("ttg.local_alloc", transposition.operands, (memory,)).result
    rewriter.replace_with(op, "ttg.local_load", [_transposed(stored, order, rewriter)], (result,))
    return True


def _transposed(stored: Value, order: Sequence[int], rewriter: PatternRewriter) -> Value:
    """A view of a buffer with its dimensions permuted."""
    from_type = stored.type
    if not isinstance(from_type, MemDescType) or not isinstance(from_type.encoding, SharedEncoding):
        return stored
    places = [tuple(order).index(dim) for dim in from_type.encoding.order]
    layout = from_type.encoding.replace(order=tuple(places))
    shape = tuple(from_type.shape[dim] for dim in order)
    view = MemDescType(shape, from_type.element, layout, from_type.memory, from_type.mutable)
    attributes = {"order": DenseArrayAttr(I32, tuple(order))}
    return rewriter.create("ttg.memdesc_trans", (stored,), (view,), attributes).result


# Conversions before elementwise operations.


def hoist_over_elementwise(op: Operation, rewriter: PatternRewriter) -> bool:
    """`convert(f(x))` to an operand becomes `f(convert(x))`, where x comes from a load: then the
    conversion can become the load of an operand from shared memory."""
    encoding = _operand_encoding(op.results[0])
    source = op.operands[0].defining_op
    if encoding is None or source is None or len(source.results) != 1:
        return False
    if not _can_hoist_over(source, encoding) or not _comes_from_load(source):
        return False
    wanted = as_tensor(op.results[0].type)
    made = source.clone()
    operands = []
    for operand in source.operands:
        type = as_tensor(operand.type).with_encoding(encoding)
        operands.append(rewriter.convert(operand, type))
    made.set_operands(operands)
    made.results[0].type = wanted
    rewriter.insert(made)
    rewriter.replace_op(op, made.results)
    return True


def _can_hoist_over(op: Operation, encoding: DotOperandEncoding) -> bool:
    if not _is_hoistable(op):
        return False
    if not all(isinstance(operand.type, TensorType) for operand in op.operands):
        return False
    if op.name == "arith.extf" and encoding.k_width == 1:
        return False
    if op.name in ("arith.trunci", "arith.truncf", "arith.select"):
        return False
    return not (op.name == "arith.uitofp" and element_type(op.operands[0].type) is I1)


def _is_hoistable(op: Operation) -> bool:
    if not op.operands:
        return False
    if op.name in ("tt.fp_to_fp", "tt.bitcast"):
        return True
    if op.name == "tt.elementwise_inline_asm":
        pure = op.attributes.get("pure")
        return pure is not None and len(op.operands) == 1 and bool(pure.value)  # type: ignore[attr-defined]
    is_pure = op.definition.is_pure and Trait.ELEMENTWISE in op.definition.traits
    return op.name.startswith("arith.") and is_pure


def _comes_from_load(op: Operation) -> bool:
    """Whether a load is all that an operation is computed from in its region, by operations over
    which the conversion can go on."""
    region = op.block_of().region

    def through(other: Operation) -> bool:
        return other.block_of().region is region and other.name != "tt.load"

    loads = 0
    for other in (op, *backward_operations(op.operands, through)):
        for operand in other.operands:
            source = operand.defining_op
            if source is None or source.block_of().region is not region:
                continue
            if source.name == "tt.load":
                loads += is_expensive_access(source)
            elif not _is_hoistable(source) and source.name != "arith.constant":
                return False
    return loads > 0


# Operands of warp groups.


def transpose_for_warp_group(op: Operation, rewriter: PatternRewriter) -> bool:
    """`dot(alloc(trans x))` becomes `dot(view(alloc x))`: `wgmma` reads 16-bit operands in either
    order."""
    for index in (0, 1):
        stored = op.operands[index].defining_op
        if stored is None or stored.name != "ttg.local_alloc" or not stored.operands:
            continue
        transposition = stored.operands[0].defining_op
        type = stored.results[0].type
        if transposition is None or transposition.name != "tt.trans":
            continue
        if not isinstance(type, MemDescType) or element_bits(type) != 16:
            continue
        order = transposition.attributes["order"].values  # type: ignore[attr-defined]
        if order != (1, 0) or not isinstance(type.encoding, SharedEncoding):
            continue
        source = as_tensor(transposition.operands[0].type)
        layout = shared_for_wgmma(source.shape, type.encoding.order[::-1], 16, type.encoding.cta)
        memory = MemDescType(source.shape, source.element, layout)
        rewriter.before_op(stored)
        made = rewriter.create("ttg.local_alloc", transposition.operands, (memory,)).result
        op.set_operand(index, _transposed(made, order, rewriter))
        rewriter.modified(op)
        rewriter.push(stored)
        return True
    return False


def operand_in_registers(op: Operation, rewriter: PatternRewriter) -> bool:
    """The first operand of a warp group's product stays in registers if it is there already: the
    result of another product, converted by width only."""
    stored = op.operands[0].defining_op
    if stored is None or stored.name != "ttg.local_alloc" or not stored.operands:
        return False
    conversion = stored.operands[0].defining_op
    source = stored.operands[0]
    if conversion is not None and conversion.name == "ttg.convert_layout":
        source = conversion.operands[0]
    type = as_tensor(source.type)
    own = as_tensor(op.results[0].type).encoding
    if not isinstance(type.encoding, NvidiaMmaEncoding) or type.encoding.version != 3:
        return False
    bits = element_bits(type)
    fits = type.encoding.warps_per_cta[1] == 1 and bits in (8, 16)
    if not fits or not isinstance(own, NvidiaMmaEncoding):
        return False
    if bits == 8:  # the registers of 8-bit operands lie in another order
        return False
    rewriter.before_op(op)
    wanted = type.with_encoding(DotOperandEncoding(0, own, 32 // bits))
    op.set_operand(0, rewriter.convert(source, wanted))
    rewriter.modified(op)
    rewriter.push(stored)
    return True
