"""The sizes of a traced graph: numbers, or expressions of symbols that callers bind.

PyTorch's symbols become symbols of a `Space`; what its guards say of them holds whenever the graph
is called, and is told to the space. A symbol is read off an argument that is it, or off a
dimension of an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy
import torch
from torch import fx

from ...base.errors import UnsupportedError
from ...base.polynomial import Polynomial
from ...graph.nodes import Tensor, TensorType
from ...graph.space import Space
from ...graph.symbols import at_sizes, bounds_of, is_symbolic, polynomial_of, symbol
from .guards import ORDERS, assume, equate, factors_of, is_number, stated
from .size_expressions import extent_of, scalar_of
from .types import check_dense, kind_of

#: Sizes are 32-bit numbers in kernels.
LARGEST = (1 << 31) - 1
#: Of PyTorch's guards, so many that the bounds do not prove are told to the planner.
_MOST_FACTS = 16


class NumbersNeededError(Exception):
    """Symbols have to be numbers for an operator to be compiled.

    Attributes:
        names: the symbols.
    """

    def __init__(self, names: Iterable[str], reason: str) -> None:
        super().__init__(reason)
        self.names = frozenset(names)


def need_numbers(extents: Iterable[Any], reason: str) -> None:
    """Refuse symbols among extents, for a reason, and have all compiled again with numbers."""
    names = {name for n in extents if is_symbolic(n) for name in polynomial_of(n).names}
    if names:
        raise NumbersNeededError(names, reason)


def need_numbers_of(space: Space) -> None:
    """Refuse symbols that are taken for numbers already."""
    names = {name for polynomial in space.fixed for name in polynomial.names}
    if names:
        raise NumbersNeededError(names, "sizes are used as numbers")


class TracedSizes:
    """What the sizes of a graph are in terms of its symbols.

    Args:
        known: extents by PyTorch's symbol.
        space: where these come from; None where all are numbers.
        hints: the values of symbols in this compilation, unless the space knows them.
    """

    def __init__(
        self,
        known: Mapping[Any, int] | None = None,
        space: Space | None = None,
        hints: Mapping[str, int] | None = None,
    ) -> None:
        self.space = space
        self._hints = dict(hints or {}) if space is None else space.hints
        self._known = dict(known or {})
        self._found: dict[Any, int] = {}
        self._scalars: dict[Any, Tensor] = {}
        #: Those that are 0 for some sizes, as far as the bounds say.
        self.perhaps_zero: dict[Polynomial, None] = {}

    def extent(self, size: Any) -> int:
        """A size, perhaps a `torch.SymInt`, as an extent.

        Raises:
            UnsupportedError: it depends on data, or is no expression that is known here.
        """
        if isinstance(size, int):
            return size
        expression = size.node.expr
        found = self._found.get(expression)
        if found is None:
            found = self._found[expression] = extent_of(expression, self._known)
        return found

    def scalar(self, value: Any) -> Any:
        """A `torch.SymInt` as an extent, a `torch.SymFloat` as a tensor without dimensions."""
        if isinstance(value, torch.SymInt):
            return self.extent(value)
        expression = value.node.expr
        if expression not in self._scalars:
            self._scalars[expression] = scalar_of(expression, self._known)
        return self._scalars[expression]

    def holds(self, value: Any) -> bool:
        """Whether a value is a symbolic number with an expression here."""
        if not isinstance(value, (torch.SymInt, torch.SymFloat)):
            return False
        try:
            self.scalar(value)
        except UnsupportedError:
            return False
        return True

    def type_of(self, value: Any) -> TensorType:
        """Shape and element type of a (fake) tensor.

        Raises:
            UnsupportedError: it is no dense tensor of a CPU or GPU, or its shape depends on data.
        """
        check_dense(value)
        shape = tuple(map(self.extent, value.shape))
        for extent in shape:
            if is_symbolic(extent) and bounds_of(extent)[0] < 1:
                self.perhaps_zero[polynomial_of(extent)] = None
        return TensorType(shape, kind_of(value.dtype))

    def strides(self, value: Any) -> tuple[int, ...] | None:
        """The strides of a tensor in elements; None where they have symbols of their own."""
        try:
            return tuple(map(self.extent, value.stride()))
        except UnsupportedError:
            return None

    def at_hints(self) -> TracedSizes:
        """The same with numbers: those that this compilation is for."""
        return TracedSizes(at_sizes(self._known, self._hints), hints=self._hints)

    def number(self, value: Any) -> Any:
        """A nest of anything with the numbers of this compilation for extents."""
        return at_sizes(value, self._hints)


# ---------------------------------------------------------------------------- binding


class SizeSource(NamedTuple):
    """Where a symbol is found: an argument that is a number, or a dimension of one."""

    argument: int
    axis: int | None


class SizeSymbol(NamedTuple):
    """A symbol of PyTorch, which is `factor` times one of ours.

    The factor is what its values are known to be multiples of.
    """

    symbol: Any
    source: SizeSource
    factor: int
    low: int
    high: int

    @property
    def name(self) -> str:
        """What kernels call it."""
        return str(self.symbol)


@dataclass(frozen=True)
class Binding:
    """The symbols that the arguments of a graph have."""

    symbols: tuple[SizeSymbol, ...]
    facts: tuple[Any, ...]

    def sizes(self, numbers: Sequence[int]) -> dict[str, int] | None:
        """Values by name; None where they are not what is compiled for."""
        found = {}
        for each, number in zip(self.symbols, numbers, strict=True):
            if not each.low <= number <= each.high or number % each.factor:
                return None
            found[each.name] = number // each.factor
        return found

    def open(self, hints: Mapping[str, int], fixed: Set[str] = frozenset()) -> TracedSizes:
        """A new space with these symbols, and the sizes over them.

        Args:
            hints: the values of this compilation.
            fixed: symbols that are to be numbers: those values.
        """
        space, known = Space(), {}
        for each in self.symbols:
            low, high = -(-each.low // each.factor), each.high // each.factor
            value = hints[each.name]
            bounds = (value, value) if each.name in fixed else (low, high)
            known[each.symbol] = symbol(space, each.name, *bounds, value) * each.factor
        for fact in self.facts:
            if isinstance(fact, sympy.Eq):
                equate(space, fact, known)
            elif len(space.guards) < _MOST_FACTS:
                assume(space, fact, known)
        return TracedSizes(known, space)


def bind(graph: fx.Graph) -> Binding:
    """The symbols of a traced graph.

    Raises:
        UnsupportedError: there are none.
    """
    sources: dict[Any, SizeSource] = {}
    environment = None
    placeholders = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    for by_number in (True, False):
        for k, value in enumerate(placeholders):
            for axis, size in _sizes_of(value, by_number):
                environment = size.node.shape_env
                if size.node.expr.is_Symbol:
                    sources.setdefault(size.node.expr, SizeSource(k, axis))
    if environment is None or not sources:
        raise UnsupportedError("no argument has a symbolic size")
    guards = stated(environment.replace(guard.expr) for guard in environment.guards)
    factors = factors_of(guards, environment.backed_var_to_val)
    symbols = []
    for found, source in sources.items():
        bounds = environment.var_to_range.get(found)
        if bounds is not None and environment.backed_var_to_val.get(found) is not None:
            low, high = _within(bounds.lower), _within(bounds.upper)
            # Sizes of 0 are compiled for by themselves.
            low = max(low, 1) if low >= 0 else low
            factor = factors.get(found, 1) if low > 0 else 1
            symbols.append(SizeSymbol(found, source, factor, low, high))
    facts = sorted(
        (each for each in guards if isinstance(each, ORDERS) or is_number(each)),
        key=lambda each: not isinstance(each, sympy.Eq),
    )
    return Binding(tuple(symbols), tuple(facts))


def _sizes_of(value: Any, by_number: bool) -> Iterable[tuple[int | None, Any]]:
    if by_number:
        return [(None, value)] if isinstance(value, torch.SymInt) else []
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return []
    return [(axis, n) for axis, n in enumerate(value.shape) if isinstance(n, torch.SymInt)]


def _within(bound: Any) -> int:
    if bound > LARGEST:
        return LARGEST
    return -LARGEST if bound < -LARGEST else int(bound)
