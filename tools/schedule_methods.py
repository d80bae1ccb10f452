"""Writes schedule/methods.pyi: the methods of `Schedule` for type checkers and editors.

Primitives become methods when they are registered, which no tool that only reads sees.
`python tools/schedule_methods.py` writes them down; a test says when that is due again.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from tileloom.schedule import Schedule
from tileloom.schedule.instruction import InstructionKind, kinds

PAGE = Path(__file__).parent.parent / "src" / "tileloom" / "schedule" / "methods.pyi"
HEAD = '''\
"""The methods that primitives add to `Schedule`, for type checkers and editors.

Written by `tools/schedule_methods.py` from the primitives themselves; do not edit.
"""

from collections.abc import Sequence
from typing import Any

from ..expr import Expr, Var
from ..tir import Buffer
from .rv import BlockRV, LoopRV, SparseIterationRV

class PrimitiveMethods:
    """A base of `Schedule` that says what its methods take and give."""

'''
_NAMES = {
    "BlockRef": "BlockRV | str", "LoopRef": "LoopRV", "PlaceRef": "BlockRV | LoopRV | str",
    "IntRef": "int | Expr", "ReadIndex": "int | str | Buffer", "WriteIndex": "int | str | Buffer",
    "IterationRef": "SparseIterationRV | str",
    "AnyRef": "BlockRV | LoopRV | SparseIterationRV | str", "ValueRef": "Any",
}  # fmt: skip
_RESULTS = {"block": "BlockRV", "loop": "LoopRV", "iteration": "SparseIterationRV", "int": "Var"}


def text() -> str:
    """The module as it should be."""
    return HEAD + "\n".join(_method(kind) for kind in kinds().values())


def _method(kind: InstructionKind) -> str:
    parts = ["self"]
    for p in kind.signature.parameters.values():
        shown = f"{p.name}: {_type(str(p.annotation))}"
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            shown = f"*{shown}"
        elif p.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in "".join(parts):
            parts.append("*")
        if p.default is not inspect.Parameter.empty:
            shown += f" = {p.default!r}"
        parts.append(shown)
    role, listed = kind.returns or ("", False)
    result = _RESULTS.get(role, "None")
    result = f"list[{result}]" if listed else result
    line = f"    def {kind.method}({', '.join(parts)}) -> {result}:"
    if len(line) > 100:
        line = f"    def {kind.method}(\n        {', '.join(parts)}\n    ) -> {result}:"
    if max(map(len, line.splitlines())) > 100:
        inside = "".join(f"        {part},\n" for part in parts)
        line = f"    def {kind.method}(\n{inside}    ) -> {result}:"
    about = inspect.cleandoc(getattr(Schedule, kind.method).__doc__).split("\n\n")[0]
    return f"{line}\n{_docstring(about)}\n"


def _docstring(about: str) -> str:
    short = f'        """{" ".join(about.split())}"""'
    if len(short) <= 100:
        return short
    first, *rest = textwrap.wrap(about, 80)
    lines = [f'        """{first}', *(f"        {line}" for line in rest), '        """']
    return "\n".join(lines)


def _type(annotation: str) -> str:
    """An annotation of a primitive as users see it: variables where it has references."""
    found = re.sub(r"list\[", "Sequence[", annotation)
    return re.sub(r"\w+", lambda match: _NAMES.get(match[0], match[0]), found)


if __name__ == "__main__":
    PAGE.write_text(text())
