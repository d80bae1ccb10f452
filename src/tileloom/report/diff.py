"""The difference of two listings, blind to the names that differ only by their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_NUMBERED = re.compile(r"%\d+")


@dataclass(frozen=True)
class Line:
    """A line of the new listing, of the old one alone, or how many are left out."""

    kind: Literal["same", "added", "gone", "skipped"]
    text: str


def compare(old: Sequence[str], new: Sequence[str], context: int = 2) -> list[Line]:
    """The lines of `new`, with those of `old` that are gone; long runs of equal ones left out.

    >>> for line in compare(["%0 = exp(x)", "%1 = neg(%0)"], ["%4 = exp(x)"]):
    ...     print(line.kind, line.text)
    same %4 = exp(x)
    gone %1 = neg(%0)
    """
    keys = [[_NUMBERED.sub("%", line) for line in lines] for lines in (old, new)]
    lines: list[Line] = []
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            lines += [Line("same", text) for text in new[c:d]]
        else:
            lines += [Line("gone", text) for text in old[a:b]]
            lines += [Line("added", text) for text in new[c:d]]
    return _shortened(lines, context)


def _shortened(lines: list[Line], context: int) -> list[Line]:
    near = [False] * len(lines)
    for k, line in enumerate(lines):
        if line.kind != "same":
            low, high = max(0, k - context), min(len(lines), k + context + 1)
            near[low:high] = [True] * (high - low)
    result: list[Line] = []
    skipped = 0
    for line, shown in zip(lines, near, strict=True):
        if shown:
            if skipped:
                result.append(Line("skipped", f"{skipped} lines as before"))
            result.append(line)
            skipped = 0
        else:
            skipped += 1
    if skipped:
        result.append(Line("skipped", f"{skipped} lines as before"))
    return result
