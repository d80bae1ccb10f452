"""What ops cost per element, in additions of a vector unit: rough, for choices between forms."""

from __future__ import annotations

from ..nodes import Node

#: 1 where nothing is said.
WORK = {
    "div": 4, "reciprocal": 4, "sqrt": 4, "rsqrt": 4, "floor_divide": 12, "mod": 12, "fmod": 12,
    "exp": 10, "exp2": 8, "expm1": 12, "log": 10, "log2": 10, "log10": 10, "log1p": 12,
    "sigmoid": 14, "tanh": 14, "erf": 14, "sin": 14, "cos": 14, "tan": 18, "sinh": 16, "cosh": 16,
    "asin": 14, "acos": 14, "atan": 14, "asinh": 20, "acosh": 20, "atanh": 18, "atan2": 20,
    "pow": 25, "gather": 4, "gather_elements": 4, "gather_nd": 4,
}  # fmt: skip
#: Nothing is computed: elements are found elsewhere.
FREE = {"constant", "reshape", "broadcast_to", "slice", "iota"}


def work_of(node: Node) -> int:
    """The work of an elementwise or injective node, all elements together."""
    if node.op.name in FREE:
        return 0
    return WORK.get(node.op.name, 1) * node.outputs[0].type.size
