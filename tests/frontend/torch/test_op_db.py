"""PyTorch's own operator database; the figures of docs/torch.md come from here."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from . import op_db


@pytest.mark.slow
@pytest.mark.corpus
def test_most_entries_are_right_and_wholly_compiled(tmp_path: Path) -> None:
    pytest.importorskip("expecttest")
    out = tmp_path / "op_db.jsonl"
    op_db.run_all(sorted(op_db.entries()), 2, out)
    found = op_db.rows(out)
    assert len(found) > 500
    right = sum(row["right"] for row in found)
    whole = sum(row["right"] and row["whole"] for row in found)
    assert right >= 0.98 * len(found), op_db.summary(found)
    assert whole >= 0.6 * len(found), op_db.summary(found)


def test_a_difference_is_seen() -> None:
    import torch

    a = torch.ones(3)
    assert op_db._difference(a, a, False) is None
    assert op_db._difference(a, a + 1, False)
    assert op_db._difference(a, a.double(), False)
    assert op_db._difference([a, a], [a], False)
    assert op_db._difference(a, ValueError("no"), False)
    assert op_db._difference(a, a + 1, True) is None
