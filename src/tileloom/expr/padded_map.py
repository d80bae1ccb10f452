"""The inverse of an index map whose new shape has places that no element goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from ..base.errors import UserError
from .analyzer import Analyzer
from .build import binary, const
from .itermap import detect_iter_map, inverse_affine_iter_map
from .itermap_nodes import IterSplitExpr, IterSumExpr
from .nodes import EQ, GE, LT, NE, Add, And, Expr, FloorDiv, FloorMod, IntImm, Or, Var, is_int
from .reduction import Range
from .walk import free_vars, post_order, substitute


@dataclass(frozen=True)
class PaddedInverse:
    """A map back from a shape that is larger than what it came from.

    Attributes:
        outputs: variables for the new indices.
        back: the old indices in terms of them.
        outside: the condition for a place to be padding.
        shape: the new extents.
    """

    outputs: tuple[Var, ...]
    back: tuple[Expr, ...]
    outside: Expr
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class _Widened:
    """An old index that runs on to both sides, up to multiples of a divisor."""

    left: int
    extent: Expr
    divisor: Expr


def padded_inverse(
    variables: Sequence[Var], finals: Sequence[Expr], sizes: Sequence[Expr], known: Analyzer
) -> PaddedInverse:
    """The inverse over the least widened domain on which a map is bijective.

    Each subset of the old indices is tried with its domain widened to multiples of what the map
    divides by; `(i + 1) // 8` widens on both sides, `i // n` needs no number.

    Raises:
        UserError: when two elements may go to one place, or no such domain is found.
    """
    wide = [_widened(v, size, finals, known) for v, size in zip(variables, sizes, strict=True)]
    failure: UserError | None = None
    for mask in range(1, 1 << len(sizes)):
        chosen = {v: wide[i] for i, v in enumerate(variables) if mask >> i & 1}
        try:
            return _inverse_over(variables, finals, sizes, chosen, known)
        except UserError as error:
            failure = error
    raise failure or UserError("an index map of no indices has no padding")


def _widened(var: Var, size: Expr, finals: Sequence[Expr], known: Analyzer) -> _Widened:
    divisor = _divisor(var, finals, known)
    left = 0
    if isinstance(divisor, IntImm):
        shift = _shift(var, finals, known)
        left = shift if shift >= 0 else shift % divisor.value
    missing = binary(FloorMod, -(size + left), divisor)
    return _Widened(left, known.simplify(size + left + missing), divisor)


def _divisor(var: Var, finals: Sequence[Expr], known: Analyzer) -> Expr:
    """What all divisors of a variable divide: a number, or the one symbolic divisor there is."""
    nodes = (node for final in finals for node in post_order(final))
    divisions = [n for n in nodes if isinstance(n, (FloorDiv, FloorMod)) and var in free_vars(n.a)]
    divisors = {known.simplify(n.b) for n in divisions}
    if len(divisors) == 1:
        return divisors.pop()
    return const(lcm(*(max(1, d.value) for d in divisors if isinstance(d, IntImm))), var.dtype)


def _shift(var: Var, finals: Sequence[Expr], known: Analyzer) -> int:
    """The number that the map adds to a variable before it divides."""
    for final in finals:
        for node in post_order(final):
            if isinstance(node, (FloorDiv, FloorMod)) and var in free_vars(node.a):
                offset = known.simplify(node.a - var)
                if isinstance(offset, IntImm):
                    return offset.value
    return 0


def _inverse_over(
    variables: Sequence[Var],
    finals: Sequence[Expr],
    sizes: Sequence[Expr],
    wide: Mapping[Var, _Widened],
    known: Analyzer,
) -> PaddedInverse:
    domains: dict[Var, Range] = {}
    values: dict[Var, Expr] = {}  # the widened index in terms of the variables of `domains`
    for var, size in zip(variables, sizes, strict=True):
        if var not in wide:
            domains[var] = Range.from_extent(size)
        elif isinstance(wide[var].divisor, IntImm):
            domains[var] = Range.from_extent(wide[var].extent)
            values[var] = var
        else:
            finals, values[var] = _as_quotients(var, wide[var], finals, domains, known)
    moved: Mapping[Var, Expr] = {v: v - w.left for v, w in wide.items() if w.left}
    shifted = [known.simplify(substitute(final, moved)) for final in finals]
    found = detect_iter_map(shifted, domains, True, "bijective", known)
    if not found:
        raise UserError(f"no inverse is found: {found.errors[0]}")
    shape = [_extent(total.base, total.args, known) for total in found.indices]
    outputs = [Var(f"axis{i}", final.dtype) for i, final in enumerate(finals)]
    inner = known.copy()
    for output, extent in zip(outputs, shape, strict=True):
        inner.bind(output, Range.from_extent(extent))
    solved: dict[Var, Expr] = {v: domain.min for v, domain in domains.items()}
    rows = [_rows(total, output, inner) for total, output in zip(found.indices, outputs)]
    solved.update(inverse_affine_iter_map([r.total for r in rows], [r.number for r in rows], inner))
    whole = [substitute(values.get(v, v), solved) for v in variables]
    outside: Expr = const(False)
    for row in rows:
        outside = binary(Or, outside, row.between)
    for var, size, index in zip(variables, sizes, whole, strict=True):
        if var in wide:
            outside = binary(Or, outside, _outside(index, size, wide[var], inner))
    lefts = [wide[v].left if v in wide else 0 for v in variables]
    back = [inner.simplify(index - left) for index, left in zip(whole, lefts, strict=True)]
    return PaddedInverse(tuple(outputs), tuple(back), inner.simplify(outside), tuple(shape))


def _as_quotients(
    var: Var, wide: _Widened, finals: Sequence[Expr], domains: dict[Var, Range], known: Analyzer
) -> tuple[list[Expr], Expr]:
    """`var // n` and `var % n` as indices of their own, for a divisor that is no number."""
    high, low = Var(f"{var.name}_div", var.dtype), Var(f"{var.name}_mod", var.dtype)
    quotients: Mapping[Expr, Expr] = {
        known.simplify(binary(FloorDiv, var, wide.divisor)): high,
        known.simplify(binary(FloorMod, var, wide.divisor)): low,
    }
    domains[high] = Range.from_extent(known.simplify(wide.extent // wide.divisor))
    domains[low] = Range.from_extent(wide.divisor)
    replaced = [quotients.get(known.simplify(final), final) for final in finals]
    if any(var in free_vars(final) for final in replaced):
        raise UserError(f"{var.name} is divided by {wide.divisor} in an unknown way")
    return replaced, high * wide.divisor + low


def _extent(base: Expr, args: Sequence[IterSplitExpr], known: Analyzer) -> Expr:
    """The new extent of an index that runs over base + [0, extent)."""
    if not known.can_prove(base >= 0):
        raise UserError(f"an index of the map starts at {base}")
    if not args:
        return known.simplify(base + 1)
    step = args[0].scale
    if len(args) > 1 or (not is_int(step, 1) and not known.can_prove(step > 0)):
        raise UserError("an index of the map has gaps that are not known")
    return known.simplify(base + (args[0].extent - 1) * step + 1)


@dataclass(frozen=True)
class _Rows:
    """A new index that counts in steps, from a start.

    Attributes:
        total: what it counts, without steps and start.
        number: the same in terms of the new index.
        between: the condition for the new index to be none of them.
    """

    total: IterSumExpr
    number: Expr
    between: Expr


def _rows(total: IterSumExpr, output: Var, known: Analyzer) -> _Rows:
    step = total.args[0].scale if total.args else const(1, output.dtype)
    if is_int(step, 1):  # that the places before a start hold nothing is understood
        return _Rows(total, output, const(False))
    zero = const(0, output.dtype)
    plain = IterSumExpr(tuple(a.scaled(const(1, a.scale.dtype)) for a in total.args), zero)
    place = known.simplify(output - total.base)
    gap = binary(NE, binary(FloorMod, place, step), zero)
    between = binary(Or, binary(LT, output, total.base), gap)
    return _Rows(plain, binary(FloorDiv, place, step), known.simplify(between))


def _outside(index: Expr, size: Expr, wide: _Widened, known: Analyzer) -> Expr:
    """Where a widened index is before the first element, or behind the last one."""
    quotient, rest = binary(FloorDiv, index, wide.divisor), binary(FloorMod, index, wide.divisor)
    result: Expr = const(False)
    if wide.left and isinstance(wide.divisor, IntImm):
        whole, part = divmod(wide.left, wide.divisor.value)
        first = binary(And, binary(EQ, quotient, whole), binary(LT, rest, part))
        result = binary(Or, binary(LT, quotient, whole), first)
    end = known.simplify(binary(Add, size, const(wide.left, size.dtype)))
    over = known.simplify(binary(FloorMod, end, wide.divisor))
    if is_int(over, 0):
        return result
    last = binary(
        And,
        binary(EQ, quotient, known.simplify(binary(FloorDiv, end, wide.divisor))),
        binary(GE, rest, over),
    )
    if not isinstance(over, IntImm):
        last = binary(And, binary(NE, binary(FloorMod, -end, wide.divisor), 0), last)
    return binary(Or, result, last)
