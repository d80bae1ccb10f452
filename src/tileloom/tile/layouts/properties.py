"""What is asked of every layout: sizes, orders, elements of a thread.

All of it is per dimension, and counts as Triton does: elements that several threads have count for
each of them, and so do those of a tile that is larger than the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
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


def matrix_order(rank: int, row_major: bool = True) -> Ints:
    """The order of a matrix, or of a batch of them, fastest dimension first.

    >>> matrix_order(2), matrix_order(3, row_major=False)
    ((1, 0), (1, 2, 0))
    """
    order = list(range(rank - 1, -1, -1))
    if not row_major:
        order[:2] = order[1], order[0]
    return tuple(order)


def _unknown(question: str, encoding: object) -> UserError:
    return UserError(f"the {question} of {encoding} are not known")


def rank_of(encoding: Encoding) -> int:
    """The number of dimensions of the tensors that a layout is for."""
    match encoding:
        case BlockedEncoding() | NvidiaMmaEncoding() | SharedEncoding():
            return encoding.rank
        case SliceEncoding(parent=parent):
            return rank_of(parent) - 1
        case DotOperandEncoding(parent=parent):
            return rank_of(parent)
        case LinearEncoding():
            return linear_rank(encoding)
    raise _unknown("dimensions", encoding)


# The tile: what a thread, a warp and a block have of it.


@cache
def size_per_thread(encoding: Encoding) -> Ints:
    """The elements of one tile that a thread has, along each dimension."""
    match encoding:
        case BlockedEncoding():
            return encoding.size_per_thread
        case SliceEncoding(dim=dim, parent=parent):
            return erase(size_per_thread(parent), dim)
        case NvidiaMmaEncoding(version=2):
            return (*(1,) * (encoding.rank - 2), 2, 2)
        case NvidiaMmaEncoding(version=3):
            return encoding.instr_shape[0] * 4 // 32, encoding.instr_shape[1] // 4
        case DotOperandEncoding(parent=BlockedEncoding() as parent):
            return parent.size_per_thread
        case DotOperandEncoding(op_idx=index, parent=NvidiaMmaEncoding() as parent):
            mine = (2, 2 * encoding.k_width) if index == 0 else (2 * encoding.k_width, 1)
            return (*(1,) * (parent.rank - 2), *mine)
        case LinearEncoding():
            return extents(encoding.register, linear_rank(encoding))
    raise _unknown("sizes per thread", encoding)


@cache
def threads_per_warp(encoding: Encoding) -> Ints:
    """The threads of a warp along each dimension; a slice counts those along the dimension that
    it has not to a neighbour."""
    match encoding:
        case BlockedEncoding():
            return encoding.threads_per_warp
        case SliceEncoding(dim=dim, parent=parent):
            return squeeze(threads_per_warp(parent), dim)
        case NvidiaMmaEncoding():
            return (*(1,) * (encoding.rank - 2), 8, 4)
        case DotOperandEncoding(parent=BlockedEncoding() as parent):
            return parent.threads_per_warp
        case DotOperandEncoding(op_idx=index, parent=NvidiaMmaEncoding() as parent):
            return (*(1,) * (parent.rank - 2), *((8, 4) if index == 0 else (4, 8)))
        case LinearEncoding():
            return extents(encoding.lane, linear_rank(encoding))
    raise _unknown("threads per warp", encoding)


@cache
def warps_per_cta(encoding: Encoding) -> Ints:
    """The warps of a block along each dimension; slices as in `threads_per_warp`."""
    match encoding:
        case BlockedEncoding() | NvidiaMmaEncoding():
            return encoding.warps_per_cta
        case SliceEncoding(dim=dim, parent=parent):
            return squeeze(warps_per_cta(parent), dim)
        case DotOperandEncoding(parent=parent):
            warps = list(warps_per_cta(parent))
            warps[k_dim(encoding)] = 1
            return tuple(warps)
        case LinearEncoding():
            return extents(encoding.warp, linear_rank(encoding))
    raise _unknown("warps", encoding)


def k_dim(encoding: DotOperandEncoding) -> int:
    """The dimension of an operand over which products are summed."""
    return rank_of(encoding.parent) - (1 if encoding.op_idx == 0 else 2)


def warp_count(encoding: Encoding) -> int:
    """The warps of a block, with those that have the same elements."""
    match encoding:
        case SliceEncoding(parent=parent) | DotOperandEncoding(parent=parent):
            return warp_count(parent)
        case LinearEncoding():
            return 1 << len(encoding.warp)
    return prod(warps_per_cta(encoding))


def lane_count(encoding: Encoding) -> int:
    """The threads of a warp, with those that have the same elements."""
    match encoding:
        case SliceEncoding(parent=parent) | DotOperandEncoding(parent=parent):
            return lane_count(parent)
        case LinearEncoding():
            return 1 << len(encoding.lane)
    return prod(threads_per_warp(encoding))


@cache
def tile_of(encoding: Encoding) -> Ints:
    """The shape that the threads of a block cover together, before anything is repeated."""
    if isinstance(encoding, SliceEncoding):
        return erase(tile_of(encoding.parent), encoding.dim)
    parts = size_per_thread(encoding), threads_per_warp(encoding), warps_per_cta(encoding)
    return tuple(map(prod, zip(*parts, strict=True)))


# Orders.


@cache
def order_of(encoding: Encoding) -> Ints:
    """The dimensions, those first along which the elements of a thread are nearest."""
    match encoding:
        case BlockedEncoding() | SharedEncoding():
            return encoding.order
        case NvidiaMmaEncoding():
            return matrix_order(encoding.rank)
        case DotOperandEncoding(op_idx=index):  # K is the fastest
            return matrix_order(rank_of(encoding), row_major=index == 0)
        case SliceEncoding(dim=dim, parent=parent):
            return without_dim(order_of(parent), dim)
        case LinearEncoding():
            return _linear_order(encoding, encoding.register, encoding.lane)
    raise _unknown("order", encoding)


@cache
def thread_order_of(encoding: Encoding) -> Ints:
    """The dimensions, those first along which neighbouring threads of a warp are."""
    if isinstance(encoding, LinearEncoding):
        return _linear_order(encoding, encoding.lane, encoding.register)
    if isinstance(encoding, SliceEncoding):
        return without_dim(thread_order_of(encoding.parent), encoding.dim)
    return order_of(encoding)


@cache
def warp_order_of(encoding: Encoding) -> Ints:
    """The dimensions, those first along which neighbouring warps are."""
    match encoding:
        case SliceEncoding(dim=dim, parent=parent):
            return without_dim(warp_order_of(parent), dim)
        case NvidiaMmaEncoding(version=3):
            return matrix_order(encoding.rank, row_major=False)
        case DotOperandEncoding(parent=parent):
            return warp_order_of(parent)
        case LinearEncoding():
            return _linear_order(encoding, encoding.warp, encoding.register)
    return order_of(encoding)


def without_dim(order: Ints, dim: int) -> Ints:
    """An order of dimensions when one of them is taken away.

    >>> without_dim((0, 2, 4, 3, 1), 2)
    (0, 3, 2, 1)
    """
    return tuple(d - (d > dim) for d in order if d != dim)


# Thread blocks.


@cache
def cta_layout(encoding: Encoding) -> CTALayout:
    """How thread blocks of a cluster share the tensor."""
    match encoding:
        case BlockedEncoding() | NvidiaMmaEncoding() | SharedEncoding():
            return encoding.cta
        case SliceEncoding(dim=dim, parent=parent):
            cta = cta_layout(parent)
            return CTALayout(
                erase(cta.per_cga, dim), erase(cta.split, dim), without_dim(cta.order, dim)
            )
        case DotOperandEncoding(parent=parent):
            cta = cta_layout(parent)
            split = list(cta.split)
            split[k_dim(encoding)] = 1
            return CTALayout(cta.per_cga, tuple(split), cta.order)
        case LinearEncoding():
            split_ = extents(encoding.block, linear_rank(encoding))
            return CTALayout(split_, split_, matrix_order(len(split_)))
    raise _unknown("thread blocks", encoding)


def shape_per_cta(shape: Sequence[int], cta: CTALayout) -> Ints:
    """The part of a tensor that one thread block has. A shape may have dimensions more, in front,
    as that of several buffers has: they are not cut."""
    extra = len(shape) - cta.rank
    parts = zip(shape[extra:], cta.split, strict=True)
    return (*shape[:extra], *(n // min(n, count) for n, count in parts))


# Elements of a thread.


def elements_by_dimension(shape: Sequence[int], encoding: Encoding) -> Ints:
    """The elements that a thread has of a tensor, along each dimension.

    >>> elements_by_dimension((64, 64), BlockedEncoding((1, 4), (2, 16), (4, 1), (1, 0)))
    (8, 4)
    """
    return _elements(tuple(shape), encoding)


def elements_per_thread(type: TensorType) -> int:
    """The number of elements that a thread has of a tensor.

    >>> from ..ir.types import F32
    >>> layout = BlockedEncoding((1, 1), (1, 32), (4, 1), (1, 0))
    >>> elements_per_thread(TensorType((64, 64), F32, layout))
    32
    """
    return prod(_elements(type.shape, encoding_of_type(type)))


@cache
def _elements(shape: Ints, encoding: Encoding) -> Ints:
    match encoding:
        case SliceEncoding(dim=dim, parent=parent):
            return erase(_elements(insert(shape, dim, 1), parent), dim)
        case DotOperandEncoding(parent=NvidiaMmaEncoding() as parent):
            return _operand_elements(shape, encoding, parent)
        case DotOperandEncoding(parent=parent):
            return _product_elements(shape, encoding, parent)
        case LinearEncoding():
            return _linear_elements(shape, encoding)
    tile, size = tile_of(encoding), size_per_thread(encoding)
    per_cta = shape_per_cta(shape, cta_layout(encoding))
    return tuple(-(-n // t) * s for n, t, s in zip(per_cta, tile, size, strict=True))


def _product_elements(shape: Ints, encoding: DotOperandEncoding, parent: Encoding) -> Ints:
    """Of an operand of a product that is done without tensor cores: all of K."""
    k = k_dim(encoding)
    per_cta = shape_per_cta(shape, cta_layout(encoding))
    tile, size = tile_of(parent), size_per_thread(parent)
    return tuple(n if d == k else max(n // tile[d], 1) * size[d] for d, n in enumerate(per_cta))


def _operand_elements(shape: Ints, encoding: DotOperandEncoding, parent: NvidiaMmaEncoding) -> Ints:
    """Of an operand of tensor cores: tiles of 16 (or 8) by 8 times `k_width`."""
    k, rank = k_dim(encoding), len(shape)
    per_cta = shape_per_cta(shape, cta_layout(encoding))
    tile = [1] * rank
    tile[rank - 2 :] = (16, 8)
    tile[k] = 8 * encoding.k_width
    warps, size = warps_per_cta(encoding), size_per_thread(encoding)
    sizes = zip(per_cta, tile, warps, size, strict=True)
    return tuple(-(-n // (t * w)) * s for n, t, w, s in sizes)


# Runs of neighbours.


@cache
def contig_per_thread(encoding: Encoding) -> Ints:
    """The neighbours along each dimension that a thread has, in one tile."""
    match encoding:
        case NvidiaMmaEncoding():
            return (*(1,) * (encoding.rank - 1), 2)
        case SliceEncoding(dim=dim, parent=parent):
            return erase(contig_per_thread(parent), dim)
        case DotOperandEncoding(parent=NvidiaMmaEncoding()):
            k = k_dim(encoding)
            return tuple(encoding.k_width if d == k else 1 for d in range(rank_of(encoding)))
        case LinearEncoding():
            return tuple(_run(encoding.register, d) for d in range(linear_rank(encoding)))
    return size_per_thread(encoding)


def unique_contig_per_thread(type: TensorType) -> Ints:
    """The neighbours along each dimension of a tensor that a thread has: runs end with the
    tensor, where elements are the same ones again."""
    return tuple(map(min, type.shape, contig_per_thread(encoding_of_type(type))))


# Layouts by bases.


def linear_rank(encoding: LinearEncoding) -> int:
    """The dimensions of a layout by bases."""
    for bases in (encoding.register, encoding.lane, encoding.warp, encoding.block):
        if bases:
            return len(bases[0])
    return 1


def extents(bases: Iterable[Ints], rank: int) -> Ints:
    """How many positions bases reach along each dimension."""
    sizes = [1] * rank
    for basis in bases:
        for d, step in enumerate(basis):
            if step:
                sizes[d] *= 2
    return tuple(sizes)


def _linear_order(encoding: LinearEncoding, *fields: Iterable[Ints]) -> Ints:
    moved = (d for bases in fields for basis in bases for d, step in enumerate(basis) if step)
    return tuple(dict.fromkeys((*moved, *matrix_order(linear_rank(encoding)))))


def _linear_elements(shape: Ints, encoding: LinearEncoding) -> Ints:
    rank = linear_rank(encoding)
    size = extents(encoding.register, rank)
    parts = (
        size,
        *(extents(bases, rank) for bases in (encoding.lane, encoding.warp, encoding.block)),
    )
    covered = map(prod, zip(*parts, strict=True))
    return tuple(max(1, n // c) * s for n, c, s in zip(shape, covered, size, strict=True))


def _run(bases: Iterable[Ints], dim: int) -> int:
    run = 1
    for basis in bases:
        if basis[dim] == run and sum(basis) == run:
            run *= 2
        elif any(basis):
            break
    return run


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
