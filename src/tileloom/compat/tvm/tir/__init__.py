"""`tvm.tir`: tensor IR, its nodes under TVM's names and with TVM's constructors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .. import ir
from .._names import missing
from . import (
    analysis,
    buffer,
    expr,
    function,
    ir_builder,
    op,
    sparse,
    stmt,
    stmt_functor,
    tensor_intrin,
    transform,
)

__all__ = [
    "analysis", "buffer", "expr", "function", "ir_builder", "op", "schedule", "sparse", "stmt",
    "stmt_functor", "tensor_intrin", "transform",
]  # fmt: skip
# Where names of this module are defined; the schedule last, as it takes the longest to load.
_HOMES = (expr, stmt, buffer, function, op)
_SCHEDULE = f"{__name__}.schedule"
# Names that stand on more than this module, looked up where they are when they are asked for.
_ELSEWHERE = {
    "TensorIntrin": "tileloom.schedule.tensor_intrin",
    "build": "tileloom.compat.tvm.driver",
}
_missing = missing(__name__)


def _find(name: str) -> Any:
    for home in _HOMES:
        if name in home.__all__:
            return getattr(home, name)
    if name == "Range":
        return ir.Range
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    if name == "schedule" or name in import_module(_SCHEDULE).__all__:
        found = import_module(_SCHEDULE)
        return found if name == "schedule" else getattr(found, name)
    try:
        return getattr(op, name)  # intrinsics that have no function of their own
    except AttributeError:
        return _missing(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        return _missing(name)
    found = globals()[name] = _find(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), "schedule", *(name for home in _HOMES for name in home.__all__)})
