"""Products of float32 by three products of TF32 (`inputPrecision = tf32x3`).

Each operand is the sum of its value rounded to TF32 and the rest; of the four products of parts,
the one of the two rests is left out:

    a * b + c  ~  (rest(a) * big(b) + big(a) * rest(b) + big(a) * big(b)) + c

The smallest products are added first. (Ootomo and Yokota, "Recovering single precision accuracy
from Tensor Cores", 2022.)
"""

from __future__ import annotations

from ..ir.attributes import EnumAttr, IntegerAttr, StringAttr
from ..ir.core import Operation, Value
from ..ir.rewriter import OpBuilder
from ..ir.types import F32, I1, I32, element_type
from .registry import tile_pass


@tile_pass("tritongpu-F32DotTC", "tritongpu-f32-dot-tc")
def f32_dot_tc(module: Operation) -> None:
    """Lowers products of float32 with the precision `tf32x3` to three of `tf32`."""
    for op in list(module.walk()):
        if op.name == "tt.dot" and op.enum("inputPrecision") == "tf32x3" and _is_f32(op):
            _lower(op)


def _is_f32(op: Operation) -> bool:
    return all(element_type(operand.type) is F32 for operand in op.operands[:2])


def _lower(op: Operation) -> None:
    build = OpBuilder(before=op)
    a, b, c = op.operands
    a_big, a_rest = _parts(a, build)
    b_big, b_rest = _parts(b, build)
    attributes = {**op.attributes, "inputPrecision": EnumAttr("keyword", "tf32")}
    total = build("tt.splat", build.constant(0.0, F32), type=c.type)
    for left, right in ((a_rest, b_big), (a_big, b_rest), (a_big, b_big)):
        total = build("tt.dot", left, right, total, type=c.type, attributes=attributes)
    op.results[0].replace_uses(build("arith.addf", total, c))
    op.erase()


def _parts(value: Value, build: OpBuilder) -> tuple[Value, Value]:
    """A value rounded to TF32, and the rest."""
    big = build(
        "tt.elementwise_inline_asm",
        value,
        type=value.type,
        attributes={
            "asm_string": StringAttr("cvt.rna.tf32.f32 $0, $1;"),
            "constraints": StringAttr("=r,r"),
            "packed_element": IntegerAttr(1, I32),
            "pure": IntegerAttr(1, I1),
        },
    )
    return big, build("arith.subf", value, big)
