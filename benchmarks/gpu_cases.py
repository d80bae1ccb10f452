"""What `benchmarks.gpu` measures: programs, their inputs, and the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tileloom import Schedule, te
from tileloom.plan import schedule_gpu
from tileloom.schedule.library import schedule_gpu_product
from tileloom.script import tir as T
from tileloom.target import Target
from tileloom.tir import PrimFunc

#: Name, shape and type of an array.
Spec = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Case:
    """One thing to compute.

    Attributes:
        name: a short unique name.
        make: the program, scheduled for a target.
        inputs: its inputs; they come before the output.
        output: its output.
        torch: the same in PyTorch: takes the module and the inputs, returns the output.
        moved: compulsory bytes.
        flops: operations, if units of arithmetic may be the limit.
        units: what does them: "float32", "tf32" or "float16".
        rtol, atol: how far the output may be off PyTorch's in float64 or float32.
        triton: the name of the kernel in `gpu_triton`, if there is one.
        deep: the length of sums, which inputs are scaled by.
    """

    name: str
    make: Callable[[Target], PrimFunc]
    inputs: Sequence[Spec]
    output: Spec
    torch: Callable[..., Any]
    flops: int = 0
    units: str = "float32"
    rtol: float = 1e-4
    atol: float = 1e-4
    triton: str = ""
    deep: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def moved(self) -> int:
        """Compulsory bytes: each array once."""
        total = 0
        for shape, kind in (*self.inputs, self.output):
            count = 1
            for extent in shape:
                count *= extent
            total += count * (2 if kind in ("float16", "bfloat16") else 4)
        return total


def cases(scale: int = 1) -> list[Case]:
    """All of them, with extents divided by `scale`."""
    n = 8192 // scale
    found = [
        add(n), gelu(n), softmax(n, 4096 // scale), softmax(2 * n, 1024 // scale),
        layer_norm(n, 4096 // scale), row_sum(n), column_sum(n), total(n), transpose(n),
        matmul(n // 2, "float32"), matmul(n, "float32", tf32=True), matmul(n, "float16"),
        matmul(n, "bfloat16"), matmul(n // 4, "bfloat16"), conv(max(1, 32 // scale)),
    ]  # fmt: skip
    return found


def grouped(arguments: Sequence[Any]) -> Callable[[Target], PrimFunc]:
    """A group of formulas and reductions, planned by the group planner."""

    def make(target: Target) -> PrimFunc:
        (func,) = schedule_gpu(te.create_prim_func(arguments), target).mod.functions.values()
        return func

    return make


# ---------------------------------------------------------------------------- formulas


def add(n: int) -> Case:
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    c = te.compute((n, n), lambda i, j: a[i, j] + b[i, j], name="c")
    spec: Spec = ((n, n), "float32")
    return Case(
        f"add {n}x{n}", grouped([a, b, c]), [spec, spec], spec,
        lambda torch, x, y: x + y, triton="add",
    )  # fmt: skip


def gelu(n: int) -> Case:
    a = te.placeholder((n, n), name="a")

    def formula(x: Any) -> Any:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + T.tanh(inner))

    b = te.compute((n, n), lambda i, j: formula(a[i, j]), name="b")
    spec: Spec = ((n, n), "float32")
    return Case(
        f"gelu {n}x{n}", grouped([a, b]), [spec], spec,
        lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"), triton="gelu",
    )  # fmt: skip


def transpose(n: int) -> Case:
    a = te.placeholder((n, n), name="a")
    b = te.compute((n, n), lambda i, j: a[j, i], name="b")
    spec: Spec = ((n, n), "float32")
    return Case(
        f"transpose {n}x{n}", grouped([a, b]), [spec], spec,
        lambda torch, x: x.t().contiguous(), triton="transpose",
    )  # fmt: skip


# ---------------------------------------------------------------------------- rows and sums


def softmax(rows: int, columns: int) -> Case:
    a = te.placeholder((rows, columns), name="a")
    j, k = (te.reduce_axis((0, columns), name=name) for name in "jk")
    top = te.compute((rows,), lambda i: te.max(a[i, j], axis=j), name="top")
    power = te.compute((rows, columns), lambda i, c: T.exp(a[i, c] - top[i]), name="power")
    whole = te.compute((rows,), lambda i: te.sum(power[i, k], axis=k), name="whole")
    out = te.compute((rows, columns), lambda i, c: power[i, c] / whole[i], name="out")
    spec: Spec = ((rows, columns), "float32")
    return Case(
        f"softmax {rows}x{columns}", grouped([a, out]), [spec], spec,
        lambda torch, x: torch.softmax(x, -1), triton="softmax",
    )  # fmt: skip


def layer_norm(rows: int, columns: int) -> Case:
    a = te.placeholder((rows, columns), name="a")
    scale, shift = (te.placeholder((columns,), name=name) for name in ("scale", "shift"))
    j, k = (te.reduce_axis((0, columns), name=name) for name in "jk")
    mean = te.compute((rows,), lambda i: te.sum(a[i, j], axis=j), name="mean")

    def centred(i: Any, c: Any) -> Any:
        return a[i, c] - mean[i] * (1.0 / columns)

    spread = te.compute(
        (rows,), lambda i: te.sum(centred(i, k) * centred(i, k), axis=k), name="spread"
    )

    def formula(i: Any, c: Any) -> Any:
        return centred(i, c) * T.rsqrt(spread[i] * (1.0 / columns) + 1e-5) * scale[c] + shift[c]

    out = te.compute((rows, columns), formula, name="out")
    spec: Spec = ((rows, columns), "float32")
    row: Spec = ((columns,), "float32")
    return Case(
        f"layer norm {rows}x{columns}", grouped([a, scale, shift, out]), [spec, row, row], spec,
        lambda torch, x, s, t: torch.nn.functional.layer_norm(x, (columns,), s, t, 1e-5),
        triton="layer_norm", rtol=1e-3, atol=1e-3,
    )  # fmt: skip


def _sum(name: str, n: int, axis: Any, shape: tuple[int, ...], index: Any, triton: str) -> Case:
    a = te.placeholder((n, n), name="a")
    over = [te.reduce_axis((0, n), name=f"k{k}") for k in range(2 if axis is None else 1)]
    out = te.compute(shape, lambda *i: te.sum(a[index(i, over)], axis=over), name="out")

    def in_torch(torch: Any, x: Any) -> Any:
        return x.sum().reshape(1) if axis is None else x.sum(axis)

    deep = n * n if axis is None else n
    return Case(
        f"{name} {n}x{n}", grouped([a, out]), [((n, n), "float32")], (shape, "float32"),
        in_torch, rtol=1e-3, atol=1e-5 * deep**0.5 * 10, triton=triton,
    )  # fmt: skip


def row_sum(n: int) -> Case:
    return _sum("row sums", n, 1, (n,), lambda i, k: (i[0], k[0]), "row_sum")


def column_sum(n: int) -> Case:
    return _sum("column sums", n, 0, (n,), lambda i, k: (k[0], i[0]), "")


def total(n: int) -> Case:
    return _sum("sum of all", n, None, (1,), lambda i, k: (k[0], k[1]), "")


# ---------------------------------------------------------------------------- products


def product(arguments: Sequence[Any], block: str, tf32: bool) -> Callable[[Target], PrimFunc]:
    """A function with a product of matrices in it."""

    def make(target: Target) -> PrimFunc:
        sch = Schedule(te.create_prim_func(arguments))
        schedule_gpu_product(sch, block, target, tf32=tf32)
        return sch.mod["main"]

    return make


def matmul(n: int, kind: str, tf32: bool = False) -> Case:
    """`a @ b`, summed in float32 and rounded to the operands' type."""
    a, b = (te.placeholder((n, n), kind, name=name) for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    wide = (lambda x: x) if kind == "float32" else (lambda x: x.astype("float32"))
    c = te.compute((n, n), lambda i, j: te.sum(wide(a[i, k]) * wide(b[k, j]), axis=k), name="c")  # type: ignore[no-untyped-call]
    last = c
    if kind != "float32":
        last = te.compute((n, n), lambda i, j: c[i, j].astype(kind), name="d")
    spec: Spec = ((n, n), kind)
    units = "tf32" if tf32 else "float32" if kind == "float32" else "float16"
    tolerance = {"float32": 1e-3, "tf32": 1e-2, "float16": 2e-2}[units]
    name = "tf32" if tf32 else kind

    def in_torch(torch: Any, x: Any, y: Any) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return x @ y

    return Case(
        f"matmul {name} {n}", product([a, b, last], "c", tf32), [spec, spec], spec, in_torch,
        2 * n**3, units, tolerance, tolerance, "matmul", deep=n, options={"tf32": tf32},
    )  # fmt: skip


def conv(images: int) -> Case:
    """The convolution of AKG's example: images of 32x32x64, 128 filters of 5x5, float16."""
    x = te.placeholder((images, 32, 32, 64), "float16", name="x")
    w = te.placeholder((128, 5, 5, 64), "float16", name="w")
    r, q, c = (
        te.reduce_axis((0, size), name=name) for size, name in zip((5, 5, 64), "rqc", strict=True)
    )
    shape = (images, 28, 28, 128)
    wide = te.compute(
        shape,
        lambda n, h, v, o: te.sum(
            x[n, h + r, v + q, c].astype("float32") * w[o, r, q, c].astype("float32"),
            axis=[r, q, c],
        ),
        name="wide",
    )
    y = te.compute(shape, lambda *i: wide[i].astype("float16"), name="y")
    flops = 2 * images * 28 * 28 * 128 * 5 * 5 * 64

    def in_torch(torch: Any, image: Any, filters: Any) -> Any:
        # cuDNN's own layout: the channels are last in memory, whatever the axes are called.
        found = torch.nn.functional.conv2d(image.permute(0, 3, 1, 2), filters.permute(0, 3, 1, 2))
        return found.permute(0, 2, 3, 1)

    return Case(
        f"conv {images}x28x28 64-128 5x5", product([x, w, y], "wide", False),
        [((images, 32, 32, 64), "float16"), ((128, 5, 5, 64), "float16")], (shape, "float16"),
        in_torch, flops, "float16", 2e-2, 2e-2, deep=5 * 5 * 64,
    )  # fmt: skip


__all__ = ["Case", "add", "cases"]
