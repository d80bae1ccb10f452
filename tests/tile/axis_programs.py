"""Programs of integer arithmetic on small tensors, their values by NumPy, and what AxisInfo says
checked on all of their elements."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tileloom.tile.analysis.axis_info import ModuleAxisInfo
from tileloom.tile.analysis.axis_lattice import WRAP, AxisInfo, AxisRun, lowest_bit, unit_of
from tileloom.tile.dialects.cf import block_operands
from tileloom.tile.dialects.functions import make_function, set_argument_attribute
from tileloom.tile.dialects.scf import ForLoop, IfBranches
from tileloom.tile.ir.attributes import DenseArrayAttr, EnumAttr, IntegerAttr
from tileloom.tile.ir.core import Block, Operation, Region, Value
from tileloom.tile.ir.definitions import definition_of
from tileloom.tile.ir.rewriter import OpBuilder
from tileloom.tile.ir.types import (
    I1,
    I8,
    I16,
    I32,
    I64,
    IntegerType,
    PointerType,
    TensorType,
    Type,
    element_bits,
    element_type,
)

Array = np.ndarray[Any, np.dtype[np.int64]]


class UndefinedError(Exception):
    """The program divides by zero, or shifts too far."""


# Values.


def wrapped(array: Any, bits: int) -> Array:
    """Integers as signed ones of some bits."""
    made: Array = np.asarray(array, np.int64)
    if bits == 1:
        made = made & 1
    elif bits < 64:
        half = 1 << (bits - 1)
        made = ((made + half) & ((1 << bits) - 1)) - half
    return made


def unsigned(array: Array, bits: int) -> Any:
    """Signed integers as unsigned ones."""
    return array.view(np.uint64) if bits == 64 else array & ((1 << bits) - 1)


def _quotient(x: Array, y: Array) -> tuple[Array, Array]:
    if not y.all():
        raise UndefinedError
    with np.errstate(over="ignore"):
        floor = x // y
        rest = x - floor * y
    up = (rest != 0) & ((x < 0) != (y < 0))
    return floor + up, np.where(up, rest - y, rest)


def _unsigned_quotient(x: Array, y: Array, bits: int, remainder: bool) -> Array:
    a, b = unsigned(x, bits), unsigned(y, bits)
    if not y.all():
        raise UndefinedError
    return np.asarray(a % b if remainder else a // b).astype(np.int64)


def _shift(x: Array, y: Array, bits: int, kind: str) -> Array:
    if (y < 0).any() or (y >= bits).any():
        raise UndefinedError
    if kind == "shli":
        return x << y
    if kind == "shrsi":
        return x >> y
    return np.asarray(unsigned(x, bits) >> y.astype(np.uint64 if bits == 64 else np.int64)).astype(
        np.int64
    )


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
}


def binary(name: str, x: Array, y: Array, bits: int) -> Array:
    """The result of `arith.<name>`, before it wraps around."""
    least = -1 << (bits - 1)
    if name in ("divsi", "remsi", "floordivsi") and ((x == least) & (y == -1)).any():
        raise UndefinedError
    if name in PLAIN:
        return np.asarray(PLAIN[name](x, y))
    if name in ("divsi", "remsi"):
        return _quotient(x, y)[name == "remsi"]
    if name == "floordivsi":
        if not y.all():
            raise UndefinedError
        return x // y
    if name in ("divui", "remui"):
        return _unsigned_quotient(x, y, bits, name == "remui")
    if name in ("maxui", "minui"):
        first = unsigned(x, bits) >= unsigned(y, bits)
        return np.where(first == (name == "maxui"), x, y)
    return _shift(x, y, bits, name)


def _constant(op: Operation, shape: tuple[int, ...]) -> Array:
    value: Any = op.attributes["value"]
    given = value.values if hasattr(value, "values") else (value.value,)
    flat = np.array(given, np.int64)
    return np.broadcast_to(flat[0], shape) if flat.size == 1 else flat.reshape(shape)


def evaluate(op: Operation, arrays: Sequence[Array]) -> Array:
    """The elements of the result of an operation without regions."""
    name, type = op.name.rpartition(".")[2], op.results[0].type
    shape = type.shape if isinstance(type, TensorType) else ()
    if name == "constant":
        return _constant(op, shape)
    if name == "make_range":
        return np.arange(op.integer("start"), op.integer("end"), dtype=np.int64)
    if name in ("splat", "broadcast"):
        return np.broadcast_to(arrays[0], shape)
    if name == "expand_dims":
        return np.expand_dims(arrays[0], op.integer("axis"))
    if name == "reshape":
        return arrays[0].reshape(shape)
    if name == "trans":
        return arrays[0].transpose(op.attributes["order"].values)  # type: ignore[attr-defined]
    if name == "select":
        return np.where(arrays[0] != 0, arrays[1], arrays[2])
    if name == "addptr":
        return arrays[0] + arrays[1] * unit_of(type)
    if name == "join":
        return np.stack(list(arrays), -1)
    bits = element_bits(op.operands[0].type)
    if name == "cmpi":
        return _comparison(op.enum("predicate") or "", arrays, bits)
    if name == "extsi":
        return -arrays[0] if bits == 1 else arrays[0]
    if name == "extui":
        return np.asarray(unsigned(arrays[0], bits)).astype(np.int64)
    if name == "trunci":
        return wrapped(arrays[0], element_bits(type))
    with np.errstate(over="ignore"):
        return wrapped(binary(name, arrays[0], arrays[1], bits), bits)


def _comparison(predicate: str, arrays: Sequence[Array], bits: int) -> Array:
    x, y = arrays
    if predicate in ("eq", "ne"):
        return np.asarray(COMPARISONS[predicate](x, y)).astype(np.int64)
    if predicate[0] == "u":
        x, y = unsigned(x, bits), unsigned(y, bits)
    elif bits == 1:
        x, y = -x, -y
    return np.asarray(COMPARISONS[predicate[1:]](x, y)).astype(np.int64)


class Execution:
    """Runs a function, and keeps all that each value was."""

    def __init__(self, steps: int = 200) -> None:
        self.seen: dict[Value, list[Array]] = {}
        self.now: dict[Value, Array] = {}
        self.left = steps

    def give(self, values: Sequence[Value], arrays: Iterable[Array]) -> None:
        """Lets values be arrays."""
        for value, array in zip(values, arrays, strict=True):
            self.now[value] = array
            self.seen.setdefault(value, []).append(array)

    def arrays(self, values: Sequence[Value]) -> list[Array]:
        """What values are now."""
        return [self.now[value] for value in values]

    def run(self, block: Block) -> list[Array]:
        """Runs the operations of a block, and gives what its terminator yields."""
        for op in block:
            self.left -= 1
            if self.left < 0:
                raise UndefinedError
            if op.name in ("cf.br", "cf.cond_br"):
                taken = op.name == "cf.br" or bool(self.now[op.operands[0]])
                index = 0 if taken else 1
                target = op.successors[index]
                self.give(target.arguments, self.arrays(block_operands(op, index)))
                return self.run(target)
            if op.definition.is_terminator:
                return self.arrays(op.operands)
            self.step(op)
        return []

    def step(self, op: Operation) -> None:
        """Runs an operation."""
        if op.name == "scf.for":
            self.loop(ForLoop(op))
        elif op.name == "scf.if":
            branches = IfBranches(op)
            block = branches.then_block if self.now[branches.condition] else branches.else_block
            self.give(op.results, self.run(block) if block is not None else [])
        elif op.name == "scf.while":
            before, after = (region.blocks[0] for region in op.regions)
            self.give(before.arguments, self.arrays(op.operands))
            condition, *values = self.run(before)
            while condition:
                self.give(after.arguments, values)
                self.give(before.arguments, self.run(after))
                condition, *values = self.run(before)
            self.give(op.results, values)
        elif op.results:
            self.give(op.results, [evaluate(op, self.arrays(op.operands))])

    def loop(self, loop: ForLoop) -> None:
        """Runs a loop."""
        carried = self.arrays(loop.inits)
        lower, upper, step = (int(a) for a in self.arrays([loop.lower, loop.upper, loop.step]))
        for i in range(lower, upper, step):
            self.give(loop.body.arguments, [np.array(i), *carried])
            carried = self.run(loop.body)
        self.give(loop.results, carried)


# Claims.


def false_claim(info: AxisInfo, array: Array, bits: int) -> str | None:
    """What AxisInfo says of an array that is not true, if there is anything."""
    array = array if array.ndim else array.reshape(1)
    if array.min() < info.low or array.max() > info.high:
        return f"bounds {info.low}..{info.high}"
    if len(info.runs) != array.ndim:
        return "rank"
    for d, axis in enumerate(info.runs):
        wrong = _false_run(axis, np.moveaxis(array, d, 0), min(bits, 32))
        if wrong:
            return f"{wrong} of {axis} along {d}"
    return None


def _false_run(axis: AxisRun, x: Array, bits: int) -> str | None:
    run, stride, exact, divisor = axis
    if x.shape[0] > 1 and run > 1:
        steps = x[1:] - x[:-1]
        index = np.arange(1, x.shape[0])
        inside = steps[index % run != 0]
        if ((inside - stride) & ((1 << bits) - 1)).any():
            return "stride"
        if (steps[index % exact != 0] != stride).any():
            return "exact stride"
    if (x[::run] & (divisor - 1)).any():
        return "divisor"
    short = min(divisor, lowest_bit(stride * exact), WRAP) if stride else divisor
    if (x[::exact] & (short - 1)).any():
        return "divisor of exact blocks"
    return None


def false_claims(function: Operation, execution: Execution) -> list[str]:
    """What AxisInfo says of a function that one execution refutes."""
    module = Operation(definition_of("builtin.module"), regions=[Region([Block()])])
    module.body.append(function)
    axis_info = ModuleAxisInfo(module)
    function.detach()
    found = []
    for value, arrays in execution.seen.items():
        info = axis_info.of(value)
        element = element_type(value.type)
        bits = element.bits if isinstance(element, IntegerType) else 64
        for array in arrays:
            wrong = false_claim(info, array, bits)
            if wrong:
                op = value.defining_op
                found.append(f"{op.name if op else 'argument'}: {wrong}\n{info}\n{array}")
                break
    return found


# Random programs.

NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 24, 31, 32, 48, 63, 64, 66, 100, 128, 256, 1024),
    *(-1, -2, -3, -4, -7, -8, -16, -32, -64, -100),
    *(2**15, 2**30, 2**31 - 1, -(2**31), 2**31 - 32, -(2**31) + 5, 0xFFF0),
)
SHAPES = ((32,), (64,), (8, 16), (16, 8), (4, 32), (2, 4, 8), (4, 4, 4), (16, 1), (128,))
BINARY = (
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "floordivsi"),
    *("andi", "ori", "xori", "shli", "shrsi", "shrui", "maxsi", "maxui", "minsi", "minui"),
)
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
KINDS = (
    *(["binary"] * 12),
    *("compare", "select", "select", "cast", "constant", "pointer", "shape", "shape", "splat"),
)


class Generator:
    """Makes a program, and runs it as it grows."""

    def __init__(self, seed: int, *, pointers: bool = True, narrow: bool = True) -> None:
        self.random = random.Random(seed)
        self.pointers = pointers
        self.narrow = narrow
        types: list[Type] = [I32, I32, PointerType(I32), PointerType(I8), I64]
        self.function = make_function("f", types)
        self.build = OpBuilder(self.function.body)
        self.execution = Execution()
        self.pools: dict[Type, list[Value]] = {}
        for index, argument in enumerate(self.function.body.arguments):
            divisor = self.random.choice((1, 2, 8, 16, 64))
            number = self.random.choice(NUMBERS) * divisor
            if index in (2, 3):
                number = self.random.randrange(1 << 20) * divisor
            attribute = IntegerAttr(divisor)
            set_argument_attribute(self.function, index, "tt.divisibility", attribute)
            array = wrapped(np.array(number), element_bits(argument.type))
            self.execution.give([argument], [array])
            self.keep(argument)
        self.shape = self.random.choice(SHAPES)

    def keep(self, value: Value) -> None:
        """Lets a value be an operand of what comes."""
        self.pools.setdefault(value.type, []).append(value)

    def emit(self, name: str, *operands: Value, type: Type | None = None, **attributes: Any) -> Any:
        """An operation, if its result is defined."""
        value = self.build(name, *operands, type=type, attributes=attributes)
        op = value.defining_op
        try:
            array = evaluate(op, self.execution.arrays(operands))  # type: ignore[arg-type]
        except UndefinedError:
            op.erase()  # type: ignore[union-attr]
            return None
        self.execution.give([value], [array])
        self.keep(value)
        return value

    def number(self, type: Type) -> Value:
        """A constant."""
        bits = element_bits(type)
        number = int(wrapped(self.random.choice(NUMBERS), bits))
        value = self.build.constant(number, type)
        op = value.defining_op
        self.execution.give([value], [evaluate(op, [])])  # type: ignore[arg-type]
        self.keep(value)
        return value

    def axis_range(self) -> Value:
        """A range along a dimension of the shape, spread over it."""
        d = self.random.randrange(len(self.shape))
        size = self.shape[d]
        start = self.random.choice((0, 0, 0, 0, 1, 16, 32, 100))
        bounds = {"start": IntegerAttr(start), "end": IntegerAttr(start + size)}
        value: Any = self.emit("tt.make_range", type=TensorType((size,), I32), **bounds)
        shape: tuple[int, ...] = (size,)
        for axis in range(len(self.shape)):
            if axis != d:
                place = min(axis, len(shape)) if axis > d else axis
                shape = (*shape[:place], 1, *shape[place:])
                value = self.emit(
                    *("tt.expand_dims", value),
                    type=TensorType(shape, I32),
                    axis=IntegerAttr(place),
                )
        if shape != self.shape:
            value = self.emit("tt.broadcast", value, type=TensorType(self.shape, I32))
        return value  # type: ignore[no-any-return]

    def any_tensor(self, *elements: Type) -> Value | None:
        """A tensor of the program, of some elements."""
        found = [
            value
            for type, values in self.pools.items()
            if isinstance(type, TensorType) and (not elements or type.element in elements)
            for value in values
        ]
        return self.random.choice(found) if found else None

    def partner(self, value: Value) -> Value:
        """An operand to go with another."""
        if self.random.random() < 0.45:
            return self.number(value.type)
        return self.random.choice(self.pools[value.type])

    def grow(self, steps: int) -> None:
        """Adds operations."""
        for _ in range(2):
            self.axis_range()
        for _ in range(steps):
            getattr(self, f"add_{self.random.choice(KINDS)}")()

    def add_binary(self) -> None:
        """Arithmetic."""
        scalar = self.random.random() < 0.12
        value = (
            self.random.choice(self.pools[I32]) if scalar else self.any_tensor(I32, I32, I64, I8)
        )
        if value is not None:
            other = self.partner(value)
            pair = (value, other) if self.random.random() < 0.8 else (other, value)
            self.emit(f"arith.{self.random.choice(BINARY)}", *pair)

    def add_compare(self) -> None:
        """A comparison."""
        value = self.any_tensor(I32, I64)
        if value is not None:
            predicate = EnumAttr("keyword", self.random.choice(PREDICATES))
            self.emit("arith.cmpi", value, self.partner(value), predicate=predicate)

    def add_select(self) -> None:
        """A selection by what is compared before."""
        value = self.any_tensor(I32, I64)
        if value is None or not isinstance(value.type, TensorType):
            return
        conditions = self.pools.get(TensorType(value.type.shape, I1), [])
        if not conditions:
            predicate = EnumAttr("keyword", self.random.choice(PREDICATES))
            self.emit("arith.cmpi", value, self.partner(value), predicate=predicate)
            return
        condition = self.random.choice(conditions)
        self.emit("arith.select", condition, value, self.partner(value), type=value.type)

    def add_cast(self) -> None:
        """Another width."""
        value = self.any_tensor(*((I1, I8, I16, I32, I64) if self.narrow else (I1, I32)))
        if value is None or not isinstance(value.type, TensorType):
            return
        bits = element_bits(value.type)
        wider = [t for t in ((I16, I32, I64) if self.narrow else (I32,)) if t.bits > bits]
        lower = [t for t in (I1, I8, I16, I32) if t.bits < bits] if self.narrow else []
        if wider and (not lower or self.random.random() < 0.6):
            name = self.random.choice(("extsi", "extui"))
            target = self.random.choice(wider)
        elif lower:
            name, target = "trunci", self.random.choice(lower)
        else:
            return
        self.emit(f"arith.{name}", value, type=value.type.with_element(target))

    def add_constant(self) -> None:
        """A constant, or a range."""
        if self.random.random() < 0.5:
            self.axis_range()
        else:
            self.number(TensorType(self.shape, I32))

    def add_pointer(self) -> None:
        """An address."""
        offset = self.any_tensor(I32, I64)
        if not self.pointers or offset is None or not isinstance(offset.type, TensorType):
            return
        if abs(self.execution.now[offset]).max() > 1 << 40:
            return
        scalar = self.random.choice((PointerType(I32), PointerType(I8)))
        type = offset.type.with_element(scalar)
        old = self.pools.get(type, [])
        base = self.random.choice(old) if old and self.random.random() < 0.5 else None
        if base is None:
            base = self.emit("tt.splat", self.random.choice(self.pools[scalar]), type=type)
        self.emit("tt.addptr", base, offset)

    def add_splat(self) -> None:
        """A scalar everywhere."""
        scalar = self.random.choice(self.pools[I32])
        self.emit("tt.splat", scalar, type=TensorType(self.shape, I32))

    def add_shape(self) -> None:
        """Another order, or another shape of the same size."""
        value = self.any_tensor(I32, I32, I64, I1)
        if value is None or not isinstance(value.type, TensorType):
            return
        type = value.type
        if type.rank > 1 and self.random.random() < 0.4:
            order = list(range(type.rank))
            self.random.shuffle(order)
            shape = tuple(type.shape[d] for d in order)
            target = TensorType(shape, type.element)
            self.emit("tt.trans", value, type=target, order=DenseArrayAttr(I32, order))
            return
        shapes = [s for s in SHAPES if np.prod(s) == type.size and s != type.shape]
        if shapes:
            target = TensorType(self.random.choice(shapes), type.element)
            self.emit("tt.reshape", value, type=target)
