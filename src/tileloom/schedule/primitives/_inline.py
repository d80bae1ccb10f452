"""Putting the computation of one block into another: what both directions of inlining share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...expr import (
    Analyzer,
    Expr,
    IntImm,
    IterVar,
    Range,
    Var,
    detect_iter_map,
    free_vars,
    inverse_affine_iter_map,
    rewrite,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    Stmt,
    StmtRewriter,
    all_exprs,
    infer_block_access,
    pre_order,
)
from ..analysis.tree import is_one
from ..errors import ScheduleError, name_of, refuse
from ..sref import StmtSRef
from ._rebuild import paths_to, rebuilt

Rule = Callable[[Expr], Expr | None]


class Inliner(StmtRewriter):
    """Rewrites the blocks of a scope that use a buffer, which nobody will use afterwards.

    `finish` has the last word on what runs a block that changed, given that and what ran it before.

    Attributes:
        block_map: the blocks that changed, for `ScheduleState.replace`.
    """

    def __init__(
        self,
        buffer: Buffer,
        gone: Block,
        load: Rule,
        store: Callable[[BufferStore], Stmt] | None = None,
        finish: Callable[[BlockRealize, BlockRealize], BlockRealize] | None = None,
    ) -> None:
        self.buffer = buffer
        self.gone = gone
        self.load = load
        self.store = store
        self.finish = finish
        self.block_map: dict[Block, Block] = {}

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self.load)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        return region  # inferred anew where it changes

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        if isinstance(new, BufferStore) and new.buffer is self.buffer and self.store is not None:
            return self.store(new)
        return new

    def visit_For(self, stmt: For) -> Stmt:
        return stmt if self._is_plain_nest_without(stmt) else super().visit_For(stmt)

    def _is_plain_nest_without(self, stmt: Stmt) -> bool:
        """Whether loops over numbers run one block whose variables they are, without the buffer."""
        while (
            isinstance(stmt, For)
            and isinstance(stmt.min, IntImm)
            and isinstance(stmt.extent, IntImm)
        ):
            stmt = stmt.body
        if not isinstance(stmt, BlockRealize) or uses_buffer(stmt.block, self.buffer):
            return False
        return is_one(stmt.predicate) and all(
            isinstance(value, Var | IntImm) for value in stmt.iter_values
        )

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        if stmt.block is self.gone:
            return stmt
        new = super().visit_BlockRealize(stmt)
        if self.finish is None or new is stmt or not isinstance(new, BlockRealize):
            return new
        return self.finish(new, stmt)

    def visit_Block(self, stmt: Block) -> Block:
        if not uses_buffer(stmt, self.buffer):
            return stmt
        check_plain_uses(stmt, self.buffer)
        new = super().visit_Block(stmt)
        if new is stmt:  # it declares the buffer, but does not use it
            new = stmt.replace(reads=self._others(stmt.reads), writes=self._others(stmt.writes))
            self.block_map[stmt] = new
            return new
        opaque = opaque_buffers(new)
        reads, writes = infer_block_access(new, opaque)
        # What is reached through a pointer stays as it was declared.
        new = new.replace(
            reads=_redeclared(reads, stmt.reads, opaque),
            writes=_redeclared(writes, stmt.writes, opaque),
        )
        self.block_map[stmt] = new
        return new

    def _others(self, regions: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
        return tuple(region for region in regions if region.buffer is not self.buffer)


def inlined(
    scope: StmtSRef, block: StmtSRef, inliner: Inliner
) -> tuple[StmtSRef, Block, dict[Block, Block]]:
    """The scope, what it becomes without a block and its buffer, and the blocks that change."""
    old = scope.block
    rest = rebuilt(old.body, paths_to([block]), {block.block: None})
    if rest is None:
        raise refuse(f"{name_of(block)} is the only block of its scope", at=[block])
    left = tuple(buffer for buffer in old.alloc_buffers if buffer is not inliner.buffer)
    new = old.replace(body=inliner.visit(rest), alloc_buffers=left)
    return scope, new, inliner.block_map


def uses_buffer(block: Block, buffer: Buffer) -> bool:
    """Whether a block declares that it reads or writes a buffer; one that is silent, inside it."""
    if not (block.iter_vars or block.reads or block.writes):
        inner = (node for node in pre_order(block.body) if isinstance(node, Block))
        return any(uses_buffer(node, buffer) for node in inner)
    return any(region.buffer is buffer for region in (*block.reads, *block.writes))


def check_plain_uses(block: Block, buffer: Buffer) -> None:
    """Refuse a block that reaches a buffer through its pointer or another name."""
    matched = any(match.source.buffer is buffer for match in block.match_buffers)
    if matched or any(buffer.data in free_vars(expr) for expr in all_exprs(block.body)):
        how = "gives a part of it another name" if matched else "uses its pointer"
        raise refuse(
            f"{buffer.name!r} cannot be inlined: {name_of(block)} {how}",
            at=[block],
            fast="The buffer to be inlined has opaque access (e.g. `B.data`), or its subregion is "
            "matched into other blocks",
        )


def opaque_buffers(block: Block) -> list[Buffer]:
    """The buffers of a block that it reaches through their pointers."""
    pointers: set[Var] = set()
    for expr in all_exprs(block.body):
        pointers.update(var for var in free_vars(expr) if var.dtype.is_handle)
    if not pointers:
        return []
    regions = (*block.reads, *block.writes)
    return list(dict.fromkeys(r.buffer for r in regions if r.buffer.data in pointers))


def _redeclared(
    found: Sequence[BufferRegion], declared: Sequence[BufferRegion], opaque: Sequence[Buffer]
) -> tuple[BufferRegion, ...]:
    """The regions found, those of opaque buffers as they were declared before."""
    if not opaque:
        return tuple(found)
    known = {region.buffer: region for region in declared}
    return tuple(
        known.get(region.buffer, region)
        for region in found
        if region.buffer not in opaque or region.buffer in known
    )


def body_refusal(block: StmtSRef, why: str) -> ScheduleError:
    """The refusal of a block whose body is not of the form that can be inlined."""
    return refuse(
        f"{name_of(block)} cannot be inlined: {why}",
        at=[block],
        fast="The block cannot be inlined because its body pattern does not meet the condition for "
        "inlining",
    )


def solved_for(
    axes: Sequence[IterVar], indices: Sequence[Expr], values: Sequence[Expr], level: str
) -> dict[Var, Expr] | None:
    """The iteration variables for which the indices have these values; None if not affine."""
    domains: dict[Var, Range] = {axis.var: axis.domain for axis in axes}
    result = {axis.var: axis.domain.min for axis in axes if is_one(axis.domain.extent)}
    if all(isinstance(index, Var) and index in domains for index in indices):
        # Plain variables; a variable that is there twice leaves another one open or fails below.
        if len(set(indices)) == len(indices):
            found = dict(zip(indices, values, strict=True))
            result.update((v, e) for v, e in found.items() if isinstance(v, Var))
            return result if len(result) == len(axes) else None
        return None
    sums = detect_iter_map(indices, domains, True, level)
    if not sums:
        return None
    result.update(inverse_affine_iter_map(sums.indices, values))
    return result if result.keys() >= domains.keys() else None


def same_under(analyzer: Analyzer, pairs: Sequence[tuple[Expr, Expr]]) -> bool:
    """Whether the two of each pair are always equal."""
    return all(a is b or analyzer.can_prove_equal(a, b) for a, b in pairs)


def without_loads(expr: Expr, buffer: Buffer, value: Expr) -> Expr:
    """`expr` with a value in place of every load of a buffer."""

    def rule(node: Expr) -> Expr | None:
        return value if isinstance(node, BufferLoad) and node.buffer is buffer else None

    return rewrite(expr, rule)
