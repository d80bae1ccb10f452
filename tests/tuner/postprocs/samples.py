"""Candidates that TVM has made: reading them, and comparing programs with them."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tileloom.expr import Add, Expr, const, rewrite, simplify, substitute
from tileloom.script import from_source
from tileloom.tir import BlockRealize, For, IRModule, Stmt, StmtRewriter, collect

SAMPLE = Path(__file__).resolve().parents[4] / "shared/data/tvm/per-store-features-sample.json.gz"


@cache
def samples(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Original programs with candidates of a kind of target; none where the file is not there."""
    if not SAMPLE.exists():
        return []
    with gzip.open(SAMPLE, "rt") as file:
        groups = json.load(file)
    return [
        (group["orig"], sample)
        for group in groups
        if group["target"]["kind"] == kind
        for sample in group["samples"]
    ]


def module(text: str) -> IRModule:
    """A module from a script of a module or of a function."""
    found = from_source(text)
    return found if isinstance(found, IRModule) else IRModule({"main": found})


def comparable(mod: IRModule) -> IRModule:
    """A module in which values of blocks have no loops of one iteration, and sums are in order.

    Primitives of TVM leave such loops in some values and not in others.
    """
    functions = {}
    for name, func in mod.functions.items():
        loops = [loop for loop in collect(func.body, For) if loop.static_extent == 1]
        zeros = {loop.loop_var: const(0, loop.loop_var.dtype) for loop in loops}
        functions[name] = func.with_body(_Ordered(zeros).visit(func.body))
    return mod.replace(functions=functions)


class _Ordered(StmtRewriter):
    def __init__(self, zeros: dict[Any, Expr]) -> None:
        self.zeros = zeros

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        values = [simplify(substitute(value, self.zeros)) for value in stmt.iter_values]
        ordered = tuple(rewrite(value, _ordered) for value in values)
        return super().visit_BlockRealize(stmt.replace(iter_values=ordered))


def _ordered(expr: Expr) -> Expr | None:
    if not isinstance(expr, Add):
        return None
    first, *rest = sorted(_terms(expr), key=str)
    for term in rest:
        first = Add(first, term)
    return first


def _terms(expr: Expr) -> list[Expr]:
    return [*_terms(expr.a), *_terms(expr.b)] if isinstance(expr, Add) else [expr]
