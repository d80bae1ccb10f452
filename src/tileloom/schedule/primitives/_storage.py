"""Storage scopes by name."""

from __future__ import annotations

import re

from ..errors import refuse
from ..sref import StmtSRef

_SCOPES = re.compile(
    r"^(global|shared|local|warp|texture|vtcm|"
    r"(global|shared|local|warp)(\.[\w.]+)|"
    r"(wmma\.(matrix_a|matrix_b|accumulator))|"
    r"(m16n8k8\.matrix[ABC])|(metal\.simdgroup))$"
)


def check_scope(scope: str, at: StmtSRef) -> None:
    """Refuse a name that is no storage scope."""
    if not _SCOPES.match(scope):
        raise refuse(
            f"{scope!r} is no storage scope",
            at=[at],
            hint="one of global, shared, shared.dyn, local, warp, wmma.matrix_a, wmma.matrix_b, "
            "wmma.accumulator",
            fast="The input storage scope is invalid",
        )
