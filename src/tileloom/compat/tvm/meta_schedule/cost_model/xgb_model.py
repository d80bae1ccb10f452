"""`XGBModel`: our boosted trees, with TVM's parameters."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .....base.late import load
from .....tuner import cost_model as ours
from ..._names import missing
from ..feature_extractor import FeatureExtractor
from ..search_strategy import MeasureCandidate
from ..tune_context import TuneContext
from ..utils import cpu_count, shash2hex
from .cost_model import PyCostModel

_LEAST = 1e-12  # seconds, for what took none


class PackSum:
    """Rows of all candidates in one matrix, and which candidate each row is of."""

    def __init__(self, xs: Sequence[Any], ys: Any) -> None:
        self.ids = ours.store_owners(xs)
        rows = np.concatenate(list(xs))
        self._labels = None if ys is None else np.asarray(ys, dtype=np.float64)
        label = None if self._labels is None else self._labels[self.ids]
        self.dmatrix = load("xgboost").DMatrix(rows, label=label, weight=label)

    @property
    def labels(self) -> Any:
        """Of each candidate."""
        if self._labels is None:
            raise ValueError("there are no labels")
        return self._labels

    def predict_with_score(self, pred: Any) -> Any:
        """The sum of each candidate's rows."""
        return np.bincount(self.ids, weights=np.asarray(pred))

    def obj_square_error(self, ys_pred: Any) -> tuple[Any, Any]:
        """Gradient and second derivative of the loss for each row."""
        return ours.pack_sum_gradient(np.asarray(ys_pred), self.ids, self.labels)

    def rmse(self, ys_pred: Any) -> tuple[str, float]:
        """The error of the sums, over rows."""
        errors = (self.predict_with_score(ys_pred) - self.labels)[self.ids]
        return "p-rmse", float(np.sqrt(np.mean(np.square(errors))))

    def average_peak_score(self, ys_pred: Any, n: int) -> tuple[str, float]:
        """How good the first `n` candidates by score are; see `average_peak`."""
        scores = self.predict_with_score(ys_pred)
        return f"a-peak@{n}", ours.average_peak(scores, self.labels, n)


class XGBConfig(NamedTuple):
    """Parameters of the trees, as XGBoost calls them."""

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0
    eta: float = 0.2
    seed: int = 43
    nthread: int | None = None
    tree_method: str = "auto"

    def to_dict(self) -> dict[str, Any]:
        """The parameters by name, with the score that trees start from."""
        return {**self._asdict(), "base_score": 0.0}


@dataclass
class FeatureGroup:
    """What was measured of one program."""

    group_hash: str
    features: list[Any]
    costs: Any

    @property
    def min_cost(self) -> float:
        """Seconds of the fastest."""
        return float(np.min(self.costs))


class _Trees(ours.XGBModel):
    """Our model, and what it holds."""

    @property
    def groups(self) -> dict[str, FeatureGroup]:
        """What was learnt from, by program."""
        return {
            key: FeatureGroup(key, list(group.features), np.asarray(group.seconds))
            for key, group in self._groups.items()
        }

    @groups.setter
    def groups(self, groups: dict[str, FeatureGroup]) -> None:
        self._groups = {
            key: ours._Group(list(group.features), [float(cost) for cost in group.costs])
            for key, group in groups.items()
        }

    @property
    def booster(self) -> Any:
        """The trees; None before there are any."""
        return self._booster

    @booster.setter
    def booster(self, booster: Any) -> None:
        self._booster, self._trained_on = booster, self.count

    def train(self) -> None:
        """Grow the trees anew."""
        self._train()


class XGBModel(PyCostModel):
    """Boosted trees over the features of stores (`tileloom.tuner.cost_model.XGBModel`).

    Once there are enough samples, the trees are grown anew when a fifth more was measured, or each
    time without `adaptive_training`.
    """

    def __init__(
        self,
        *,
        extractor: FeatureExtractor | str = "per-store-feature",
        config: XGBConfig | None = None,
        num_warmup_samples: int = 100,
        early_stopping_rounds: int = 50,
        verbose_eval: int = 25,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:
        if not isinstance(extractor, FeatureExtractor):
            extractor = FeatureExtractor.create(extractor)
        config = config or XGBConfig()
        threads = config.nthread or num_tuning_cores or cpu_count(logical=False)
        config = config._replace(nthread=threads)
        self.extractor = extractor
        self.config = config if tree_method is None else config._replace(tree_method=tree_method)
        self.num_warmup_samples = num_warmup_samples
        self.early_stopping_rounds = early_stopping_rounds
        self.verbose_eval, self.average_peak_n = verbose_eval, average_peak_n
        self.adaptive_training = adaptive_training
        self._model = _Trees(
            ours.XGBConfig(
                max_depth=config.max_depth,
                gamma=config.gamma,
                min_child_weight=config.min_child_weight,
                eta=config.eta,
                early_stopping_rounds=early_stopping_rounds,
                warmup=num_warmup_samples,
                seed=config.seed,
                threads=threads,
            )
        )

    @property
    def data(self) -> dict[str, FeatureGroup]:
        """What was learnt from, by program."""
        return self._model.groups

    @property
    def data_size(self) -> int:
        """Candidates that were learnt from."""
        return self._model.count

    @property
    def booster(self) -> Any:
        """The trees; None before there are any."""
        return self._model.booster

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """Learn how long candidates took."""
        seconds = [_seconds(result) for result in results]
        before = self._model.booster
        self._model.update(shash2hex(context.mod), self._features(context, candidates), seconds)
        if not self.adaptive_training and self.data_size and self._model.booster is before:
            self._model.train()

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Any:
        """Scores; drawn at random until there are enough samples."""
        features = self._features(context, candidates)
        return self._model.predict(shash2hex(context.mod), features)

    def _features(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[Any]:
        found = self.extractor.extract_from(context, candidates)
        return [np.asarray(rows, dtype=np.float32) for rows in found]

    def save(self, path: str) -> None:
        """Keep the trees and what they were grown from: a zip file."""
        groups = self.data
        with zipfile.ZipFile(path, "w") as file:
            if self.booster is not None:
                file.writestr("model.json", bytes(self.booster.save_raw("json")))
            names = {key: len(group.features) for key, group in groups.items()}
            file.writestr("groups.json", json.dumps(names))
            for number, group in enumerate(groups.values()):
                buffer = io.BytesIO()
                rows = {str(k): features for k, features in enumerate(group.features)}
                np.savez(buffer, costs=group.costs, **rows)
                file.writestr(f"{number}.npz", buffer.getvalue())

    def load(self, path: str) -> None:
        """What `save` has kept."""
        with zipfile.ZipFile(path) as file:
            groups = {}
            for number, (key, count) in enumerate(json.loads(file.read("groups.json")).items()):
                with np.load(io.BytesIO(file.read(f"{number}.npz"))) as arrays:
                    rows = [arrays[str(k)] for k in range(count)]
                    groups[key] = FeatureGroup(key, rows, arrays["costs"])
            booster = None
            if "model.json" in file.namelist():
                booster = load("xgboost").Booster()
                booster.load_model(bytearray(file.read("model.json")))
        self._model.groups = groups
        self._model.booster = booster


def _seconds(result: Any) -> float:
    if not result.run_secs:
        return ours.FAILED
    return max(float(np.median([float(s) for s in result.run_secs])), _LEAST)


def _get_custom_call_back(
    early_stopping_rounds: int,
    verbose_eval: int,
    fevals: Sequence[Callable[..., Any]],
    evals: Sequence[tuple[Any, str]],
    focused_metric: str = "tr-p-rmse",
    cvfolds: Any = None,
) -> Any:
    """A callback of XGBoost's: training ends where a metric has not fallen in so many rounds."""
    xgboost = load("xgboost")

    class EarlyStop(xgboost.callback.TrainingCallback):  # type: ignore[misc,name-defined]
        best, best_round = float("inf"), 0

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            found = {}
            for data, name in evals:
                scores = model.predict(data)
                for metric in fevals:
                    kind, value = metric(scores, data)
                    found[f"{name}-{kind}"] = value
            if found[focused_metric] < self.best:
                self.best, self.best_round = found[focused_metric], epoch
            return epoch - self.best_round >= early_stopping_rounds

    return EarlyStop()


__getattr__ = missing(__name__)
