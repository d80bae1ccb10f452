"""The examples of docs/torch.md that are whole programs run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "torch.md"


def test_one_program_serves_many_sizes() -> None:
    section = PAGE.read_text().split("## Many sizes")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
