"""The page about the optimiser says what the code does.

To bring it up to date: python tests/graph/optimize/test_rule_tables.py
"""

from __future__ import annotations

from pathlib import Path

from rule_tables import with_tables

from tileloom.graph.optimize import RULES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "graph.md"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert with_tables(text) == text, __doc__
    assert all(f"`{rule.id}`" in text for rule in RULES)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
