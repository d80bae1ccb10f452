"""Cost models: how fast a candidate will be, from the features of its stores."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .prior import Trees, built_in, knows

Floats = NDArray[np.float64]
_LOG = logging.getLogger("tileloom.tuner")
#: What stands for the seconds of a candidate that failed.
FAILED = 1e10


@dataclass(frozen=True)
class Validation:
    """How good predictions were, of candidates that were measured after they had been made.

    Attributes:
        candidates: that ran.
        a_peak: `average_peak` of them: 1 where those ranked first hold the fastest.
        rank_correlation: Spearman's, of scores and speeds.
    """

    candidates: int
    a_peak: float
    rank_correlation: float

    @staticmethod
    def of(scores: Floats, seconds: Sequence[float]) -> Validation | None:
        """What scores were worth; None for fewer than three candidates that ran.

        >>> Validation.of(np.array([3.0, 2.0, 1.0, 9.0]), [1.0, 2.0, 3.0, FAILED])
        Validation(candidates=3, a_peak=1.0, rank_correlation=1.0)
        """
        times = np.asarray(seconds, dtype=np.float64)
        ran = times < FAILED
        if ran.sum() < _FEWEST:
            return None
        found, speeds = scores[ran], times[ran].min() / times[ran]
        peak = average_peak(found, speeds)
        return Validation(int(ran.sum()), peak, round(rank_correlation(found, speeds), 6))


_FEWEST = 3  # candidates of which an order says something


class CostModel(Protocol):
    """Learns from measurements which candidates are fast.

    Attributes:
        validation: of the last candidates that `update` was told of, by what was known before; None
            where scores were drawn at random or too few ran.
    """

    validation: Validation | None

    def predict(self, workload: str, features: Sequence[Floats]) -> Floats:
        """A score for each candidate, higher for a faster one.

        Args:
            workload: the key of the program that they are candidates for.
            features: an array of (stores, features) for each.
        """

    def update(self, workload: str, features: Sequence[Floats], seconds: Sequence[float]) -> None:
        """Learn from candidates and how long they took; `FAILED` for those that failed."""

    def learn(self, known: Mapping[str, tuple[Sequence[Floats], Sequence[float]]]) -> None:
        """Learn what is on record of programs, by their keys: features and seconds."""


class RandomModel:
    """Scores drawn at random, from a seed."""

    validation: Validation | None = None

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def predict(self, workload: str, features: Sequence[Floats]) -> Floats:
        """Numbers from 0 to 1."""
        return self._random.random(len(features))

    def update(self, workload: str, features: Sequence[Floats], seconds: Sequence[float]) -> None:
        """Nothing is learnt."""

    def learn(self, known: Mapping[str, tuple[Sequence[Floats], Sequence[float]]]) -> None:
        """Nothing is learnt."""


@dataclass(frozen=True)
class XGBConfig:
    """Parameters of the trees, as XGBoost calls them.

    Attributes:
        warmup: candidates with features below which own trees say nothing.
        early_stopping_rounds: boosting ends where the training error has not fallen in so many.
        prior: candidates of a program, or of others, that own trees have to know to count as much
            as the built-in ones; 0 for none of these, and random scores before own ones.
    """

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0.0
    eta: float = 0.2
    num_boost_round: int = 10000
    early_stopping_rounds: int = 50
    warmup: int = 32
    seed: int = 43
    threads: int = 0
    prior: float = 64.0


@dataclass
class _Group:
    """The candidates of one workload that have been measured."""

    features: list[Floats] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def labels(self) -> Floats:
        """The least time over each one's: 1 for the fastest; 0 where all have failed."""
        times = np.asarray(self.seconds, dtype=np.float64)
        least = times.min()
        return least / times if least < FAILED else np.zeros(len(times))


class XGBModel:
    """Boosted trees over stores; the score of a candidate is the sum over its stores.

    The loss is that of MetaSchedule (PackSum): the squared error of the sums, weighted by the
    label, so that fast programs count more. What is measured changes the labels of its workload;
    the trees are grown anew once a fifth more has been measured. Other than there, trees that have
    learnt from other programs score candidates too, the less so the more of a program is known.

    Args:
        config: parameters.
        prior: trees that are known before; those that come with the package unless given.
    """

    def __init__(self, config: XGBConfig | None = None, prior: Trees | None = None) -> None:
        self.config = config or XGBConfig()
        self.prior = prior
        self._random = np.random.default_rng(self.config.seed)
        self.validation: Validation | None = None
        self._groups: dict[str, _Group] = {}
        self._booster: Any = None
        self._trained_on = 0
        self._has_warned = False

    @property
    def count(self) -> int:
        """Candidates that have been learnt from, those without features aside."""
        return sum(len(group.features) for group in self._groups.values())

    def predict(self, workload: str, features: Sequence[Floats]) -> Floats:
        """Scores, 0 for a candidate without stores."""
        scores = self._scores(workload, features)
        return self._random.random(len(features)) if scores is None else scores

    def update(self, workload: str, features: Sequence[Floats], seconds: Sequence[float]) -> None:
        """Learn; see the class."""
        scores = self._scores(workload, features)
        self.validation = None if scores is None else Validation.of(scores, seconds)
        self.learn({workload: (features, seconds)})

    def learn(self, known: Mapping[str, tuple[Sequence[Floats], Sequence[float]]]) -> None:
        """Learn what is on record of programs; the trees are grown once."""
        for workload, (features, seconds) in known.items():
            group = self._groups.setdefault(workload, _Group())
            for rows, time in zip(features, seconds, strict=True):
                if len(rows):
                    group.features.append(np.asarray(rows, dtype=np.float32))
                    group.seconds.append(time)
        new = self.count - self._trained_on
        if not new or new < self._trained_on / 5:
            return
        self._train()

    def _scores(self, workload: str, features: Sequence[Floats]) -> Floats | None:
        """What is known of candidates; None where nothing is."""
        prior = self.config.prior if knows(features) else 0.0
        before = _sums(features, (self.prior or built_in()).scores) if prior else None
        if self._booster is None or self.count < self.config.warmup:
            return before
        own = _sums(features, self._booster.inplace_predict)
        if before is None:
            return own
        share = prior / (prior + self._known(workload, prior))
        return share * before + (1 - share) * own

    def _known(self, workload: str, most: float) -> float:
        """The candidates of a program that are known, and those of others up to a number."""
        group = self._groups.get(workload)
        count = len(group.features) if group else 0
        return count + min(self.count - count, most)

    def _train(self) -> None:
        xgb = _xgboost()
        if xgb is None:
            if not self._has_warned:
                _LOG.warning("nothing is learnt without XGBoost: pip install 'tileloom[tune]'")
            self._has_warned = True
            return
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


def _sums(features: Sequence[Floats], scores: Callable[[NDArray[np.float32]], Floats]) -> Floats:
    """The sum of the scores of each candidate's stores."""
    rows = [np.asarray(r, dtype=np.float32) for r in features if len(r)]
    if not rows:
        return np.zeros(len(features))
    ids = store_owners(features)
    sums = np.bincount(ids, weights=scores(np.concatenate(rows)), minlength=len(features))
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
    """Spearman's; 0 where one of both is the same for all.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    ranks = [_ranks(values) for values in (scores, labels)]
    if any(np.ptp(each) == 0 for each in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Floats) -> Floats:
    """From 1; what is equal shares the mean of its ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: Floats = np.cumsum(counts) - (counts - 1) / 2
    return means[place]


def _xgboost() -> Any:
    """XGBoost; None where it is not installed."""
    try:
        import xgboost
    except ModuleNotFoundError:
        return None
    return xgboost
