"""Fewer changes of layout: they are moved to where they are needed, and computed away."""

from __future__ import annotations

from ..conversions.propagate import propagate_layouts
from ..conversions.rematerialize import Rematerialization
from ..ir.core import Operation
from ..ir.rewriter import PATTERNS, apply_patterns
from ..patterns.layouts import convert_layout_patterns
from .registry import tile_pass

CONTROL = ("scf.for", "scf.if")


@tile_pass("tritongpu-remove-layout-conversions")
def remove_layout_conversions(module: Operation) -> None:
    """Removes conversions of layout, in four steps:

    1. layouts spread forward from loads, stores and products, which keep theirs;
    2. what a conversion's operand is computed from is computed in its target layout instead,
       where that costs no large load or product a second time;
    3. other conversions move before extensions and broadcasts, where there is less to convert;
    4. conversions and loops are simplified.
    """
    functions = [op for op in module.body if op.name == "tt.func" and op.regions[0].blocks]
    simple = convert_layout_patterns()
    for function in functions:
        propagate_layouts(function)
    apply_patterns(module, simple)
    for function in functions:
        Rematerialization(function).remove()
    apply_patterns(module, simple)
    for function in functions:
        Rematerialization(function).hoist()
    loops = {name: PATTERNS[name] for name in CONTROL}
    apply_patterns(module, {**simple, **loops})
