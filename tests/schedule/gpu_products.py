"""Products of matrices and convolutions, what they should be, and what to ask of their kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from gpu import assemble, spills
from tileloom import te
from tileloom.driver import assembly
from tileloom.expr import Call, Expr, Var, const, free_vars
from tileloom.expr.evaluate import evaluate
from tileloom.lower import lower
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.target import target
from tileloom.tir import Evaluate, PrimFunc, collect

GPU = target("cuda -arch=sm_80")
WIDE = {"int8": "int32", "uint8": "int32"}


def numpy_type(kind: str) -> Any:
    return getattr(ml_dtypes, kind, None) or np.dtype(kind)


def numbers(shape: tuple[int, ...], kind: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind in WIDE:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max + 1, shape).astype(kind)
    return rng.standard_normal(shape).astype(numpy_type(kind))


@dataclass
class Program:
    """A function, arguments for it, and what computes its result."""

    func: PrimFunc
    inputs: list[np.ndarray]
    expected: Callable[[], np.ndarray]

    @cached_property
    def wanted(self) -> np.ndarray:
        """The result."""
        return self.expected()

    def check(self, sch: Schedule, tolerance: float = 1e-5, **options: Any) -> PrimFunc:
        """Run the schedule on the emulator; the flat code."""
        flat = lower(sch.mod["main"], GPU)
        kind = self.func.buffers[-1].dtype
        result = np.full(self.wanted.shape, 0 if kind.is_int else np.nan, kind.numpy)
        run_kernels(flat, *self.inputs, result, **options)
        scale = max(1.0, float(np.abs(self.wanted).max(initial=0)))
        wide = np.float64
        np.testing.assert_allclose(
            result.astype(wide) / scale, self.wanted.astype(wide) / scale, 0, tolerance
        )
        return flat


Epilogue = Callable[[Any, tuple[Any, ...]], Any]


def matmul(
    m: int,
    n: int,
    k: int,
    kind: str = "float32",
    total: str | None = None,
    trans: str = "",
    batch: tuple[int, ...] = (),
    swapped: bool = False,
) -> Program:
    """`C = A @ B`; "a" or "b" in `trans` is stored transposed; `swapped` factors are `B * A`."""
    total = total or kind
    shapes = [(*batch, *s) for s in ((k, m) if "a" in trans else (m, k),
                                     (n, k) if "b" in trans else (k, n))]  # fmt: skip
    a, b = (te.placeholder(s, kind, name=name) for s, name in zip(shapes, "AB", strict=True))
    r = te.reduce_axis((0, k), name="k")

    def term(*index: Any) -> Any:
        *at, i, j = index
        left = a[(*at, r, i)] if "a" in trans else a[(*at, i, r)]
        right = b[(*at, j, r)] if "b" in trans else b[(*at, r, j)]
        pair = [x.astype(total) for x in ((right, left) if swapped else (left, right))]
        return te.sum(pair[0] * pair[1], axis=r)

    c = te.compute((*batch, m, n), term, name="C")
    x, y = numbers(shapes[0], kind, 1), numbers(shapes[1], kind, 2)
    wide = np.int64 if kind in WIDE else np.float64
    left = np.swapaxes(x, -1, -2) if "a" in trans else x
    right = np.swapaxes(y, -1, -2) if "b" in trans else y
    func = te.create_prim_func([a, b, c])
    return Program(func, [x, y], lambda: left.astype(wide) @ right.astype(wide))


def convolution(
    shape: tuple[int, int, int, int],
    filters: tuple[int, int, int],
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    kind: str = "float16",
    order: str = "hwc",
    channels_first: bool = False,
) -> Program:
    """Images [n, h, w, c] and filters [o, r, q, c], the result rounded to the type of both.

    Args:
        filters: o, r, q.
        order: of the reduction: "c", "h" and "w".
        channels_first: images are [n, c, h, w], filters [o, c, r, q].
    """
    w: Any
    h: Any
    n, h, w, c = shape
    taps: Any
    o, taps = filters[0], filters[1:]
    high, wide = ((size + 2 * padding - dilation * (tap - 1) - 1) // stride + 1
                  for size, tap in zip((h, w), taps, strict=True))  # fmt: skip
    first = channels_first
    image = te.placeholder((n, c, h, w) if first else shape, kind, name="X")
    weight = te.placeholder((o, c, *taps) if first else (o, *taps, c), kind, name="W")
    source = _padded(image, padding, 2 if first else 1) if padding else image
    axes = {
        name: te.reduce_axis((0, size), name=f"r{name}")
        for name, size in zip("hwc", (*taps, c), strict=True)
    }
    r, q, d = (axes[name] for name in "hwc")

    def total(*at: Any) -> Any:
        b, y, x, f = (at[0], at[2], at[3], at[1]) if first else at
        place = (y * stride + r * dilation, x * stride + q * dilation)
        left = source[(b, d, *place) if first else (b, *place, d)]
        right = weight[(f, d, r, q) if first else (f, r, q, d)]
        value = left.astype("float32") * right.astype("float32")
        return te.sum(value, axis=[axes[name] for name in order])

    shape_out = (n, o, high, wide) if first else (n, high, wide, o)
    result = te.compute(shape_out, total, name="Y")
    out = te.compute(shape_out, lambda *at: result[at].astype(kind), name="Z")
    x, f = (
        numbers(tuple(int(size) for size in one.shape), kind, seed)
        for seed, one in enumerate((image, weight), 1)
    )
    func = te.create_prim_func([image, weight, out])
    if not first:
        return Program(func, [x, f], lambda: reference(x, f, stride, padding, dilation))
    last: list[Any] = [np.moveaxis(v, 1, -1) for v in (x, f)]
    return Program(
        func,
        [x, f],
        lambda: np.moveaxis(reference(*last, stride, padding, dilation), -1, 1),  # type: ignore[call-arg]
    )


def _padded(image: Any, padding: int, axis: int) -> Any:
    sizes = [int(size) for size in image.shape]
    larger = [s + 2 * padding * (axis <= k < axis + 2) for k, s in enumerate(sizes)]

    def value(*at: Any) -> Any:
        inside = [T.all(at[k] >= padding, at[k] < sizes[k] + padding) for k in (axis, axis + 1)]
        there = [i - padding * (axis <= k < axis + 2) for k, i in enumerate(at)]
        return T.if_then_else(T.all(*inside), image[tuple(there)], const(0, image.dtype))

    return te.compute(tuple(larger), value, name="P")


def reference(x: np.ndarray, f: np.ndarray, stride: int, padding: int, dilation: int) -> Any:
    """The convolution by NumPy, in float64; channels last."""
    x = np.pad(x.astype(np.float64), ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    _, r, q, _ = f.shape
    window = np.lib.stride_tricks.sliding_window_view(
        x, (dilation * (r - 1) + 1, dilation * (q - 1) + 1), (1, 2)
    )[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return np.einsum("nhwcrq,orqc->nhwo", window, f.astype(np.float64), optimize=True)


# ---------------------------------------------------------------------------- kernels


def said_of(sch: Schedule, arch: str, tmp_path: Path) -> str:
    """What the assembler says of a schedule, which must not spill."""
    ptx = assembly(sch.mod, f"cuda -arch={arch}")
    assert ".local" not in ptx, "sums and fragments are in registers"
    said = assemble(ptx, arch, tmp_path)
    assert not spills(said), said
    return said


def registers(said: str) -> int:
    """Registers of a thread, of the kernel that has most."""
    return max(int(count) for count in re.findall(r"Used (\d+) registers", said))


def calls(flat: PrimFunc, op: str) -> list[Call]:
    """The calls of an operation."""
    found = [node.value for node in collect(flat.body, Evaluate)]
    return [call for call in found if isinstance(call, Call) and call.op == op]


def lanes(index: Expr, threads: Mapping[str, int]) -> np.ndarray:
    """An index for the 32 threads of a warp; other variables are 0, threads as given."""
    env: dict[Var, Any] = {var: threads.get(var.name, 0) for var in free_vars(index)}
    lane = [var for var in env if var.name == "threadIdx_x"]
    return np.array([evaluate(index, env | dict.fromkeys(lane, k)) for k in range(32)])


def conflict_free(flat: PrimFunc) -> bool:
    """Whether eight rows of 16 bytes that `ldmatrix` takes together are in eight groups of banks.

    The eight threads of a matrix say where its rows are.
    """
    for call in calls(flat, "tir.ptx_ldmatrix"):
        pointer, more = call.args[5], call.args[6]
        size = pointer.args[0].dtype.bits // 8 if isinstance(pointer, Call) else 1
        start = pointer.args[2] if isinstance(pointer, Call) else const(0)
        for warp in (0, 1):
            at = lanes(start + more, {"threadIdx_y": warp}) * size
            if (at % 16).any() or any(len(set(row)) != 8 for row in (at // 16 % 8).reshape(4, 8)):
                return False
    return True


def barriers(flat: PrimFunc) -> int:
    """Barriers in the code of a kernel, each counted once."""
    return len(calls(flat, "tir.tvm_storage_sync"))
