"""The references against PyTorch, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import values
from tileloom.graph import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

ACTIVATIONS = {
    "gelu": F.gelu, "silu": F.silu, "softplus": F.softplus, "softsign": F.softsign, "elu": F.elu,
    "celu": F.celu, "selu": F.selu, "leaky_relu": F.leaky_relu, "hard_swish": F.hardswish,
    "mish": F.mish, "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
}  # fmt: skip


def same(build: Any, expected: Any, *arrays: Any, rtol: float = 1e-10) -> None:
    found = values(build, *arrays)
    wanted = expected(*(torch.from_numpy(a) for a in arrays))
    pairs = zip(found, wanted) if isinstance(found, list) else [(found, wanted)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b.numpy(), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations(name: Any) -> None:
    same(getattr(ops, name), ACTIVATIONS[name], np.linspace(-5, 5, 24).reshape(2, 12))


def test_gelu_tanh() -> None:
    x = np.linspace(-5, 5, 11)
    same(lambda t: ops.gelu(t, "tanh"), lambda t: F.gelu(t, approximate="tanh"), x)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "pad", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 2, 2)])
def test_conv(
    rank: int, stride: int, pad: int, dilation: int, groups: int, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, 4, 7, 6, 5)[: rank + 2])
    w = rng.standard_normal((6, 4 // groups, 3, 2, 2)[: rank + 2])
    function = getattr(F, f"conv{rank}d")
    same(
        lambda a, b: ops.conv(a, b, None, stride, pad, dilation, groups),
        lambda a, b: function(a, b, None, stride, pad, dilation, groups),
        x,
        w,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "pad", "more", "groups", "dilation"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 2, 1), (3, 1, 1, 1, 2)],
)
def test_conv_transpose(
    rank: int,
    stride: int,
    pad: int,
    more: int,
    groups: int,
    dilation: int,
    rng: np.random.Generator,
) -> None:
    x = rng.standard_normal((2, 4, 5, 4, 3)[: rank + 2])
    w = rng.standard_normal((4, 6 // groups, 3, 2, 3)[: rank + 2])
    function = getattr(F, f"conv_transpose{rank}d")
    same(
        lambda a, b: ops.conv_transpose(a, b, None, stride, pad, dilation, groups, more),
        lambda a, b: function(a, b, None, stride, pad, more, groups, dilation),
        x,
        w,
    )


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 3, 1)])
def test_pool(
    kernel: int, stride: int, pad: int, ceil_mode: bool, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, 3, 8, 7))
    window = (kernel, kernel)
    same(
        lambda t: ops.max_pool(t, window, stride, pad, None, ceil_mode),
        lambda t: F.max_pool2d(t, kernel, stride, pad, ceil_mode=ceil_mode),
        x,
    )
    for counted in (False, True):
        same(
            lambda t, c=counted: ops.avg_pool(t, window, stride, pad, None, ceil_mode, c),
            lambda t, c=counted: F.avg_pool2d(t, kernel, stride, pad, ceil_mode, c),
            x,
        )


@pytest.mark.parametrize("sizes", [(7, 9), (3, 2), (8, 8), (1, 5)])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize(mode: str, corners: bool, sizes: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 2, 4, 4))
    style = "align_corners" if corners else "half_pixel"
    same(
        lambda t: ops.resize(t, (1, 2, *sizes), mode, style),
        lambda t: F.interpolate(t, sizes, mode=f"bi{mode}", align_corners=corners),
        x,
        rtol=1e-6,
    )


def test_resize_nearest(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 2, 4, 4))
    same(
        lambda t: ops.resize(t, (1, 2, 7, 3), "nearest", "asymmetric", nearest="floor"),
        lambda t: F.interpolate(t, (7, 3), mode="nearest"),
        x,
    )


@pytest.mark.parametrize("sizes", [(2, 3), (3, 5), (7, 4)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_antialias(mode: str, sizes: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 7, 8))
    # PyTorch leaves out what lies outside; its antialiased cubic filter has the coefficient -0.5.
    more: dict[str, Any] = {"antialias": True, "exclude_outside": True, "cubic": -0.5}
    same(
        lambda t: ops.resize(t, (1, 1, *sizes), mode, **more),
        lambda t: F.interpolate(t, sizes, mode=f"bi{mode}", antialias=True),
        x,
        rtol=1e-6,
    )


def test_normalisation(rng: np.random.Generator) -> None:
    x, w, b = rng.standard_normal((2, 4, 3, 5)), rng.random(4), rng.random(4)
    mean, var = rng.random(4), rng.random(4) + 0.5
    same(lambda t, s, o: ops.group_norm(t, 2, s, o), lambda t, s, o: F.group_norm(t, 2, s, o),
         x, w, b)  # fmt: skip
    same(ops.instance_norm, lambda t, s, o: F.instance_norm(t, weight=s, bias=o), x, w, b)
    same(
        ops.batch_norm,
        lambda t, s, o, m, v: F.batch_norm(t, m, v, s, o),
        x, w, b, mean, var,
    )  # fmt: skip
    same(lambda t, s: ops.layer_norm(t, s), lambda t, s: F.layer_norm(t, (5,), s), x, rng.random(5))
    same(
        lambda t, s: ops.rms_norm(t, s), lambda t, s: F.rms_norm(t, (5,), s, 1e-5), x, rng.random(5)
    )
    same(
        lambda t: ops.lrn(t, 3, 0.1, 0.75, 2.0),
        lambda t: F.local_response_norm(t, 3, 0.1, 0.75, 2.0),
        x,
    )


def test_attention(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((2, 3, 5, 4)) for _ in range(3))
    attend = F.scaled_dot_product_attention
    same(ops.attention, attend, q, k, v)
    same(lambda *t: ops.attention(*t, causal=True), lambda *t: attend(*t, is_causal=True), q, k, v)
    mask = rng.random((5, 5)) < 0.7
    mask[:, 0] = True
    same(ops.attention, attend, q, k, v, mask)


def test_statistics_and_order(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4, 5))
    same(lambda t: ops.var(t, 1, correction=1), lambda t: torch.var(t, 1), x)
    same(lambda t: ops.logsumexp(t, (0, 2)), lambda t: torch.logsumexp(t, (0, 2)), x)
    same(lambda t: list(ops.topk(t, 3)), lambda t: torch.topk(t, 3), x)
