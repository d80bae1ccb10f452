"""Programs of a model that serve many sizes.

The graph is imported with symbols for the labels of dimensions (`sizes`) and compiled once. What
cannot be imported so is tried again:

* A label of which the number was needed becomes that number, and the program one for that size.
* Where labels that differ have to agree (inputs that say nothing of their dimensions), what the
  sizes of the call suggest is assumed: see `ties`.
* Of what cannot have symbols for all labels, some get one, as long as the import succeeds.

What remains (structures that depend on data) is compiled for each combination of sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.cached import cached_property
from ...base.errors import InternalError, UserError
from ...base.polynomial import value_of
from ...driver import compile_polymorphic
from ...graph.checks import Check, checked, with_failures
from ...graph.nodes import Graph, Tensor, TensorType
from ...graph.space import Space
from ...graph.symbols import at_sizes, polynomial_of, symbol
from ..jit.dims import Dim
from .elements import is_graph_type
from .executor import looks
from .fold import LARGEST_TENSOR, check_size
from .importer import Imported, Importer, NeedsValue
from .sizes import LabelBound, evaluate_label
from .source import ModelSource
from .ties import Ties, alike, hold, pin, sums, value
from .values import Datum

#: Programs for one kind of inputs, each right where the guards of the others do not hold; sizes
#: beyond are compiled for by themselves.
MOST_PROGRAMS = 8
#: Symbols are tried one by one for so many labels.
MOST_LABELS = 16
#: So often it is tried in vain for one kind of inputs.
MOST_FAILURES = 3


class _Hopeless(Exception):
    """The structure of the graph depends on more than sizes, or there are no kernels for it."""


@dataclass(frozen=True)
class DynamicProgram:
    """A program for many sizes.

    Attributes:
        symbols: the names of its sizes by label.
        bounds: the least and the greatest size of each, by label.
        ties: what the sizes of other labels must be.
        checks: what the program's last output tells of.
    """

    imported: Imported
    graph: Graph
    executable: Any
    symbols: Mapping[str, str]
    bounds: Mapping[str, tuple[int, int]]
    ties: Ties
    checks: Sequence[Check] = ()

    def sizes(self, given: Mapping[str, int]) -> dict[str, int] | None:
        """The sizes of its symbols, or None where it is not right."""
        if not hold(self.ties, given):
            return None
        sizes = {name: given[label] for label, name in self.symbols.items()}
        right = all(low <= given[label] <= high for label, (low, high) in self.bounds.items())
        return sizes if right and self.executable.holds(sizes) else None

    @cached_property
    def _by_size(self) -> dict[Any, TensorType]:
        """A type for each number of bytes that tensors have."""
        return {polynomial_of(t.type.nbytes): t.type for n in self.graph.nodes for t in n.outputs}

    def nbytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of all tensors that it makes."""
        tensors = (t for node in self.graph.nodes for t in node.outputs)
        return sum(at_sizes(t.type.nbytes, sizes) for t in tensors)

    def at(self, sizes: Mapping[str, int]) -> Any:
        """What runs it for sizes."""
        for number, type_ in self._by_size.items():
            if value_of(number, sizes) > LARGEST_TENSOR:
                check_size(Tensor(TensorType(at_sizes(type_.shape, sizes), type_.dtype)))
        found = self.executable.at(sizes)
        return checked(found, self.checks) if self.checks else found


@dataclass(frozen=True)
class _Call:
    """What is to be imported.

    Attributes:
        labels: of the axes of each input.
        sizes: of the labels.
    """

    data: Mapping[str, Datum]
    names: tuple[str, ...]
    labels: Mapping[str, Sequence[int | str]]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class _Draft:
    """An import with symbols.

    Attributes:
        symbols, bounds, ties: as in `DynamicProgram`.
    """

    imported: Imported
    graph: Graph
    space: Space
    symbols: Mapping[str, str]
    bounds: Mapping[str, tuple[int, int]]
    ties: Ties


@dataclass
class _Kind:
    """What is known of inputs of some ranks.

    Attributes:
        step: how far one has to go for a program.
    """

    programs: list[DynamicProgram] = field(default_factory=list)
    step: int = 0
    failures: int = 0


class Dynamic:
    """The programs of a model, found by the sizes of its inputs.

    Args:
        bound: the inputs.
    """

    def __init__(
        self, source: ModelSource, bound: LabelBound, target: str, device: str | None = None
    ) -> None:
        self._source = source
        self._bound = bound
        self._target = target
        self._device = device
        self._infos = {info.name: info for info in bound.infos}
        self._kinds: dict[Any, _Kind] = {}

    @property
    def compilations(self) -> int:
        """How many programs there are."""
        return sum(len(kind.programs) for kind in self._kinds.values())

    def find(
        self, data: Mapping[str, Datum], names: tuple[str, ...]
    ) -> tuple[DynamicProgram, dict[str, int]] | None:
        """The program for these inputs and their sizes; None if there is none for more than one."""
        if not all(map(_is_tensor, data.values())):
            return None
        arrays = {name: datum for name, datum in data.items() if isinstance(datum, np.ndarray)}
        labels = {
            name: self._bound.labels(self._infos[name], array.ndim)
            for name, array in arrays.items()
        }
        sizes = _sizes(labels, arrays)
        if not sizes or 0 in sizes.values():
            return None
        kind = self._kinds.setdefault((names, tuple(labels.items())), _Kind())
        for program in kind.programs:
            found = program.sizes(sizes)
            if found is not None:
                return program, found
        if len(kind.programs) >= MOST_PROGRAMS or kind.failures >= MOST_FAILURES:
            return None
        made = self._make(kind, _Call(data, names, labels, sizes))
        if made is None:
            return None
        kind.programs.append(made)
        return made, {name: sizes[label] for label, name in made.symbols.items()}

    # ------------------------------------------------------------------ compiling

    def _make(self, kind: _Kind, call: _Call) -> DynamicProgram | None:
        steps: list[Callable[[], Ties]] = [
            dict,
            lambda: alike(call.sizes),
            lambda: sums(call.sizes),
            lambda: self._some(call),
        ]
        tried: list[Ties] = []
        try:
            for step in range(kind.step, len(steps)):
                ties = steps[step]()
                made = None if ties in tried else self._program(call, ties)
                if made is not None:
                    kind.step = step
                    return made
                tried.append(ties)
        except _Hopeless:
            kind.failures = MOST_FAILURES
        kind.failures += 1
        return None

    def _program(self, call: _Call, ties: Ties) -> DynamicProgram | None:
        """A program where these labels are tied, and those of which the number is needed."""
        while True:
            draft = self._draft(call, ties)
            if draft is None or not draft.graph.outputs:
                return None
            checks = draft.imported.checks if looks(self._target) else ()
            try:
                graph = with_failures(draft.graph, checks)
                executable = compile_polymorphic(graph, self._target, self._device)
            except UserError:
                ties = _pinned(draft.symbols, draft.space, call, draft.ties)
                if ties == draft.ties:
                    raise _Hopeless from None
            else:
                known = draft.symbols, draft.bounds, draft.ties
                return DynamicProgram(draft.imported, draft.graph, executable, *known, checks)

    def _draft(self, call: _Call, ties: Ties) -> _Draft | None:
        """The import for such a program, if any label is left."""
        while True:
            names = _identifiers(call.sizes)
            symbols = {label: name for label, name in names.items() if label not in ties}
            if not symbols:
                return None
            space, bounds = Space(), {label: self._bounds(label, ties) for label in symbols}
            extents = {
                label: symbol(space, name, *bounds[label], call.sizes[label])
                for label, name in symbols.items()
            }
            extents |= {label: value(tie, extents) for label, tie in ties.items()}
            shapes = {name: _shape(axes, extents) for name, axes in call.labels.items()}
            try:
                imported = Importer(self._source, {}, shapes).run(call.data, call.names)
                graph = imported.graph(self._source.graph.name or "main")
                if not space.fixed:
                    return _Draft(imported, graph, space, symbols, bounds, ties)
            except NeedsValue:
                raise _Hopeless from None
            except UserError:
                if not space.fixed:
                    return None
            ties = _pinned(symbols, space, call, ties)

    def _some(self, call: _Call) -> Ties:
        """Ties that leave as many labels as can have symbols, tried one after the other."""
        base = alike(call.sizes)
        free = {label: size for label, size in call.sizes.items() if label not in base}
        if len(free) > MOST_LABELS:
            return call.sizes
        for label in list(free):
            others = {k: size for k, size in free.items() if k != label}
            draft = self._draft(call, pin(base, others))
            if draft is not None and label in draft.symbols:
                del free[label]
        return pin(base, free)

    def _bounds(self, label: str, ties: Ties) -> tuple[int, int]:
        """The sizes that a label and those tied to it may have."""
        alike = [k for k, tie in ties.items() if tie == (label,)]
        dims = [self._bound.dims.get(k, Dim("any")) for k in (label, *alike)]
        # Tied labels of size 1 may as well be those of dimensions that are repeated.
        low = max(2 if alike else 1, *(dim.min for dim in dims))
        return low, min(dim.max for dim in dims)


def _pinned(symbols: Mapping[str, str], space: Space, call: _Call, ties: Ties) -> Ties:
    """The ties with the sizes of labels of which the number was needed."""
    needed = {name for number in space.fixed for name in number.names}
    return pin(ties, {k: call.sizes[k] for k, name in symbols.items() if name in needed})


def _is_tensor(datum: Datum) -> bool:
    """Whether this is an array that the graph computes with, or absent."""
    return datum is None or (isinstance(datum, np.ndarray) and is_graph_type(datum.dtype))


def _sizes(
    labels: Mapping[str, Sequence[int | str]], arrays: Mapping[str, Any]
) -> dict[str, int] | None:
    """The sizes of labels that are no expressions; None if one is wrong about its size."""
    sizes: dict[str, int] = {}
    for name, axes in labels.items():
        sizes |= {dim: n for dim, n in zip(axes, arrays[name].shape) if isinstance(dim, str)}
    plain = {label: size for label, size in sizes.items() if label.isidentifier()}
    for label in sizes.keys() - plain.keys():
        said = evaluate_label(label, plain)
        if said is not None and sizes.pop(label) != said:
            return None
    return sizes


def _shape(axes: Sequence[int | str], extents: Mapping[str, int]) -> tuple[int, ...]:
    def extent(dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        found = extents[dim] if dim in extents else evaluate_label(dim, extents)
        if found is None:
            raise InternalError(f"dimension {dim!r} has no size")
        return found

    return tuple(map(extent, axes))


def _identifiers(labels: Mapping[str, int]) -> dict[str, str]:
    """Names for labels that kernels can have for variables, all different."""
    result: dict[str, str] = {}
    for label in labels:
        name = re.sub(r"\W|^(?=\d)", "_", label, flags=re.ASCII) or "_"
        while name in result.values():
            name += "_"
        result[label] = name
    return result
