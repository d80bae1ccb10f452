"""Products of matrices by rows whose elements lie in blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UserError
from tileloom.frontend.sparse import spmm_plan
from tileloom.frontend.sparse.filling import blocks_of, fillings
from tileloom.frontend.sparse.structure import KNOWN, Structure
from tileloom.sparse import explain_spmm, spmm

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]
FEATURES = 512


def matrix(edge: int, filling: float = 1.0, size: int = 384, dtype: str = "float32") -> Any:
    """A matrix by rows of which every fifth block has elements."""
    rng = np.random.default_rng(edge)
    there = sp.csr_array(rng.random((size // edge, size // edge)) < 0.2)
    data = 1 + rng.random((there.nnz, edge, edge))
    data[rng.random(data.shape) >= filling] = 0
    found = sp.bsr_array((data, there.indices, there.indptr), shape=(size, size)).tocsr()
    found.eliminate_zeros()
    return found.astype(dtype)


def structure(a: Any) -> Structure:
    return Structure(a.indptr, a.indices, a.shape)


@pytest.mark.parametrize("edge", [3, 8])
def test_fillings_of_a_small_matrix_are_exact(edge: int) -> None:
    a = matrix(edge, 0.6)
    blocks = a.tobsr(blocksize=(edge, edge))
    assert fillings(structure(a))[edge] == pytest.approx(a.nnz / blocks.data.size)


def test_fillings_of_a_large_one_are_near() -> None:
    a = matrix(8, 0.6, size=2000)
    assert a.nnz > 1 << 16
    assert fillings(structure(a))[8] == pytest.approx(0.6, abs=0.03)


def test_extents_that_are_not_cut_into_blocks() -> None:
    a = sp.csr_array(np.ones((6, 8), "float32"))
    assert fillings(structure(a)) == {2: 1.0}
    with pytest.raises(UserError, match="6 x 8 is not cut into blocks of 4 x 4"):
        spmm_plan.planned(structure(a), FEATURES, np.dtype("float32"), "blocks 4")


def test_blocks_hold_the_elements() -> None:
    a = matrix(8, 0.6)
    found = blocks_of(structure(a), 8)
    assert found is not None
    data = np.zeros(found.size, "float32")
    data[found.places] = a.data
    shape = (data.reshape(-1, 8, 8), found.structure.indices, found.structure.indptr)
    assert (sp.bsr_array(shape, shape=a.shape) != a).nnz == 0


@pytest.mark.parametrize(("filling", "dtype"), [(1.0, "float32"), (0.8, "float64")])
def test_blocks_are_used_when_they_are_worth_being_made(filling: float, dtype: str) -> None:
    a = matrix(8, filling, dtype=dtype)
    x = np.random.default_rng(1).random((a.shape[1], FEATURES)).astype(dtype)
    about = explain_spmm(a, FEATURES, dtype)
    assert about.startswith("blocks: 8 x 8, "), about
    calls = int(about.rpartition("after ")[2].split()[0])
    assert 1 < calls < 400
    made = structure(a)
    key = ("spmm", FEATURES, np.dtype(dtype))
    for _ in range(3):
        np.testing.assert_allclose(spmm(a, x), a @ x, rtol=1e-5)
    plan = made.plans[key] = spmm_plan.planned(made, *key[1:])
    assert plan.blocks is None and plan.later is not None
    assert not any(plan.later.is_due() for _ in range(calls - 1))
    assert plan.later.is_due() and plan.later.make().blocks is not None


def plan_of(a: Any) -> Any:
    """What `spmm` has decided for float32."""
    return KNOWN[id(a)][2]["rows"].plans["spmm", FEATURES, np.dtype("float32")]


def by_blocks(a: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks used from the second call on."""
    monkeypatch.setattr("tileloom.frontend.sparse.blocked._MADE", 0.0)
    assert explain_spmm(a, FEATURES).startswith("blocks: ")
    spmm(a, np.zeros((a.shape[1], FEATURES), "float32"))


def test_values_that_change_and_calls_from_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    a = matrix(8, 0.8)
    by_blocks(a, monkeypatch)
    x = np.random.default_rng(1).random((a.shape[1], FEATURES), "float32")
    for factor in (1, 3):
        a.data *= factor
        wanted = a @ x
        with ThreadPoolExecutor(3) as pool:
            for found in pool.map(lambda _: spmm(a, x), range(6)):
                np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert plan_of(a).blocks is not None
    out = np.empty(a.shape[0] * FEATURES + 1, "float32")[1:].reshape(-1, FEATURES)
    np.testing.assert_allclose(spmm(a, x, out=out), wanted, rtol=1e-5)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_padding_does_not_meet_what_is_not_finite(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = matrix(8, 0.8)
    by_blocks(a, monkeypatch)
    x = np.random.default_rng(1).random((a.shape[1], FEATURES), "float32")
    x[5, 3] = value
    np.testing.assert_allclose(spmm(a, x), a @ x, rtol=1e-5)
    assert plan_of(a).blocks is None  # from now on by rows
    assert np.isfinite(spmm(a, x)).sum() > np.isfinite(a.tobsr(blocksize=(8, 8)) @ x).sum()


def test_elements_that_are_stored_twice_stay_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    a = matrix(8)
    a.indices[1] = a.indices[0]
    by_blocks(a, monkeypatch)
    x = np.random.default_rng(1).random((a.shape[1], FEATURES), "float32")
    for _ in range(2):
        np.testing.assert_allclose(spmm(a, x), a @ x, rtol=1e-5)
    with pytest.raises(UserError, match="stored twice"):
        spmm_plan.planned(structure(a), FEATURES, np.dtype("float32"), "blocks 8")
