"""Extents that are not known when a program is compiled.

A `SymInt` stands in a shape where a number would. It is computed with as a number is, and code that
never heard of it stays right, because whatever it finds out about the number is written down:

* **Equality** is that of size expressions. Two extents that are not always equal are different,
  also where they agree in one call: code that treats extents as different is right for equal ones.
  So of two where one is a multiple of the other and never less, it is greater: `n * k > n`.
* **Order** (`<`, truth) that the bounds of the sizes prove is answered. What they do not prove is a
  *decision*: while kernels are planned, both answers are followed, each to a kernel of its own with
  the answers as its predicate (`Space.variants`); anywhere else the sizes at hand decide, and the
  answer becomes a *guard* of the program.
* **The value itself** (`int()`, use as an index, division into a float) makes the extent the
  constant that it is now, also by a guard.

A program is right for all sizes within the bounds for which its guards hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.polynomial import Apart, Number, Polynomial, greatest, least, quotient, remainder
from ..expr import Expr, FloorDiv, FloorMod, Max, Min, as_expr, binary, const
from ..expr.extents import EXTENT
from .space import Space

if TYPE_CHECKING:
    from .nodes import Graph, Node

T = TypeVar("T")

_BINARY = {"//": FloorDiv, "%": FloorMod, "min": Min, "max": Max}


# ---------------------------------------------------------------------------- numbers


def symbol(space: Space, name: str, low: int, high: int, hint: int) -> int:
    """A new symbol of a space as an extent.

    Args:
        low, high: its bounds, both included.
        hint: its value in this compilation.
    """
    if low == high:
        return low
    made = wrap(space, space.add(name, low, high, hint))
    as_expr(made)  # its variable tells what is known of it
    return made


def wrap(space: Space, number: Number) -> int:
    """A size expression as an extent."""
    return number if isinstance(number, int) else symbolic_number(SymInt(space, number))


class SymInt:
    """An extent in a shape that is known by its expression alone; see the head of this module.

    >>> batch = symbol(Space(), "batch", 1, 64, 8)
    >>> batch * 4 // 2, batch * 4 >= 4, (batch + 1).hint
    (2*batch, True, 9)
    """

    __slots__ = ("_expr", "polynomial", "space")

    def __init__(self, space: Space, polynomial: Polynomial) -> None:
        self.space = space
        self.polynomial = polynomial
        self._expr: Expr | None = None

    @property
    def hint(self) -> int:
        """The value in this compilation, which nothing may depend on but speed."""
        return self.polynomial.value(self.space.hints)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value, as far as is known."""
        return self.space.between(self.polynomial)

    @property
    def usual(self) -> int:
        """A value that estimates go by: within the limits, and the same in every compilation."""
        low, high = self.limits
        return max(low, min(high, self.polynomial.value(self.space.typical)))

    # ------------------------------------------------------------------ arithmetic

    def _with(self, operation: Callable[[Any, Any], Number], a: Any, b: Any) -> Any:
        x, y = _number(a), _number(b)
        return NotImplemented if x is None or y is None else wrap(self.space, operation(x, y))

    def __add__(self, other: Any) -> Any:
        return self._with(lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with(lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(lambda a, b: a - b, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with(lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(lambda a, b: a * b, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(self._quotient, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(self._quotient, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._with(self._remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._with(self._remainder, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return wrap(self.space, -self.polynomial)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _quotient(self, a: Number, b: Number) -> Number:
        self._check_divisor(b)
        found = quotient(a, b)
        # Parts that are less than one are zero.
        if isinstance(found, Polynomial):
            low, high = self.space.between(found)
            if low == high:
                return low
        return found

    def _remainder(self, a: Number, b: Number) -> Number:
        self._check_divisor(b)
        found = remainder(a, b)
        if isinstance(found, int) or not found.terms[0][0]:
            return found
        (atom, *_), _ = found.terms[0]
        if isinstance(atom, Apart):
            for number in (atom.a, atom.a + atom.b):
                if self.space.holds(number) and self.space.holds(atom.b - number - 1):
                    return number
        return found

    def _check_divisor(self, b: Number) -> None:
        if b == 0:
            raise ZeroDivisionError("division of an extent by zero")

    # ------------------------------------------------------------------ comparison

    def __eq__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.space.same(number, self.polynomial)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.polynomial)

    def _not_less(self, a: Any, b: Any) -> Any:
        x, y = _number(a), _number(b)
        if x is None or y is None:
            return NotImplemented
        return not self._is_beyond(y, x) and self.space.decide(x - y)

    def _is_beyond(self, a: Number, b: Number) -> bool:
        """Whether a number is never less than another, and one is a multiple of the other."""
        if a == b or 0 in (a, b) or self.space.between(a - b)[0] < 0:
            return False
        return remainder(a, b) == 0 or remainder(b, a) == 0

    def is_at_least(self, number: int) -> bool | None:
        """Whether it is not less; None if that depends, which decides nothing."""
        return self.space.holds(self.polynomial - number)

    def _less(self, a: Any, b: Any) -> Any:
        x, y = _number(a), _number(b)
        if x is None or y is None:
            return NotImplemented
        return self._is_beyond(y, x) or self.space.decide(y - x - 1)

    def __ge__(self, other: Any) -> Any:
        return self._not_less(self, other)

    def __gt__(self, other: Any) -> Any:
        return self._less(other, self)

    def __le__(self, other: Any) -> Any:
        return self._not_less(other, self)

    def __lt__(self, other: Any) -> Any:
        return self._less(self, other)

    def __bool__(self) -> bool:
        return self != 0

    # ------------------------------------------------------------------ the value itself

    def __index__(self) -> int:
        return self.space.fix(self.polynomial)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.space.fix(self.polynomial))

    def __truediv__(self, other: Any) -> Any:
        return float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= 4:
            result: Any = 1
            for _ in range(other):
                result = result * self
            return result
        return int(self) ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self)

    # ------------------------------------------------------------------ elsewhere

    def __tileloom_expr__(self) -> Expr:
        if self._expr is None:
            self._expr = expr_of(self.polynomial, self.space.variables)
            self._expr.memo[EXTENT] = self
        return self._expr

    def __repr__(self) -> str:
        return repr(self.polynomial)


def _number(value: Any) -> Number | None:
    if isinstance(value, SymInt):
        return value.polynomial
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "dtype") or isinstance(value, float) or not hasattr(value, "__index__"):
        return None  # an expression or an array: it knows what to do with an extent
    return int(value.__index__())


def expr_of(number: Number, variables: Mapping[str, Expr]) -> Expr:
    """A size expression over these, in their type."""
    if isinstance(number, int):
        return const(number)
    total: Expr | None = None
    for monomial, factor in number.terms:
        product: Expr | None = None
        for atom in monomial:
            if isinstance(atom, str):
                part = variables[atom]
            else:
                a, b = expr_of(atom.a, variables), expr_of(atom.b, variables)
                if atom.op in ("//", "%") and not isinstance(atom.b, int):
                    b = binary(Max, b, const(1, b.dtype))  # as where polynomials are evaluated
                part = binary(_BINARY[atom.op], a, b)
            product = part if product is None else product * part
        term = const(factor) if product is None else product if factor == 1 else product * factor
        total = term if total is None else total + term
    return const(0) if total is None else total


# ---------------------------------------------------------------------------- extents of any kind


def is_symbolic(extent: object) -> bool:
    """Whether an extent is not a number."""
    return isinstance(extent, SymInt)


def _symbolic(extent: object) -> SymInt | None:
    return extent if isinstance(extent, SymInt) else None


def hint(extent: int) -> int:
    """An extent as estimates of cost take it: its value for sizes that may well occur."""
    found = _symbolic(extent)
    return extent if found is None else found.polynomial.value(found.space.typical)


def polynomial_of(extent: int) -> Any:
    """An extent as the runtime evaluates it: a `Polynomial`, or a number."""
    found = _symbolic(extent)
    return extent if found is None else found.polynomial


def bounds_of(extent: int) -> tuple[int, int]:
    """The least and the greatest value of an extent."""
    found = _symbolic(extent)
    return (extent, extent) if found is None else found.space.between(found.polynomial)


def at_least(extent: int, number: int) -> bool | None:
    """Whether an extent is not less than a number; None if that depends, which decides nothing."""
    found = _symbolic(extent)
    return extent >= number if found is None else found.is_at_least(number)


def smaller(a: int, b: int) -> int:
    """The smaller of two extents, without deciding which that is."""
    return _either(a, b, least)


def larger(a: int, b: int) -> int:
    """The larger of two extents, without deciding which that is."""
    return _either(a, b, greatest)


def _either(a: int, b: int, operation: Callable[[Number, Number], Number]) -> int:
    symbolic = _symbolic(a) or _symbolic(b)
    if symbolic is None:
        return symbolic_number(operation(a, b))
    space = symbolic.space
    first, second = polynomial_of(a), polynomial_of(b)
    a_is_more = space.holds(first - second)
    if a_is_more or space.holds(second - first):
        bigger, other = (a, b) if a_is_more else (b, a)
        return bigger if operation is greatest else other
    return wrap(space, operation(first, second))


def symbolic_number(number: Any) -> int:
    """Anything that stands for an integer, under that type."""
    return number  # type: ignore[no-any-return]


def divisor_chain(numbers: Iterable[int]) -> list[int] | None:
    """Numbers in an order in which each divides the next, if there is one.

    >>> divisor_chain({12, 1, 4}), divisor_chain({4, 6})
    ([1, 4, 12], None)
    """
    chain = sorted(numbers, key=chain_key)
    return chain if all(a != 0 and b % a == 0 for a, b in pairwise(chain)) else None


def chain_key(number: int) -> tuple[int, int]:
    """What numbers are sorted by of which each divides the next: degree, and a likely value."""
    found = _symbolic(number)
    degree = 0 if found is None else max(len(monomial) for monomial, _ in found.polynomial.terms)
    return degree, hint(number)


def space_of(extents: Sequence[int]) -> Space | None:
    """The space of the symbols among extents, if there are any."""
    found = next(filter(None, map(_symbolic, extents)), None)
    return None if found is None else found.space


def space_of_graph(graph: Graph) -> Space | None:
    """The space of the symbols in a graph's shapes, if there are any."""
    tensors = [*graph.inputs, *(t for node in graph.nodes for t in node.outputs)]
    return next(filter(None, (space_of(t.shape) for t in tensors)), None)


def host_at(node: Node, sizes: Mapping[str, int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The NumPy function of a node for some sizes, none where its shapes are known."""
    if not sizes:
        known = [tensor.type for tensor in node.outputs]
        return lambda arrays: node.op.reference(arrays, node.attrs, known)
    types = [replace(t.type, shape=at_sizes(t.shape, sizes)) for t in node.outputs]
    attrs = at_sizes(node.attrs, sizes)
    return lambda arrays: node.op.reference(arrays, attrs, types)


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """A nest of anything with numbers for extents."""
    if is_symbolic(value):
        return value.polynomial.value(sizes)
    if isinstance(value, dict):
        return {name: at_sizes(part, sizes) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(at_sizes(part, sizes) for part in value)
    return value
