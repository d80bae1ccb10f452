"""What the threads of a warp do together, in scripts: `T.ballot_sync(mask, condition)`."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import Call, as_expr
from ..expr.warp_ops import WARP_ARGUMENTS, WARP_RESULTS, WHOLE_WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..expr import Expr
    from ..expr.operators import ExprLike

_MASKED = ("_sync", "syncwarp")


def _call(op: str) -> Callable[..., Expr]:
    name = op.removeprefix("tir.")
    masked = name.endswith(_MASKED) and not name.startswith("barrier")

    def build(*args: ExprLike) -> Expr:
        given: list[ExprLike] = list(args)
        if masked and len(given) < WARP_ARGUMENTS[op]:
            given.insert(0, WHOLE_WARP)
        values = [as_expr(x, "uint32" if masked and k == 0 else None) for k, x in enumerate(given)]
        return Call(WARP_RESULTS[op] or values[-1].dtype, op, values)

    build.__name__ = name
    build.__doc__ = f"`{op}`; all lanes of the warp take part where no mask is given."
    return build


WARP_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    op.removeprefix("tir."): _call(op) for op in WARP_RESULTS
}
