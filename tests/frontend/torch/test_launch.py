"""Tensors that results are written to: of pooled memory, in the shape and type of the result."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tileloom.base import dtype  # noqa: E402
from tileloom.frontend.torch.launch import CARRIERS, maker  # noqa: E402

KINDS = ["float32", "float64", "float16", "int8", "int64", "uint8", "bool", *CARRIERS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (1, 5, 1), (0,), (0, 3), (2, 0, 3), (3, 1, 0)])
def test_new_tensors(shape: tuple[int, ...], kind: str) -> None:
    """As PyTorch's own: a tensor of no elements has strides of its other extents too."""
    make = maker(shape, dtype(kind))
    made, other = make(), make()
    like = torch.empty(shape, dtype=getattr(torch, kind))
    assert (made.shape, made.dtype, made.stride()) == (like.shape, like.dtype, like.stride())
    assert made.is_contiguous() and made.storage_offset() == 0
    if made.numel():
        assert made.data_ptr() != other.data_ptr()
        assert made.untyped_storage().nbytes() >= made.numel() * made.element_size()
