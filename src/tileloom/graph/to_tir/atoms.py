"""The axes that a nest walks: those that the shapes of all its stages are made of.

A reshape inside a kernel moves nothing, it only counts the elements differently. Stages whose
shapes differ by one walk the same domain, cut as finely as any of them wants it; axes that every
access steps through as one are merged again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from ... import compute as te
from ...expr import Expr, ProducerLoad, Range, Reduce, Var, cast, const, post_order
from ...expr.analyzer import Analyzer
from ..symbols import divisor_chain
from .access import flat_index
from .frame import Axis
from .layouts import Layout, cut_shape, size_of
from .stages import PlanRefused, Stage


def domain(stage: Stage) -> list[Axis]:
    """The axes of a stage, from the longest step through its main operand to the shortest."""
    axes = [Axis((v,), (n,)) for v, n in zip(stage.axes, stage.extents, strict=True)]
    axes += [
        Axis((v,), (n,), True) for v, n in zip(stage.reduce_axes, stage.reduce_extents, strict=True)
    ]
    if not stage.is_reduction:
        return axes
    variables = {axis.parts[0] for axis in axes}
    best: list[int] = [0] * len(axes)
    for load in stage.loads:
        form = flat_index(load.indices, load.producer.static_shape, variables)
        steps = [abs(axis.stride(form) or 0) for axis in axes]
        if sum(map(bool, steps)) > sum(map(bool, best)):
            best = steps
    # Axes that the main operand does not have stay outside, or innermost when reduced over.
    rank = [step or (0 if axis.reduce else 1 << 62) for step, axis in zip(best, axes, strict=True)]
    return [axes[k] for k in sorted(range(len(axes)), key=lambda k: -rank[k])]


def logical_axes(stage: Stage) -> list[Axis]:
    """The axes of a stage in the order of the shape that it walks.

    For a reduction that is the shape of what it reduces, if there is one tensor with all axes.
    """
    pairs = zip(stage.axes, stage.extents, strict=True)
    axes = {v: Axis((v,), (n,)) for v, n in pairs}
    if not stage.is_reduction:
        return list(axes.values())
    pairs = zip(stage.reduce_axes, stage.reduce_extents, strict=True)
    axes |= {v: Axis((v,), (n,), True) for v, n in pairs}
    first = stage.op.body[0]
    source = first.source[0] if isinstance(first, Reduce) else first
    for node in post_order(source):
        if isinstance(node, ProducerLoad):
            found = [axes[i] for i in node.indices if isinstance(i, Var) and i in axes]
            if len(found) == len(axes) == len(set(found)):
                return found
    return list(axes.values())


class Atoms:
    """The finest axes of a domain, in the order of its shape.

    Args:
        lead: the axes of the stage that names the domain.
        cuts: for each of them, the extents of the axes that it is cut into.
    """

    def __init__(self, lead: Sequence[Axis], cuts: Sequence[Sequence[int]]) -> None:
        self._parts: dict[Var, tuple[Axis, ...]] = {}
        for axis, extents in zip(lead, cuts, strict=True):
            (var,) = axis.parts
            if len(extents) == 1:
                self._parts[var] = (axis,)
                continue
            fresh = (Var(f"{var.name}{k}", var.dtype) for k in range(len(extents)))
            self._parts[var] = tuple(
                Axis((v,), (n,), axis.reduce) for v, n in zip(fresh, extents, strict=True)
            )
        self.axes = [atom for axis in lead for atom in self._parts[axis.parts[0]]]
        self.is_finer = len(self.axes) != len(lead)
        self.size = size_of(axis.extent for axis in self.axes)
        self.rows = [axis for axis in self.axes if not axis.reduce]
        self.row_size = size_of(axis.extent for axis in self.rows)
        self.variables = {axis.parts[0] for axis in self.axes}
        self.reduced = {axis.parts[0] for axis in self.axes if axis.reduce}

    def parts(self, axis: Axis) -> tuple[Axis, ...]:
        """What an axis of the leading stage is made of."""
        return self._parts[axis.parts[0]]

    def values_of(
        self, axes: Sequence[Axis], name: str, *, rows: bool = False, reduces: bool = False
    ) -> dict[Var, Expr]:
        """The variables of another stage's axes, in order, in terms of the atoms.

        Raises:
            PlanRefused: they are not made of atoms, or reduce others.
        """
        rest = list(self.rows if rows else self.axes)
        found: dict[Var, Expr] = {}
        for axis in axes:
            value: Expr | None = None
            extent = 1
            while extent != axis.extent and rest:
                atom = rest.pop(0)
                if reduces and atom.reduce != axis.reduce:
                    raise PlanRefused(f"{name} reduces over another domain")
                extent *= atom.extent
                var = atom.parts[0]
                value = var if value is None else value * atom.extent + var
            if extent != axis.extent or value is None:
                raise PlanRefused(f"{name} is over another domain")
            found[axis.parts[0]] = cast(axis.parts[0].dtype, value)
        if rest:
            raise PlanRefused(f"{name} is over another domain")
        return found

    def values_in(self, axes: Sequence[Axis], layout: Layout, name: str) -> dict[Var, Expr]:
        """The variables of a stage whose result lies in another order.

        Raises:
            PlanRefused: it is not made of atoms.
        """
        below: dict[int, int] = {}  # the first atom of a step, from the innermost one on
        step = 1
        for k, atom in reversed(list(enumerate(self.axes))):
            below[step] = k
            step *= atom.extent
        found: dict[Var, Expr] = {}
        for axis, dim in zip(axes, (dim for dim in layout if dim), strict=True):
            value: Expr | None = None
            for extent, start in dim:
                k = below.get(start, -1)
                inside: list[Axis] = []
                while k >= 0 and size_of(a.extent for a in inside) != extent:
                    inside.insert(0, self.axes[k])
                    k -= 1
                if size_of(a.extent for a in inside) != extent:
                    raise PlanRefused(f"{name} lies in an order that the domain does not have")
                for atom in inside:
                    var = atom.parts[0]
                    value = var if value is None else value * atom.extent + var
            if value is not None:
                found[axis.parts[0]] = cast(axis.parts[0].dtype, value)
        return found

    def simplify(self, index: Expr) -> Expr:
        """An index with what the extents of the atoms imply."""
        return self._analyzer.simplify(index)

    @cached_property
    def _analyzer(self) -> Analyzer:
        analyzer = Analyzer()
        for axis in self.axes:
            var = axis.parts[0]
            analyzer.bind(var, Range(0, const(axis.extent, var.dtype)))
        return analyzer


def common_axes(lead: Stage, stages: Sequence[Stage], layouts: Mapping[te.Tensor, Layout]) -> Atoms:
    """The axes that the shapes of all stages are made of.

    Raises:
        PlanRefused: they cut the domain in ways that do not fit into each other.
    """
    own = logical_axes(lead)
    shape = [axis.extent for axis in own]
    size = size_of(shape)
    rows = [k for k, axis in enumerate(own) if not axis.reduce]
    whole, parts = [], []
    for stage in stages:
        if stage.is_reduction:
            whole.append([axis.extent for axis in logical_axes(stage)])
        elif size_of(stage.extents) == size:
            layout = layouts.get(stage.op.outputs[0])
            whole.append(list(stage.extents if layout is None else cut_shape(layout)))
        else:
            parts.append(list(stage.extents))
    cuts = _cut(shape, whole)
    inner = _cut([n for k in rows for n in cuts[k]], parts)
    found = iter(inner)
    for k in rows:
        cuts[k] = [n for _ in cuts[k] for n in next(found)]
    return Atoms(own, cuts)


def _live(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def _cut(shape: Sequence[int], others: Iterable[Sequence[int]]) -> list[list[int]]:
    """The extents that each axis of a shape is cut into, so that other shapes are made of them."""
    own, rest = _live(shape), [each for each in others if _live(each) != _live(shape)]
    if not rest:
        return [[n] for n in shape]
    steps = {1}
    for each in (own, *rest):
        step = 1
        for extent in reversed(each):
            step *= extent
            steps.add(step)
    chain = divisor_chain(steps)
    if chain is None:
        raise PlanRefused("shapes cut the domain in ways that do not fit into each other")
    result: list[list[int]] = []
    step = 1
    for extent in reversed(shape):
        within = chain[chain.index(step) : chain.index(step * extent) + 1]
        result.append([b // a for a, b in pairwise(within)][::-1] or [1])
        step *= extent
    return result[::-1]
