"""The interpreter: programs of tile IR run on NumPy arrays, operation by operation.

A tensor is an array of its shape here; `threads.py` holds the elements by thread instead. What
operations compute is in `values.ELEMENTWISE` and in `RULES`; rules that look at whole tensors get
them by `collect` and give them back by `hold`, which are where the interpreters differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, UnsupportedError, UserError
from ..dialects.functions import callee_of, function_type, symbol_name
from ..ir.core import Block, Operation, Region, Value
from ..ir.types import PointerType, TensorDescType, TensorType, Type
from .memory import GlobalMemory
from .shared_arrays import SharedArrays
from .values import ELEMENTWISE, Array, ExecutionError, dtype_of, shape_of

Rule = Callable[["Interpreter", Operation, Sequence[Any]], Any]
RULES: dict[str, Rule] = {}
Grid = tuple[int, int, int]


def executes(*names: str) -> Callable[[Rule], Rule]:
    """Registers how operations run: their results, of the operands' values."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


class Interpreter:
    """Runs the functions of a module, for one program of the grid after another."""

    def __init__(
        self,
        module: Operation,
        memory: GlobalMemory,
        shared: SharedArrays,
        grid: Grid = (1, 1, 1),
        output: Callable[[str], None] = print,
        limit: int = 10_000_000,
    ) -> None:
        self.memory = memory
        self.shared = shared
        self.grid = grid
        self.program: Grid = (0, 0, 0)
        self.output = output
        self.left = limit
        self.values: dict[Value, Any] = {}
        self.functions = {
            symbol_name(op): op for op in module.walk() if op.name in ("tt.func", "func.func")
        }

    # Where the interpreters differ.

    # Whether an asynchronous copy writes its operand `other` where its mask does not hold; the
    # instruction writes zeros.
    copies_fill_with_other = True

    def hold(self, tensor: Array, type: Type) -> Array:
        """A whole tensor as a value of a type."""
        return tensor

    def collect(self, value: Array, type: Type) -> Array:
        """The whole tensor that a value of a type is."""
        return value

    def rearrange(
        self,
        op: Operation,
        index: int,
        move: Callable[..., Array],
        values: Sequence[Array],
        result: TensorType,
    ) -> Array:
        """Result `index`, whose elements are elements of the operands: `move` says which."""
        return move(*values)

    def check_copies(self, op: Operation, operands: Sequence[Array]) -> None:
        """Refuses operands whose elements differ between the threads that hold them."""

    def fold(
        self, op: Operation, values: Sequence[Array], combine: Callable[..., Sequence[Array]]
    ) -> list[Array]:
        """The results of a reduction along an axis."""
        axis = op.integer("axis")
        return fold_first([np.moveaxis(value, axis, 0) for value in values], combine)

    def check_product(self, op: Operation) -> None:
        """Refuses a product whose operands are not where its results are computed."""

    # Functions, blocks, operations.

    def function(self, name: str) -> Operation:
        """A function of the module that has a body."""
        found = self.functions.get(name)
        if found is None or not found.regions[0].blocks:
            known = ", ".join(f"@{other}" for other in self.functions)
            raise ArgumentError(f"there is no function @{name} to run", hint=f"there are {known}")
        return found

    def call(self, function: Operation, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function."""
        outer, self.values = self.values, {}
        try:
            _, results = self.run_region(function.regions[0], arguments)
        finally:
            self.values = outer
        return results

    def run_region(self, region: Region, arguments: Sequence[Any]) -> tuple[Operation, list[Any]]:
        """Runs a region to the terminator that leaves it; gives that and its operands."""
        block, given = region.blocks[0], arguments
        while True:
            last = self.run_block(block, given)
            if not last.successors:
                return last, self.read(last.operands)
            block, given = self._branch(last)

    def run_block(self, block: Block, arguments: Sequence[Any]) -> Operation:
        """Runs the operations of a block; gives its terminator."""
        for argument, value in zip(block.arguments, arguments, strict=True):
            self.values[argument] = value
        for op in block:
            if op.definition.is_terminator:
                return op
            self.execute(op)
        raise ExecutionError("a block has no terminator")

    def _branch(self, op: Operation) -> tuple[Block, list[Any]]:
        if op.name == "cf.br":
            return op.successors[0], self.read(op.operands)
        taken = truth(self.values[op.operands[0]])
        group = "taken" if taken else "other"
        return op.successors[0 if taken else 1], self.read(op.operand_group(group))

    def read(self, values: Iterable[Value]) -> list[Any]:
        """The values at hand of SSA values."""
        at_hand = self.values
        return [at_hand[value] for value in values]

    def execute(self, op: Operation) -> None:
        """Runs an operation."""
        self.left -= 1
        if self.left < 0:
            raise ExecutionError("the program runs for too long", span=op.describe_span())
        try:
            results = self.results_of(op, self.read(op.operands))
        except UserError as error:
            raise locate(error, op) from None
        for value, result in zip(op.results, results, strict=True):
            self.values[value] = result

    def results_of(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """The results of an operation whose operands have these values."""
        compute = ELEMENTWISE.get(op.name)
        if compute is not None:
            results = compute(op, operands)
        else:
            rule = RULES.get(op.name)
            if rule is None:
                raise UnsupportedError(f"'{op.name}' cannot be run")
            results = rule(self, op, operands)
        if isinstance(results, tuple | list):
            return results
        return () if results is None else (results,)

    # Blocks that are applied to elements.

    def combiner(self, region: Region) -> Callable[..., Sequence[Array]]:
        """The function of elements, or of arrays of them, that a region is."""
        simple = all(
            not op.regions and not op.successors for block in region.blocks for op in block
        )

        def apply(*arrays: Array) -> Sequence[Array]:
            if simple:
                results = self.run_region(region, arrays)[1]
                return [np.broadcast_to(r, np.shape(arrays[0])) for r in results]
            return self._one_by_one(region, arrays)

        return apply

    def _one_by_one(self, region: Region, arrays: Sequence[Array]) -> list[Array]:
        shape = np.shape(arrays[0])
        rows = [
            self.run_region(region, elements)[1]
            for elements in zip(*(np.asarray(a).reshape(-1) for a in arrays), strict=True)
        ]
        return [np.array(column).reshape(shape) for column in zip(*rows, strict=True)]


def fold_first(arrays: Sequence[Array], combine: Callable[..., Sequence[Array]]) -> list[Array]:
    """Combines the entries along the first axis, neighbours with neighbours."""
    count = len(arrays[0])
    while count > 1:
        half = count // 2
        made = combine(*(a[: 2 * half : 2] for a in arrays), *(a[1 : 2 * half : 2] for a in arrays))
        rest = [a[2 * half :] for a in arrays]
        arrays = [np.concatenate(pair) for pair in zip(made, rest, strict=True)]
        count = len(arrays[0])
    return [a[0] for a in arrays]


def truth(value: Array) -> bool:
    """A condition that control flow depends on."""
    if np.ndim(value):
        raise ExecutionError("control flow depends on a tensor")
    return bool(value)


def locate(error: UserError, op: Operation) -> UserError:
    """An error, with the operation and its place if it has none yet."""
    if getattr(error, "is_located", False):
        return error
    error.message = f"'{op.name}': {error.message}"
    error.args = (error.message,)
    error.span = error.span or op.describe_span()
    if error.span is None and error.hint is None:
        error.hint = f"the operation is {str(op).strip().splitlines()[0]}"
    error.is_located = True  # type: ignore[attr-defined]
    return error


class TensorDescriptor:
    """A tensor in global memory, by its first element's address, shape and strides."""

    def __init__(self, base: Array, shape: Sequence[Array], strides: Sequence[Array]) -> None:
        self.base = base
        self.shape = [int(extent) for extent in shape]
        self.strides = [int(stride) for stride in strides]


def argument_value(machine: Interpreter, given: Any, type: Type, name: str) -> Any:
    """What a function is given for an argument: the address of an array, a scalar, a tensor."""
    if isinstance(type, PointerType | TensorDescType):
        if not isinstance(given, np.ndarray):
            raise ArgumentError(f"{name} is a pointer: it takes an array, not {given!r}")
        address = np.int64(machine.memory.add(given, name))
        if isinstance(type, PointerType):
            return address
        strides = [stride // given.itemsize for stride in given.strides]
        return TensorDescriptor(address, given.shape, strides)
    value = np.asarray(given).astype(dtype_of(type))
    if value.shape != shape_of(type):
        raise ArgumentError(f"{name} has shape {value.shape}, not {shape_of(type)}")
    return machine.hold(value, type) if isinstance(type, TensorType) else value


def run_with(
    machine: Interpreter, name: str, arguments: Sequence[Any]
) -> list[np.ndarray[Any, Any]]:
    """Runs a function for every program of the grid, x fastest."""
    function = machine.function(name)
    type = function_type(function)
    if len(arguments) != len(type.inputs):
        raise ArgumentError(f"@{name} takes {len(type.inputs)} arguments, not {len(arguments)}")
    results: list[Any] = []
    with np.errstate(all="ignore"):
        given = [
            argument_value(machine, argument, kind, f"argument {index} of @{name}")
            for index, (argument, kind) in enumerate(zip(arguments, type.inputs, strict=True))
        ]
        for z, y, x in product(*(range(extent) for extent in reversed(machine.grid))):
            machine.program = (x, y, z)
            machine.shared.start_program()
            results = machine.call(function, given)
            machine.shared.finish_program()
        return [
            machine.collect(value, kind) for value, kind in zip(results, type.results, strict=True)
        ]


def complete_grid(grid: Sequence[int]) -> Grid:
    """A grid of three dimensions."""
    if not 1 <= len(grid) <= 3 or math.prod(grid) < 1:
        raise ArgumentError(f"a grid has up to three positive extents, not {tuple(grid)}")
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


@executes("tt.call", "func.call")
def _call(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Any]:
    return machine.call(machine.function(callee_of(op)), operands)


@executes("scf.for")
def _loop(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Any]:
    lower, upper, step = operands[:3]
    carried = list(operands[3:])
    if step <= 0:
        raise ExecutionError(f"the step of a loop is {step}")
    for index in range(int(lower), int(upper), int(step)):
        _, carried = machine.run_region(op.regions[0], [lower.dtype.type(index), *carried])
    return carried


@executes("scf.while")
def _while(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Any]:
    carried = list(operands)
    while True:
        _, (condition, *given) = machine.run_region(op.regions[0], carried)
        if not truth(condition):
            return given
        _, carried = machine.run_region(op.regions[1], given)


@executes("scf.if")
def _if(machine: Interpreter, op: Operation, operands: Sequence[Any]) -> list[Any]:
    region = op.regions[0 if truth(operands[0]) else 1]
    return machine.run_region(region, ())[1] if region.blocks else []
