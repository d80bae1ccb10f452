"""Dimensions that one program serves all sizes of, and where a function's arguments have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...base.errors import ArgumentError, ShapeError
from .tree import Leaf

#: The largest size that a dimension can have.
LARGEST = (1 << 31) - 1


@dataclass(frozen=True, eq=False)
class Dim:
    """A dimension whose size is found when a function is called.

    Wherever the same object stands, sizes must agree.

    Args:
        name: what messages call it.
        min, max: the sizes that it can have, both included. Tight bounds make better code.

    >>> Dim("batch", max=4096)
    Dim('batch', min=1, max=4096)
    """

    name: str
    min: int = 1
    max: int = LARGEST

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ArgumentError(f"a dimension needs an identifier for a name, got {self.name!r}")
        if not 0 <= self.min <= self.max <= LARGEST:
            raise ArgumentError(
                f"the sizes of {self.name!r} go from {self.min} to {self.max}",
                hint=f"0 <= min <= max <= {LARGEST}",
            )

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, min={self.min}, max={self.max})"


class DimPlace(NamedTuple):
    """A dimension of an argument, as messages name it."""

    argument: str
    axis: int

    def __str__(self) -> str:
        return f"axis {self.axis} of {self.argument!r}"


class Axes(NamedTuple):
    """The dimensions of one array that have a `Dim`."""

    argument: str
    dims: Mapping[int, Dim]


def axes_of(spec: Any, tree: Any, names: Sequence[str]) -> list[Axes]:
    """What is said of each array among the arguments, in their order.

    Args:
        spec: by parameter: for an array `{axis: Dim}` or one `Dim` or None for each axis; for a
            nest of arrays the same by key or position.
        tree: of a dictionary of arguments by name, as `tree.flatten` makes it.
        names: the function's parameters.

    Raises:
        ArgumentError: it names parameters, keys or axes that there are not.
    """
    if isinstance(spec, (list, tuple)):
        if len(spec) > len(names):
            raise ArgumentError(
                f"dynamic_shapes has {len(spec)} entries for {len(names)} parameters"
            )
        spec = dict(zip(names, spec, strict=False))
    unknown = [name for name in spec if name not in names]
    if unknown:
        raise ArgumentError(
            f"dynamic_shapes names {unknown[0]!r}, which is no parameter",
            hint=f"the parameters are {', '.join(names)}",
        )
    found: list[Axes] = []
    for name, part in tree[1]:
        _collect(spec.get(name), part, name, found)
    return found


def _collect(spec: Any, tree: Any, name: str, found: list[Axes]) -> None:
    if tree == "leaf":
        found.append(Axes(name, _dims(spec, name)))
        return
    kind, *rest = tree
    if kind == "dict":
        parts = [(key, part) for key, part in rest[0]]
    elif kind in ("tuple", "list", "named"):
        parts = list(enumerate(rest[-1]))
    else:
        if spec is not None:
            raise ArgumentError(f"dynamic_shapes has {spec!r} for {name!r}, which is no array")
        return
    known = dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else dict(spec or {})
    wrong = set(known) - {key for key, _ in parts}
    if wrong:
        raise ArgumentError(
            f"dynamic_shapes names {min(map(str, wrong))} in {name!r}, which is not there"
        )
    for key, part in parts:
        _collect(known.get(key), part, f"{name}[{key!r}]", found)


def _dims(spec: Any, name: str) -> dict[int, Dim]:
    if spec is None:
        return {}
    items = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    dims = {axis: dim for axis, dim in items if dim is not None}
    for axis, dim in dims.items():
        if not isinstance(axis, int) or not isinstance(dim, Dim):
            raise ArgumentError(f"dynamic_shapes has {axis!r}: {dim!r} for the array {name!r}",
                                hint="it is {axis: tileloom.Dim(...)}")  # fmt: skip
    return dims


def bind(axes: Sequence[Axes], leaves: Sequence[Leaf]) -> tuple[dict[str, Dim], dict[str, int]]:
    """The dimensions by name, and their sizes in these arguments.

    Raises:
        ShapeError: sizes disagree, or are out of bounds.
        ArgumentError: an array lacks an axis, or two dimensions have one name.
    """
    dims: dict[str, Dim] = {}
    sizes: dict[str, int] = {}
    first: dict[str, DimPlace] = {}
    for (argument, wanted), leaf in zip(axes, leaves, strict=True):
        for axis, dim in wanted.items():
            rank, place = len(leaf.shape), DimPlace(argument, axis)
            if not -rank <= axis < rank:
                raise ArgumentError(f"there is no {place}: it has {rank} dimensions")
            size = leaf.shape[axis]
            if dims.setdefault(dim.name, dim) is not dim:
                raise ArgumentError(f"two dimensions are called {dim.name!r}",
                                    hint="use one Dim where sizes agree")  # fmt: skip
            if not dim.min <= size <= dim.max:
                raise ShapeError(
                    f"{place} has size {size}, and {dim.name!r} goes from {dim.min} to {dim.max}"
                )
            known = sizes.setdefault(dim.name, size)
            if known != size:
                raise ShapeError(
                    f"{dim.name!r} is {known} by {first[dim.name]}, and {size} by {place}"
                )
            first.setdefault(dim.name, place)
    return dims, sizes


def alike(leaves: Sequence[Leaf], names: Sequence[str]) -> list[Axes]:
    """A dimension for each size that occurs; sizes of 0 and 1 are no dimensions."""
    dims: dict[int, Dim] = {}
    found = []
    for leaf, name in zip(leaves, names, strict=True):
        own: dict[int, Dim] = {}
        for axis, size in enumerate(leaf.shape):
            if size > 1:
                label = "".join(c if c.isalnum() else "_" for c in name)
                own[axis] = dims.setdefault(size, Dim(f"{label}_{axis}", min=2))
        found.append(Axes(name, own))
    return found
