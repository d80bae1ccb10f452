"""The operations of tile IR, a file for each dialect; the names and the text are MLIR's and
Triton's. Importing a file registers its operations."""

from . import arith, builtin, cf, functions, math, scf, tt, ttg, ttng

__all__ = ["arith", "builtin", "cf", "functions", "math", "scf", "tt", "ttg", "ttng"]
