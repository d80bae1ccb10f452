"""Gradients of sparse operators, against those of PyTorch for the dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sp = pytest.importorskip("scipy.sparse")

from tileloom.base.errors import ArgumentError, UnsupportedError  # noqa: E402
from tileloom.sparse import (  # noqa: E402
    graph_attention,
    multiply,
    rgms,
    sddmm,
    segment_reduce,
    spgemm,
    spmm,
    spmv,
    subtract,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
LAYOUTS = ("csr", "csc", "coo", "bsr")


def masked(m: int, n: int, density: float, layout: str, dtype: Any = torch.float64) -> Any:
    """A sparse tensor, and where it has elements."""
    rng = np.random.default_rng(m + n)
    stored = rng.random((m, n)) < density
    if layout == "bsr":
        stored = np.kron(stored[::2, ::2], np.ones((2, 2), bool))[:m, :n]
    full = torch.from_numpy(np.where(stored, rng.standard_normal((m, n)) + 3, 0)).to(dtype)
    match layout:
        case "coo":
            return full.to_sparse(), torch.from_numpy(stored)
        case "bsr":
            return full.to_sparse_bsr((2, 2)), torch.from_numpy(stored)
        case _:
            return getattr(full, f"to_sparse_{layout}")(), torch.from_numpy(stored)


def recorded(values: Any, sparse: Any) -> Any:
    """A sparse tensor of which values are parameters."""
    match sparse.layout:
        case torch.sparse_coo:
            return torch.sparse_coo_tensor(sparse.indices(), values, sparse.shape)
        case torch.sparse_csr | torch.sparse_bsr:
            parts = sparse.crow_indices(), sparse.col_indices()
        case _:
            parts = sparse.ccol_indices(), sparse.row_indices()
    return torch.sparse_compressed_tensor(*parts, values, sparse.shape, layout=sparse.layout)


def leaf(*shape: int, seed: int = 1, dtype: Any = torch.float64) -> Any:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype).requires_grad_()


def twin(tensor: Any) -> Any:
    return tensor.detach().to_dense().clone().requires_grad_()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(12, 8, 5), (2, 30, 17), (40, 6, 1)])
def test_products(layout: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, stored = masked(m, n, 0.4, layout)
    values = a.values().clone().requires_grad_()
    x = leaf(n, k)
    a2, x2 = twin(a), twin(x)
    weight = torch.linspace(-1, 2, m * k, dtype=torch.float64).reshape(m, k)
    found, wanted = spmm(recorded(values, a), x), a2 @ x2
    torch.testing.assert_close(found, wanted)
    (found * weight).sum().backward()
    (wanted * weight).sum().backward()
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(recorded(values.grad, a).to_dense(), a2.grad * stored)


@pytest.mark.parametrize("layout", ["csr", "coo"])  # PyTorch keeps gradients of no others
def test_a_sparse_leaf_gets_a_sparse_gradient(layout: str) -> None:
    a, stored = masked(12, 8, 0.4, layout)
    a.requires_grad_()
    x = leaf(8, 3)
    for _ in range(2):  # gradients add up
        spmm(a, x).sum().backward()
    assert a.grad.layout is a.layout
    wanted = 2 * stored * x.detach().sum(1)
    torch.testing.assert_close(a.grad.to_dense(), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("values", ["multiply", "ignore"])
def test_sampled_products(layout: str, values: str) -> None:
    m, n, k = 12, 8, 5
    mask, stored = masked(m, n, 0.4, layout)
    edges = mask.values().clone().requires_grad_()
    x, y = leaf(m, k, seed=2), leaf(n, k, seed=3)
    mask2, x2, y2 = twin(mask), twin(x), twin(y)
    found = sddmm(recorded(edges, mask), x, y, values=values)
    wanted = (mask2 if values == "multiply" else stored) * (x2 @ y2.T)
    torch.testing.assert_close(found.detach().to_dense(), wanted.detach())
    right = leaf(n, 3, seed=4)
    spmm(found, right).square().sum().backward()
    (wanted @ right.detach()).square().sum().backward()
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(y.grad, y2.grad)
    if values == "multiply":
        torch.testing.assert_close(recorded(edges.grad, mask).to_dense(), mask2.grad * stored)
    else:
        assert edges.grad is None


def test_values_that_are_parameters() -> None:
    """The usual way: one vector of weights for the edges of a fixed graph."""
    a, _ = masked(9, 7, 0.4, "csr", torch.float32)
    values = a.values().clone().requires_grad_()
    x = leaf(7, 4, dtype=torch.float32)
    made = torch.sparse_csr_tensor(a.crow_indices(), a.col_indices(), values, a.shape)
    spmm(made, x).sum().backward()
    wanted = x.detach().sum(1)[a.col_indices()]
    torch.testing.assert_close(values.grad, wanted)


def test_a_matrix_of_scipy_times_a_tensor() -> None:
    a = sp.random_array((9, 7), density=0.3, format="csr", dtype="float32", rng=1)
    x = leaf(7, 4, dtype=torch.float32)
    spmm(a, x).sum().backward()
    wanted = torch.from_numpy(np.repeat(a.T @ np.ones((9, 1), "float32"), 4, axis=1))
    torch.testing.assert_close(x.grad, wanted)
    with pytest.raises(ArgumentError, match="mask is no tensor"):
        sddmm(a, leaf(9, 4), leaf(7, 4))


def test_coordinates_that_occur_twice() -> None:
    at = torch.tensor([[0, 0, 1], [1, 1, 0]])
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = leaf(2, 3, dtype=torch.float32)
    spmm(torch.sparse_coo_tensor(at, values, (2, 2)), x).sum().backward()
    rows = x.detach().sum(1)
    torch.testing.assert_close(values.grad, rows[[1, 1, 0]])
    torch.testing.assert_close(x.grad, torch.tensor([[3.0] * 3, [3.0] * 3]))


def test_products_with_vectors() -> None:
    a, _ = masked(9, 7, 0.4, "csr")
    a.requires_grad_()
    x = leaf(7)
    spmv(a, x).square().sum().backward()
    x2, a2 = twin(x), twin(a)
    (a2 @ x2).square().sum().backward()
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(a.grad.to_dense(), a2.grad * (a.detach().to_dense() != 0))
    torch.testing.assert_close(spmv(a, x.detach().numpy()), spmv(a, x))


def test_types_of_gradients_are_those_of_operands() -> None:
    a, _ = masked(9, 7, 0.4, "csr", torch.float32)
    a.requires_grad_()
    x = leaf(7, 4)
    spmm(a, x).sum().backward()
    assert a.grad.dtype is torch.float32
    assert x.grad.dtype is torch.float64


def test_nothing_is_recorded_where_it_is_not_wanted() -> None:
    a, _ = masked(9, 7, 0.4, "csr")
    x, y = leaf(7, 4), leaf(9, 4)
    with torch.no_grad():
        assert not spmm(a, x).requires_grad
        out = torch.zeros(9, 4, dtype=torch.float64)
        assert spmm(a, x, out=out) is out
        assert not sddmm(a, y, x).requires_grad
    with pytest.raises(ArgumentError, match="out= cannot be given where a gradient is recorded"):
        spmm(a, x, out=out)
    with pytest.raises(ArgumentError, match="out= cannot be given where a gradient is recorded"):
        sddmm(a, y, x, out=torch.zeros(a.values().shape, dtype=torch.float64))


def test_a_graph_without_edges() -> None:
    a = torch.zeros(3, 5).to_sparse_csr().requires_grad_()
    x = leaf(5, 2, dtype=torch.float32)
    spmm(a, x).sum().backward()
    assert not x.grad.any()
    assert a.grad._nnz() == 0


def test_operators_without_gradients_say_so() -> None:
    a = sp.random_array((4, 4), density=0.5, format="csr", dtype="float32", rng=1)
    w = torch.ones(1, 3, 2, requires_grad=True)
    with pytest.raises(UnsupportedError, match="w requires a gradient, which rgms does not record"):
        rgms([a], torch.ones(4, 3), w)
    q = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(UnsupportedError, match="which graph_attention does not record"):
        graph_attention(a, q, q, q)
    with pytest.raises(UnsupportedError, match="values requires a gradient"):
        segment_reduce(q, [0, 1, 4])
    b = torch.eye(4).to_sparse_csr().requires_grad_()
    with pytest.raises(UnsupportedError, match="b requires a gradient, which spgemm does not"):
        spgemm(a, b)
    with pytest.raises(UnsupportedError, match="b requires a gradient, which subtract does not"):
        subtract(a, b)
    with pytest.raises(UnsupportedError, match="b requires a gradient, which multiply does not"):
        multiply(a, torch.ones(4, requires_grad=True))
    with torch.no_grad():
        assert rgms([a], torch.ones(4, 3), w).shape == (4, 2)
