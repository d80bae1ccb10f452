"""Where commands print, and tables in one style."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)


def table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    """A table whose first `left` columns hold words and the others numbers."""
    result = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    for k, column in enumerate(columns):
        words = k < left
        result.add_column(column, justify="left" if words else "right", overflow="fold")
    return result


def milliseconds(seconds: float) -> str:
    """A time with three digits.

    >>> milliseconds(0.001234), milliseconds(2.5)
    ('1.23', '2500')
    """
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
