"""Scalar and index algebra: nodes, building, walking, simplification, bounds, iteration maps."""

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
from .walk import free_vars, post_order, rewrite, substitute

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "OPAQUE", "ORDERED", "REDUCE", "SPATIAL", "THREAD", "Add",
    "And", "BinaryOp", "Broadcast", "Call", "Cast", "CommReducer", "CompareOp", "Div", "Expr",
    "ExprLike", "FloatImm", "FloorDiv", "FloorMod", "IntImm", "IterVar", "Let", "Max", "Min", "Mod",
    "Mul", "Not", "Or", "ProducerLoad", "Ramp", "Range", "Reduce", "Select", "Shuffle", "SizeVar",
    "StringImm", "Sub", "Var", "as_expr", "binary", "broadcast_to", "cast", "const", "free_vars",
    "logical_not", "match_lanes", "match_types", "post_order", "promote", "rewrite", "substitute",
    "trunc_div",
]  # fmt: skip
