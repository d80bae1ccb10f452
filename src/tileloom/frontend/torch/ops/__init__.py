"""The rules for ATen operators, by family; each registers its own as it is loaded."""

from . import (
    arithmetic,
    backward,
    contract,
    create,
    index,
    normalize,
    pool,
    reduce,
    resample,
    scan,
    scatter,
    shape,
    special,
    unary,
)

__all__ = [
    "arithmetic", "backward", "contract", "create", "index", "normalize", "pool", "reduce",
    "resample", "scan", "scatter", "shape", "special", "unary",
]  # fmt: skip
