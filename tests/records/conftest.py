"""Each kind of place to keep records in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from records.places import Server, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of PostgreSQL."""
    yield from running_server()


@pytest.fixture(params=["sqlite", "jsonl", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty place."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/records.db"
    elif request.param == "jsonl":
        yield f"jsonl:{tmp_path}/records"
    else:
        found: Server = request.getfixturevalue("server")
        yield found.url
        found.clear()
