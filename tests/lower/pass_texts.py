"""Single passes over short functions: what is printed before and after."""

from __future__ import annotations

import textwrap
from typing import Any

from tileloom.lower.pipeline import GPU_PIPELINE, PIPELINE, name_of
from tileloom.script import from_source, show

_PASSES = {name_of(step): step for step in (*GPU_PIPELINE, *PIPELINE)}
_HEAD = """@T.prim_func
def main(
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((64,), "float32"),
    n: T.int32,
    I: T.Buffer((64,), "int32"),
):
"""
SAME = "the same"


def _body(func: object) -> str:
    """What stands under the head."""
    lines = show(func).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def "))
    return textwrap.dedent("\n".join(lines[start + 1 :]))


def shown(text: str) -> str:
    """A body as it is printed."""
    return _body(parsed(text))


def parsed(body: str) -> Any:
    """The function with this body."""
    return from_source(_HEAD + textwrap.indent(body.strip(), "    ") + "\n")


def check_text(step: str, before: str, after: str) -> None:
    """Run one pass over a body; hold the result against a text."""
    func = parsed(before)
    found = _body(_PASSES[step](func))
    assert found == (_body(func) if after is SAME else after.strip("\n"))
