"""Loop axes, and formulas placed into loops.

Kernels address every array as one compact row of elements; the axes of the program are merged
wherever all accesses of a kernel step through them as through one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ... import compute as te
from ...expr import Expr, ProducerLoad, Var, cast, const
from ...tir import Buffer, BufferLoad
from .access import Linear, as_index, flat_index
from .stages import base_of


@dataclass(frozen=True, eq=False)
class Axis:
    """A loop axis: one or several program axes, outermost first, walked as one."""

    parts: tuple[Var, ...]
    extents: tuple[int, ...]
    reduce: bool = False

    @property
    def extent(self) -> int:
        """The number of steps."""
        total = 1
        for extent in self.extents:
            total *= extent
        return total

    @property
    def name(self) -> str:
        """A name for loops over it."""
        return "_".join(part.name for part in self.parts)

    def values(self, position: Expr) -> dict[Var, Expr]:
        """The program's variables, in their types, at a position of this axis."""
        if len(self.parts) == 1:
            return {self.parts[0]: cast(self.parts[0].dtype, position)}
        found, step = {}, self.extent
        for part, extent in zip(self.parts, self.extents, strict=True):
            above, step = step, step // (extent or 1)
            value = position if above == self.extent else position % above
            found[part] = cast(part.dtype, value // step if step != 1 else value)
        return found


#: How a load of a tensor that the kernel itself makes is answered, given its indices.
Source = Callable[[tuple[Expr, ...]], Expr]


def constantly(value: Expr) -> Source:
    """A source that is the same whatever the indices."""
    return lambda _: value


class Frame:
    """Formulas at given positions of the loop axes.

    Args:
        axes: the loop axes.
        positions: where each of them stands.
        buffers: the memory of tensors, as rows of elements.
        sources: tensors that live elsewhere (a scalar, a local array).
        known: values of terms of the formulas, such as single loads.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        positions: Sequence[Expr],
        buffers: Mapping[te.Tensor, Buffer],
        sources: Mapping[te.Tensor, Source] | None = None,
        known: Mapping[Expr, Expr] | None = None,
    ) -> None:
        self.axes = tuple(axes)
        self.positions = tuple(positions)
        self.buffers = buffers
        self.sources = sources or {}
        self.variables = {part for axis in axes for part in axis.parts}
        self.values: dict[Var, Expr] = {}
        for axis, position in zip(axes, positions, strict=True):
            self.values.update(axis.values(position))
        self._known = dict(known or {})

    def formula(self, expr: Expr) -> Expr:
        """`expr` with its variables and loads put in place."""
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._place(expr)
        return known

    def _place(self, expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return self.values.get(expr, expr)
        if isinstance(expr, ProducerLoad):
            made = expr.producer
            source = self.sources.get(base_of(made))
            if source is not None:
                return source(expr.indices)
            return self.load(expr.producer, expr.indices)
        children = expr.children
        if not children:
            return expr
        return expr.with_children([self.formula(child) for child in children])

    def load(self, tensor: te.Tensor, indices: Sequence[Expr]) -> Expr:
        """An element of a tensor in memory."""
        memory = self.buffers[base_of(tensor)]
        return BufferLoad(memory, [self.position(indices, tensor.static_shape)])

    def position(self, indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
        """Where an element lies in its row of elements."""
        form = flat_index(indices, shape, self.variables)
        result: Expr = const(0)
        for axis, at in zip(self.axes, self.positions, strict=True):
            if _walks_as_one(axis, form):
                # Not `stride`, which knows none where an opaque term depends on the axis too.
                step = form.coefficients.get(axis.parts[-1], 0)
                if step:
                    result = result + at * step
            else:
                for part in axis.parts:
                    factor = form.coefficients.get(part, 0)
                    if factor:
                        result = result + self.values[part] * factor
        for term, factor in form.opaque:
            result = result + as_index(self.formula(term)) * factor
        total: Expr = result + form.offset
        return total


def _walks_as_one(axis: Axis, form: Linear) -> bool:
    step = 0
    for part, extent in zip(reversed(axis.parts), reversed(axis.extents), strict=True):
        factor = form.coefficients.get(part, 0)
        if part is axis.parts[-1]:
            step = factor
        elif factor != step:
            return False
        step *= extent
    return True
