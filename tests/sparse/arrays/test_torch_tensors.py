"""PyTorch's tensors: memory is shared, results are tensors over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, ShapeError, UnsupportedError
from tileloom.sparse.arrays import (
    Bsc,
    Bsr,
    Coo,
    Csc,
    Csr,
    Gcxs,
    dense,
    dense_like,
    requires_grad,
    view,
    with_values,
    wrap,
)

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch's layouts are in beta

ROWS = [[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0], [0, 4, 5, 6], [7, 0, 0, 0], [0, 0, 0, 8]]
DENSE = torch.tensor(ROWS)
VALUE_TYPES = [
    *("int8", "uint8", "int16", "int32", "int64", "bool", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128"),
]
LAYOUTS = {"csr": Csr, "csc": Csc, "bsr": Bsr, "bsc": Bsc}
NAMES = [*LAYOUTS, "coo", "uncoalesced"]


def example(name: str, values: str = "float32", indices: Any = torch.int64) -> Any:
    """The matrix `DENSE` in a layout."""
    x = DENSE.to(getattr(torch, values))
    match name:
        case "coo":
            return x.to_sparse()
        case "uncoalesced":
            twice = torch.cat([x.to_sparse()._indices()] * 2, 1)
            halves = torch.cat([x.to_sparse()._values()] * 2)
            return torch.sparse_coo_tensor(twice, halves, x.shape)
        case "csr":
            a = x.to_sparse_csr()
        case "csc":
            a = x.to_sparse_csc()
        case "bsr":
            a = x.to_sparse_bsr((2, 2))
        case _:
            a = x.to_sparse_bsc((2, 2))
    make = getattr(torch, f"sparse_{name}_tensor")
    return make(*(part.to(indices) for part in index_tensors(a)), a.values(), a.shape)


def index_tensors(a: Any) -> list[Any]:
    if a.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [a.crow_indices(), a.col_indices()]
    if a.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [a.ccol_indices(), a.row_indices()]
    return [*a._indices()]


def values_of(a: Any) -> Any:
    return a._values() if a.layout is torch.sparse_coo else a.values()


def pointer(array: Any) -> int:
    return int(array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data)


def parts(v: Any) -> list[Any]:
    return [*v.coords] if isinstance(v, Coo) else [v.indptr, v.indices]


@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_parts_are_the_memory_of_the_tensor(name: str, values: str) -> None:
    a = example(name, values)
    v: Any = view(a)
    assert type(v) is LAYOUTS.get(name, Coo)
    assert pointer(v.data) == pointer(values_of(a)) and v.data.dtype.name == values
    assert [pointer(p) for p in parts(v)] == [pointer(p) for p in index_tensors(a)]
    assert type(v.shape) is tuple and v.shape == (6, 4) and v.device == "cpu"
    assert all(type(p) is np.ndarray for p in parts(v))


@pytest.mark.parametrize("name", LAYOUTS)
def test_narrow_indices_stay(name: str) -> None:
    a = example(name, indices=torch.int32)
    v: Any = view(a)
    assert v.indices.dtype == v.indptr.dtype == np.int32
    assert wrap(v, like=a).values().data_ptr() == a.values().data_ptr()
    assert index_tensors(wrap(v, like=a))[1].dtype == torch.int32


@pytest.mark.parametrize("values", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize("name", NAMES)
def test_results_share_memory_and_are_of_the_layout(name: str, values: str) -> None:
    a = example(name, values)
    back = wrap(view(a), like=a)
    assert back.layout is a.layout and back.dtype is a.dtype and back.shape == a.shape
    assert pointer(values_of(back)) == pointer(values_of(a))
    pairs = zip(index_tensors(back), index_tensors(a), strict=True)
    assert all(pointer(mine) == pointer(theirs) for mine, theirs in pairs)
    assert torch.equal(back.to_dense().float(), a.to_dense().float())
    if name in ("coo", "uncoalesced"):
        assert back.is_coalesced() is a.is_coalesced() is (name == "coo")


@pytest.mark.parametrize("name", NAMES)
def test_other_values_for_the_same_index_tensors(name: str) -> None:
    a = example(name)
    values = view(a).data * np.float64(2)
    b = with_values(values, like=a)
    assert b.layout is a.layout and pointer(values_of(b)) == values.ctypes.data
    pairs = zip(index_tensors(b), index_tensors(a), strict=True)
    assert all(pointer(mine) == pointer(theirs) for mine, theirs in pairs)
    assert torch.equal(b.to_dense(), 2 * a.to_dense())
    if a.layout is torch.sparse_coo:
        assert b.is_coalesced() is a.is_coalesced()
    for other in (values[:1], np.repeat(values[..., None], 2, -1)):
        with pytest.raises(ShapeError, match=r"for indices of"):
            with_values(other, like=a)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_that_require_gradients(name: str) -> None:
    a = example(name).requires_grad_()
    assert pointer(view(a).data) == pointer(values_of(a.detach()))
    assert requires_grad(a) and not requires_grad(a.detach())
    assert not with_values(view(a).data, like=a).requires_grad
    with torch.no_grad():
        assert not requires_grad(a)


def test_equal_coordinates_add_up() -> None:
    v: Any = view(example("uncoalesced"))
    total = np.zeros((6, 4))
    np.add.at(total, v.coords, v.data)
    np.testing.assert_array_equal(total, 2 * np.array(ROWS))


def test_what_conversions_of_torch_leave_behind() -> None:
    a = example("csr")
    for other, format in ((a.t(), Csc), (a.to_sparse_csc().t(), Csr), (a.to_sparse_coo().t(), Coo)):
        v: Any = view(other)
        assert type(v) is format
        assert torch.equal(wrap(v, like=other).to_dense(), other.to_dense())


def test_parameters() -> None:
    a = torch.nn.Parameter(example("csr"))
    assert type(view(a)) is Csr and requires_grad(a)
    assert dense(torch.nn.Parameter(torch.zeros(3))).requires_grad


def batch(layout: str) -> Any:
    both = torch.stack([DENSE, DENSE]).float()
    match layout:
        case "csr":
            return both.to_sparse_csr()
        case "bsc":
            return both.to_sparse_bsc((2, 2))
        case "hybrid coo":
            return both.to_sparse(2)
        case _:
            return torch.ones(3, 4, 2).to_sparse_csr(dense_dim=1)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("csr", "a batch of csr matrices, of shape (2, 6, 4); one matrix is meant here"),
        ("bsc", "a batch of bsc matrices"),
        ("hybrid coo", "a hybrid tensor, with 1 dense dimension(s)"),
        ("hybrid csr", "of shape (3, 4, 2) has 1 dense dimension(s)"),
    ],
)
def test_batches_and_dense_dimensions_are_refused(layout: str, text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        view(batch(layout), what="a")
    assert str(caught.value).startswith("a ") and text in str(caught.value)
    assert type(view(batch("csr")[1])) is Csr  # the hint


def test_strided_parts_are_refused() -> None:
    a = example("csr")
    gaps = torch.stack([a.values(), a.values()], 1)[:, 0]
    b = torch.sparse_csr_tensor(a.crow_indices(), a.col_indices(), gaps, a.shape)
    with pytest.raises(ArgumentError, match=r"x.values\(\) is strided"):
        view(b)
    c = torch.sparse_coo_tensor(torch.stack(index_tensors(example("coo"))), gaps, a.shape)
    with pytest.raises(ArgumentError, match=r"x._values\(\) is strided"):
        view(c)


def test_coordinates_may_be_columns() -> None:
    pairs = torch.tensor([[0, 1], [1, 0], [2, 1]])
    a = torch.sparse_coo_tensor(pairs.t(), torch.ones(3), (3, 2))
    v: Any = view(a)
    assert [axis.tolist() for axis in v.coords] == [[0, 1, 2], [1, 0, 1]]
    assert pointer(v.coords[0]) == pairs.data_ptr()
    assert wrap(v, like=a)._indices().data_ptr() == pairs.data_ptr()


def test_formats_of_others_as_tensors() -> None:
    a, loose = example("csr"), Coo(([0, 2], [1, 0]), [1.0, 2.0], (3, 2))
    assert wrap(loose, like=a).to_dense().tolist() == [[0, 1], [0, 0], [2, 0]]
    with pytest.raises(UnsupportedError, match="PyTorch has no layout for gcxs"):
        wrap(Gcxs([0, 1], [0], [1.0], (1, 2, 2), (0,)), like=a)


def test_other_layouts_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="a is a dense torch tensor; a sparse array is meant"):
        view(DENSE, what="a")
    if torch.backends.mkldnn.is_available():
        with pytest.raises(UnsupportedError, match="layout _mkldnn"):
            view(torch.ones(2, 2).to_mkldnn())


@pytest.mark.parametrize("values", [*VALUE_TYPES, "float8_e5m2"])
def test_dense_tensors(values: str) -> None:
    x = torch.zeros(3, 4).to(getattr(torch, values))
    array, is_row_major, needs_grad = dense(x)
    assert array.ctypes.data == x.data_ptr() and array.dtype.name == values
    assert (is_row_major, needs_grad, array.shape) == (True, False, (3, 4))
    column = dense(x.t()[1:])
    assert not column.is_row_major and column.array.ctypes.data == x.t()[1:].data_ptr()
    back = dense_like(array, like=x)
    assert back.dtype is x.dtype and back.data_ptr() == x.data_ptr()
    assert dense_like(array, like=example("csr")).data_ptr() == x.data_ptr()


def test_gradients_of_dense_tensors() -> None:
    x = torch.zeros(3, requires_grad=True)
    assert dense(x).requires_grad and dense(x).array.ctypes.data == x.data_ptr()
    assert dense(x * 2).requires_grad
    with torch.no_grad():
        assert not dense(x).requires_grad


def test_dense_tensors_that_are_refused() -> None:
    with pytest.raises(ArgumentError, match="b is a sparse_csr torch tensor; a dense array"):
        dense(example("csr"), what="b")
    pending = torch.ones(3, dtype=torch.complex64).conj()
    with pytest.raises(ArgumentError, match="resolve_conj"):
        dense(pending)
    assert dense(pending.resolve_conj().resolve_neg()).array.shape == (3,)
    with pytest.raises(ArgumentError, match="meta"):
        dense(torch.ones(3, device="meta"))
    with pytest.raises(UnsupportedError, match="x is a tensor on meta"):
        view(example("csr").to("meta"))


def test_tensors_elsewhere_stay_tensors() -> None:
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        x = torch.empty(3, 4, device="cuda")
        assert dense(x).array is x and dense(x.t()).is_row_major is False
        indices = torch.empty((2, 5), dtype=torch.int64, device="cuda")
        a = torch.sparse_coo_tensor(indices, torch.empty(5, device="cuda"), (3, 4))
        v: Any = view(a)
        assert v.device == "cuda:0" and all(axis.is_cuda for axis in v.coords)
        assert wrap(v, like=a).is_cuda and with_values(v.data, like=a).is_cuda
        assert dense_like(x, like=a) is x


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", NAMES)
def test_tensors_on_a_gpu_stay_tensors(name: str) -> None:
    a = example(name).cuda()
    v: Any = view(a)
    assert v.device == "cuda:0" and pointer(v.data) == pointer(values_of(a))
    assert torch.equal(wrap(v, like=a).to_dense(), a.to_dense())
    assert torch.equal(with_values(v.data * 2, like=a).to_dense(), 2 * a.to_dense())
    assert isinstance(v, Coo) or type(v)(*v).nnz == v.nnz
