"""Sparse operators on tensors by kernels for GPUs, on the emulator, and where tensors must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom.sparse as tls
from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tileloom.frontend.sparse.gpu.place import place_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
GPU: dict[str, Any] = {"target": "cuda -arch=sm_80", "device": "emulator"}


def slow(*names: str) -> list[Any]:
    """Cases that most runs leave out."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def example(layout: str = "csr", **options: Any) -> Any:
    rng = np.random.default_rng(0)
    found = torch.from_numpy(rng.standard_normal((6, 8)) * (rng.random((6, 8)) < 0.4))
    block = {"blocksize": (2, 2)} if layout.startswith("bs") else {}
    made = found.float().to_sparse(layout=getattr(torch, f"sparse_{layout}"), **block)
    return made.requires_grad_(**options) if options else made


def dense(*shape: int, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, generator=generator, **options)


def with_other_seed(*shape: int, **options: Any) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), **options)


@pytest.mark.parametrize("layout", ["csr", *slow("csc", "coo", "bsr", "bsc")])
def test_layouts(layout: str) -> None:
    a, x, y = example(layout), dense(8, 4), dense(6, 4)
    for _ in range(2):
        found = tls.spmm(a, x, **GPU)
        torch.testing.assert_close(found, a.to_dense() @ x)
    products = tls.sddmm(a, y, x, **GPU)
    assert products.layout is a.layout
    torch.testing.assert_close(products.to_dense(), a.to_dense() * (y @ x.T))


def test_operands_that_kernels_cannot_read_as_they_are() -> None:
    a = example()
    for x in (dense(4, 8).t(), dense(33)[1:].reshape(8, 4), -dense(8, 4)):
        torch.testing.assert_close(tls.spmm(a, x, **GPU), a.to_dense() @ x)


def test_vectors_segments_and_attention() -> None:
    a, x = example(), dense(8, 4)
    torch.testing.assert_close(tls.spmv(a, x[:, 0], **GPU), a.to_dense() @ x[:, 0])
    starts = torch.tensor([0, 3, 8])
    for op in ("sum", "max", "mean"):
        found = tls.segment_reduce(x, starts, op, **GPU)
        torch.testing.assert_close(found, torch.segment_reduce(x, op, offsets=starts))
    found = tls.segment_softmax(x, starts, **GPU)
    torch.testing.assert_close(found, torch.cat([x[:3].softmax(0), x[3:].softmax(0)]))
    q = dense(6, 4)
    found = tls.graph_attention(a, q, x, x, **GPU)
    torch.testing.assert_close(found, tls.graph_attention(a, q, x, x))


def test_bfloat16() -> None:
    a, x = example().to(torch.bfloat16), dense(8, 4).to(torch.bfloat16)
    found = tls.spmm(a, x, **GPU)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, (a.to_dense().float() @ x.float()).bfloat16())
    found = tls.segment_reduce(x, [0, 3, 8], "max", **GPU)
    torch.testing.assert_close(found, torch.stack([x[:3].amax(0), x[3:].amax(0)]))


def test_out() -> None:
    a, x, out = example(), dense(8, 4), torch.empty(6, 4)
    assert tls.spmm(a, x, out, **GPU) is out
    torch.testing.assert_close(out, a.to_dense() @ x)
    refused = {
        ShapeError: torch.empty(6, 5),
        DTypeError: torch.empty(6, 4, dtype=torch.float64),
        ArgumentError: torch.empty(4, 6).t(),
    }
    for error, wrong in refused.items():
        with pytest.raises(error, match="out"):
            tls.spmm(a, x, wrong, **GPU)
    with pytest.raises(ArgumentError, match="shares memory with x"):
        tls.spmm(a, x, x.view(-1)[:24].view(6, 4), **GPU)


@pytest.mark.parametrize("layout", ["coo", *slow("csr")])
def test_gradients(layout: str) -> None:
    results = []
    for where in (GPU, {}):
        a = example(layout, requires_grad=True)
        x, y = dense(8, 4, requires_grad=True), with_other_seed(6, 4, requires_grad=True)
        (tls.spmm(a, x, **where) ** 2).sum().backward()
        of_product = a.grad.to_dense()
        a.grad = None
        weighted = tls.sddmm(a, y, x, **where)
        (weighted.to_dense() ** 2).sum().backward()
        results.append((of_product, a.grad.to_dense(), x.grad, y.grad))
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted)


def test_memories() -> None:
    """Operators run where all of their arrays are."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        there = torch.empty(8, 4, device="cuda")
    here = np.zeros((8, 4), "float32")
    place = place_of(None, None, there, a=there, x=there)
    assert place is not None and (place.target, place.device) == ("cuda", "cuda:0")
    assert place_of("cuda -arch=sm_80", "cuda", there, a=there) is not None
    with pytest.raises(UnsupportedError, match="different memories: a on cpu, x on cuda:0"):
        tls.spmm(example(), there)
    with pytest.raises(UnsupportedError, match="emulator takes arrays of the CPU, not of cuda:0"):
        place_of("cuda", "emulator", there, a=there)
    with pytest.raises(UnsupportedError, match="on cuda:0, not cuda:1"):
        place_of(None, "cuda:1", there, a=there)
    with pytest.raises(UnsupportedError, match="a is in the memory of cuda:0"):
        place_of("cpu", None, there, a=there)
    assert place_of("cpu", None, here, a=here) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
def test_tensors_on_a_gpu(layout: str) -> None:
    a, x = example(layout).cuda(), dense(8, 4).cuda()
    found = tls.spmm(a, x)
    assert found.is_cuda
    torch.testing.assert_close(found, a.to_dense() @ x)
    torch.testing.assert_close(tls.spmv(a, x[:, 0]), a.to_dense() @ x[:, 0])
    weights = a.detach().clone().requires_grad_()
    x.requires_grad_()
    (tls.spmm(weights, x) ** 2).sum().backward()
    wanted = 2 * a.to_dense().T @ (a.to_dense() @ x.detach())
    torch.testing.assert_close(x.grad, wanted)
    starts = torch.tensor([0, 3, 8], device="cuda")
    torch.testing.assert_close(
        tls.segment_reduce(x.detach(), starts),
        torch.segment_reduce(x.detach(), "sum", offsets=starts),
    )
