"""Moving, making and multiplying arrays against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from frontend.jit.helpers import BF16, check, wide
from tileloom import numpy as tnp
from tileloom.base.errors import UserError


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    return rng.standard_normal((2, 3, 5)).astype(np.float32)


MOVES: dict[str, Any] = {
    "reshape": (lambda x: tnp.reshape(x, (5, -1)), lambda x: np.reshape(x, (5, -1))),
    "flat": (lambda x: tnp.reshape(x, -1), lambda x: np.reshape(x, -1)),
    "permute": (lambda x: tnp.permute_dims(x, (2, 0, 1)), lambda x: np.transpose(x, (2, 0, 1))),
    "transpose": (lambda x: tnp.transpose(x), lambda x: x.T),
    "mT": (lambda x: tnp.matrix_transpose(x), lambda x: np.swapaxes(x, -1, -2)),
    "moveaxis": (lambda x: tnp.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "swapaxes": (lambda x: tnp.swapaxes(x, 0, 2), lambda x: np.swapaxes(x, 0, 2)),
    "expand": (lambda x: tnp.expand_dims(x, axis=1), lambda x: np.expand_dims(x, 1)),
    "squeeze": (lambda x: tnp.squeeze(x[:1], 0), lambda x: x[0]),
    "broadcast": (
        lambda x: tnp.broadcast_to(x, (4, 2, 3, 5)),
        lambda x: np.broadcast_to(x, (4, 2, 3, 5)),
    ),
    "concat": (lambda x: tnp.concat([x, x, x], axis=1), lambda x: np.concatenate([x, x, x], 1)),
    "concat_flat": (
        lambda x: tnp.concat([x, x[0]], axis=None),
        lambda x: np.concatenate([x, x[0]], None),
    ),
    "stack": (lambda x: tnp.stack([x, -x], axis=2), lambda x: np.stack([x, -x], 2)),
    "flip": (lambda x: tnp.flip(x, axis=(0, 2)), lambda x: np.flip(x, (0, 2))),
    "flip_all": (lambda x: tnp.flip(x), lambda x: np.flip(x)),
    "roll": (lambda x: tnp.roll(x, 2, axis=1), lambda x: np.roll(x, 2, 1)),
    "roll_flat": (lambda x: tnp.roll(x, -4), lambda x: np.roll(x, -4)),
    "tile": (lambda x: tnp.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "repeat": (lambda x: tnp.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, 1)),
    "pad": (
        lambda x: tnp.pad(x, ((1, 0), (0, 2), (1, 1))),
        lambda x: np.pad(x, ((1, 0), (0, 2), (1, 1))),
    ),
    "pad_edge": (lambda x: tnp.pad(x, 2, "edge"), lambda x: np.pad(x, 2, "edge")),
    "pad_reflect": (lambda x: tnp.pad(x, 1, "reflect"), lambda x: np.pad(x, 1, "reflect")),
    "pad_wrap": (lambda x: tnp.pad(x, 1, "wrap"), lambda x: np.pad(x, 1, "wrap")),
    "tril": (lambda x: tnp.tril(x, k=1), lambda x: np.tril(x, 1)),
    "triu": (lambda x: tnp.triu(x, k=-1), lambda x: np.triu(x, -1)),
    "take": (
        lambda x: tnp.take(x, np.array([2, 0, -1]), axis=1),
        lambda x: np.take(x, [2, 0, -1], 1),
    ),
    "take_flat": (lambda x: tnp.take(x, np.array([[7, 0]])), lambda x: np.take(x, [[7, 0]])),
    "along": (
        lambda x: tnp.take_along_axis(x, np.zeros((2, 1, 5), int), axis=1),
        lambda x: np.take_along_axis(x, np.zeros((2, 1, 5), int), 1),
    ),
    "astype": (lambda x: tnp.astype(x, "int32"), lambda x: x.astype("int32")),
}  # fmt: skip
INDICES = {
    "int": np.s_[1], "last": np.s_[-1, :, -2], "slice": np.s_[:, 1:], "step": np.s_[:, ::2, 4:0:-2],
    "ellipsis": np.s_[..., 1], "none": np.s_[:, None, 1], "all": np.s_[...], "reverse": np.s_[::-1],
    "empty": np.s_[1:1], "array": np.s_[:, np.array([2, 0])], "far": np.s_[0:100, -100:2],
    "ends": np.s_[..., -3:-1],
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: Any, x: Any) -> None:
    ours, numpys = MOVES[name]
    check(tl.jit(ours)(x), numpys(x))
    check(tl.jit(lambda x: ours(x * 2))(x), numpys(x * 2))  # fused with what makes it


@pytest.mark.parametrize("name", INDICES)
def test_indexing(name: Any, x: Any) -> None:
    key: Any = INDICES[name]
    check(tl.jit(lambda x: x[key])(x), x[key])
    check(tl.jit(lambda x: tnp.exp(x)[key] + 1)(x), np.exp(wide(x))[key] + 1, np.float32)


def test_several_results(x: Any) -> None:
    parts: Any = tl.jit(lambda x: tnp.split(x, 5, axis=2))(x)
    ours: Any
    theirs: Any
    for ours, theirs in zip(parts, np.split(x, 5, 2), strict=True):
        check(ours, theirs)
    for ours, theirs in zip(tnp.split(x, [1, 3], axis=2), np.split(x, [1, 3], 2), strict=True):
        check(ours, theirs)
    for ours, theirs in zip(tnp.unstack(x, axis=1), np.moveaxis(x, 1, 0), strict=True):
        check(ours, theirs)
    pair = tnp.broadcast_arrays(x, x[:1, :1])
    assert [p.shape for p in pair] == [x.shape] * 2
    for indexing in ("xy", "ij"):
        ours = tnp.meshgrid(x[0, 0], x[0, :, 0], indexing=indexing)
        theirs = np.meshgrid(x[0, 0], x[0, :, 0], indexing=indexing)
        for a, b in zip(ours, theirs, strict=True):
            check(a, b)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
def test_moves_of_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    check(tnp.transpose(x), x.T)
    check(tnp.concat([x, x]), np.concatenate([x, x]))
    check(tnp.reshape(x, (0,)), x.reshape(0))
    check(tl.jit(lambda x: x[..., :0] + 1)(x), x[..., :0] + 1)


def test_creation() -> None:
    check(tnp.zeros((2, 3)), np.zeros((2, 3)))
    check(tnp.ones(4, dtype="int64"), np.ones(4, "int64"))
    check(tnp.full((2,), 7), np.full((2,), 7))
    check(tnp.full((2,), 1.5, dtype="float16"), np.full((2,), 1.5, "float16"))
    check(tnp.arange(5), np.arange(5))
    check(tnp.arange(1, 2, 0.25), np.arange(1, 2, 0.25))
    check(tnp.linspace(0, 1, 5), np.linspace(0, 1, 5))
    check(tnp.eye(3, 4), np.eye(3, 4))
    check(tnp.asarray([1, 2]), np.asarray([1, 2]))
    like = np.ones((2, 2), np.int8)
    check(tnp.zeros_like(like), np.zeros_like(like))
    check(tnp.ones_like(like, dtype="float32"), np.ones((2, 2), np.float32))
    check(tnp.full_like(like, 3), np.full_like(like, 3))
    found = tl.jit(lambda x: x + tnp.arange(3) * tnp.ones(3) + tnp.eye(3))(np.ones(3, np.float32))
    check(found, (1 + np.arange(3) + np.eye(3)), np.float64)


# ---------------------------------------------------------------------------- products


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)), ((5, 1, 3, 4), (2, 4, 5)), ((1, 1), (1, 1)), ((17, 31), (31, 13)),
        ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((2, 0, 4), (4, 3)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_matmul(
    a: tuple[int, ...], b: tuple[int, ...], kind: str, rng: np.random.Generator
) -> None:
    x, y = (10 * rng.standard_normal(shape) for shape in (a, b))
    x, y = x.astype(kind), y.astype(kind)
    check(tl.jit(lambda x, y: x @ y)(x, y), np.asarray(wide(x) @ wide(y)), kind, scale=100)


@pytest.mark.parametrize("kind", ["float16", BF16])
def test_matmul_of_narrow_floats(kind: Any, rng: np.random.Generator) -> None:
    x, y = (rng.standard_normal(s).astype(kind) for s in ((33, 70), (70, 20)))
    check(tnp.matmul(x, y), wide(x) @ wide(y), kind, scale=4)


def test_other_products(rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 4, 5), (4, 5, 6)))
    check(tnp.tensordot(a, b), np.tensordot(wide(a), wide(b)), np.float32)
    check(
        tnp.tensordot(a, b, axes=([1], [0])), np.tensordot(wide(a), wide(b), ([1], [0])), "float32"
    )
    check(tnp.vecdot(a, a), np.sum(wide(a) * a, -1), np.float32)
    check(tnp.einsum("ijk,jkl->il", a, b), np.einsum("ijk,jkl->il", wide(a), wide(b)), np.float32)
    check(tnp.einsum("ijk->kj", a), np.einsum("ijk->kj", wide(a)), np.float32, scale=2)


# ---------------------------------------------------------------------------- networks


def test_normalisation(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 6, 10)).astype(np.float32)
    g, b = rng.standard_normal((2, 10)).astype(np.float32)
    centred = wide(x) - wide(x).mean(-1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    check(tnp.layer_norm(x), exact, np.float32)
    check(tnp.layer_norm(x, g, b), exact * g + b, np.float32)
    exact = wide(x) / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True) + 1e-5)
    check(tnp.rms_norm(x, g), exact * g, np.float32)


def test_attention_pools_and_convolutions_agree_with_torch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional

    def compare(ours: Any, theirs: Any) -> None:
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)

    q, k, v = rng.standard_normal((3, 2, 7, 8)).astype(np.float32)
    tensors = [torch.from_numpy(a.copy()) for a in (q, k, v)]
    for causal in (False, True):
        theirs = functional.scaled_dot_product_attention(*tensors, is_causal=causal)
        compare(tnp.attention(q, k, v, causal=causal), theirs)
    image = rng.standard_normal((2, 4, 9, 11)).astype(np.float32)
    weight, bias = rng.standard_normal((6, 2, 3, 3)).astype(np.float32), np.ones(6, np.float32)
    t = torch.from_numpy
    theirs = functional.conv2d(t(image), t(weight), t(bias), 2, 1, groups=2)
    compare(tnp.conv(image, weight, bias, strides=2, pads=1, groups=2), theirs)
    compare(tnp.max_pool(image, 3, strides=2, pads=1), functional.max_pool2d(t(image), 3, 2, 1))
    compare(tnp.avg_pool(image, 3, strides=1), functional.avg_pool2d(t(image), 3, 1))


@pytest.mark.parametrize(
    "bad",
    [
        lambda x: tnp.reshape(x, (7, 7)),
        lambda x: tnp.concat([x, x[..., :1]], axis=0),
        lambda x: x + np.ones(4, np.float32),
        lambda x: x @ x,
        lambda x: x[2],
        lambda x: x[0, 0, 0, 0],
        lambda x: tnp.squeeze(x, 0),
        lambda x: tnp.permute_dims(x, (0, 0, 1)),
        lambda x: tnp.split(x, 2, axis=1),
        lambda x: tnp.einsum("ij->i", x),
        lambda x: x[x > 0],
        lambda x: tnp.meshgrid(x[0, 0], indexing="zz"),
        lambda x: tnp.broadcast_to(x, (2, 3, 4)),
    ],
)
def test_what_does_not_fit_is_refused(bad: Any, x: Any) -> None:
    with pytest.raises(UserError):
        tl.jit(bad)(x)
