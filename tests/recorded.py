"""Texts that tests compare with, kept in a file of sections; `pytest --rewrite` writes them anew.

A section is a line `== name` and what is below it, up to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

#: Called with a section's name and the lines that should be there.
Compare = Callable[[str, Sequence[str]], None]


@cache
def sections_of(path: Path) -> dict[str, list[str]]:
    """The lines of each section, for those that do not change them."""
    return read_sections(path)


def read_sections(path: Path) -> dict[str, list[str]]:
    """The lines of each section."""
    sections: dict[str, list[str]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("== "):
            lines = sections[line.removeprefix("== ")] = []
        else:
            lines.append(line)
    return sections


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Compare:
    """Compares lines with a section of the file beside the test: test_x.py has test_x.txt."""
    path = request.path.with_suffix(".txt")

    def compare(name: str, lines: Sequence[str]) -> None:
        if request.config.getoption("--rewrite"):
            if hasattr(request.config, "workerinput"):
                raise pytest.UsageError("--rewrite is for one process: leave -n out")
            sections = read_sections(path)
            sections[name] = list(lines)
            text = [line for k, own in sorted(sections.items()) for line in (f"== {k}", *own)]
            path.write_text("\n".join(text) + "\n")
        else:
            assert list(lines) == sections_of(path).get(name), (
                "if this is meant, run pytest --rewrite"
            )

    return compare
