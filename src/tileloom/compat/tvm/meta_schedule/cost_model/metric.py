"""`tvm.meta_schedule.cost_model.metric`: how good scores are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._names import missing


def max_curve(trial_scores: Any) -> Any:
    """The greatest score so far, at each place.

    >>> max_curve(np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 3.0, 3.0]
    """
    return np.maximum.accumulate(trial_scores)


__getattr__ = missing(__name__)
