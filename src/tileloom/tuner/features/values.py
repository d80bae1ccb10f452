"""What a store computes: its operations and what it reads, once indices are simplified."""

from __future__ import annotations

from ...expr import BinaryOp, Call, Cast, Expr, FloatImm, IntImm, Not, Select, Var, has_load
from ...tir import BufferLoad
from .conditions import condition
from .counts import ZEROS, Summary, place_of, plus, summary, unit
from .forms import Forms
from .index import arithmetic

_IF = "tir.if_then_else"
_NOTHING = Summary(ZEROS, (), True)


def value_summary(value: Expr, forms: Forms) -> Summary | None:
    """What a value consists of; None if it is a number."""
    found = summary(value)
    if not found.is_fixed:
        known = _visit(value, forms)
        if known is None:
            value = forms.simplified(value)
            found = summary(value)
        else:
            value, found = known
    return None if isinstance(value, IntImm | FloatImm) else found


_Visited = tuple[Expr, Summary]  # what is left of an expression, and what that consists of


def _visit(expr: Expr, forms: Forms) -> _Visited | None:
    """None for what is left to the general simplifier."""
    found = summary(expr)
    if found.is_fixed:
        return expr, found
    kind = expr.dtype
    if kind.is_bool and not has_load(expr):
        known = condition(expr, forms)
        if isinstance(known, bool):
            return IntImm(kind, known), _NOTHING
        return None if known is None else (expr, Summary(known, (), False))
    if kind.code == "int" and kind.lanes == 1 and not has_load(expr):
        form = forms.of(expr)
        if not form.terms:
            return IntImm(kind, form.const), _NOTHING
        return expr, Summary(arithmetic(form), (), False)
    if isinstance(expr, Call) and expr.op == _IF:
        return _choice(expr, forms)
    if isinstance(expr, BinaryOp | Call | Cast | Select | Not):
        return _operation(expr, forms)
    return None


def _operation(expr: Expr, forms: Forms) -> _Visited | None:
    place = place_of(expr)
    counts = ZEROS if place is None else unit(place)
    loads: tuple[BufferLoad, ...] = ()
    for child in expr.children:
        known = _visit(child, forms)
        if known is None:
            return None
        if isinstance(known[0], IntImm) and not isinstance(child, IntImm | Var):
            return None  # an operand has become a number: more may follow
        counts, loads = plus(counts, known[1].counts), loads + known[1].loads
    return expr, Summary(counts, loads, False)


def _choice(expr: Call, forms: Forms) -> _Visited | None:
    """A choice; those of one and the same other value become one."""
    when, yes, no = expr.args
    while isinstance(yes, Call) and yes.op == _IF and yes.args[2] is no:
        when, yes = when & yes.args[0], yes.args[1]
    known = condition(when, forms)
    if isinstance(known, bool):
        return _visit(yes if known else no, forms)
    one, other = _visit(yes, forms), _visit(no, forms)
    if known is None or one is None or other is None:
        return None
    place = place_of(expr)
    counts = plus(known, unit(place) if place is not None else ZEROS)
    for part in (one[1], other[1]):
        counts = plus(counts, part.counts)
    return expr, Summary(counts, one[1].loads + other[1].loads, False)
