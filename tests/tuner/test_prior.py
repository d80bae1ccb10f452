"""The built-in prior: trees in NumPy, what they say of programs, and of which they say nothing."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import te
from tileloom.schedule import Schedule
from tileloom.target import target
from tileloom.tir import IRModule
from tileloom.tuner.cost_model import RandomModel, XGBConfig, XGBModel
from tileloom.tuner.features import FEATURE_NAMES, per_store_features
from tileloom.tuner.features.packing import pack, unpack
from tileloom.tuner.prior import Trees, built_in
from tuner.workloads import WORKLOADS, axes, placeholder

CPU = target("cpu -mcpu=x86-64-v3 -num-cores=4")


def test_trees_are_walked_from_their_roots() -> None:
    rng = np.random.default_rng(0)
    depth, count = 3, 5
    nodes = 2**depth - 1
    columns = rng.integers(0, 4, (count, nodes)).astype(np.uint8)
    bounds = rng.integers(0, 5, (count, nodes)).astype(np.float32)  # some equal a feature
    trees = Trees(columns, bounds, rng.random((count, nodes + 1)).astype(np.float32))
    rows = rng.integers(0, 5, (1500, 4)).astype(np.float64)  # more than are walked at once

    def score(row: Any, tree: int) -> float:
        at = 0
        while at < nodes:
            at = 2 * at + 1 + int(row[columns[tree, at]] >= bounds[tree, at])
        return float(trees.leaves[tree, at - nodes])

    expected = [sum(score(row, tree) for tree in range(count)) for row in rows]
    np.testing.assert_allclose(trees.scores(rows), expected, rtol=1e-6)
    assert trees.scores(rows[:0]).shape == (0,)


def test_trees_are_those_that_xgboost_has_grown() -> None:
    xgboost = pytest.importorskip("xgboost")
    from train_prior import DEPTH, trees_of

    rng = np.random.default_rng(1)
    rows = rng.random((200, 6)).astype(np.float32)
    data = xgboost.DMatrix(rows, label=np.sin(9 * rows[:, 0]) + rows[:, 1] * rows[:, 2])
    options = {"max_depth": DEPTH, "base_score": 0.0, "nthread": 1}
    booster = xgboost.train(options, data, 7)
    trees = trees_of([json.loads(text) for text in booster.get_dump(dump_format="json")])
    np.testing.assert_allclose(trees.scores(rows), booster.predict(data), atol=1e-5)


def test_trees_go_to_a_file_and_back(tmp_path: Path) -> None:
    trees = built_in()
    trees.save(tmp_path / "trees.npz")
    rows = np.random.default_rng(2).random((3, len(FEATURE_NAMES)))
    again = Trees.load(tmp_path / "trees.npz")
    np.testing.assert_array_equal(again.scores(rows), trees.scores(rows))


def test_the_file_is_small_and_next_to_the_code() -> None:
    place = Path(tileloom.__file__).parent / "tuner" / "prior.npz"
    assert place.stat().st_size < 300_000


def features(mod: IRModule, steps: Any = None) -> np.ndarray:
    sch = Schedule(mod)
    if steps is not None:
        steps(sch)
    return per_store_features(sch.mod, CPU)


def matmul(n: int) -> IRModule:
    a, b = placeholder("a", n, n), placeholder("b", n, n)
    (k,) = axes(k=n)
    y = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="y")
    return IRModule({"main": te.create_prim_func([a, b, y])})


def tiled(sch: Schedule) -> None:
    i, j, k = sch.get_loops("y")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 16]) for loop in (i, j, k))
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.parallel(i0)
    sch.vectorize(j1)


def model(**config: Any) -> XGBModel:
    return XGBModel(XGBConfig(warmup=10, threads=1, num_boost_round=20, **config))


def test_what_makes_programs_fast_is_known_before_anything_is_measured() -> None:
    plain, good = features(matmul(192)), features(matmul(192), tiled)
    scores = model().predict("a", [plain, good, plain[:0]])
    assert scores[1] > 1.5 * scores[0] > 0 == scores[2]
    np.testing.assert_array_equal(scores[:2], XGBModel().predict("b", [plain, good]))


@pytest.mark.parametrize("known", [16, 64])
def test_what_was_measured_counts_more_and_more(known: int) -> None:
    """As much as what was known before, once that are as many candidates as is configured."""
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(5)
    rows = [rng.random((2, len(FEATURE_NAMES))) for _ in range(known + 8)]
    for each in rows:
        each[:, FEATURE_NAMES.index("is_gpu")] = 0
    seconds = [1 / float(each[:, 0].sum()) for each in rows[:known]]
    own, both = model(prior=0.0), model(prior=16.0)
    before = both.predict("a", rows[known:])
    for searched in (own, both):
        searched.update("a", rows[:known], seconds)
    share = 16 / (16 + known)
    expected = share * before + (1 - share) * own.predict("a", rows[known:])
    np.testing.assert_allclose(both.predict("a", rows[known:]), expected, rtol=1e-6)
    # Of another program, what was learnt from this one counts as much at most.
    expected = (before + own.predict("b", rows[known:])) / 2
    np.testing.assert_allclose(both.predict("b", rows[known:]), expected, rtol=1e-6)


def test_nothing_is_known_of_gpus() -> None:
    """Scores are then drawn, as they are without the prior."""
    rows = features(IRModule({"main": WORKLOADS["GMM"]()}))
    on_gpu = rows.copy()
    on_gpu[:, FEATURE_NAMES.index("is_gpu")] = 1
    drawn = RandomModel(43).predict("a", [rows] * 3)
    np.testing.assert_array_equal(model().predict("a", [on_gpu] * 3), drawn)
    np.testing.assert_array_equal(model(prior=0.0).predict("a", [rows] * 3), drawn)


def test_without_xgboost_the_prior_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    rows = features(IRModule({"main": WORKLOADS["GMM"]()}))
    searched = model()
    before = searched.predict("a", [rows])
    with caplog.at_level(logging.WARNING, "tileloom.tuner"):
        for _ in range(2):
            searched.update("a", [rows] * 20, [1.0 + k for k in range(20)])
    np.testing.assert_array_equal(searched.predict("a", [rows]), before)
    assert [record.message for record in caplog.records] == [
        "nothing is learnt without XGBoost: pip install 'tileloom[tune]'"
    ]


def test_features_as_text() -> None:
    rows = features(IRModule({"main": WORKLOADS["SFM"]()}))
    found = unpack(pack(rows))
    assert found is not None
    np.testing.assert_array_equal(found, rows.astype(np.float32))


@pytest.mark.parametrize("text", [None, 3, "", "0:AAAA", "1:!", "1:AAAA", "1:" + "A" * 11])
def test_text_that_holds_no_features(text: object) -> None:
    assert unpack(text) is None
