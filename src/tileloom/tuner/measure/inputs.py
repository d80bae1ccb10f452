"""Random inputs of a program, and memory that notices who writes beside it.

Floats have short significands, so that products and their sums are exact in whatever order they
are added: then a schedule that sums otherwise gives the same number, and one that forgets a term
another. Integers are small and not zero, unless the program uses them as indices or as extents:
those lie within what they index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...base.dtype import DType
from ...base.errors import UnsupportedError
from ...expr import Expr, IntImm, post_order
from ...runtime.params import ParamSpec
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    collect,
    collect_exprs,
    stmt_children,
    stmt_exprs,
)

Array = np.ndarray[Any, Any]

#: Floats are multiples of one over this.
_STEPS = {"float64": 16, "float32": 16, "float16": 4}
_FEW_STEPS = 2  # of types with fewer bits
_SMALL = 4  # the greatest integer
_SHORT = 8  # the greatest extent of a loop that is an input, and no index
_GUARD = 4096  # bytes on both sides of an array, which is aligned to as many
_PATTERN = 0xA5


@dataclass(frozen=True)
class Ranges:
    """Which of the values that suit a type inputs have.

    Attributes:
        positive: floats are greater than zero.
        indices: of integers used as indices, only the first one in so many.
    """

    positive: bool = False
    indices: int = 1


#: What is tried, one after the other, until a program makes something of its inputs: logarithms
#: want positive numbers, and `A[2 * B[i]]` less than the extent of A.
TRIED = (Ranges(), Ranges(positive=True), Ranges(True, 4), Ranges(True, 64), Ranges(True, 1 << 62))


def random_inputs(
    func: PrimFunc, params: Sequence[ParamSpec], seed: int, ranges: Ranges = TRIED[0]
) -> list[Any]:
    """An argument for each parameter, the same for the same program and seed on every machine.

    Args:
        func: the program.
        params: what it takes, of static shapes.
        seed: of the numbers.
        ranges: which numbers.

    Raises:
        UnsupportedError: a shape is open, or a parameter is no array or number.
    """
    random = np.random.default_rng(seed)
    bounds = index_bounds(func)
    return [_argument(param, bounds.get(param.name), random, ranges) for param in params]


def _argument(
    param: ParamSpec, bound: int | None, random: np.random.Generator, ranges: Ranges
) -> Any:
    shape = [extent for extent in param.shape if isinstance(extent, int)]
    if param.kind == "map" or param.implicit or len(shape) < len(param.shape):
        raise UnsupportedError(
            f"the parameter {param.name!r} ({param}) is not of a known size",
            hint="specialize the program: func.specialize({n: 128})",
        )
    if param.strides is not None:
        raise UnsupportedError(f"the parameter {param.name!r} has strides of its own")
    if not param.is_buffer:
        return _values((), param.dtype, bound, random, ranges)[()]
    shape += [param.dtype.lanes] if param.dtype.is_vector else []
    array = guarded(tuple(shape), param.dtype)
    array[...] = _values(tuple(shape), param.dtype, bound, random, ranges)
    return array


def _values(
    shape: tuple[int, ...],
    element: DType,
    bound: int | None,
    random: np.random.Generator,
    ranges: Ranges,
) -> Array:
    kind = element.numpy
    if element.is_bool:
        return random.integers(0, 2, shape).astype(kind)
    if element.is_float:
        steps = _STEPS.get(element.element, _FEW_STEPS)
        low = 1 if ranges.positive else -steps
        return (random.integers(low, steps + 1, shape) / steps).astype(kind)
    if bound is not None:
        return random.integers(0, max(1, bound // ranges.indices), shape).astype(kind)
    drawn = random.integers(1, _SMALL, shape, endpoint=True)
    if not element.is_unsigned:
        drawn *= random.choice([-1, 1], shape)
    return drawn.astype(kind)


# ---------------------------------------------------------------------------- integers as indices


def index_bounds(func: PrimFunc) -> dict[str, int]:
    """The parameters that decide which elements are accessed, and what they have to stay below.

    >>> from tileloom.script import parse
    >>> gather = parse('''
    ... @T.prim_func
    ... def gather(A: T.Buffer((9,)), rows: T.Buffer((4,), "int32"), C: T.Buffer((4,))):
    ...     for i in range(4):
    ...         C[i] = A[rows[i]]
    ... ''')
    >>> index_bounds(gather)
    {'rows': 9}
    """
    names: dict[Any, str] = {buffer.data: buffer.name for buffer in func.buffers}
    names |= {param: param.name for param in func.params if param not in func.buffer_map}
    bounds: dict[str, int] = {}
    for index, extent in _uses_as_index(func):
        for name in _named(index, names):
            bounds[name] = min(extent, bounds.get(name, extent))
    for loop in collect(func.body, For):
        for name in (*_named(loop.min, names), *_named(loop.extent, names)):
            bounds.setdefault(name, _SHORT)
    return bounds


def _named(index: Expr, names: Mapping[Any, str]) -> Iterator[str]:
    """The parameters that an index is made of, without those that index these in turn."""
    key = index.buffer.data if isinstance(index, BufferLoad) else index
    if key in names:
        yield names[key]
    for child in () if isinstance(index, BufferLoad) else index.children:
        yield from _named(child, names)


def _uses_as_index(func: PrimFunc) -> Iterator[tuple[Expr, int]]:
    """Expressions that a program indexes by, and what they are to stay below."""
    for load in collect_exprs(func.body, BufferLoad):
        yield from _with_extents(load.indices, load.buffer.shape)
    for store in collect(func.body, BufferStore):
        yield from _with_extents(store.indices, store.buffer.shape)
    for realize in collect(func.body, BlockRealize):
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if axis.dom is not None:
                yield from _with_extents([value], [axis.dom.extent])


def _with_extents(indices: Sequence[Expr], extents: Sequence[Expr]) -> Iterator[tuple[Expr, int]]:
    for index, extent in zip(indices, extents, strict=True):
        if isinstance(extent, IntImm):
            yield index, extent.value


# ---------------------------------------------------------------------------- what is overwritten


def inputs_overwritten(func: PrimFunc) -> frozenset[str]:
    """The parameters that a program reads and overwrites, so that a second call reads others.

    A sum that its block begins with an `init` is no such thing; what a block has written before
    another reads it may be called one without harm.

    >>> from tileloom.script import parse
    >>> step = parse('''
    ... @T.prim_func
    ... def step(A: T.Buffer((9,)), B: T.Buffer((9,)), C: T.Buffer((9,))):
    ...     for i in range(9):
    ...         A[i] = A[i] * B[i]
    ...         C[i] = B[i]
    ... ''')
    >>> sorted(inputs_overwritten(step))
    ['A']
    """
    begun = {
        (id(block), store.buffer)
        for block in collect(func.body, Block)
        if block.init is not None
        for store in collect(block.init, BufferStore)
    }
    read = {buffer for block, buffer in _reads(func.body, 0) if (block, buffer) not in begun}
    written = {store.buffer.data for store in collect(func.body, BufferStore)}
    return frozenset(b.name for b in func.buffers if b.data in written and b in read)


def _reads(stmt: Stmt, block: int) -> Iterator[tuple[int, Buffer]]:
    """The buffers that statements load from, each with the block that does so."""
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if isinstance(part, BufferLoad):
                yield block, part.buffer
    for child in stmt_children(stmt):
        yield from _reads(child, id(stmt) if isinstance(stmt, Block) else block)


# ---------------------------------------------------------------------------- guarded memory


def guarded(shape: Sequence[int], element: DType) -> Array:
    """An array of which `is_intact` can say whether anybody wrote just before or behind it."""
    kind = element.numpy
    size = prod(shape) * kind.itemsize
    memory = np.full(size + 3 * _GUARD, _PATTERN, np.uint8)
    start = _GUARD + -memory.ctypes.data % _GUARD
    array: Array = memory[start : start + size].view(kind).reshape(tuple(shape))
    return array


def is_intact(array: Array) -> bool:
    """Whether what lies around an array that `guarded` has made is as it was.

    >>> from tileloom.base.dtype import dtype
    >>> array = guarded((3,), dtype("float32"))
    >>> array.base[array.ctypes.data - array.base.ctypes.data - 1] = 0
    >>> is_intact(array)
    False
    """
    return all(bool((guard == _PATTERN).all()) for guard in _guards(array))


def _guards(array: Array) -> tuple[Array, Array]:
    memory = array
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    start = array.ctypes.data - memory.ctypes.data
    return memory[:start], memory[start + array.nbytes :]


def refill(arguments: Sequence[Any], values: Sequence[Any]) -> None:
    """Make arrays that `copy_inputs` has made what they were, and what lies around them."""
    for array, value in zip(arguments, values, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = value
            for guard in _guards(array):
                guard[...] = _PATTERN


def copy_inputs(values: Sequence[Any], params: Sequence[ParamSpec]) -> list[Any]:
    """The same arguments in memory of their own."""
    copies = []
    for value, param in zip(values, params, strict=True):
        if isinstance(value, np.ndarray):
            copy = guarded(value.shape, param.dtype)
            copy[...] = value
            value = copy
        copies.append(value)
    return copies
