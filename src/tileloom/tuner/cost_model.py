"""Cost models: how fast a candidate will be, from the features of its stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError

Floats = NDArray[np.float64]
#: What stands for the seconds of a candidate that failed.
FAILED = 1e10


class CostModel(Protocol):
    """Learns from measurements which candidates are fast."""

    def predict(self, workload: str, features: Sequence[Floats]) -> Floats:
        """A score for each candidate, higher for a faster one.

        Args:
            workload: the key of the program that they are candidates for.
            features: an array of (stores, features) for each.
        """

    def update(self, workload: str, features: Sequence[Floats], seconds: Sequence[float]) -> None:
        """Learn from candidates and how long they took; `FAILED` for those that failed."""


class RandomModel:
    """Scores drawn at random, from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def predict(self, workload: str, features: Sequence[Floats]) -> Floats:
        """Numbers from 0 to 1."""
        return self._random.random(len(features))

    def update(self, workload: str, features: Sequence[Floats], seconds: Sequence[float]) -> None:
        """Nothing is learnt."""


@dataclass(frozen=True)
class XGBConfig:
    """Parameters of the trees, as XGBoost calls them.

    Attributes:
        warmup: candidates with features below which scores are drawn at random.
        early_stopping_rounds: boosting ends where the training error has not fallen in so many.
    """

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0.0
    eta: float = 0.2
    num_boost_round: int = 10000
    early_stopping_rounds: int = 50
    warmup: int = 100
    seed: int = 43
    threads: int = 0


@dataclass
class _Group:
    """The candidates of one workload that have been measured."""

    features: list[Floats] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def labels(self) -> Floats:
        """The least time over each one's: 1 for the fastest."""
        times = np.asarray(self.seconds)
        return np.asarray(times.min() / times, dtype=np.float64)


class XGBModel:
    """Boosted trees over stores; the score of a candidate is the sum over its stores.

    The loss is that of MetaSchedule (PackSum): the squared error of the sums, weighted by the
    label, so that fast programs count more. What is measured changes the labels of its workload;
    the trees are grown anew once a fifth more has been measured.
    """

    def __init__(self, config: XGBConfig | None = None) -> None:
        self.config = config or XGBConfig()
        self._random = np.random.default_rng(self.config.seed)
        self._groups: dict[str, _Group] = {}
        self._booster: Any = None
        self._trained_on = 0

    @property
    def count(self) -> int:
        """Candidates that have been learnt from, those without features aside."""
        return sum(len(group.features) for group in self._groups.values())

    def predict(self, workload: str, features: Sequence[Floats]) -> Floats:
        """Scores, 0 for a candidate without stores."""
        if self._booster is None or self.count < self.config.warmup:
            return self._random.random(len(features))
        return self._sums(features)

    def update(self, workload: str, features: Sequence[Floats], seconds: Sequence[float]) -> None:
        """Learn; see the class."""
        group = self._groups.setdefault(workload, _Group())
        for rows, time in zip(features, seconds, strict=True):
            if len(rows):
                group.features.append(np.asarray(rows, dtype=np.float32))
                group.seconds.append(time)
        new = self.count - self._trained_on
        if not new or new < self._trained_on / 5:
            return
        self._train()

    def _train(self) -> None:
        xgb = _xgboost()
        features = [rows for group in self._groups.values() for rows in group.features]
        labels = np.concatenate([group.labels() for group in self._groups.values()])
        ids = store_owners(features)
        data = xgb.DMatrix(np.concatenate(features), label=labels[ids])
        config = self.config
        parameters = {
            "max_depth": config.max_depth,
            "gamma": config.gamma,
            "min_child_weight": config.min_child_weight,
            "eta": config.eta,
            "seed": config.seed,
            "nthread": config.threads or None,
            "verbosity": 0,
            "base_score": 0.0,
            "disable_default_eval_metric": 1,
        }

        def loss(scores: Any, _data: Any) -> tuple[Any, Any]:
            return pack_sum_gradient(np.asarray(scores), ids, labels)

        def error(scores: Any, _data: Any) -> tuple[str, float]:
            sums = np.bincount(ids, weights=np.asarray(scores))
            return "p-rmse", float(np.sqrt(np.mean(np.square(sums - labels)[ids])))

        self._booster = xgb.train(
            {name: value for name, value in parameters.items() if value is not None},
            data,
            config.num_boost_round,
            obj=loss,
            custom_metric=error,
            evals=[(data, "tr")],
            early_stopping_rounds=config.early_stopping_rounds,
            verbose_eval=False,
        )
        self._trained_on = self.count

    def _sums(self, features: Sequence[Floats]) -> Floats:
        rows = [np.asarray(r, dtype=np.float32) for r in features if len(r)]
        if not rows:
            return np.zeros(len(features))
        scores = self._booster.inplace_predict(np.concatenate(rows))
        ids = store_owners(features)
        sums = np.bincount(ids, weights=scores, minlength=len(features))
        return np.asarray(sums, dtype=np.float64)


def store_owners(features: Sequence[Floats]) -> NDArray[np.intp]:
    """For each row of all features together, which candidate it is of.

    >>> store_owners([np.zeros((2, 164)), np.zeros((0, 164)), np.zeros((1, 164))]).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(features)), [len(rows) for rows in features])


def pack_sum_gradient(
    scores: Floats, ids: NDArray[np.intp], labels: Floats
) -> tuple[Floats, Floats]:
    """Gradient and second derivative of the loss for each row.

    Args:
        scores: of rows.
        ids: the candidate of each row.
        labels: of candidates.

    >>> gradient, hessian = pack_sum_gradient(
    ...     np.array([0.2, 0.3, 0.5]), np.array([0, 0, 1]), np.array([1.0, 0.5]))
    >>> gradient.tolist(), hessian.tolist()
    ([-0.5, -0.5, 0.0], [1.0, 1.0, 0.5])
    """
    own = labels[ids]
    sums = np.bincount(ids, weights=scores, minlength=len(labels))
    return (sums[ids] - own) * own, own


def average_peak(scores: Floats, labels: Floats, count: int = 32) -> float:
    """How good the best of the first candidates by score are, on average over how many are tried.

    1 means that the best candidate of all has the highest score.

    >>> average_peak(np.array([0.9, 0.1, 0.5]), np.array([0.5, 0.2, 1.0]), 2)
    0.75
    """
    order = np.argsort(-scores, kind="stable")[:count]
    return float(np.mean(np.maximum.accumulate(labels[order]) / labels.max()))


def rank_correlation(scores: Floats, labels: Floats) -> float:
    """Spearman's, without regard to ties.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (scores, labels)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _xgboost() -> Any:
    try:
        import xgboost
    except ModuleNotFoundError:
        raise UserError(
            "the cost model needs XGBoost", hint="pip install 'tileloom[tune]'"
        ) from None
    return xgboost
