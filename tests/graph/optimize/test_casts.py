"""Casts that are collapsed or moved, and which types hold all values of which others."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.optimize.rule_checks import check_example, examples_of
from graph.optimize.rule_examples import Example
from tileloom.base import dtype
from tileloom.graph.optimize.casts import keeps_values

INTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"]
KINDS = ["bool", *INTS, *FLOATS]


@examples_of("casts")
def test_function_holds_in_its_class(rule: Any, example: Example) -> None:
    check_example(rule, example)


def values_of(kind: str) -> Any:
    """All values of a type of at most 16 bits; of others the extremes, and those beside them."""
    t = dtype(kind).numpy
    if kind == "bool":
        return np.array([False, True])
    if t.itemsize <= 2:
        return np.arange(1 << 8 * t.itemsize, dtype=f"u{t.itemsize}").view(t)
    if kind in INTS:
        info = np.iinfo(t)
        return np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], t)
    limits = ml_dtypes.finfo(t)
    one = np.ones((), t)
    some = [0, 1, limits.max, limits.tiny, limits.smallest_subnormal, 1 + limits.eps, np.inf]
    return np.array([*some, *(-one * v for v in some), np.nan], t)


def survives(source: str, target: str) -> bool:
    """Whether conversion leaves every value what it was."""
    values = values_of(source)
    with np.errstate(all="ignore"):
        made = values.astype(dtype(target).numpy)
    if source in FLOATS:
        if target not in FLOATS:
            return False
        with np.errstate(invalid="ignore"):
            a, b = values.astype("f8"), made.astype("f8")
        return bool((np.isnan(a) == np.isnan(b)).all() and (a[a == a] == b[a == a]).all())
    if target == "bool":
        return source == "bool"
    numbers = [float(v) for v in made] if target in FLOATS else [int(v) for v in made]
    return numbers == [int(v) for v in values]


@pytest.mark.parametrize("source", KINDS)
def test_types_that_hold_all_values_of_another(source: str) -> None:
    for target in KINDS:
        assert keeps_values(dtype(source), dtype(target)) == survives(source, target), target
