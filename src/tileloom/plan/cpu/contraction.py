"""Matrix products on a CPU, in the way of BLIS: packed panels, and a tile of sums in registers.

A *panel* is as many columns of the right operand as one or two vectors hold, packed so that the
innermost loops read it in order. A *strip* is some rows of the left operand. A tile of the result,
a strip by a panel, stays in registers along the whole depth; then the blocks that follow the
product finish it. Workers share groups of panels, which each packs for itself; where there are few
panels they share strips, over panels that were packed before. What lies like panels already is not
packed.

Everything is made of schedule primitives: operands are brought into form by `reindex` and
`transform_layout`, ragged edges by `pad_einsum`, panels by `compute_at`, and what follows by
`reverse_compute_at`.

Source: Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.sums import SUM_RUN
from ...expr import FloorDiv, IndexMap, IntImm, Var, post_order
from ...expr.dot_ops import DOT_OFFSET
from ...expr.extents import is_number, known_extent, limits, usual
from ...expr.tile_ops import TILE_ROWS
from ...schedule.analysis.blocks import leaf_store
from ...schedule.library import as_matrices, find_products
from ...schedule.library.intrinsics.amx import amx_product
from ...schedule.library.product import Product, conditions
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ...target import Target
from ...target.cost import PARALLEL_WORK
from ...tir import Block, Buffer, BufferLoad, BufferRegion
from ..domain import GroupRefused, accesses, blocks_by_name
from ..loops import reduces
from .nests import LANES, TILE, WORK
from .tile_registers import APART, UNIT, begins_with_columns, dot_of, tile_rows, words_in_tiles

#: Marks a function of blocks whose product is to be cut into tiles, or refused.
CONTRACTION = "contraction"
#: Rows of a strip: 24 of 32 registers hold sums with two vectors a row; with 16 registers, 12 do,
#: or 10 and those that bytes in offset binary need besides (`lower/loops/offset_sums.py`).
ROWS, FEW_ROWS = 12, 6
#: Registers of this many bits and more come in 32, narrower ones in 16.
WIDE = 512
#: What a strip costs besides its rows, in rows: the panel is read once for all of them.
READ_PANEL = 2
#: Panels that one worker packs at a time, and the bytes that they may take of its cache; fewer if
#: they are read once, by one strip.
PANELS, PANEL_BYTES, READ_ONCE_BYTES = 10, 1 << 20, 1 << 18
#: What a task costs besides its panels, in panels: all of the left operand is read for it.
BEGIN_TASK = 0.5
#: Tasks for each worker that are so many that it does not matter how they are shared.
EVEN = 8
#: Vectors in a line of a right operand that needs no packing.
NARROW = 4
#: Panels that must read a strip of the left operand to make up for converting it before.
WORTH_COPYING = 4
#: Steps along the depth before a sum is put aside, for the sake of its rounding errors.
LONG_RUN = 1024


def tile_product(sch: Schedule, target: Target) -> None:
    """Schedule a function that reduces nothing but one product of matrices.

    Raises:
        GroupRefused: it is something else, or of sizes of which nothing is known.
        ScheduleError: what follows the product does not go tile by tile.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A, B = te.placeholder((24, 50), name="A"), te.placeholder((50, 64), name="B")
    >>> k = te.reduce_axis((0, 50), name="k")
    >>> C = te.compute((24, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> tile_product(sch, target("cpu -mattr=+avx512f -num-cores=1"))
    >>> [sch.get(loop).extent.value for loop in sch.get_loops("C_update")]
    [1, 2, 2, 50, 12, 2, 16]
    """
    _Tiling(sch, _as_matrices(sch), target).run()


def _as_matrices(sch: Schedule) -> Product:
    blocks = blocks_by_name(sch).values()
    if any(known_extent(a.domain.extent) is None for b in blocks for a in b.iter_vars):
        raise GroupRefused("a product of sizes of which nothing is known")
    for name, block in blocks_by_name(sch).items():
        if reduces(block):
            _take_groups_apart(sch, sch.get_block(name))
    found = find_products(sch)
    if len(found) != 1 or sum(map(reduces, blocks)) != 1:
        raise GroupRefused("a function that reduces something else than one product")
    _inline_sides(sch, found[0])
    product = as_matrices(sch, found[0], in_pieces=True)
    if len(product.results) != 1 or not product.plain:
        raise GroupRefused("a product with several results, or of what is computed")
    return product


def _take_groups_apart(sch: Schedule, rv: BlockRV) -> None:
    """Two variables for one of which an operand reads only the quotient: groups of channels."""
    block: Block = sch.get(rv)
    quotients = {
        node.a: node.b
        for _, indices in accesses(block)
        for index in indices
        for node in post_order(index)
        if isinstance(node, FloorDiv) and isinstance(node.b, IntImm)
    }
    variables = [axis.var for axis in block.iter_vars]
    apart = [
        (var // quotients[var], var % quotients[var]) if var in quotients else (var,)
        for var in variables
    ]
    if any(len(parts) > 1 for parts in apart):
        indices = [part for parts in apart for part in parts]
        sch.transform_block_layout(rv, IndexMap(variables, indices))


def _inline_sides(sch: Schedule, product: BlockRV) -> None:
    """Compute what only the blocks after the product read where they read it."""
    after = _names_after(sch, product)
    for name in reversed(list(blocks_by_name(sch))):
        rv = sch.get_block(name)
        readers = {sch.get(reader).name_hint for reader in sch.get_consumers(rv)}
        if name not in after and readers and readers <= after - {sch.get(product).name_hint}:
            sch.compute_inline(rv)


def _names_after(sch: Schedule, product: BlockRV) -> set[str]:
    """The product and what depends on it."""
    found = {sch.get(product).name_hint}
    work = [product]
    while work:
        for reader in sch.get_consumers(work.pop()):
            if sch.get(reader).name_hint not in found:
                found.add(sch.get(reader).name_hint)
                work.append(reader)
    return found


@dataclass(frozen=True)
class Tiles:
    """How a product is cut.

    Attributes:
        height, width: rows of a strip and columns of a panel.
        panels: of a matrix, at most, in a task; 0: strips are shared.
    """

    height: int
    width: int
    panels: int


def choose_tiles(
    product: Product, lanes: int, most: int, workers: int, packed: int = 0, height: int = 0
) -> Tiles:
    """The tiles for a product.

    Args:
        lanes: of a vector of sums.
        most: the most rows of a strip.
        packed: the columns of panels that there are already.
        height: the rows of a strip, if they are given.
    """
    width = packed or (lanes if product.columns <= lanes else 2 * lanes)
    rows, panels = product.rows, -(-product.columns // width)
    lines = height or _height(rows, most, 1)
    known = is_number(product.matrices)
    if workers > 1 and known and product.matrices * panels < 2 * workers and rows >= 2 * lines:
        return Tiles(height or _height(rows, most, workers), width, 0)
    expected = usual(panels)
    space = PANEL_BYTES if usual(rows) > lines else READ_ONCE_BYTES
    room = max(1, min(PANELS, space // (usual(product.depth) * width * 4), expected))
    times = product.matrices if known else 1
    spans = {n: _span(expected, n, BEGIN_TASK, times, workers) for n in range(1, room + 1)}
    return Tiles(lines, width, min(spans, key=lambda n: (spans[n], -n)))


def _height(rows: int, most: int, workers: int) -> int:
    """The height of strips that are done first, if workers share them; the last may have fewer."""
    if not is_number(rows):
        return min(most, limits(rows)[1])
    heights = range(min(rows, most // 2), most + 1)
    spans = {h: _span(rows, h, READ_PANEL, 1, workers) for h in heights}
    return min(rows, min(spans, key=lambda h: (spans[h], -h)))


def _span(lines: int, most: int, begin: float, times: int, workers: int) -> float:
    """How long workers take for lines in pieces, each of which goes to whom is ready first.

    Args:
        most: the lines of a piece, but for the last one.
        begin: what it takes to begin a piece, in lines.
        times: how often all the lines are done.
    """
    count = -(-lines // most)
    if times * count >= EVEN * workers or workers == 1:
        return times * (lines + count * begin) / workers
    tasks = [min(most, lines - first) + begin for first in range(0, lines, most)]
    shares = [0.0] * workers
    for cost in tasks * times:
        shares[shares.index(min(shares))] += cost
    return max(shares)


class _Tiling:
    """One product on its way; its blocks and loops are looked up as the function changes."""

    def __init__(self, sch: Schedule, product: Product, target: Target) -> None:
        self.sch, self.product, self.block = sch, product, product.block
        self.left, self.right = product.left.copy, product.right.copy
        (self.result,) = product.results
        self.lanes = max(1, target.vector_bits // self._sums().dtype.bits)
        least, most = limits(2 * product.matrices * product.rows * product.columns * product.depth)
        self.workers = target.cores if most >= PARALLEL_WORK else 1
        self.much = least >= PARALLEL_WORK
        self.offset = dot_of(sch, product) in DOT_OFFSET.values()
        rows = ROWS if target.vector_bits >= WIDE else FEW_ROWS - self.offset
        self.packed = self._panel_width()
        while self.packed % self.lanes:  # panels that were made for narrower vectors
            self.lanes //= 2
        self.words = words_in_tiles(sch, product, target)
        exactly = tile_rows(product.rows) if self.words else 0
        self.tiles = choose_tiles(
            product, self.lanes, rows, self.workers, self.packed, height=exactly
        )
        self.packs = not self.packed and not self._is_narrow()

    def run(self) -> None:
        """Cut the loops, and put everything where it belongs."""
        sch = self.sch
        self._flatten_result()
        if not self.packs:
            sch.compute_inline(self.right)
        self._pad()
        sch.set_scope(self.block, 0, "local")
        copies = self._copies_left()
        if copies:
            self._run_along(self.left, sch.get(self.left).writes[0].buffer)
        else:
            sch.compute_inline(self.left)
        if self.packs:
            self._lay_out_panels()
        task, strip, panel, depth = self._cut()
        sch.reverse_compute_at(self.result, panel)
        if self.packs:
            sch.compute_at(self.right, task, preserve_unit_loops=True)
            self._vectorize_packing()
        if copies:
            sch.compute_at(self.left, strip)
            self._vectorize_copy()
        self._vectorize_result()
        if self.workers > 1:
            shared = task if self.tiles.panels else strip
            sch.parallel(shared)
            if not self.much:
                sch.annotate(shared, WORK, PARALLEL_WORK)
        if self.words:
            self._tensorize()
            return
        sch.annotate(depth, SUM_RUN, LONG_RUN)
        sch.decompose_reduction(self.block, depth)

    def _tensorize(self) -> None:
        """The loops over a tile of the result, and over the depth, by tile registers."""
        *_, line, _, depth = self.sch.get_loops(self.block)
        name = amx_product(
            str(self.words),
            self.tiles.height,
            self.tiles.width,
            int(self.sch.get(depth).extent),
            begins_with_columns(self.sch, self.product),
        )
        self.sch.tensorize(line, name)

    # ------------------------------------------------------------------ operands and results

    def _sums(self) -> Buffer:
        product: Block = self.sch.get(self.block)
        return product.writes[0].buffer

    def _panel_width(self) -> int:
        """The columns of the panels that the right operand lies in already; 0 if it does not."""
        copy: Block = self.sch.get(self.right)
        loads = [x for x in accesses(copy) if x[0] is copy.reads[0].buffer]
        if len(loads) > 1:
            return 0
        ((buffer, indices),) = loads
        if len(indices) != 3 or not isinstance(indices[0], FloorDiv):
            return 0
        width = buffer.shape[2]
        column, step = (axis.var for axis in copy.iter_vars[-2:])
        if not isinstance(width, IntImm) or list(indices) != [
            column // width,
            step,
            column % width,
        ]:
            return 0
        return width.value

    def _is_narrow(self) -> bool:
        """Whether lines of the right operand are so short that panels are read in place as well."""
        product, copy = self.product, self.sch.get(self.right)
        store = leaf_store(copy)
        if store is None or not isinstance(store.value, BufferLoad) or product.batch is not None:
            return False
        buffer, columns = store.value.buffer, product.columns
        if not is_number(columns) or columns % self.tiles.width or product.right.deep:
            return False
        whole = known_extent(buffer.shape[-1]) == columns and not buffer.strides
        return whole and dot_of(self.sch, product) is None and columns <= NARROW * self.lanes

    def _flatten_result(self) -> None:
        """Let the block that takes the result run over rows and columns."""
        self._run_along(self.result, self._sums())

    def _run_along(self, rv: BlockRV, matrix: Buffer) -> None:
        """Let a block run over the elements of a matrix that it accesses."""
        block: Block = self.sch.get(rv)
        (indices,) = {at for buffer, at in accesses(block) if buffer is matrix}
        variables = [axis.var for axis in block.iter_vars]
        if list(indices) != variables:
            self.sch.transform_block_layout(rv, IndexMap(variables, indices))

    def _pad(self) -> None:
        """Fill up the last panel with zeros, and the last strip if it has to be.

        Loops over strips of vectors are partitioned instead. Of open sizes it may be known that the
        last one is full, although that does not show in their remainder.
        """
        width, height = self.tiles.width, self.tiles.height if self.words else 1
        wide = self.product.columns % width
        deep = TILE_ROWS if self.words and is_number(self.product.depth) else 1
        high = (height > 1 and not is_number(self.product.rows)) or self.product.rows % height
        if not wide and not high and not self.product.depth % deep:
            return
        sch, batch = self.sch, [1] * (self.product.batch is not None)
        whole = [region.buffer for region in self._regions()]
        sch.pad_einsum(self.block, [*batch, height, width, deep])
        padded = [old is not now.buffer for old, now in zip(whole, self._regions(), strict=True)]
        if padded[self.product.right.position] and self.packs:
            self.right = self._behind(self.right, self.product.right.position)
        if padded[self.product.left.position]:
            self.left = self._behind(self.left, self.product.left.position)
        if padded[-1]:
            (cut,) = sch.get_consumers(self.block)
            sch.compute_inline(cut)

    def _regions(self) -> tuple[BufferRegion, ...]:
        """What the product reads and writes."""
        product: Block = self.sch.get(self.block)
        return (*product.reads, *product.writes)

    def _behind(self, copy: BlockRV, position: int) -> BlockRV:
        """The block that pads an operand, which computes what `copy` did."""
        self.sch.compute_inline(copy)
        return self._maker(position)

    def _maker(self, position: int) -> BlockRV:
        """The block that makes an operand."""
        buffer = self.sch.get(self.block).reads[position].buffer
        return next(
            rv
            for rv in self.sch.get_producers(self.block)
            if self.sch.get(rv).writes[0].buffer is buffer
        )

    def _copies_left(self) -> bool:
        """Whether strips of the left operand are made before all panels read them.

        Such as those of a padded image, where what lies outside of it is told apart in vectors
        then, and not for each element that a panel reads.
        """
        copy: Block = self.sch.get(self.left)
        store = leaf_store(copy)
        if self.words or self.offset or (store is not None and conditions(store.value)):
            return True
        often = -(-self.product.columns // self.tiles.width) >= WORTH_COPYING
        converts = copy.reads[0].buffer.dtype is not copy.writes[0].buffer.dtype
        return often and converts and self.product.left.deep

    def _lay_out_panels(self) -> None:
        """The right operand, a panel after the other."""
        width = self.tiles.width
        self._run_along(self.right, self.sch.get(self.right).writes[0].buffer)
        batch = [Var("b")] if self.product.batch is not None else []
        column, step = Var("j"), Var("k")
        panels = IndexMap([*batch, column, step], [*batch, column // width, step, column % width])
        self.sch.transform_layout(self.right, ("write", 0), panels)
        self.sch.transform_block_layout(self.right, panels)

    # ------------------------------------------------------------------ loops

    def _cut(self) -> tuple[LoopRV, LoopRV, LoopRV, LoopRV]:
        """The loops over tasks, strips, panels and the depth."""
        sch, tiles, lanes = self.sch, self.tiles, self.lanes
        *batch, row, column, depth = sch.get_loops(self.block)
        strip, line = sch.split(row, [None, tiles.height])
        panels = [None, tiles.panels] if tiles.panels else [1, None]
        if self.words:
            panel, inner = sch.split(column, [None, tiles.width])
            task, panel = sch.split(panel, panels)
            sch.reorder(*batch, task, strip, panel, line, inner, depth)
            return (sch.fuse(*batch, task) if batch else task), strip, panel, depth
        panel, vector, lane = sch.split(column, [None, tiles.width // lanes, lanes])
        task, panel = sch.split(panel, panels)
        sch.reorder(*batch, task, strip, panel, depth, line, vector, lane)
        if batch:
            task = sch.fuse(*batch, task)
        sch.vectorize(lane)
        sch.unroll(vector)
        sch.unroll(line)
        return task, strip, panel, depth

    def _vectorize_copy(self) -> None:
        """Copy a strip along the depth, in vectors; one whose columns lie in pieces, in squares.

        Windows are copied line by line, so that where a line is has to be worked out once.
        """
        sch = self.sch
        *_, row, depth = sch.get_loops(self.left)
        if self.words:
            sch.storage_align(self.left, 0, -2, UNIT, APART)
        if self.words and not self.product.left.deep and self.tiles.height >= self.lanes:
            sch.annotate(row, TILE, self.lanes)
        steps = self.product.steps
        if not self.words and len(steps) > 1 and steps[-1] >= self.lanes:
            *_, depth = sch.split(depth, [None, *steps[1:]])
        sch.annotate(depth, LANES, self.lanes)

    def _vectorize_packing(self) -> None:
        """Pack along the columns, in vectors; an operand that lies along the depth, in squares.

        Windows are gathered panel by panel, so that where a column is has to be worked out once.
        """
        sch = self.sch
        *_, panel, depth, column = sch.get_loops(self.right)
        vector, lane = sch.split(column, [None, self.lanes])
        if len(self.product.steps) > 1:
            steps = sch.split(depth, [None, *self.product.steps[1:]])
            sch.reorder(panel, *steps, vector, lane)
            sch.unroll(vector)
            sch.vectorize(lane)
        elif self.product.right.deep:
            sch.reorder(panel, vector, depth, lane)
            sch.annotate(depth, TILE, self.lanes)
            sch.annotate(lane, LANES, self.lanes)
        else:
            sch.reorder(depth, panel, vector, lane)
            sch.vectorize(lane)

    def _vectorize_result(self) -> None:
        """Finish a tile line by line, in vectors."""
        sch = self.sch
        *_, line, column = sch.get_loops(self.result)
        part, lane = sch.split(column, [None, self.lanes])
        sch.vectorize(lane)
        sch.unroll(part)
        if not self.words:
            sch.unroll(line)
