"""Which elements of memory the threads of a block access, counted out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    const,
    free_vars,
)
from ...expr.linear import Linear
from ..common import IF_THEN_ELSE, LIKELY
from .linear import linear

Array = np.ndarray[Any, Any]

NOBODY, MANY = -1, -2
_ELEMENTS = 1 << 20  # of one access, and of the memory that it may reach
_VALUES = 4096  # of a difference of two indices that is not constant
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    Add: np.add, Sub: np.subtract, Mul: np.multiply, Min: np.minimum, Max: np.maximum,
    EQ: np.equal, NE: np.not_equal, LT: np.less, LE: np.less_equal, GT: np.greater,
    GE: np.greater_equal, And: np.logical_and, Or: np.logical_or,
}  # fmt: skip
_BITWISE: Mapping[str, Callable[[Any, Any], Any]] = {
    "tir.bitwise_and": np.bitwise_and, "tir.bitwise_or": np.bitwise_or,
    "tir.bitwise_xor": np.bitwise_xor, "tir.shift_left": np.left_shift,
    "tir.shift_right": np.right_shift,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Places:
    """Who touches the elements from `low` on: a thread's number, `NOBODY` or `MANY`."""

    low: int
    owner: Array

    def by_many(self) -> Places:
        """The same elements, each touched by several threads."""
        return Places(self.low, np.where(self.owner == NOBODY, NOBODY, MANY))

    def conflicts(self, other: Places, shift: int) -> bool:
        """Whether two threads access one element, where those here lie `shift` further on."""
        low = max(self.low + shift, other.low)
        high = min(self.low + shift + len(self.owner), other.low + len(other.owner))
        if low >= high:
            return False
        a = self.owner[low - self.low - shift : high - self.low - shift]
        b = other.owner[low - other.low : high - other.low]
        both = (a != NOBODY) & (b != NOBODY)
        return bool((both & ((a != b) | (a == MANY))).any())


class Threads:
    """The threads of a block, in order, and arrays of values that their variables give.

    >>> x, y, k = Var("x"), Var("y"), Var("k")
    >>> block = Threads({x: const(4), y: const(2)})
    >>> found = block.places(linear(y * 8 + x // 2 * 3 + k), {k: (0, 2)}, ())
    >>> found.owner.tolist()
    [-2, -2, -1, -2, -2, -1, -1, -1, -2, -2, -1, -2, -2]
    """

    def __init__(self, threads: Mapping[Var, Expr]) -> None:
        extents = {v: e.value for v, e in threads.items() if isinstance(e, IntImm)}
        self.known = len(extents) == len(threads)
        self.count = 1
        self.numbers: dict[Var, tuple[int, int]] = {}  # of a thread: number // step % extent
        for var, extent in extents.items():
            self.numbers[var] = self.count, extent
            self.count *= extent

    def places(
        self,
        index: Linear,
        loops: Mapping[Var, tuple[int, int]],
        conditions: Sequence[tuple[Expr, bool]],
        given: Mapping[Var, int] | None = None,
    ) -> Places | None:
        """What an index reaches where conditions hold; None where that is too much to say.

        Args:
            index: over thread variables, those of `loops` (first value and count) and `given`.
            loops: variables that take each value for every thread.
            conditions: with what they must be; those on other variables are left out.
            given: variables with one value.
        """
        names = {v for e in (*index.terms, *(c for c, _ in conditions)) for v in free_vars(e)}
        if any(v not in names and extent > 1 for v, (_, extent) in self.numbers.items()):
            some = Threads({v: const(n) for v, (_, n) in self.numbers.items() if v in names})
            some.known = self.known
            found = some.places(index, loops, conditions, given)
            return None if found is None else found.by_many()
        total = self.count
        for _, count in loops.values():
            total *= count
        if not self.known or not 0 < total <= _ELEMENTS:
            return Places(0, np.zeros(0, np.int32)) if total == 0 else None
        env = self._values(loops, given or {})
        shape = (self.count, *(count for _, count in loops.values()))
        where: Any = np.int64(index.const)
        for atom, factor in index.terms.items():
            value = values_of(atom, env)
            if value is None:
                return None
            where = where + factor * value
        mask = np.ones(shape, bool)
        for condition, holds in conditions:
            known = values_of(condition, env)
            if known is not None:
                mask &= known.astype(bool) == holds
        thread = np.broadcast_to(_column(np.arange(self.count), 0, len(shape)), shape)[mask]
        return _owners(np.broadcast_to(where, shape)[mask], thread)

    def _values(
        self, loops: Mapping[Var, tuple[int, int]], given: Mapping[Var, int]
    ) -> dict[Expr, Array]:
        axes = 1 + len(loops)
        env: dict[Expr, Array] = {v: np.asarray(n, np.int64) for v, n in given.items()}
        for var, (step, extent) in self.numbers.items():
            env[var] = _column(np.arange(self.count) // step % extent, 0, axes)
        for axis, (var, (low, count)) in enumerate(loops.items(), 1):
            env[var] = _column(np.arange(low, low + count), axis, axes)
        return env


def _column(values: Array, axis: int, axes: int) -> Array:
    return values.astype(np.int64).reshape([-1 if k == axis else 1 for k in range(axes)])


def _owners(where: Array, thread: Array) -> Places | None:
    if not len(where):
        return Places(0, np.zeros(0, np.int32))
    low = int(where.min())
    size = int(where.max()) - low + 1
    if size > _ELEMENTS:
        return None
    owner = np.full(size, NOBODY, np.int32)
    owner[where - low] = thread
    owner[(where - low)[owner[where - low] != thread]] = MANY
    return Places(low, owner)


def values_of(expr: Expr, env: dict[Expr, Array]) -> Array | None:
    """An integer or boolean expression as an array; None where something in it is not known."""
    known = env.get(expr)
    if known is None:
        known = _values_of(expr, env)
        if known is not None:
            env[expr] = known
    return known


def _values_of(expr: Expr, env: dict[Expr, Array]) -> Array | None:
    if isinstance(expr, IntImm):
        return np.asarray(expr.value, np.int64)
    if isinstance(expr, Var) or expr.dtype.lanes != 1 or expr.dtype.is_float:
        return None
    parts = [values_of(child, env) for child in expr.children]
    found = [part for part in parts if part is not None]
    if len(found) != len(parts):
        return None
    match expr:
        case FloorDiv() | FloorMod():
            if not found[1].all():
                return None
            return (np.floor_divide if isinstance(expr, FloorDiv) else np.mod)(*found)
        case Cast(value=value):
            same = value.dtype.is_bool or (
                expr.dtype.bits >= value.dtype.bits and value.dtype.code == expr.dtype.code
            )
            return found[0] if same else None
        case Not():
            return np.logical_not(found[0])
        case Select():
            return np.where(*found)
        case Call():
            return _call(expr.op, found)
    operation = _BINARY.get(type(expr))
    return None if operation is None else operation(*found)


def _call(op: str, args: Sequence[Array]) -> Array | None:
    if op == LIKELY:
        return args[0]
    if op == IF_THEN_ELSE:
        return np.where(*args)
    operation = _BITWISE.get(op)
    return None if operation is None else operation(*args)


def differences(sum_: Linear, ranges: Mapping[Var, tuple[int, int]]) -> Sequence[int] | None:
    """All values that a sum may have; None where they are not known or too many.

    Variables in `ranges` take the values from a first one, so many; of others only remainders
    are known, the same ones wherever the dividend is the same but for a constant.

    >>> k = Var("k")
    >>> differences(linear(k % 3 * 100 - (k + 1) % 3 * 100), {})
    [-100, 200]
    """
    if not sum_.terms:
        return [sum_.const]
    runs: dict[Expr, tuple[int, int]] = {}
    terms: list[tuple[int, dict[Expr, int], int, int]] = []  # factor, sum, constant, divisor
    for atom, factor in sum_.terms.items():
        inner, divisor = linear(atom), 0
        if isinstance(atom, FloorMod) and isinstance(atom.b, IntImm) and atom.b.value > 0:
            inner, divisor = linear(atom.a), atom.b.value
        plain = all(isinstance(v, Var) and v in ranges for v in inner.terms)
        if plain and (not divisor or all(ranges[v][1] <= divisor for v in inner.terms)):  # type: ignore[index]
            runs.update({v: ranges[v] for v in inner.terms})  # type: ignore[index]
            terms.append((factor, dict(inner.terms), inner.const, divisor))
        elif divisor:
            core = FloorMod(
                inner.shifted(-inner.const).to_expr(atom.dtype), const(divisor, atom.dtype)
            )
            runs[core] = 0, divisor
            terms.append((factor, {core: 1}, inner.const, divisor))
        else:
            return None
    count = 1
    for _, length in runs.values():
        count *= length
    if count > _VALUES:
        return None
    found = {sum_.const + _value(terms, dict(zip(runs, at, strict=True))) for at in _grid(runs)}
    return sorted(found)


def _grid(runs: Mapping[Expr, tuple[int, int]]) -> product[tuple[int, ...]]:
    return product(*(range(low, low + count) for low, count in runs.values()))


def _value(terms: Sequence[tuple[int, dict[Expr, int], int, int]], at: Mapping[Expr, int]) -> int:
    total = 0
    for factor, inner, constant, divisor in terms:
        value = constant + sum(at[v] * n for v, n in inner.items())
        total += factor * (value % divisor if divisor else value)
    return total
