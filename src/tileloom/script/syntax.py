"""Python's syntax trees, without all that the module `ast` loads for its tools.

The classes of the nodes are built into Python; `ast` shows them together with helpers that need
enumerations, contexts and collections, which take longer to load than all of tensor IR.
"""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, package

if TYPE_CHECKING:
    import ast
    import ast as tools
    from collections.abc import Iterator
else:
    import _ast as ast

    tools = package("ast")

__all__ = ["ast", "parse", "statements", "tools"]

_SUITES = ("body", "orelse", "handlers", "finalbody", "cases")


def parse(text: str) -> ast.Module:
    """The tree of a module's text.

    Raises:
        SyntaxError: with the place in the text.
    """
    return compile(text, "<unknown>", "exec", ast.PyCF_ONLY_AST)  # type: ignore[return-value]


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that holds statements, or is one, below a node.

    >>> [type(node).__name__ for node in statements(parse("if a:\\n  x = 1\\nelse:\\n  y = f(2)"))]
    ['If', 'Assign', 'Assign']
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        for suite in _SUITES:
            for part in getattr(node, suite, ()):
                yield part
                waiting.append(part)
