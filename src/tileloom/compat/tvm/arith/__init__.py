"""`tvm.arith`: simplification, bounds, and affine views of index expressions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._names import missing
from . import analyzer, int_set, iter_affine_map, pattern
from .analyzer import Analyzer, ConstIntBound, Extension, ModularSet, ProofStrength
from .int_set import IntervalSet, IntSet
from .iter_affine_map import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from .pattern import detect_linear_equation

__all__ = [
    "Analyzer", "ConstIntBound", "Extension", "IntSet", "IntervalSet", "IterMapExpr",
    "IterMapLevel",
    "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr", "ModularSet", "ProofStrength",
    "analyzer", "bound", "detect_iter_map", "detect_linear_equation", "int_set",
    "inverse_affine_iter_map", "iter_affine_map", "iter_map_simplify", "normalize_iter_map_to_expr",
    "normalize_to_iter_sum", "pattern", "subspace_divide",
]  # fmt: skip
_BOUND = f"{__name__}.bound"
_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    if name == "bound" or name.startswith("estimate_region"):
        found = import_module(_BOUND)  # stands on the schedule, which takes long to load
        return found if name == "bound" else getattr(found, name)
    return _missing(name)
