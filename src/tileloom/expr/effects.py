"""Which calls certainly do something, told by their names alone."""

from __future__ import annotations

from .atomic_ops import ATOMIC_VALUES
from .nodes import Call, Expr
from .warp_ops import WARP_RESULTS

#: `check_index(index, extent, message)` ends the kernel unless 0 <= index < extent; a fourth
#: argument, a vector of bools, says in which lanes that is asked.
CHECK_INDEX = "tir.check_index"
#: `call_function(name, ...)` calls another function of the module.
CALL_FUNCTION = "tir.call_function"
#: `ret(value)` ends the function, whose result is the value.
RETURN = "tir.ret"
#: `prefetch(address, rw, locality, cache)` asks for memory that will be read or written soon.
PREFETCH = "tir.prefetch"
_EFFECTS = {
    *ATOMIC_VALUES, *WARP_RESULTS, "tir.call_extern", "tir.memory_fence", CHECK_INDEX,
    CALL_FUNCTION, RETURN, PREFETCH,
}  # fmt: skip
_PREFIXES = ("tir.tvm_", "tir.ptx_", "tir.call_packed")


def has_effect(expr: Expr) -> bool:
    """Whether to evaluate the expression does something, so that it must not be dropped (memoised).

    >>> from .nodes import IntImm
    >>> has_effect(IntImm("int32", 1)), has_effect(Call("int32", "tir.lane_id", ()))
    (False, True)
    """
    if isinstance(expr, Call) and (expr.op in _EFFECTS or expr.op.startswith(_PREFIXES)):
        return True
    children = expr.children
    if not children:
        return False
    known = expr.memo.get("has_effect")
    if known is None:
        known = expr.memo["has_effect"] = any(map(has_effect, children))
    return bool(known)
