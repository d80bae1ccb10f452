"""Blocked layouts made for a shape, and what threads hold in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...base.errors import UserError
from ..ir.types import ShapedType, TensorType
from .encodings import (
    BlockedEncoding,
    CTALayout,
    DistributedEncoding,
    DotOperandEncoding,
    Encoding,
    Ints,
    LinearEncoding,
    NvidiaMmaEncoding,
    SharedEncoding,
    SliceEncoding,
)


def blocked_encoding(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    order: Sequence[int],
    warps: int,
    threads: int = 32,
    cta: CTALayout | None = None,
) -> BlockedEncoding:
    """The layout in which threads, then warps, cover a tensor from its fastest dimension on.

    Args:
        shape: of the tensor; a thread block has its part by `cta`.
        order: the dimensions, fastest first.
        warps, threads: warps of a block, and threads of a warp.

    >>> str(blocked_encoding((64, 64), (1, 4), (1, 0), 4))
    '#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], \
order = [1, 0]}>'
    """
    rank = len(shape)
    cta = CTALayout.one(rank) if cta is None else cta
    extents = shape_per_cta(shape, cta)
    per_warp, per_cta = [1] * rank, [1] * rank
    left_threads, left_warps, left_lanes = threads * warps, warps, threads
    for dim in order[:-1]:
        wanted = max(1, min(left_threads, max(1, extents[dim] // size_per_thread[dim])))
        per_warp[dim] = max(1, min(wanted, left_lanes))
        per_cta[dim] = max(1, min(wanted // per_warp[dim], left_warps))
        left_warps //= per_cta[dim]
        left_lanes //= per_warp[dim]
        left_threads //= wanted
    slowest = order[-1]
    per_warp[slowest] = threads // prod(per_warp)
    per_cta[slowest] = warps // prod(per_cta)
    return BlockedEncoding(size_per_thread, per_warp, per_cta, order, cta)


def default_blocked(
    shape: Sequence[int], warps: int, threads: int = 32, cta: CTALayout | None = None
) -> BlockedEncoding:
    """The layout of a tensor before passes choose one: an element to a thread, the last
    dimension fastest."""
    rank = len(shape)
    return blocked_encoding(shape, [1] * rank, range(rank - 1, -1, -1), warps, threads, cta)


def cta_layout(encoding: Encoding) -> CTALayout:
    """How the thread blocks of a cluster share a tensor in a layout."""
    match encoding:
        case BlockedEncoding() | NvidiaMmaEncoding() | SharedEncoding():
            return encoding.cta
        case SliceEncoding():
            outer, dim = cta_layout(encoding.parent), encoding.dim
            order = [d - (d > dim) for d in outer.order if d != dim]
            return CTALayout(erase(outer.per_cga, dim), erase(outer.split, dim), tuple(order))
        case DotOperandEncoding():
            outer = cta_layout(encoding.parent)
            split = list(outer.split)
            split[len(split) - 1 - encoding.op_idx] = 1
            return CTALayout(outer.per_cga, tuple(split), outer.order)
        case LinearEncoding():
            return CTALayout.one(rank_of(encoding))
    raise UserError(f"{encoding} is not a layout")


def rank_of(encoding: Encoding) -> int:
    """The number of dimensions of tensors in a layout."""
    match encoding:
        case BlockedEncoding() | SharedEncoding() | NvidiaMmaEncoding():
            return encoding.rank
        case SliceEncoding():
            return rank_of(encoding.parent) - 1
        case DotOperandEncoding():
            return rank_of(encoding.parent)
        case LinearEncoding():
            bases = (*encoding.register, *encoding.lane, *encoding.warp, *encoding.block)
            return len(bases[0]) if bases else 0
    raise UserError(f"{encoding} is not a layout")


def shape_per_cta(shape: Sequence[int], cta: CTALayout) -> Ints:
    """The part of a shape that a thread block has."""
    return tuple(extent // min(extent, n) for extent, n in zip(shape, cta.split, strict=True))


def order_of(encoding: Encoding) -> Ints:
    """The dimensions of a layout, fastest first."""
    match encoding:
        case BlockedEncoding() | SharedEncoding():
            return encoding.order
        case SliceEncoding():
            return tuple(
                d - (d > encoding.dim) for d in order_of(encoding.parent) if d != encoding.dim
            )
        case DotOperandEncoding(op_idx=1, parent=NvidiaMmaEncoding()):
            rank = rank_of(encoding)
            return (rank - 2, rank - 1, *range(rank - 3, -1, -1))
    return tuple(range(rank_of(encoding) - 1, -1, -1))


def size_per_thread(encoding: Encoding) -> Ints:
    """The neighbouring elements of a thread along each dimension, before they repeat."""
    match encoding:
        case BlockedEncoding():
            return encoding.size_per_thread
        case SliceEncoding():
            return erase(size_per_thread(encoding.parent), encoding.dim)
        case NvidiaMmaEncoding():
            leading = (1,) * (encoding.rank - 2)
            return (*leading, 2, 2 if encoding.version == 2 else encoding.instr_shape[1] // 4)
        case DotOperandEncoding(parent=BlockedEncoding() as parent):
            return parent.size_per_thread
    raise UserError(f"{encoding} has no fixed number of elements a thread")


def threads_per_warp(encoding: Encoding) -> Ints:
    """The threads of a warp along each dimension."""
    match encoding:
        case BlockedEncoding():
            return encoding.threads_per_warp
        case SliceEncoding():
            return squeeze(threads_per_warp(encoding.parent), encoding.dim)
        case NvidiaMmaEncoding():
            return (*(1,) * (encoding.rank - 2), 8, 4)
        case DotOperandEncoding():
            return threads_per_warp(encoding.parent)
    raise UserError(f"{encoding} does not place threads dimension by dimension")


def warps_per_cta(encoding: Encoding) -> Ints:
    """The warps of a block along each dimension."""
    match encoding:
        case BlockedEncoding() | NvidiaMmaEncoding():
            return encoding.warps_per_cta
        case SliceEncoding():
            return squeeze(warps_per_cta(encoding.parent), encoding.dim)
        case DotOperandEncoding():
            return warps_per_cta(encoding.parent)
    raise UserError(f"{encoding} does not place warps dimension by dimension")


def contig_per_thread(encoding: Encoding) -> Ints:
    """The elements of a thread that are next to each other along each dimension."""
    match encoding:
        case NvidiaMmaEncoding():
            return (*(1,) * (encoding.rank - 1), 2)
        case SliceEncoding():
            return erase(contig_per_thread(encoding.parent), encoding.dim)
        case DotOperandEncoding(parent=NvidiaMmaEncoding()):
            contiguous = [1] * rank_of(encoding)
            contiguous[-1 - encoding.op_idx] = encoding.k_width
            return tuple(contiguous)
    return size_per_thread(encoding)


def unique_contig_per_thread(type: TensorType) -> Ints:
    """The neighbouring elements of a thread that are not the same ones again."""
    encoding = encoding_of_type(type)
    if isinstance(encoding, SliceEncoding):
        padded = TensorType(insert(type.shape, encoding.dim, 1), type.element, encoding.parent)
        return erase(unique_contig_per_thread(padded), encoding.dim)
    extents = shape_per_cta(type.shape, cta_layout(encoding))
    return tuple(min(pair) for pair in zip(contig_per_thread(encoding), extents, strict=True))


def tile_of(encoding: Encoding) -> Ints:
    """The elements that all threads of a block hold at once along each dimension."""
    match encoding:
        case SliceEncoding():
            return erase(tile_of(encoding.parent), encoding.dim)
        case NvidiaMmaEncoding():
            rows, columns = (
                encoding.instr_shape[-2:]
                if encoding.version == 2
                else (*encoding.instr_shape[:1], encoding.instr_shape[1])
            )
            *batch, first, second = encoding.warps_per_cta
            return (*batch, rows * first, columns * second)
    fields = size_per_thread(encoding), threads_per_warp(encoding), warps_per_cta(encoding)
    return tuple(prod(each) for each in zip(*fields, strict=True))


def elements_by_dimension(shape: Sequence[int], encoding: Encoding) -> Ints:
    """The elements of a thread along each dimension, repetitions included."""
    match encoding:
        case SliceEncoding():
            padded = insert(shape, encoding.dim, 1)
            return erase(elements_by_dimension(padded, encoding.parent), encoding.dim)
        case BlockedEncoding() | NvidiaMmaEncoding():
            extents = shape_per_cta(shape, encoding.cta)
            sizes, tile = size_per_thread(encoding), tile_of(encoding)
            triples = zip(extents, tile, sizes, strict=True)
            return tuple(-(-extent // whole) * size for extent, whole, size in triples)
    raise UserError(f"{encoding} has no number of elements for each dimension")


def elements_per_thread(type: TensorType) -> int:
    """The number of elements of a tensor that a thread holds.

    >>> layout = default_blocked((64, 64), 4)
    >>> from ..ir.types import F32
    >>> elements_per_thread(TensorType((64, 64), F32, layout))
    32
    """
    encoding = encoding_of_type(type)
    match encoding:
        case LinearEncoding():
            return 1 << len(encoding.register)
        case DotOperandEncoding(parent=NvidiaMmaEncoding()):
            return _elements_of_operand(type.shape, encoding)
        case DotOperandEncoding(parent=BlockedEncoding()):
            return _elements_of_scalar_operand(type.shape, encoding)
    return prod(elements_by_dimension(type.shape, encoding))


def _elements_of_operand(shape: Sequence[int], encoding: DotOperandEncoding) -> int:
    """Of an operand of tensor cores: tiles of 16 (or 8) by 8 times `k_width`."""
    *batch, first, second = warps_per_cta(encoding)
    *extents, rows, columns = shape_per_cta(shape, cta_layout(encoding))
    depth = 8 * encoding.k_width
    outer = -(-rows // (16 * first)) if encoding.op_idx == 0 else -(-columns // (8 * second))
    inner = -(-(columns if encoding.op_idx == 0 else rows) // depth)
    each = (4 if encoding.op_idx == 0 else 2) * encoding.k_width
    repeated = prod(-(-extent // n) for extent, n in zip(extents, batch, strict=True))
    return outer * inner * each * repeated


def _elements_of_scalar_operand(shape: Sequence[int], encoding: DotOperandEncoding) -> int:
    """Of an operand of scalar products: a thread has the rows or columns of its results."""
    along = -2 if encoding.op_idx == 0 else -1
    extents = shape_per_cta(shape, cta_layout(encoding))
    tile, sizes = tile_of(encoding.parent), size_per_thread(encoding.parent)
    depth = extents[-1 if encoding.op_idx == 0 else -2]
    batch = prod(
        max(extent // whole, 1) * size
        for extent, whole, size in zip(extents[:-2], tile[:-2], sizes[:-2], strict=True)
    )
    return depth * max(extents[along] // tile[along], 1) * sizes[along] * batch


def thread_local_encoding(encoding: BlockedEncoding, axis: int) -> BlockedEncoding:
    """The layout with one dimension more, for what each thread holds along `axis`: a reduction
    over the new dimension stays in its thread."""
    rank = encoding.rank
    sizes = list(encoding.size_per_thread)
    sizes.append(sizes[axis])
    sizes[axis] = 1
    cta = encoding.cta
    return BlockedEncoding(
        sizes,
        (*encoding.threads_per_warp, 1),
        (*encoding.warps_per_cta, 1),
        (rank, *encoding.order),
        CTALayout((*cta.per_cga, 1), (*cta.split, 1), (*cta.order, rank)),
    )


def thread_local_shape(shape: Sequence[int], encoding: BlockedEncoding, axis: int) -> Ints:
    """The shape for `thread_local_encoding`."""
    own = elements_by_dimension(shape, encoding)[axis]
    made = [*shape, own]
    made[axis] = max(1, made[axis] // own)
    return tuple(made)


def encoding_of_type(type: ShapedType) -> Encoding:
    """The layout of a tensor.

    Raises:
        UserError: if it has none.
    """
    if not isinstance(type.encoding, Encoding):
        raise UserError(f"{type} has no layout")
    return type.encoding


def is_distributed(encoding: object) -> bool:
    """Whether a layout is over threads."""
    return isinstance(encoding, DistributedEncoding)


# Tuples with a dimension less or more.


def erase(values: Sequence[int], dim: int) -> Ints:
    """Without a dimension."""
    return (*values[:dim], *values[dim + 1 :])


def insert(values: Sequence[int], dim: int, value: int) -> Ints:
    """With a dimension more."""
    return (*values[:dim], value, *values[dim:])


def squeeze(values: Sequence[int], dim: int) -> Ints:
    """Without a dimension, whose number goes to its neighbour."""
    made = list(erase(values, dim))
    if made:
        made[dim if dim < len(made) else -1] *= values[dim]
    return tuple(made)
