"""Names of the `T` namespace that low-level programs use: combiners, threads, targets."""

from __future__ import annotations

from .. import target as targets
from ..base.errors import UserError
from ..base.late import TYPE_CHECKING
from ..expr import (
    OPAQUE,
    ORDERED,
    REDUCE,
    SPATIAL,
    THREAD,
    CommReducer,
    Expr,
    ExprLike,
    IterVar,
    Range,
    StringImm,
    Var,
    as_expr,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ROLES = {
    "DataPar": SPATIAL, "ThreadIndex": THREAD, "CommReduce": REDUCE, "Ordered": ORDERED,
    "Opaque": OPAQUE,
}  # fmt: skip
# What a target says in TVM; the rest (keys, tags, limits) follows from it.
_TARGET_OPTIONS = ("arch", "mcpu", "mtriple", "mattr", "num-cores")


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[ExprLike]) -> CommReducer:
    """How values are combined: `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""
    neutral = [as_expr(value) for value in identity]
    lhs = [Var(f"x{k}", value.dtype) for k, value in enumerate(neutral)]
    rhs = [Var(f"y{k}", value.dtype) for k, value in enumerate(neutral)]
    result = combiner(*lhs, *rhs)
    parts = result if isinstance(result, tuple | list) else (result,)
    if len(parts) != len(neutral):
        raise UserError(f"{len(parts)} values are combined, with {len(neutral)} identities")
    return CommReducer(lhs, rhs, [as_expr(part) for part in parts], neutral)


def iter_var(var: Var, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    """A variable with its role, as the node of an attribute."""
    if iter_type not in _ROLES:
        raise UserError(f"unknown role {iter_type!r}", hint=f"one of {', '.join(_ROLES)}")
    if isinstance(dom, tuple | list):
        dom = Range(dom[0], as_expr(dom[1]) - dom[0])
    return IterVar(dom, var, _ROLES[iter_type], thread_tag)


def target(spec: Any, host: Any = None) -> targets.Target:
    """A target, from its text or from a dictionary as TVM prints it."""
    if not hasattr(spec, "keys"):
        return targets.target(spec)
    kind = str(spec.get("kind", ""))
    names = ("arch",) if kind == "cuda" else _TARGET_OPTIONS[1:]
    options = [f"-{name}={_joined(spec[name])}" for name in names if spec.get(name)]
    return targets.target(" ".join([kind, *options]))


def _joined(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def llvm_lookup_intrinsic_id(name: str) -> Expr:
    """An intrinsic of LLVM for `call_llvm_pure_intrin`: its name, where TVM has a number."""
    return StringImm(name)
