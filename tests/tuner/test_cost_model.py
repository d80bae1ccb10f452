"""The cost model: sums over stores, labels by workload, when it learns."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.tuner.cost_model import (
    FAILED,
    RandomModel,
    Validation,
    XGBConfig,
    XGBModel,
    average_peak,
    pack_sum_gradient,
    rank_correlation,
)

pytest.importorskip("xgboost")


def candidates(count: int, seed: int) -> tuple[list[np.ndarray], list[float]]:
    """Programs of one to three stores; their speed is a sum over these."""
    rng = np.random.default_rng(seed)
    features = [rng.random((rng.integers(1, 4), 6)) for _ in range(count)]
    return features, [1 / float((rows[:, 0] + 0.3 * rows[:, 1] ** 2).sum()) for rows in features]


def model(warmup: int = 20) -> XGBModel:
    return XGBModel(XGBConfig(max_depth=4, num_boost_round=60, warmup=warmup, threads=1))


def test_the_gradient_is_that_of_the_weighted_squared_error() -> None:
    rng = np.random.default_rng(0)
    ids, labels = np.repeat(np.arange(5), [1, 3, 2, 1, 2]), rng.random(5)
    scores = rng.random(len(ids))

    def loss(scores: np.ndarray) -> float:
        sums = np.bincount(ids, weights=scores)
        return float((labels * (sums - labels) ** 2).sum() / 2)

    gradient, hessian = pack_sum_gradient(scores, ids, labels)
    for row in range(len(ids)):
        step = np.zeros(len(ids))
        step[row] = 1e-6
        slope = (loss(scores + step) - loss(scores - step)) / 2e-6
        assert gradient[row] == pytest.approx(slope, abs=1e-6)
    np.testing.assert_array_equal(hessian, labels[ids])


def test_it_ranks_what_it_has_not_seen() -> None:
    learnt = model()
    learnt.update("a", *candidates(200, 0))
    features, seconds = candidates(100, 1)
    scores = learnt.predict("a", features)
    speed = 1 / np.asarray(seconds)
    assert rank_correlation(scores, speed) > 0.8
    assert average_peak(scores, speed) > 0.9


def test_the_same_data_gives_the_same_scores() -> None:
    features, seconds = candidates(60, 2)
    both = []
    for _ in range(2):
        learnt = model()
        learnt.update("a", features, seconds)
        both.append(learnt.predict("a", features))
    np.testing.assert_array_equal(both[0], both[1])


def test_before_there_is_enough_it_draws() -> None:
    learnt = model(warmup=50)
    features, seconds = candidates(30, 3)
    learnt.update("a", features, seconds)
    drawn = learnt.predict("a", features)
    assert len(set(drawn)) == 30 and (drawn >= 0).all() and (drawn <= 1).all()


def test_candidates_without_stores() -> None:
    """They are not learnt from, and score 0 among others."""
    learnt = model()
    features, seconds = candidates(40, 4)
    none = np.zeros((0, 6))
    learnt.update("a", [*features, none], [*seconds, 1.0])
    assert learnt.count == 40
    scores = learnt.predict("a", [none, features[0], none])
    assert scores[0] == scores[2] == 0 != scores[1]
    assert learnt.predict("a", [none]).tolist() == [0.0]


def test_failures_have_no_weight() -> None:
    """Their labels are next to nothing, so what is known of others stays as it is."""
    features, seconds = candidates(100, 5)
    bad = [rows + 5 for rows in features]
    alone, both = model(), model()
    alone.update("a", features, seconds)
    both.update("a", [*features, *bad], [*seconds, *[FAILED] * 100])
    scores = [m.predict("a", features) for m in (alone, both)]
    assert rank_correlation(*scores) > 0.95


def test_each_workload_has_a_fastest_of_its_own() -> None:
    learnt = model()
    features, seconds = candidates(50, 6)
    learnt.update("slow", [rows + 2 for rows in features], [1000 * s for s in seconds])
    learnt.update("fast", features, seconds)
    best = int(np.argmin(seconds))
    for workload, offset in (("slow", 2), ("fast", 0)):
        scores = learnt.predict(workload, [rows + offset for rows in features])
        assert scores[best] == pytest.approx(1, abs=0.3)


def test_random_scores_come_from_a_seed() -> None:
    features, seconds = candidates(5, 7)
    one, two = RandomModel(3), RandomModel(3)
    one.update("a", features, seconds)
    np.testing.assert_array_equal(one.predict("a", features), two.predict("b", features))


def test_predictions_are_judged_by_what_is_measured_then() -> None:
    learnt = model(warmup=50)
    features, seconds = candidates(100, 8)
    learnt.update("a", features, seconds)
    # Nothing was predicted: these are no features of programs.
    assert getattr(learnt, "validation", 0) is None
    more, times = candidates(60, 9)
    scores = learnt.predict("a", more)
    learnt.update("a", [*more, more[0]], [*times, FAILED])
    found, speed = learnt.validation, 1 / np.asarray(times)
    assert found is not None and found.candidates == 60
    assert found.rank_correlation == pytest.approx(rank_correlation(scores, speed), abs=1e-6)
    assert found.a_peak == pytest.approx(average_peak(scores, speed)) and found.a_peak > 0.8


@pytest.mark.parametrize(("times", "known"), [([1.0, 2.0], False), ([1.0, 2.0, 3.0], True)])
def test_an_order_of_two_says_nothing(times: list[float], known: bool) -> None:
    scores = np.arange(len(times), dtype=np.float64)
    assert (Validation.of(scores, times) is not None) is known


def test_ranks_of_equals() -> None:
    equal = np.array([1.0, 1.0, 2.0, 2.0])
    assert rank_correlation(equal, equal) == pytest.approx(1)
    assert rank_correlation(equal, np.array([2.0, 1.0, 4.0, 3.0])) == pytest.approx(
        0.8944, abs=1e-4
    )
    assert rank_correlation(np.ones(4), equal) == 0


def test_a_program_of_which_all_failed_tells_nothing() -> None:
    """Its candidates are not the fastest that it has."""
    learnt = model()
    features, seconds = candidates(50, 10)
    learnt.learn({"bad": ([rows + 5 for rows in features], [FAILED] * 50)})
    learnt.learn({"good": (features, seconds)})
    scores = learnt.predict("good", features)
    assert np.argmax(scores) == np.argmin(seconds)
