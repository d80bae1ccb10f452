"""Pooling, transposed and three-dimensional convolutions, for `benchmarks.cpu`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import peers
from .harness import Workload

Array = np.ndarray[Any, Any]

#: Input, kernel, stride, padding.
MAX_POOLS = (
    ((8, 64, 112, 112), (3, 3), 2, 1), ((1, 256, 28, 28), (3, 3), 1, 1),
    ((1, 64, 40, 40), (5, 5), 1, 2), ((1, 32, 16, 56, 56), (3, 3, 3), 2, 1),
)  # fmt: skip
AVERAGE_POOLS = (((8, 64, 112, 112), (2, 2), 2, 0), ((1, 256, 28, 28), (3, 3), 1, 1))
#: Input, weight, stride, padding.
TRANSPOSED = (
    ((1, 256, 16, 16), (256, 128, 4, 4), 2, 1), ((1, 64, 64, 64), (64, 32, 2, 2), 2, 0),
    ((1, 64, 32, 32), (64, 32, 3, 3), 2, 1), ((1, 256, 256), (256, 128, 16), 8, 4),
    ((1, 32, 8, 16, 16), (32, 16, 4, 4, 4), 2, 1),
)  # fmt: skip
THREE_DIMENSIONAL = (
    ((1, 64, 8, 28, 28), (64, 64, 3, 3, 3), 1, 1), ((1, 16, 16, 32, 32), (32, 16, 3, 3, 3), 1, 1),
    ((1, 8, 16, 32, 32), (16, 8, 5, 5, 5), 1, 2),
)  # fmt: skip


def workloads() -> list[Workload]:
    """All of them."""
    return [
        *(_pool("max", *row) for row in MAX_POOLS),
        *(_pool("avg", *row) for row in AVERAGE_POOLS),
        *(_convolution(True, *row) for row in TRANSPOSED),
        *(_convolution(False, *row) for row in THREE_DIMENSIONAL),
    ]


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _windows(x: Array, kernel: Sequence[int], stride: int, pad: int, value: float) -> Array:
    """[N, C, outputs..., kernel...] of [N, C, spatial...] in float64."""
    pads = [(0, 0), (0, 0), *[(pad, pad)] * len(kernel)]
    wide = np.pad(x.astype(np.float64), pads, constant_values=value)
    axes = tuple(range(2, x.ndim))
    views = np.lib.stride_tricks.sliding_window_view(wide, kernel, axes)
    return views[(slice(None), slice(None), *(slice(None, None, stride) for _ in kernel))]


def _pool(
    kind: str, shape: tuple[int, ...], kernel: tuple[int, ...], stride: int, pad: int
) -> Workload:
    rank = len(kernel)
    last = tuple(range(-rank, 0))
    extra: dict[str, Any] = {} if kind == "max" else {"count_include_pad": 1}

    def nodes(node: Any) -> list[Any]:
        name = "MaxPool" if kind == "max" else "AveragePool"
        return [node(name, ["x0"], ["y"], kernel_shape=kernel, strides=[stride] * rank,
                     pads=[pad] * 2 * rank, **extra)]  # fmt: skip

    def reference(x: Array) -> Array:
        if kind == "max":
            return np.asarray(_windows(x, kernel, stride, pad, -np.inf).max(last))
        return np.asarray(_windows(x, kernel, stride, pad, 0).mean(last))

    return Workload(
        f"{kind}_pool_{_text(shape)}_{_text(kernel)}_s{stride}",
        lambda rng: (rng.standard_normal(shape, np.float32),),
        reference,
        _peers(
            lambda torch: getattr(torch.nn, f"{kind.title()}Pool{rank}d")(kernel, stride, pad),
            nodes,
            (),
        ),
    )


def _convolution(
    transposed: bool, shape: tuple[int, ...], kernel: tuple[int, ...], stride: int, pad: int
) -> Workload:
    rng = np.random.default_rng(1)
    weight = rng.standard_normal(kernel, np.float32)
    weight *= float(np.prod(kernel[1:])) ** -0.5
    rank, name = len(shape) - 2, "conv_transpose" if transposed else "conv"
    reference = _transposed if transposed else _direct

    def layer(torch: Any) -> Any:
        function = getattr(torch.nn.functional, f"{name}{rank}d")
        constant = torch.from_numpy(weight)
        return lambda x: function(x, constant, None, stride, pad)

    def nodes(node: Any) -> list[Any]:
        kind = "ConvTranspose" if transposed else "Conv"
        return [node(kind, ["x0", "w0"], ["y"], strides=[stride] * rank, pads=[pad] * 2 * rank)]

    return Workload(
        f"{name}_{_text(shape)}_{_text(kernel)}_s{stride}",
        lambda rng: (rng.standard_normal(shape, np.float32),),
        lambda x: reference(x, weight, stride, pad),
        _peers(layer, nodes, (weight,)),
        atol=1e-4,
    )


def _peers(layer: Callable[[Any], Any], nodes: peers.Nodes, constants: Sequence[Array]) -> Any:
    return {
        "tileloom": peers.tileloom_onnx(nodes, constants),
        "torch": peers.torch(layer),
        "onnxruntime": peers.onnxruntime(nodes, constants),
    }


def _direct(x: Array, weight: Array, stride: int, pad: int) -> Array:
    views = _windows(x, weight.shape[2:], stride, pad, 0)
    rank = weight.ndim - 2
    axes = ([1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)])
    return np.moveaxis(np.tensordot(views, weight, axes), -1, 1)


def _transposed(x: Array, weight: Array, stride: int, pad: int) -> Array:
    """Each element of the input adds the kernel, scaled by it."""
    kernel = weight.shape[2:]
    sizes = [(n - 1) * stride + k for n, k in zip(x.shape[2:], kernel, strict=True)]
    result = np.zeros((x.shape[0], weight.shape[1], *sizes))
    for offset in np.ndindex(*kernel):
        part = np.tensordot(x.astype(np.float64), weight[(..., *offset)], ([1], [0]))
        at = (slice(k, k + (n - 1) * stride + 1, stride)
              for k, n in zip(offset, x.shape[2:], strict=True))  # fmt: skip
        result[(slice(None), slice(None), *at)] += np.moveaxis(part, -1, 1)
    inner = slice(pad, -pad or None)
    return result[(slice(None), slice(None), *(inner for _ in kernel))]
