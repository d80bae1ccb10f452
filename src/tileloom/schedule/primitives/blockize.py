"""blockize: the loops around a block, or some blocks, become a block of their own."""

from __future__ import annotations

from ...expr import Expr
from ...tir import Block, BlockRealize, BufferRegion, For, Stmt, parts_of, seq, under_loops
from ..analysis.regions import united_by_buffer
from ..analysis.tree import (
    loops_in_sight,
    lowest_common_ancestor,
    only_child_chain,
    scope_root,
)
from ..errors import name_of, refuse
from ..instruction import BlockRef, PlaceRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._blockize import (
    LoopBinder,
    Renamed,
    blockized,
    bounds_inside,
    check_tells,
    divide,
    inner_block,
    loop_axes,
    relaxed,
)


@primitive("Blockize")
def blockize(
    state: ScheduleState, target: PlaceRef | list[BlockRef], preserve_unit_iters: bool = True
) -> BlockRef:
    """Put the loops around a block into a new block `<name>_o`.

    The new block runs over what the loops outside make of each iteration variable (`<var>_o`), the
    old one, inside, over the rest (`<var>_i`). A `T.init()` moves to the new block.

    Args:
        target: the outermost loop that goes inside, or blocks that follow each other.
        preserve_unit_iters: keep loops of extent one in the values of blocks.

    Returns:
        The new block.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((32, 8), name="A")
    >>> B = te.compute((32, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops("B")
    >>> outer, inner = sch.split(i, [None, 4])
    >>> block = sch.blockize(inner)
    >>> sch.get(block).name_hint, [axis.var.name for axis in sch.get(block).iter_vars]
    ('B_o', ['v_i_o', 'v_j_o'])
    >>> [axis.var.name for axis in sch.get(sch.get_block("B")).iter_vars]
    ['v_i_i', 'v_j_i']
    """
    if isinstance(target, list):
        return _Together(state, target, preserve_unit_iters).run()
    if target.is_block:
        raise refuse(
            f"{name_of(target)} is a block; blockize takes a loop around one, or a list of blocks",
            at=[target],
            hint="blockize([block]) puts a single block into a new one",
        )
    realize, block_map = blockized(state, target, preserve_unit_iters)
    state.replace(target, realize, block_map)
    return state.sref(realize.block)


class _Together:
    """Several blocks that follow each other, put into one block."""

    def __init__(self, state: ScheduleState, blocks: list[StmtSRef], preserve: bool) -> None:
        if not blocks:
            raise refuse("blockize needs at least one block")
        self.state, self.blocks, self.preserve = state, blocks, preserve
        self.scope = scope_root(blocks[0])
        for block in blocks:
            if scope_root(block) is not self.scope:
                raise refuse(
                    f"{name_of(block)} is not in the scope of {name_of(blocks[0])}",
                    at=[blocks[0], block],
                    fast="Target blocks must not be nested with each other!",
                )
            if block.block.init is not None:
                raise refuse(
                    f"{name_of(block)} has a T.init(), which several blocks together cannot keep",
                    at=[block],
                    hint="decompose_reduction first",
                )
        self.place = lowest_common_ancestor(blocks)
        if self.place is blocks[0] and self.place.parent is not None:
            self.place = self.place.parent
        holder = self.place.loop if self.place.is_loop else self.place.block
        self.body = holder.body
        self.parts: tuple[Stmt, ...] = parts_of(self.body)
        self.where = [self._position(block) for block in blocks]
        self._check_order()

    def _position(self, block: StmtSRef) -> int:
        """Which part of the body is the block with its loops."""
        top = block
        while top.parent is not self.place and top.parent is not None:
            top = top.parent
        alone = top.is_block or only_child_chain(top, block)
        for i, part in enumerate(self.parts):
            stmt = part.block if isinstance(part, BlockRealize) else part
            if alone and stmt is top.stmt:
                return i
        raise refuse(
            f"{name_of(block)} does not stand alone with its loops under {name_of(self.place)}",
            at=[self.place, block],
        )

    def _check_order(self) -> None:
        if self.where != list(range(self.where[0], self.where[0] + len(self.where))):
            raise refuse(
                f"the blocks do not follow each other in this order in {name_of(self.place)}",
                at=self.blocks,
                hint="list them in program order, with none left out in between",
                fast="Target blocks must be consecutive!",
            )

    def run(self) -> StmtSRef:
        outside = [sref.loop for sref in self._in_sight()]
        binder = LoopBinder(outside + self._all_inside(len(outside)))
        bodies: list[Stmt] = []
        reads: list[BufferRegion] = []
        writes: list[BufferRegion] = []
        block_map: dict[Block, Block] = {}
        predicate: Expr | None = None
        for sref in self.blocks:
            realize = self.state.realize(sref)
            block = realize.block
            inside = [node.loop for node in loops_in_sight(sref)][len(outside) :]
            divided = divide(realize, outside, inside, self.preserve, [sref])
            predicate = self._same_predicate(predicate, divided.outer_predicate, sref)
            axes, values = binder.bind(block, divided.parts, self.preserve)
            renamed = Renamed(values, {axis.var: axis.domain for axis in axes.variables})
            inner = inner_block(renamed.visit_Block(block), axes)
            inside = bounds_inside(inside, outside, binder, sref)
            body = BlockRealize(axes.values, divided.inner_predicate, inner)
            bodies.append(under_loops(inside, body))
            reads += relaxed(inner.reads, [*axes.running(), *loop_axes(inside)])
            writes += relaxed(inner.writes, [*axes.running(), *loop_axes(inside)])
            block_map.update(renamed.block_map)
            block_map[block] = inner
        name = "outer_" + "".join(f"{sref.block.name_hint}_" for sref in self.blocks)
        read, written = (tuple(united_by_buffer(found).values()) for found in (reads, writes))
        outer = Block(tuple(binder.outer), read, written, name, seq(*bodies))
        check_tells(self.state, self.blocks, outer)
        if predicate is None:
            raise refuse("blockize needs at least one block")
        self._replace(BlockRealize(tuple(binder.values), predicate, outer), block_map)
        return self.state.sref(outer)

    def _in_sight(self) -> list[StmtSRef]:
        """The loops around the new block."""
        if self.place.is_loop:
            return [*loops_in_sight(self.place), self.place]
        return [] if self.place.block.iter_vars else loops_in_sight(self.place)

    def _all_inside(self, depth: int) -> list[For]:
        return [node.loop for sref in self.blocks for node in loops_in_sight(sref)[depth:]]

    def _same_predicate(self, known: Expr | None, new: Expr, block: StmtSRef) -> Expr:
        if known is not None and known is not new:
            raise refuse(
                f"{name_of(block)} runs where {new}, but the blocks before it where {known}",
                at=self.blocks,
                hint="blocks that go together need the same condition on the loops outside",
            )
        return new

    def _replace(self, realize: BlockRealize, block_map: dict[Block, Block]) -> None:
        first, last = self.where[0], self.where[-1]
        body = seq(*self.parts[:first], realize, *self.parts[last + 1 :])
        if self.place.is_loop:
            self.state.replace(self.place, self.place.loop.replace(body=body), block_map)
            return
        holder = self.place.block
        changed = holder.replace(body=body)
        self.state.replace(self.place, changed, {**block_map, holder: changed})
