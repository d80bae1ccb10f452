"""AxisInfo: how far the elements of tensors are contiguous, equal and divisible.

Decides how wide memory is accessed: see `ModuleAxisInfo.pointer_alignment`. The lattice and its
projections on what Triton and triton-linalg say are in `axis_lattice.py`, the rules in
`axis_arithmetic.py`, `axis_choices.py` and `axis_shapes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from ..dialects.functions import argument_attributes, callee_of, symbol_name
from ..ir.attributes import (
    DenseArrayAttr,
    DenseElementsAttr,
    IntegerAttr,
    StringAttr,
)
from ..ir.core import BlockArgument, Operation, Value
from ..ir.definitions import Trait
from ..ir.interning import Attribute
from ..ir.types import TensorType, element_bits, is_integer, is_pointer, pointee
from ..layouts.encodings import Encoding
from ..layouts.properties import order_of, unique_contig_per_thread
from . import axis_shapes
from .axis_arithmetic import RULES
from .axis_choices import elementwise
from .axis_lattice import (
    AxisInfo,
    AxisRun,
    axis_run,
    bounds_of,
    join,
    lowest_bit,
    make_info,
    narrow,
    uniform,
    unknown,
)
from .dataflow import ForwardAnalysis

__all__ = ["AxisInfo", "ModuleAxisInfo", "arg_sort", "axis_shapes"]

NONNEGATIVE = "tt.assume_nonnegative_dividends"
HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")
# Operations whose result is the operand if the last two are one.
SAME_OF_EQUAL = frozenset(
    f"arith.{name}" for name in ("andi", "ori", "maxsi", "maxui", "minsi", "minui", "select")
)
CHANGES_OF_BOUNDS = 2  # of a loop's value, before they are given up


def arg_sort(lengths: Sequence[int]) -> tuple[int, ...]:
    """The dimensions, those of the longest blocks first; of equal ones the first first.

    >>> arg_sort((1, 16, 4)), arg_sort((1, 1))
    ((1, 2, 0), (0, 1))
    """
    return tuple(sorted(range(len(lengths)), key=lambda d: -lengths[d]))


# Hints: attributes that say what the compiler cannot know.


def hint_values(attribute: Attribute | None, rank: int) -> Sequence[int] | None:
    """A hint for each dimension: one integer for all, or one each."""
    match attribute:
        case IntegerAttr(value=value):
            return [value] * rank
        case DenseElementsAttr(values=values) | DenseArrayAttr(values=values):
            found = list(values) * rank if len(values) == 1 else list(values)
            return found[:rank] if len(found) >= rank else None
    return None


def with_hints(info: AxisInfo, value: Value, attributes: Mapping[str, Attribute]) -> AxisInfo:
    """What is known if hints hold; they take the place of what was found out."""
    given = [hint_values(attributes.get(name), info.rank) for name in HINTS]
    if given == [None, None, None]:
        return info
    runs = list(info.runs)
    for d, axis in enumerate(runs):
        contiguity, divisor, constancy = (None if h is None else h[d] for h in given)
        axis = _with_run(axis, contiguity, info.unit)
        axis = _with_run(axis, constancy, 0)
        if divisor is not None and divisor > 0:
            axis = axis._replace(divisor=lowest_bit(divisor))
        runs[d] = axis
    return make_info(value.type, runs, info.low, info.high)


def _with_run(axis: AxisRun, length: int | None, stride: int) -> AxisRun:
    if length is None or length < 1:
        return axis
    if axis.stride == stride and axis.run > length:
        return narrow(axis, gcd(axis.run, length))
    if length == 1:
        return axis
    return axis_run(length, stride, length, axis.divisor)


class _FunctionAxisInfo(ForwardAnalysis[AxisInfo]):
    """The analysis of one function."""

    def __init__(self, assumes_nonnegative: bool) -> None:
        super().__init__()
        self.assumes_nonnegative = assumes_nonnegative

    def transfer(self, op: Operation, facts: Sequence[AxisInfo]) -> Sequence[AxisInfo]:
        if self.assumes_nonnegative and op.name in ("arith.divsi", "arith.remsi"):
            facts = [_nonnegative_if_unknown(facts[0], op.operands[0]), facts[1]]
        made = transfer(op, facts)
        if any(name in op.attributes for name in HINTS):
            made = [
                with_hints(info, result, op.attributes)
                for info, result in zip(made, op.results, strict=True)
            ]
        return made

    def join(self, old: AxisInfo, new: AxisInfo, value: Value, changes: int) -> AxisInfo:
        made = join(old, new, value.type)
        if changes < CHANGES_OF_BOUNDS or not isinstance(value, BlockArgument):
            return made
        least, most = bounds_of(value.type)
        low, high = made.low, made.high
        if low < old.low:
            low = 0 if low >= 0 else least
        if high > old.high:
            high = most
        return AxisInfo(made.runs, low, high, made.unit)

    def entry(self, value: Value) -> AxisInfo:
        return unknown(value.type)

    def loop_variable(
        self, value: Value, lower: AxisInfo, upper: AxisInfo, step: AxisInfo
    ) -> AxisInfo:
        divisor = min(lower.runs[0].divisor, step.runs[0].divisor)
        last = max(upper.high - 1, lower.low)
        if lower.constant_value is not None and step.constant_value:
            last -= (last - lower.low) % abs(step.constant_value)
        return uniform(value.type, lower.low, last, divisor)

    def decided(self, condition: AxisInfo) -> bool | None:
        value = condition.constant_value
        return None if value is None else bool(value)


def _nonnegative_if_unknown(info: AxisInfo, value: Value) -> AxisInfo:
    if info.low > bounds_of(value.type)[0] or info.high < 0:
        return info
    return AxisInfo(info.runs, 0, info.high, info.unit)


def transfer(op: Operation, infos: Sequence[AxisInfo]) -> Sequence[AxisInfo]:
    """What is known of an operation's results, from what is known of its operands."""
    operands = op.operands
    if len(operands) > 1 and operands[-1] is operands[-2]:
        if op.name in SAME_OF_EQUAL:
            return [infos[-1]]
        if op.name in ("arith.subi", "arith.xori"):
            return [uniform(op.results[0].type, 0, 0, 1)]
    rule = RULES.get(op.name)
    if rule is not None:
        made = rule(op, infos)
        return [made] * len(op.results)
    definition = op.definition
    if infos and definition.is_pure and Trait.ELEMENTWISE in definition.traits:
        return [elementwise(op, infos, i) for i in range(len(op.results))]
    return [unknown(result.type) for result in op.results]


# Modules.


class ModuleAxisInfo:
    """What is known of all values of the functions of a module.

    Arguments of public functions are known by their attributes, those of others also by what all
    their calls agree on; functions that call themselves only by attributes.

    >>> from ..ir.parser import parse
    >>> module = parse('''tt.func @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    ...   %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
    ...   %s = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    ...   %q = tt.addptr %s, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    ...   tt.return
    ... }''')
    >>> axis_info = ModuleAxisInfo(module)
    >>> pointer = list(module.walk())[4].result
    >>> print(axis_info.of(pointer))
    contiguity = [128], divisibility = [16], constancy = [1], constant_value = <none>
    >>> axis_info.pointer_alignment(pointer)
    4
    """

    def __init__(self, module: Operation) -> None:
        self.assumes_nonnegative = NONNEGATIVE in module.attributes
        self._facts: dict[Value, AxisInfo] = {}
        functions = {
            symbol_name(op): op
            for op in module.walk()
            if op.name in ("tt.func", "func.func") and op.regions[0].entry is not None
        }
        calls = {op: _calls_in(op) for op in functions.values()}
        arguments: dict[Operation, list[list[AxisInfo]]] = {op: [] for op in functions.values()}
        order, recursive = callers_first(functions, calls)
        for function in order:
            known = [] if function in recursive or is_public(function) else arguments[function]
            self._analyse(function, known)
            for call in calls[function]:
                callee = functions.get(callee_of(call))
                if callee is not None:
                    arguments[callee].append([self.of(value) for value in call.operands])

    def _analyse(self, function: Operation, given: Sequence[Sequence[AxisInfo]]) -> None:
        facts = []
        for index, value in enumerate(function.body.arguments):
            info = unknown(value.type)
            if given:
                info = given[0][index]
                for other in given[1:]:
                    info = join(info, other[index], value.type)
            facts.append(with_hints(info, value, argument_attributes(function, index)))
        analysis = _FunctionAxisInfo(self.assumes_nonnegative)
        analysis.run(function, facts)
        self._facts.update(analysis.facts)

    def of(self, value: Value) -> AxisInfo:
        """What is known of a value; of one that no execution reaches, or that came since the
        analysis, nothing."""
        found = self._facts.get(value)
        return unknown(value.type) if found is None else found

    def contiguity(self, value: Value) -> tuple[int, ...]:
        """The length of blocks of contiguous elements along each dimension."""
        return self.of(value).contiguity

    def order(self, pointer: Value) -> tuple[int, ...]:
        """The dimensions, fastest first: of the value's layout, or without one by contiguity."""
        encoding = getattr(pointer.type, "encoding", None)
        if isinstance(encoding, Encoding):
            return order_of(encoding)
        return arg_sort(self.contiguity(pointer))

    def pointer_alignment(self, pointer: Value, order: Sequence[int] | None = None) -> int:
        """How many elements that follow each other from a multiple of this on one access may
        load: a power of two, in elements.

        Args:
            order: dimensions, fastest first; those of the pointer's layout if they are not given.
        """
        if not isinstance(pointer.type, TensorType):
            return 1
        info = self.of(pointer)
        fastest = (self.order(pointer) if order is None else order)[0]
        size = max(element_bits(pointee(pointer.type)) // 8, 1)
        divisible = max(info.divisibility[fastest] // size, 1)
        return min(divisible, lowest_bit(info.exact_contiguity[fastest]))

    def pointer_contiguity(self, pointer: Value) -> int:
        """How many elements one access of a thread may load, in the pointer's layout."""
        type = pointer.type
        if not isinstance(type, TensorType):
            return 1
        order = self.order(pointer)
        alignment = self.pointer_alignment(pointer, order)
        return min(alignment, unique_contig_per_thread(type)[order[0]])

    def explain(self, value: Value) -> list[str]:
        """Why accesses through a value are as narrow as they are: a line for the value, and for
        each operand that it has this from, back to where it begins."""
        lines: list[str] = []
        info = self.of(value)
        order = arg_sort(info.contiguity)
        seen: set[Value] = set()
        while value not in seen:
            seen.add(value)
            op = value.defining_op
            name = "an argument" if op is None else op.name
            lines.append(f"{name}: {self.of(value)}{_reason(op, self)}")
            operands = () if op is None else op.operands
            found = [o for o in operands if is_integer(o.type) or is_pointer(o.type)]
            if not found:
                break
            value = min(found, key=lambda o: _width(self.of(o), order[0]))
        return lines

    def mask_alignment(self, mask: Value) -> int:
        """How many neighbours a mask lets through together."""
        if not isinstance(mask.type, TensorType):
            return 1
        return max(self.of(mask).constancy[self.order(mask)[0]], 1)


def _width(info: AxisInfo, dim: int) -> int:
    """How many neighbours along a dimension are in an aligned block, contiguous or equal."""
    axis = info.runs[min(dim, info.rank - 1)]
    if axis.stride == 0:
        return min(axis.run if axis.run > 1 or info.rank == 1 else axis.divisor, axis.divisor)
    return min(axis.exact, axis.divisor) if axis.stride == info.unit else 1


def _reason(op: Operation | None, axis_info: ModuleAxisInfo) -> str:
    """What an operation needs to keep its operand's blocks, and does not have."""
    if op is None or op.name not in ("arith.divsi", "arith.remsi"):
        return ""
    low = axis_info.of(op.operands[0]).low
    return f"; the dividend may be negative, down to {low}" if low < 0 else ""


def _calls_in(function: Operation) -> list[Operation]:
    return [op for op in function.walk() if op.name in ("tt.call", "func.call")]


def is_public(function: Operation) -> bool:
    """Whether a function may be called from elsewhere: so it is unless it says otherwise."""
    visibility = function.attributes.get("sym_visibility")
    return not isinstance(visibility, StringAttr) or visibility.value == "public"


def callers_first(
    functions: Mapping[str, Operation], calls: Mapping[Operation, Iterable[Operation]]
) -> tuple[list[Operation], set[Operation]]:
    """The functions, each after those that call it; and those that call themselves, for which
    that cannot be."""
    done: list[Operation] = []
    seen: set[Operation] = set()
    recursive: set[Operation] = set()

    def visit(function: Operation, path: list[Operation]) -> None:
        if function in path:
            recursive.update(path[path.index(function) :])
        if function in seen:
            return
        seen.add(function)
        for call in calls[function]:
            callee = functions.get(callee_of(call))
            if callee is not None:
                visit(callee, [*path, function])
        done.append(function)

    for function in functions.values():
        visit(function, [])
    return done[::-1], recursive
