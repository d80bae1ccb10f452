"""Cost models of TVM's kind: of users, and one that draws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .....base.errors import UnsupportedError
from ..._names import missing
from ..search_strategy import MeasureCandidate
from ..tune_context import TuneContext
from ..utils import NotOverriddenError, Overridable


class CostModel(Overridable):
    """Learns from measurements which candidates are fast."""

    def load(self, path: str) -> None:
        """Take over what was learnt before."""
        raise NotOverriddenError.of("PyCostModel", "Load", "load")

    def save(self, path: str) -> None:
        """Keep what was learnt."""
        raise NotOverriddenError.of("PyCostModel", "Save", "save")

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """Learn."""
        raise NotOverriddenError.of("PyCostModel", "Update", "update")

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Any:
        """A score for each candidate, higher for a faster one."""
        raise NotOverriddenError.of("PyCostModel", "Predict", "predict")

    @staticmethod
    def create(kind: str, *args: Any, **options: Any) -> CostModel | None:
        """A model by its name: "xgb", "random" or "none"."""
        if kind == "none":
            return None
        if kind == "random":
            options.pop("num_tuning_cores", None)
            return RandomModel(*args, **options)
        if kind == "xgb":
            model: CostModel = import_module(f"{__package__}.xgb_model").XGBModel(*args, **options)
            return model
        if kind == "mlp":
            raise UnsupportedError('the model "mlp" is not provided', hint='use "xgb"')
        raise ValueError(f"unknown cost model {kind!r}, known are 'xgb', 'random' and 'none'")


class PyCostModel(CostModel):
    """A model of the user's: `load`, `save`, `update` and `predict`."""


class RandomModel(CostModel):
    """Scores drawn at random."""

    def __init__(
        self, *, seed: int | None = None, path: str | None = None, max_range: int = 100
    ) -> None:
        self._random = np.random.RandomState(seed)
        self.max_range = max_range
        if path is not None:
            self.load(path)

    @property
    def random_state(self) -> Any:
        """Where the numbers come from."""
        return self._random.get_state()

    def save(self, path: str) -> None:
        """Keep where the numbers come from, and how large they are."""
        state = self._random.get_state(legacy=False)
        state["state"]["key"] = state["state"]["key"].tolist()
        Path(path).write_text(json.dumps([state, self.max_range]))

    def load(self, path: str) -> None:
        """What `save` has kept."""
        state, self.max_range = json.loads(Path(path).read_text())
        state["state"]["key"] = np.asarray(state["state"]["key"], dtype=np.uint32)
        self._random.set_state(state)

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """Nothing is learnt."""

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Any:
        """Numbers from 0 to `max_range`."""
        return self._random.rand(len(candidates)) * self.max_range


__getattr__ = missing(__name__)
