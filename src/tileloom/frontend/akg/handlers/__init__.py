"""The meaning of AKG's operators; importing this package registers them."""

from __future__ import annotations

from . import elementwise, index, product, reduction, refused, shape, sparse

__all__ = ["elementwise", "index", "product", "reduction", "refused", "shape", "sparse"]
