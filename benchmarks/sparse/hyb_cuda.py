"""Products in the format hyb on a GPU against cuSPARSE: `python -m benchmarks.sparse.hyb_cuda`.

The program is `examples/hyb_spmm.py`, with the column parts and widths that SparseTIR's has for
each graph; cuSPARSE is called through PyTorch. Each result is compared with float64 before anything
is timed. Times are those of the device (`benchmarks.gpu`). `hyb` counts that the result is set to 0
before, as the program needs it; `kernel` does not, as SparseTIR's figures do not.

Where there is no GPU it says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import Any

import numpy as np
import scipy.sparse

import tileloom
from benchmarks.gpu import ROUNDS, Bench, versions_of
from examples.hyb_spmm import bucket_arrays, hyb_spmm
from tileloom.runtime import cuda
from tileloom.sparse.convert import HybStructure, hyb

from . import graphs

FEATURES = (32, 64, 128, 256, 512)
#: Column parts and the last width of each graph; the other widths are all powers of two before.
FORMATS = {
    "cora": (1, 4),
    "citeseer": (1, 4),
    "pubmed": (1, 32),
    "ppi": (16, 32),
    "arxiv": (1, 32),
    "proteins/4": (8, 256),
    "reddit/16": (8, 512),
}
Call = Callable[[], Any]


def stored(graph: graphs.Graph, parts: int, last: int) -> HybStructure:
    """A graph in hyb."""
    widths = [1 << k for k in range(last.bit_length())]
    shape = (graph.rows, graph.rows)
    return hyb(graph.indptr, graph.indices, shape, num_col_parts=parts, widths=widths)


def prepared(
    torch: Any, graph: graphs.Graph, structure: HybStructure, features: int, on_gpu: bool
) -> dict[str, Call]:
    """The calls to be timed, each of which has been checked.

    Args:
        on_gpu: or else on the emulator, where PyTorch's are on the CPU.

    Raises:
        ValueError: a result is wrong.
    """
    where = "cuda" if on_gpu else "cpu"
    shape = (graph.rows, graph.rows)
    x = np.random.default_rng(0).standard_normal((graph.rows, features), np.float32)
    func = hyb_spmm(structure, shape, features, keep_loops=True)
    kernel = tileloom.build(func, "cuda", device=None if on_gpu else "emulator")
    dense = torch.from_numpy(x).to(where)
    out = torch.zeros((graph.rows, features), device=where)
    given = [torch.from_numpy(array).to(where) for array in bucket_arrays(structure, graph.data)]
    flat = [dense.reshape(-1), out.reshape(-1), *given]
    if not on_gpu:
        flat = [tensor.numpy() for tensor in flat]
    arrays = [torch.from_numpy(a).to(where) for a in (graph.indptr, graph.indices, graph.data)]
    csr = torch.sparse_csr_tensor(*arrays, size=shape)

    def ours() -> Any:
        out.zero_()
        kernel(*flat)
        return out

    calls: dict[str, Call] = {"hyb": ours, "cuSPARSE": lambda: csr @ dense}
    exact = scipy.sparse.csr_array((graph.data.astype("d"), graph.indices, graph.indptr), shape)
    expected, scale = exact @ x.astype("d"), abs(exact) @ np.abs(x).astype("d")
    for name, call in calls.items():
        off = np.abs(call().cpu().numpy() - expected)
        if not (off <= 1e-5 * scale + 1e-6).all():  # NaN is not either
            raise ValueError(f"{name} is wrong by {off.max():.3g}")
    return {**calls, "kernel": lambda: kernel(*flat)}


def measure(bench: Bench, name: str, features: Sequence[int]) -> None:
    """Check and time one graph."""
    graph, (parts, last) = graphs.load(name), FORMATS[name]
    structure = stored(graph, parts, last)
    print(f"{name}: hyb({parts}, {last}), {100 * structure.padding:.0f} % of slots padding")
    for count in features:
        start = time.perf_counter()
        calls = prepared(bench.torch, graph, structure, count, on_gpu=True)
        built = time.perf_counter() - start
        times = bench.times(calls)
        shown = ", ".join(f"{peer} {times[peer]:.1f}" for peer in calls)
        ratio = times["cuSPARSE"] / times["hyb"]
        rate = 2e-6 * len(graph.indices) * count / times["hyb"]
        print(
            f"  {count:4} columns: {shown} us; {ratio:.2f}x cuSPARSE, {rate:.3f} TFLOP/s"
            f" ({built:.1f} s to build and check)",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a result was wrong."""
    parser = argparse.ArgumentParser(description="Products in hyb on a GPU against cuSPARSE.")
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of graphs")
    parser.add_argument("--features", type=int, nargs="*", default=FEATURES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    try:
        cuda.device()
    except cuda.CudaError as error:
        print(f"there is no GPU to measure: {error.message}")
        return 0
    try:
        import torch
    except ImportError:
        print("PyTorch is missing: cuSPARSE is called through it")
        return 0
    if not torch.cuda.is_available():
        print("this PyTorch does not reach the GPU: cuSPARSE is called through it")
        return 0
    bench = Bench(torch, options.rounds)
    print(f"{bench.device.name}, {versions_of(torch)}")
    failed = 0
    for name in FORMATS:
        if any(fnmatch(name, pattern) for pattern in options.names):
            try:
                measure(bench, name, options.features)
            except ValueError as error:
                print(f"  {error}")
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
