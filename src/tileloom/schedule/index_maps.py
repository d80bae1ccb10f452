"""Index maps as arguments: from functions, into Python text, into the JSON of traces.

In JSON an index map is a string that holds a graph of nodes by number, as TVM stores objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.errors import UserError
from ..expr import (
    Add,
    BinaryOp,
    Expr,
    FloorDiv,
    FloorMod,
    IndexMap,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
    free_vars_of,
    substitute,
)
from .instruction import Codec, Text

_OPS: dict[str, type[BinaryOp]] = {
    "tir.Add": Add, "tir.Sub": Sub, "tir.Mul": Mul, "tir.FloorDiv": FloorDiv,
    "tir.FloorMod": FloorMod, "tir.Min": Min, "tir.Max": Max,
}  # fmt: skip
_NAMES = {op: name for name, op in _OPS.items()}


def as_index_map(value: Any, ndim: int) -> IndexMap:
    """An index map, or one made of a function of `ndim` indices."""
    if isinstance(value, IndexMap):
        return value
    if callable(value):
        return IndexMap.from_func(value, ndim)
    raise UserError(
        f"an index map is a function of {ndim} indices or an IndexMap, got {type(value).__name__}"
    )


def with_values(value: IndexMap, known: Mapping[Var, Expr]) -> IndexMap:
    """The map with other expressions for variables that are none of its indices."""
    if not known:
        return value
    finals = [substitute(index, known) for index in value.final_indices]
    back = value.inverse_index_map
    again = None if back is None else with_values(back, known)
    return IndexMap(value.initial_indices, finals, again)


def renewed_map(value: IndexMap) -> IndexMap:
    """The map with new variables for its indices, which no program has."""
    new: dict[Var, Expr] = {var: Var(var.name, var.dtype) for var in value.initial_indices}
    initial = [var for var in new.values() if isinstance(var, Var)]
    finals = [substitute(index, new) for index in value.final_indices]
    return IndexMap(initial, finals, value.inverse_index_map)


def own_variables(value: IndexMap) -> frozenset[Var]:
    """The variables of a map that are none of its indices: number variables, and sizes."""
    return frozenset(free_vars_of(value.final_indices)) - set(value.initial_indices)


def index_map_text(value: IndexMap) -> Text:
    """The map as a lambda."""
    names = ", ".join(var.name for var in value.initial_indices)
    finals = "".join(f"{index}, " for index in value.final_indices).rstrip(" ")
    return Text(f"lambda {names}: ({finals})")


def index_map_json(value: IndexMap) -> str:
    """The map as TVM's JSON string."""
    nodes: list[dict[str, Any]] = [{"type_key": ""}]
    known: dict[Expr, int] = {}

    def add(node: dict[str, Any]) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def array(items: Sequence[int]) -> int:
        return add({"type_key": "Array", "data": list(items)})

    def visit(expr: Expr) -> int:
        if expr not in known:
            known[expr] = add(_node(expr, visit, add))
        return known[expr]

    root = add({})
    initial = array([visit(var) for var in value.initial_indices])
    final = array([visit(index) for index in value.final_indices])
    attrs = {
        "final_indices": str(final), "initial_indices": str(initial), "inverse_index_map": "0",
    }  # fmt: skip
    nodes[root] = {"type_key": "tir.IndexMap", "attrs": attrs}
    return json.dumps({"root": root, "nodes": nodes, "b64ndarrays": []})


def _node(expr: Expr, visit: Callable[[Expr], int], add: Callable[[dict[str, Any]], int]) -> Any:
    if isinstance(expr, Var):
        name = add({"type_key": "runtime.String", "repr_str": expr.name})
        kind = add({"type_key": "PrimType", "attrs": {"dtype": str(expr.dtype)}})
        attrs = {
            "dtype": str(expr.dtype), "name": str(name), "span": "0", "type_annotation": str(kind),
        }  # fmt: skip
        return {"type_key": "tir.Var", "attrs": attrs}
    if isinstance(expr, IntImm):
        attrs = {"dtype": str(expr.dtype), "span": "0", "value": str(expr.value)}
        return {"type_key": "IntImm", "attrs": attrs}
    if type(expr) in _NAMES and isinstance(expr, BinaryOp):
        a, b = visit(expr.a), visit(expr.b)
        attrs = {"a": str(a), "b": str(b), "dtype": str(expr.dtype), "span": "0"}
        return {"type_key": _NAMES[type(expr)], "attrs": attrs}
    raise UserError(f"an index map with {type(expr).__name__} cannot be stored: {expr}")


def index_map_from_json(text: Any) -> IndexMap:
    """The inverse of `index_map_json`."""
    try:
        data = json.loads(text)
        nodes, root = data["nodes"], data["root"]
        made: dict[int, Expr] = {}
        attrs = nodes[root]["attrs"]
        initial = [_read(nodes, k, made) for k in nodes[int(attrs["initial_indices"])]["data"]]
        final = [_read(nodes, k, made) for k in nodes[int(attrs["final_indices"])]["data"]]
        return IndexMap([v for v in initial if isinstance(v, Var)], final)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"not an index map in JSON: {error}") from None


def _read(nodes: Sequence[Any], number: int, made: dict[int, Expr]) -> Expr:
    if number not in made:
        made[number] = _read_node(nodes, number, made)
    return made[number]


def _read_node(nodes: Sequence[Any], number: int, made: dict[int, Expr]) -> Expr:
    node = nodes[number]
    kind, attrs = node["type_key"], node.get("attrs", {})
    if kind in ("tir.Var", "tir.SizeVar"):
        return Var(nodes[int(attrs["name"])]["repr_str"], attrs["dtype"])
    if kind == "IntImm":
        return IntImm(attrs["dtype"], int(attrs["value"]))
    if kind in _OPS:
        a, b = (_read(nodes, int(attrs[side]), made) for side in ("a", "b"))
        return _OPS[kind](a, b)
    raise KeyError(f"node {kind}")


INDEX_MAP = Codec(index_map_json, index_map_text, index_map_from_json)
