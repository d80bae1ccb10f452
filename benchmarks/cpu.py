"""CPU kernels against PyTorch eager, NumPy and ONNX Runtime: `python -m benchmarks.cpu`.

With `--results` it also measures how long starting takes and writes benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tileloom import numpy as tnp
from tileloom.cli import programs

from . import harness_cli, peers, windows
from .harness import Workload

RESULTS = Path(__file__).parent / "RESULTS.md"

#: What is asked for: at least this many times as fast as PyTorch eager.
BARS = {
    "chain8_*": 1.0, "bias_gelu_*": 1.0, "softmax_*": 1.0, "layer_norm_*": 1.0, "sum_*": 1.0,
    "matmul_*": 0.6, "conv_*": 0.4, "encoder_*": 0.6,
}  # fmt: skip


def normal(*shapes: tuple[int, ...]) -> Any:
    """A maker of arrays of normally distributed singles."""
    return lambda rng: tuple(rng.standard_normal(s, np.float32) for s in shapes)


def wide(function: Any) -> Any:
    """The function computed in float64."""
    return lambda *inputs: function(*(x.astype(np.float64) for x in inputs))


# ---------------------------------------------------------------------------- elementwise, rows


def chain8(x: Any, y: Any) -> Any:
    """Eight operations, three of them costly."""
    return np.tanh(np.abs(x * y + x) - 0.5) * np.exp(-(y * y))


def _torch_chain8(torch: Any) -> Any:
    return lambda x, y: torch.tanh(torch.abs(x * y + x) - 0.5) * torch.exp(-(y * y))


def exact_gelu(x: Any, bias: Any) -> Any:
    """gelu(x + bias) in float64, by the error function."""
    from math import erf

    values = x.astype(np.float64) + bias
    table = np.linspace(-6, 6, 200_001)
    normal_part = np.array([0.5 * (1 + erf(t / 2**0.5)) for t in table])
    return values * np.interp(values, table, normal_part)


def elementwise() -> list[Workload]:
    """Rows that read and write memory once."""

    count, rows = 1 << 24, (8, 1024, 3072)
    return [
        Workload(
            "chain8_16M",
            normal((count,), (count,)),
            wide(chain8),
            {
                "tileloom": peers.tileloom(chain8),
                "torch": peers.torch(_torch_chain8),
                "numpy": peers.numpy(chain8),
            },
            moved=3 * 4 * count,
        ),
        Workload(
            "bias_gelu_8x1024x3072",
            normal(rows, (3072,)),
            exact_gelu,
            {
                "tileloom": peers.tileloom(lambda x, b: tnp.gelu(x + b)),
                "torch": peers.torch(lambda torch: lambda x, b: torch.nn.functional.gelu(x + b)),
                "onnxruntime": peers.onnxruntime(
                    lambda node: [node("Add", ["x0", "x1"], ["s"]), node("Gelu", ["s"], ["y"])]
                ),
            },
            moved=2 * 4 * int(np.prod(rows)),
        ),
        Workload(
            "softmax_4096x4096",
            normal((4096, 4096)),
            wide(programs.softmax),
            {
                "tileloom": peers.tileloom(lambda x: tnp.softmax(x)),
                "torch": peers.torch(lambda torch: lambda x: torch.softmax(x, -1)),
                "numpy": peers.numpy(programs.softmax),
                "onnxruntime": peers.onnxruntime(lambda node: [node("Softmax", ["x0"], ["y"])]),
            },
            moved=2 * 4 << 24,
        ),
        Workload(
            "layer_norm_8x1024x768",
            normal((8, 1024, 768), (768,), (768,)),
            wide(programs.layer_norm),
            {
                "tileloom": peers.tileloom(lambda x, g, b: tnp.layer_norm(x, g, b)),
                "torch": peers.torch(
                    lambda torch: lambda x, g, b: torch.nn.functional.layer_norm(x, (768,), g, b)
                ),
                "numpy": peers.numpy(programs.layer_norm),
                "onnxruntime": peers.onnxruntime(
                    lambda node: [
                        node("LayerNormalization", ["x0", "x1", "x2"], ["y"], epsilon=1e-5)
                    ]
                ),
            },
            moved=2 * 4 * 8 * 1024 * 768,
        ),
        *(reduction(axis) for axis in (0, 1, None)),
        *(argmax(axis) for axis in (0, 1)),
    ]


def reduction(axis: int | None) -> Workload:
    """The sum of a matrix along an axis."""

    def torch_sum(torch: Any) -> Any:
        return lambda x: torch.sum(x) if axis is None else torch.sum(x, axis)

    return Workload(
        f"sum_{'all' if axis is None else f'axis{axis}'}_4096x4096",
        normal((4096, 4096)),
        wide(lambda x: np.sum(x, axis=axis)),
        {
            "tileloom": peers.tileloom(lambda x: tnp.sum(x, axis=axis)),
            "torch": peers.torch(torch_sum),
            "numpy": peers.numpy(lambda x: np.sum(x, axis=axis)),
        },
        rtol=1e-3,
        atol=2e-2,
        moved=4 << 24,
    )


def argmax(axis: int) -> Workload:
    """Where the largest elements of a matrix are along an axis."""
    return Workload(
        f"argmax_axis{axis}_4096x4096",
        normal((4096, 4096)),
        lambda x: np.argmax(x, axis=axis),
        {
            "tileloom": peers.tileloom(lambda x: tnp.argmax(x, axis=axis)),
            "torch": peers.torch(lambda torch: lambda x: torch.argmax(x, axis)),
            "numpy": peers.numpy(lambda x: np.argmax(x, axis=axis)),
            "onnxruntime": peers.onnxruntime(
                lambda node: [node("ArgMax", ["x0"], ["y"], axis=axis, keepdims=0)], kind="int64"
            ),
        },
        moved=4 << 24,
    )


# ---------------------------------------------------------------------------- products


def matmul(size: int) -> Workload:
    """A square product."""
    return Workload(
        f"matmul_{size}",
        normal((size, size), (size, size)),
        wide(np.matmul),
        {
            "tileloom": peers.tileloom(lambda a, b: a @ b),
            "torch": peers.torch(lambda torch: torch.matmul),
            "numpy": peers.numpy(np.matmul),
        },
        atol=1e-3,
        flops=2 * size**3,
    )


def narrow(kind: str, *shapes: tuple[int, ...]) -> Any:
    """A maker of normally distributed arrays of bfloat16, or of bytes of all values."""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        if kind == "bfloat16":
            return tuple(
                rng.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes
            )
        info = np.iinfo(kind)
        return tuple(rng.integers(info.min, info.max, s, kind, endpoint=True) for s in shapes)

    return make


def bfloat16_matmul(size: int) -> Workload:
    """A square product of bfloat16, summed in float32."""
    return Workload(
        f"matmul_bfloat16_{size}",
        narrow("bfloat16", (size, size), (size, size)),
        wide(np.matmul),
        {
            "tileloom": peers.tileloom(lambda a, b: a @ b),
            "torch": peers.torch(lambda torch: torch.matmul),
        },
        rtol=1e-2,
        atol=1e-2,
        flops=2 * size**3,
    )


def int8_matmul(size: int) -> Workload:
    """A square product of bytes in int32."""
    return Workload(
        f"matmul_int8_{size}",
        narrow("int8", (size, size), (size, size)),
        lambda a, b: a.astype(np.int64) @ b.astype(np.int64),
        {
            "tileloom": peers.tileloom(lambda a, b: a.astype("int32") @ b.astype("int32")),
            "torch": peers.torch(lambda torch: torch._int_mm),
            "onnxruntime": peers.onnxruntime(
                lambda node: [node("MatMulInteger", ["x0", "x1"], ["y"])], kind="int32"
            ),
        },
        rtol=0,
        atol=0,
        flops=2 * size**3,
    )


def gemv(kind: str, turned: bool, size: int = 4096) -> Workload:
    """A row times a square matrix, which lies as it is written or as a layer's weight does."""
    make = normal if kind == "float32" else partial(narrow, kind)
    how = "weight" if turned else "matrix"

    def product(x: Any, w: Any) -> Any:
        return x @ (w.T if turned else w)

    return Workload(
        f"gemv_{how}_{kind}_{size}",
        make((1, size), (size, size)),
        wide(product),
        {
            "tileloom": peers.tileloom(product),
            "torch": peers.torch(lambda torch: product),
            **({} if kind == "bfloat16" else {"numpy": peers.numpy(product)}),
        },
        rtol=1e-2 if kind == "bfloat16" else 1e-4,
        atol=0.5 if kind == "bfloat16" else 1e-2,
        moved=size * size * (2 if kind == "bfloat16" else 4),
    )


#: ResNet-18's different convolutions: channels in, out, image, window, stride.
RESNET18 = (
    (3, 64, 224, 7, 2), (64, 64, 56, 3, 1), (64, 128, 56, 3, 2), (64, 128, 56, 1, 2),
    (128, 128, 28, 3, 1), (256, 256, 14, 3, 1), (512, 512, 7, 3, 1),
)  # fmt: skip


def convolution(inner: int, outer: int, image: int, window: int, stride: int) -> Workload:
    """One image through one layer, whose weights are constants."""

    rng = np.random.default_rng(1)
    pad = window // 2
    weight = rng.standard_normal((outer, inner, window, window), np.float32)
    weight *= (inner * window**2) ** -0.5
    shape = (1, inner, image, image)
    result = (image + 2 * pad - window) // stride + 1

    def torch_layer(torch: Any) -> Any:
        layer = torch.nn.Conv2d(inner, outer, window, stride, pad, bias=False)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight))
        return layer

    return Workload(
        f"conv_{inner}x{image}x{image}_{outer}_{window}x{window}_s{stride}",
        normal(shape),
        lambda x: reference_conv(x, weight, stride, pad),
        {
            "tileloom": peers.tileloom(lambda x: tnp.conv(x, weight, strides=stride, pads=pad)),
            "torch": peers.torch(torch_layer),
            "onnxruntime": peers.onnxruntime(
                lambda node: [
                    node("Conv", ["x0", "w0"], ["y"], strides=[stride] * 2, pads=[pad] * 4)
                ],
                [weight],
            ),
        },
        atol=1e-4,
        flops=2 * result**2 * outer * inner * window**2,
    )


def reference_conv(x: Any, weight: Any, stride: int, pad: int) -> Any:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    window = weight.shape[2:]
    views = np.lib.stride_tricks.sliding_window_view(padded, window, (2, 3))
    return np.einsum("ncyxuv,ocuv->noyx", views[:, :, ::stride, ::stride], weight, optimize=True)


def encoder() -> Workload:
    """The demo's transformer encoder: four layers, 128 tokens of width 512."""
    program = next(p for p in programs.PROGRAMS if p.name == "encoder")
    tokens, layers, heads = program.arguments(np.random.default_rng(1))

    def in_torch(torch: Any) -> Any:
        weights = programs.convert(layers, torch.from_numpy)
        function = program.torch(torch)
        return lambda x: function(x, weights, heads)

    exact = programs.convert(layers, lambda a: a.astype(np.float64))
    return Workload(
        "encoder_4x128x512",
        normal(tokens.shape),
        lambda x: programs.encoder(x.astype(np.float64), exact, heads),
        {
            "tileloom": peers.tileloom(lambda x: programs.encoder(x, layers, heads)),
            "torch": peers.torch(in_torch),
            "numpy": peers.numpy(lambda x: programs.encoder(x, layers, heads)),
        },
        atol=1e-3,
        flops=4 * 128 * 2 * (12 * 512**2 + 2 * 128 * 512),
    )


def workloads(extra: Sequence[str] = ()) -> list[Workload]:
    """All of them."""
    return [
        *elementwise(),
        *(matmul(size) for size in (512, 1024, 2048)),
        *(bfloat16_matmul(size) for size in (512, 1024, 2048)),
        int8_matmul(1024),
        *(gemv(kind, turned) for kind in ("float32", "bfloat16") for turned in (False, True)),
        *(convolution(*layer) for layer in RESNET18),
        *windows.workloads(),
        encoder(),
    ]


def main() -> int:
    """The command line."""
    from . import results

    arguments = sys.argv[1:]
    if "--results" not in arguments:
        return harness_cli.main(__doc__ or "", workloads, arguments)
    arguments.remove("--results")
    return results.write(RESULTS, workloads, BARS, arguments)


if __name__ == "__main__":
    sys.exit(main())
