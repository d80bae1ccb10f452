"""What can be one loop nest: the iteration domain that nodes share.

A nest walks one domain: the elements of its outputs or, where it reduces, of what is reduced. A
tensor that the nest materializes (an output, the result of a reduction) is *full*, with an element
for each point of the domain, or it has one for each *row*, what is left when the reduced axes are
taken away. Whatever reads a materialized tensor must want it at the point where it is made, in the
order of its elements; then a reshape in between does no harm. Elementwise ops on inputs alone are
computed where they are read, so they may be read anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from ...target.cost import is_costly, work_of
from ..nodes import Node, Tensor
from ..symbols import divisor_chain, hint
from .group import reduced_axes
from .layouts import (
    PIECE,
    Layout,
    cut_shape,
    is_plain,
    layout_after,
    plain_layout,
    size_of,
    together,
)

Role = Literal["full", "row", "free"]

_ALONG = {"reshape", "broadcast_to"}
#: Ops that read each element at most once though their result is larger, and at any place.
_ONCE = {"concat", "pad"}
_ANYWHERE = {"gather", "gather_elements", "gather_nd"}


# ---------------------------------------------------------------------------- shapes


def refines(shapes: Iterable[Sequence[int]]) -> bool:
    """Whether shapes of one size can be walked by one nest: by axes that all are made of.

    >>> refines([(2, 12), (2, 3, 4), (6, 4)]), refines([(4, 6), (6, 4)])
    (True, False)
    """
    steps: set[int] = set()
    for shape in shapes:
        step = 1
        for extent in reversed(shape):
            step *= extent
            steps.add(step)
    return divisor_chain(steps) is not None


def lattice(shape: Sequence[int], axes: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Some axes of a compact array as (extent, step) pairs; neighbours walked as one are one.

    >>> lattice((2, 3, 4), (0, 1)), lattice((6, 4), (0,))
    (((6, 4),), ((6, 4),))
    """
    pairs: list[tuple[int, int]] = []
    step = 1
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        if axis in axes and extent != 1:
            if pairs and pairs[-1][0] * pairs[-1][1] == step:
                pairs[-1] = (pairs[-1][0] * extent, pairs[-1][1])
            else:
                pairs.append((extent, step))
        step *= extent
    return tuple(reversed(pairs))


def spread(shape: Sequence[int], wide: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Along which axes of `wide` a tensor of `shape` lies when it is broadcast to it."""
    offset = len(wide) - len(shape)
    return lattice(wide, {k + offset for k, extent in enumerate(shape) if extent != 1})


# ---------------------------------------------------------------------------- nests


class IterationDomain:
    """The domain of a nest, and how the tensors of the nest lie in it.

    Args:
        shape: of the domain.
        axes: those that are reduced over; None where nothing is reduced.
    """

    def __init__(self, shape: Sequence[int], axes: Collection[int] | None) -> None:
        self.shape = tuple(shape)
        self.size = size_of(shape)
        self.roles: dict[Tensor, Role] = {}
        self.work: dict[Tensor, int] = {}
        self.reordered: dict[Tensor, Layout] = {}  # full, but in another order
        self.walked: dict[Role, list[tuple[int, ...]]] = {"full": [self.shape], "row": []}
        self.reduced = lattice(shape, axes or ())
        spatial = [k for k in range(len(self.shape)) if k not in (axes or ())]
        self.rows = lattice(shape, spatial)
        self.row_size = size_of(self.shape[k] for k in spatial)
        self.reduces = axes is not None

    def obstacle(self, nodes: Sequence[Node], materialized: Collection[Tensor]) -> str | None:
        """Place all nodes, producers first; why that cannot be done."""
        for node in nodes:
            if node.op.kind == "reduction":
                reason = self._reduction(node)
            else:
                reason = self._elementwise(node, materialized)
            if reason:
                return reason
        if not refines(self.walked["full"]) or not refines(self.walked["row"]):
            return "its shapes cut the elements in ways that no one nest of loops has"
        return None

    def _reduction(self, node: Node) -> str | None:
        source = node.inputs[0]
        shape, axes = source.shape, reduced_axes(node)
        if source.type.size != self.size or lattice(shape, axes) != self.reduced:
            return f"{node.op.name} reduces over another domain"
        is_row = self.roles.get(source, "free") == "row" and self.row_size != self.size
        if is_row or source in self.reordered:
            return f"{node.op.name} reduces over another domain"
        self.walked["full"].append(shape)
        for tensor in node.outputs:
            self.roles[tensor] = "row"
            self.work[tensor] = 0
        self.walked["row"].append(tuple(n for k, n in enumerate(shape) if k not in axes))
        return None

    def _elementwise(self, node: Node, materialized: Collection[Tensor]) -> str | None:
        out = node.outputs[0]
        made = [t for t in node.inputs if t in self.roles]
        bound = [t for t in made if self.roles[t] != "free"]
        role: Role = "free"
        if bound or any(t in materialized for t in node.outputs):
            found = self._role(out, node)
            if found is None:
                return f"{node.op.name} makes {out.type}, neither the domain nor its rows"
            role = found
            reason = self._read_all(node, bound, role)
            if reason:
                return reason
        work = work_of(node.op.name)
        for tensor in made:
            if self.repeats(tensor, out, node.op.name):
                return f"{node.op.name} would compute {maker_name(tensor)} again for each element"
            work += self.work[tensor]
        stays = any(t in materialized for t in node.outputs)
        if stays:
            layout = self.reordered.get(out)
            if layout is not None and hint(together(layout)) < PIECE:
                return f"{node.op.name} takes the rows of the nest apart"
            self.walked[role].append(out.shape if layout is None else cut_shape(layout))
        for tensor in node.outputs:
            # What stays must be read where it is made, even if it is made of inputs alone.
            self.roles[tensor] = role if stays or bound else "free"
            self.work[tensor] = 0 if stays else work
        return None

    def _role(self, out: Tensor, node: Node) -> Role | None:
        if out.type.size == self.size:
            return "full"
        return "row" if self.reduces and out.type.size == self.row_size else None

    def _read_all(self, node: Node, bound: Sequence[Tensor], role: Role) -> str | None:
        """Whether a node reads bound tensors where they are made, or all in one other order."""
        if node.op.name == "transpose" or any(t in self.reordered for t in bound):
            if not bound:
                return None
            layouts = [self.reordered.get(t) or plain_layout(t.shape) for t in bound]
            is_full = role == "full" and all(t.type.size == self.size for t in bound)
            layout = layout_after(node, layouts) if is_full else None
            if layout is None:
                return _at_other_places(node, bound[0])
            if not is_plain(layout):
                self.reordered[node.outputs[0]] = layout
            return None
        reasons = (self._read(node, tensor, role) for tensor in bound)
        return next(filter(None, reasons), None)

    def _read(self, node: Node, tensor: Tensor, role: Role) -> str | None:
        """Whether a node reads a bound tensor at the point where it is made."""
        if node.op.kind != "elementwise" and node.op.name not in _ALONG:
            return _at_other_places(node, tensor)
        own = self.roles[tensor]
        out = node.outputs[0]
        if tensor.type.size == out.type.size:
            return None if own == role or self.size == self.row_size else _elsewhere(node, tensor)
        if own == "row" and role == "full" and spread(tensor.shape, out.shape) == self.rows:
            return None
        return _elsewhere(node, tensor)

    def repeats(self, tensor: Tensor, out: Tensor, reader: str) -> bool:
        """Whether something costly would be computed many times over.

        What does not depend on the innermost axis is computed once outside its loop.
        """
        if not is_costly(self.work[tensor]) or hint(tensor.type.size) >= hint(out.type.size):
            return False
        if tensor.type.size == 1 or reader in _ONCE:
            return False
        if reader in _ANYWHERE or len(tensor.shape) > len(out.shape):
            return True
        inner = max((k for k, n in enumerate(out.shape) if n != 1), default=0)
        position = inner - (len(out.shape) - len(tensor.shape))
        return position >= 0 and tensor.shape[position] != 1


def maker_name(tensor: Tensor) -> str:
    """The op that makes a tensor, for messages."""
    return tensor.node.op.name if tensor.node is not None else tensor.name


def _at_other_places(node: Node, tensor: Tensor) -> str:
    return f"{node.op.name} reads {maker_name(tensor)} at other places than it is made at"


def _elsewhere(node: Node, tensor: Tensor) -> str:
    return f"{node.op.name} spreads {maker_name(tensor)} along other axes than those it has"


def nest_obstacle(
    nodes: Sequence[Node],
    materialized: Collection[Tensor],
    reduced: tuple[Sequence[int], Collection[int]] | None = None,
) -> str | None:
    """Why nodes are not computed in one nest; None if they are.

    Args:
        reduced: the shape that they reduce, and the axes; without reductions all that they
            materialize has one size.
    """
    if reduced is not None:
        return IterationDomain(*reduced).obstacle(nodes, materialized)
    results = (t for node in nodes for t in node.outputs if t in materialized)
    shape = next((t.shape for t in results), None)
    return None if shape is None else IterationDomain(shape, None).obstacle(nodes, materialized)
