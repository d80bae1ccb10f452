"""`tvm.tir.function`: functions, index maps and tensor intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .... import expr, tir
from ....base import dtype
from ....expr import ExprLike, Var
from .._names import NodeType, missing, node_type


def _prim_func(
    params: Sequence[Any],
    body: tir.Stmt,
    ret_type: Any = None,
    buffer_map: Mapping[Var, tir.Buffer] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> tir.PrimFunc:
    buffers = dict(buffer_map or {})
    variables = []
    for param in params:
        if isinstance(param, tir.Buffer):
            pointer = Var(param.name, "handle")
            buffers[pointer] = param
            param = pointer
        variables.append(param)
    kind = dtype(getattr(ret_type, "dtype", ret_type) or "void")
    return tir.PrimFunc(tuple(variables), body, buffers, dict(attrs or {}), kind)


PrimFunc = node_type(tir.PrimFunc, _prim_func)


class IndexMap(metaclass=NodeType, node=expr.IndexMap):
    """A layout as a function from old indices to new ones."""

    AXIS_SEPARATOR = "axis_separator"

    @staticmethod
    def build(
        initial_indices: Sequence[Var],
        final_indices: Sequence[ExprLike],
        inverse_index_map: expr.IndexMap | None = None,
    ) -> expr.IndexMap:
        """The map of some variables to expressions of them."""
        return expr.IndexMap(initial_indices, final_indices, inverse_index_map)

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> expr.IndexMap:
        """The map that a Python function computes.

        >>> IndexMap.from_func(lambda i, j: [i // 4, j, i % 4], index_dtype="int32")
        IndexMap((i, j) -> (i // 4, j, i % 4))
        """
        found, _ = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        return found

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[expr.IndexMap, list[int]]:
        """The map, and before which of the new indices it has `AXIS_SEPARATOR`."""
        separators: list[int] = []

        def kept(*indices: Var) -> list[Any]:
            result = mapping_function(*indices)
            found: list[Any] = []
            for item in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(item, str):
                    separators.append(len(found))
                else:
                    found.append(item)
            return found

        kept.__wrapped__ = mapping_function  # type: ignore[attr-defined]
        made = expr.IndexMap.from_func(kept, ndim, dtype=index_dtype)
        if callable(inverse_index_map):
            inverse_index_map = expr.IndexMap.from_func(
                inverse_index_map, len(made.final_indices), dtype=index_dtype
            )
        whole = expr.IndexMap(made.initial_indices, made.final_indices, inverse_index_map)
        return whole, separators


__all__ = [
    "IndexMap", "PrimFunc",
]  # fmt: skip
_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    if name == "TensorIntrin":  # stands on the schedule, which takes long to load
        return getattr(import_module("tileloom.schedule.tensor_intrin"), name)
    return _missing(name)
