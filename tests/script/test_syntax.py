"""Syntax trees without the module `ast`."""

from __future__ import annotations

import ast as real
from types import MappingProxyType
from typing import Any

import pytest

from tileloom.script import parse, show
from tileloom.script.syntax import ast, statements, tools
from tileloom.script.syntax import parse as parse_syntax

TEXT = """
class A:
    def f(self):
        for x in y:
            try:
                pass
            except E:
                def g(): ...
            else:
                z = lambda: 0
            finally:
                class B: ...
        match x:
            case 1:
                def h(): ...
if a:
    with b:
        def k(): ...
"""


def test_trees_are_those_of_python() -> None:
    tree: Any = parse_syntax(TEXT)
    assert isinstance(tree, real.Module)
    assert real.dump(tree) == real.dump(real.parse(TEXT))
    assert ast.FunctionDef is real.FunctionDef
    assert tools.unparse(tree.body[1].test) == "a"  # type: ignore[attr-defined]
    with pytest.raises(SyntaxError):
        parse_syntax("a b")


def test_statements_are_all_there_outer_ones_first() -> None:
    tree = parse_syntax(TEXT)
    found = list(statements(tree))
    assert {id(n) for n in found if isinstance(n, real.stmt)} == {
        id(n) for n in real.walk(tree) if isinstance(n, real.stmt)
    }
    names = [n.name for n in found if isinstance(n, (real.FunctionDef, real.ClassDef))]
    assert names == ["A", "f", "k", "B", "h", "g"]


def test_attributes_may_be_any_mapping() -> None:
    func: Any = parse("@T.prim_func\ndef f():\n    T.evaluate(0)\n")
    func = func.with_attr("limits", MappingProxyType({"a": 1}))
    assert 'T.func_attr({"limits": {"a": 1}})' in show(func)
