"""Values that are computed from extents alone: what Shape, Gather, Concat make.

Such a value is an array of objects: numbers, truth values, and extents without a number (`SymInt`).
Rules say what the ops of the graph do with them. Some results depend on sizes in ways that
expressions do not say (is the batch larger than 4?). There a rule gives up with `Unknown`, unless
the result is needed to go on: then the sizes at hand decide, and the answer becomes a guard of the
program.

Elements of floats are whole numbers: an extent that is converted, scaled, and converted back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from ...base import DType, dtype
from ...graph import ops
from ...graph.nodes import Node, Tensor
from ...graph.space import Space
from ...graph.symbols import at_least, bounds_of, is_symbolic, larger, smaller
from .elements import integer_range
from .values import Array, constant_of

#: An array of objects.
Elements: TypeAlias = "np.ndarray[Any, Any]"
#: Longer values are left to the graph.
MOST_CELLS = 64
#: Whole numbers up to this have no gaps in a float type, by its bits.
_EXACT = {16: 1 << 8, 32: 1 << 24, 64: 1 << 53}


class Unknown(Exception):
    """The value is no expression of the sizes, or has elements that depend on them otherwise."""


def has_symbols(value: Any) -> bool:
    """Whether extents without a number are in a nest of anything."""
    if isinstance(value, dict):
        return any(map(has_symbols, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_symbols, value))
    return is_symbolic(value)


def fixed(value: Any) -> Any:
    """A nest with numbers for extents: the sizes at hand, for which alone the program is then."""
    if isinstance(value, dict):
        return {name: fixed(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(fixed, value))
    return int(value) if is_symbolic(value) else value


def cells_of(values: Sequence[Any], shape: tuple[int, ...]) -> Elements:
    """Numbers and extents as an array of a shape."""
    result = np.empty(len(values), object)
    for k, value in enumerate(values):
        result[k] = value
    return result.reshape(shape)


def cells_of_array(array: Array) -> Elements:
    """A known array as objects.

    Raises:
        Unknown: it has elements that are no whole numbers.
    """
    values = array.reshape(-1).tolist()
    if any(isinstance(v, float) and not v.is_integer() for v in values):
        raise Unknown
    return cells_of([v if isinstance(v, bool) else int(v) for v in values], array.shape)


def tensor_of(cells: Elements, kind: str = "int64") -> Tensor:
    """The tensor of these elements: a constant if no extent is among them."""
    values = cells.reshape(-1).tolist()
    if not has_symbols(values):
        return constant_of(np.array(values, dtype(kind).numpy).reshape(cells.shape))
    parts = [ops.reshape(ops.extent(value, kind), (1,)) for value in values]
    return ops.reshape(ops.concat(parts, 0), cells.shape)


# ---------------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Judge:
    """Answers questions about sizes: by proof, or, if it decides, by the sizes at hand."""

    decides: bool

    def not_negative(self, number: Any) -> bool:
        """Whether a number is not negative, as a guard if need be."""
        known = at_least(number, 0)
        if known is None and not self.decides:
            raise Unknown
        if known is None:
            space: Space = number.space
            known = space.decide(number.polynomial)
        return known

    def is_zero(self, number: Any) -> bool:
        """Whether a number is 0."""
        low, high = bounds_of(number)
        if low == high:
            return low == 0
        if low > 0 or high < 0:
            return False
        if self.not_negative(number - 1) or self.not_negative(-number - 1):
            return False
        if is_symbolic(number) and len(number.polynomial.names) == 1:
            int(number)  # a size that is known is a constant, wherever it stands
        return True

    def require(self, holds: bool) -> None:
        """Give up unless something holds."""
        if not holds:
            raise Unknown


DECIDES = Judge(decides=True)

Rule: TypeAlias = "Callable[[Judge, Node, Sequence[Elements]], Elements]"


def evaluate(node: Node, inputs: Sequence[Elements], judge: Judge) -> Elements:
    """The value of a node's only output.

    Raises:
        Unknown: size expressions do not tell.
    """
    rule = _RULES.get(node.op.name)
    if rule is None or len(node.outputs) != 1 or has_symbols(node.outputs[0].shape):
        raise Unknown
    result = rule(judge, node, inputs)
    kind = node.outputs[0].dtype
    for value in result.reshape(-1):
        _check_fits(value, kind, judge)
    return result


def _check_fits(value: Any, kind: DType, judge: Judge) -> None:
    """Give up where the type does not hold a number."""
    if kind.is_bool or kind == "int64":
        return  # no product of extents is that large
    most = _EXACT.get(kind.bits, 0)
    low, high = integer_range(kind.numpy) if kind.is_int else (-most, most)
    judge.require(judge.not_negative(value - low) and judge.not_negative(high - value))


# ---------------------------------------------------------------------------- rules


def _each(function: Callable[..., Any]) -> Rule:
    """Element by element, with broadcasting."""

    def rule(judge: Judge, node: Node, inputs: Sequence[Elements]) -> Elements:
        wide = np.broadcast_arrays(*inputs)
        values = [function(judge, *items) for items in zip(*(w.reshape(-1) for w in wide))]
        return cells_of(values, wide[0].shape)

    return rule


def _plain(function: Callable[..., Any]) -> Rule:
    """The same for a function that asks nothing."""
    return _each(lambda judge, *items: function(*items))


def _reduction(function: Callable[[Any, Any], Any], start: Any) -> Rule:
    def rule(judge: Judge, node: Node, inputs: Sequence[Elements]) -> Elements:
        (x,), axes = inputs, node.attrs["axis"]
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        judge.require(x.size > 0 or not rest)
        rows = x.transpose(*rest, *axes).reshape(*(x.shape[axis] for axis in rest), -1)
        values = [
            reduce(function, rows[index].tolist(), start) for index in np.ndindex(rows.shape[:-1])
        ]
        return cells_of(values, node.outputs[0].shape)

    return rule


def _extreme(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(judge: Judge, node: Node, inputs: Sequence[Elements]) -> Elements:
        judge.require(len(node.attrs["axis"]) == inputs[0].ndim == 1 and inputs[0].size > 0)
        return cells_of([reduce(function, inputs[0].tolist())], node.outputs[0].shape)

    return rule


def _quotient(judge: Judge, a: Any, b: Any) -> Any:
    judge.require(judge.not_negative(a) and judge.not_negative(b - 1))
    return a // b


def _remainder(judge: Judge, a: Any, b: Any) -> Any:
    judge.require(judge.not_negative(a) and judge.not_negative(b - 1))
    return a % b


def _exact_quotient(judge: Judge, a: Any, b: Any) -> Any:
    judge.require(judge.not_negative(b - 1) and judge.is_zero(a % b))
    return a // b


def _power(judge: Judge, a: Any, b: Any) -> Any:
    judge.require(not is_symbolic(b) and 0 <= b <= 4)
    return a**b


def _select(judge: Judge, condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


def _cast(judge: Judge, node: Node, inputs: Sequence[Elements]) -> Elements:
    kind = node.outputs[0].dtype
    if kind.is_bool:
        return _each(lambda judge, x: not judge.is_zero(x))(judge, node, inputs)
    return _plain(lambda x: x if is_symbolic(x) else int(x))(judge, node, inputs)


def _slice(judge: Judge, node: Node, inputs: Sequence[Elements]) -> Elements:
    rows = zip(*(node.attrs[name] for name in ("starts", "sizes", "steps")))
    index = [start + step * np.arange(size) for start, size, step in rows]
    return inputs[0][np.ix_(*index)] if index else inputs[0]


def _gather(judge: Judge, node: Node, inputs: Sequence[Elements]) -> Elements:
    data, indices = inputs
    axis = node.attrs["axis"]
    extent = data.shape[axis]
    judge.require(not has_symbols(indices.reshape(-1).tolist()) and extent > 0)
    places = indices.astype(np.int64)
    inside = np.clip(np.where(places < 0, places + extent, places), 0, extent - 1)
    result: Elements = np.take(data, inside.reshape(-1), axis).reshape(node.outputs[0].shape)
    return result


_RULES: dict[str, Rule] = {
    "extent": lambda judge, node, inputs: cells_of([node.attrs["value"]], ()),
    "reshape": lambda judge, node, inputs: inputs[0].reshape(node.outputs[0].shape),
    "transpose": lambda judge, node, inputs: inputs[0].transpose(node.attrs["perm"]),
    "broadcast_to": lambda judge, node, inputs: np.broadcast_to(inputs[0], node.outputs[0].shape),
    "concat": lambda judge, node, inputs: np.concatenate(inputs, node.attrs["axis"]),
    "slice": _slice,
    "gather": _gather,
    "cast": _cast,
    "where": _each(_select),
    "add": _plain(lambda a, b: a + b),
    "sub": _plain(lambda a, b: a - b),
    "mul": _plain(lambda a, b: a * b),
    "neg": _plain(lambda a: -a),
    "square": _plain(lambda a: a * a),
    "relu": _plain(lambda a: larger(0, a)),
    "minimum": _plain(smaller),
    "maximum": _plain(larger),
    "abs": _plain(lambda a: larger(a, -a)),
    "pow": _each(_power),
    "trunc_div": _each(_quotient),
    "floor_divide": _each(_quotient),
    "mod": _each(_remainder),
    "fmod": _each(_remainder),
    "div": _each(_exact_quotient),
    **{name: _plain(lambda a: a) for name in ("floor", "ceil", "round", "trunc")},
    "equal": _each(lambda judge, a, b: judge.is_zero(a - b)),
    "not_equal": _each(lambda judge, a, b: not judge.is_zero(a - b)),
    "less": _each(lambda judge, a, b: judge.not_negative(b - a - 1)),
    "less_equal": _each(lambda judge, a, b: judge.not_negative(b - a)),
    "greater": _each(lambda judge, a, b: judge.not_negative(a - b - 1)),
    "greater_equal": _each(lambda judge, a, b: judge.not_negative(a - b)),
    "logical_not": _plain(lambda a: not a),
    "logical_and": _plain(lambda a, b: a and b),
    "logical_or": _plain(lambda a, b: a or b),
    "logical_xor": _plain(lambda a, b: a != b),
    "reduce_sum": _reduction(lambda a, b: a + b, 0),
    "reduce_prod": _reduction(lambda a, b: a * b, 1),
    "reduce_max": _extreme(larger),
    "reduce_min": _extreme(smaller),
}
