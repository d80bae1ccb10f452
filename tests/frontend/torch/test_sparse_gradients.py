"""Gradients of sparse operators, against those of PyTorch for the dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sp = pytest.importorskip("scipy.sparse")

from tileloom.base.errors import ArgumentError, UnsupportedError  # noqa: E402
from tileloom.sparse import (  # noqa: E402
    convolution_map,
    graph_attention,
    multiply,
    rgms,
    sddmm,
    segment_reduce,
    segment_softmax,
    sparse_conv,
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


@pytest.mark.parametrize(
    ("layout", "shape"),
    [*((layout, (12, 8, 5)) for layout in LAYOUTS), ("csr", (2, 30, 17)), ("coo", (40, 6, 1))],
)
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


# ---------------------------------------------------------------------------- attention


def full_attention(values: str, mask: Any, stored: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention of dense tensors; rows without elements are 0."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = {"ignore": scores, "add": scores + mask, "multiply": scores * mask}[values]
    empty = ~stored.any(1, keepdim=True)
    powers = torch.softmax(scores.masked_fill(~stored & ~empty, -torch.inf), -1)
    return powers.masked_fill(empty, 0) @ v


@pytest.mark.parametrize(
    ("values", "layout", "heads"),
    [("ignore", "coo", ()), ("add", "csr", (2,)), ("multiply", "csc", ()), ("add", "bsr", ()),
     ("multiply", "csr", (3,))],
)  # fmt: skip
def test_attention(values: str, layout: str, heads: tuple[int, ...]) -> None:
    """Float64 and float32, with rows without elements."""
    for dtype in (torch.float64, torch.float32):
        mask, stored = masked(12, 8, 0.2, layout, dtype)
        assert not stored.any(1).all()
        edges = mask.values().clone().requires_grad_()
        shapes = (12, 3), (8, 3), (8, 3)
        arrays = [leaf(*heads, *shape, seed=n, dtype=dtype) for n, shape in enumerate(shapes)]
        mask2, twins = twin(mask), [twin(x) for x in arrays]
        found = graph_attention(recorded(edges, mask), *arrays, values=values)
        wanted = full_attention(values, mask2, stored, *twins)
        torch.testing.assert_close(found, wanted)
        for result in (found, wanted):
            (result * torch.arange(36, dtype=dtype).reshape(12, 3)).sum().backward()
        for own, other in zip(arrays, twins, strict=True):
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-4)
        if values == "ignore":
            assert edges.grad is None
        else:
            wanted = mask2.grad * stored
            found = recorded(edges.grad, mask).to_dense()
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("values", ["ignore", "add", "multiply"])
def test_attention_by_differences(values: str) -> None:
    mask, _ = masked(6, 5, 0.4, "csr")
    edges = mask.values().clone().requires_grad_(values != "ignore")
    arrays = leaf(6, 3), leaf(5, 3), leaf(5, 3)

    def attention(edges: Any, q: Any, k: Any, v: Any) -> Any:
        return graph_attention(recorded(edges, mask), q, k, v, 0.7, values=values)

    assert torch.autograd.gradcheck(attention, (edges, *arrays))


def test_attention_of_short_floats_and_scipy_masks() -> None:
    mask = sp.random_array((9, 7), density=0.4, format="csr", dtype="float32", rng=1)
    arrays = [leaf(n, 3, dtype=torch.bfloat16) for n in (9, 7, 7)]
    twins = [x.detach().float().requires_grad_() for x in arrays]
    graph_attention(mask, *arrays).sum().backward()
    graph_attention(mask, *twins).sum().backward()
    for own, other in zip(arrays, twins, strict=True):
        assert own.grad.dtype is torch.bfloat16
        torch.testing.assert_close(own.grad.float(), other.grad, rtol=3e-2, atol=3e-2)
    none = [leaf(*shape) for shape in ((0, 9, 3), (0, 7, 3), (0, 7, 3))]
    graph_attention(mask, *none).sum().backward()
    assert none[0].grad.shape == (0, 9, 3)
    out = np.empty((9, 3), "float32")
    with pytest.raises(ArgumentError, match="out= cannot be given"):
        graph_attention(mask, twins[0], twins[1], twins[2], out=out)


# ---------------------------------------------------------------------------- segments

#: Segments without elements, and of one, among them.
STARTS = torch.tensor([0, 3, 3, 4, 9, 9])


@pytest.mark.parametrize(
    ("op", "shape"),
    [("sum", (9,)), ("mean", (9,)), ("mean", (9, 3)), ("max", (9, 3)), ("min", (9,)),
     ("prod", (9, 3))],
)  # fmt: skip
def test_reductions_of_segments(op: str, shape: tuple[int, ...]) -> None:
    """Ties, zeros and initial values as PyTorch has them."""
    x = leaf(*shape)

    def finite(x: Any) -> Any:  # segments without elements are infinite or NaN
        return segment_reduce(x, STARTS, op).nan_to_num(0, 0, 0)

    assert torch.autograd.gradcheck(finite, (x,))
    for first in (None, 0.5):
        with torch.no_grad():
            x[:3], x[5], x[8] = 2.0, 3.0, 3.0
            x[6] = 0 if op == "prod" else 3
        y = twin(x)
        segment_reduce(x, STARTS.numpy(), op, first).nan_to_num(0, 0, 0).square().sum().backward()
        wanted = torch.segment_reduce(y, op, offsets=STARTS, initial=first)
        wanted.nan_to_num(0, 0, 0).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        x.grad = None


@pytest.mark.parametrize("shape", [(9,), (9, 3)])
def test_softmax_of_segments(shape: tuple[int, ...]) -> None:
    x = leaf(*shape)
    assert torch.autograd.gradcheck(lambda x: segment_softmax(x, STARTS), (x,))
    short = x.detach().float().requires_grad_()
    weight = torch.arange(1.0, 10).reshape(9, *[1] * (len(shape) - 1))
    (segment_softmax(short, STARTS) * weight).sum().backward()
    wanted = twin(short)
    parts = [torch.softmax(part, 0) for part in wanted.tensor_split(STARTS[1:-1]) if len(part)]
    (torch.cat(parts) * weight).sum().backward()
    torch.testing.assert_close(short.grad, wanted.grad)


def test_segments_on_the_emulator() -> None:
    x = leaf(9, dtype=torch.float32)
    y = twin(x)
    for each, where in ((x, {"device": "emulator"}), (y, {})):
        most = segment_reduce(each, STARTS, "max", **where)
        (most.nan_to_num(0, 0, 0) * segment_softmax(most, [0, 5], **where)).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


# ---------------------------------------------------------------------------- relations


def test_sums_over_relations() -> None:
    adjacency = [sp.random_array((6, 5), density=d, format="csr", rng=3) for d in (0.3, 0, 0.6)]
    x, w = leaf(5, 3), leaf(3, 3, 2)
    assert torch.autograd.gradcheck(lambda x, w: rgms(adjacency, x, w), (x, w))
    x, w = leaf(5, 3, dtype=torch.float32), leaf(3, 3, 2)
    x2, w2 = twin(x), twin(w)
    rgms(adjacency, x, w).square().sum().backward()
    full = torch.from_numpy(np.stack([a.toarray() for a in adjacency]))
    (full @ x2.double() @ w2).sum(0).square().sum().backward()
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(w.grad, w2.grad)


def test_second_derivatives_are_refused() -> None:
    a, _ = masked(4, 4, 0.5, "csr")
    a.requires_grad_()
    x = leaf(4, 3)
    for found in (
        spmm(a, x),
        sddmm(a, x, x).values(),
        graph_attention(a, x, x, x),
        segment_softmax(x, [0, 1, 4]),
        segment_reduce(x, [0, 1, 4], "prod"),
        rgms([a.detach()], x, leaf(1, 3, 2)),
    ):
        (first,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        with pytest.raises(UnsupportedError, match="no second derivatives"):
            (first.sum() + x.square().sum()).backward()


def test_sparse_convolutions() -> None:
    points = convolution_map([[0, 1, 1], [0, 1, 2], [0, 3, 1]], 3, submanifold=True)
    x, w = leaf(3, 3), leaf(3, 3, 3, 2)
    assert torch.autograd.gradcheck(lambda x, w: sparse_conv(points, x, w), (x, w))


# ---------------------------------------------------------------------------- refusals


def test_operators_without_gradients_say_so() -> None:
    a = sp.random_array((4, 4), density=0.5, format="csr", dtype="float32", rng=1)
    w = torch.ones(1, 3, 2, requires_grad=True)
    b = torch.eye(4).to_sparse_csr().requires_grad_()
    with pytest.raises(UnsupportedError, match=r"adjacency\[0\] requires a gradient, which rgms"):
        rgms([b], torch.ones(4, 3), w)
    q = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(UnsupportedError, match="scale requires a gradient"):
        graph_attention(a, q, q, q, torch.tensor(0.5, requires_grad=True))
    with pytest.raises(UnsupportedError, match="q requires a gradient, which graph_attention on"):
        graph_attention(a, q, q, q, device="emulator")
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], torch.ones(2), (4, 4)).requires_grad_()
    with pytest.raises(UnsupportedError, match="not coalesced"):
        graph_attention(twice, q, q, q, values="add")
    with pytest.raises(UnsupportedError, match="b requires a gradient, which spgemm does not"):
        spgemm(a, b)
    with pytest.raises(UnsupportedError, match="b requires a gradient, which subtract does not"):
        subtract(a, b)
    with pytest.raises(UnsupportedError, match="b requires a gradient, which multiply does not"):
        multiply(a, torch.ones(4, requires_grad=True))
    with torch.no_grad():
        assert rgms([a], torch.ones(4, 3), w).shape == (4, 2)
