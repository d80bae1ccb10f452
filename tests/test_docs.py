"""The documentation: links lead somewhere, commands and names that it mentions exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tileloom
from tileloom.cli.app import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    known = set(cli.commands) | set(cli.list_commands(None))
    for command in re.findall(r"^tileloom (\w+)|`tileloom (\w+)", page.read_text(), re.MULTILINE):
        assert "".join(command) in known, f"{page.name} mentions tileloom {''.join(command)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_mentioned_exist(page):
    text = page.read_text()
    for path in re.findall(r"`((?:src|tests|benchmarks|docs)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), f"{page.name} mentions {path}"


def test_public_names_in_the_guides_exist():
    for page in PAGES:
        for name in re.findall(r"`tileloom\.(\w+)`", page.read_text()):
            assert hasattr(tileloom, name), f"{page.name} mentions tileloom.{name}"
