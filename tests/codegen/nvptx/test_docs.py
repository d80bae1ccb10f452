"""`docs/gpu-instructions.md` shows the tables that code generation and the emulator go by."""

from __future__ import annotations

from pathlib import Path

from tileloom.codegen.nvptx import calls
from tileloom.codegen.nvptx.effects import EFFECTS
from tileloom.lower.analysis.pointers import MMA_FILL, MMA_STORE
from tileloom.script.intrinsics import is_intrinsic
from tileloom.simt.instructions import handled
from tileloom.target import matrix_units
from tileloom.target.instructions import INSTRUCTIONS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu-instructions.md"


def instructions() -> str:
    """The instructions as a table of Markdown."""
    rows = ["| call | instruction | arguments | from |", "|---|---|---|---|"]
    for entry in INSTRUCTIONS.values():
        result = f" → {entry.result}" if entry.result else ""
        arguments = entry.arguments or "none"
        rows.append(f"| `T.{entry.name}` | `{entry.ptx}` | {arguments}{result} | {entry.arch} |")
    return "\n".join(rows)


TABLES = {"instructions": instructions, "products": matrix_units.table}


def updated(text: str) -> str:
    """The page with today's tables between their markers."""
    for name, table in TABLES.items():
        head, _, rest = text.partition(f"<!-- {name}:")
        marker, _, rest = rest.partition("-->\n")
        _, _, tail = rest.partition(f"<!-- end of {name} -->")
        text = f"{head}<!-- {name}:{marker}-->\n{table()}\n<!-- end of {name} -->{tail}"
    return text


def test_the_page_shows_the_tables() -> None:
    """Run this file as a script to bring the page up to date."""
    text = PAGE.read_text()
    assert text == updated(text)


def test_every_instruction_has_code_and_a_meaning() -> None:
    lowered = {MMA_FILL, MMA_STORE}  # become stores
    for op, entry in INSTRUCTIONS.items():
        assert is_intrinsic(entry.name), op
        if op not in lowered:
            assert op in EFFECTS or op in calls.HANDLERS, op
            assert handled(op), op


def test_the_table_has_every_instruction() -> None:
    ours = {op for op in EFFECTS if op.startswith("tir.ptx_")}
    assert ours <= set(INSTRUCTIONS)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
