"""The linear layout of every encoding: what each register of each thread has of a tensor.

The output dimensions are `dim0`, `dim1`, ..., the last one first, so that a packed output is the
number of an element in row-major order. The inputs are `register`, `lane`, `warp` and `block` of
layouts over threads, and `offset` and `block` of shared memory. There are as many registers as
`elements_per_thread` says: where a tile is larger than the tensor, bases are zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from ...base.errors import UserError
from .encodings import (
    BlockedEncoding,
    CTALayout,
    DotOperandEncoding,
    Encoding,
    Ints,
    LinearEncoding,
    NvidiaMmaEncoding,
    SharedEncoding,
    SliceEncoding,
)
from .linear_layout import LinearLayout, log2
from .properties import (
    cta_layout,
    elements_by_dimension,
    insert,
    k_dim,
    linear_rank,
    matrix_order,
    order_of,
    rank_of,
    warp_order_of,
)

Step = tuple[int, int] | None  # a dimension and the bit of it that is set; None moves nothing


def to_linear_layout(shape: Sequence[int], encoding: Encoding, bits: int = 16) -> LinearLayout:
    """The linear layout of a tensor, or of a buffer in shared memory.

    Args:
        bits: the width of an element, for shared memory that `wgmma` reads.

    Raises:
        UserError: if sizes are not powers of two.

    >>> layout = to_linear_layout((16, 16), BlockedEncoding((1, 2), (4, 8), (2, 1), (1, 0)))
    >>> layout.apply(register=1, lane=9, warp=1)
    {'dim1': 3, 'dim0': 5}
    """
    rank = rank_of(encoding)
    if len(shape) != rank and not (isinstance(encoding, SharedEncoding) and len(shape) > rank):
        raise UserError(f"{encoding} is for tensors of {rank} dimensions, not {len(shape)}")
    return _layout(tuple(shape), encoding, bits if _needs_bits(encoding) else 0)


def _needs_bits(encoding: Encoding) -> bool:
    return isinstance(encoding, SharedEncoding) and encoding.leading_offset


@cache
def _layout(shape: Ints, encoding: Encoding, bits: int) -> LinearLayout:
    match encoding:
        case BlockedEncoding():
            return _blocked(shape, encoding)
        case SliceEncoding():
            return _slice(shape, encoding)
        case NvidiaMmaEncoding():
            return _accumulators(shape, encoding)
        case DotOperandEncoding(parent=NvidiaMmaEncoding() as parent):
            return _operand(shape, encoding, parent)
        case DotOperandEncoding(parent=BlockedEncoding() as parent):
            return _scalar_operand(shape, encoding, parent)
        case LinearEncoding():
            return _by_bases(shape, encoding)
        case SharedEncoding():
            return _shared(shape, encoding, bits)
    raise UserError(f"the linear layout of {encoding} is not known")


def dim_names(rank: int) -> list[str]:
    """The output dimensions of a layout, lowest bits first.

    >>> dim_names(2)
    ['dim1', 'dim0']
    """
    return [f"dim{d}" for d in range(rank - 1, -1, -1)]


class TileSteps:
    """A tile that is put together of steps: each doubles it along a dimension.

    Attributes:
        extents: the bits that the tile has along each dimension.
    """

    def __init__(self, rank: int, ins: Iterable[str] = ("register", "lane", "warp")) -> None:
        self.extents = [0] * rank
        self.steps: dict[str, list[Step]] = {name: [] for name in ins}

    def add(self, name: str, dim: int, size: int) -> TileSteps:
        """Lays `size` positions of an input along a dimension, above what is there."""
        start = self.extents[dim]
        bits = log2(size)
        self.steps[name] += [(dim, start + k) for k in range(bits)]
        self.extents[dim] += bits
        return self

    def add_all(self, name: str, sizes: Sequence[int], order: Sequence[int]) -> TileSteps:
        """Lays positions of an input along all dimensions, in an order."""
        for dim in order:
            self.add(name, dim, sizes[dim])
        return self

    def add_copies(self, name: str, count: int) -> TileSteps:
        """Lets positions of an input have the same elements."""
        self.steps[name] += [None] * log2(count)
        return self

    def fit(self, shape: Sequence[int], cta: CTALayout, order: Sequence[int]) -> LinearLayout:
        """The layout of a shape: thread blocks share it; the tile is repeated over the part of a
        block, or cut where it is larger.

        Args:
            order: the dimensions along which registers repeat the tile, first ones first.
        """
        total = [log2(size) for size in shape]
        blocks, split = _blocks(total, cta)
        part = [size - bits for size, bits in zip(total, split, strict=True)]
        repeated = next(iter(self.steps))
        for dim in order:
            left = part[dim] - self.extents[dim]
            if left > 0:
                self.add(repeated, dim, 1 << left)
        starts = [sum(total[dim + 1 :]) for dim in range(len(total))]
        bases = {
            name: [
                0 if step is None or step[1] >= part[step[0]] else 1 << starts[step[0]] + step[1]
                for step in steps
            ]
            for name, steps in self.steps.items()
        }
        bases["block"] = [
            0 if step is None else 1 << starts[step[0]] + part[step[0]] + step[1] for step in blocks
        ]
        return LinearLayout(bases, {f"dim{d}": total[d] for d in range(len(total) - 1, -1, -1)})


def _blocks(total: Sequence[int], cta: CTALayout) -> tuple[list[Step], list[int]]:
    """The steps of blocks, and into how many parts, in bits, they cut each dimension."""
    steps: list[Step] = []
    split = [0] * len(total)
    for dim in cta.order:
        parts, count = log2(cta.split[dim]), log2(cta.per_cga[dim])
        split[dim] = min(parts, total[dim])
        steps += [(dim, k) if k < total[dim] else None for k in range(parts)]
        steps += [None] * (count - parts)
    return steps, split


# Layouts over threads.


def _blocked(shape: Ints, encoding: BlockedEncoding) -> LinearLayout:
    tile = TileSteps(len(shape))
    tile.add_all("register", encoding.size_per_thread, encoding.order)
    tile.add_all("lane", encoding.threads_per_warp, encoding.order)
    tile.add_all("warp", encoding.warps_per_cta, encoding.order)
    return tile.fit(shape, encoding.cta, encoding.order)


def _slice(shape: Ints, encoding: SliceEncoding) -> LinearLayout:
    """The parent's layout of the shape with a dimension of 1, which takes no bits."""
    parent = _layout(insert(shape, encoding.dim, 1), encoding.parent, 0)
    names = dim_names(len(shape))
    moving = [basis for basis in parent.bases["register"] if basis]
    count = 1
    for n in elements_by_dimension(shape, encoding):
        count *= n
    copies = max(0, log2(count) - len(moving))
    bases = {**parent.bases, "register": [*moving, *[0] * copies]}
    bits = [bits for name, bits in parent.outs.items() if name != f"dim{encoding.dim}"]
    return LinearLayout(bases, dict(zip(names, bits, strict=True)))


def mma_tile(
    tile: TileSteps, rows: int, columns: int, width: int, inner: int, outer: int
) -> TileSteps:
    """Lays out the matrix of an instruction of tensor cores: 8 rows by 4 threads of `width`
    neighbours each, repeated along the rows (`outer`), then the columns (`inner`)."""
    tile.add("register", inner, width).add("lane", inner, 4).add("lane", outer, 8)
    tile.add("register", outer, rows // 8)
    return tile.add("register", inner, columns // (4 * width))


def _accumulators(shape: Ints, encoding: NvidiaMmaEncoding) -> LinearLayout:
    rank = len(shape)
    rows, columns = encoding.instr_shape[:2] if encoding.version == 3 else encoding.instr_shape[-2:]
    if encoding.version not in (2, 3):
        raise UserError(f"the layout of mma of version {encoding.version} is not known")
    tile = mma_tile(TileSteps(rank), rows, columns, 2, rank - 1, rank - 2)
    tile.add_all("warp", encoding.warps_per_cta, warp_order_of(encoding))
    return tile.fit(shape, encoding.cta, order_of(encoding))


def _operand(shape: Ints, encoding: DotOperandEncoding, parent: NvidiaMmaEncoding) -> LinearLayout:
    rank, k, width = len(shape), k_dim(encoding), encoding.k_width
    other = 2 * rank - 3 - k
    rows = 16 if encoding.op_idx == 0 else 8
    tile = mma_tile(TileSteps(rank), rows, 8 * width, width, k, other)
    _shared_along(tile, "warp", parent.warps_per_cta, warp_order_of(parent), k)
    return tile.fit(shape, cta_layout(encoding), order_of(encoding))


def _scalar_operand(
    shape: Ints, encoding: DotOperandEncoding, parent: BlockedEncoding
) -> LinearLayout:
    """An operand of a product without tensor cores: each thread has all of K."""
    k, order = k_dim(encoding), parent.order
    size = list(parent.size_per_thread)
    size[k] = shape[k]
    tile = TileSteps(len(shape)).add_all("register", size, order)
    _shared_along(tile, "lane", parent.threads_per_warp, order, k)
    _shared_along(tile, "warp", parent.warps_per_cta, order, k)
    return tile.fit(shape, cta_layout(encoding), order)


def _shared_along(
    tile: TileSteps, name: str, sizes: Sequence[int], order: Sequence[int], k: int
) -> None:
    """Lays positions along all dimensions but K, along which they have the same elements."""
    for dim in order:
        if dim == k:
            tile.add_copies(name, sizes[dim])
        else:
            tile.add(name, dim, sizes[dim])


def _by_bases(shape: Ints, encoding: LinearEncoding) -> LinearLayout:
    """A layout by bases, repeated over the shape or cut as others are."""
    rank = linear_rank(encoding)
    total = [log2(size) for size in shape]
    fields = {
        "register": list(encoding.register),
        "lane": list(encoding.lane),
        "warp": list(encoding.warp),
        "block": list(encoding.block),
    }
    for dim in order_of(encoding):
        covered = max((b[dim] for bases in fields.values() for b in bases), default=0).bit_length()
        for bit in range(covered, total[dim]):
            step = tuple(1 << bit if d == dim else 0 for d in range(rank))
            fields["register"].append(step)
    starts = [sum(total[dim + 1 :]) for dim in range(rank)]
    packed = {
        name: [
            sum((v & (shape[d] - 1)) << starts[d] for d, v in enumerate(basis)) for basis in bases
        ]
        for name, bases in fields.items()
    }
    return LinearLayout(packed, {f"dim{d}": total[d] for d in range(rank - 1, -1, -1)})


# Shared memory.


def _shared(shape: Ints, encoding: SharedEncoding, bits: int) -> LinearLayout:
    extra = len(shape) - encoding.rank
    if extra:  # buffers, one after the other
        inner = _layout(shape[extra:], encoding, bits)
        tile = TileSteps(extra, ("offset",)).add_all("offset", shape, matrix_order(extra))
        outer = tile.fit(shape[:extra], CTALayout.one(extra), matrix_order(extra))
        renamed = {f"dim{extra + int(name[3:])}": n for name, n in inner.out_sizes.items()}
        product = inner.reshape_outs(renamed) * LinearLayout(
            {"offset": outer.bases["offset"]}, outer.outs
        )
        return product
    if encoding.leading_offset:
        return _for_wgmma(shape, encoding, bits)
    return _swizzled(shape, encoding)


def _swizzled(shape: Ints, encoding: SharedEncoding) -> LinearLayout:
    """Rows one after the other; in each, groups of `vec` columns are exchanged."""
    order = encoding.order
    total = [log2(size) for size in shape]
    _, split = _blocks(total, encoding.cta)
    part = [size - cut for size, cut in zip(total, split, strict=True)]
    tile = TileSteps(len(shape), ("offset",))
    tile.add_all("offset", [1 << n for n in part], order)
    layout = tile.fit(shape, encoding.cta, order)
    if encoding.rank < 2:
        return layout
    return _exchanged(layout, encoding, part[order[0]], part[order[1]], part[order[0]], total)


def _for_wgmma(shape: Ints, encoding: SharedEncoding, bits: int) -> LinearLayout:
    """Tiles of 8 rows of 32, 64 or 128 bytes, first along the rows, then along the columns."""
    order = encoding.order
    columns = 8 * encoding.swizzle_bytes // bits
    total = [log2(size) for size in shape]
    if not columns or shape[order[0]] < columns or shape[order[1]] < 8:
        raise UserError(f"{shape} is smaller than a tile of {encoding}")
    tile = TileSteps(len(shape), ("offset",))
    tile.add("offset", order[0], columns).add("offset", order[1], 8)
    layout = tile.fit(shape, encoding.cta, (order[1], order[0], *order[2:]))
    return _exchanged(layout, encoding, log2(columns), 3, log2(columns), total)


def _exchanged(
    layout: LinearLayout,
    encoding: SharedEncoding,
    first: int,
    count: int,
    column_bits: int,
    total: Sequence[int],
) -> LinearLayout:
    """The layout with the columns of rows exchanged: `count` bits of the offset from bit `first`
    on say which row it is."""
    column = sum(total[encoding.order[0] + 1 :])  # where the columns are in a packed output
    offsets = list(layout.bases["offset"])
    for k in range(count):
        moved = encoding.vec * ((1 << k) // encoding.per_phase % encoding.max_phase)
        offsets[first + k] ^= (moved & ((1 << column_bits) - 1)) << column
    return LinearLayout({**layout.bases, "offset": offsets}, layout.outs)
