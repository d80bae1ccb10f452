"""Scalar and index algebra: nodes, building, walking, simplification, bounds, iteration maps."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, room
from .build import as_expr, binary, cast, const, logical_not, match_types, promote, trunc_div
from .nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    broadcast_to,
    is_int,
    match_lanes,
)
from .operators import ExprLike
from .reduction import (
    OPAQUE,
    ORDERED,
    REDUCE,
    SPATIAL,
    THREAD,
    CommReducer,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
)
from .walk import free_vars, free_vars_of, post_order, rewrite, substitute

if TYPE_CHECKING:
    from . import intrin
    from .analyzer import Analyzer, is_true, simplify
    from .bounds import ConstIntBound, const_int_bound, is_index, type_range
    from .combiners import combined
    from .evaluate import evaluate
    from .index_map import IndexMap
    from .int_set import IntSet
    from .itermap import (
        IterMapResult,
        IterMark,
        IterSplitExpr,
        IterSumExpr,
        detect_iter_map,
        inverse_affine_iter_map,
        iter_map_simplify,
        normalize_iter_map_to_expr,
    )
    from .logic import conjunction
    from .modular import ModularSet, modular_set
    from .ops import Op, find_op, get_op, is_pure_op, op_names, register_op
    from .order import order_key
    from .padded_map import PaddedInverse
    from .rebuild import has_load, is_pure
    from .subspace import Division, SubspaceDivision, subspace_divide

room(
    __name__,
    intrin="",
    analyzer="Analyzer is_true simplify",
    bounds="ConstIntBound const_int_bound is_index type_range",
    combiners="combined",
    evaluate="evaluate",
    index_map="IndexMap",
    int_set="IntSet",
    itermap="IterMapResult IterMark IterSplitExpr IterSumExpr detect_iter_map "
    "inverse_affine_iter_map iter_map_simplify normalize_iter_map_to_expr",
    logic="conjunction",
    modular="ModularSet modular_set",
    ops="Op find_op get_op is_pure_op op_names register_op",
    order="order_key",
    padded_map="PaddedInverse",
    rebuild="has_load is_pure",
    subspace="Division SubspaceDivision subspace_divide",
)

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "OPAQUE", "ORDERED", "REDUCE", "SPATIAL", "THREAD", "Add",
    "Analyzer", "And", "BinaryOp", "Broadcast", "Call", "Cast", "CommReducer", "CompareOp",
    "ConstIntBound", "Div", "Division", "Expr", "ExprLike", "FloatImm", "FloorDiv", "FloorMod",
    "IndexMap", "IntImm", "IntSet", "IterMapResult", "IterMark", "IterSplitExpr", "IterSumExpr",
    "IterVar", "Let", "Max", "Min", "Mod", "ModularSet", "Mul", "Not", "Op", "Or", "PaddedInverse",
    "ProducerLoad", "Ramp", "Range", "Reduce", "Select", "Shuffle", "SizeVar", "StringImm", "Sub",
    "SubspaceDivision", "Var", "as_expr", "binary", "broadcast_to", "cast", "combined",
    "conjunction", "const", "const_int_bound", "detect_iter_map", "evaluate", "find_op",
    "free_vars", "free_vars_of", "get_op", "has_load", "intrin", "inverse_affine_iter_map",
    "is_index", "is_int", "is_pure", "is_pure_op", "is_true", "iter_map_simplify", "logical_not",
    "match_lanes", "match_types", "modular_set", "normalize_iter_map_to_expr", "op_names",
    "order_key", "post_order", "promote", "register_op", "rewrite", "simplify", "subspace_divide",
    "substitute", "trunc_div", "type_range",
]  # fmt: skip
