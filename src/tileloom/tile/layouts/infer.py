"""The layouts of results from those of operands, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.core import Operation
from ..ir.definitions import Trait
from ..ir.types import as_shaped
from .blocked import default_blocked, erase, insert
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


def infer_dst_encoding(op: Operation, encoding: Encoding) -> Encoding | None:
    """The layout of an operation's results if its operands have a layout; None if none
    follows."""
    if op.definition.traits & KEEPING or op.name.startswith("scf."):
        return encoding
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
    if op.definition.traits & KEEPING or op.name.startswith("scf."):
        return encoding
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
        and encoding.order[0] == last
    )
    if not whole:
        return None
    return BlockedEncoding(
        encoding.size_per_thread[:last],
        encoding.threads_per_warp[:last],
        encoding.warps_per_cta[:last],
        encoding.order[1:],
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
    """The layout of a tensor seen in another shape, elements in the same threads and registers:
    of a default layout the default one, or with dimensions of extent 1 put in or taken out."""
    if tuple(before) == tuple(after):
        return encoding
    warps, threads = 1, 1
    for n in encoding.warps_per_cta:
        warps *= n
    for n in encoding.threads_per_warp:
        threads *= n
    if not encoding.cta.is_default:
        return None
    if encoding is default_blocked(before, warps, threads):
        return default_blocked(after, warps, threads)
    return _with_units(encoding, before, after)


def _with_units(
    encoding: BlockedEncoding, before: Sequence[int], after: Sequence[int]
) -> BlockedEncoding | None:
    """With dimensions of extent 1 put in or taken out, where no thread is spread over them."""
    if [n for n in before if n != 1] != [n for n in after if n != 1]:
        return None
    made = encoding
    for dim in range(len(before) - 1, -1, -1):
        if before[dim] != 1:
            continue
        fields = made.size_per_thread, made.threads_per_warp, made.warps_per_cta
        if any(field[dim] != 1 for field in fields):
            return None
        order = tuple(d - (d > dim) for d in made.order if d != dim)
        made = BlockedEncoding(*(erase(field, dim) for field in fields), order)
    for dim, extent in enumerate(after):
        if extent == 1:
            fields = made.size_per_thread, made.threads_per_warp, made.warps_per_cta
            order = (*(d + (d >= dim) for d in made.order), dim)
            made = BlockedEncoding(*(insert(field, dim, 1) for field in fields), order)
    return made
