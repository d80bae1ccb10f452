"""What integer operations make of what is known of their operands (see `axis_lattice.py`).

Each rule gets the operation and what is known of its operands, and gives what is known of its
result. Triton's rules are the projection of these on strides 0 and 1; where Triton claims what
wraparound or a negative dividend refutes, these claim less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from ..ir.attributes import DenseElementsAttr, IntegerAttr
from ..ir.core import Operation
from ..ir.types import Type, element_bits, is_float, is_integer
from .axis_lattice import (
    LARGEST,
    AxisInfo,
    AxisRun,
    Runs,
    aligned,
    axis_run,
    bounds_of,
    every,
    lowest_bit,
    make_info,
    narrow,
    scalars,
    shape_of,
    uniform,
    unit_of,
    unknown,
    unwrapped,
)

Rule = Callable[[Operation, Sequence[AxisInfo]], AxisInfo]
RULES: dict[str, Rule] = {}


def axis_rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule of operations."""

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        return rule

    return register


def fit(type: Type, low: int, high: int) -> tuple[int, int, bool]:
    """Bounds of a result before it wraps around, and after; and whether elements may wrap around
    otherwise than others."""
    least, most = bounds_of(type)
    if least <= low and high <= most:
        return low, high, False
    span = most - least + 1
    laps = (low - least) // span
    if laps == (high - least) // span:
        return low - laps * span, high - laps * span, False
    return least, most, True


def linear(type: Type, runs: Sequence[AxisRun], low: int, high: int) -> AxisInfo:
    """A sum or a multiple, before it wraps around."""
    if not is_integer(type):
        return make_info(type, runs, *bounds_of(type))
    low, high, wraps = fit(type, low, high)
    if wraps:
        bits = element_bits(type)
        runs = [axis_run(a.run, a.stride, unwrapped(a, bits), a.divisor) for a in runs]
    return make_info(type, runs, low, high)


def exact_runs(info: AxisInfo, unsigned: int = 0) -> Runs:
    """The runs that hold between integers, or between these read as unsigned ones of some bits."""
    if unsigned and info.low < 0:
        return tuple(narrow(a, unwrapped(a, unsigned)) for a in info.runs)
    return tuple(narrow(a, a.exact) for a in info.runs)


def unsigned_constant(info: AxisInfo, type: Type) -> int | None:
    """The constant as an unsigned integer."""
    value = info.constant_value
    return None if value is None else value & ((1 << element_bits(type)) - 1)


# Constants.


@axis_rule("arith.constant")
def _constant(op: Operation, _infos: Sequence[AxisInfo]) -> AxisInfo:
    type, value = op.results[0].type, op.attributes["value"]
    splat = value.splat if isinstance(value, DenseElementsAttr) else None
    if not is_integer(type):
        if splat is None:
            return unknown(type)
        return uniform(type, *bounds_of(type), 1)
    if isinstance(value, IntegerAttr):
        return uniform(type, value.value, value.value, 1)
    if splat is not None:
        return uniform(type, splat, splat, 1)
    values = value.values  # type: ignore[attr-defined]
    axis = AxisRun(1, 0, 1, min(map(lowest_bit, values)))
    return make_info(type, [axis] * len(shape_of(type)), min(values), max(values))


@axis_rule("tt.make_range")
def _range(op: Operation, _infos: Sequence[AxisInfo]) -> AxisInfo:
    start, end = op.integer("start"), op.integer("end")
    size = end - start
    if size == 1:
        return uniform(op.results[0].type, start, start, 1)
    divisor = lowest_bit(start) if start else 1 << 30  # what Triton says of a start of 0
    return AxisInfo((AxisRun(size, 1, size, divisor),), start, end - 1)


@axis_rule("tt.get_program_id")
def _program_id(op: Operation, _infos: Sequence[AxisInfo]) -> AxisInfo:
    return uniform(op.results[0].type, 0, (1 << 31) - 2, 1)


@axis_rule("tt.get_num_programs")
def _num_programs(op: Operation, _infos: Sequence[AxisInfo]) -> AxisInfo:
    return uniform(op.results[0].type, 1, (1 << 31) - 1, 1)


# Sums and multiples.


def add_runs(a: AxisRun, b: AxisRun) -> AxisRun:
    """Of the sums of elements."""
    run = gcd(a.run, b.run)
    a, b = narrow(a, run), narrow(b, run)
    return axis_run(run, a.stride + b.stride, gcd(a.exact, b.exact), min(a.divisor, b.divisor))


def scale_run(a: AxisRun, factor: int) -> AxisRun:
    """Of a multiple of the elements."""
    divisor = min(a.divisor * lowest_bit(factor), LARGEST)
    return axis_run(a.run, a.stride * factor, a.exact, divisor)


def scale(info: AxisInfo, factor: int) -> tuple[Runs, int, int]:
    """Runs and bounds of a multiple, before it wraps around."""
    ends = sorted((info.low * factor, info.high * factor))
    return tuple(scale_run(a, factor) for a in info.runs), ends[0], ends[1]


def add(type: Type, left: AxisInfo, right: AxisInfo) -> AxisInfo:
    """The sum."""
    runs = [add_runs(a, b) for a, b in zip(left.runs, right.runs, strict=True)]
    return linear(type, runs, left.low + right.low, left.high + right.high)


def subtract(type: Type, left: AxisInfo, right: AxisInfo) -> AxisInfo:
    """The difference."""
    negative = tuple(scale_run(b, -1) for b in right.runs)
    runs = [add_runs(a, b) for a, b in zip(left.runs, negative, strict=True)]
    return linear(type, runs, left.low - right.high, left.high - right.low)


@axis_rule("arith.addi")
def _add(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return add(op.results[0].type, *infos)


@axis_rule("arith.subi")
def _subtract(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return subtract(op.results[0].type, *infos)


@axis_rule("tt.addptr")
def _add_pointer(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    pointer, offset = infos
    type = op.results[0].type
    runs, *_ = scale(widen(offset, element_bits(op.operands[1].type)), unit_of(type))
    return make_info(
        type,
        [add_runs(a, b) for a, b in zip(pointer.runs, runs, strict=True)],
        *bounds_of(type),
    )


@axis_rule("arith.muli")
def _multiply(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    if right.constant_value is None:
        left, right = right, left
    if right.constant_value is not None:
        return linear(type, *scale(left, right.constant_value))
    ends = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
    runs = [_product_run(a, b) for a, b in zip(left.runs, right.runs, strict=True)]
    return linear(type, runs, min(ends), max(ends))


def _product_run(a: AxisRun, b: AxisRun) -> AxisRun:
    run = gcd(a.run, b.run) if a.stride == b.stride == 0 else 1
    return AxisRun(run, 0, run, min(every(a) * every(b), LARGEST))


@axis_rule("arith.shli")
def _shift_left(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    shift = right.constant_value
    if shift is not None and 0 <= shift < element_bits(type):
        return linear(type, *scale(left, 1 << shift))
    least = min(max(right.low, 0), 62)
    factor = uniform(type, *bounds_of(type), 1 << least)
    equal = [b if b.stride == 0 else scalars(b) for b in right.runs]
    factors = [gcd_run(a, b) for a, b in zip(factor.runs, equal, strict=True)]
    runs = [_product_run(a, b) for a, b in zip(left.runs, factors, strict=True)]
    return make_info(type, runs, *bounds_of(type))


def gcd_run(a: AxisRun, b: AxisRun) -> AxisRun:
    """The first axis of stride 0, in blocks in which the second is constant too."""
    return narrow(a, gcd(a.run, b.run))


# Quotients and remainders.


def divide_run(a: AxisRun, b: AxisRun, constant: int | None, floors: bool) -> AxisRun:
    """Of exact runs over others.

    Args:
        constant: the divisor, if it is known.
        floors: whether all quotients are rounded down, or all up: so are those of dividends of
            one sign.
    """
    size = abs(constant or 0)
    if a.stride == 0 and b.stride == 0:
        run = gcd(a.run, b.run)
        return AxisRun(run, 0, run, _quotient_divisor(a.divisor, size))
    if constant and a.stride % size == 0 and (a.divisor % size == 0 or floors):
        stride = a.stride // size * (1 if constant > 0 else -1)
        return axis_run(a.run, stride, a.exact, _quotient_divisor(a.divisor, size))
    if b.stride == 0 and floors:
        run = gcd(aligned(a, lowest_bit(constant) if constant else b.divisor), b.run)
        return AxisRun(run, 0, run, _quotient_divisor(narrow(a, run).divisor, size))
    return AxisRun(1, 0, 1, 1)


def _quotient_divisor(divisor: int, size: int) -> int:
    exact = size and not size & (size - 1) and divisor % size == 0
    return divisor // size if exact else 1


def divide(
    left: Runs, right: AxisInfo, constant: int | None, floors: bool, type: Type, ends: Ends
) -> AxisInfo:
    """The quotient of runs."""
    pairs = zip(left, right.runs, strict=True)
    return make_info(type, [divide_run(a, b, constant, floors) for a, b in pairs], *ends)


Ends = tuple[int, int]


def truncated(x: int, y: int) -> int:
    """The quotient rounded to zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def quotient_bounds(left: AxisInfo, right: AxisInfo, type: Type) -> Ends:
    """The bounds of a signed quotient; a divisor of 0 is not defined."""
    divisors = {y for y in (right.low, right.high, -1, 1) if y and right.low <= y <= right.high}
    ends = [truncated(x, y) for x in (left.low, left.high) for y in divisors]
    least, most = bounds_of(type)
    if not ends or max(ends) > most:
        return least, most
    return min(ends), max(ends)


@axis_rule("arith.divsi", "arith.floordivsi")
def _divide(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    if right.constant_value == 1:
        return left
    floors = left.low >= 0
    low, high = quotient_bounds(left, right, type)
    if op.name == "arith.floordivsi":
        floors = right.low > 0
        if left.low < 0 or not floors:
            low = max(low - 1, bounds_of(type)[0])
    return divide(exact_runs(left), right, right.constant_value, floors, type, (low, high))


@axis_rule("arith.divui")
def _divide_unsigned(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    constant = unsigned_constant(right, type)
    if constant == 1:
        return left
    ends = bounds_of(type)
    if left.low >= 0 and right.low >= 0:
        ends = quotient_bounds(left, right, type)
    elif left.low >= 0 or right.low > 1:
        ends = 0, left.high if left.low >= 0 else ((1 << element_bits(type)) - 1) // right.low
    return divide(exact_runs(left, element_bits(type)), right, constant, True, type, ends)


@axis_rule("arith.shrsi", "arith.shrui")
def _shift_right(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    shift, bits = right.constant_value, element_bits(type)
    unsigned = op.name == "arith.shrui"
    if shift == 0:
        return left
    if unsigned and left.low < 0:
        least = shift if shift is not None else 0
        ends = (0, ((1 << bits) - 1) >> least) if 0 < least < bits else bounds_of(type)
    elif shift is not None and 0 <= shift < bits:
        ends = left.low >> shift, left.high >> shift
    else:
        ends = min(left.low, 0), max(left.high, 0)
    known = shift is not None and 0 <= shift < bits
    constant = 1 << shift if known else None  # type: ignore[operator]
    power = uniform(type, *bounds_of(type), 1)
    runs = right.runs if not known else power.runs
    pairs = zip(exact_runs(left, bits if unsigned else 0), runs, strict=True)
    return make_info(type, [_shift_run(a, b, constant) for a, b in pairs], *ends)


def _shift_run(a: AxisRun, b: AxisRun, constant: int | None) -> AxisRun:
    if constant is None and (a.stride or b.stride):
        return AxisRun(1, 0, 1, 1)
    return divide_run(a, b, constant, True)


def remainder_run(a: AxisRun, b: AxisRun, constant: int | None, floors: bool) -> AxisRun:
    """Of the remainders of exact runs; arguments as of `divide_run`."""
    if a.stride == 0 and b.stride == 0:
        run = gcd(a.run, b.run)
        return AxisRun(run, 0, run, min(a.divisor, b.divisor))
    if b.stride == 0 and floors:
        if constant and a.stride % constant == 0:
            run = gcd(a.run, b.run)
            return AxisRun(run, 0, run, min(a.divisor, b.divisor))
        run = gcd(aligned(a, b.divisor), b.run)
        a = narrow(a, run)
        return axis_run(run, a.stride, run, min(a.divisor, b.divisor))
    return AxisRun(1, 0, 1, min(every(a), every(b)))


def remainder(
    left: Runs, right: AxisInfo, constant: int | None, floors: bool, type: Type, ends: Ends
) -> AxisInfo:
    """The remainder of runs."""
    if constant and max(map(every, left)) % abs(constant) == 0:
        return uniform(type, 0, 0, 1)
    pairs = zip(left, right.runs, strict=True)
    return make_info(type, [remainder_run(a, b, constant, floors) for a, b in pairs], *ends)


@axis_rule("arith.remsi")
def _remainder(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    if left.low >= 0 and left.high < right.low:
        return left
    most = max(abs(right.low), abs(right.high)) - 1
    if left.constant_value is not None and right.constant_value:
        x, y = left.constant_value, right.constant_value
        ends = (x - y * truncated(x, y),) * 2
    else:
        ends = min(max(-most, left.low), 0), max(min(most, left.high), 0)
    floors = left.low >= 0
    return remainder(exact_runs(left), right, right.constant_value, floors, type, ends)


@axis_rule("arith.remui")
def _remainder_unsigned(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    if left.low >= 0 and right.low >= 0:
        return _remainder(op, infos)
    ends = (0, right.high - 1) if right.low > 0 else bounds_of(type)
    if left.low >= 0:
        ends = 0, min(left.high, ends[1])
    runs = exact_runs(left, element_bits(type))
    return remainder(runs, right, unsigned_constant(right, type), True, type, ends)


# Bits.


def _bitwise(
    op: Operation,
    infos: Sequence[AxisInfo],
    rule: Callable[[AxisRun, AxisRun, int | None], AxisRun],
    ends: Ends,
) -> AxisInfo:
    left, right = infos
    if right.constant_value is None and left.constant_value is not None:
        left, right = right, left
    runs = []
    for a, b in zip(exact_runs(left), exact_runs(right), strict=True):
        swap = a.stride == 0 and b.stride != 0
        runs.append(rule(b, a, None) if swap else rule(a, b, right.constant_value))
    return make_info(op.results[0].type, runs, *ends)


def _and_run(a: AxisRun, b: AxisRun, constant: int | None) -> AxisRun:
    if b.stride == 0 and a.stride == 0:
        run = gcd(a.run, b.run)
        return AxisRun(run, 0, run, max(a.divisor, b.divisor))
    if b.stride == 0:
        ones = lowest_bit(~constant) if constant is not None else 1
        kept = gcd(aligned(a, ones), b.run)
        cleared = gcd(aligned(a, b.divisor), b.run)
        short = narrow(a, max(kept, cleared))
        stride = a.stride if kept > 1 else 0
        return axis_run(short.run, stride, short.run, max(short.divisor, b.divisor))
    return AxisRun(1, 0, 1, max(every(a), every(b)))


def _or_run(a: AxisRun, b: AxisRun, constant: int | None) -> AxisRun:
    if b.stride == 0 and a.stride == 0:
        run = gcd(a.run, b.run)
        return AxisRun(run, 0, run, min(a.divisor, b.divisor))
    if b.stride == 0:
        kept = gcd(aligned(a, b.divisor), b.run)
        if kept > 1:
            return axis_run(kept, a.stride, kept, min(narrow(a, kept).divisor, b.divisor))
        if constant is not None:
            run = aligned(a, lowest_bit(~constant))
            return AxisRun(run, 0, run, min(every(a), b.divisor) if run == 1 else 1)
    return AxisRun(1, 0, 1, min(every(a), every(b)))


def _xor_run(a: AxisRun, b: AxisRun, _constant: int | None) -> AxisRun:
    return _or_run(a, b, None)


def _bits_above(*numbers: int) -> int:
    """The largest number of no more bits than the largest of these."""
    return (1 << max(numbers).bit_length()) - 1


@axis_rule("arith.andi")
def _and(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    least, _ = bounds_of(op.results[0].type)
    if left.constant_value is not None and right.constant_value is not None:
        folded = left.constant_value & right.constant_value
        return uniform(op.results[0].type, folded, folded, 1)
    for one, other in ((left, right), (right, left)):
        mask = one.constant_value
        if mask == -1 or (mask is not None and other.low >= 0 and _ones(mask) > other.high):
            return other
    tops = [info.high for info in infos if info.low >= 0]
    ends = (0, min(tops)) if tops else (least, max(left.high, right.high, -1))
    return _bitwise(op, infos, _and_run, ends)


def _ones(mask: int) -> int:
    """Two to the number of ones at a mask's end."""
    return lowest_bit(~mask)


@axis_rule("arith.ori")
def _or(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    if left.constant_value is not None and right.constant_value is not None:
        folded = left.constant_value | right.constant_value
        return uniform(op.results[0].type, folded, folded, 1)
    ends = bounds_of(op.results[0].type)
    if left.low >= 0 and right.low >= 0:
        ends = max(left.low, right.low), _bits_above(left.high, right.high)
    elif left.high < 0 or right.high < 0:
        ends = ends[0], -1
    return _bitwise(op, infos, _or_run, ends)


@axis_rule("arith.xori")
def _xor(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    if left.constant_value is not None and right.constant_value is not None:
        folded = left.constant_value ^ right.constant_value
        return uniform(type, folded, folded, 1)
    if -1 in (left.constant_value, right.constant_value):
        other = right if left.constant_value == -1 else left
        return subtract(type, uniform(type, -1, -1, 1), other)
    ends = bounds_of(type)
    if left.low >= 0 and right.low >= 0:
        ends = 0, _bits_above(left.high, right.high)
    return _bitwise(op, infos, _xor_run, ends)


# Casts.


def widen(info: AxisInfo, bits: int) -> AxisInfo:
    """An integer of some bits, as it is in more: strides up to a multiple of 2^32 are kept, others
    must be exact."""
    if bits >= 32:
        return info
    return AxisInfo(exact_runs(info), info.low, info.high)


@axis_rule("arith.extsi")
def _extend(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    type, bits = op.results[0].type, element_bits(op.operands[0].type)
    info = widen(infos[0], bits)
    if bits == 1:  # true is -1
        info = AxisInfo(tuple(_equal(a) for a in info.runs), -info.high, -info.low)
    return make_info(type, info.runs, info.low, info.high)


def _equal(axis: AxisRun) -> AxisRun:
    return scalars(axis) if axis.stride else axis


@axis_rule("arith.extui", "arith.index_castui")
def _extend_unsigned(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info, type = infos[0], op.results[0].type
    bits = element_bits(op.operands[0].type)
    if element_bits(type) <= bits:
        return _truncate(op, infos)
    if info.low >= 0:
        return make_info(type, widen(info, bits).runs, info.low, info.high)
    span = 1 << bits
    ends = (info.low + span, info.high + span) if info.high < 0 else (0, span - 1)
    runs = [axis_run(a.run, a.stride, unwrapped(a, bits), a.divisor) for a in info.runs]
    if bits < 32:
        runs = [narrow(a, a.exact) for a in runs]
    return make_info(type, runs, *ends)


@axis_rule("arith.trunci")
def _truncate(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info, type = infos[0], op.results[0].type
    runs = info.runs
    if element_bits(type) == 1:
        runs = tuple(map(_equal, exact_runs(info)))
    return linear(type, runs, info.low, info.high)


@axis_rule("arith.index_cast")
def _index_cast(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    wider = element_bits(op.results[0].type) > element_bits(op.operands[0].type)
    return _extend(op, infos) if wider else _truncate(op, infos)


@axis_rule("arith.bitcast", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int")
def _bitcast(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info, type = infos[0], op.results[0].type
    source = op.operands[0].type
    if is_float(source) != is_float(type):
        runs = [_equal(a)._replace(divisor=1) for a in info.runs]
        return make_info(type, runs, *bounds_of(type))
    kept = is_integer(source) and is_integer(type)
    return make_info(type, info.runs, *((info.low, info.high) if kept else bounds_of(type)))
