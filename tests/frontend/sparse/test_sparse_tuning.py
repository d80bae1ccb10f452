"""Formats of sparse operators that tuning has found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.frontend.sparse import sddmm_plan, spmm_plan, tuning
from tileloom.frontend.sparse.choices import choice_key
from tileloom.frontend.sparse.structure import Structure
from tileloom.records import Record, open_records, target_key
from tileloom.sparse import explain_sddmm, explain_spmm, sddmm, spmm, tune_sddmm, tune_spmm
from tileloom.target import Target

sp = pytest.importorskip("scipy.sparse")
FLOAT = np.dtype("float32")


def matrix(seed: int = 0, density: float = 0.2) -> Any:
    """Random blocks of 4 x 4."""
    there = np.random.default_rng(seed).random((32, 32)) < density
    return sp.csr_array(np.kron(there, np.ones((4, 4))), dtype="float32")


def structure(a: Any) -> Structure:
    return Structure(a.indptr, a.indices, a.shape)


def test_a_format_is_measured_in_another_process_and_used(tmp_path: Path) -> None:
    a, x = matrix(), np.random.default_rng(1).random((128, 64), "float32")
    spmm(a, x)  # by what the model chooses
    with override(records=str(tmp_path / "records.db")):
        found = tune_spmm(a, 64, trials=2)
        assert not found.errors and len(found.times) == 2
        assert explain_spmm(a, 64).endswith(f"{found.choice}, as tuning has found")
        np.testing.assert_allclose(spmm(a, x), a @ x, rtol=1e-5)
        assert not explain_spmm(a, 128).endswith("found")  # which was not tuned


class Fake:
    """In place of `tune_choice`: calls all in this process, and takes what it is told to.

    Args:
        choice: what it takes.
    """

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.results: list[Any] = []

    def __call__(self, key: str, make: Any, choices: Any, records: Any) -> None:
        assert self.choice in choices
        self.results = [make(choice)() for choice in choices]
        with open_records(records) as store:
            store.choose(Record(key, target_key(Target.host()), [self.choice], (1.0,)))


def test_what_is_chosen_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake("blocks 4")
    monkeypatch.setattr(tuning, "tune_choice", fake)
    a, x = matrix(), np.random.default_rng(1).random((128, 64), "float32")
    place = str(tmp_path / "records.db")
    tune_spmm(a, 64, records=place)
    assert len(fake.results) > 4
    for result in fake.results:
        np.testing.assert_allclose(result, fake.results[0], rtol=1e-5)
    with override(records=place):
        for other in (a, matrix()):  # of the same statistics
            assert explain_spmm(other, 64) == "blocks: blocks 4, as tuning has found"
            np.testing.assert_allclose(spmm(other, x), other @ x, rtol=1e-5)
        assert "found" not in explain_spmm(matrix(density=0.9), 64)


def test_sampled_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake("parts 32")
    monkeypatch.setattr(tuning, "tune_choice", fake)
    monkeypatch.setattr(sddmm_plan, "cache_sizes", lambda: (1 << 15, 14_000, 1 << 25))
    a, x = matrix(density=0.9), np.random.default_rng(1).random((128, 128), "float32")
    place = str(tmp_path / "records.db")
    tune_sddmm(a, 128, records=place)
    assert len(fake.results) == 4
    for result in fake.results:
        np.testing.assert_allclose(result, fake.results[0], rtol=1e-5)
    with override(records=place):
        assert explain_sddmm(a, 128) == "parts: parts 32, as tuning has found"
        np.testing.assert_allclose(sddmm(a, x, x).toarray(), a.toarray() * (x @ x.T), rtol=1e-4)


def test_a_format_that_cannot_serve_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.frontend.sparse.choices.chosen", lambda key: "blocks 7")
    assert explain_spmm(matrix(), 64).startswith("rows: ")


def test_keys_tell_apart_what_takes_another_time() -> None:
    one = structure(matrix())
    key = choice_key("spmm", one, 64, FLOAT)
    assert key == choice_key("spmm", structure(matrix()), 64, FLOAT)
    others = {
        choice_key("sddmm", one, 64, FLOAT),
        choice_key("spmm", one, 65, FLOAT),
        choice_key("spmm", one, 64, np.dtype("float64")),
        choice_key("spmm", structure(matrix(density=0.5)), 64, FLOAT),
        choice_key("spmm", structure(sp.csr_array(matrix()[:, ::-1])), 64, FLOAT),
    }
    assert len(others | {key}) >= 5


@pytest.mark.parametrize("format", ["squares", "rows x", "blocks", "blocks 0", "parts -1"])
def test_formats_that_there_are_not(format: str) -> None:
    with pytest.raises(UserError):
        spmm_plan.planned(structure(matrix()), 64, FLOAT, format)


def test_there_is_nothing_to_tune() -> None:
    with pytest.raises(UserError, match="stored in blocks"):
        tune_spmm(matrix().tobsr(blocksize=(4, 4)), 64)
    with pytest.raises(UserError, match="nothing to measure"):
        tune_spmm(matrix(), 64, trials=0)
