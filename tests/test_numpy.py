"""`tileloom.numpy`: its names, at once against NumPy, inside a trace, and wrong calls."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileloom
from tileloom import UserError
from tileloom import numpy as tnp

# --------------------------------------------------------------------------- data

_RNG = np.random.default_rng(5)
X = (_RNG.uniform(0.1, 0.9, (3, 5)) * np.array([1, -1, 1, -1, 1])).astype(np.float32)
P = np.abs(X)  # inside (0, 1): every function of real numbers is defined there
W = _RNG.uniform(1.1, 3.0, (1, 5)).astype(np.float32)
I = _RNG.integers(1, 7, (3, 5)).astype(np.int16)
J = _RNG.integers(0, 4, (3, 1))
B = X > 0
NANS = np.where(B, X, np.float32(np.nan))
IMAGE = _RNG.uniform(-1, 1, (2, 4, 5, 3)).astype(np.float32)
CLASSES = np.array([4, 0, 2])
T: Any
S, T = np.array([1.5, 0.5, 2, 1], np.float32), np.array([0, 1, -1, 2], np.float32)
_erf = np.vectorize(math.erf)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _normal(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    mean, var = np.mean(x, axis=axes, keepdims=True), np.var(x, axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def _channels(v: Any) -> Any:
    return v.reshape(1, 4, 1, 1)


def _windows(x: Any, h: int, w: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (h, w), (-2, -1))


# --------------------------------------------------------------------------- the table


def words(text: str) -> list[str]:
    return text.split()


UNARY = {
    **dict.fromkeys(
        words(
            "acos asin atan sin cos tan sinh cosh tanh asinh atanh exp exp2 expm1 log log1p log2 "
            "log10 sqrt cbrt reciprocal sinc deg2rad rad2deg"
        ),
        (P,),
    ),
    "acosh": (W,),
    **dict.fromkeys(
        words(
            "abs negative positive sign square isnan isinf isfinite signbit logical_not ceil floor "
            "trunc fix round real imag conj copy ravel"
        ),
        (X, I),
    ),
    "bitwise_invert": (I, B),
}
BINARY = {
    **dict.fromkeys(
        words(
            "add subtract multiply divide pow remainder floor_divide fmod maximum minimum fmax "
            "fmin equal not_equal less less_equal greater greater_equal"
        ),
        ((X, W), (I, J), (P, 2)),
    ),
    **dict.fromkeys(
        words("atan2 hypot copysign logaddexp logical_and logical_or logical_xor heaviside"),
        ((X, W), (0.5, I)),
    ),
    **dict.fromkeys(words("bitwise_and bitwise_or bitwise_xor"), ((I, J), (I, 3), (B, B))),
    **dict.fromkeys(words("bitwise_left_shift bitwise_right_shift"), ((I, J),)),
}
#: Calls that NumPy understands as they are.
CALLS: dict[str, Callable[[Any], Any]] = {
    "all": lambda xp: xp.all(B, axis=0), "any": lambda xp: xp.any(B, axis=(0, 1), keepdims=True),
    "allclose": lambda xp: xp.allclose(X, X + 1e-9),
    "append": lambda xp: xp.append(X, W, axis=0),
    "arange": lambda xp: (xp.arange(7), xp.arange(1, 2, 0.25), xp.arange(3, dtype="int8")),
    "argmax": lambda xp: (xp.argmax(X), xp.argmax(X, axis=1, keepdims=True)),
    "argmin": lambda xp: (xp.argmin(X), xp.argmin(X, axis=0)),
    "argsort": lambda xp: xp.argsort(X, axis=0),
    "array_equal": lambda xp: (xp.array_equal(X, X), xp.array_equal(X, W)),
    "asarray": lambda xp: (xp.asarray(X), xp.asarray([[1, 2]], dtype="float16"), xp.asarray(2.5)),
    "astype": lambda xp: xp.astype(X * 9, np.int8),
    "average": lambda xp: (xp.average(X), xp.average(X, axis=1, weights=P)),
    "broadcast_arrays": lambda xp: xp.broadcast_arrays(X, W, 2.0),
    "broadcast_to": lambda xp: xp.broadcast_to(W, (2, 3, 5)),
    "clip": lambda xp: (xp.clip(X, -0.2, 0.3), xp.clip(I, 2, None), xp.clip(X, max=W)),
    "concat": lambda xp: (xp.concat([X, W, I]), xp.concat([X, I], axis=None)),
    "count_nonzero": lambda xp: xp.count_nonzero(B, axis=1),
    "cross": lambda xp: xp.cross(X[:, :3], X[:, 2:]),
    "cumulative_prod": lambda xp: xp.cumulative_prod(I, axis=1),
    "cumulative_sum": lambda xp: xp.cumulative_sum(X, axis=0, include_initial=True),
    "diag": lambda xp: (xp.diag(X, 1), xp.diag(S, -2)),
    "diagonal": lambda xp: xp.diagonal(IMAGE, 1),
    "diff": lambda xp: xp.diff(X, axis=0, n=2, prepend=W),
    "divmod": lambda xp: xp.divmod(I, 3), "dot": lambda xp: xp.dot(X, W[0]),
    "einsum": lambda xp: xp.einsum("ij,kj->ik", X, W),
    "empty": lambda xp: xp.empty((2, 3)) * 0, "empty_like": lambda xp: xp.empty_like(I) * 0,
    "expand_dims": lambda xp: xp.expand_dims(X, axis=(0, 2)),
    "eye": lambda xp: (xp.eye(3, 4, k=1), xp.eye(2, dtype=np.int8)),
    "flip": lambda xp: xp.flip(X, axis=1),
    "full": lambda xp: (xp.full((2, 3), 1.5), xp.full(3, 2), xp.full((), True)),
    "full_like": lambda xp: xp.full_like(I, 7),
    "hstack": lambda xp: xp.hstack([X, I]), "inner": lambda xp: xp.inner(X, W),
    "isclose": lambda xp: xp.isclose(X, X + np.float32(1e-3), 1e-2, 1e-3),
    "kron": lambda xp: xp.kron(X, W), "linspace": lambda xp: xp.linspace(0, 2, 7, endpoint=False),
    "matmul": lambda xp: xp.matmul(X, W.T), "matrix_transpose": lambda xp: xp.matrix_transpose(X),
    "max": lambda xp: (xp.max(X), xp.max(I, axis=0)), "min": lambda xp: xp.min(X, axis=1),
    "mean": lambda xp: (xp.mean(X, axis=1), xp.mean(I)), "median": lambda xp: xp.median(X, axis=0),
    "meshgrid": lambda xp: xp.meshgrid(S, T[:3], indexing="ij"),
    "moveaxis": lambda xp: xp.moveaxis(IMAGE, 1, -1),
    "nan_to_num": lambda xp: xp.nan_to_num(NANS, True, 0.5),
    **{f"nan{name}": lambda xp, name=name: getattr(xp, f"nan{name}")(NANS, axis=1)  # type: ignore[misc]
       for name in ("sum", "prod", "mean", "var", "std", "max", "min")},
    "ones": lambda xp: xp.ones((2, 1)), "ones_like": lambda xp: xp.ones_like(I),
    "outer": lambda xp: xp.outer(S, T),
    "pad": lambda xp: (xp.pad(X, ((0, 1), (2, 0)), constant_values=0.5), xp.pad(X, 1, "edge")),
    "permute_dims": lambda xp: xp.permute_dims(IMAGE, (2, 0, 3, 1)),
    "prod": lambda xp: xp.prod(I, axis=1), "ptp": lambda xp: xp.ptp(X, axis=0),
    "repeat": lambda xp: (xp.repeat(X, 2, axis=0), xp.repeat(X, np.array([2, 0, 1]), axis=0)),
    "reshape": lambda xp: (xp.reshape(X, (5, -1)), xp.reshape(X, np.int64(15))),
    "roll": lambda xp: xp.roll(X, (1, -2), axis=(0, 1)),
    "select": lambda xp: xp.select([X > 0.5, B], [X, -X], 0.0),
    "sort": lambda xp: xp.sort(X, axis=0), "split": lambda xp: xp.split(X, [1, 3], axis=1),
    "squeeze": lambda xp: xp.squeeze(W, axis=0), "stack": lambda xp: xp.stack([X, I], axis=1),
    "std": lambda xp: xp.std(X, axis=1, correction=1), "var": lambda xp: xp.var(I, axis=0),
    "sum": lambda xp: (xp.sum(I, axis=0), xp.sum(X, axis=(0, 1)), xp.sum(X, initial=2, where=B)),
    "swapaxes": lambda xp: xp.swapaxes(IMAGE, 1, 3),
    "take": lambda xp: (xp.take(X, [2, -1], axis=0), xp.take(X, np.array([[7, 0]]))),
    "take_along_axis": lambda xp: xp.take_along_axis(X, J, axis=1),
    "tensordot": lambda xp: xp.tensordot(X, X, axes=([1], [1])),
    "tile": lambda xp: (xp.tile(X, (2, 1, 3)), xp.tile(X, 2)),
    "trace": lambda xp: xp.trace(IMAGE, 1), "transpose": lambda xp: xp.transpose(X),
    "tril": lambda xp: xp.tril(X, k=1), "triu": lambda xp: xp.triu(X, k=-1),
    "unstack": lambda xp: xp.unstack(X, axis=1), "vdot": lambda xp: xp.vdot(X, X),
    "vecdot": lambda xp: xp.vecdot(X, W), "vstack": lambda xp: xp.vstack([W[0], X]),
    "where": lambda xp: (xp.where(B, X, 0), xp.where(B, I, 2.5), xp.where(True, X, W)),
    "zeros": lambda xp: xp.zeros(3, dtype=bool), "zeros_like": lambda xp: xp.zeros_like(X),
}  # fmt: skip
#: What NumPy has not: a call, and the same in NumPy.
NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    name: (lambda name=name: getattr(tnp, name)(X), lambda formula=formula: formula(X))  # type: ignore[misc]
    for name, formula in {
        "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "erf": _erf, "erfc": lambda x: 1 - _erf(x),
        "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
        "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
        "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
        "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
        "log_sigmoid": lambda x: np.log(_sigmoid(x)),
        "log_softmax": lambda x: np.log(_softmax(x)), "softmax": _softmax,
        "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.clip(x, 0, 6), "sigmoid": _sigmoid,
        "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "silu": lambda x: x * _sigmoid(x), "softplus": lambda x: np.log1p(np.exp(x)),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
        "layer_norm": lambda x: _normal(x, -1),
        "rms_norm": lambda x: x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5),
    }.items()
}  # fmt: skip
NETWORKS |= {
    "rsqrt": (lambda: tnp.rsqrt(P), lambda: 1 / np.sqrt(P)),
    "swiglu": (lambda: tnp.swiglu(X, W), lambda: X * _sigmoid(X) * W),
    "attention": (
        lambda: tnp.attention(X, X, W * X),
        lambda: _softmax(X @ X.T / math.sqrt(5)) @ (W * X),
    ),
    "batch_norm": (
        lambda: tnp.batch_norm(IMAGE, S, T, T, S, eps=0.1),
        lambda: (IMAGE - _channels(T)) / np.sqrt(_channels(S) + 0.1) * _channels(S) + _channels(T),
    ),
    "instance_norm": (
        lambda: tnp.instance_norm(IMAGE, S, T),
        lambda: _normal(IMAGE, (2, 3)) * _channels(S) + _channels(T),
    ),
    "group_norm": (
        lambda: tnp.group_norm(IMAGE, S, T, 2),
        lambda: (
            _normal(IMAGE.reshape(2, 2, -1), -1).reshape(IMAGE.shape) * _channels(S) + _channels(T)
        ),
    ),
    "conv": (
        lambda: tnp.conv(IMAGE, IMAGE[:, :, :2, :2], T[:2]),
        lambda: (
            np.einsum("nchwij,ocij->nohw", _windows(IMAGE, 2, 2), IMAGE[:, :, :2, :2])
            + T[:2].reshape(1, 2, 1, 1)
        ),
    ),
    "max_pool": (lambda: tnp.max_pool(IMAGE, 2), lambda: _windows(IMAGE, 2, 2).max((-2, -1))),
    "avg_pool": (
        lambda: tnp.avg_pool(IMAGE, (1, 3)),
        lambda: _windows(IMAGE, 1, 3).mean((-2, -1)),
    ),
    "dropout": (lambda: tnp.dropout(X, B, rate=0.2), lambda: np.where(B, X / 0.8, 0)),
    "cross_entropy": (
        lambda: tnp.cross_entropy(X, CLASSES),
        lambda: -np.log(_softmax(X))[np.arange(3), CLASSES].mean(),
    ),
    "mse_loss": (lambda: tnp.mse_loss(X, P), lambda: np.mean((X - P) ** 2)),
    "l1_loss": (
        lambda: tnp.l1_loss(X, W * np.ones_like(X), reduction="none"),
        lambda: np.abs(X - W),
    ),
    "huber_loss": (lambda: tnp.huber_loss(X, P, delta=9.0), lambda: np.mean((X - P) ** 2) / 2),
    "bce_loss": (
        lambda: tnp.bce_loss(P, P),
        lambda: -np.mean(P * np.log(P) + (1 - P) * np.log(1 - P)),
    ),
    "kl_div": (
        lambda: tnp.kl_div(X, P, reduction="sum"),
        lambda: np.sum(P * (np.log(P) - X)),
    ),
}
LINALG: dict[str, Callable[[Any], Any]] = {
    "cross": lambda la: la.cross(X[:, :3], X[:, 2:]),
    "diagonal": lambda la: la.diagonal(IMAGE, offset=-1),
    "matmul": lambda la: la.matmul(X, X.T), "matrix_transpose": lambda la: la.matrix_transpose(X),
    "matrix_norm": lambda la: [la.matrix_norm(IMAGE, ord=n) for n in ("fro", 1, -1, np.inf)],
    "norm": lambda la: (
        la.norm(IMAGE), la.norm(X, axis=1), la.norm(X, -np.inf), la.norm(X[0], 3),
        la.norm(IMAGE, 1, (3, 1), True), la.norm(IMAGE, "fro", axis=(0, 2)),
    ),
    "outer": lambda la: la.outer(S, T), "tensordot": lambda la: la.tensordot(X, X.T, axes=1),
    "trace": lambda la: la.trace(IMAGE, offset=1), "vecdot": lambda la: la.vecdot(X, X),
    "vector_norm": lambda la: [la.vector_norm(X, axis=0, ord=n) for n in (2, 1, 0, 3, np.inf)],
}  # fmt: skip

# --------------------------------------------------------------------------- names

TYPES: Any = words(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
)
CONSTANTS = words("e inf nan newaxis pi")
INSPECTION = words("can_cast finfo iinfo isdtype result_type")


def test_what_there_is() -> None:
    functions = {*UNARY, *BINARY, *CALLS, *NETWORKS}
    assert set(dir(tnp)) == {*functions, *TYPES, *CONSTANTS, *INSPECTION, "linalg"}
    assert set(dir(tnp)) == set(tnp.__all__) and len(tnp.__all__) == len(dir(tnp))  # type: ignore[attr-defined]
    assert set(dir(tnp.linalg)) == set(LINALG) == set(tnp.linalg.__all__)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = tnp.no_such_thing  # type: ignore[attr-defined]


def test_constants_and_types() -> None:
    for name in CONSTANTS:
        ours, numpys = getattr(tnp, name), getattr(np, name)
        assert ours is numpys or ours == numpys or (math.isnan(ours) and math.isnan(numpys))
    for name in TYPES:
        theirs = ml_dtypes.bfloat16 if name == "bfloat16" else getattr(np, name)
        assert getattr(tnp, name) is theirs and tnp.zeros(1, dtype=theirs).dtype == theirs


def test_functions_know_their_names() -> None:
    for room in (tnp, tnp.linalg):
        for name in dir(room):
            function = getattr(room, name)
            if callable(function) and name not in TYPES:
                assert function.__name__ == name and function.__doc__, name
                assert pickle.loads(pickle.dumps(function)) is function


def test_arrays_know_the_namespace() -> None:
    found: Any = []
    tileloom.jit(lambda x: found.append(x.__array_namespace__()) or x)(X)
    assert found == [tnp]


# --------------------------------------------------------------------------- at once


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (list, tuple)):
        assert isinstance(ours, (list, tuple)) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
        return
    assert type(ours) is np.ndarray and ours.flags.writeable
    theirs = np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(
        np.asarray(ours, np.float64), np.asarray(theirs, np.float64), rtol=3e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", UNARY)
def test_of_one_array(name: str) -> None:
    for x in UNARY[name]:
        same(getattr(tnp, name)(x), getattr(np, name)(x))


@pytest.mark.parametrize("name", BINARY)
def test_of_two_arrays_or_numbers(name: str) -> None:
    for x, y in BINARY[name]:
        with np.errstate(invalid="ignore"):
            theirs = getattr(np, name)(x, y)
        same(getattr(tnp, name)(x, y), theirs)


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy_has_it(name: str) -> None:
    same(CALLS[name](tnp), CALLS[name](np))


@pytest.mark.parametrize("name", NETWORKS)
def test_what_numpy_lacks(name: str) -> None:
    ours, formula = NETWORKS[name]
    same(ours(), np.asarray(formula(), np.float32))


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name: str) -> None:
    same(LINALG[name](tnp.linalg), LINALG[name](np.linalg))


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1, 1), (2, 0)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.5, np.float32)
    for xp in (tnp, np):
        found = (
            xp.exp(x), xp.add(x, 1), xp.sum(x), xp.where(x > 0, x, 2), xp.expand_dims(x, axis=0),
            xp.concat([x, x], axis=None), xp.broadcast_to(x, (2, *shape)), xp.zeros_like(x),
        )  # fmt: skip
        if xp is tnp:
            ours = found
    same(ours, found)


def test_views_and_lists() -> None:
    same(tnp.exp(X.T[::-2]), np.exp(X.T[::-2]))
    same(tnp.exp([[0.5, 1], [2, 3]]), np.exp([[0.5, 1], [2, 3]]))  # type: ignore[arg-type]
    same(tnp.exp([X, X]), np.exp([X, X]))
    same(tnp.add([1, 2], X[:2, :2]), np.add([1, 2], X[:2, :2]))
    same(tnp.add(1, 2), np.add(1, 2))
    assert tnp.asarray(X) is X and tnp.asarray(X, copy=True) is not X


def test_options_are_told_apart_by_type_and_value() -> None:
    same(tnp.clip(I, min=2), np.clip(I, 2, None))
    same(tnp.clip(I, min=2.0), np.clip(I, 2.0, None))
    same(tnp.sum(I, initial=True), np.sum(I, initial=True))
    same(tnp.sum(I, axis=np.int64(1)), np.sum(I, axis=1))  # type: ignore[arg-type]
    same(tnp.pad(X, 1, constant_values=0.0), np.pad(X, 1))
    assert np.signbit(tnp.pad(X, 1, constant_values=-0.0)[0, 0])
    typed = tileloom.jit(lambda x, n: x * (10 if n is True else 2.5 if n == 1.0 else 0),
                         static_argnames="n")  # fmt: skip
    same([typed(I, 1), typed(I, True)], [I * 2.5, I * 10])


def test_arrays_of_others() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    found = tnp.exp(x)
    assert isinstance(found, torch.Tensor)
    same(found.numpy(), np.exp(X))
    given = tnp.asarray(x)
    same(given, X)
    assert np.shares_memory(given, X)


# --------------------------------------------------------------------------- in a trace


def test_inside_jit() -> None:
    def function(x: Any, w: Any) -> Any:
        rows = tnp.asarray([x[0], x[1], w[0]])
        line = tnp.asarray([1.0, 2.0, 3.0])
        line += x[:, 0]
        return (
            tnp.softmax(rows), line, tnp.linalg.vector_norm(x, axis=1), tnp.nanmax(x, axis=0),
            tnp.isclose(x, tnp.abs(x)), tnp.full((2,), tnp.pi), x[tnp.newaxis], tnp.eye(2),
            x * tnp.finfo(x.dtype).eps, tnp.astype(x, tnp.result_type(x, "float64")),  # type: ignore[arg-type]
        )  # fmt: skip

    rows = np.stack([X[0], X[1], W[0]])
    eps = np.finfo(np.float32).eps
    same(tileloom.jit(function)(X, W), (
        _softmax(rows), [1.0, 2, 3] + X[:, 0], np.linalg.norm(X, axis=1), X.max(0),
        np.isclose(X, np.abs(X)), np.full(2, np.pi), X[None], np.eye(2), X * eps,
        X.astype(np.float64),
    ))  # fmt: skip


def test_a_copy_may_be_written_to() -> None:
    def function(x: Any) -> Any:
        copy = tnp.asarray(x, copy=True)
        copy += 1
        return copy

    same(tileloom.jit(function)(X), X + 1)
    with pytest.raises(tileloom.TraceError, match="array of the caller"):

        def writes(x: Any) -> Any:
            same_elements = tnp.asarray(x)
            same_elements += 1
            return same_elements

        tileloom.jit(writes)(X)


# --------------------------------------------------------------------------- data types


def test_kinds_and_limits() -> None:
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                 "complex floating", "numeric", np.float32, ("integral", "bool")):  # fmt: skip
        for name in TYPES:
            if name != "bfloat16":  # NumPy takes it for no float
                theirs = np.isdtype(np.dtype(name), kind)
                assert tnp.isdtype(name, kind) is theirs, (name, kind)
    assert tnp.isdtype(tnp.bfloat16, "real floating") and tnp.isdtype("bfloat16", tnp.bfloat16)
    assert tnp.finfo(X).max == np.finfo(np.float32).max and tnp.finfo(tnp.bfloat16).bits == 16
    assert (tnp.iinfo("int16").min, tnp.iinfo(I).max) == (-(1 << 15), (1 << 15) - 1)


def test_promotion() -> None:
    for pair in ((X, 2), (X, 2.5), (I, 2.5), (I, J), (I, np.float16), (True, 1), ("int8", "uint8")):
        assert tnp.result_type(*pair) == np.result_type(*pair), pair
    assert tnp.result_type("bfloat16", 1.5) == ml_dtypes.bfloat16  # type: ignore[arg-type]
    assert tnp.result_type("bfloat16", "float16") == np.float32  # type: ignore[arg-type]
    for a in TYPES:
        for b in TYPES:
            if "bfloat16" not in (a, b):
                assert tnp.can_cast(a, b) is np.can_cast(a, b), (a, b)


# --------------------------------------------------------------------------- wrong calls

WRONG: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "sum": (lambda: tnp.sum(X, 0), TypeError),  # type: ignore[call-arg]
    "mean": (lambda: tnp.mean(X, axes=0), TypeError),  # type: ignore[call-arg]
    "exp": (lambda: tnp.exp(X, X), TypeError),  # type: ignore[call-arg]
    "any": (lambda: tnp.any(), TypeError),  # type: ignore[call-arg]
    "max": (lambda: tnp.max(X, axis="rows"), TypeError),  # type: ignore[arg-type]
    "prod": (lambda: tnp.prod(X, axis={1}), TypeError),  # type: ignore[arg-type]
    "log": (lambda: tnp.log("text"), UserError),  # type: ignore[arg-type]
    "cos": (lambda: tnp.cos(None), UserError),  # type: ignore[arg-type]
    "sin": (lambda: tnp.sin(X + 1j), UserError),
    "sqrt": (lambda: tnp.sqrt([X, X[0]]), ValueError),
    "min": (lambda: tnp.min(X, axis=2), UserError),
    "add": (lambda: tnp.add(X, S), UserError),
    "matmul": (lambda: tnp.matmul(X, X), UserError),
    "reshape": (lambda: tnp.reshape(X, (4, 4)), UserError),
    "repeat": (lambda: tnp.repeat(X, [1, -2, 3], axis=0), UserError),
    "take": (lambda: tnp.take(X, [5], axis=0), IndexError),
    "zeros": (lambda: tnp.zeros(3, dtype="complex64"), UserError),
    "linspace": (lambda: tnp.linspace(0, 1, -1), UserError),
    "clip": (lambda: tnp.clip(I, 1 << 80, 3), UserError),
    "asarray": (lambda: tnp.asarray(X, dtype="int8", copy=False), ValueError),
    "cross": (lambda: tnp.linalg.cross(X, X), UserError),
    "outer": (lambda: tnp.linalg.outer(X, X), UserError),
    "matrix_norm": (lambda: tnp.linalg.matrix_norm(X, ord="nuc"), UserError),
    "norm": (lambda: tnp.linalg.norm(IMAGE, 3), UserError),
    "isdtype": (lambda: tnp.isdtype("int8", "whole"), UserError),
    "finfo": (lambda: tnp.finfo("int8"), UserError),
    "iinfo": (lambda: tnp.iinfo(1.5, 2), TypeError),  # type: ignore[call-arg]
    "result_type": (lambda: tnp.result_type(), UserError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_name_the_function(name: str) -> None:
    call, kind = WRONG[name]
    with pytest.raises(kind) as raised:
        call()
    assert isinstance(raised.value, UserError)
    assert re.match(rf"{name}\b", raised.value.message), raised.value.message
    assert kind is not TypeError or f"it is called as {name}(" in str(raised.value)


def test_wrong_calls_inside_jit() -> None:
    with pytest.raises(TypeError, match=r"(?s)exp\(\) got an unexpected keyword.*exp\(x, /\)"):
        tileloom.jit(lambda x: tnp.exp(x, base=2))(X)  # type: ignore[call-arg]
    with pytest.raises(UserError, match=r"(?s)^exp: a list of traced arrays.*stack"):
        tileloom.jit(lambda x: tnp.exp([x, x]))(X)
    with pytest.raises(UserError, match=r"^where\(\) of a condition alone"):
        tnp.where(B)
