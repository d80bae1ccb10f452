"""ATen operators through the backend, against PyTorch; all of them compiled."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from .helpers import check  # noqa: E402

EDGES = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-30, 1e30, -1e30, math.inf, -math.inf, math.nan]
)


def image(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "unary": lambda x: [
        x.abs(), x.neg(), x.sign(), x.floor(), x.ceil(), x.round(), x.trunc(), x.exp(), x.expm1(),
        x.log(), x.log1p(), x.sqrt(), x.rsqrt(), x.reciprocal(), x.sigmoid(), x.tanh(), x.erf(),
        x.isnan(), x.isinf(), x.isfinite(), x.logical_not(), x.square(), x.frac(), x.signbit(),
        x.round(decimals=1), x.angle(), x.atan(), x.asinh(), x.exp2(), x.nan_to_num(0.5),
    ],
    "activations": lambda x: [
        F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.elu(x, 0.7),
        F.selu(x), F.celu(x, 0.7), F.leaky_relu(x), F.hardswish(x), F.hardsigmoid(x),
        F.hardtanh(x), F.softplus(x, 2.0, 10.0), F.softsign(x), F.relu6(x), F.hardshrink(x),
        F.softshrink(x), F.tanhshrink(x), F.threshold(x, 0.1, 2.0), F.logsigmoid(x),
        torch.clamp(x, -0.5, 0.5), torch.clamp(x, min=math.nan), torch.clamp(x, max=0.3),
    ],
    "special": lambda x: [
        torch.lgamma(x), torch.digamma(x), torch.erfc(x), torch.special.erfcx(x),
        torch.erfinv(x), torch.special.log_ndtr(x),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("which", ["edges", "random"])
def test_of_one_tensor(name: Any, which: str) -> None:
    x = EDGES if which == "edges" else image(7, 11)
    # Of infinity PyTorch's GELU is NaN.
    check(CASES[name], x[x.abs() != math.inf] if name == "activations" else x)


def test_arithmetic_promotes_as_pytorch() -> None:
    def mixed(f: Any, i: Any, b: Any, s: Any) -> Any:
        return [
            f + i, i + b, b + b, i * 2.5, b * b, i / 3, i - 2 * i, f - 1, 2 - f, f * s, i + s,
            torch.add(f, i, alpha=3), i // 2, i % 3, f % 2.0, f.fmod(0.7), i.fmod(2), f**2, f**3,
            f**-1, f**0.5, i**2, 2.0**f, f**f, torch.maximum(f, f.flip(0)), torch.fmax(f, f * f),
            torch.fmin(f, -f), torch.hypot(f, f + 1), torch.copysign(f, -f), f.atan2(f + 1),
            torch.div(f, 0.3, rounding_mode="floor"), torch.div(f, 0.3, rounding_mode="trunc"),
            torch.where(b, f, i), torch.where(b, 1.5, i), f.masked_fill(b, -math.inf),
            torch.lerp(f, f + 1, 0.3), torch.addcmul(f, f, f, value=2), torch.xlogy(f.abs(), 2.0),
        ]  # fmt: skip

    i = torch.arange(-4, 9)
    check(mixed, EDGES, i, i % 2 == 0, torch.tensor(1.5))


def test_signs_of_remainders() -> None:
    def signs(x: Any) -> Any:
        return [(x % 2.0).signbit(), (x % -2.0).signbit(), x.fmod(2.0).signbit(), x % -1.5]

    check(signs, torch.tensor([-4.0, 4.0, -0.0, 0.0, 2.0, -2.0, 1.0, -1.0]))


def test_comparison_logic_and_bits() -> None:
    def mixed(f: Any, i: Any, b: Any) -> Any:
        return [
            f < i, f <= 0, f > f.flip(0), f >= 1.5, f == f, f != 0, i == 2, b == b.flip(0), b < b,
            b & b.flip(0), b | True, b ^ b.flip(0), ~b, ~i, i & 3, i | 1, i ^ i, i << 2, i >> 1,
            torch.logical_and(f, i), torch.logical_or(b, i), torch.logical_xor(f, b), i.bool(),
        ]  # fmt: skip

    i = torch.arange(-4, 9)
    check(mixed, EDGES, i, i % 3 == 0)


@pytest.mark.parametrize(
    "kind", ["bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_types(kind: str) -> None:
    x = torch.arange(24).reshape(4, 6).to(getattr(torch, kind))
    check(lambda x: [x + x, x * x, x.sum(), x.to(torch.float32), x.amax(1), x[1:, ::2] + 1], x)


def test_reductions() -> None:
    def reduce(x: Any, i: Any, b: Any) -> Any:
        return [
            x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.mean(), x.mean(2), x.prod(),
            x.prod(1), x.amax((0, 1)), x.amin(-1), x.max(), x.min(), *x.max(1), *x.min(2, True),
            x.var(), x.var(1, correction=0), x.std((0, 2)), *torch.var_mean(x, 1), x.argmax(),
            x.argmin(1, keepdim=True), x.logsumexp(2), x.norm(), x.norm(1, dim=1), x.any(), b.all(),
            b.any(0), b.all(1), i.sum(), i.float().mean(), b.sum(), i.prod(), i.amax(),
            x.softmax(1), x.log_softmax(-1), x.cumsum(1), x.cumprod(2), *x.cummax(1), *x.cummin(2),
            x.logcumsumexp(0), i.argmax(), torch.count_nonzero(i),
        ]  # fmt: skip

    i = torch.arange(-3, 4)
    check(reduce, image(3, 5, 7), i, (i > 0).reshape(1, 7))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (1, 1, 1)])
def test_scalars_and_nothing(shape: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        return [
            x + 1, x.sum(), x.mean(), x.sum(-1), x.softmax(-1), x.flip(0) if x.ndim else x,
            x.reshape(-1), x.unsqueeze(0), x.cumsum(0), torch.cat([x.reshape(-1), x.reshape(-1)]),
            x.any(), x.all(), x.var(), x.expand(2, *x.shape), x.clone(),
        ]  # fmt: skip

    check(function, torch.ones(shape), left=None)


def test_shapes() -> None:
    def function(x: Any) -> Any:
        return [
            x.view(15, 8) * 1, x.permute(2, 0, 1) + 1, x.transpose(0, 1) * 2, x[1:, ::2] + 1,
            x[..., -1] + 1, x.expand(2, 3, 5, 8) + 0, x.unsqueeze(1).squeeze(1) + 1,
            torch.cat([x, x * 2], 1), torch.stack([x, x]), x.repeat(2, 1, 3), x.flip(0, 2),
            x.roll(2, 1), x.roll(3), F.pad(x, (1, 2, 0, -1), value=3.0), x.tril(1), x.triu(),
            x.diagonal(1, 0, 2) + 1, x.unfold(2, 3, 2) * 2, x.unbind(1)[2] + 1,
            x.split(2, 1)[2] * 2, x.split([1, 7], 2)[1] + 0, x.chunk(3, 2)[0] + 1,
            x.rot90(1, (0, 2)), x.as_strided((2, 3), (7, 11), 5) + 1, x.movedim(0, 2) + 1,
            x.select_scatter(x[0], 0, 1), x.slice_scatter(x[:, 1:4:2], 1, 0, 4, 2),
            x.repeat_interleave(2, 1), torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[0] + 1,
        ]  # fmt: skip

    check(function, image(3, 5, 8))


def test_creation() -> None:
    def function(x: Any) -> Any:
        return [
            torch.arange(5), torch.arange(1.0, 2.0, 0.3), torch.arange(9, 1, -3),
            torch.zeros(2, 3) + x, torch.ones_like(x), torch.eye(3, 2), torch.linspace(0, 1, 5),
            x.new_full((2,), 3.0), torch.tril_indices(3, 3), torch.hann_window(5),
            torch.arange(5000.0) / 7, torch.scalar_tensor(2.0), x.new_zeros(0), torch.full((2,), 7),
        ]  # fmt: skip

    check(function, torch.ones(3))


def test_reading_at_places() -> None:
    def function(x: Any, i: Any, j: Any) -> Any:
        return [
            x.gather(1, i), x.index_select(2, j), x[:, j], x[j, j], x[:, j, j], x[j, :, j],
            F.embedding(i, x[0]), x.take(j), torch.take_along_dim(x, i, 1), x[1, j, None],
            torch.bucketize(x, torch.linspace(-1, 1, 5)),
        ]  # fmt: skip

    i = torch.randint(0, 5, (3, 2, 7), generator=torch.Generator().manual_seed(1))
    check(function, image(3, 5, 7), i, torch.tensor([2, 0, 1, 2]))


def test_products() -> None:
    def function(x: Any, w: Any, b: Any, v: Any) -> Any:
        return [
            x @ w, x[0] @ w, v @ w, w.t() @ v, v @ v, torch.bmm(x, x.mT), F.linear(x, w.t(), b),
            torch.addmm(b, x[0], w, beta=0.5, alpha=2), torch.baddbmm(x.new_ones(1), x, x.mT),
            torch.einsum("bij,jk->bki", x, w), torch.addmv(b, w.t(), v), torch.outer(v, b),
            torch.cdist(x, x), torch.kron(v, b), torch.addbmm(x.new_ones(1), x, x.mT),
        ]  # fmt: skip

    check(function, image(3, 5, 7), image(7, 4), image(4), image(7))


def test_attention() -> None:
    def function(q: Any, k: Any, mask: Any) -> Any:
        return [
            F.scaled_dot_product_attention(q, k, k),
            F.scaled_dot_product_attention(q, k, k, is_causal=True),
            F.scaled_dot_product_attention(q, k, k, mask, scale=0.3),
        ]

    check(function, image(2, 3, 5, 8), image(2, 3, 5, 8), image(5, 5) > -0.5)


def test_convolution_and_pooling() -> None:
    def function(x: Any, w: Any, d: Any, t: Any) -> Any:
        return [
            F.conv2d(x, w, stride=2, padding=1), F.conv2d(x, d, groups=4, dilation=2),
            F.conv_transpose2d(x, t, stride=2, padding=1, output_padding=1),
            F.conv1d(x[..., 0], w[..., 0]), F.conv2d(x[0], w), F.max_pool2d(x, 2),
            *F.max_pool2d(x, 3, 2, 1, return_indices=True), F.max_pool2d(x[0], 3, 1, dilation=2),
            F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool1d(x[0], 3), F.max_pool1d(x[0], 2),
            F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 4)), F.lp_pool2d(x, 2.0, 2),
            F.adaptive_max_pool2d(x[..., :8, :6], (4, 2)), F.pixel_shuffle(x, 2),
        ]  # fmt: skip

    check(function, image(2, 4, 11, 9), image(6, 4, 3, 3), image(8, 1, 3, 2), image(4, 5, 3, 3))


def test_normalisation() -> None:
    def function(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        return [
            F.layer_norm(x, (7, 5), eps=1e-3), F.group_norm(x, 2, w, b), F.instance_norm(x),
            F.batch_norm(x, m, v, w, b), F.batch_norm(x, None, None, w, b, True),
            F.rms_norm(x, (5,)), F.normalize(x), F.local_response_norm(x, 3),
        ]  # fmt: skip

    check(function, image(3, 4, 7, 5), image(4), image(4), image(4), image(4).abs())


def test_resampling_and_losses() -> None:
    def function(x: Any, y: Any) -> Any:
        flat, classes = x.flatten(2), y.flatten()
        return [
            F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 9), mode="bilinear"),
            F.interpolate(x, (9, 4), mode="bilinear", align_corners=True),
            F.interpolate(flat, 7, mode="linear"), F.interpolate(x, (3, 10), mode="nearest-exact"),
            F.cross_entropy(x.transpose(0, 1).flatten(1).t(), classes),
            F.nll_loss(flat.log_softmax(1), y.flatten(1), ignore_index=1),
            F.mse_loss(x, x + 1), F.l1_loss(x, -x), F.smooth_l1_loss(x, x * 2),
            F.binary_cross_entropy_with_logits(x, x.sigmoid()), F.kl_div(x, x.exp()),
            F.huber_loss(x, -x), F.cosine_similarity(x, x + 1),
        ]  # fmt: skip

    y = torch.randint(0, 3, (2, 6, 7), generator=torch.Generator().manual_seed(2))
    check(function, image(2, 3, 6, 7), y)


def test_writing_at_places() -> None:
    def function(x: Any, i: Any, j: Any, v: Any) -> Any:
        mask, y, z = x > 0, x.clone(), x.clone()
        z[:, j, j] += v[:, 0, :4]
        y[mask] = -1.0
        y[:, j] = v
        return [
            y, x.index_put((j, j), v[0, 0, 0]), x.index_put((i[:, 0, 0],), v[0, 0, 0], True),
            z, x.index_copy(2, j % 7, x[..., :4]),
            x.index_fill(1, j % 5, 3.0), x.index_add(0, i[0, :2, 0], x[:2], alpha=2),
            x.scatter(1, i, v[:, :2]), x.scatter(1, i, 4.0), x.scatter_add(1, i, v[:, :2]),
            *[x.scatter_reduce(1, i, v[:, :2], rule, include_self=keep)
              for rule in ("sum", "prod", "mean", "amax", "amin") for keep in (True, False)],
        ]  # fmt: skip

    i = torch.randint(0, 3, (3, 2, 7), generator=torch.Generator().manual_seed(1))
    v = image(3, 4, 7)
    v[0, 1, 2], v[1, 1, 1] = math.inf, math.nan
    check(function, image(3, 5, 7), i, torch.tensor([2, 0, 1, -1]), v)


def test_products_of_bytes() -> None:
    a = torch.randint(-128, 128, (20, 40), dtype=torch.int8)
    b = torch.randint(-128, 128, (40, 24), dtype=torch.int8)
    check(lambda x, y: [torch._int_mm(x, y), torch._int_mm(x, y.T.contiguous().T)], a, b)
