"""Tensor intrinsics made of blocks of a program: they match it, whatever it computes."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from tileloom import ScheduleError
from tileloom.base.errors import UserError
from tileloom.expr import Analyzer, Expr, IntImm, Range, Var, const, free_vars, rewrite
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    PrimFunc,
    Stmt,
    StmtRewriter,
    make_buffer,
    renewed,
    undefined_vars,
    union_regions,
)

#: Names are used again after so many, when no schedule has the old ones any more.
_NAMES = cycle([f"made_of_a_block_{k}" for k in range(1000)])


def intrinsic_of(block: Block) -> str:
    """The name of an intrinsic that computes what a block does, over views with open strides.

    Raises:
        ScheduleError: the block is none that an intrinsic can describe.
    """
    if block.init is not None or block.match_buffers or block.alloc_buffers:
        raise ScheduleError("the block is no plain one")
    regions: dict[Buffer, BufferRegion] = {}
    for region in (*block.writes, *block.reads):
        known = regions.get(region.buffer)
        regions[region.buffer] = region if known is None else union_regions(known, region)
    try:
        funcs: list[Any] = [_func(block, regions, strided) for strided in (False, True)]
        name = next(_NAMES)
        TensorIntrin.register(name, *funcs, override=True)  # type: ignore[misc]
    except UserError as error:
        raise ScheduleError(f"no intrinsic: {error.message}") from error
    return name


def _func(block: Block, regions: dict[Buffer, BufferRegion], strided: bool) -> PrimFunc:
    moved = _Moved(block)
    params = {}
    for buffer, region in regions.items():
        shape = [part.extent for part in region.region]
        if not shape or not all(isinstance(size, IntImm) for size in shape):
            raise ScheduleError("the region has no fixed size")
        options: dict[str, Any] = {"scope": buffer.scope}
        if strided:
            steps = [Var(f"s{k}", "int32") for k in range(len(shape) - 1)]
            options |= {"strides": [*steps, const(1)], "offset_factor": 1}
        sizes = [const(size.value) for size in shape if isinstance(size, IntImm)]
        view = make_buffer(sizes, str(buffer.dtype), buffer.name, **options)
        moved.views[buffer] = (view, [part.min for part in region.region])
        params[Var(buffer.name, "handle")] = view
    body = moved.visit(block.body)
    whole = tuple(BufferRegion.full(view) for view in params.values())
    root = Block((), whole, tuple(moved.whole(block.writes)), "root", body)
    func = PrimFunc(tuple(params), BlockRealize((), const(True), root), params)
    if set(undefined_vars(root.body)) - {v for view in params.values() for v in _own(view)}:
        raise ScheduleError("the block uses more than what it touches")
    return func.replace(body=renewed(func.body))


def _own(view: Buffer) -> set[Var]:
    return {view.data}.union(*(free_vars(part) for part in view.strides))


class _Moved(StmtRewriter):
    """Accesses of parts of buffers as those of buffers of their own, with indices of int32."""

    def __init__(self, block: Block) -> None:
        self.views: dict[Buffer, tuple[Buffer, list[Expr]]] = {}
        self.analyzer = Analyzer({axis.var: axis.domain for axis in block.iter_vars})

    def whole(self, regions: tuple[BufferRegion, ...]) -> list[BufferRegion]:
        found = dict.fromkeys(self.views[region.buffer][0] for region in regions)
        return [BufferRegion.full(view) for view in found]

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> list[Expr]:
        return [
            self.analyzer.simplify(index - start)
            for index, start in zip(indices, self.views[buffer][1], strict=True)
        ]

    def visit_expr(self, expr: Expr) -> Expr:
        def rule(node: Expr) -> Expr | None:
            if isinstance(node, BufferLoad) and node.buffer in self.views:
                return BufferLoad(
                    self.views[node.buffer][0], self._place(node.buffer, node.indices)
                )
            return None

        return rewrite(expr, rule)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        if region.buffer not in self.views:
            return region
        lows = self._place(region.buffer, tuple(part.min for part in region.region))
        extents = [part.extent for part in region.region]
        return BufferRegion(self.views[region.buffer][0], tuple(map(Range, lows, extents)))

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        if isinstance(new, BufferStore) and stmt.buffer in self.views:
            indices = tuple(self._place(stmt.buffer, new.indices))
            return new.replace(buffer=self.views[stmt.buffer][0], indices=indices)
        return new
