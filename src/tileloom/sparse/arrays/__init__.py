"""Sparse arrays that people already have, as plain index arrays and back, without copies.

`view` reads arrays of SciPy, PyTorch and pydata/sparse into one of a few formats (`Csr`, `Csc`,
`Bsr`, `Bsc`, `Coo`, `Gcxs`), `dense` reads dense operands; `wrap`, `with_values` and `dense_like`
give results of the caller's kind. No library is imported for this: arrays are told by the classes
of their types.
"""

from .dense import dense, requires_grad
from .formats import Bsc, Bsr, Coo, Csc, Csr, Gcxs, Sparse
from .operand import DenseOperand
from .parts import compact, element_type
from .validate import validate
from .view import view
from .wrap import dense_like, with_values, wrap

__all__ = [
    "Bsc",
    "Bsr",
    "Coo",
    "Csc",
    "Csr",
    "DenseOperand",
    "Gcxs",
    "Sparse",
    "compact",
    "dense",
    "dense_like",
    "element_type",
    "requires_grad",
    "validate",
    "view",
    "with_values",
    "wrap",
]
