"""The arithmetic rules as a table.

Most are those of MindSpore's graph kernels (ArithmeticSimplify, with their numbers), where they
are applied without conditions; rule 9 there has a wrong sign. The class of a rule says for which
values it holds, see `options.Safety`; integers wrap around, so that their rules are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .options import Safety
from .pattern import Bindings, Guard, cases_of
from .rule import Kind, Rule

E: Safety = "exact"
F: Safety = "finite-only"
R: Safety = "reassociating"


def rule(
    id: str, text: str, floats: Safety | None = None, ints: Safety | None = None,
    bools: Safety | None = None, *, source: int | None = None, when: Guard | None = None,
    also: tuple[str, ...] = (), note: str = "", family: str = "arithmetic",
) -> Rule:  # fmt: skip
    """A rule from its text; `also` are further texts for the same."""
    given: dict[Kind, Safety | None] = {"float": floats, "int": ints, "bool": bools}
    safety = {kind: found for kind, found in given.items() if found is not None}
    cases = tuple(case for each in (text, *also) for case in cases_of(each, when))
    return Rule(id, family, text, safety, cases, source, note)


# ---------------------------------------------------------------------------- conditions


def nonzero(bound: Bindings) -> bool:
    """c has no zeros."""
    return bool(np.all(_value(bound, "c") != 0))


def power_of_two(bound: Bindings) -> bool:
    """1 / c is a number of the type, and so without rounding."""
    value = _value(bound, "c")
    wide = value.astype(np.float64)
    with np.errstate(all="ignore"):
        inverse = (1 / value).astype(value.dtype).astype(np.float64)
        exact = np.isfinite(inverse) & (np.abs(np.frexp(wide)[0]) == 0.5) & (inverse * wide == 1)
    return bool(exact.all())


def unlike_zeros(bound: Bindings) -> bool:
    """Not both c1 and c2 have zeros, which could have different signs."""
    return not ((_value(bound, "c1") == 0).any() and (_value(bound, "c2") == 0).any())


def not_float(bound: Bindings) -> bool:
    """There is no NaN to compare with."""
    return not bound["A"].dtype.is_float


def signed(bound: Bindings) -> bool:
    """A is of a type with negative numbers."""
    return not bound["A"].dtype.is_unsigned


def _value(bound: Bindings, name: str) -> np.ndarray[Any, Any]:
    value = bound[name].value
    return np.empty(0) if value is None else value


# ---------------------------------------------------------------------------- the table

ADDITION = (
    rule("add-negative-zero", "A + -0.0 = A", E, source=1),
    rule("add-zero", "A + 0 = A", F, E, source=1, note="-0.0 + 0.0 is 0.0"),
    rule("factor-sum", "A * C + A * B = A * (B + C)", R, E, source=2),
    rule("add-constants", "(A + c1) + c2 = A + (c1 + c2)", R, E, source=3),
    rule("add-negative-self", "A + -A = 0", F, E, source=4, note="inf - inf is NaN"),
    rule("add-then-negative", "(A + B) + -A = B", R, E, source=5, also=("(A + B) - A = B",)),
    rule("add-cancelling-sums", "(A + B) + (-A + C) = B + C", R, E, source=6),
    rule("add-negative", "A + -B = A - B", E, E),
    rule("sub-positive-zero", "A - 0.0 = A", E, source=7),
    rule("sub-zero", "A - 0 = A", F, E, source=7, note="-0.0 - -0.0 is 0.0"),
    rule("sub-self", "A - A = 0", F, E, note="inf - inf is NaN"),
    rule("sub-negative", "A - -B = A + B", E, E),
    rule("sub-constant", "A - c = A + -c", E, E, source=8),
    rule("factor-difference", "A * C - A * B = A * (C - B)", R, E, source=9,
         note="9 of the source has B - C; 10 is the same with products the other way round"),
    rule("neg-of-sub", "-(A - B) = B - A", F, E, note="-(1 - 1) is -0.0"),
    rule("neg-of-neg", "-(-A) = A", E, E, source=24),
)  # fmt: skip

MULTIPLICATION = (
    rule("mul-one", "A * 1 = A", E, E),
    rule("mul-minus-one", "A * -1 = -A", E, E),
    rule("mul-zero", "A * 0 = 0", F, E, note="inf * 0 is NaN, -1 * 0 is -0.0"),
    rule("mul-constants-of-two", "(A * c1) * (B * c2) = (A * B) * (c1 * c2)", R, E, source=25),
    rule("mul-constants", "(A * c1) * c2 = A * (c1 * c2)", R, E, source=26),
    rule("mul-of-exps", "exp(A) * exp(B) = exp(A + B)", R, source=27),
    rule("mul-of-scaled-exp", "(exp(A) * C) * exp(B) = exp(A + B) * C", R, source=28),
    rule("mul-of-scaled-exps", "(exp(A) * C) * (exp(B) * D) = exp(A + B) * (C * D)", R,
         source=29),
    rule("square-of-sqrt", "sqrt(A) * sqrt(A) = A", R, source=30, also=("square(sqrt(A)) = A",),
         note="NaN where A is negative"),
    rule("mul-of-scaled-sqrts", "(A * sqrt(B)) * (C * sqrt(B)) = (A * B) * C", R, source=31),
    rule("mul-of-scaled-sqrt", "(A * sqrt(B)) * sqrt(B) = A * B", R, source=32),
    rule("mul-of-sqrts", "sqrt(A) * sqrt(B) = sqrt(A * B)", R, source=33,
         note="NaN where both are negative"),
    rule("square-of-rsqrt", "rsqrt(A) * rsqrt(A) = reciprocal(A)", R, source=34,
         also=("square(rsqrt(A)) = reciprocal(A)",)),
    rule("mul-of-scaled-rsqrt", "(A * rsqrt(B)) * rsqrt(B) = A / B", R, source=35),
    rule("mul-of-scaled-rsqrts", "(A * rsqrt(B)) * (C * rsqrt(B)) = (A * C) / B", R, source=36),
    rule("mul-of-rsqrts", "rsqrt(A) * rsqrt(B) = rsqrt(A * B)", R, source=37,
         note="NaN where both are negative"),
    rule("mul-by-rsqrt", "A * rsqrt(A) = sqrt(A)", R, source=38, note="NaN where A is 0"),
    rule("mul-of-abs", "abs(A) * abs(B) = abs(A * B)", E, source=39,
         note="integers wrap around into other signs"),
    rule("mul-of-scaled-abs", "(abs(A) * C) * abs(B) = abs(A * B) * C", R, source=40),
    rule("mul-of-two-scaled-abs", "(abs(A) * C) * (abs(B) * D) = abs(A * B) * (C * D)", R,
         source=41),
    rule("mul-of-negatives", "-A * -B = A * B", E, E),
    rule("neg-times-constant", "-A * c = A * -c", E, E, source=42),
)  # fmt: skip

DIVISION = (
    rule("div-one", "A / 1 = A", E, source=43),
    rule("div-self", "A / A = 1", F, note="inf / inf is NaN"),
    rule("one-over", "1 / A = reciprocal(A)", E),
    rule("reciprocal-of-reciprocal", "reciprocal(reciprocal(A)) = A", R),
    rule("div-of-exps", "exp(A) / exp(B) = exp(A - B)", R, source=44),
    rule("div-by-exp", "A / exp(B) = A * exp(-B)", R, source=45),
    rule("div-by-pow", "A / pow(B, c) = A * pow(B, -c)", R, source=46),
    rule("div-by-own-sqrt", "A / sqrt(A) = sqrt(A)", R, source=47, note="NaN where A is 0"),
    rule("div-by-sqrt", "A / sqrt(B) = A * rsqrt(B)", R, source=48),
    rule("div-by-rsqrt", "A / rsqrt(B) = A * sqrt(B)", R, source=49),
    rule("div-by-power-of-two", "A / c = A * reciprocal(c)", E, source=50, when=power_of_two,
         note="where 1 / c is no rounded number"),
    rule("mul-then-div", "(A * c1) / c2 = A * (c1 / c2)", R),
    rule("div-then-mul", "(A / c1) * c2 = A * (c2 / c1)", R),
    rule("div-of-quotients", "(A / B) / (C / D) = (A * D) / (B * C)", R, source=51),
    rule("neg-over-constant", "-A / c = A / -c", E, source=52),
    rule("quotient-over", "(A / B) / C = A / (B * C)", R, source=53),
    rule("over-quotient", "A / (B / C) = (A * C) / B", R, source=54),
    rule("div-by-constant", "A / c = A * reciprocal(c)", R, source=50, when=nonzero),
)  # fmt: skip

FUNCTIONS = (
    rule("log-of-exp", "log(exp(A)) = A", R, source=11),
    rule("log-of-pow", "log(pow(A, c)) = c * log(abs(A))", R, source=12, when=nonzero,
         note="c constant and without zeros, for 0 to the power 0 is 1"),
    rule("log-of-sqrt", "log(sqrt(A)) = 0.5 * log(A)", R, source=13),
    rule("log-of-rsqrt", "log(rsqrt(A)) = -0.5 * log(A)", R, source=14),
    rule("exp-of-log", "exp(log(A)) = A", R, note="NaN where A is negative"),
    rule("pow-zero", "pow(A, 0) = 1", E, E),
    rule("pow-one", "pow(A, 1) = A", E, E, source=15),
    rule("pow-of-exp", "pow(exp(A), B) = exp(A * B)", R, source=16),
    rule("pow-two", "pow(A, 2) = square(A)", E, E, source=17),
    rule("pow-three", "pow(A, 3) = square(A) * A", R),
    rule("pow-minus-one", "pow(A, -1) = reciprocal(A)", E, source=18),
    rule("pow-half", "pow(A, 0.5) = sqrt(A)", F, note="pow(-inf, 0.5) is inf"),
    rule("pow-minus-half", "pow(A, -0.5) = rsqrt(A)", R),
    rule("sqrt-of-square", "sqrt(A * A) = abs(A)", F, source=19,
         also=("sqrt(square(A)) = abs(A)",)),
    rule("rsqrt-of-pow", "rsqrt(pow(A, -2)) = abs(A)", R, source=20),
    rule("rsqrt-of-one-over", "rsqrt(1 / A) = sqrt(A)", R, source=21),
    rule("rsqrt-of-reciprocal", "rsqrt(reciprocal(A)) = sqrt(A)", R, source=22),
    rule("abs-of-abs", "abs(abs(A)) = abs(A)", E, E),
    rule("abs-of-neg", "abs(-A) = abs(A)", E, E, when=signed, note="of signed numbers"),
    rule("abs-of-square", "abs(square(A)) = square(A)", E),
    rule("square-of-neg", "square(-A) = square(A)", E, E),
    rule("square-of-abs", "square(abs(A)) = square(A)", E, E),
    rule("relu-of-relu", "relu(relu(A)) = relu(A)", E, E),
    *(rule(f"{name}-of-{name}", f"{name}({name}(A)) = {name}(A)", E)
      for name in ("floor", "ceil", "round", "trunc")),
    *(rule(f"{name}-of-integer", f"{name}(A) = A", ints=E)
      for name in ("floor", "ceil", "round", "trunc")),
    rule("floor-divide-by-one", "floor_divide(A, 1) = A", ints=E),
    rule("trunc-divide-by-one", "trunc_div(A, 1) = A", ints=E),
    rule("mod-one", "mod(A, 1) = 0", ints=E),
)  # fmt: skip

EXTREMES = (
    rule("maximum-of-same", "maximum(A, A) = A", E, E, E),
    rule("minimum-of-same", "minimum(A, A) = A", E, E, E),
    rule("maximum-of-constants", "maximum(maximum(A, c1), c2) = maximum(A, maximum(c1, c2))",
         E, E, E, when=unlike_zeros, note="not both constants have zeros"),
    rule("minimum-of-constants", "minimum(minimum(A, c1), c2) = minimum(A, minimum(c1, c2))",
         E, E, E, when=unlike_zeros, note="not both constants have zeros"),
)  # fmt: skip


def logic(id: str, text: str, **how: Any) -> Rule:
    """A rule for bools."""
    return rule(id, text, bools=E, family="selects", **how)


def select(id: str, text: str, **how: Any) -> Rule:
    """A rule for any type."""
    return rule(id, text, E, E, E, family="selects", **how)


SELECTS = (
    select("where-same", "where(A, B, B) = B", source=23),
    select("where-true", "where(True, A, B) = A"),
    select("where-false", "where(False, A, B) = B"),
    select("where-not", "where(logical_not(A), B, C) = where(A, C, B)"),
    select("where-where-first", "where(A, where(A, B, C), D) = where(A, B, D)"),
    select("where-where-second", "where(A, B, where(A, C, D)) = where(A, B, D)"),
    logic("where-is-condition", "where(A, True, False) = A"),
    logic("where-is-not", "where(A, False, True) = logical_not(A)"),
    logic("not-of-not", "logical_not(logical_not(A)) = A"),
    logic("not-of-equal", "logical_not(equal(A, B)) = not_equal(A, B)"),
    logic("not-of-not-equal", "logical_not(not_equal(A, B)) = equal(A, B)"),
    logic("not-of-less", "logical_not(less(A, B)) = greater_equal(A, B)", when=not_float,
          note="not of floats: comparisons with NaN are false"),
    logic("not-of-less-equal", "logical_not(less_equal(A, B)) = greater(A, B)", when=not_float),
    logic("not-of-greater", "logical_not(greater(A, B)) = less_equal(A, B)", when=not_float),
    logic("not-of-greater-equal", "logical_not(greater_equal(A, B)) = less(A, B)",
          when=not_float),
    logic("and-same", "logical_and(A, A) = A"),
    logic("and-true", "logical_and(A, True) = A"),
    logic("and-false", "logical_and(A, False) = False"),
    logic("or-same", "logical_or(A, A) = A"),
    logic("or-true", "logical_or(A, True) = True"),
    logic("or-false", "logical_or(A, False) = A"),
    logic("xor-same", "logical_xor(A, A) = False"),
    logic("xor-false", "logical_xor(A, False) = A"),
    rule("equal-to-itself", "equal(A, A) = True", F, E, E, family="selects",
         note="NaN is not equal to itself"),
    select("less-than-itself", "less(A, A) = False"),
    select("greater-than-itself", "greater(A, A) = False"),
    rule("bitwise-and-same", "bitwise_and(A, A) = A", ints=E, bools=E, family="selects"),
    rule("bitwise-or-same", "bitwise_or(A, A) = A", ints=E, bools=E, family="selects"),
    rule("bitwise-xor-same", "bitwise_xor(A, A) = 0", ints=E, family="selects"),
)  # fmt: skip

# Special cases stand before general ones: the first that fits is applied.
ARITHMETIC: tuple[Rule, ...] = (
    *ADDITION, *MULTIPLICATION, *DIVISION, *FUNCTIONS, *EXTREMES,
)  # fmt: skip
