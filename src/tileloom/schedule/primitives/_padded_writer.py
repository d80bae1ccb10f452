"""Padding of a new layout in the nests that write the buffer.

A nest that writes every element once, in the order of the old indices, is made to run over the new
shape instead: `if_then_else(padding, pad_value, value)` fills the places that no element goes to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...expr import (
    SPATIAL,
    Call,
    Expr,
    IndexMap,
    IterVar,
    Var,
    free_vars,
    has_load,
    is_pure,
    post_order,
    rewrite,
    substitute,
)
from ...tir import (
    SERIAL,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    StmtRewriter,
    seq,
    stmt_exprs,
)
from ..analysis.tree import is_one, is_zero
from ..rewrite import index_vars, iter_vars, nest
from ._layout_padding import LayoutPadding, is_written


def pad_writers(
    scope: Block, old: Buffer, new: Buffer, padding: LayoutPadding
) -> tuple[Block, dict[Block, Block]] | None:
    """The scope with every writer of `old` running over the shape of `new`, and its new blocks.

    Reads elsewhere are left as they are. None where a writer does not run over all elements in
    order, does anything else, or is under a condition.
    """
    if isinstance(padding.value, IndexMap) and has_load(padding.value.final_indices[0]):
        return None
    writers = _Writers(old, new, padding)
    body = writers.visit(scope.body)
    if writers.failed or not writers.padded:
        return None
    return scope.replace(body=body), writers.block_map


class _Writers(StmtRewriter):
    """Replaces the nests that write a buffer, down to which only loops and sequences are passed."""

    def __init__(self, old: Buffer, new: Buffer, padding: LayoutPadding) -> None:
        self.old, self.new, self.padding = old, new, padding
        self.block_map: dict[Block, Block] = {}
        self.padded = self.failed = False

    def visit(self, stmt: Stmt) -> Stmt:
        if not is_written(stmt, self.old):
            return stmt
        if isinstance(stmt, SeqStmt):
            return seq(*(self.visit(part) for part in stmt.seq))
        if isinstance(stmt, For):
            found = traversal(stmt, self.old)
            if found is not None:
                self.padded = True
                padder = _PaddedNest(found, self.old, self.new, self.padding)
                result = padder.run()
                self.block_map.update(padder.block_map)
                return result
            return stmt.replace(body=self.visit(stmt.body))
        self.failed = True
        return stmt


@dataclass(frozen=True)
class Traversal:
    """Loops that are the indices of a buffer, and what they run."""

    variables: tuple[Var, ...]
    body: Stmt


def traversal(top: For, buffer: Buffer) -> Traversal | None:
    """The nest from a loop on as a traversal of a buffer that does nothing but write it."""
    used = _first_indices(top, buffer)
    if not used or len(set(used)) != len(used):
        return None
    body: Stmt = top
    loops: list[Var] = []
    for index, size in zip(used, buffer.shape, strict=True):
        if not isinstance(body, For) or body.loop_var is not index or not _is_plain(body, size):
            return None
        loops.append(body.loop_var)
        body = body.body
    return Traversal(tuple(loops), body) if _only_writes(body, buffer, loops) else None


def _is_plain(loop: For, size: Expr) -> bool:
    return (
        is_zero(loop.min)
        and loop.extent is size
        and loop.kind == SERIAL
        and not loop.annotations
        and loop.thread_binding is None
    )


def _first_indices(stmt: Stmt, buffer: Buffer) -> tuple[Expr, ...] | None:
    """The indices of the first store to a buffer in terms of loops."""

    def find(node: Stmt, bound: Mapping[Var, Expr]) -> tuple[Expr, ...] | None:
        if isinstance(node, BufferStore):
            if node.buffer is not buffer:
                return None
            return tuple(substitute(index, bound) for index in node.indices)
        if isinstance(node, BlockRealize):
            return find_in_block(node, bound)
        for part in _parts(node):
            found = find(part, bound)
            if found is not None:
                return found
        return None

    def find_in_block(realize: BlockRealize, bound: Mapping[Var, Expr]) -> tuple[Expr, ...] | None:
        inner = {**bound, **_bound(realize, bound)}
        init = realize.block.init
        found = None if init is None else find(init, inner)
        return found or find(realize.block.body, inner)

    return find(stmt, {})


def _parts(stmt: Stmt) -> tuple[Stmt, ...]:
    if isinstance(stmt, SeqStmt):
        return stmt.seq
    return (stmt.body,) if isinstance(stmt, (For, LetStmt)) else ()


def _bound(realize: BlockRealize, bound: Mapping[Var, Expr]) -> dict[Var, Expr]:
    """The values of a block's variables in terms of loops."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {axis.var: substitute(value, bound) for axis, value in pairs}


def _only_writes(stmt: Stmt, buffer: Buffer, at: Sequence[Var]) -> bool:
    """Whether a statement does nothing but write one element of a buffer, unconditionally."""
    loops: set[Expr] = set(at)

    def check(node: Stmt, bound: Mapping[Var, Expr]) -> bool:
        if any(not pure(expr, bound) for expr in stmt_exprs(node)):
            return False
        match node:
            case SeqStmt() | LetStmt():
                return all(check(part, bound) for part in _parts(node))
            case For():
                return free_vars(node.extent).isdisjoint(loops) and check(node.body, bound)
            case BufferStore():
                return node.buffer is buffer and node.predicate is None and here(node, bound)
            case BlockRealize():
                return check_block(node, bound)
            case _:
                return False

    def check_block(realize: BlockRealize, bound: Mapping[Var, Expr]) -> bool:
        block = realize.block
        if not is_one(realize.predicate) or block.match_buffers or block.alloc_buffers:
            return False
        if bound and block.iter_vars:
            return False
        pairs = list(zip(block.iter_vars, realize.iter_values, strict=True))
        for axis, value in pairs:
            if not free_vars(value).isdisjoint(loops) and (
                value not in loops or axis.iter_type != SPATIAL or not is_zero(axis.domain.min)
            ):
                return False  # a variable of something else than one loop
        values = [value for _, value in pairs]
        direct = not block.iter_vars or loops <= set(values)
        if not direct or any(values.count(loop) > 1 for loop in loops):
            return False
        inner = {**bound, **_bound(realize, bound)}
        return all(part is None or check(part, inner) for part in (block.init, block.body))

    def pure(expr: Expr, bound: Mapping[Var, Expr]) -> bool:
        """Other elements of the buffer may come from other iterations, so none is read."""
        return (
            is_pure(expr)
            and buffer.data not in free_vars(expr)
            and all(
                here(node, bound)
                for node in post_order(expr)
                if isinstance(node, BufferLoad) and node.buffer is buffer
            )
        )

    def here(access: BufferLoad | BufferStore, bound: Mapping[Var, Expr]) -> bool:
        indices = (substitute(index, bound) for index in access.indices)
        return all(a is b for a, b in zip(indices, at, strict=True))

    return check(stmt, {})


class _PaddedNest(StmtRewriter):
    """A traversal of the old buffer as one of the new buffer."""

    def __init__(
        self, old_nest: Traversal, old: Buffer, new: Buffer, padding: LayoutPadding
    ) -> None:
        self.old_nest, self.old, self.new, self.padding = old_nest, old, new, padding
        self.place: list[Var] = index_vars("axis", new.shape)
        self.values = self._old_indices(self.place)
        self.block_map: dict[Block, Block] = {}

    def run(self) -> Stmt:
        """The loops over the new shape."""
        loops = list(zip(self.place, self.new.shape, strict=True))
        return nest(loops, self.visit(self.old_nest.body))

    def _old_indices(self, place: Sequence[Expr]) -> dict[Var, Expr]:
        pairs = zip(
            self.old_nest.variables, self.padding.back.map_indices(list(place)), strict=True
        )
        return {var: value for var, value in pairs if var is not None}

    def visit_expr(self, expr: Expr) -> Expr:
        return substitute(_moved(expr, self.old, self.new, self.place), self.values)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        if region.buffer is self.old:
            return BufferRegion.point(self.new, self.place)
        return super().visit_region(region)

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        return match

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        outside, padding = self.padding.at(self.new, self.place)
        value = self.visit_expr(stmt.value)
        padded = Call(value.dtype, "tir.if_then_else", [outside, padding, value])
        return stmt.replace(buffer=self.new, value=padded, indices=tuple(self.place))

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        block = stmt.block
        if not block.iter_vars:
            new = super().visit_Block(block)
        else:
            stmt, new = self._over_the_new_shape(stmt)
        self.block_map[block] = new
        return stmt.replace(block=new)

    def _over_the_new_shape(self, realize: BlockRealize) -> tuple[BlockRealize, Block]:
        """The block with variables for the new axes in place of those for the old ones."""
        block = realize.block
        of_loop: dict[Var, Var] = {}
        values: list[Expr] = []
        axes: list[IterVar] = []
        new_axes = index_vars("v_axis", self.new.shape)
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            if not isinstance(value, Var) or value not in self.values:
                axes.append(axis)
                values.append(self.visit_expr(value))
                continue
            if not of_loop:
                axes += iter_vars(new_axes, self.new.shape)
                values += self.place
            of_loop[value] = axis.var
        inner = _PaddedNest(self.old_nest, self.old, self.new, self.padding)
        inner.place = new_axes
        old_indices = inner._old_indices(new_axes)
        inner.values = {axis: old_indices[loop] for loop, axis in of_loop.items()}
        new = super(_PaddedNest, inner).visit_Block(block.replace(iter_vars=tuple(axes)))
        self.block_map.update(inner.block_map)
        return realize.replace(iter_values=tuple(values)), new


def _moved(expr: Expr, old: Buffer, new: Buffer, place: Sequence[Var]) -> Expr:
    """An expression that reads the element of this iteration in the new layout."""
    loads: dict[Expr, Expr] = {
        node: BufferLoad(new, place)
        for node in post_order(expr)
        if isinstance(node, BufferLoad) and node.buffer is old
    }
    if not loads:
        return expr
    return rewrite(expr, lambda node: loads.get(node))
