"""Large grids of cases: some of them run by default, all of them with `-m "slow or not slow"`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int, several: bool = False) -> list[Any]:
    """The cases of a parametrized test, all but one of so many marked slow.

    Args:
        several: whether a case is a tuple of the values of several parameters.
    """
    found = []
    for k, case in enumerate(cases):
        values = case if several else (case,)
        found.append(pytest.param(*values, marks=pytest.mark.slow if k % every else ()))
    return found
