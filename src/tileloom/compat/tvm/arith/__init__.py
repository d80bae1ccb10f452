"""`tvm.arith`: simplification, bounds, and affine views of index expressions."""

from __future__ import annotations

from .._names import missing
from . import analyzer, int_set, iter_affine_map
from .analyzer import Analyzer, ConstIntBound, ModularSet, ProofStrength
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

__all__ = [
    "Analyzer", "ConstIntBound", "IntSet", "IntervalSet", "IterMapExpr", "IterMapLevel",
    "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr", "ModularSet", "ProofStrength",
    "analyzer", "detect_iter_map", "int_set", "inverse_affine_iter_map", "iter_affine_map",
    "iter_map_simplify", "normalize_iter_map_to_expr", "normalize_to_iter_sum", "subspace_divide",
]  # fmt: skip
__getattr__ = missing(__name__)
