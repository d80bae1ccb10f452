"""Chunks so small that matrices of a few thousand elements have many, by several threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tileloom.base.settings import override
from tileloom.sparse.convert import chunks


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Conversions in chunks of 512 elements, three at a time."""
    monkeypatch.setattr(chunks, "CHUNK", 512)
    with override(num_threads=3):
        yield
