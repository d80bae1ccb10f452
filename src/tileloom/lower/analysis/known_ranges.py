"""The constant ranges of all loops and threads of a function, as an analyzer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...expr import Expr, IntImm, Min, Var, const
from ...expr.analyzer import Analyzer
from ...tir import AttrStmt, For, Stmt, pre_order
from ..common import THREAD_KEYS

_HUGE = 1 << 31  # bounds of what nothing is known of


def analyzer_of(stmt: Stmt) -> Analyzer:
    """An analyzer that knows the constant ranges of all loops and threads of a function.

    Such a range says something of its own variable alone, so it may be known everywhere.
    """
    analyzer = Analyzer()
    ranges = list(_ranges(stmt))
    times = Counter([var for var, _, _ in ranges])
    # All constant ranges at once: with every new fact an analyzer forgets what it has found out.
    known = {
        var: (low.value, max(low.value, low.value + extent.value - 1))
        for var, low, extent in ranges
        if times[var] == 1 and isinstance(low, IntImm) and isinstance(extent, IntImm)
    }
    analyzer.bind_bounds(known)
    for var, low, extent in ranges:
        if times[var] == 1 and var not in known:
            ends = _constant_ends(analyzer, low, extent)
            if ends is not None:
                analyzer.bind_bounds({var: ends})
    return analyzer


def _ranges(stmt: Stmt) -> Iterator[tuple[Var, Expr, Expr]]:
    """The variables that run, with their starts and extents, outer ones first."""
    for node in pre_order(stmt):
        if isinstance(node, For):
            yield node.loop_var, node.min, node.extent
        elif isinstance(node, AttrStmt) and node.attr_key in THREAD_KEYS:
            yield node.node.var, const(0, node.value.dtype), node.value


def _constant_ends(analyzer: Analyzer, low: Expr, extent: Expr) -> tuple[int, int] | None:
    if not isinstance(extent, (Min, IntImm)):
        return None
    first, last = analyzer.const_int_bound(low), analyzer.const_int_bound(low + extent)
    if last.max_value >= _HUGE or first.min_value <= -_HUGE:
        return None
    return first.min_value, max(first.min_value, last.max_value - 1)
