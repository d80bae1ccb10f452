"""The peers of `benchmarks.gpu` in Triton, as its tutorials write them, tuned over a few sizes.

Imported only where Triton is. Each function takes the inputs and returns the output.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_WIDE = [triton.Config({"SIZE": size}, num_warps=warps) for size in (1024, 2048, 4096)
         for warps in (4, 8)]  # fmt: skip


@triton.autotune(_WIDE, key=["n"])
@triton.jit
def _add(a, b, c, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    there = at < n
    tl.store(c + at, tl.load(a + at, there) + tl.load(b + at, there), there)


@triton.autotune(_WIDE, key=["n"])
@triton.jit
def _gelu(a, b, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    there = at < n
    x = tl.load(a + at, there)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    # 1 + tanh(y) = 2 sigmoid(2 y)
    tl.store(b + at, x * tl.sigmoid(2 * inner), there)


@triton.jit
def _softmax(a, b, columns, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, SIZE)
    there = at < columns
    x = tl.load(a + row * columns + at, there, other=-float("inf"))
    power = tl.exp(x - tl.max(x, 0))
    tl.store(b + row * columns + at, power / tl.sum(power, 0), there)


@triton.jit
def _layer_norm(a, scale, shift, b, columns, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, SIZE)
    there = at < columns
    x = tl.load(a + row * columns + at, there, other=0.0)
    centred = tl.where(there, x - tl.sum(x, 0) / columns, 0.0)
    spread = tl.sum(centred * centred, 0) / columns
    y = centred * tl.rsqrt(spread + 1e-5) * tl.load(scale + at, there) + tl.load(shift + at, there)
    tl.store(b + row * columns + at, y, there)


@triton.jit
def _row_sum(a, b, columns, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, SIZE)
    x = tl.load(a + row * columns + at, at < columns, other=0.0)
    tl.store(b + row, tl.sum(x, 0))


@triton.autotune(
    [triton.Config({"SIDE": side}, num_warps=warps) for side in (32, 64) for warps in (4, 8)],
    key=["n"],
)
@triton.jit
def _transpose(a, b, n, SIDE: tl.constexpr):
    rows = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    columns = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    there = (rows[:, None] < n) & (columns[None, :] < n)
    x = tl.load(a + rows[:, None].to(tl.int64) * n + columns[None, :], there)
    tl.store(b + columns[:, None].to(tl.int64) * n + rows[None, :], tl.trans(x), tl.trans(there))


_TILES = [
    triton.Config({"M": m, "N": n, "K": k}, num_stages=stages, num_warps=warps)
    for m, n, k, stages, warps in (
        (128, 256, 64, 3, 8), (128, 128, 64, 3, 8), (128, 128, 32, 4, 4), (64, 128, 32, 4, 4),
        (128, 64, 32, 4, 4),
    )
]  # fmt: skip


@triton.autotune(_TILES, key=["n"])
@triton.jit
def _matmul(a, b, c, n, TF32: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    group: tl.constexpr = 8
    across, down = tl.cdiv(n, N), tl.cdiv(n, M)
    number = tl.program_id(0)
    first = number // (group * across) * group
    height = min(down - first, group)
    i = first + number % (group * across) % height
    j = number % (group * across) // height
    rows, columns, deep = i * M + tl.arange(0, M), j * N + tl.arange(0, N), tl.arange(0, K)
    left = a + (rows % n)[:, None].to(tl.int64) * n + deep[None, :]
    right = b + deep[:, None].to(tl.int64) * n + (columns % n)[None, :]
    total = tl.zeros((M, N), tl.float32)
    for k in range(tl.cdiv(n, K)):
        x = tl.load(left, deep[None, :] < n - k * K, other=0.0)
        y = tl.load(right, deep[:, None] < n - k * K, other=0.0)
        total = tl.dot(x, y, total, input_precision="tf32" if TF32 else "ieee")
        left += K
        right += K * n
    there = (rows[:, None] < n) & (columns[None, :] < n)
    out = c + rows[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(out, total.to(c.dtype.element_ty), there)


def add(a: Any, b: Any) -> Any:
    c = torch.empty_like(a)
    _add[lambda m: (triton.cdiv(a.numel(), m["SIZE"]),)](a, b, c, a.numel())
    return c


def gelu(a: Any) -> Any:
    b = torch.empty_like(a)
    _gelu[lambda m: (triton.cdiv(a.numel(), m["SIZE"]),)](a, b, a.numel())
    return b


def softmax(a: Any) -> Any:
    b = torch.empty_like(a)
    _softmax[(a.shape[0],)](a, b, a.shape[1], triton.next_power_of_2(a.shape[1]), num_warps=8)
    return b


def layer_norm(a: Any, scale: Any, shift: Any) -> Any:
    b, columns = torch.empty_like(a), a.shape[1]
    size = triton.next_power_of_2(columns)
    _layer_norm[(a.shape[0],)](a, scale, shift, b, columns, size, num_warps=8)
    return b


def row_sum(a: Any) -> Any:
    b = torch.empty(a.shape[0], device=a.device, dtype=a.dtype)
    _row_sum[(a.shape[0],)](a, b, a.shape[1], triton.next_power_of_2(a.shape[1]), num_warps=8)
    return b


def transpose(a: Any) -> Any:
    b, n = torch.empty_like(a), a.shape[0]
    _transpose[lambda m: (triton.cdiv(n, m["SIDE"]), triton.cdiv(n, m["SIDE"]))](a, b, n)
    return b


def matmul(a: Any, b: Any, tf32: bool = False) -> Any:
    c, n = torch.empty_like(a), a.shape[0]
    _matmul[lambda m: (triton.cdiv(n, m["M"]) * triton.cdiv(n, m["N"]),)](a, b, c, n, tf32)
    return c


__all__ = ["add", "gelu", "layer_norm", "matmul", "row_sum", "softmax", "transpose"]
