"""Scores before anything was measured: trees that have learnt from other programs on CPUs.

The trees come with the package, in `prior.npz`, and are evaluated with NumPy alone;
`tools/train_prior.py` grows them. They know nothing of GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .features import FEATURE_NAMES

Floats = NDArray[np.float64]

_IS_GPU = FEATURE_NAMES.index("is_gpu")
_AT_ONCE = 64  # rows, so that what is computed of them stays in caches


@dataclass(frozen=True, eq=False)
class Trees:
    """Complete binary trees of one depth d; the score of a row is the sum over all trees.

    Attributes:
        columns: (trees, 2**d - 1), which feature a node asks for, level by level.
        bounds: (trees, 2**d - 1); what is less than this goes left.
        leaves: (trees, 2**d).
    """

    columns: NDArray[np.uint8]
    bounds: NDArray[np.float32]
    leaves: NDArray[np.float32]

    def scores(self, rows: NDArray[np.floating]) -> Floats:
        """The score of each row of features.

        >>> trees = Trees(np.array([[1]], "uint8"), np.array([[0.5]], "float32"),
        ...               np.array([[2, 3]], "float32"))
        >>> trees.scores(np.array([[9.0, 0.4], [0.0, 0.5]])).tolist()
        [2.0, 3.0]
        """
        parts = [self._scores(rows[k : k + _AT_ONCE]) for k in range(0, len(rows), _AT_ONCE)]
        return np.concatenate([np.zeros(0), *parts])

    def _scores(self, rows: NDArray[np.floating]) -> Floats:
        rows = np.asarray(rows, dtype=np.float32)
        count, nodes = self.columns.shape
        trees, each = np.arange(count), np.arange(len(rows))[:, None]
        at = np.zeros((len(rows), count), dtype=np.intp)
        for _ in range(nodes.bit_length()):
            is_right = rows[each, self.columns[trees, at]] >= self.bounds[trees, at]
            at = 2 * at + 1 + is_right
        return np.asarray(self.leaves[trees, at - nodes].sum(axis=1, dtype=np.float64))

    def save(self, path: Path) -> None:
        """Write a file that `load` reads."""
        np.savez_compressed(path, columns=self.columns, bounds=self.bounds, leaves=self.leaves)

    @staticmethod
    def load(path: Path) -> Trees:
        """The trees of a file."""
        with np.load(path, allow_pickle=False) as data:
            return Trees(data["columns"], data["bounds"], data["leaves"])


@cache
def built_in() -> Trees:
    """The trees that come with the package."""
    return Trees.load(Path(__file__).with_name("prior.npz"))


def knows(features: Sequence[Floats]) -> bool:
    """Whether the built-in trees have anything to say about candidates: not those for GPUs."""
    return all(
        rows.shape[1] == len(FEATURE_NAMES) and not rows[0, _IS_GPU]
        for rows in features
        if len(rows)
    )
