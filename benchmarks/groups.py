"""Fused groups against PyTorch eager, inductor and JAX: `python -m benchmarks.groups`.

Normalisations, losses and epilogues as users write them, on as many threads as `--threads` says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileloom import numpy as tnp

from . import harness_cli, peers
from .cpu import exact_gelu, normal, wide
from .harness import Workload

ROWS, WIDTH = 4096, 1024


def workloads(extra: Sequence[str] = ()) -> list[Workload]:
    """All of them."""
    return [*rows(), *statistics(), *epilogues()]


def _workload(
    name: str,
    inputs: Callable[..., Any],
    reference: Callable[..., Any],
    function: Callable[..., Any],
    in_torch: Callable[[Any], Any],
    in_jax: Callable[[Any], Any],
    **more: Any,
) -> Workload:
    builders = {
        "tileloom": peers.tileloom(function),
        "torch": peers.torch(in_torch),
        "inductor": peers.inductor(in_torch),
        "jax": peers.jax(in_jax),
    }
    return Workload(name, inputs, reference, builders, **more)


# ---------------------------------------------------------------------------- rows


def softmax(x: Any) -> Any:
    """Along rows."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(x: Any) -> Any:
    """Along rows."""
    less = x - np.max(x, axis=-1, keepdims=True)
    return less - np.log(np.sum(np.exp(less), axis=-1, keepdims=True))


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Along rows."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * scale + shift


def rms_norm(x: Any, scale: Any) -> Any:
    """Along rows."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def cross_entropy(x: Any, hot: Any) -> Any:
    """The mean loss of rows of logits against one-hot rows."""
    less = x - np.max(x, axis=-1, keepdims=True)
    loss = np.log(np.sum(np.exp(less), axis=-1)) - np.sum(less * hot, axis=-1)
    return np.mean(loss)


def _hot(rng: Any) -> Any:
    hot = np.zeros((ROWS, WIDTH), np.float32)
    hot[np.arange(ROWS), rng.integers(0, WIDTH, ROWS)] = 1
    return rng.standard_normal((ROWS, WIDTH), np.float32), hot


def rows() -> list[Workload]:
    """Reductions along rows, and what follows."""
    matrix, vector = (ROWS, WIDTH), (WIDTH,)
    moved = 2 * 4 * ROWS * WIDTH

    def jax_layer_norm(jax: Any) -> Any:
        def function(x: Any, scale: Any, shift: Any) -> Any:
            centred = x - x.mean(-1, keepdims=True)
            variance = (centred * centred).mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt(variance + 1e-5) * scale + shift

        return function

    def jax_entropy(jax: Any) -> Any:
        return lambda x, hot: -(jax.nn.log_softmax(x, -1) * hot).sum(-1).mean()

    return [
        _workload(
            "softmax_4096x1024", normal(matrix), wide(softmax), softmax,
            lambda torch: lambda x: torch.softmax(x, -1),
            lambda jax: lambda x: jax.nn.softmax(x, -1), moved=moved,
        ),
        _workload(
            "log_softmax_4096x1024", normal(matrix), wide(log_softmax), log_softmax,
            lambda torch: lambda x: torch.log_softmax(x, -1),
            lambda jax: lambda x: jax.nn.log_softmax(x, -1), moved=moved,
        ),
        _workload(
            "layer_norm_4096x1024", normal(matrix, vector, vector), wide(layer_norm), layer_norm,
            lambda torch: lambda x, g, b: torch.nn.functional.layer_norm(x, vector, g, b),
            jax_layer_norm, moved=moved,
        ),
        _workload(
            "rms_norm_4096x1024", normal(matrix, vector), wide(rms_norm), rms_norm,
            lambda torch: lambda x, g: torch.nn.functional.rms_norm(x, vector, g, 1e-6),
            lambda jax: lambda x, g: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g,
            moved=moved,
        ),
        _workload(
            "cross_entropy_4096x1024", _hot, wide(cross_entropy), cross_entropy,
            lambda torch: lambda x, hot: torch.nn.functional.cross_entropy(x, hot),
            jax_entropy, moved=moved,
        ),
    ]  # fmt: skip


# ---------------------------------------------------------------------------- statistics


def batch_statistics(x: Any) -> Any:
    """Mean and variance of each channel of [N, C, H, W]."""
    mean = np.mean(x, axis=(0, 2, 3))
    centred = x - np.reshape(mean, (1, -1, 1, 1))
    return np.stack([mean, np.mean(centred * centred, axis=(0, 2, 3))])


def statistics() -> list[Workload]:
    """Reductions along other axes, and a transpose."""
    images = (32, 64, 56, 56)

    def torch_statistics(torch: Any) -> Any:
        return lambda x: torch.stack(list(torch.var_mean(x, (0, 2, 3), correction=0))[::-1])

    def jax_statistics(jax: Any) -> Any:
        jnp = jax.numpy
        return lambda x: jnp.stack([x.mean((0, 2, 3)), x.var((0, 2, 3))])

    return [
        _workload(
            "batch_norm_statistics_32x64x56x56", normal(images), wide(batch_statistics),
            batch_statistics, torch_statistics, jax_statistics,
            moved=4 * int(np.prod(images)),
        ),
        _workload(
            "column_sum_2048x4096", normal((2048, 4096)), wide(lambda x: np.sum(x, axis=0)),
            lambda x: np.sum(x, axis=0),
            lambda torch: lambda x: torch.sum(x, 0), lambda jax: lambda x: x.sum(0),
            atol=1e-3, moved=4 * 2048 * 4096,
        ),
        _workload(
            "transpose_4096x4096", normal((4096, 4096)), wide(lambda x: x.T.copy()),
            lambda x: np.transpose(x),
            lambda torch: lambda x: x.t().contiguous(), lambda jax: lambda x: x.T + 0.0,
            moved=2 * 4 << 24,
        ),
    ]  # fmt: skip


# ---------------------------------------------------------------------------- epilogues


def dropout_residual_norm(x: Any, mask: Any, residual: Any, scale: Any, shift: Any) -> Any:
    """layer_norm(dropout(x) + residual), the mask being given."""
    return layer_norm(x * mask * np.float32(1 / 0.9) + residual, scale, shift)


def _masked(rng: Any) -> Any:
    matrix = (ROWS, WIDTH)
    x, residual = (rng.standard_normal(matrix, np.float32) for _ in range(2))
    mask = (rng.random(matrix) < 0.9).astype(np.float32)
    scale, shift = (rng.standard_normal(WIDTH, np.float32) for _ in range(2))
    return x, mask, residual, scale, shift


def epilogues() -> list[Workload]:
    """What follows matrix products in a transformer."""

    hidden = (2048, 3072)

    def torch_dropout(torch: Any) -> Any:
        norm = torch.nn.functional.layer_norm
        return lambda x, mask, residual, g, b: norm(x * mask * (1 / 0.9) + residual, (WIDTH,), g, b)

    def jax_dropout(jax: Any) -> Any:
        def function(x: Any, mask: Any, residual: Any, scale: Any, shift: Any) -> Any:
            y = x * mask * (1 / 0.9) + residual
            centred = y - y.mean(-1, keepdims=True)
            variance = (centred * centred).mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt(variance + 1e-5) * scale + shift

        return function

    return [
        _workload(
            "gelu_epilogue_2048x3072", normal(hidden, (3072,)), exact_gelu,
            lambda x, b: tnp.gelu(x + b),
            lambda torch: lambda x, b: torch.nn.functional.gelu(x + b),
            lambda jax: lambda x, b: jax.nn.gelu(x + b, approximate=False),
            moved=2 * 4 * 2048 * 3072,
        ),
        _workload(
            "dropout_residual_norm_4096x1024", _masked, wide(dropout_residual_norm),
            dropout_residual_norm, torch_dropout, jax_dropout, moved=4 * 4 * ROWS * WIDTH,
        ),
    ]  # fmt: skip


def main() -> int:
    """The command line."""
    return harness_cli.main(__doc__ or "", workloads, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
