"""Approximations of functions by instructions of NVIDIA GPUs, and how far they are off.

The target option `-fast-math` has code made with them; else functions are as exact as on CPUs.
Errors are those that NVIDIA's PTX ISA states (version 8.7, sections 9.7.3 and 9.7.4), and of exp
and exp10 the rounding of the product before.
"""

from __future__ import annotations

from math import log2

from ..base.record import Record


class Approximation(Record):
    """What one operation becomes on one type.

    Attributes:
        op: as in `Call.op`; "/" for a division.
        dtype: of operands and result.
        code: PTX, where $0 is the result, $1 (and $2) are operands, $t is a register for what
            comes between; pieces are separated by ";".
        relative, absolute: the largest error, relative to the result and not.
        growth: how much relative error there is more for every unit of the argument.
        note: where those errors hold, or what else is different.
        since: compute capability.
        packed: the code for two 16-bit operands at once.
    """

    op: str
    dtype: str
    code: str
    relative: float = 0.0
    absolute: float = 0.0
    growth: float = 0.0
    note: str = ""
    since: int = 50
    packed: str = ""

    @property
    def error(self) -> str:
        """The largest error, in words."""
        parts = [_power(self.absolute)] if self.absolute else []
        if self.growth:
            first, more = self.relative / _ULP, self.growth / _ULP
            parts.append(f"({first:g} + {more:g} abs(x)) 2^-23 relative")
        elif self.relative:
            parts.append(f"{_power(self.relative)} relative")
        return ", ".join(parts)


_ULP = 2.0**-23  # a unit in the last place of a float32 is at most this much of it
_TWO_PI = "abs(x) <= 2 pi; 2^-14.7 up to 100 pi, nothing is promised beyond"

_SINGLE = (
    Approximation("tir.exp2", "float32", "ex2.approx.ftz.f32 $0, $1", 2 * _ULP),
    Approximation(
        "tir.exp",
        "float32",
        "mul.rn.ftz.f32 $t, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, $t",
        2 * _ULP,
        growth=1.173 * _ULP,
    ),
    Approximation(
        "tir.exp10",
        "float32",
        "mul.rn.ftz.f32 $t, $1, 0f40549A78; ex2.approx.ftz.f32 $0, $t",
        2 * _ULP,
        growth=2.97 * _ULP,
    ),
    Approximation(
        "tir.log2",
        "float32",
        "lg2.approx.ftz.f32 $0, $1",
        2.0**-22,
        2.0**-22,
        note="absolute for 0.5 < x < 2, relative elsewhere",
    ),
    Approximation(
        "tir.log",
        "float32",
        "lg2.approx.ftz.f32 $t, $1; mul.rn.ftz.f32 $0, $t, 0f3F317218",
        2.0**-21.4,
        2.0**-22,
        note="absolute for 0.5 < x < 2, relative elsewhere",
    ),
    Approximation(
        "tir.log10",
        "float32",
        "lg2.approx.ftz.f32 $t, $1; mul.rn.ftz.f32 $0, $t, 0f3E9A209B",
        2.0**-21.4,
        2.0**-22,
        note="absolute for 0.5 < x < 2, relative elsewhere",
    ),
    Approximation("tir.sin", "float32", "sin.approx.ftz.f32 $0, $1", 0, 2.0**-20.5, note=_TWO_PI),
    Approximation("tir.cos", "float32", "cos.approx.ftz.f32 $0, $1", 0, 2.0**-20.5, note=_TWO_PI),
    Approximation("tir.sqrt", "float32", "sqrt.approx.ftz.f32 $0, $1", 2.0**-23),
    Approximation("tir.rsqrt", "float32", "rsqrt.approx.ftz.f32 $0, $1", 2.0**-22.9),
    Approximation(
        "tir.sigmoid",
        "float32",
        "mul.rn.ftz.f32 $t, $1, 0fBFB8AA3B; ex2.approx.ftz.f32 $t, $t; "
        "add.rn.ftz.f32 $t, $t, 0f3F800000; rcp.approx.ftz.f32 $0, $t",
        4 * _ULP,
        growth=1.173 * _ULP,
        note="0 below -88",
    ),
    Approximation(
        "tir.tanh", "float32", "tanh.approx.f32 $0, $1", 2.0**-11, since=75, note="subnormals kept"
    ),
    Approximation("/", "float32", "div.full.ftz.f32 $0, $1, $2", 2 * _ULP),
)
_HALF = (
    Approximation(
        "tir.exp2", "float16", "ex2.approx.f16 $0, $1", 2.0**-9.9, since=75,
        note="subnormals kept", packed="ex2.approx.f16x2 $0, $1",
    ),
    Approximation(
        "tir.tanh", "float16", "tanh.approx.f16 $0, $1", 0, 2.0**-10.987, since=75,
        note="subnormals kept", packed="tanh.approx.f16x2 $0, $1",
    ),
    Approximation(
        "tir.exp2", "bfloat16", "ex2.approx.ftz.bf16 $0, $1", 2.0**-7, since=90,
        packed="ex2.approx.ftz.bf16x2 $0, $1",
    ),
    Approximation(
        "tir.tanh", "bfloat16", "tanh.approx.bf16 $0, $1", 0, 2.0**-8, since=90,
        note="subnormals kept", packed="tanh.approx.bf16x2 $0, $1",
    ),
)  # fmt: skip
APPROXIMATIONS = {(a.op, a.dtype): a for a in (*_SINGLE, *_HALF)}


def approximation(op: str, dtype: str, compute_capability: int) -> Approximation | None:
    """What an operation becomes under `-fast-math`; None if it stays exact.

    >>> approximation("tir.tanh", "float32", 80).error
    '2^-11 relative'
    >>> approximation("tir.tanh", "float32", 70), approximation("tir.erf", "float32", 80)
    (None, None)
    """
    found = APPROXIMATIONS.get((op, dtype))
    return found if found is not None and compute_capability >= found.since else None


def _power(value: float) -> str:
    exponent = log2(value)
    return f"2^{exponent:.5g}"
