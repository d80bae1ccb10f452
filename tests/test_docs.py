"""The documentation: links lead somewhere, commands and names that it mentions exist.

What there is to check is collected first, and each page that mentions something is a case: a
pattern that no longer finds what it is for fails, and no case is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import tileloom
from tileloom.cli.app import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = {*cli.commands, *cli.list_commands(None)}  # type: ignore[arg-type]


def links(text: str) -> list[str]:
    """Where links lead, to pages of our own; code has none."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    return [target for target in targets if not target.startswith(("http://", "https://"))]


def commands(text: str) -> list[str]:
    """Commands of `tileloom`, at the start of a line or of code in a line."""
    found = re.findall(r"^tileloom (\w+)|`tileloom (\w+)|&& tileloom (\w+)", text, re.MULTILINE)
    return ["".join(names) for names in found]


def files(text: str) -> list[str]:
    """Files of the project, by their paths."""
    return re.findall(r"`((?:src|tests|benchmarks|docs|examples|tools)/[\w/.]+)`", text)


def names(text: str) -> list[str]:
    """Public names."""
    return re.findall(r"`tileloom\.(\w+)`", text)


def cases(find: Callable[[str], Iterable[str]]) -> list[Any]:
    """The pages on which something is found, with what is found there."""
    pairs = [(page, sorted(set(find(page.read_text())))) for page in PAGES]
    return [pytest.param(page, found, id=page.name) for page, found in pairs if found]


@pytest.mark.parametrize(
    ("find", "pages", "must"),
    [
        (links, 12, {"README.md", "CONTRIBUTING.md", "getting-started.md", "jit.md", "torch.md"}),
        (commands, 6, {"README.md", "CONTRIBUTING.md", "getting-started.md", "stages.md"}),
        (files, 6, {"CONTRIBUTING.md", "architecture.md", "onnx.md"}),
        (names, 2, {"jit.md"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_there_is_something_to_check(find: Any, pages: int, must: set[str]) -> None:
    found = {case.id for case in cases(find)}
    assert must <= found and len(found) >= pages, sorted(found)


@pytest.mark.parametrize(("page", "targets"), cases(links))
def test_links_lead_somewhere(page: Any, targets: Any) -> None:
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing, f"{page.name} links to {missing}"


@pytest.mark.parametrize(("page", "mentioned"), cases(commands))
def test_commands_exist(page: Any, mentioned: Any) -> None:
    assert set(mentioned) <= COMMANDS, f"{page.name} mentions {set(mentioned) - COMMANDS}"


@pytest.mark.parametrize(("page", "mentioned"), cases(files))
def test_files_that_are_mentioned_exist(page: Any, mentioned: Any) -> None:
    missing = [path for path in mentioned if not (ROOT / path).exists()]
    assert not missing, f"{page.name} mentions {missing}"


@pytest.mark.parametrize(("page", "mentioned"), cases(names))
def test_public_names_in_the_guides_exist(page: Any, mentioned: Any) -> None:
    missing = [name for name in mentioned if not hasattr(tileloom, name)]
    assert not missing, f"{page.name} mentions tileloom.{missing}"
