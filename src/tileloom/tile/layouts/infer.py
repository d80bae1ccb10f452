"""The layouts of results from those of operands, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from ..ir.core import Operation
from ..ir.definitions import Trait
from ..ir.types import as_shaped
from .blocked import default_blocked
from .encodings import (
    BlockedEncoding,
    CTALayout,
    DistributedEncoding,
    Encoding,
    Ints,
    SharedEncoding,
    SliceEncoding,
)

KEEPING = frozenset((Trait.ELEMENTWISE, Trait.SAME_ENCODING, Trait.SAME_TYPE))
KEEPING_NAMES = frozenset(("tt.splat", "ttng.warp_group_dot_wait"))


def infer_dst_encoding(op: Operation, encoding: Encoding) -> Encoding | None:
    """The layout of an operation's results if its operands have a layout; None if none
    follows."""
    if keeps_encoding(op):
        return None if op.name == "tt.scan" and not _is_blocked(encoding) else encoding
    match op.name:
        case "tt.reduce":
            return _slice(op.integer("axis"), encoding)
        case "tt.expand_dims":
            return _parent(op.integer("axis"), encoding)
        case "tt.trans" | "ttg.memdesc_trans":
            return permuted(encoding, _order(op))
        case "tt.join":
            return joined(encoding)
        case "tt.split":
            return halved(encoding)
        case "tt.reshape":
            return _reshaped(op, encoding, backward=False)
    return None


def infer_src_encoding(op: Operation, encoding: Encoding) -> Encoding | None:
    """The layout that an operation's operands need so that its results have a layout; None if
    none does."""
    if keeps_encoding(op):
        return None if op.name == "tt.scan" and not _is_blocked(encoding) else encoding
    match op.name:
        case "tt.reduce":
            return _parent(op.integer("axis"), encoding)
        case "tt.expand_dims":
            return _slice(op.integer("axis"), encoding)
        case "tt.trans" | "ttg.memdesc_trans":
            return permuted(encoding, inverse(_order(op)))
        case "tt.join":
            return halved(encoding)
        case "tt.split":
            return joined(encoding)
        case "tt.reshape":
            return _reshaped(op, encoding, backward=True)
    return None


def keeps_encoding(op: Operation) -> bool:
    """Whether the results have the layout of the operands, whichever that is."""
    return (
        not KEEPING.isdisjoint(op.definition.traits)
        or op.name in KEEPING_NAMES
        or op.name.startswith("scf.")
    )


def _is_blocked(encoding: Encoding) -> bool:
    return isinstance(encoding, BlockedEncoding)


def _slice(axis: int, encoding: Encoding) -> Encoding | None:
    return SliceEncoding(axis, encoding) if isinstance(encoding, DistributedEncoding) else None


def _parent(axis: int, encoding: Encoding) -> Encoding | None:
    if isinstance(encoding, SliceEncoding) and encoding.dim == axis:
        return encoding.parent
    return None


def _order(op: Operation) -> Ints:
    return op.attributes["order"].values  # type: ignore[attr-defined,no-any-return]


def inverse(order: Sequence[int]) -> Ints:
    """The inverse of a permutation.

    >>> inverse((1, 2, 0))
    (2, 0, 1)
    """
    return tuple(order.index(dim) for dim in range(len(order)))


def permuted(encoding: Encoding, order: Sequence[int]) -> Encoding | None:
    """The layout of a tensor with its dimensions permuted."""
    if tuple(order) == tuple(range(len(order))):
        return encoding

    def moved(values: Sequence[int]) -> Ints:
        return tuple(values[dim] for dim in order)

    new_place = inverse(order)

    def renamed(dims: Sequence[int]) -> Ints:
        return tuple(new_place[dim] for dim in dims)

    match encoding:
        case BlockedEncoding(cta=cta) | SharedEncoding(cta=cta):
            outer = CTALayout(moved(cta.per_cga), moved(cta.split), renamed(cta.order))
    match encoding:
        case SharedEncoding():
            return encoding.replace(order=renamed(encoding.order), cta=outer)  # type: ignore[no-any-return]
        case BlockedEncoding():
            fields = (
                encoding.size_per_thread,
                encoding.threads_per_warp,
                encoding.warps_per_cta,
            )
            return BlockedEncoding(*map(moved, fields), renamed(encoding.order), outer)
    return None


def joined(encoding: Encoding) -> Encoding | None:
    """The layout of two tensors joined along a new last dimension, both in the same thread."""
    if not isinstance(encoding, BlockedEncoding):
        return None
    rank, cta = encoding.rank, encoding.cta
    return BlockedEncoding(
        (*encoding.size_per_thread, 2),
        (*encoding.threads_per_warp, 1),
        (*encoding.warps_per_cta, 1),
        (rank, *encoding.order),
        CTALayout((*cta.per_cga, 1), (*cta.split, 1), (rank, *cta.order)),
    )


def halved(encoding: Encoding) -> Encoding | None:
    """The layout of the halves of a tensor along its last dimension, if a thread has both."""
    if not isinstance(encoding, BlockedEncoding):
        return None
    last, cta = encoding.rank - 1, encoding.cta
    whole = (
        encoding.size_per_thread[last] == 2
        and encoding.threads_per_warp[last] == 1
        and encoding.warps_per_cta[last] == 1
        and cta.per_cga[last] == 1
    )
    if not whole or not last:
        return None
    return BlockedEncoding(
        encoding.size_per_thread[:last],
        encoding.threads_per_warp[:last],
        encoding.warps_per_cta[:last],
        tuple(dim for dim in encoding.order if dim != last),
        CTALayout(
            cta.per_cga[:last], cta.split[:last], tuple(dim for dim in cta.order if dim != last)
        ),
    )


def _reshaped(op: Operation, encoding: Encoding, *, backward: bool) -> Encoding | None:
    """The layout after, or before, a reshape that keeps the elements in their threads."""
    if "allow_reorder" in op.attributes or not isinstance(encoding, BlockedEncoding):
        return None
    source, result = as_shaped(op.operands[0].type).shape, as_shaped(op.results[0].type).shape
    before, after = (result, source) if backward else (source, result)
    return reshaped(encoding, before, after)


def reshaped(
    encoding: BlockedEncoding, before: Sequence[int], after: Sequence[int]
) -> BlockedEncoding | None:
    """The layout of a reshaped tensor in which each thread has the elements that it had, or None.

    The shapes are cut into chunks of as many elements. The dimensions of a chunk must follow each
    other in the layout's order, and threads and warps must fill the faster ones first. It is
    symmetric: from the result back to `before` comes `encoding`, up to the order of CTAs.
    """
    if tuple(before) == tuple(after):
        return encoding
    blocks = prod(encoding.cta.per_cga)
    warps, threads = prod(encoding.warps_per_cta), prod(encoding.threads_per_warp)
    if encoding is default_blocked(before, warps, threads, blocks):
        return default_blocked(after, warps, threads, blocks)
    if blocks != 1 or prod(encoding.cta.split) != 1:
        return None
    chunks = reshape_chunks(before, after)
    places = inverse(encoding.order)
    fields = encoding.size_per_thread, encoding.threads_per_warp, encoding.warps_per_cta
    if not all(_divides(before, field) for field in fields):
        return None
    if not all(_follow(places, old) and _fills(before, fields, old) for old, _ in chunks):
        return None
    # Chunks in the layout's order, fastest first, and so their new dimensions.
    chunks.sort(key=lambda chunk: places[chunk[0][0]])
    order = tuple(d for _, new in chunks for d in reversed(new))
    rank = len(after)
    cta = CTALayout((1,) * rank, (1,) * rank, tuple(range(rank)))
    left = list(after)
    return BlockedEncoding(*(_refilled(field, chunks, left) for field in fields), order, cta)


Chunk = tuple[list[int], list[int]]


def reshape_chunks(shape: Sequence[int], new_shape: Sequence[int]) -> list[Chunk]:
    """The smallest groups of dimensions of two shapes that have as many elements.

    >>> reshape_chunks((2, 2, 32), (4, 32))
    [([0, 1], [0]), ([2], [1])]
    """
    chunks: list[Chunk] = [([], [])]
    i = j = 0
    old = new = 1
    while i < len(shape) or j < len(new_shape):
        if i < len(shape) and (old < new or old == 1 or shape[i] == 1):
            old *= shape[i]
            chunks[-1][0].append(i)
            i += 1
        elif j < len(new_shape) and (new < old or new_shape[j] == 1):
            new *= new_shape[j]
            chunks[-1][1].append(j)
            j += 1
        else:
            chunks.append(([], []))
            old = new = 1
    return chunks


def _divides(shape: Sequence[int], field: Ints) -> bool:
    return all(n < part or n % part == 0 for n, part in zip(shape, field, strict=True))


def _follow(places: Ints, dims: Sequence[int]) -> bool:
    """Whether dimensions, slowest first, follow each other in the order."""
    return all(places[a] == places[b] + 1 for a, b in pairwise(dims))


def _fills(shape: Sequence[int], fields: Sequence[Ints], dims: Sequence[int]) -> bool:
    """Whether slower dimensions of a chunk are cut only after faster ones are used up; only the
    slowest may be smaller than what is laid over it."""
    left = [shape[d] for d in dims]
    for field in fields:
        for i in range(len(dims) - 1, -1, -1):
            part = field[dims[i]]
            if part == 1:
                continue
            if any(n != 1 for n in left[i + 1 :]):
                return False
            left[i] = left[i] // part if left[i] >= part else 0
            if left[i] == 0 and i != 0:
                return False
    return True


def _refilled(field: Ints, chunks: Sequence[Chunk], left: list[int]) -> Ints:
    """The numbers of a field along the new dimensions, faster ones filled first."""
    made = [1] * len(left)
    for old, new in chunks:
        rest = prod(field[d] for d in old)
        for d in reversed(new):
            made[d] = min(rest, left[d])
            rest //= made[d]
            left[d] //= made[d]
        made[new[0]] *= rest  # more than there are: the slowest gets it
    return tuple(made)
