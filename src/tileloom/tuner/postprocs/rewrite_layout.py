"""RewriteLayout: inputs whose layout is free get the one in which a program reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul

from ...expr import (
    Analyzer,
    Expr,
    IndexMap,
    IntImm,
    IterSumExpr,
    Range,
    Var,
    const,
    detect_iter_map,
    post_order,
    substitute,
)
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    For,
    PrimFunc,
    Stmt,
    pre_order,
    stmt_children,
    stmt_exprs,
)
from ..annotations import LAYOUT_FREE_BUFFERS, LAYOUT_REWRITE
from ..context import TuneContext
from ._common import accepted


@dataclass(frozen=True, slots=True)
class RewriteLayout:
    """Copy the parameters listed in "layout_free_buffers" into the order in which they are read.

    The copy is a block of its own, annotated with "meta_schedule.layout_rewrite_preproc": who runs
    the program with constant inputs runs it once. The order is that of the loops around the last
    access: a weight of a tiled product becomes tiles, one after another. Copies that the schedule
    makes of the parameter already, one of the other, get the same layout.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((8, 64), name="A"); B = te.placeholder((64, 32), name="B")
    >>> k = te.reduce_axis((0, 64), "k")
    >>> C = te.compute((8, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> func = te.create_prim_func([A, B, C]).with_attr("layout_free_buffers", [1])
    >>> sch = tileloom.Schedule(func)
    >>> i, j, k = sch.get_loops("C")
    >>> outer, inner = sch.split(j, [None, 8])
    >>> sch.reorder(outer, i, k, inner)
    >>> RewriteLayout().apply(sch, TuneContext(sch.mod, target("cpu")))
    True
    >>> sch.get(sch.get_block("C")).reads[1].buffer.shape
    (4, 64, 8)
    """

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take the steps; False if one is refused."""
        return accepted(_rewrite, sch)


def _rewrite(sch: Schedule) -> None:
    for name, func in sch.mod.functions.items():
        for index in func.attrs.get(LAYOUT_FREE_BUFFERS, ()):
            _rewrite_buffer(sch, name, func.buffers[int(index)])


def _rewrite_buffer(sch: Schedule, func_name: str, buffer: Buffer) -> None:
    func = sch.mod[func_name]
    copies = _copies(func, buffer)
    source = copies[-1].writes[0].buffer if copies else buffer
    found = _last_read(func, source)
    if found is None:
        return
    reader, index, layout = found
    block = sch.get_block(reader.name_hint, func_name)
    if not copies:
        _add_copy(sch, block, index)
    sch.transform_layout(block, ("read", index), layout)
    for copy in reversed(copies):
        block = sch.get_block(copy.name_hint, func_name)
        if copy is copies[0]:
            _add_copy(sch, block, 0)
        sch.transform_layout(block, ("read", 0), layout)


def _add_copy(sch: Schedule, block: BlockRV, index: int) -> None:
    copy = sch.cache_read(block, index, "global")
    sch.annotate(copy, LAYOUT_REWRITE, True)


def _copies(func: PrimFunc, buffer: Buffer) -> list[Block]:
    """The blocks that copy a buffer, and then copy that copy, and so on."""
    chain = []
    for stmt in pre_order(func.body):
        if (
            isinstance(stmt, Block)
            and stmt.init is None
            and len(stmt.reads) == len(stmt.writes) == 1
            and stmt.reads[0].buffer is buffer
        ):
            chain.append(stmt)
            buffer = stmt.writes[0].buffer
    return chain


def _last_read(func: PrimFunc, buffer: Buffer) -> tuple[Block, int, IndexMap] | None:
    """The block of the last access to a buffer, its number there, and the layout that it asks for.

    None if nothing reads the buffer, or no layout fits.
    """
    found = None
    for loops, realize, load in _loads(func.body, (), None):
        if load.buffer is buffer and realize is not None:
            found = loops, realize, load
    if found is None:
        return None
    loops, realize, load = found
    indices = [substitute(index, realize.bindings) for index in load.indices]
    layout = suggested_layout(buffer, indices, loops, realize.predicate)
    buffers = [region.buffer for region in realize.block.reads]
    if layout is None or buffer not in buffers:
        return None
    return realize.block, buffers.index(buffer), layout


Load = tuple[tuple[For, ...], BlockRealize | None, BufferLoad]


def _loads(stmt: Stmt, loops: tuple[For, ...], realize: BlockRealize | None) -> Iterator[Load]:
    """Every load with the loops and the innermost block around it."""
    if isinstance(stmt, For):
        loops = (*loops, stmt)
    elif isinstance(stmt, BlockRealize):
        realize = stmt
    elif not isinstance(stmt, Block):  # whose regions load nothing
        for expr in stmt_exprs(stmt):
            for part in post_order(expr):
                if isinstance(part, BufferLoad):
                    yield loops, realize, part
    for child in stmt_children(stmt):
        yield from _loads(child, loops, realize)


def suggested_layout(
    buffer: Buffer, indices: Sequence[Expr], loops: Sequence[For], predicate: Expr
) -> IndexMap | None:
    """The layout in which the elements of a buffer lie as loops come to them.

    Each part of an index that a loop makes becomes a dimension, in the order of the loops.

    Args:
        indices: of an access, in the variables of the loops.
        loops: those around the access, outermost first.
        predicate: where the access takes place.

    Returns:
        The layout; None if the access is not affine in the loops, or is not to all of the buffer.
    """
    shape = buffer.static_shape
    if shape is None:
        return None
    domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    found = detect_iter_map([_flat(indices, shape)], domains, predicate)
    parts = _parts(found.indices[0]) if found else None
    if not parts or prod(part.extent for part in parts) != prod(shape):
        return None
    depth = {loop.loop_var: i for i, loop in enumerate(loops)}
    order = sorted(range(len(parts)), key=lambda k: (depth[parts[k].var], -parts[k].factor))
    return _layout(shape, [part.extent for part in parts], order)


@dataclass(frozen=True, slots=True)
class _Part:
    """`var // factor % extent`."""

    var: Var
    factor: int
    extent: int


def _parts(total: IterSumExpr) -> list[_Part] | None:
    """What a sum is made of, from the largest to the smallest; None if a number is not known."""
    scales = [split.scale for split in total.args]
    if not all(isinstance(scale, IntImm) for scale in scales):
        return None
    found: list[_Part] = []
    for split in sorted(total.args, key=lambda split: -split.scale.value):  # type: ignore[attr-defined]
        source, factor, extent = split.source.source, split.lower_factor, split.extent
        if isinstance(source, IterSumExpr):
            inner = _parts(source)
            if inner is None:
                return None
            found += inner
        elif isinstance(source, Var) and isinstance(factor, IntImm) and isinstance(extent, IntImm):
            found.append(_Part(source, factor.value, extent.value))
        else:
            return None
    return found


def _flat(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The number of an element in row-major order."""
    total: Expr = const(0, indices[0].dtype)
    for index, size in zip(indices, shape, strict=True):
        total = total * size + index
    return total


def _layout(shape: Sequence[int], extents: Sequence[int], order: Sequence[int]) -> IndexMap:
    """Elements numbered row by row, the number taken apart by extents, and these put in order."""
    axes = [Var(f"i{k}") for k in range(len(shape))]
    known = Analyzer({axis: Range(0, size) for axis, size in zip(axes, shape, strict=True)})
    splits = _splits(_flat(axes, shape), extents)
    return IndexMap(axes, [known.simplify(splits[k]) for k in order])


def _splits(number: Expr, extents: Sequence[int]) -> list[Expr]:
    """A number in a system of mixed bases, the largest split first."""
    weights = list(accumulate(reversed(extents), mul, initial=1))[-2::-1]
    return [number // w % e for w, e in zip(weights, extents, strict=True)]
