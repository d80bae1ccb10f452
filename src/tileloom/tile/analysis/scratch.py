"""The shared memory that an operation needs while it runs, in bytes.

Threads exchange through it what registers of one warp do not have: partial results of reductions
and scans, counts of histograms, tensors whose layout changes, what one thread got from an atomic
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..ir.attributes import integer_value
from ..ir.core import Operation
from ..ir.types import TensorType, Type, as_tensor, element_bits, pointee
from ..layouts.conversion import needs_shared_memory
from ..layouts.encodings import (
    BlockedEncoding,
    Encoding,
    Ints,
    NvidiaMmaEncoding,
    SliceEncoding,
)
from ..layouts.properties import (
    contig_per_thread,
    cta_layout,
    encoding_of_type,
    erase,
    insert,
    order_of,
    shape_per_cta,
    size_per_thread,
    threads_per_warp,
    tile_of,
    unique_contig_per_thread,
    warps_per_cta,
)

TENSOR_MAP = 128  # bytes of a descriptor


def scratch_size(op: Operation) -> int:
    """The bytes of shared memory that an operation needs for itself, but for calls."""
    rule = RULES.get(op.name)
    return rule(op) if rule is not None else 0


def bytes_of(type: Type) -> int:
    """The bytes of an element in shared memory: at least one."""
    return -(-element_bits(type) // 8)


# Threads that have elements of their own.


def unique_threads(encoding: Encoding, shape: Sequence[int]) -> Ints:
    """The threads of a warp along each dimension that have different elements."""
    if isinstance(encoding, SliceEncoding):
        padded = insert(shape, encoding.dim, 1)
        return erase(unique_threads(encoding.parent, padded), encoding.dim)
    parts = zip(threads_per_warp(encoding), shape, size_per_thread(encoding), strict=True)
    return tuple(min(threads, -(-extent // size)) for threads, extent, size in parts)


def unique_warps(encoding: Encoding, shape: Sequence[int]) -> Ints:
    """The warps of a block along each dimension that have different elements."""
    if isinstance(encoding, SliceEncoding):
        padded = insert(shape, encoding.dim, 1)
        return erase(unique_warps(encoding.parent, padded), encoding.dim)
    sizes, threads = size_per_thread(encoding), threads_per_warp(encoding)
    parts = zip(warps_per_cta(encoding), shape, sizes, threads, strict=True)
    return tuple(min(warps, -(-extent // (s * t))) for warps, extent, s, t in parts)


# Rules.


def _reduction(op: Operation) -> int:
    """Each warp along the axis has a partial result."""
    type = as_tensor(op.operands[0].type)
    encoding, axis = encoding_of_type(type), op.integer("axis")
    warps = unique_warps(encoding, type.shape)[axis]
    if warps == 1:
        return 0
    extent = type.shape[axis]
    held = min(extent, contig_per_thread(encoding)[axis])
    in_warp = min(extent // held, unique_threads(encoding, type.shape)[axis])
    shape = [*type.shape]
    shape[axis] = min(extent // in_warp, warps)
    return prod(shape) * sum(bytes_of(operand.type) for operand in op.operands)


def _scan(op: Operation) -> int:
    """Each warp has the last results of its parts, for the warps after it along the axis."""
    type = as_tensor(op.operands[0].type)
    encoding, axis = encoding_of_type(type), op.integer("axis")
    if not isinstance(encoding, BlockedEncoding):
        return 0
    if unique_warps(encoding, type.shape)[axis] == 1:
        return 0
    sizes, threads = encoding.size_per_thread, encoding.threads_per_warp
    tiles = (-(-n // t) for n, t in zip(type.shape, tile_of(encoding), strict=True))
    others = prod(erase(sizes, axis)) * prod(erase(threads, axis))
    elements = prod(encoding.warps_per_cta) * others * prod(tiles)
    return elements * sum(bytes_of(operand.type) for operand in op.operands)


def _histogram(op: Operation) -> int:
    """A count of each bin, and at least one for each thread of a warp."""
    type = as_tensor(op.results[0].type)
    module = list(op.ancestors())[-1]
    threads = integer_value(module.attributes.get("ttg.threads-per-warp")) or 32
    return max(type.size, threads) * bytes_of(type)


def _gather(op: Operation) -> int:
    """The whole source."""
    type = as_tensor(op.operands[0].type)
    return prod(shape_per_cta(type.shape, cta_layout(encoding_of_type(type)))) * bytes_of(type)


def _conversion(op: Operation) -> int:
    source, target = as_tensor(op.operands[0].type), as_tensor(op.results[0].type)
    return conversion_scratch(source, target)


def _atomic(op: Operation) -> int:
    """The one value that a scalar operation gives all threads."""
    result = op.results[0]
    if isinstance(result.type, TensorType) or not result.users:
        return 0
    return bytes_of(pointee(op.operands[0].type))


RULES: dict[str, Callable[[Operation], int]] = {
    "tt.reduce": _reduction,
    "tt.scan": _scan,
    "tt.histogram": _histogram,
    "tt.gather": _gather,
    "ttg.convert_layout": _conversion,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    **dict.fromkeys(
        ("tt.experimental_tensormap_create", "ttng.tensormap_create"), lambda _op: TENSOR_MAP
    ),
}


# Changes of layout.


def conversion_scratch(source: TensorType, target: TensorType) -> int:
    """The bytes through which a tensor changes its layout: a tile at a time, its rows padded
    against conflicts of banks."""
    if not needs_shared_memory(source, target):
        return 0
    return prod(padded_tile(source, target)) * bytes_of(source)


def padded_tile(source: TensorType, target: TensorType) -> Ints:
    """The shape, with padding, of the part of a tensor that is in shared memory at once."""
    before, after = encoding_of_type(source), encoding_of_type(target)
    tile = [
        max(min(n, a), min(m, b))
        for n, a, m, b in zip(
            shape_per_cta(source.shape, cta_layout(before)),
            tile_of(before),
            shape_per_cta(target.shape, cta_layout(after)),
            tile_of(after),
            strict=True,
        )
    ]
    write_first, read_first = order_of(before)[0], order_of(after)[0]
    if len(tile) == 1 or prod(tile) == tile[read_first]:
        return tuple(tile)
    last = len(tile) - 1
    written = unique_contig_per_thread(source)[write_first]
    read = unique_contig_per_thread(target)[read_first]
    to_blocked = isinstance(before, NvidiaMmaEncoding) and isinstance(after, BlockedEncoding)
    wide_write = written if read_first == last and write_first == last else 1
    wide_read = read if read_first == last or to_blocked else 1
    tile[read_first] += max(wide_write, wide_read)
    return tuple(tile)
