"""The list of primitives in docs/schedules.md: `python tools/schedule_listing.py <page>`.

A row for each registered primitive and each tactic, made of its signature and the first line of its
docstring; a test compares the page with this.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tileloom.schedule import Schedule, library
from tileloom.schedule.instruction import kinds

BEGIN = "<!-- primitives: written by `python tools/schedule_listing.py docs/schedules.md` -->\n"
END = "<!-- end of primitives -->\n"


def listing() -> str:
    """Tables of the primitives and the tactics, in Markdown.

    >>> print(listing().splitlines()[4])
    | `add_unit_loop(block_or_loop)` | Put a loop `u` of one iteration around a block or loop. |
    """
    steps = [_row(name, getattr(Schedule, name)) for name in sorted(kinds())]
    tactics = [_row(name, getattr(library, name)) for name in sorted(library.__all__)]
    parts = [f"{len(steps)} primitives, all of them methods of `Schedule`:", ""]
    parts += [*_HEAD, *steps, "", "Tactics in `tileloom.schedule.library`:", "", *_HEAD, *tactics]
    return "\n".join(parts) + "\n"


_HEAD = ["| call | what it does |", "|---|---|"]


def _row(name: str, func: Callable[..., Any]) -> str:
    signature = inspect.signature(func)
    bare = signature.replace(
        parameters=[
            p.replace(annotation=inspect.Parameter.empty)
            for p in signature.parameters.values()
            if p.name != "self"
        ],
        return_annotation=inspect.Signature.empty,
    )
    text = (inspect.getdoc(func) or "").splitlines()[0]
    return f"| `{name}{bare}` | {text} |"


def rewritten(page: str) -> str:
    """A page with the tables between its two marks."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + "\n" + listing() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(rewritten(path.read_text()))
