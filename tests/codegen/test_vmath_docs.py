"""`docs/math.md` shows the table of errors that the tests enforce."""

from __future__ import annotations

from pathlib import Path

from codegen.vmath_accuracy import table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "math.md"


def updated(text: str) -> str:
    """The page with today's table between its markers."""
    head, _, rest = text.partition("<!-- accuracy:")
    marker, _, rest = rest.partition("-->\n")
    _, _, tail = rest.partition("<!-- end of accuracy -->")
    return f"{head}<!-- accuracy:{marker}-->\n{table()}\n<!-- end of accuracy -->{tail}"


def test_the_page_shows_the_promises() -> None:
    """Run this file as a script to bring the page up to date."""
    text = PAGE.read_text()
    assert text == updated(text)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
