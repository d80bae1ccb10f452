"""Features and cost models by TVM's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.compat.tvm import meta_schedule as ms
from tileloom.compat.tvm.meta_schedule.cost_model.xgb_model import PackSum
from tileloom.compat.tvm.meta_schedule.feature_extractor import (
    PerStoreFeature,
    RandomFeatureExtractor,
)
from tileloom.compat.tvm.target import Target
from tileloom.compat.tvm.tir import Schedule
from tileloom.tuner.features import per_store_features

from .programs import product


def candidates(count: int) -> list[Any]:
    return [ms.MeasureCandidate(Schedule(product()), []) for _ in range(count)]


def test_features_are_those_of_the_tuner() -> None:
    context = ms.TuneContext(product(), target="llvm -num-cores 4")
    [found] = PerStoreFeature().extract_from(context, candidates(1))
    own = per_store_features(product(), Target("llvm -num-cores 4").tileloom)
    np.testing.assert_array_equal(found.numpy(), own)
    assert PerStoreFeature().feature_vector_length == own.shape[1]
    wide = PerStoreFeature(buffers_per_store=2, extract_workload=True)
    [found] = wide.extract_from(context, candidates(1))
    assert found.shape[1] == wide.feature_vector_length


def test_random_features_come_again() -> None:
    extractor = RandomFeatureExtractor(feature_size=4, seed=7)
    state = extractor.random_state
    first = [x.numpy() for x in extractor.extract_from(ms.TuneContext(), candidates(3))]
    extractor.random_state = state
    again = [x.numpy() for x in extractor.extract_from(ms.TuneContext(), candidates(3))]
    for x, y in zip(first, again, strict=True):
        np.testing.assert_array_equal(x, y)


def test_random_scores_come_again(tmp_path: Path) -> None:
    model = ms.cost_model.RandomModel(seed=3, max_range=7)
    path = str(tmp_path / "model.json")
    model.save(path)
    scores = model.predict(ms.TuneContext(), candidates(5))
    assert (scores <= 7).all()
    again = ms.cost_model.RandomModel(path=path)
    np.testing.assert_array_equal(scores, again.predict(ms.TuneContext(), candidates(5)))


def test_trees_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")

    class Size(ms.feature_extractor.PyFeatureExtractor):
        """One number: how often it was asked."""

        asked = 0

        def extract_from(self, context: Any, found: Any) -> Any:
            self.asked += len(found)
            return [np.full((1, 1), self.asked - len(found) + k) for k in range(len(found))]

    model = ms.cost_model.XGBModel(extractor=Size(), num_warmup_samples=2, num_tuning_cores=1)
    results = [ms.runner.RunnerResult([float(k + 1)], None) for k in range(4)]
    model.update(ms.TuneContext(), candidates(4), results)
    assert model.data_size == 4
    path = str(tmp_path / "model.zip")
    model.save(path)
    again = ms.cost_model.XGBModel(extractor=Size(), num_warmup_samples=2)
    again.load(path)
    [group] = again.data.values()
    assert group.min_cost == 1 and group.costs.tolist() == [1, 2, 3, 4]
    scores = again.predict(ms.TuneContext(), candidates(4))
    assert np.argmax(scores) == 0  # the fastest
    model.extractor = Size()
    np.testing.assert_array_equal(scores, model.predict(ms.TuneContext(), candidates(4)))


def test_rows_of_candidates() -> None:
    pytest.importorskip("xgboost")
    packed = PackSum([np.zeros((2, 3)), np.zeros((1, 3))], np.array([1.0, 0.5]))
    scores = np.array([0.5, 0.25, 0.5])
    assert packed.predict_with_score(scores).tolist() == [0.75, 0.5]
    gradient, hessian = packed.obj_square_error(scores)
    assert gradient.tolist() == [-0.25, -0.25, 0] and hessian.tolist() == [1, 1, 0.5]
    name, error = packed.rmse(scores)
    assert name == "p-rmse" and error == pytest.approx((2 / 3 * 0.0625) ** 0.5)
    assert packed.average_peak_score(scores, 1) == ("a-peak@1", 1.0)


def test_models_by_name() -> None:
    assert ms.CostModel.create("none") is None
    assert isinstance(ms.CostModel.create("random"), ms.cost_model.RandomModel)
    with pytest.raises(ValueError, match="unknown cost model"):
        ms.CostModel.create("best")
