"""Whether nodes can share a loop nest: what the planners of this package make, asked in advance.

A nest walks one domain: the elements of its outputs or, where it reduces, of what is reduced. A
tensor that the nest keeps (an output, the result of a reduction) is *whole*, with an element for
each point of the domain, or it has one for each *row*, what is left when the reduced axes are
taken away. Whatever reads a kept tensor must want it at the point where it is made, in the order
of its elements; then a reshape in between does no harm. Formulas of inputs alone are copied to
where they are read, so they may be read anywhere.

Each test answers None, or why not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Literal

from ..nodes import Node, Tensor

Role = Literal["whole", "row", "free"]

_ALONG = {"reshape", "broadcast_to"}
#: Ops that read each element at most once though their result is larger, and at any place.
_ONCE = {"concat", "pad"}
_ANYWHERE = {"gather", "gather_elements", "gather_nd"}

#: Work of an op on one element, in simple operations; the rest counts as one.
WORK = {
    "constant": 0, "reshape": 0, "broadcast_to": 0, "transpose": 0, "slice": 0, "iota": 0,
    "div": 4, "sqrt": 4, "rsqrt": 6, "reciprocal": 4, "exp": 10, "exp2": 10, "expm1": 12,
    "log": 12, "log2": 12, "log1p": 14, "tanh": 14, "sigmoid": 12, "erf": 16, "erfc": 20,
    "sin": 14, "cos": 14, "tan": 20, "asin": 16, "acos": 16, "atan": 16, "atan2": 20, "sinh": 16,
    "cosh": 16, "asinh": 20, "acosh": 20, "atanh": 20, "pow": 30, "mod": 8, "fmod": 8,
    "floor_divide": 6, "remainder": 8, "gather": 4, "concat": 2, "pad": 2,
}  # fmt: skip

#: Simple operations that may be done again for each element rather than kept.
CHEAP = 6
#: Elements that lie together in the result of a product, whatever its layout.
PIECE = 16


def work_of(node: Node) -> int:
    """Simple operations that one element of a node's result takes."""
    return WORK.get(node.op.name, 1)


# ---------------------------------------------------------------------------- shapes


def live(shape: Iterable[int]) -> tuple[int, ...]:
    """The extents other than 1."""
    return tuple(extent for extent in shape if extent != 1)


def size_of(shape: Iterable[int]) -> int:
    """The number of elements."""
    total = 1
    for extent in shape:
        total *= extent
    return total


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
    chain = sorted(steps)
    return all(a and b % a == 0 for a, b in pairwise(chain))


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


class Nest:
    """One domain, and what the tensors of a nest over it are.

    Args:
        shape: of the domain.
        axes: those that are reduced over; None where nothing is reduced.
    """

    def __init__(self, shape: Sequence[int], axes: Collection[int] | None) -> None:
        self.shape = tuple(shape)
        self.size = size_of(shape)
        self.roles: dict[Tensor, Role] = {}
        self.work: dict[Tensor, int] = {}
        self.walked: dict[Role, list[tuple[int, ...]]] = {"whole": [self.shape], "row": []}
        self.reduced = lattice(shape, axes or ())
        kept = [k for k in range(len(self.shape)) if k not in (axes or ())]
        self.rows = lattice(shape, kept)
        self.row_size = size_of(self.shape[k] for k in kept)
        self.reduces = axes is not None

    def fit(self, nodes: Sequence[Node], kept: Collection[Tensor]) -> str | None:
        """Place all nodes, producers first."""
        for node in nodes:
            if node.op.kind == "reduction":
                reason = self._reduction(node)
            else:
                reason = self._formula(node, kept)
            if reason:
                return reason
        if not refines(self.walked["whole"]) or not refines(self.walked["row"]):
            return "its shapes cut the elements in ways that no one nest of loops has"
        return None

    def _reduction(self, node: Node) -> str | None:
        source = node.inputs[0]
        shape, axes = source.shape, _reduced_axes(node)
        if source.type.size != self.size or lattice(shape, axes) != self.reduced:
            return f"{node.op.name} reduces over another domain"
        if self.roles.get(source, "free") == "row" and self.row_size != self.size:
            return f"{node.op.name} reduces over another domain"
        self.walked["whole"].append(shape)
        for tensor in node.outputs:
            self.roles[tensor] = "row"
            self.work[tensor] = 0
        self.walked["row"].append(tuple(n for k, n in enumerate(shape) if k not in axes))
        return None

    def _formula(self, node: Node, kept: Collection[Tensor]) -> str | None:
        out = node.outputs[0]
        made = [t for t in node.inputs if t in self.roles]
        bound = [t for t in made if self.roles[t] != "free"]
        role: Role = "free"
        if bound or any(t in kept for t in node.outputs):
            found = self._role(out, node)
            if found is None:
                return f"{node.op.name} makes {out.type}, neither the domain nor its rows"
            role = found
            for tensor in bound:
                reason = self._read(node, tensor, role)
                if reason:
                    return reason
        work = work_of(node)
        for tensor in made:
            if self.repeats(tensor, out, node.op.name):
                return f"{node.op.name} would compute {_maker(tensor)} again for each element"
            work += self.work[tensor]
        is_kept = any(t in kept for t in node.outputs)
        if is_kept:
            self.walked[role].append(out.shape)
        for tensor in node.outputs:
            # What is kept must be read where it is made, even if it is made of inputs alone.
            self.roles[tensor] = role if is_kept or bound else "free"
            self.work[tensor] = 0 if is_kept else work
        return None

    def _role(self, out: Tensor, node: Node) -> Role | None:
        if out.type.size == self.size:
            return "whole"
        return "row" if self.reduces and out.type.size == self.row_size else None

    def _read(self, node: Node, tensor: Tensor, role: Role) -> str | None:
        """Whether a node reads a bound tensor at the point where it is made."""
        if node.op.kind != "elementwise" and node.op.name not in _ALONG:
            return f"{node.op.name} reads {_maker(tensor)} at other places than it is made at"
        own = self.roles[tensor]
        out = node.outputs[0]
        if tensor.type.size == out.type.size:
            return None if own == role or self.size == self.row_size else _elsewhere(node, tensor)
        if own == "row" and role == "whole" and spread(tensor.shape, out.shape) == self.rows:
            return None
        return _elsewhere(node, tensor)

    def repeats(self, tensor: Tensor, out: Tensor, reader: str) -> bool:
        """Whether costly formulas would be computed many times over.

        What does not depend on the innermost axis is computed once outside its loop.
        """
        if self.work[tensor] <= CHEAP or tensor.type.size >= out.type.size:
            return False
        if tensor.type.size == 1 or reader in _ONCE:
            return False
        if reader in _ANYWHERE or len(tensor.shape) > len(out.shape):
            return True
        inner = max((k for k, n in enumerate(out.shape) if n != 1), default=0)
        position = inner - (len(out.shape) - len(tensor.shape))
        return position >= 0 and tensor.shape[position] != 1


def _maker(tensor: Tensor) -> str:
    return tensor.node.op.name if tensor.node is not None else tensor.name


def _elsewhere(node: Node, tensor: Tensor) -> str:
    return f"{node.op.name} spreads {_maker(tensor)} along other axes than those it has"


def _reduced_axes(node: Node) -> tuple[int, ...]:
    rank = len(node.inputs[0].shape)
    axis = node.attrs.get("axis")
    axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(a % rank for a in axes) if rank else ()


def formulas_fit(nodes: Sequence[Node], kept: Collection[Tensor]) -> str | None:
    """Whether formulas are computed in one nest: all that is kept has one size."""
    results = [t for node in nodes for t in node.outputs if t in kept]
    if not results:
        return None
    return Nest(results[0].shape, None).fit(nodes, kept)


def rows_fit(
    nodes: Sequence[Node], kept: Collection[Tensor], domain: tuple[Sequence[int], Collection[int]]
) -> str | None:
    """Whether reductions over a domain and formulas around them are computed in one nest."""
    return Nest(*domain).fit(nodes, kept)


# ---------------------------------------------------------------------------- products

#: For each dimension of a tensor, the (extent, step) pairs that it is made of, outermost first;
#: steps count elements of the product.
Layout = tuple[tuple[tuple[int, int], ...], ...]


def product_fit(
    nodes: Sequence[Node], kept: Collection[Tensor], anchor: Node, *, panels: bool
) -> tuple[dict[Tensor, Layout], str | None]:
    """Whether formulas fit behind a product; and how what they make lies in its result.

    They work on the product's elements one by one, and store them in its order, or in another
    one that keeps pieces of the rows together, if the product is made by panels.
    """
    product = anchor.outputs[0]
    layouts: dict[Tensor, Layout] = {product: plain_layout(product.shape)}
    nest = Nest(product.shape, None)  # of formulas of other tensors
    for node in nodes:
        if node is anchor:
            continue
        if any(tensor.node is node for tensor in anchor.inputs):
            return layouts, f"{node.op.name} makes an operand of {anchor.op.name}"
        bound = [t for t in node.inputs if t in layouts]
        if not bound:
            if any(t in kept for t in node.outputs):
                return layouts, f"{node.op.name} does not depend on {anchor.op.name}"
            reason = nest.fit([node], ())
            if reason:
                return layouts, reason
            continue
        out = node.outputs[0]
        layout = _layout_after(node, [layouts[t] for t in bound])
        if layout is None:
            return layouts, f"{node.op.name} wants the elements of {anchor.op.name} elsewhere"
        for tensor in node.inputs:
            if tensor in nest.work and nest.repeats(tensor, out, node.op.name):
                return layouts, f"{node.op.name} would compute {_maker(tensor)} again"
        layouts[out] = layout
        if out in kept and not (_in_pieces(layout, anchor) if panels else is_plain(layout)):
            return layouts, f"{node.op.name} takes the rows of {anchor.op.name} apart"
    return layouts, None


def plain_layout(shape: Sequence[int]) -> Layout:
    """The layout of what lies as it is.

    >>> plain_layout((2, 1, 8))
    (((2, 8),), (), ((8, 1),))
    """
    step, result = size_of(shape), []
    for extent in shape:
        step //= max(1, extent)
        result.append(((extent, step),) if extent != 1 else ())
    return tuple(result)


def _layout_after(node: Node, layouts: Sequence[Layout]) -> Layout | None:
    """How a node's result lies, given how its bound inputs do; None: it cannot follow them."""
    first, out = layouts[0], node.outputs[0]
    if node.op.kind == "elementwise":
        if len(out.shape) < len(first) or any(other != first for other in layouts):
            return None
        padded: Layout = ((),) * (len(out.shape) - len(first)) + first
        extents = tuple(size_of(e for e, _ in dim) for dim in padded)
        return padded if extents == out.shape else None
    if node.op.name == "transpose":
        return tuple(first[axis] for axis in node.attrs["perm"])
    if node.op.name == "reshape":
        return _regroup([pair for dim in first for pair in dim], out.shape)
    return None


def _regroup(pairs: list[tuple[int, int]], shape: Sequence[int]) -> Layout | None:
    """The same elements in the same order as dimensions of other extents."""
    result: list[tuple[tuple[int, int], ...]] = []
    rest = list(pairs)
    for extent in reversed(shape):
        dim: list[tuple[int, int]] = []
        while extent != 1:
            own, step = rest.pop()
            if extent % own == 0:
                dim.append((own, step))
                extent //= own
            elif own % extent == 0:
                dim.append((extent, step))
                rest.append((own // extent, step * extent))
                extent = 1
            else:
                return None
        result.append(tuple(reversed(dim)))
    return tuple(reversed(result))


def _in_pieces(layout: Layout, anchor: Node) -> bool:
    """Whether the rows of a product, or whole pieces of them, stay together and in order."""
    if is_plain(layout):
        return True
    extent = 1
    for own, step in reversed([pair for dim in layout for pair in dim]):
        if step != extent:
            break
        extent *= own
    shape = anchor.outputs[0].shape
    row = size_of(shape[2:]) if anchor.op.kind == "conv" else shape[-1]
    return extent % row == 0 or (anchor.op.kind == "matmul" and extent % PIECE == 0)


def is_plain(layout: Layout) -> bool:
    """Whether the elements keep their order."""
    steps = [step for dim in layout for _, step in dim]
    return steps == sorted(steps, reverse=True)
