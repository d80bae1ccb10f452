"""What an index says: its bounds, how far a loop moves it, and how much arithmetic it is.

An index is a sum of loop variables and of other terms, with the largest factors first.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from ...expr import (
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    Var,
    post_order,
)
from ...expr.bounds import BoundAnalyzer, ConstIntBound
from .counts import ADDSUB, INT, MUL, ZEROS, summary
from .program import Form
from .quotients import ordered


class TermBounds:
    """Bounds of a term that is no variable, while more and more of its variables run.

    As in TVM, what is known of remainders is what held while all variables stood still: there
    `x % c` seems to be one number, or a few where the operand of the remainder has one itself.
    """

    def __init__(self, term: Expr, firsts: Mapping[Expr, ConstIntBound]) -> None:
        self._term = term
        known = BoundAnalyzer(firsts)
        self.still = known.of(term)
        self._facts = dict(firsts)
        for part in post_order(term):
            if isinstance(part, FloorMod) and isinstance(part.b, IntImm) and part.b.value > 0:
                divisor, step = part.b.value, _step(part)
                rest = known.of(part)[0] % step
                self._facts[part] = ConstIntBound(rest, divisor - step + rest)

    def run(self, var: Var, ends: ConstIntBound) -> ConstIntBound:
        """The bounds once another variable runs, between these ends."""
        self._facts[var] = ends
        return BoundAnalyzer(self._facts).of(self._term)


def _step(expr: Expr) -> int:
    """What all values of an expression differ by a multiple of, if its variables stand still but
    for multiples of the divisors of remainders."""
    match expr:
        case Var() | IntImm():
            return 0
        case Add(a, b) | Sub(a, b):
            return gcd(_step(a), _step(b))
        case Mul(a, IntImm() as factor):
            return _step(a) * abs(factor.value)
        case FloorDiv(a, IntImm() as divisor) if divisor.value and _step(a) % divisor.value == 0:
            return _step(a) // abs(divisor.value)
        case FloorMod(a, IntImm() as divisor):
            return gcd(_step(a), divisor.value)
        case _:
            return 1


def add_arithmetic(form: Form, counts: list[int]) -> None:
    """Add the operations of an index to others, by kind."""
    factors = form.terms.values()
    if not factors:
        return
    counts[ADDSUB + INT] += len(factors) - 1 + (form.const != 0)
    for term, factor in form.terms.items():
        if factor != 1 and factor != -1:
            counts[MUL + INT] += 1
        if not isinstance(term, Var):
            for place, count in enumerate(summary(term).counts):
                counts[place] += count


def arithmetic(form: Form) -> tuple[int, ...]:
    """The operations of an index, by kind."""
    counts = list(ZEROS)
    add_arithmetic(form, counts)
    return tuple(counts)


def coefficients(form: Form) -> dict[Var, int]:
    """By how much each variable is taken to move the index, as TVM tells it.

    It is no derivative: of the factors that stand at or behind a variable, the last one counts,
    and a variable without a factor counts once, or twice where it stands only inside a division.

    >>> from tileloom.lower.analysis.linear import linear
    >>> i, j, k = Var("i"), Var("j"), Var("k")
    >>> coefficients(linear(i * 32 + j * 4 + k))
    {i: 4, j: 4, k: 1}
    """
    last, plain = 0, True
    for term, factor in form.terms.items():
        if factor < 0 or not isinstance(term, Var):
            plain = False
            break
        if factor > 1 and (factor < last or not last):
            last = factor
    if plain:
        return {t: 1 if k == 1 else last for t, k in form.terms.items()}  # type: ignore[misc]
    steps = _steps_of(form)
    return {var: _coefficient(steps, var) for var in steps if isinstance(var, Var)}


_Steps = tuple[Var | int | None, ...]  # variables, factors of products, and None for sums


def _steps_of(form: Form) -> _Steps:
    """What a walk over an index sees, operands before operations."""
    steps: list[Var | int | None] = []
    is_first = True
    for term, factor in ordered(form):
        steps += _steps_of_term(term)
        if factor not in (1, -1):
            steps.append(abs(factor))
        if factor > 0 and not is_first:
            steps.append(None)
        is_first = False
    if form.const > 0 and form.terms:  # before what is subtracted
        negative = sum(factor < 0 for factor in form.terms.values())
        at = len(steps)
        for term, factor in ordered(form)[len(form.terms) - negative :]:
            at -= len(_steps_of_term(term)) + (factor != -1)
        steps.insert(at, None)
    return tuple(steps)


def _steps_of_term(expr: Expr) -> _Steps:
    if isinstance(expr, Var):
        return (expr,)
    known = expr.memo.get("tune.steps")
    if known is None:
        inner: list[Var | int | None] = []
        for child in expr.children:
            inner += _steps_of_term(child)
        if isinstance(expr, Add):
            inner.append(None)
        elif isinstance(expr, Mul):
            factor = next((x for x in (expr.a, expr.b) if isinstance(x, IntImm)), None)
            inner += () if factor is None else (factor.value,)
        known = expr.memo["tune.steps"] = tuple(inner)
    return known


def _coefficient(steps: _Steps, var: Var) -> int:
    var_seen = product_seen = sum_seen = False
    step = 0
    for item in steps:
        if item is var:
            var_seen, step = True, 2
        elif var_seen and isinstance(item, int) and not sum_seen:
            product_seen, step = True, item
        elif var_seen and item is None and not product_seen:
            sum_seen, step = True, 1
    return step if product_seen or sum_seen else 1
