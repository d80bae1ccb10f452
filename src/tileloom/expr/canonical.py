"""Floor division and modulo of canonical sums, and putting the pieces together again.

The canonical piece of `x` is `x % upper // lower`. A division keeps its divisible terms outside,
reduces its constant and drops the low terms that cannot carry; the modulo by the same divisor
leaves the same numerator, so that `x // c * c + x % c` finds its way back to `x`.
"""

from __future__ import annotations

from math import gcd

from .compare import TRUE, compare
from .linear import (
    Context,
    Linear,
    atom,
    constant,
    contains_multiple,
    factors,
    integer,
    multiply,
    product,
    quotient,
    split_of,
)
from .nodes import LT, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul


def floor_div(ctx: Context, x: Linear, divisor: Linear) -> Linear:
    """`x // divisor`."""
    if divisor.terms:
        return _floor_div_symbolic(ctx, x, divisor)
    c = divisor.const
    if c == 0:
        return atom(FloorDiv(x.expr, divisor.expr))
    return _div(ctx, x, c) if c > 0 else _div(ctx, -x, -c)


def floor_mod(ctx: Context, x: Linear, divisor: Linear) -> Linear:
    """`x % divisor`, with the sign of the divisor."""
    if divisor.terms:
        return _floor_mod_symbolic(ctx, x, divisor)
    c = divisor.const
    if c == 0:
        return atom(FloorMod(x.expr, divisor.expr))
    return _mod(ctx, x, c) if c > 0 else -_mod(ctx, -x, -c)


def _separate(x: Linear, c: int) -> tuple[Linear, Linear]:
    """`x == c * whole + rest`: the divisible terms, and the others with a constant in [0, c)."""
    q, r = divmod(x.const, c)
    whole = {t: k // c for t, k in x.terms.items() if k % c == 0}
    rest = {t: k for t, k in x.terms.items() if k % c}
    return Linear(x.dtype, whole, q), Linear(x.dtype, rest, r)


def _high_part(ctx: Context, rest: Linear, c: int) -> tuple[int, Linear, Linear] | None:
    """`rest == g * high + low` with `0 <= low < g`, `1 < g` dividing `c`; None if there is none."""
    g = gcd(c, *rest.terms.values())
    kind = rest.dtype
    if g > 1:
        high = Linear(kind, {t: k // g for t, k in rest.terms.items()}, rest.const // g)
        return g, high, constant(kind, rest.const % g)
    if len(rest.terms) == 1:
        return None
    items = sorted(rest.terms.items(), key=lambda item: -abs(item[1]))
    for n in range(len(items) - 1, 0, -1):
        g = gcd(c, *(k for _, k in items[:n]))
        if g == 1:
            continue
        low = Linear(kind, dict(items[n:]), rest.const)
        least, most = ctx.bound(low)
        carry = least // g
        if carry == most // g:
            high = Linear(kind, {t: k // g for t, k in items[:n]}, carry)
            return g, high, low.shifted(-carry * g)
    return None


def _div(ctx: Context, x: Linear, c: int) -> Linear:
    if c == 1:
        return x
    whole, rest = _separate(x, c)
    if not rest.terms:
        return whole
    least, most = ctx.bound(rest)
    if least // c == most // c:
        return whole.shifted(least // c)
    if least >= 0 and _is_open_quotient_below(ctx, rest, c):
        return whole
    parts = _high_part(ctx, rest, c)
    if parts is not None:
        g, high, _ = parts
        return combine(ctx, whole, _div(ctx, high, c // g))
    inner = _lone_quotient(rest)
    if inner is not None:
        y, a = inner
        return combine(ctx, whole, _div(ctx, ctx.linear(y).shifted(rest.const * a), a * c))
    return combine(ctx, whole, atom(FloorDiv(rest.expr, integer(x.dtype, c))))


def _mod(ctx: Context, x: Linear, c: int) -> Linear:
    if c == 1:
        return constant(x.dtype, 0)
    _, rest = _separate(x, c)
    if not rest.terms:
        return rest
    least, most = ctx.bound(rest)
    if least // c == most // c:
        return rest.shifted(-(least // c) * c)
    if least >= 0 and _is_open_quotient_below(ctx, rest, c):
        return rest
    if ctx.knows_moduli:
        coeff, base = ctx.remainders(rest)
        if coeff % c == 0:
            return constant(x.dtype, base % c)
    unwrapped = _without_inner_mod(ctx, rest, c)
    if unwrapped is not None:
        return _mod(ctx, unwrapped, c)
    parts = _high_part(ctx, rest, c)
    if parts is not None:
        g, high, low = parts
        return combine(ctx, _mod(ctx, high, c // g).scaled(g), low)
    inner = _lone_quotient(rest)
    if inner is not None:
        y, a = inner
        return _div(ctx, _mod(ctx, ctx.linear(y).shifted(rest.const * a), a * c), a)
    return atom(FloorMod(rest.expr, integer(x.dtype, c)))


def _is_open_quotient_below(ctx: Context, rest: Linear, limit: int) -> bool:
    """Whether `rest` is a quotient by what is not constant, and less than a constant."""
    if len(rest.terms) != 1 or rest.const:
        return False
    ((term, k),) = rest.terms.items()
    is_open = k == 1 and isinstance(term, FloorDiv) and not isinstance(term.b, IntImm)
    return is_open and compare(ctx, LT, rest, constant(rest.dtype, limit)) is TRUE


def _lone_quotient(rest: Linear) -> tuple[Expr, int] | None:
    """`(y, a)` if `rest` is `y // a` plus a constant."""
    if len(rest.terms) != 1:
        return None
    ((term, k),) = rest.terms.items()
    if k == 1 and isinstance(term, FloorDiv) and isinstance(term.b, IntImm) and term.b.value > 0:
        return term.a, term.b.value
    return None


def _without_inner_mod(ctx: Context, rest: Linear, c: int) -> Linear | None:
    """`rest` with `y` for `y % u` where that makes no difference modulo `c`."""
    for term, k in rest.terms.items():
        if type(term) is not FloorMod or not isinstance(term.b, IntImm):
            continue
        if k * term.b.value % c == 0:
            return rest.plus(atom(term), -k).plus(ctx.linear(term.a), k)
    return None


# ---------------------------------------------------------------------------- symbolic divisors


def _divide_out(x: Linear, divisor: Linear) -> tuple[Linear, Linear]:
    """`x == divisor * whole + rest`, with what divides without remainder term by term."""
    kind = x.dtype
    lead, c = max(divisor.terms.items(), key=lambda item: len(factors(item[0])))
    whole = constant(kind, 0)
    for term, k in list(x.terms.items()):
        if k % c:
            continue
        part = quotient(term, lead)
        if part is None:
            continue
        step = constant(kind, k // c) if isinstance(part, int) else Linear(kind, {part: k // c}, 0)
        left = x.plus(multiply(divisor, step), -1)
        if len(left.terms) < len(x.terms):
            x, whole = left, whole.plus(step)
    return whole, x


def _is_remainder(ctx: Context, rest: Linear, divisor: Linear) -> bool:
    """Whether `0 <= rest < divisor` is known."""
    return ctx.bound(rest)[0] >= 0 and ctx.bound(divisor.plus(rest, -1))[0] >= 1


def _floor_div_symbolic(ctx: Context, x: Linear, divisor: Linear) -> Linear:
    whole, rest = _divide_out(x, divisor)
    if (not rest.terms and rest.const == 0) or _is_remainder(ctx, rest, divisor):
        return whole
    if _is_remainder(ctx, rest.plus(divisor), divisor):
        return whole.shifted(-1)
    return combine(ctx, whole, atom(FloorDiv(rest.expr, divisor.expr)))


def _floor_mod_symbolic(ctx: Context, x: Linear, divisor: Linear) -> Linear:
    _, rest = _divide_out(x, divisor)
    if (not rest.terms and rest.const == 0) or _is_remainder(ctx, rest, divisor):
        return rest
    if _is_remainder(ctx, rest.plus(divisor), divisor):
        return rest.plus(divisor)
    return atom(FloorMod(rest.expr, divisor.expr))


# ---------------------------------------------------------------------------- recombination


def combine(ctx: Context, a: Linear, b: Linear, factor: int = 1) -> Linear:
    """`a + factor * b` in canonical form."""
    return recombine(ctx, a.plus(b, factor))


_COMBINING = (FloorDiv, FloorMod, Min, Max)


def recombine(ctx: Context, x: Linear) -> Linear:
    """`x` with pieces of one source merged, and sums drawn into minima where terms cancel."""
    if len(x.terms) < 2 and not ctx.knows_moduli:
        return x
    for term, k in x.terms.items():
        kind = type(term)
        if kind is Mul:
            merged = _merge_in_product(ctx, x, term, k)
            if merged is not None:
                return merged
        if kind not in _COMBINING:
            continue
        if kind is Min or kind is Max:
            merged = _into_extremum(ctx, x, term, k) or _sum_of_extrema(ctx, x, term, k)
        else:
            merged = _merge_piece(ctx, x, term, k)
        if merged is not None:
            return merged
    return x


def _merge_piece(ctx: Context, x: Linear, term: Expr, k: int) -> Linear | None:
    split = split_of(term)
    if split is None:
        return _merge_symbolic(ctx, x, term, k) if type(term) is FloorMod else None
    source, lower, upper = split
    if upper:
        merged = _merge_upper(ctx, x, term, k, split)
        if merged is not None or lower > 1:
            return merged
        # y - y % c  ->  y // c * c
        whole = ctx.linear(source)
        if contains_multiple(x.terms, whole.terms, -k):
            rest = x.plus(atom(term), -k).plus(whole, k)
            return combine(ctx, rest, _div(ctx, whole, upper), -k * upper)
        return None
    if k % lower:
        return None
    # y - y // c * c  ->  y % c
    whole, factor = ctx.linear(source), -(k // lower)
    if ctx.knows_moduli:
        # y // c * c  ->  y - r  where y % c == r is known
        coeff, base = ctx.remainders(whole)
        if coeff % lower == 0:
            rest = x.plus(atom(term), -k)
            return combine(ctx, rest, whole.shifted(-(base % lower)), -factor)
    if not contains_multiple(x.terms, whole.terms, factor):
        return None
    rest = x.plus(atom(term), -k).plus(whole, -factor)
    return combine(ctx, rest, _mod(ctx, whole, lower), factor)


def _merge_upper(
    ctx: Context, x: Linear, term: Expr, k: int, split: tuple[Expr, int, int]
) -> Linear | None:
    """`s % u // l + s % v // u * (u // l)  ->  s % v // l`, times `k`."""
    source, lower, upper = split
    for other, m in x.terms.items():
        if m * lower != k * upper:
            continue
        partner = split_of(other)
        if partner is None or partner[0] is not source or partner[1] != upper:
            continue
        whole = ctx.linear(source)
        if partner[2]:
            whole = _mod(ctx, whole, partner[2])
        rest = x.plus(atom(term), -k).plus(atom(other), -m)
        return combine(ctx, rest, _div(ctx, whole, lower), k)
    return None


def _merge_symbolic(ctx: Context, x: Linear, term: Expr, k: int) -> Linear | None:
    """`s // n * n + s % n  ->  s`, times `k`, for a divisor that is not constant."""
    source, divisor = term.a, term.b  # type: ignore[attr-defined]
    if isinstance(divisor, IntImm):
        return None
    rounded = multiply(atom(FloorDiv(source, divisor)), ctx.linear(divisor))
    if not contains_multiple(x.terms, rounded.terms, k):
        return None
    rest = x.plus(atom(term), -k).plus(rounded, -k)
    return combine(ctx, rest, ctx.linear(source), k)


def _merge_in_product(ctx: Context, x: Linear, term: Expr, k: int) -> Linear | None:
    """`s // n * n * t + s % n * t  ->  s * t`, times `k`, where no factor of t is constant."""
    parts = factors(term)
    for i, part in enumerate(parts):
        if type(part) is not FloorMod:
            continue
        source, base = map(ctx.linear, part.children)
        others = atom(product(parts[:i] + parts[i + 1 :]))
        rounded = multiply(multiply(floor_div(ctx, source, base), base), others)
        if rounded.terms and contains_multiple(x.terms, rounded.terms, k):
            rest = x.plus(atom(term), -k).plus(rounded, -k)
            return combine(ctx, rest, multiply(source, others), k)
    return None


def _sum_of_extrema(ctx: Context, x: Linear, term: Expr, k: int) -> Linear | None:
    """`min(a, b) + max(a, b)  ->  a + b`, times `k`."""
    a, b = term.children
    other = Max(a, b) if type(term) is Min else Min(a, b)
    if x.terms.get(other) != k:
        return None
    rest = x.plus(atom(term), -k).plus(atom(other), -k)
    return combine(ctx, combine(ctx, rest, ctx.linear(a), k), ctx.linear(b), k)


def _into_extremum(ctx: Context, x: Linear, term: Expr, k: int) -> Linear | None:
    """`min(a, b) + t  ->  min(a + t, b + t)` for those terms that cancel in a side."""
    if len(x.terms) < 2:
        return None
    a, b = ctx.linear(term.a), ctx.linear(term.b)  # type: ignore[attr-defined]
    drawn = {
        t: m // k
        for t, m in x.terms.items()
        if t is not term and m % k == 0 and -(m // k) in (a.terms.get(t), b.terms.get(t))
    }
    if not drawn:
        return None
    inside = Linear(x.dtype, drawn, 0)
    new = type(term)(a.plus(inside).expr, b.plus(inside).expr)  # type: ignore[call-arg]
    rest = x.plus(atom(term), -k).plus(inside, -k)
    return combine(ctx, rest, ctx.linear(new), k)
