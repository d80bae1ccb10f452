"""Results that replace an operand, decided on blocks before their loops are scheduled.

The function gets one parameter for the operand and the result. That is right where only the block
that makes the result reads the operand, and of it at most the element that it is about to store.
(Others that read it first would be right as well, but no schedule may move blocks then.) What is
elementwise is inlined first, so that a chain of such blocks is one. What a schedule may do with the
function is up to the primitives, which see that the two are one buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

from ..expr import SPATIAL, Analyzer, Expr, Var, const, is_int
from ..schedule import Schedule
from ..schedule.errors import ScheduleError
from ..target import Target
from ..tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    PrimFunc,
    Stmt,
    StmtRewriter,
    buffer_accesses,
    parts_of,
    pre_order,
)
from ..tir.walk import rewrite_stmt_exprs
from .cpu.fusion_groups import inline_elementwise
from .kernel import PlannedKernel, plan_kernel


def plan_in_place(
    blocks: PrimFunc, target: Target, operand: int, result: int
) -> PlannedKernel | None:
    """A kernel that stores a result where an operand was; None where that is not safe.

    Args:
        blocks: what is computed, not scheduled yet.
        operand, result: positions of parameters; the kernel takes the result's alone.
    """
    sch = Schedule(blocks)
    try:
        inline_elementwise(sch)
        (inlined,) = sch.mod.functions.values()
        merged = replace_operand(inlined, operand, result)
        return None if merged is None else plan_kernel(merged, target)
    except ScheduleError:
        return None


def replace_operand(func: PrimFunc, operand: int, result: int) -> PrimFunc | None:
    """The function with one parameter, the result's, for both; None where that is not safe.

    Args:
        func: blocks that are not scheduled yet.
        operand, result: positions of parameters.

    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A")
    >>> def doubled(place):
    ...     return te.create_prim_func([A, te.compute((8,), lambda i: A[place(i)] * 2.0, name="B")])
    >>> merged = replace_operand(doubled(lambda i: i), 0, 1)
    >>> [buffer.name for buffer in merged.buffers], replace_operand(doubled(lambda i: 7 - i), 0, 1)
    (['B'], None)
    """
    source, sink = (func.buffer_map[func.params[k]] for k in (operand, result))
    if source.dtype != sink.dtype or source.strides or sink.strides:
        return None
    if not Analyzer().can_prove_equal(_size(source), _size(sink)):
        return None
    root = func.body.block if isinstance(func.body, BlockRealize) else None
    if root is None:
        return None
    nests = parts_of(root.body)
    if not _may_replace(nests, source, sink):
        return None
    gone = func.params[operand]
    return func.replace(
        params=tuple(p for p in func.params if p is not gone),
        buffer_map={p: b for p, b in func.buffer_map.items() if p is not gone},
        body=_merged(func.body, source, sink),
    )


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _size(buffer: Buffer) -> Expr:
    return reduce(mul, (extent.astype("int64") for extent in buffer.shape), const(1, "int64"))


def _position(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """Where an element of a compact buffer lies."""
    place = const(0)
    for index, extent in zip(indices, buffer.shape, strict=True):
        place = place * extent + index
    return place


def _may_replace(nests: Sequence[Stmt], source: Buffer, sink: Buffer) -> bool:
    """Whether one nest makes the sink, and nothing but the element to be stored is read there."""
    reads, writes = zip(*map(_accesses, nests), strict=True)
    makers = [k for k, written in enumerate(writes) if sink in written]
    if len(makers) != 1 or any(source in written for written in writes):
        return False
    readers = [k for k, read in enumerate(reads) if source in read]
    return not readers or (
        readers == makers and _reads_what_it_stores(nests[makers[0]], source, sink)
    )


def _accesses(nest: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for stmt in pre_order(nest):
        if isinstance(stmt, Block):
            reads |= {region.buffer for region in stmt.reads}
            writes |= {region.buffer for region in stmt.writes}
    return reads, writes


def _reads_what_it_stores(nest: Stmt, source: Buffer, sink: Buffer) -> bool:
    """Whether a nest stores each element once, and reads of the source only that very element."""
    blocks = [stmt for stmt in pre_order(nest) if isinstance(stmt, Block)]
    stores = [stmt for stmt in pre_order(nest) if isinstance(stmt, BufferStore)]
    if len(blocks) != 1 or len(stores) != 1 or blocks[0].init is not None:
        return False
    (block,), (store,) = blocks, stores
    if any(axis.iter_type != SPATIAL for axis in block.iter_vars):
        return False
    places = [index for index in store.indices if isinstance(index, Var)]
    live = {a.var for a in block.iter_vars if not is_int(a.domain.extent, 1)}
    if len(set(places)) != len(places) or not live <= set(places):
        return False
    read = [indices for buffer, indices in buffer_accesses(nest) if buffer is source]
    if _same(source.shape, sink.shape) and all(_same(i, store.indices) for i in read):
        return True
    most = Analyzer().const_int_bound(_size(sink)).max_value
    if most >= 1 << 31 and any(index.dtype.bits < 64 for index in store.indices):
        return False  # positions might not be numbers of that type
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.domain)
    place = _position(sink, store.indices)
    return all(analyzer.can_prove_equal(_position(source, indices), place) for indices in read)


class _Merger(StmtRewriter):
    """Lets one buffer stand for another as well."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def visit_Block(self, stmt: Block) -> Block:
        reads = [r for r in stmt.reads if r.buffer is not self.old]
        if len(reads) < len(stmt.reads):  # it reads what it stores
            reads += [r for r in stmt.writes if r.buffer is self.new]
            stmt = stmt.replace(reads=tuple(reads))
        return super().visit_Block(stmt)


def _merged(body: Stmt, old: Buffer, new: Buffer) -> Stmt:
    places = [s.indices for s in pre_order(body) if isinstance(s, BufferStore) and s.buffer is new]

    def rule(expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer is old:
            return BufferLoad(new, places[0])
        return None

    return _Merger(old, new).visit(rewrite_stmt_exprs(body, rule))
