"""Rooms and packages that load late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tileloom.base import late


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package `house` whose parts load late; one part has the name of its function."""
    folder = tmp_path / "house"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        'from tileloom.base.late import room\nroom(__name__, run="run rest", other="thing")\n'
    )
    (folder / "run.py").write_text("rest = 1\n\ndef run():\n    return 2\n")
    (folder / "other.py").write_text("from .run import run\nthing = run()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "house"]:
        del sys.modules[name]


def test_parts_load_when_they_are_asked_for(house: Any) -> None:
    import house as room  # type: ignore[import-not-found]

    assert "house.run" not in sys.modules
    assert room.rest == 1
    assert "house.run" in sys.modules
    assert "house.other" not in sys.modules
    assert {"run", "rest", "thing"} <= set(dir(room))


@pytest.mark.parametrize("first", ["house.run", "house.other", "house"])
def test_a_function_is_found_whatever_was_loaded_first(house: Any, first: str) -> None:
    __import__(first)
    from house import run

    assert run() == 2


def test_unknown_names_are_refused(house: Any) -> None:
    import house as room

    with pytest.raises(AttributeError, match="module 'house' has no attribute 'nothing'"):
        room.nothing  # noqa: B018


def test_packages_load_when_they_are_used() -> None:
    text = (
        "import sys; from tileloom.base.late import package; p = package('fractions');"
        "assert 'fractions' not in sys.modules; assert p.Fraction(1, 2) * 2 == 1;"
        "assert package('fractions') is sys.modules['fractions']"
    )
    source = str(Path(late.__file__).parents[2])
    subprocess.run([sys.executable, "-c", text], env={"PYTHONPATH": source}, check=True)
