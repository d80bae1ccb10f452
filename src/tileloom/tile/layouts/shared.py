"""Layouts of shared memory that tensor cores read without conflicts of banks."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import UserError
from .encodings import CTALayout, DotOperandEncoding, NvidiaMmaEncoding, SharedEncoding
from .properties import cta_layout, shape_per_cta


def shared_for_operand(
    encoding: DotOperandEncoding,
    shape: Sequence[int],
    order: Sequence[int],
    bits: int,
    cta: CTALayout | None = None,
    transposed: bool = False,
) -> SharedEncoding:
    """The layout of shared memory from which an operand is loaded in `encoding`.

    Args:
        order: of the elements in memory, fastest dimension first.
        bits: the width of an element.
        transposed: whether the operand is the transposed of what lies in memory.

    >>> mma = NvidiaMmaEncoding(2, 0, (4, 1))
    >>> print(shared_for_operand(DotOperandEncoding(0, mma, 2), (128, 32), (1, 0), 16))
    #ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [1, 0]}>
    """
    cta = cta_layout(encoding) if cta is None else cta
    parent, width = encoding.parent, encoding.k_width
    if not isinstance(parent, NvidiaMmaEncoding) or parent.version < 2:
        return SharedEncoding(1, 1, 1, order, cta)
    row = shape_per_cta(shape, cta)[order[0]] * 4 // width
    per_phase = max(128 // row, 1) if row else 128
    if 32 // bits != width and order[0] == encoding.op_idx:
        per_phase = max(per_phase, 2 * (32 // bits))
    # The matrix of an instruction: 8 rows (or columns) of 4 registers along K.
    outer, inner = (4 * width, 8) if transposed else (8, 4 * width)
    row_major = order[0] == len(order) - 1
    k_is_fastest = row_major == (encoding.op_idx == 0)
    vec, stride = (inner, outer) if k_is_fastest else (outer, inner)
    return SharedEncoding(vec, per_phase, max(stride // per_phase, 1), order, cta)


def shared_for_wgmma(
    shape: Sequence[int], order: Sequence[int], bits: int, cta: CTALayout | None = None
) -> SharedEncoding:
    """The layout of shared memory that `wgmma` reads: rows of 128, 64 or 32 bytes, swizzled.

    Raises:
        UserError: if rows are not of a multiple of 32 bytes.

    >>> print(shared_for_wgmma((128, 64), (1, 0), 16))
    #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
    """
    cta = CTALayout.one(len(shape)) if cta is None else cta
    row = shape_per_cta(shape, cta)[order[0]] * bits // 8
    for width, (per_phase, max_phase) in ((128, (1, 8)), (64, (2, 4)), (32, (4, 2))):
        if row and row % width == 0:
            return SharedEncoding(128 // bits, per_phase, max_phase, order, cta, True)
    raise UserError(f"wgmma reads rows of a multiple of 32 bytes, not of {row}")
