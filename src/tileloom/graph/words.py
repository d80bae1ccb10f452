"""Words: neighbours along the depth of a product in 32 bits, as dot products of CPUs read them.

Two bfloat16 numbers or four bytes; the first lies in the lowest bits. A word of zeros adds nothing,
so that a depth of any length can be filled up. The channels of a convolution are in words, so that
a window of words is gathered as one of numbers would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import compute as te
from ..base import DType, dtype
from ..expr import Call, Expr, cast, const
from ..expr.build import bitwise
from ..expr.dot_ops import (
    DOT_BF16,
    DOT_INT8,
    DOT_OFFSET,
    FLIP_SIGNS,
    ROUND_BF16,
    WORD_BITS,
)
from .contractions import accumulator_of, matmul_extents
from .in_words import in_words
from .nodes import Node, TensorType
from .ops.conv import around
from .symbols import is_symbolic

if TYPE_CHECKING:
    from .machine import Machine

#: Words along the depth that the tile registers of x86 (AMX) take at once.
TILE_WORDS = 16


@dataclass(frozen=True)
class Words:
    """How a product is made of words.

    Attributes:
        dot: the dot product of two words (`expr.dot_ops`).
        parts: the elements of a word.
        unit: the depth is a multiple of so many words.
        flips: whether the sign bits of the left operand have to be flipped before.
    """

    dot: str
    parts: int
    unit: int = 1
    flips: bool = False


def find_words(
    left: DType, right: DType, total: DType, machine: Machine, *, open_depth: bool = False
) -> Words | None:
    """The words that a CPU multiplies operands of these types by; None if it has no such products.

    With an `open_depth`, of which it is not known how many tiles it fills, there are dot products
    of bytes only.

    `vpdpbusd` takes unsigned bytes times signed ones. Where both operands are of one kind, the sign
    bits of the left one are flipped: bytes in offset binary (`lower/loops/offset_sums.py`).
    """
    dots: tuple[str, ...]
    if (str(left), str(right), str(total)) == ("bfloat16", "bfloat16", "float32"):
        tiles, dots, op, flips = "amx-bf16", ("avx512bf16",), DOT_BF16, False
    elif str(total) == "int32" and {str(left), str(right)} <= {"int8", "uint8"}:
        narrow = machine.vector_bits < 512
        tiles, dots = "amx-int8", ("avx512vnni", "avxvnni") if narrow else ("avx512vnni",)
        op = DOT_INT8[not left.is_unsigned, not right.is_unsigned]
        flips = left.is_unsigned == right.is_unsigned
    else:
        return None
    parts = WORD_BITS // left.bits
    if open_depth and op == DOT_BF16:
        return None
    if not open_depth and tiles in machine.features and machine.vector_bits >= 512:
        return Words(op, parts, TILE_WORDS)
    if flips:
        op = DOT_OFFSET[not left.is_unsigned]
    return Words(op, parts, 1, flips) if machine.features.intersection(dots) else None


def words_for(node: Node, machine: Machine) -> Words | None:
    """The words that a matrix product or a convolution is made of, if it is.

    Weights of open extents are in none.
    """
    kinds, total = kinds_of(node), accumulator_of(node)
    if node.op.kind == "conv":
        opened = any(map(is_symbolic, node.inputs[1].shape))
        return None if opened else find_words(*kinds, total, machine)
    opened = is_symbolic(matmul_extents(node)[1])
    return find_words(*kinds, total, machine, open_depth=opened)


def kinds_of(node: Node) -> tuple[DType, DType]:
    """The types of the factors of a product, the rows' first, whatever panels hold them in."""
    left, right = (tensor.dtype for tensor in node.inputs)
    words = node.attrs.get("words_of")
    if node.attrs.get("flips"):
        left = dtype("int8" if left.is_unsigned else "uint8")
    return left, right if words is None else dtype(words)


def word_product(node: Node, inputs: Sequence[te.Tensor], words: Words, total: DType) -> te.Tensor:
    """A matrix product or a convolution as one of words, with their operands in blocks before it.

    Args:
        total: the type that it sums in.
    """
    if node.op.compute is None:
        raise ValueError(f"{node.op.name} is no product")
    attrs = {**node.attrs, "dot": words.dot, "words_of": None}
    operands = (_conv if node.op.kind == "conv" else _matmul)(node, inputs, words)
    padding = around(attrs) ^ (FLIP_SIGNS & 0xFF if node.attrs.get("flips") else 0)
    if padding:
        attrs["pad_value"] = _repeated(padding, words.parts)
    result = node.outputs[0].type
    (summed,) = node.op.compute(operands, attrs, [TensorType(result.shape, total)])
    if result.dtype is total:
        return summed
    rounded: te.Tensor = te.compute(
        result.shape, lambda *at: _rounded(result.dtype, summed(*at)), name="rounded"
    )
    return rounded


def _rounded(kind: DType, total: Expr) -> Expr:
    """A finished sum; those of bfloat16 are never subnormal, which makes rounding them quick."""
    if str(kind) == "bfloat16":
        return Call(kind, ROUND_BF16, (total,))
    return cast(kind, total)


def _repeated(value: int, parts: int) -> int:
    """The int32 each of whose parts is the same number."""
    bits = WORD_BITS // parts
    whole = sum((value & ((1 << bits) - 1)) << bits * k for k in range(parts))
    return whole - (1 << WORD_BITS) if whole >> (WORD_BITS - 1) else whole


def _matmul(node: Node, inputs: Sequence[te.Tensor], words: Words) -> list[te.Tensor]:
    left, right = inputs
    axis = left.ndim - (2 if node.attrs["transpose_a"] else 1)
    steps = -(-left.static_shape[axis] // (words.parts * words.unit)) * words.unit
    packed = node.op.name == "packed_matmul"
    rows = in_words(left, axis, right.static_shape[1] if packed else steps, words.parts)
    if words.flips or node.attrs.get("flips"):
        rows = _flipped(rows)
    if packed:
        return [rows, right]
    across = right.ndim - (1 if node.attrs["transpose_b"] else 2)
    return [rows, in_words(right, across, steps, words.parts)]


def _flipped(words: te.Tensor) -> te.Tensor:
    """Words of bytes with the sign bits of all of these flipped."""
    signs = const(FLIP_SIGNS, "int32")
    found: te.Tensor = te.compute(
        words.shape, lambda *at: bitwise("tir.bitwise_xor", words(*at), signs), name="flipped"
    )
    return found


def _conv(node: Node, inputs: Sequence[te.Tensor], words: Words) -> list[te.Tensor]:
    x, weight = inputs
    packed = node.op.name == "packed_conv"
    steps = weight.static_shape[1] if packed else -(-weight.static_shape[1] // words.parts)
    image = in_words(x, 1, steps, words.parts, node.attrs["groups"])
    if node.attrs.get("flips"):
        image = _flipped(image)
    return [image, weight if packed else in_words(weight, 1, steps, words.parts)]
