"""Calls that were made before run at once, and refuse what they refused before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from tileloom.frontend.sparse import repeated
from tileloom.sparse import graph_attention, sddmm, spmm, spmv

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]
N, K = 29, 20


def matrix(density: float = 0.2, rows: int = N, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(0)
    return sp.random_array((rows, N), density=density, format="csr", rng=rng).astype(dtype)


def dense(*shape: int, seed: int = 1, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def products(a: Any, x: Array, y: Array) -> Array:
    """The dot products at the elements of a matrix, in float64."""
    row, column = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices
    found: Array = np.einsum("pk,pk->p", x[row].astype("float64"), y[column].astype("float64"))
    return found


def attention(a: Any, q: Array, k: Array, v: Array, values: str = "ignore") -> Array:
    scores = products(a, q, k) * max(1, q.shape[1]) ** -0.5
    if values == "add":
        scores += a.data
    found = np.zeros((a.shape[0], v.shape[1]))
    for i, (begin, end) in enumerate(zip(a.indptr[:-1], a.indptr[1:], strict=True)):
        powers = np.exp(scores[begin:end])
        found[i] = powers / max(powers.sum(), 1e-300) @ v[a.indices[begin:end]]
    return found


class Operator:
    """An operator, its dense operands, and what it gives by NumPy in float64."""

    def __init__(self, name: str, call: Callable[..., Any], by_numpy: Callable[..., Any]) -> None:
        self.name, self.call, self.by_numpy = name, call, by_numpy

    def operands(self, rows: int = N, seed: int = 1, dtype: str = "float32") -> tuple[Array, ...]:
        if self.name == "spmv":
            return (dense(N, seed=seed, dtype=dtype),)
        x, y, z = (dense(*shape, seed=seed + s, dtype=dtype)
                   for s, shape in enumerate(((rows, K), (N, K), (N, K))))  # fmt: skip
        return {"spmm": (y,), "sddmm": (x, y)}.get(self.name.partition(" ")[0], (x, y, z))

    def check(self, a: Any, operands: tuple[Array, ...], out: Array | None = None) -> None:
        found = self.call(a, *operands, out=out)
        found = getattr(found, "data", found) if self.name.startswith("sddmm") else found
        assert out is None or found is out
        wanted = self.by_numpy(a, *operands)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


OPERATORS = [
    Operator("spmm", spmm, lambda a, x: a.astype("float64") @ x),
    Operator("spmv", spmv, lambda a, x: a.astype("float64") @ x),
    Operator("sddmm", sddmm, lambda a, x, y: a.data * products(a, x, y)),
    Operator("sddmm ignoring", partial(sddmm, values="ignore"), products),
    Operator("attention", graph_attention, attention),
    Operator(
        "attention adding", partial(graph_attention, values="add"), partial(attention, values="add")
    ),
]
each = pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each call since then whether it ran at once."""
    found: list[bool] = []

    def run_again(*arguments: Any) -> Any:
        result = repeated.run_again(*arguments)
        found.append(result is not None)
        return result

    for name in ("spmm", "spmv", "sddmm", "attention"):
        module = sys.modules[f"tileloom.frontend.sparse.{name}"]  # functions hide their modules
        monkeypatch.setattr(module, "run_again", run_again)
    return found


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_call_again(operator: Operator, dtype: str, ran: list[bool]) -> None:
    a = matrix(dtype=dtype)
    operator.check(a, operator.operands(dtype=dtype))
    for seed in (1, 7):
        operator.check(a, operator.operands(seed=seed, dtype=dtype))
        wanted = operator.by_numpy(a, *operator.operands(seed=seed, dtype=dtype))
        operator.check(a, operator.operands(seed=seed, dtype=dtype), np.empty(wanted.shape, dtype))
    assert ran == [False, *[True] * 4]


@each
@pytest.mark.parametrize(("rows", "density"), [(N, 0.0), (1, 0.5), (0, 0.0), (53, 0.02), (1, 1.0)])
def test_shapes(operator: Operator, rows: int, density: float) -> None:
    a = matrix(density, rows)
    for seed in (1, 2, 3):
        operator.check(a, operator.operands(rows, seed))


@each
def test_nan_stays(operator: Operator) -> None:
    a, operands = matrix(), operator.operands()
    first = operator.call(a, *operands, out=None)
    operands[-1][a.indices[0]] = np.nan
    again = operator.call(a, *operands, out=None)
    first, again = (
        getattr(f, "data", f) if "sddmm" in operator.name else f for f in (first, again)
    )
    assert np.isfinite(first).all()
    assert np.isnan(again).any()


@each
def test_values_may_change(operator: Operator, ran: list[bool]) -> None:
    a, operands = matrix(), operator.operands()
    operator.check(a, operands)
    a.data[...] = dense(a.nnz, seed=5)
    operator.check(a, operands)
    a.data = dense(a.nnz, seed=6)
    operator.check(a, operands)
    assert ran[1:] == [True, True]
    a.data = a.data.astype("float64")
    operator.check(a, operands)
    a.data = np.repeat(a.data, 2)[::2]
    if "sddmm" not in operator.name:
        with pytest.raises(ArgumentError, match="strided"):
            operator.check(a, operands)
    a.data = np.ma.masked_array(dense(a.nnz), mask=True)
    with pytest.raises(ArgumentError, match="masked"):
        operator.call(a, *operands, out=None)


@each
def test_indices_may_be_replaced(operator: Operator) -> None:
    a, operands = matrix(), operator.operands()
    operator.check(a, operands)
    a.indices = (N - 1 - a.indices).astype(a.indices.dtype)
    operator.check(a, operands)
    a.indices = np.full_like(a.indices, N)
    with pytest.raises(IndexingError):
        operator.call(a, *operands, out=None)


@each
def test_what_is_refused(operator: Operator) -> None:
    a, operands = matrix(), operator.operands()
    operator.check(a, operands)
    wanted = operator.by_numpy(a, *operands)
    frozen = np.empty(wanted.shape, "float32")
    frozen.flags.writeable = False
    bad: list[tuple[Any, type[Exception]]] = [
        (np.empty((*wanted.shape[:-1], wanted.shape[-1] + 1), "float32"), ShapeError),
        (np.empty(wanted.shape), DTypeError),
        (np.empty((*wanted.shape, 2), "float32")[..., 0], ArgumentError),
        (frozen, ArgumentError),
    ]
    for out, error in bad:
        with pytest.raises(error, match="out"):
            operator.call(a, *operands, out=out)
    for k in range(len(operands)):
        longer = np.concatenate([operands[k]] * 2)
        with pytest.raises(ShapeError):
            operator.call(a, *operands[:k], longer, *operands[k + 1 :], out=None)
    operator.check(a, operands)


@each
def test_out_shares_no_memory(operator: Operator) -> None:
    a, operands = matrix(), operator.operands()
    size = operator.by_numpy(a, *operands).size
    memory = np.empty(size + operands[-1].size, "float32")
    shared = memory[size - 1 : size - 1 + operands[-1].size].reshape(operands[-1].shape)
    shared[...] = operands[-1]
    operands = (*operands[:-1], shared)
    out = memory[:size].reshape(operator.by_numpy(a, *operands).shape)
    operator.check(a, operands)
    with pytest.raises(ArgumentError, match="out shares memory"):
        operator.call(a, *operands, out=out)
    if "sddmm" in operator.name:
        operator.check(a, operands)
        with pytest.raises(ArgumentError, match="out shares memory with mask"):
            operator.call(a, *operands, out=a.data)


@each
def test_operands_of_other_kinds(operator: Operator) -> None:
    a, operands = matrix(), operator.operands()
    operator.check(a, operands)
    operator.check(a, operator.operands(dtype="float64"))
    operator.check(a, (*operands[:-1], operands[-1].astype("float64")))
    operator.check(a, tuple(np.asfortranarray(x) for x in operands))
    operator.check(a, tuple(np.repeat(x, 2, axis=-1)[..., ::2] for x in operands))
    found = operator.call(a, *(x.tolist() for x in operands), out=None)
    assert getattr(found, "dtype", None) == "float64"


@each
def test_tensors(operator: Operator) -> None:
    torch = pytest.importorskip("torch")
    a, operands = matrix(), operator.operands()
    operator.check(a, operands)
    tensors = [torch.from_numpy(x) for x in operands]
    found = operator.call(a, *tensors, out=None)
    if "sddmm" not in operator.name:
        assert isinstance(found, torch.Tensor)
        wanted = operator.by_numpy(a, *operands)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)


def test_another_array_at_the_place_of_one_that_is_gone() -> None:
    x = dense(N, K)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a = sp.random_array((N, N), density=0.2, format="csr", rng=rng).astype("float32")
        for _ in range(2):
            np.testing.assert_allclose(spmm(a, x), a @ x, rtol=1e-5, atol=1e-5)
        del a


def test_a_resized_matrix() -> None:
    a, x = matrix(), dense(N, K)
    spmm(a, x)
    a.resize((N - 2, N))
    assert spmm(a, x).shape == (N - 2, K)
    np.testing.assert_allclose(spmm(a, x), a @ x, rtol=1e-5, atol=1e-5)


def test_a_large_result_begins_with_a_cache_line() -> None:
    rng = np.random.default_rng(0)
    a = sp.random_array((5000, N), density=0.2, format="csr", rng=rng).astype("float32")
    x = dense(N, 64)
    memory = np.empty(5000 * 64 + 17, "float32")
    for out in (None, memory[: 5000 * 64], memory[1 : 5000 * 64 + 1]):
        for _ in range(2):
            found = spmm(a, x, out=None if out is None else out.reshape(5000, 64))
            np.testing.assert_allclose(found, a @ x, rtol=1e-5, atol=1e-5)
            assert out is not None or found.ctypes.data % 64 == 0
