"""Places where a small change of a source file should make some test fail, and the changed text.

comparison   a < b       ->  a <= b        a is b  ->  a is not b
logic        a and b     ->  a or b        not a   ->  a
arithmetic   a + b       ->  a - b         a // b  ->  a % b
number       3           ->  4             True    ->  False
guard        if a: raise ...               ->  pass        (also return, continue, break)
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = ("comparison", "logic", "arithmetic", "number", "guard")

#: Greater numbers, and those outside functions, are mostly limits that only speed depends on.
MOST = 16

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
}
_ENDINGS = (ast.Raise, ast.Return, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Site:
    """One possible change.

    Attributes:
        file: relative to the sources' root.
        function: the qualified name of the innermost function, empty at module level.
        line: where the function begins, 0 at module level.
        start, end: the bytes that are replaced.
        at: the line of the change.
        copy: how many sites before it in the function look the same.
    """

    file: str
    function: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str
    at: int
    copy: int

    @property
    def room(self) -> str:
        """The folder of the package that the file is in, or its own name."""
        return Path(self.file).parts[1].removesuffix(".py")

    @property
    def name(self) -> str:
        """What tells it from others, also when other places of the file have changed."""
        return f"{self.file}:{self.function}:{self.kind}:{self.old}:{self.new}:{self.copy}"

    def apply(self, source: bytes) -> bytes:
        """The changed text of the file."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def apply_in_place(self, source: bytes) -> bytes:
        """The changed text, with as many lines, so that what follows is where it was."""
        less = self.old.count("\n") - self.new.count("\n")
        new = self.new[:-1] + "\n" * less + self.new[-1] if self.new.endswith(")") else self.new
        new += "" if self.new.endswith(")") else "\n" * less
        return source[: self.start] + new.encode() + source[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:90] for text in (self.old, self.new))
        return f"{self.file}:{self.at} [{self.kind}] {old}  ->  {new}"


def sites_of(root: Path, file: Path) -> Iterator[Site]:
    """All sites of a file."""
    source: Any = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    walk: Any = _Walk()
    walk.visit(ast.parse(source))
    seen: Counter[tuple[str, ...]] = Counter()
    for node, kind, new, function, line in walk.found:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        old = source[start:end].decode()
        if old != new:
            name = str(file.relative_to(root))
            look = (function, kind, old, new)
            yield Site(name, function, line, kind, start, end, old, new, node.lineno, seen[look])
            seen[look] += 1


class _Walk(ast.NodeVisitor):
    """Collects the nodes that may change; skips annotations, defaults of types, docstrings."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr | ast.stmt, str, str, str, int]] = []
        self._functions: list[tuple[str, int]] = []

    def _add(self, node: ast.expr | ast.stmt, kind: str, new: ast.AST | str) -> None:
        text = new if isinstance(new, str) else ast.unparse(new)
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            text = f"({text})"
        name = ".".join(part for part, _ in self._functions)
        line = self._functions[-1][1] if self._functions else 0
        self.found.append((node, kind, text, name, line))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        self._functions.append((node.name, first))
        for child in node.body:
            self.visit(child)
        self._functions.pop()

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in node.body:
            self.visit(child)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if not names & {"__all__", "__slots__", "__match_args__"}:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is not computed for results."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # that lengths are equal is said for readers, not computed with
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node.body[-1], _ENDINGS) and not node.orelse:
            self._add(node, "guard", "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        new = _COMPARED.get(type(node.ops[0]))
        if new is not None:
            self._add(
                node, "comparison", ast.Compare(node.left, [new(), *node.ops[1:]], node.comparators)
            )
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        new: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, "logic", ast.BoolOp(new, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, "logic", node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        new = _COMPUTED.get(type(node.op))
        texts = (ast.JoinedStr, ast.Constant)
        strings = any(
            isinstance(side, ast.JoinedStr)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
            if isinstance(side, texts)
        )
        if new is not None and not strings:
            self._add(node, "arithmetic", ast.BinOp(node.left, new(), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, "number", repr(not node.value))
        elif isinstance(node.value, int) and self._functions and node.value < MOST:
            self._add(node, "number", repr(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions inside are not those of the file before Python 3.12; and it is text."""
