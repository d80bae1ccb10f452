"""Index expressions as linear forms: what a loop's step does to an address."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...expr import Add, Cast, Expr, IntImm, Mul, Sub, Var, cast, const, free_vars


@dataclass(frozen=True, slots=True)
class Linear:
    """`offset + sum(coefficient * var) + sum(coefficient * opaque expression)`."""

    coefficients: Mapping[Var, int]
    offset: int
    opaque: tuple[tuple[Expr, int], ...] = ()

    def stride(self, var: Var) -> int | None:
        """How far one step of `var` moves; None when it moves unevenly."""
        if any(var in free_vars(term) for term, _ in self.opaque):
            return None
        return self.coefficients.get(var, 0)

    def expr(self) -> Expr:
        """The form as an expression again."""
        result: Expr = const(0)
        for var, factor in self.coefficients.items():
            if factor:
                result = result + var * factor
        for term, factor in self.opaque:
            result = result + as_index(term) * factor
        total: Expr = result + self.offset
        return total


def as_index(term: Expr) -> Expr:
    """A computed place as a term of an index: what is in 64 bits may need them."""
    bits = term.dtype.bits + term.dtype.is_unsigned
    return cast("int64" if bits > 32 else "int32", term)


def linear(expr: Expr, variables: Collection[Var], factor: int = 1) -> Linear:
    """The linear form of an integer expression over `variables`.

    >>> i, j = Var("i"), Var("j")
    >>> form = linear(i * 8 + (j + 1) * 2, {i, j})
    >>> form.stride(i), form.stride(j), form.offset
    (8, 2, 2)
    """
    coefficients: dict[Var, int] = {}
    opaque: dict[Expr, int] = {}
    offset = _collect(expr, factor, variables, coefficients, opaque)
    return Linear(coefficients, offset, tuple(opaque.items()))


def _collect(
    expr: Expr,
    factor: int,
    variables: Collection[Var],
    coefficients: dict[Var, int],
    opaque: dict[Expr, int],
) -> int:
    into = (variables, coefficients, opaque)
    match expr:
        case IntImm(_, value):
            return value * factor
        case Var() if expr in variables:
            coefficients[expr] = coefficients.get(expr, 0) + factor
            return 0
        case Add(a, b):
            return _collect(a, factor, *into) + _collect(b, factor, *into)
        case Sub(a, b):
            return _collect(a, factor, *into) + _collect(b, -factor, *into)
        case Mul(a, IntImm(_, value)) | Mul(IntImm(_, value), a):
            return _collect(a, factor * value, *into)
        case Cast(kind, a) if kind.is_int and a.dtype.is_int and kind.bits >= a.dtype.bits:
            return _collect(a, factor, *into)
        case _:
            opaque[expr] = opaque.get(expr, 0) + factor
            return 0


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a compact row-major array.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def flat_index(indices: Sequence[Expr], shape: Sequence[int], variables: Collection[Var]) -> Linear:
    """The position of an element in a compact row-major array."""
    coefficients: dict[Var, int] = {}
    opaque: dict[Expr, int] = {}
    offset = 0
    for index, extent, stride in zip(indices, shape, row_major(shape), strict=True):
        if extent != 1:
            offset += _collect(index, stride, variables, coefficients, opaque)
    return Linear(coefficients, offset, tuple(opaque.items()))
