"""Operators of networks that MetaSchedule is measured by: `create_te_workload("GMM", 0)`.

The names of operators and tensors, the parameters and the sizes are TVM's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....base.errors import UnsupportedError
from .....compute import Tensor, compute, create_prim_func, placeholder, reduce_axis
from .....compute import sum as te_sum
from .....expr import EQ, Expr, const, intrin
from .....tir import PrimFunc
from ..._names import missing
from ...tir import op
from ...topi import nn

Tensors = tuple[Tensor, ...]


def _compute(shape: Sequence[Any], value: Callable[..., Any], name: str) -> Any:
    return compute(tuple(shape), value, name=name)


def _convolution(
    name: str,
    sizes: Sequence[int],
    channels: tuple[int, int],
    kernel_size: int,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    dtypes: tuple[str, str],
) -> Tensors:
    """A convolution of any rank, channels last; `sizes` begins with the batch."""
    (batch, *space), (inner, outer), rank = sizes, channels, len(sizes) - 1
    kernel = [kernel_size] * rank
    inputs = placeholder((*sizes, inner), dtypes[0], name="inputs")
    weight = placeholder((*kernel, inner // groups, outer), dtypes[0], name="weight")
    letters = "dhw"[-rank:] if rank > 1 else "l"
    channel = reduce_axis((0, inner // groups), name="rc")
    steps = [reduce_axis((0, kernel_size), name=f"r{letter}") for letter in letters]
    padded = nn.pad(inputs, [0, *[padding] * rank, 0])
    result = [_size(size, kernel_size, stride, padding, dilation) for size in space]

    def value(n: Expr, *rest: Expr) -> Any:
        *place, out = rest
        at = [i * stride + r.var * dilation for i, r in zip(place, steps, strict=True)]
        plane = out // (outer // groups) * (inner // groups) + channel.var
        taps = [r.var for r in steps]
        product = padded[(n, *at, plane)].astype(dtypes[1]) * weight[
            (*taps, channel.var, out)
        ].astype(dtypes[1])
        return te_sum(product, axis=[*steps, channel])

    return inputs, weight, _compute((batch, *result, outer), value, name)


def _size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def conv1d_nlc(
    N: int, L: int, CI: int, CO: int, kernel_size: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """A convolution over lines."""
    about = kernel_size, stride, padding, dilation, groups, (in_dtype, out_dtype)
    return _convolution("conv1d_nlc", (N, L), (CI, CO), *about)


def conv2d_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1,
    padding: int = 0, dilation: int = 1, groups: int = 1, in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """A convolution over images."""
    about = kernel_size, stride, padding, dilation, groups, (in_dtype, out_dtype)
    return _convolution("conv2d_nhwc", (N, H, W), (CI, CO), *about)


def conv3d_ndhwc(
    N: int, D: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1,
    padding: int = 0, dilation: int = 1, groups: int = 1, in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """A convolution over volumes."""
    about = kernel_size, stride, padding, dilation, groups, (in_dtype, out_dtype)
    return _convolution("conv3d_ndhwc", (N, D, H, W), (CI, CO), *about)


def depthwise_conv2d_nhwc(
    N: int, H: int, W: int, C: int, kernel_size: int, stride: int = 1, padding: int = 0,
    dilation: int = 1, factor: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """A convolution of each channel by itself."""
    if factor != 1:
        raise UnsupportedError("a depthwise convolution has as many channels as its input")
    inputs = placeholder((N, H, W, C), in_dtype, name="placeholder")
    weight = placeholder((factor, kernel_size, kernel_size, C), in_dtype, name="placeholder")
    rh, rw = (reduce_axis((0, kernel_size), name=name) for name in ("rh", "rw"))
    padded = nn.pad(inputs, [0, padding, padding, 0])
    oh, ow = (_size(size, kernel_size, stride, padding, dilation) for size in (H, W))

    def value(n: Expr, h: Expr, w: Expr, c: Expr) -> Any:
        y, x = h * stride + rh.var * dilation, w * stride + rw.var * dilation
        taken = padded[n, y, x, c // factor].astype(out_dtype)
        times = weight[c % factor, rh.var, rw.var, c // factor].astype(out_dtype)
        return te_sum(taken * times, axis=[rh, rw])

    return inputs, weight, _compute((N, oh, ow, C * factor), value, "depth_conv2d_nhwc")


def conv2d_transpose_nhwc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1,
    padding: int = 0, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """The transpose of a convolution over images."""
    inputs = placeholder((N, H, W, CI), in_dtype, name="inputs")
    weight = placeholder((kernel_size, kernel_size, CI, CO), in_dtype, name="weight")
    around = kernel_size - 1 - padding
    rim = (around + stride - 1) // stride
    border = (stride - around % stride) % stride
    padded = nn.pad(inputs, [0, rim, rim, 0])
    rc = reduce_axis((0, CI), name="rc")
    rh, rw = (reduce_axis((0, kernel_size), name=name) for name in ("rh", "rw"))
    oh, ow = ((size - 1) * stride - 2 * padding + kernel_size for size in (H, W))

    def spread(n: Expr, h: Expr, w: Expr, c: Expr) -> Any:
        if stride == 1:
            return padded[n, h, w, c]
        on_grid = op.all(EQ(h % stride, const(0)), EQ(w % stride, const(0)))
        taken = padded[n, h // stride, w // stride, c]
        return intrin.if_then_else(on_grid, taken, const(0.0, padded.dtype))

    def value(n: Expr, h: Expr, w: Expr, co: Expr) -> Any:
        taken = spread(n, h + rh.var + border, w + rw.var + border, rc.var).astype(out_dtype)
        last = kernel_size - 1
        times = weight[last - rh.var, last - rw.var, rc.var, co].astype(out_dtype)
        return te_sum(taken * times, axis=[rh, rw, rc])

    return inputs, weight, _compute((N, oh, ow, CO), value, "conv2d_transpose_nhwc")


def conv2d_capsule_nhwijc(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, stride: int = 1,
    padding: int = 0, capsule_size: int = 4, in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """A convolution whose elements are small matrices."""
    size = capsule_size
    inputs = placeholder((N, H, W, size, size, CI), in_dtype, name="inputs")
    shape = kernel_size, kernel_size, size, size, CI, CO
    weight = placeholder(shape, in_dtype, name="weight")
    rh, rw = (reduce_axis((0, kernel_size), name=name) for name in ("rh", "rw"))
    ck, rc = reduce_axis((0, size), name="cap_k"), reduce_axis((0, CI), name="rc")
    padded = nn.pad(inputs, [0, padding, padding, 0, 0, 0])
    oh, ow = (_size(extent, kernel_size, stride, padding, 1) for extent in (H, W))

    def value(n: Expr, h: Expr, w: Expr, i: Expr, j: Expr, co: Expr) -> Any:
        taken = padded[n, h * stride + rh.var, w * stride + rw.var, i, ck.var, rc.var]
        times = weight[rh.var, rw.var, ck.var, j, rc.var, co]
        product = taken.astype(out_dtype) * times.astype(out_dtype)
        return te_sum(product, axis=[rh, rw, ck, rc])

    return inputs, weight, _compute((N, oh, ow, size, size, CO), value, "conv2d_capsule_nhwijc")


def batch_matmul_nkkm(
    B: int, N: int, M: int, K: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """Products of matrices."""
    x, y = placeholder((B, N, K), in_dtype, name="X"), placeholder((B, K, M), in_dtype, name="Y")
    k = reduce_axis((0, K), name="k")

    def value(b: Expr, i: Expr, j: Expr) -> Any:
        return te_sum(x[b, i, k.var].astype(out_dtype) * y[b, k.var, j].astype(out_dtype), axis=[k])

    return x, y, _compute((B, N, M), value, "Z")


def norm_bmn(B: int, M: int, N: int) -> Tensors:
    """The length of each matrix as a vector."""
    a = placeholder((B, M, N), name="A")
    i, j = reduce_axis((0, M), name="i"), reduce_axis((0, N), name="j")
    c = _compute((B,), lambda b: te_sum(a[b, i.var, j.var] * a[b, i.var, j.var], axis=[i, j]), "C")
    return a, _compute((B,), lambda b: intrin.sqrt(c[b]), "D")


def conv2d_nhwc_bn_relu(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int,
    dilation: int = 1, in_dtype: str = "float32", out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """A convolution, a bias, a scale and an offset, cut off below 0."""
    data = placeholder((N, H, W, CI), in_dtype, name="data")
    kernel = placeholder((kernel_size, kernel_size, CI, CO), in_dtype, name="kernel")
    bias, scale, offset = (placeholder((CO,), name=n) for n in ("bias", "bn_scale", "bn_offset"))
    padded = nn.pad(data, [0, padding, padding, 0], name="PaddedInput")
    rc = reduce_axis((0, CI), name="rc")
    ry, rx = (reduce_axis((0, kernel_size), name=name) for name in ("ry", "rx"))
    oh, ow = (_size(size, kernel_size, strides, padding, dilation) for size in (H, W))
    shape = N, oh, ow, CO

    def value(n: Expr, y: Expr, x: Expr, f: Expr) -> Any:
        at = y * strides + ry.var * dilation, x * strides + rx.var * dilation
        taken = padded[n, at[0], at[1], rc.var].astype(out_dtype)
        return te_sum(taken * kernel[ry.var, rx.var, rc.var, f].astype(out_dtype), [ry, rx, rc])

    conv = _compute(shape, value, "Conv2dOutput")
    added = _compute(shape, lambda i, j, k, c: conv[i, j, k, c] + bias[c], "bias_add")
    scaled = _compute(shape, lambda i, j, k, c: added[i, j, k, c] * scale[c], "bn_mul")
    moved = _compute(shape, lambda i, j, k, c: scaled[i, j, k, c] + offset[c], "bn_add")
    return data, kernel, bias, offset, scale, nn.relu(moved)


def transpose_batch_matmul(
    batch: int, seq_len: int, n_head: int, n_dim: int, in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:  # fmt: skip
    """The scores of attention: products of two transposed tensors."""
    query, value = (
        placeholder((batch, seq_len, n_head, n_dim), in_dtype, name=name)
        for name in ("query", "value")
    )
    left = _compute(
        (batch, n_head, seq_len, n_dim), lambda b, h, i, d: query[b, i, h, d], "query_T"
    )
    right = _compute(
        (batch, n_head, n_dim, seq_len), lambda b, h, d, i: value[b, i, h, d], "value_T"
    )
    k = reduce_axis((0, n_dim), name="k")

    def product(b: Expr, h: Expr, i: Expr, j: Expr) -> Any:
        one, other = left[b, h, i, k.var], right[b, h, k.var, j]
        return te_sum(one.astype(out_dtype) * other.astype(out_dtype), axis=[k])

    return query, value, _compute((batch, n_head, seq_len, seq_len), product, "C")


def matmul(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """The product of two matrices."""
    a, b = placeholder((n, k), in_dtype, name="A"), placeholder((k, m), in_dtype, name="B")
    axis = reduce_axis((0, k), name="k")

    def value(i: Expr, j: Expr) -> Any:
        one, other = a[i, axis.var], b[axis.var, j]
        return te_sum(one.astype(out_dtype) * other.astype(out_dtype), axis=[axis])

    return a, b, _compute((n, m), value, "C")


def matmul_relu(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """The product of two matrices, cut off below 0."""
    a, b, c = matmul(n, m, k, in_dtype, out_dtype)
    return a, b, nn.relu(c)


def softmax_mn(m: int, n: int) -> Tensors:
    """Softmax of rows."""
    a = placeholder((m, n), name="A")
    return a, nn.softmax(a, axis=1)


#: Operators by name, and for each the parameters of some sizes.
CONFIGS: dict[str, tuple[Callable[..., Tensors], list[tuple[int, ...]]]] = {
    "C1D": (
        conv1d_nlc,
        [
            (1, 256, 64, 128, 3, 2, 1), (1, 128, 128, 256, 1, 2, 0), (1, 64, 256, 256, 5, 1, 2),
            (1, 32, 512, 512, 3, 1, 1),
        ],
    ),
    "C2D": (
        conv2d_nhwc,
        [
            (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 64, 1, 1, 0),
            (1, 14, 14, 256, 256, 3, 1, 1), (1, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "C3D": (
        conv3d_ndhwc,
        [
            (1, 16, 224, 224, 3, 64, 7, 2, 3), (1, 16, 56, 56, 64, 64, 1, 1, 0),
            (1, 16, 14, 14, 256, 256, 3, 1, 1), (1, 16, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "GMM": (
        batch_matmul_nkkm,
        [(1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)],
    ),
    "GRP": (
        conv2d_nhwc,
        [
            (1, 56, 56, 64, 128, 3, 2, 1, 1, 4), (1, 56, 56, 64, 64, 1, 1, 0, 1, 4),
            (1, 14, 14, 256, 256, 3, 1, 1, 1, 4), (1, 7, 7, 512, 512, 3, 1, 1, 1, 4),
        ],
    ),
    "DIL": (
        conv2d_nhwc,
        [
            (1, 224, 224, 3, 64, 7, 2, 3, 2), (1, 56, 56, 64, 64, 1, 1, 0, 2),
            (1, 14, 14, 256, 256, 3, 1, 1, 2), (1, 7, 7, 512, 512, 3, 1, 1, 2),
        ],
    ),
    "DEP": (
        depthwise_conv2d_nhwc,
        [
            (1, 112, 112, 32, 3, 1, 1), (1, 112, 112, 64, 3, 2, 1), (1, 14, 14, 512, 3, 2, 1),
            (1, 7, 7, 1024, 3, 1, 1),
        ],
    ),
    "T2D": (
        conv2d_transpose_nhwc,
        [
            (1, 4, 4, 512, 256, 4, 2, 1), (1, 8, 8, 256, 128, 4, 2, 1),
            (1, 16, 16, 128, 64, 4, 2, 1), (1, 32, 32, 64, 3, 4, 2, 1),
        ],
    ),
    "CAP": (
        conv2d_capsule_nhwijc,
        [
            (1, 16, 16, 32, 32, 3, 2, 1), (1, 8, 8, 32, 32, 3, 1, 1), (1, 16, 16, 8, 16, 3, 2, 1),
            (1, 8, 8, 16, 16, 3, 1, 1),
        ],
    ),
    "NRM": (norm_bmn, [(1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)]),
    "SFM": (softmax_mn, [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]),
    "CBR": (
        conv2d_nhwc_bn_relu,
        [
            (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 128, 3, 2, 1),
            (1, 28, 28, 128, 256, 1, 2, 0), (1, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "TBG": (
        transpose_batch_matmul,
        [(1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)],
    ),
}  # fmt: skip


def create_te_workload(name: str, idx: int) -> PrimFunc:
    """The function of one of `CONFIGS`."""
    operator, sizes = CONFIGS[name]
    return create_prim_func([*operator(*sizes[idx])])


__getattr__ = missing(__name__)
