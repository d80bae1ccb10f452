"""Small programs in flat form, run by the interpreter and as machine code."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileloom.base import dtype
from tileloom.driver import build
from tileloom.expr import Expr, Ramp, Var, const
from tileloom.tir import BufferLoad, BufferStore, For, PrimFunc, Stmt, make_buffer, seq
from tileloom.tir.run import run
from tir.programs import func

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
Formula = Callable[..., Expr]


def vector_index(base: Expr, lanes: int) -> Expr:
    return base if lanes == 1 else Ramp(base, const(1, base.dtype), lanes)


def ramp(base: Expr | int, lanes: int, stride: int = 1) -> Expr:
    base = const(base) if isinstance(base, int) else base
    return Ramp(base, const(stride, base.dtype), lanes)


def mapped(
    kinds: Sequence[str], formulas: Sequence[Formula], lanes: int, size: int, **attrs: Any
) -> PrimFunc:
    """out_k[i] = formulas[k](in_0[i], in_1[i], ...), `lanes` elements at a time."""
    inputs = [make_buffer((size,), kind, f"A{k}") for k, kind in enumerate(kinds)]
    i = Var("i")
    at = vector_index(i * lanes, lanes)
    values = [formula(*(BufferLoad(buffer, [at]) for buffer in inputs)) for formula in formulas]
    outputs = [make_buffer((size,), v.dtype.element, f"B{k}") for k, v in enumerate(values)]
    body = seq(*(BufferStore(b, v, (at,)) for b, v in zip(outputs, values, strict=True)))
    loop = For(i, const(0), const(size // lanes), "serial", body)
    program = func([*inputs, *outputs], loop)
    return program.replace(attrs={**program.attrs, **attrs})


def results_of(program: PrimFunc, inputs: Sequence[Any], kernel: Any = None) -> Any:
    """What the program writes into the buffers after those given, interpreted or by `kernel`."""
    outputs = [
        np.full(buffer.static_shape, 77, np.uint8).astype(buffer.dtype.numpy)  # type: ignore[type-var]
        for buffer in program.buffers[sum(isinstance(a, np.ndarray) for a in inputs) :]
    ]
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in inputs]
    if kernel is None:
        run(program, *given, *outputs)
    else:
        kernel(*given, *outputs)
    return outputs


def compare(program: PrimFunc, *inputs: Any, tolerance: float = 0.0, target: str = "cpu") -> Any:
    """The outputs of machine code, after a check that they are the interpreter's."""
    wanted = results_of(program, inputs)
    found = results_of(program, inputs, build(program, target))
    for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
        same(b, a, tolerance, f"output {k}")
    return found


def same(found: np.ndarray, wanted: np.ndarray, tolerance: float = 0.0, what: str = "") -> None:
    """Equal, NaN for NaN; floats within a relative error."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if not dtype(found.dtype).is_float:
        np.testing.assert_array_equal(found, wanted, what)
        return
    with np.errstate(all="ignore"):
        a, b = found.astype("f8"), wanted.astype("f8")
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=0, err_msg=what)


def edges(kind: str) -> np.ndarray:
    """Values of a type where something special happens."""
    element = dtype(kind)
    if element.is_bool:
        return np.array([False, True])
    if element.is_float:
        values = [0, -0.0, 1, -1, 1.5, -2.5, 3.7, 127.4, 128, -129, 255.5, 65504, -3e9, 1e10, 1e19]
        values += [3e38, -3e38, 1e-40, 1e-7, np.inf, -np.inf, np.nan]
        with np.errstate(all="ignore"):
            return np.array(values).astype(element.numpy)
    limits = np.iinfo(element.numpy)
    values = [limits.min, limits.min + 1, 0, 1, 2, 3, 7, 11, 100, limits.max // 2, limits.max]
    values += [] if element.is_unsigned else [-1, -2, -3, -7]
    return np.array(values, element.numpy)


def pairs(*kinds: str, multiple: int = 64) -> list[np.ndarray]:
    """All combinations of the edge values of these types, repeated to a multiple of lanes."""
    grids = np.meshgrid(*(np.arange(len(edges(kind))) for kind in kinds), indexing="ij")
    flat = [edges(kind)[grid.ravel()] for kind, grid in zip(kinds, grids, strict=True)]
    size = -(-len(flat[0]) // multiple) * multiple
    return [np.resize(array, size) for array in flat]


def at_page_end(array: np.ndarray, start: bool = False) -> np.ndarray:
    """A copy that ends (or starts) with a page; what lies behind (and before) the pages faults."""
    page = mmap.PAGESIZE
    size = -(-max(1, array.nbytes) // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for place in (base, base + page + size):
        assert libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0) == 0
    offset = page if start else page + size - array.nbytes
    result = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    result[...] = array
    return result


def stored(buffer: Any, index: Any, value: Any, predicate: Expr | None = None) -> Stmt:
    """buffer[index] = value."""
    index = const(index) if isinstance(index, int) else index
    value = const(value, buffer.dtype) if isinstance(value, (int, float)) else value
    return BufferStore(buffer, value, (index,), predicate)


def loaded(buffer: Any, index: Any, predicate: Expr | None = None) -> Expr:
    """buffer[index]."""
    return BufferLoad(buffer, [const(index) if isinstance(index, int) else index], predicate)
