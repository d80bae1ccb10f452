"""The operations of tile IR, a file for each dialect; the names and the text are MLIR's and
Triton's. Importing a file registers its operations."""

from . import (
    arith,
    arith_folds,
    block_pointers,
    builtin,
    cast_folds,
    cf,
    functions,
    math,
    math_folds,
    scf,
    tt,
    tt_folds,
    ttg,
    ttng,
)

__all__ = [
    "arith",
    "arith_folds",
    "block_pointers",
    "builtin",
    "cast_folds",
    "cf",
    "functions",
    "math",
    "math_folds",
    "scf",
    "tt",
    "tt_folds",
    "ttg",
    "ttng",
]
