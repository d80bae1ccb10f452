"""The rule tables: families of (pattern, guard, result), tried by the class of a node."""

from __future__ import annotations

from typing import Any

from ..nodes import Expr
from . import add_sub, boolean, compare, division, floats, min_max, mul, select, vector
from .language import Dispatch, RewriteRule

FAMILIES: dict[str, tuple[RewriteRule, ...]] = {
    "add_sub": add_sub.RULES,
    "mul": mul.RULES,
    "division": division.RULES,
    "min_max": min_max.RULES,
    "compare": compare.RULES,
    "boolean": boolean.RULES,
    "select": select.RULES,
    "floats": floats.RULES,
}
_DISPATCH = Dispatch([rule for family in FAMILIES.values() for rule in family])


def apply_rules(expr: Expr, context: Any) -> Expr | None:
    """What the first rule that fits makes of the node, or None."""
    if expr.dtype.lanes > 1:
        for function in vector.RULES.get(type(expr), ()):
            changed = function(expr, context)
            if changed is not None:
                return changed
    for candidate in _DISPATCH.candidates(expr):
        changed = candidate.rewrite(expr, context)
        if changed is not None:
            return changed
    return None
