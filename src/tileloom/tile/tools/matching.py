"""The order in which directives of FileCheck are matched with a text.

section   ::= the directives up to a CHECK-LABEL, matched with the text up to where it is found
group     ::= CHECK-NOT* CHECK-DAG*      the DAGs in any order, none of the NOTs before them
directive ::= group* positive            positive: CHECK, -NEXT, -SAME, -EMPTY, -COUNT-n, -LABEL
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Compiled = tuple[re.Pattern[str], dict[str, tuple[int, Callable[[str], Any]]]]


class CapturedValues(Protocol):
    """Variables that captures set."""

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets a variable."""

    def forget_local(self) -> None:
        """Removes what does not outlive a label."""


@dataclass(frozen=True)
class CheckDirective:
    """A directive: its kind (`CHECK`, `NEXT`, ...), name, line, and what compiles its pattern."""

    kind: str
    name: str
    number: int
    variables: CapturedValues
    compiled: Callable[[], Compiled]
    count: int = 1

    def search(self, text: str, start: int, stop: int) -> re.Match[str] | None:
        """The first place where the pattern matches; sets no variable."""
        return self.compiled()[0].search(text, start, stop)

    def find(self, text: str, start: int, stop: int) -> re.Match[str] | None:
        """The first place where the pattern matches; sets the variables that it captures."""
        pattern, captures = self.compiled()
        found = pattern.search(text, start, stop)
        if found is not None:
            for name, (group, value_of) in captures.items():
                self.variables[name] = value_of(found.group(group))
        return found


class MatchError(Exception):
    """A directive that is not fulfilled, and where in the text that shows."""

    def __init__(
        self, check: CheckDirective, message: str, text: str, place: int, hint: bool = False
    ):
        super().__init__(f"{check.name}: {message}")
        self.check = check
        self.text = text
        self.place = place
        self.hint = hint  # what was searched is not there: something near may be

    def described(self, lines: int = 4) -> str:
        """The text from the place on, and a line that is much like what was searched."""
        first = self.text.count("\n", 0, self.place)
        rest = self.text.splitlines()[first:]
        shown = "".join(f"{line}\n" for line in rest[:lines])
        said = f"<stdin>:{first + 1}: note: scanning from here\n{shown}"
        near = self.near(rest) if self.hint else None
        if near is not None:
            said += f"<stdin>:{first + 1 + near}: note: possible intended match\n{rest[near]}\n"
        return said

    def near(self, lines: Sequence[str]) -> int | None:
        """The index of the line that is most like the pattern."""
        pattern = re.sub(r"\\(.)", r"\1", self.check.compiled()[0].pattern)
        wanted = re.sub(r"\[ tv\]\+", " ", pattern).strip()
        best, index = 0.5, None
        for i, line in enumerate(lines[:200]):
            matcher = difflib.SequenceMatcher(None, wanted, line.strip(), autojunk=False)
            if matcher.real_quick_ratio() > best and matcher.ratio() > best:
                best, index = matcher.ratio(), i
        return index


def match_all(checks: Sequence[CheckDirective], text: str, forget: bool = False) -> None:
    """Matches all directives.

    Args:
        forget: variables without `$` end at a label.

    Raises:
        MatchError: at the first directive that is not fulfilled.
    """
    start = 0
    section: list[CheckDirective] = []
    for index, check in enumerate([*checks, None]):
        if check is not None:
            section.append(check)
            if check.kind != "LABEL":
                continue
        stop = len(text) if check is None else _label_end(check, text, start)
        if forget and index >= len(section):  # not of the first section: -D holds there
            check_scope = section[0].variables if section else None
            if check_scope is not None:
                check_scope.forget_local()
        _match_section(section, text, start, stop)
        section, start = [], stop


def _label_end(check: CheckDirective, text: str, start: int) -> int:
    found = check.search(text, start, len(text))
    if found is None:
        raise MatchError(check, "expected string not found in input", text, start, hint=True)
    return found.end()


def _match_section(checks: Sequence[CheckDirective], text: str, start: int, stop: int) -> None:
    """Matches directives one after another within a part of the text."""
    waiting: list[CheckDirective] = []
    at = start
    for check in checks:
        if check.kind in ("NOT", "DAG"):
            waiting.append(check)
            continue
        after, nots = _match_groups(waiting, text, at, stop)
        found = _match_positive(check, text, at, after, stop)
        _refuse(nots, text, after, found[0])
        at, waiting = found[1], []
    after, nots = _match_groups(waiting, text, at, stop)
    _refuse(nots, text, after, stop)


def _match_groups(
    checks: Sequence[CheckDirective], text: str, start: int, stop: int
) -> tuple[int, list[CheckDirective]]:
    """Matches DAGs, and the NOTs before them; gives the place after, and the NOTs left."""
    nots: list[CheckDirective] = []
    places: list[tuple[int, int]] = []
    at = start
    for index, check in enumerate(checks):
        if check.kind == "NOT":
            nots.append(check)
            continue
        places.append(_find_apart(check, text, at, stop, places))
        following = checks[index + 1] if index + 1 < len(checks) else None
        if following is None or following.kind == "NOT":
            _refuse(nots, text, at, min(first for first, _ in places))
            at = max(last for _, last in places)
            nots, places = [], []
    return at, nots


def _find_apart(
    check: CheckDirective, text: str, start: int, stop: int, taken: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """The first match that overlaps no place that is taken."""
    at = start
    while True:
        found = check.find(text, at, stop)
        if found is None:
            raise MatchError(check, "expected string not found in input", text, start, hint=True)
        first, last = found.span()
        over = [end for begin, end in taken if first < end and begin < last]
        if not over:
            return first, last
        at = min(over)


def _match_positive(
    check: CheckDirective, text: str, previous: int, start: int, stop: int
) -> tuple[int, int]:
    """Where a directive is found, and where its last repetition ends.

    Args:
        previous: where the directive before ended.
        start: where the search begins, which is after the DAGs between the two.
    """
    if check.kind == "EMPTY":
        return _match_empty(check, text, previous, stop)
    first = -1
    at = start
    for _ in range(check.count):
        found = check.find(text, at, stop)
        if found is None:
            raise MatchError(check, "expected string not found in input", text, at, hint=True)
        first = found.start() if first < 0 else first
        at = found.end()
    lines = text.count("\n", previous, first)
    if check.kind == "NEXT" and lines != 1:
        where = "on the same line as" if lines == 0 else "not on the line after"
        raise MatchError(check, f"is {where} the previous match", text, first)
    if check.kind == "SAME" and lines:
        raise MatchError(check, "is not on the same line as the previous match", text, first)
    return first, at


def _match_empty(check: CheckDirective, text: str, previous: int, stop: int) -> tuple[int, int]:
    """The empty line after the line at hand; ends before its line break."""
    line_end = text.find("\n", previous, stop)
    after = line_end + 1
    if line_end < 0 or (after < len(text) and text[after] != "\n"):
        raise MatchError(check, "is not on the line after the previous match", text, previous)
    return after, after


def _refuse(nots: Sequence[CheckDirective], text: str, start: int, stop: int) -> None:
    """Raises if something is there that must not be."""
    for check in nots:
        found = check.search(text, start, stop)
        if found is not None:
            raise MatchError(check, "excluded string found in input", text, found.start())
