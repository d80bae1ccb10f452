"""What compilations ask records for."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.places import record
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.records import chosen_trace, has_records, noting, open_records, usual_place


def test_where_nothing_was_tuned_nothing_is_asked(tmp_path: Path) -> None:
    with override(cache_dir=tmp_path):
        assert not has_records() and chosen_trace("w", "t") is None
    assert not list(tmp_path.iterdir())
    with override(cache_dir=None):
        assert usual_place() is None and not has_records()


def test_the_usual_place_is_next_to_compiled_kernels(tmp_path: Path) -> None:
    with override(cache_dir=tmp_path):
        with open_records(usual_place() or "") as store:
            store.choose(record(3))
        assert has_records() and chosen_trace("w", "t") == record(3).trace
        with override(records="none"):
            assert not has_records() and chosen_trace("w", "t") is None
        (tmp_path / "records.db").unlink()
        with open_records(tmp_path / "records.db") as store:  # another file of this name
            assert chosen_trace("w", "t") is None
            store.choose(record(4, trace=[[], []]))
            assert chosen_trace("w", "t") == [[], []]


def test_another_place_is_named(tmp_path: Path) -> None:
    with open_records(f"jsonl:{tmp_path}/team") as store:
        store.choose(record(2))
    with override(cache_dir=None, records=f"jsonl:{tmp_path}/team"):
        assert chosen_trace("w", "t") == record(2).trace


def test_answers_are_noted(tmp_path: Path) -> None:
    with override(records=str(tmp_path / "team.db")):
        with noting() as before:
            chosen_trace("w", "t")
            chosen_trace("v", "t")
        with open_records(tmp_path / "team.db") as store:
            store.choose(record(2))
        with noting() as after:
            chosen_trace("w", "t")
            chosen_trace("v", "t")
    assert [*before] == [*after] == [("w", "t"), ("v", "t")]
    assert [*before.values()] == ["", ""] != [*after.values()] and after["v", "t"] == ""


def test_a_broken_place_is_an_error_only_where_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "records.db").write_text("no database at all, but long enough to be seen as one")
    with override(records=str(tmp_path / "records.db")), pytest.raises(UserError, match="records"):
        has_records()
    with override(cache_dir=tmp_path), pytest.warns(UserWarning, match="without records"):
        assert not has_records()
