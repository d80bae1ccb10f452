"""The sources as trees, parsed once in a process for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def parse(path: Path) -> ast.Module:
    """The tree of a file; made without the garbage collector, which takes longer than the parser.

    >>> parse(Path(__file__)) is parse(Path(__file__))
    True
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(), str(path))
    finally:
        if collects:
            gc.enable()


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement under a node, and handlers and cases; expressions hold none.

    >>> [type(node).__name__ for node in statements(ast.parse("if x: f(y)"))]
    ['Module', 'If', 'Expr']
    """
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            part = getattr(node, field, None)
            if isinstance(part, list):
                pending += part
