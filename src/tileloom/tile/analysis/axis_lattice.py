"""What is known of the elements of a tensor of integers or pointers: runs along each dimension,
divisors, bounds.

    AxisInfo ::= AxisRun for each dimension, bounds of all elements
    AxisRun  ::= run, stride, exact, divisor

Along its dimension a tensor is cut into blocks of `run` elements, the first at index 0. In a block
each element is `stride` more than the one before: a stride of 0 says that the elements are equal,
one of 1 that they are contiguous. `divisor` is a power of two that divides the first element of
each block.

Strides hold up to a multiple of 2^32, since additions wrap around; in blocks of `exact` elements,
a divisor of `run`, they hold between the integers themselves. A run of stride 0 is always exact.

Addresses are in bytes, so that a run of `f32*` that lie next to each other has stride 4, the
`unit` of its elements. See the end of the file for why `exact` is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from ..ir.types import (
    IndexType,
    IntegerType,
    PointerType,
    ShapedType,
    Type,
    element_bits,
    element_type,
    is_integer,
)

LARGEST = 1 << 62  # the divisor of zero
LONGEST_STRIDE = 1 << 48
WRAP = 1 << 32


class AxisRun(NamedTuple):
    """What is known along one dimension."""

    run: int
    stride: int
    exact: int
    divisor: int


Runs = tuple[AxisRun, ...]


def lowest_bit(number: int) -> int:
    """The largest power of two that divides a number.

    >>> lowest_bit(12), lowest_bit(-8), lowest_bit(0) == LARGEST
    (4, 8, True)
    """
    return min(number & -number, LARGEST) if number else LARGEST


def axis_run(run: int, stride: int, exact: int, divisor: int) -> AxisRun:
    """The normal form: single elements have stride 0, and stride 0 is exact. Strides so large that
    no tensor has them are forgotten."""
    if run == 1:
        return AxisRun(1, 0, 1, divisor)
    if abs(stride) >= LONGEST_STRIDE:
        return AxisRun(1, 0, 1, every(AxisRun(run, stride, exact, divisor)))
    if stride == 0 and exact != run:
        return AxisRun(exact, 0, exact, min(divisor, WRAP))
    return AxisRun(run, stride, exact, divisor)


def every(axis: AxisRun) -> int:
    """The divisor of all elements.

    >>> every(AxisRun(4, 2, 4, 16))
    2
    """
    if axis.stride == 0:
        return axis.divisor
    shared = min(axis.divisor, lowest_bit(axis.stride))
    return shared if axis.exact == axis.run else min(shared, WRAP)


def narrow(axis: AxisRun, run: int) -> AxisRun:
    """The same elements in shorter blocks; `run` divides that of the axis.

    >>> narrow(AxisRun(128, 1, 128, 1024), 8)
    AxisRun(run=8, stride=1, exact=8, divisor=8)
    """
    if run == axis.run:
        return axis
    exact, divisor = gcd(axis.exact, run), axis.divisor
    if axis.stride:
        divisor = min(divisor, lowest_bit(axis.stride * run))
        if axis.exact != axis.run:
            divisor = min(divisor, WRAP)
    return axis_run(run, axis.stride, exact, divisor)


def unwrapped(axis: AxisRun, bits: int) -> int:
    """How long exact runs are if integers of some bits wrap around: those that lie between two
    multiples of half of what the bits hold."""
    return axis.exact if axis.stride == 0 else aligned(axis, 1 << (bits - 1))


def aligned(axis: AxisRun, limit: int) -> int:
    """How long exact blocks are of which each lies between two multiples of `limit`, a power of
    two: their bits from that place on are the same. 1 where that is not known."""
    stride = axis.stride
    if stride <= 0 or stride & (stride - 1):
        return 1
    return gcd(axis.exact, max(min(axis.divisor, limit) // stride, 1))


def join_runs(first: AxisRun, second: AxisRun) -> AxisRun:
    """What holds for both."""
    if first == second:
        return first
    run = gcd(first.run, second.run) if first.stride == second.stride else 1
    a, b = narrow(first, run), narrow(second, run)
    return axis_run(a.run, a.stride, gcd(a.exact, b.exact), min(a.divisor, b.divisor))


def scalars(axis: AxisRun) -> AxisRun:
    """The axis in blocks of one element."""
    return axis if axis.run == 1 else AxisRun(1, 0, 1, every(axis))


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """What is known of a value; a scalar has one dimension of one element.

    Fields:
        runs: for each dimension.
        low, high: bounds of all elements, as signed integers.
        unit: the bytes of what a pointer points to; 1 for integers.
    """

    runs: Runs
    low: int
    high: int
    unit: int = 1

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.runs)

    @property
    def constant_value(self) -> int | None:
        """The one value of all elements, or None."""
        return self.low if self.low == self.high else None

    # As Triton says it.

    @property
    def contiguity(self) -> tuple[int, ...]:
        """The length of blocks of contiguous elements; up to wrapping around, see `exact`."""
        return tuple(a.run if a.stride == self.unit else 1 for a in self.runs)

    @property
    def exact_contiguity(self) -> tuple[int, ...]:
        """The length of blocks of contiguous elements that do not wrap around."""
        return tuple(a.exact if a.stride == self.unit else 1 for a in self.runs)

    @property
    def constancy(self) -> tuple[int, ...]:
        """The length of blocks of equal elements."""
        return tuple(1 if a.stride else a.run for a in self.runs)

    @property
    def divisibility(self) -> tuple[int, ...]:
        """What divides the first elements of the blocks that `contiguity` says."""
        return tuple(a.divisor if a.stride == self.unit else every(a) for a in self.runs)

    # As the AxisInfoExt of triton-linalg says it.

    @property
    def stride(self) -> tuple[int, ...]:
        """The length of blocks with a common difference."""
        return tuple(a.exact for a in self.runs)

    @property
    def stride_value(self) -> tuple[int, ...]:
        """The common differences: in elements, or in bytes where they are no number of elements;
        0 also of blocks of one element."""
        return tuple(a.stride if a.stride % self.unit else a.stride // self.unit for a in self.runs)

    def __str__(self) -> str:
        constant = "<none>" if self.constant_value is None else self.constant_value
        return (
            f"contiguity = {list(self.contiguity)}, divisibility = {list(self.divisibility)}, "
            f"constancy = {list(self.constancy)}, constant_value = {constant}"
        )


def shape_of(type: Type) -> tuple[int, ...]:
    """The shape of a tensor; that of a scalar has one element.

    >>> from ..ir.types import I32
    >>> shape_of(I32)
    (1,)
    """
    return (type.shape or (1,)) if isinstance(type, ShapedType) else (1,)


def unit_of(type: Type) -> int:
    """The bytes of what a pointer points to; 1 for what is no pointer."""
    element = element_type(type)
    if not isinstance(element, PointerType) or isinstance(element.pointee, ShapedType):
        return 1
    return max(element_bits(element.pointee) // 8, 1)


def bounds_of(type: Type) -> tuple[int, int]:
    """The least and the largest value of a type; 64 bits for what is no integer.

    >>> from ..ir.types import I1, I8
    >>> bounds_of(I8), bounds_of(I1)
    ((-128, 127), (0, 1))
    """
    element = element_type(type)
    bits = element.bits if isinstance(element, IntegerType | IndexType) else 64
    return (0, 1) if bits == 1 else (-1 << (bits - 1), (1 << (bits - 1)) - 1)


def unknown(type: Type) -> AxisInfo:
    """What is known of every value of a type."""
    low, high = bounds_of(type)
    return AxisInfo((AxisRun(1, 0, 1, 1),) * len(shape_of(type)), low, high, unit_of(type))


def uniform(type: Type, low: int, high: int, divisor: int) -> AxisInfo:
    """What is known of a value whose elements are all equal."""
    if low == high:
        divisor = lowest_bit(low)
    runs = tuple(AxisRun(size, 0, size, divisor) for size in shape_of(type))
    return AxisInfo(runs, low, high, unit_of(type))


def make_info(type: Type, runs: Sequence[AxisRun], low: int, high: int) -> AxisInfo:
    """The normal form: of one value if there is only one between the bounds; what divides all
    elements along one dimension does so along the others."""
    if low == high and is_integer(type):
        return uniform(type, low, high, 1)
    if len(runs) > 1:
        shared = max(map(every, runs))
        runs = [a if a.divisor >= shared else a._replace(divisor=shared) for a in runs]
    return AxisInfo(tuple(runs), low, high, unit_of(type))


def join(first: AxisInfo, second: AxisInfo, type: Type) -> AxisInfo:
    """What holds for two values of a type."""
    if first == second:
        return first
    runs = [join_runs(a, b) for a, b in zip(first.runs, second.runs, strict=True)]
    return make_info(type, runs, min(first.low, second.low), max(first.high, second.high))


# Why `exact`. `pid * 100 + arange(128)` may wrap around 2^31 in the midst of the 128, and as an
# offset of 64 bits it then jumps. That the elements are contiguous everywhere else decides which
# dimension is the fastest in memory, so a run keeps its length. How many elements one instruction
# loads is decided by `exact`, which is no longer than what the divisor proves: a block whose first
# element is divisible by 16 has no wrap in its 16 elements.
