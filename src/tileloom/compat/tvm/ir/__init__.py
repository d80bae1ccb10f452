"""`tvm.ir`: modules, ranges, types, operations, and structural equality modulo index arithmetic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .... import expr, tir
from ....base.errors import UnsupportedError, UserError
from ....expr import itermap_nodes as iter_nodes
from ....expr.op_name import OpName, op_name
from ....expr.operators import ExprLike
from ....script import parse
from ....script.intrinsics import is_intrinsic
from ....tir import PrimFunc, StructureError, register_structure, structural
from .._names import NodeType, missing
from . import transform
from .module import GlobalVar, IRModule, as_module
from .normal_form import normal_form

PrimExpr = expr.Expr
BaseExpr = expr.Expr
BaseFunc = PrimFunc
Node = object
EnvFunc = object


class Range(metaclass=NodeType, node=expr.Range):
    """`Range(begin, end)`, `Range(extent)`; `Range.from_min_extent(min, extent)`."""

    @staticmethod
    def build(begin: ExprLike, end: ExprLike | None = None) -> expr.Range:
        """The integers from `begin` up to `end`."""
        if end is None:
            return expr.Range.from_extent(begin)
        low, high = expr.match_types(begin, end)
        return expr.Range(low, expr.simplify(high - low))

    @staticmethod
    def from_min_extent(min_value: ExprLike, extent: ExprLike, span: Any = None) -> expr.Range:
        """The integers from `min_value` on, `extent` of them."""
        return expr.Range(*expr.match_types(min_value, extent))


class Op(metaclass=NodeType, node=OpName):
    """An operation: `Op.get("tir.exp")`."""

    @staticmethod
    def build(name: str) -> OpName:
        """The operation of a name."""
        return op_name(name)

    @staticmethod
    def get(name: str) -> OpName:
        """The operation of a name, which must be known."""
        if expr.find_op(name) is None and not is_intrinsic(name.removeprefix("tir.")):
            raise ValueError(f"there is no operation {name!r}")
        return op_name(name)


class Array(metaclass=NodeType, node=(list, tuple)):
    """Sequences in nodes: ours are Python's."""

    @staticmethod
    def build(items: Iterable[Any] = ()) -> list[Any]:
        """A list."""
        return list(items)


class Map(metaclass=NodeType, node=Mapping):
    """Mappings in nodes: ours are Python's."""

    @staticmethod
    def build(items: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dictionary."""
        return dict(items)


class PrimType:
    """The type of a scalar."""

    def __init__(self, dtype: str) -> None:
        self.dtype = expr.const(0, dtype).dtype if dtype not in ("handle", "void") else dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimType) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class PointerType:
    """The type of a pointer: what it points to, and in which storage."""

    def __init__(self, element_type: Any, storage_scope: str = "") -> None:
        self.element_type, self.storage_scope = element_type, storage_scope or "global"


class StructuralMismatch(StructureError, ValueError):
    """Two things that are not structurally equal; a `ValueError`, as in TVM."""


register_structure(iter_nodes.IterMark, ("source", "use"), ("extent", "use"))
register_structure(
    iter_nodes.IterSplitExpr,
    *((name, "use") for name in ("source", "lower_factor", "extent", "scale")),
)
register_structure(iter_nodes.IterSumExpr, ("args", "use"), ("base", "use"))


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether both are alike, modulo the index normal form.

    >>> x, y = expr.Var("x"), expr.Var("y")
    >>> structural_equal(x * 2 + y, y + 2 * x), structural_equal(x + 1, x + 2)
    (True, False)
    """
    return structural.structural_equal(normal_form(lhs), normal_form(rhs), map_free_vars)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raises `ValueError` with the first difference unless both are alike."""
    try:
        structural.assert_structural_equal(normal_form(lhs), normal_form(rhs), map_free_vars)
    except StructureError as error:
        raise StructuralMismatch(error.message) from None


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A hash that `structural_equal` things share."""
    return structural.structural_hash(normal_form(node), map_free_vars)


def get_first_structural_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Any:
    """None if both are alike, else what tells them apart."""
    try:
        assert_structural_equal(lhs, rhs, map_free_vars)
    except UserError as error:
        return error.message
    return None


def save_json(node: Any) -> str:
    """A function or module as JSON: its script in an object."""
    if not isinstance(node, (PrimFunc, tir.IRModule)):
        raise UnsupportedError(f"save_json takes functions and modules, not {type(node).__name__}")
    return json.dumps({"tileloom_script": node.script()})


def load_json(json_str: str) -> Any:
    """What `save_json` has written."""
    found = parse(json.loads(json_str)["tileloom_script"])
    return found if isinstance(found, PrimFunc) else as_module(found)


__all__ = [
    "Array", "BaseExpr", "BaseFunc", "EnvFunc", "GlobalVar", "IRModule", "Map", "Node", "Op",
    "PointerType", "PrimExpr", "PrimType", "Range", "StructuralMismatch", "assert_structural_equal",
    "get_first_structural_mismatch", "load_json", "save_json", "structural_equal",
    "structural_hash", "transform",
]  # fmt: skip
__getattr__ = missing(__name__)
