"""`tvm.meta_schedule.feature_extractor`: numbers that tell how fast a schedule is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....tuner.features import per_store_features
from .._names import missing
from ..runtime.ndarray import NDArray, array
from .search_strategy import MeasureCandidate
from .tune_context import TuneContext
from .utils import NotOverriddenError, Overridable


class FeatureExtractor(Overridable):
    """Rows of numbers for each candidate."""

    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray]:
        """An array of (stores, features) for each candidate."""
        raise NotOverriddenError.of("PyFeatureExtractor", "ExtractFrom", "extract_from")

    @staticmethod
    def create(kind: str, *args: Any, **options: Any) -> FeatureExtractor:
        """An extractor by its name."""
        kinds: dict[str, Callable[..., FeatureExtractor]] = {
            "per-store-feature": PerStoreFeature,
            "random": RandomFeatureExtractor,
        }
        if kind not in kinds:
            raise ValueError(f"unknown feature extractor {kind!r}, known are {list(kinds)}")
        return kinds[kind](*args, **options)


class PyFeatureExtractor(FeatureExtractor):
    """An extractor of the user's: `extract_from(context, candidates)`."""


class PerStoreFeature(FeatureExtractor):
    """The 164 numbers of each store, `tileloom.tuner.features`."""

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64,
        extract_workload: bool = False,
    ) -> None:
        self.buffers_per_store = buffers_per_store
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.cache_line_bytes = cache_line_bytes
        self.extract_workload = extract_workload

    @property
    def feature_vector_length(self) -> int:
        """Columns of the arrays."""
        names = 164 + 18 * (self.buffers_per_store - 5)
        return names + self.arith_intensity_curve_num_samples - 10 + 8 * self.extract_workload

    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray]:
        """An array of (stores, features) for each candidate."""
        return [
            array(
                per_store_features(
                    candidate.sch.mod,
                    context.machine,
                    buffers_per_store=self.buffers_per_store,
                    arith_intensity_curve_num_samples=self.arith_intensity_curve_num_samples,
                    cache_line_bytes=self.cache_line_bytes,
                    extract_workload=self.extract_workload,
                    original=context.mod,
                )
            )
            for candidate in candidates
        ]


class RandomFeatureExtractor(FeatureExtractor):
    """Random numbers, for tests of what learns from features."""

    def __init__(
        self, *, feature_size: int = 30, max_block_num: int = 5, seed: int | None = 0
    ) -> None:
        self.feature_size, self.max_block_num = feature_size, max_block_num
        self._random = np.random.RandomState(seed)

    @property
    def random_state(self) -> Any:
        """Where the numbers come from; what is set here gives the same numbers again."""
        return self._random.get_state()

    @random_state.setter
    def random_state(self, state: Any) -> None:
        self._random.set_state(state)

    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray]:
        """Numbers from 0 to 1, for a random number of stores."""
        counts = [self._random.randint(1, self.max_block_num + 1) for _ in candidates]
        return [array(self._random.rand(count, self.feature_size)) for count in counts]


__getattr__ = missing(__name__)
