"""Programs that TVM printed: they parse, and print as the same text."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tileloom.script import parse, show
from tileloom.tir import assert_structural_equal

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tvm"


def _load(name: str) -> Any:
    path = SHARED / name
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else None


def _texts() -> list[str]:
    spaces: Any = _load("design-spaces-sample.json.gz") or {}
    texts = [space["script"] for space in spaces.values()]
    for space in spaces.values():
        texts += [item["mod"] for items in space["targets"].values() for item in items]
    for record in _load("per-store-features-sample.json.gz") or []:
        scheduled = [s["scheduled"] for s in record["samples"] if "scheduled" in s]
        texts += [record["orig"], *scheduled]
    return texts


def _normal(text: str) -> str:
    """Without the header, and floats as Python prints them."""
    body = text[text.index("@") :].strip()
    return re.sub(r'T\.(float\d+)\(([^)"]*)\)', lambda m: f"T.{m[1]}({float(m[2])!r})", body)


@pytest.mark.skipif(not SHARED.exists(), reason="no samples here")
def test_programs_of_tvm_keep_their_text() -> None:
    texts = _texts()
    assert len(texts) > 20
    for text in texts:
        program = parse(text)
        shown = show(program)
        assert _normal(shown) == _normal(text)
        assert_structural_equal(parse(shown), program)
