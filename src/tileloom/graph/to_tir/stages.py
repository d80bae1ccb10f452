"""From tensor expressions to stages: what a kernel computes, with everything inlined that may be.

A stage is an output of the kernel, a reduction, or an intermediate that is worth keeping. All
other tensors disappear into the formulas of those that read them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ... import compute as te
from ...expr import (
    Expr,
    FloorDiv,
    FloorMod,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    cast,
    const,
    post_order,
    rewrite,
    substitute,
)
from ...expr.analyzer import Analyzer
from .access import flat_index


@dataclass(frozen=True, eq=False)
class Stage:
    """One `ComputeOp` of the kernel.

    Attributes:
        op: the operation; its outputs are written, or kept in registers.
        axes: the variables of the output's axes, and their extents.
        reduce_axes: those of the reduction, empty for a formula.
        body: one expression for each output; loads are of inputs and of other stages.
    """

    op: te.ComputeOp
    axes: tuple[Var, ...]
    extents: tuple[int, ...]
    reduce_axes: tuple[Var, ...]
    reduce_extents: tuple[int, ...]
    body: tuple[Expr, ...]

    @property
    def is_reduction(self) -> bool:
        """Whether the bodies reduce."""
        return isinstance(self.body[0], Reduce)

    @property
    def loads(self) -> list[ProducerLoad]:
        """Every load that the bodies make, once."""
        found: dict[ProducerLoad, None] = {}
        for part in self.body:
            found.update((n, None) for n in post_order(part) if isinstance(n, ProducerLoad))
        return list(found)


def topological(outputs: Sequence[te.Tensor]) -> list[te.ComputeOp]:
    """The operations behind `outputs`, producers first."""
    done: dict[te.ComputeOp, None] = {}

    def visit(op: te.ComputeOp | te.PlaceholderOp) -> None:
        if isinstance(op, te.ComputeOp) and op not in done:
            for tensor in op.input_tensors:
                visit(tensor.op)
            done[op] = None

    for tensor in outputs:
        visit(tensor.op)
    return list(done)


def make_stages(outputs: Sequence[te.Tensor]) -> list[Stage]:
    """The stages of a kernel that writes `outputs`, producers first."""
    ops = topological(outputs)
    kept: set[object] = {tensor.op for tensor in outputs} | {op for op in ops if op.reduce_axis}
    inlined: dict[te.ComputeOp, tuple[Expr, ...]] = {}
    stages = []
    rows: dict[te.Tensor, Flattened] = {}
    for op in ops:
        inlined[op] = body = tuple(_inline(part, inlined, kept) for part in op.body)
        if op in kept:
            stages.append(_stage(op, body, rows))
    return stages


def _inline(
    body: Expr,
    inlined: dict[te.ComputeOp, tuple[Expr, ...]],
    kept: Collection[object],
) -> Expr:
    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, ProducerLoad):
            return None
        tensor = node.producer
        if not isinstance(tensor.op, te.ComputeOp) or tensor.op in kept:
            return None
        axes = [axis.var for axis in tensor.op.axis]
        formula = inlined[tensor.op][tensor.value_index]
        pairs = zip(axes, node.indices, strict=True)
        return substitute(formula, {axis: cast(axis.dtype, index) for axis, index in pairs})

    return rewrite(body, rule)


def _stage(op: te.ComputeOp, body: tuple[Expr, ...], rows: dict[te.Tensor, Flattened]) -> Stage:
    """Simplified indices; axes of extent 1 become the constant 0."""
    axes, extents = _live(op.axis)
    reduce_axes, reduce_extents = _live(op.reduce_axis)
    single = {a.var: const(0, a.var.dtype) for a in (*op.axis, *op.reduce_axis) if _size(a) == 1}
    analyzer = Analyzer()
    for axis in (*op.axis, *op.reduce_axis):
        analyzer.bind(axis.var, Range(0, axis.domain.extent))
    tidy = {}

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Var):  # argmax combines the position itself
            return single.get(node)
        if not isinstance(node, ProducerLoad):
            return None
        key = tuple(node.indices)
        if key not in tidy:
            tidy[key] = tuple(analyzer.simplify(index) for index in key)
        source, indices = node.producer, tidy[key]
        if isinstance(source.op, te.PlaceholderOp) and any(map(_cuts, indices)):
            shape = source.static_shape
            flat = flat_index(indices, shape, axes + reduce_axes).expr()
            row = rows.setdefault(source, rows.get(source) or Flattened.of(source))
            return ProducerLoad(row, [analyzer.simplify(flat)])
        return ProducerLoad(source, indices)

    parts = (rewrite(substitute(part, single), rule) for part in body)
    return Stage(op, axes, extents, reduce_axes, reduce_extents, tuple(parts))


class Flattened(te.Tensor):
    """An input seen as one row of elements, where what a reshape of it reads is a plain step."""

    __slots__ = ("base",)
    base: te.Tensor

    @staticmethod
    def of(tensor: te.Tensor) -> Flattened:
        """`tensor` as one row."""
        size = 1
        for extent in tensor.static_shape:
            size *= extent
        row = Flattened(tensor.op, tensor.value_index, (const(size),), tensor.dtype, tensor.name)
        row.base = tensor
        return row


def base_of(tensor: te.Tensor) -> te.Tensor:
    """What is in memory where a tensor is read, which may be a `Flattened` one."""
    return tensor.base if isinstance(tensor, Flattened) else tensor


def _cuts(index: Expr) -> bool:
    """Whether an index is taken apart: the two halves of a reshape."""
    return any(isinstance(node, (FloorDiv, FloorMod)) for node in post_order(index))


def _live(axes: Sequence[IterVar]) -> tuple[tuple[Var, ...], tuple[int, ...]]:
    live = [axis for axis in axes if _size(axis) != 1]
    return tuple(a.var for a in live), tuple(_size(a) for a in live)


def _size(axis: IterVar) -> int:
    return te.static_extent(axis.domain.extent)
