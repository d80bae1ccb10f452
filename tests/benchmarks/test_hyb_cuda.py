"""The benchmark of products in hyb: what it times is right, and machines without a GPU."""

from __future__ import annotations

import pytest

from benchmarks.sparse import graphs
from gpu_suite import has_gpu

pytest.importorskip("scipy")

from benchmarks.sparse import hyb_cuda

SMALL = graphs.draw(graphs.Law(97, 610, 2.3, 60, empty=0.2), seed=1)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize(("parts", "last"), [(1, 8), (3, 4)])
def test_calls_are_right_on_the_emulator(parts: int, last: int) -> None:
    torch = pytest.importorskip("torch")
    structure = hyb_cuda.stored(SMALL, parts, last)
    assert [part.indices.shape[1] for part in structure[0]] == [1, 2, 4, 8][: last.bit_length()]
    calls = hyb_cuda.prepared(torch, SMALL, structure, 32, on_gpu=False)
    assert list(calls) == ["hyb", "cuSPARSE", "kernel"]
    calls["kernel"]()
    assert torch.allclose(calls["hyb"](), calls["cuSPARSE"](), 1e-4, 1e-4)


def test_wrong_results_are_not_timed() -> None:
    torch = pytest.importorskip("torch")
    structure = hyb_cuda.stored(SMALL, 1, 8)
    other = graphs.Graph(SMALL.indptr, SMALL.indices[::-1].copy(), SMALL.data)
    with pytest.raises(ValueError, match="hyb is wrong by"):
        hyb_cuda.prepared(torch, other, structure, 32, on_gpu=False)


def test_formats_are_of_known_graphs() -> None:
    assert hyb_cuda.FORMATS.keys() <= graphs.GRAPHS.keys()


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert hyb_cuda.main([]) == 0
    assert "there is no GPU to measure" in capsys.readouterr().out
