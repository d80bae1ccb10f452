"""Graphs whose kernels are recorded: products and windows of many shapes, and what fuses or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileloom.base import dtype
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.target import Target, target

Made = tuple[list[Tensor], list[Tensor]]
Case = Callable[[], Made]


def given(*shapes: tuple[int, ...], kind: str = "float32") -> list[Tensor]:
    return [
        Tensor(tensor_type(shape, kind), name)
        for shape, name in zip(shapes, "xyzuvw", strict=False)
    ]


def weights(*shape: int, kind: str = "float32") -> Tensor:
    size = int(np.prod(shape))
    return ops.constant((np.arange(size) % 7 - 3).astype(dtype(kind).numpy).reshape(shape))


def of(build: Callable[..., Tensor | Sequence[Tensor]], *shapes: tuple[int, ...],
       kind: str = "float32") -> Case:  # fmt: skip
    def make() -> Made:
        inputs = given(*shapes, kind=kind)
        made = build(*inputs)
        return inputs, [made] if isinstance(made, Tensor) else list(made)

    return make


def matmul(*shapes: tuple[int, ...], kind: str = "float32", out: str | None = None,
           ta: bool = False, tb: bool = False) -> Case:  # fmt: skip
    return of(lambda a, b: ops.matmul(a, b, ta, tb, out), *shapes, kind=kind)


def linear(rows: int, depth: int, columns: int, kind: str = "float32") -> Case:
    """With a constant weight, a bias and an activation."""
    return of(
        lambda x: ops.gelu(
            ops.add(ops.matmul(x, weights(depth, columns, kind=kind)), weights(columns, kind=kind))
        ),
        (rows, depth),
        kind=kind,
    )


def conv(shape: tuple[int, ...], weight: tuple[int, ...], kind: str = "float32",
         **attrs: object) -> Case:  # fmt: skip
    def build(x: Tensor) -> Tensor:
        return ops.relu(ops.conv(x, weights(*weight, kind=kind), None, **attrs))

    return of(build, shape, kind=kind)


def chain(count: int, x: Tensor) -> Tensor:
    for k in range(count):
        x = ops.sin(x) if k % 2 else ops.tanh(x)
    return x


def block(x: Tensor) -> Tensor:
    """Attention and a small network, with norms and sums around them."""
    width = x.shape[-1]
    y = ops.layer_norm(x, weights(width), weights(width))
    q, k, v = (ops.matmul(y, weights(width, width)) for _ in range(3))
    heads: list[Any] = [ops.transpose(ops.reshape(t, (*x.shape[:2], 4, width // 4)), (0, 2, 1, 3))
             for t in (q, k, v)]  # fmt: skip
    mixed = ops.transpose(ops.attention(*heads, causal=True), (0, 2, 1, 3))
    x = ops.add(x, ops.matmul(ops.reshape(mixed, x.shape), weights(width, width)))
    y = ops.rms_norm(x, weights(width))
    return ops.add(
        x, ops.matmul(ops.silu(ops.matmul(y, weights(width, 2 * width))), weights(2 * width, width))
    )


def statistics(x: Tensor) -> list[Tensor]:
    return [ops.mean(x, 1), ops.var(x, 1), ops.max(x, 1), ops.softmax(x, 1)]


def open_sizes(build: Callable[[Tensor, int], Tensor], *last: int, low: int = 1,
               high: int = 1 << 12, hint: int = 64) -> Case:  # fmt: skip
    def make() -> Made:
        n = symbol(Space(), "n", low, high, hint)
        x = Tensor(tensor_type((n, *last), "float32"), "x")
        return [x], [build(x, n)]

    return make


CASES: dict[str, Case] = {
    # ------------------------------------------------------------------ products
    "matmul 64": matmul((64, 64), (64, 64)),
    "matmul 1024": matmul((1024, 1024), (1024, 1024)),
    "matmul odd": matmul((67, 131), (131, 37)),
    "matmul one row": matmul((1, 512), (512, 1000)),
    "matmul two rows": matmul((2, 512), (512, 1000)),
    "matmul one column": matmul((1000, 512), (512, 1)),
    "matmul few columns": matmul((1000, 512), (512, 5)),
    "matmul vector": matmul((1000, 512), (512,)),
    "matmul vector left": matmul((512,), (512, 300)),
    "matmul dot": matmul((4096,), (4096,)),
    "matmul thin": matmul((512, 3), (3, 512)),
    "matmul depth one": matmul((512, 1), (1, 512)),
    "matmul no depth": matmul((5, 0), (0, 7)),
    "matmul deep": matmul((16, 20_000), (20_000, 16)),
    "matmul batch": matmul((12, 64, 33), (12, 33, 64)),
    "matmul broadcast batch": matmul((3, 1, 40, 24), (5, 24, 56)),
    "matmul transposed left": matmul((96, 128), (96, 80), ta=True),
    "matmul transposed right": matmul((128, 96), (80, 96), tb=True),
    "matmul transposed both": matmul((96, 128), (80, 96), ta=True, tb=True),
    "matmul transposed one row": matmul((1, 512), (1000, 512), tb=True),
    "matmul float64": matmul((64, 96), (96, 128), kind="float64"),
    "matmul bfloat16": matmul((64, 96), (96, 128), kind="bfloat16"),
    "matmul bfloat16 odd": matmul((65, 97), (97, 129), kind="bfloat16"),
    "matmul float16": matmul((64, 96), (96, 128), kind="float16"),
    "matmul int8": matmul((64, 96), (96, 128), kind="int8", out="int32"),
    "matmul uint8": matmul((64, 97), (97, 128), kind="uint8", out="int32"),
    "matmul int32": matmul((64, 96), (96, 128), kind="int32"),
    "matmul int64": matmul((64, 96), (96, 20), kind="int64"),
    "linear 1": linear(1, 768, 768),
    "linear 128": linear(128, 768, 3072),
    "linear 33": linear(33, 65, 17),
    "linear bfloat16": linear(128, 256, 512, "bfloat16"),
    "prologue": of(lambda a, b: ops.matmul(ops.exp(a), ops.neg(b)), (256, 256), (256, 256)),
    "prologue of one": of(lambda a, b: ops.matmul(a, ops.add(b, b)), (8, 256), (256, 256)),
    "epilogue row sums": of(lambda a, b: ops.sum(ops.matmul(a, b), 1), (256, 256), (256, 256)),
    "epilogue softmax": of(lambda a, b: ops.softmax(ops.matmul(a, b)), (256, 256), (256, 64)),
    "two products": of(
        lambda a, b, c: ops.matmul(ops.relu(ops.matmul(a, b)), c), (64, 64), (64, 64), (64, 64)
    ),
    "one operand, three products": of(
        lambda x: [ops.matmul(x, ops.mul(weights(96, 32), float(k + 1))) for k in range(3)],
        (48, 96),
    ),
    "gram": of(lambda a: ops.matmul(a, ops.transpose(a)), (96, 256)),
    # ------------------------------------------------------------------ convolutions
    "conv 3x3": conv((1, 64, 56, 56), (64, 64, 3, 3), pads=1),
    "conv 1x1": conv((1, 64, 28, 28), (128, 64, 1, 1)),
    "conv 1x1 strided": conv((2, 64, 28, 28), (128, 64, 1, 1), strides=2),
    "conv 7x7": conv((1, 3, 64, 64), (32, 3, 7, 7), strides=2, pads=3),
    "conv odd": conv((3, 5, 11, 13), (7, 5, 3, 2), strides=(2, 1), pads=(1, 0, 0, 1)),
    "conv dilated": conv((1, 16, 20, 20), (16, 16, 3, 3), dilations=2, pads=2),
    "conv groups": conv((1, 32, 14, 14), (64, 8, 3, 3), groups=4, pads=1),
    "conv groups of many": conv((1, 128, 14, 14), (128, 64, 3, 3), groups=2, pads=1),
    "conv depthwise": conv((1, 32, 28, 28), (32, 1, 3, 3), groups=32, pads=1),
    "conv depthwise strided": conv((1, 32, 28, 28), (32, 1, 5, 5), groups=32, pads=2, strides=2),
    "conv depthwise two": conv((1, 8, 14, 14), (16, 1, 3, 3), groups=8, pads=1),
    "conv 1-D": conv((2, 16, 200), (32, 16, 5), pads=2),
    "conv 3-D": conv((1, 4, 8, 10, 12), (8, 4, 3, 3, 3), pads=1),
    "conv bfloat16": conv((1, 32, 14, 14), (32, 32, 3, 3), "bfloat16", pads=1),
    "conv int8": of(
        lambda x: ops.conv(x, weights(32, 32, 3, 3, kind="int8"), out_dtype="int32"),
        (1, 32, 14, 14),
        kind="int8",
    ),
    "conv one channel": conv((1, 1, 28, 28), (8, 1, 5, 5)),
    "conv whole image": conv((1, 16, 7, 7), (10, 16, 7, 7)),
    "conv bias norm add": of(
        lambda x, y: ops.relu(
            ops.add(
                ops.batch_norm(
                    ops.conv(x, weights(32, 32, 3, 3), weights(32), pads=1),
                    *[ops.abs(weights(32))] * 4,
                ),
                y,
            )
        ),
        (1, 32, 14, 14),
        (1, 32, 14, 14),
    ),
    "conv after relu": of(lambda x: ops.conv(ops.relu(x), weights(16, 32, 1, 1)), (1, 32, 14, 14)),
    "conv then pool": of(
        lambda x: ops.max_pool(ops.relu(ops.conv(x, weights(8, 4, 3, 3))), (2, 2), 2),
        (1, 4, 18, 18),
    ),
    "conv transposed": of(
        lambda x: ops.conv_transpose(x, weights(16, 8, 3, 3), None, 2, 1), (1, 16, 14, 14)
    ),
    "conv transposed stride 1": of(
        lambda x: ops.conv_transpose(x, weights(4, 8, 5), None), (1, 4, 30)
    ),
    # ------------------------------------------------------------------ windows
    "max pool": of(lambda x: ops.max_pool(x, (3, 3), 2, 1), (1, 64, 56, 56)),
    "max pool stride 1": of(lambda x: ops.max_pool(x, (3, 3), 1, 1), (2, 5, 13, 17)),
    "max pool 1-D": of(lambda x: ops.max_pool(x, (4,), 4), (3, 7, 64)),
    "average pool": of(lambda x: ops.relu(ops.avg_pool(x, (3, 3), 1, 1)), (1, 32, 28, 28)),
    "average pool dilated": of(lambda x: ops.avg_pool(x, (2, 2), 1, 0, 2), (1, 3, 9, 9)),
    "global average": of(lambda x: ops.mean(x, (2, 3), True), (2, 64, 7, 7)),
    "pool with indices": of(lambda x: list(ops.max_pool_with_indices(x, (2, 2), 2)), (1, 4, 8, 8)),
    # ------------------------------------------------------------------ what fuses, what does not
    "chain of 8": of(lambda x: chain(8, x), (64, 64)),
    "chain of 200": of(lambda x: chain(200, x), (64, 64)),
    "chain of one element": of(lambda x: chain(3, x), (1,)),
    "statistics": of(statistics, (64, 200)),
    "statistics of columns": of(lambda x: [ops.sum(x, 0), ops.sum(x, 1)], (300, 200)),
    "sum of everything": of(lambda x: ops.sum(ops.exp(x)), (300, 200)),
    "softmax axis 1": of(lambda x: ops.softmax(x, 1), (4, 33, 20)),
    "cross entropy": of(
        lambda x: ops.nll_loss(ops.log_softmax(x), ops.constant(np.arange(64) % 10)), (64, 10)
    ),
    "layer norm add": of(
        lambda x, y: ops.layer_norm(ops.add(x, y), weights(256), weights(256)),
        (64, 256),
        (64, 256),
    ),
    "group norm": of(lambda x: ops.group_norm(x, 4, weights(16), weights(16)), (2, 16, 7, 7)),
    "normalized twice": of(lambda x: ops.softmax(ops.softmax(x, 1), 0), (33, 20)),
    "broadcast results": of(lambda x, y: [ops.add(x, y), ops.exp(x)], (64, 1), (1, 48)),
    "outputs of two sizes": of(lambda x: [ops.exp(x), ops.neg(ops.sum(x, 1))], (64, 48)),
    "reshape between": of(lambda x: ops.exp(ops.reshape(ops.sum(x, 2), (20, 6))), (12, 10, 5)),
    "reshape splits rows": of(
        lambda x: ops.sum(ops.reshape(ops.tanh(x), (12, 5, 10)), 2), (12, 50)
    ),
    "transposed": of(lambda x: ops.transpose(x, (1, 0)), (300, 200)),
    "transposed between": of(lambda x: ops.exp(ops.transpose(ops.sin(x), (0, 2, 1))), (3, 40, 50)),
    "transposed sum": of(lambda x: ops.sum(ops.transpose(x, (1, 0)), 1), (300, 200)),
    "concat": of(lambda x, y: ops.concat([ops.exp(x), y], 1), (20, 30), (20, 7)),
    "concat read": of(lambda x, y: ops.tanh(ops.concat([x, y], 0)), (20, 30), (5, 30)),
    "slices": of(
        lambda x: [ops.exp(ops.strided_slice(x, [0, k], [20, 30], steps=[1, 2])) for k in range(2)],
        (20, 30),
    ),
    "split and joined": of(
        lambda x: ops.mul(*[ops.sigmoid(t) for t in ops.split(x, 2, 1)]), (20, 64)
    ),
    "flipped": of(lambda x: ops.add(x, ops.flip(x, 1)), (20, 30)),
    "padded": of(lambda x: ops.pad(ops.exp(x), ((1, 2), (0, 3)), "reflect"), (20, 30)),
    "gather": of(lambda x: ops.exp(ops.gather(x, ops.constant(np.arange(7) * 3))), (40, 33)),
    "gather of products": of(
        lambda a, b: ops.gather(ops.matmul(a, b), ops.constant(np.arange(7))), (40, 33), (33, 8)
    ),
    "cumsum": of(lambda x: ops.cumsum(x, 1), (20, 100)),
    "topk": of(lambda x: list(ops.topk(x, 3)), (20, 100)),
    "argmax": of(lambda x: ops.argmax(ops.exp(x), 1), (20, 100)),
    "resize": of(lambda x: ops.resize(x, (1, 4, 14, 14), "linear"), (1, 4, 7, 7)),
    "resize nearest": of(lambda x: ops.resize(x, (1, 4, 14, 14)), (1, 4, 7, 7)),
    "sorted": of(lambda x: ops.exp(ops.cumprod(ops.neg(x), 0)), (7, 9)),
    "side by side": of(lambda x, y: [ops.exp(x), ops.sin(y)], (64, 48), (64, 48)),
    "side by side, unlike": of(lambda x, y: [ops.exp(x), ops.sin(y)], (64, 48), (3,)),
    "sums side by side": of(lambda x, y: [ops.sum(x, 1), ops.sum(y, 1)], (64, 48), (64, 48)),
    "diamond": of(lambda x: ops.add(ops.exp(ops.tanh(x)), ops.sum(ops.tanh(x), 1, True)), (64, 48)),
    "read by two": of(
        lambda x, w: [ops.matmul(ops.exp(x), w), ops.sum(ops.exp(x), 0)], (64, 48), (48, 32)
    ),
    "no elements": of(lambda x: [ops.exp(x), ops.sum(x, 1)], (5, 0)),
    "scalars": of(lambda x, y: ops.mul(ops.add(x, y), 2.0), (), ()),
    "bools": of(lambda x, y: ops.where(ops.greater(x, y), x, ops.neg(y)), (64, 48), (48,)),
    "attention": of(lambda q, k, v: ops.attention(q, k, v), *[(2, 4, 48, 16)] * 3),
    "transformer block": of(block, (2, 24, 64)),
    "einsum": of(lambda a, b: ops.einsum("bij,bkj->bik", a, b), (4, 20, 30), (4, 10, 30)),
    "huge": of(lambda x: ops.sum(ops.exp(x), 1), (1 << 14, 1 << 12)),
    "many sums": of(lambda x: ops.add(ops.sum(x, 0, True), ops.sum(x, 1, True)), (512, 512)),
    # ------------------------------------------------------------------ open sizes
    "open exp": open_sizes(lambda x, n: ops.exp(x), 33),
    "open softmax": open_sizes(lambda x, n: ops.softmax(x), 100),
    "open column sum": open_sizes(lambda x, n: ops.sum(x, 0), 100),
    "open sum": open_sizes(lambda x, n: ops.sum(x)),
    "open matmul": open_sizes(lambda x, n: ops.relu(ops.matmul(x, weights(48, 40))), 48),
    "open matmul, few": open_sizes(lambda x, n: ops.matmul(x, weights(48, 40)), 48, high=8, hint=2),
    "open gram": open_sizes(lambda x, n: ops.matmul(x, ops.transpose(x)), 48),
    "open conv": open_sizes(
        lambda x, n: ops.conv(x, weights(8, 4, 3, 3), pads=1), 4, 14, 14, high=64, hint=2
    ),
    "open reshape": open_sizes(lambda x, n: ops.exp(ops.reshape(ops.sin(x), (n * 2, 6))), 12),
    "open transpose": open_sizes(lambda x, n: ops.transpose(x, (1, 0)), 100),
    "open large": open_sizes(
        lambda x, n: ops.layer_norm(x, weights(768), weights(768)),
        768,
        low=1024,
        high=1 << 15,
        hint=4096,
    ),
}


def graph_of(name: str) -> Graph:
    """A graph of the table."""
    inputs, outputs = CASES[name]()
    return Graph(inputs, outputs)


CPU = Target(
    kind="cpu", arch="x86_64", cpu="haswell", features=("avx", "avx2", "f16c", "fma"),
    vector_bits=256, cores=4, l1=1 << 15, l2=1 << 20, l3=1 << 25,
)  # fmt: skip
WIDE = Target(
    kind="cpu", arch="x86_64", cpu="sapphirerapids",
    features=("avx", "avx2", "avx512bf16", "avx512bw", "avx512dq", "avx512f", "avx512vl",
              "avx512vnni", "f16c", "fma"),
    vector_bits=512, cores=8, l1=3 << 14, l2=1 << 21, l3=1 << 26,
)  # fmt: skip
GPU = target("cuda -arch=sm_80")
PRODUCTS = [name for name in CASES if name.split()[0] in ("matmul", "linear", "conv")]
#: Products for GPUs have tests of their own, and take long.
ON_GPUS = [name for name in CASES if name not in PRODUCTS[1:] or name in PRODUCTS[::5]]
