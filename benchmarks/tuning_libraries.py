"""Tuned matrix products and convolutions against MKL and oneDNN, through PyTorch.

`python -m benchmarks.tuning_libraries` tunes each program as a graph, its weights constants, and
then times it in turns with the same program as the planner makes it, and with PyTorch:

* `torch` is eager: MKL for products, oneDNN for convolutions, whose weights oneDNN brings into its
  own layout in each call.
* `torch packed` is `torch.compile` with `freezing`: weights are in oneDNN's layout beforehand, as
  ours are. Its wrapper is not timed apart, neither is ours.

`--records FILE` keeps what was tuned; `--trials 0` takes what is there.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tileloom
from tileloom import numpy as tnp
from tileloom.base.settings import override
from tileloom.records.lookup import NONE

from . import harness, harness_cli, harness_report, peers
from .cpu import normal, reference_conv, wide
from .harness import Builder, Call, Row, Workload

#: What is asked for: the geometric mean of the library's times over ours.
ASKED = 0.95
#: Of ResNet-50, for one image: channels in, out, image, window, stride.
CONVOLUTIONS = (
    (64, 64, 56, 3, 1), (128, 128, 28, 3, 1), (256, 256, 14, 3, 1), (512, 512, 7, 3, 1),
    (64, 64, 56, 1, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1), (512, 128, 28, 1, 1),
    (128, 512, 28, 1, 1), (1024, 256, 14, 1, 1), (256, 1024, 14, 1, 1), (2048, 512, 7, 1, 1),
    (512, 2048, 7, 1, 1),
)  # fmt: skip
#: Rows, columns and depth; the second factor is a weight.
PRODUCTS = ((512, 512, 512), (1024, 1024, 1024), (384, 768, 768), (384, 3072, 768))

Function = Callable[..., Any]


def tuned(function: Function, records: Path, trials: int) -> Builder:
    """A function whose kernels are tuned first."""

    def build(*inputs: Any) -> Call:
        with override(records=str(records)):
            compiled = tileloom.jit(function)
            if trials:
                tileloom.tune(compiled.graph(*inputs), records=records, trials=trials)
            compiled(*inputs)
        return lambda: compiled(*inputs)

    return build


def planned(function: Function) -> Builder:
    """A function as the planner makes it."""

    def build(*inputs: Any) -> Call:
        with override(records=NONE):
            compiled = tileloom.jit(function)
            compiled(*inputs)
        return lambda: compiled(*inputs)

    return build


def packed(make: Callable[[Any], Any]) -> Builder:
    """A module of PyTorch under `torch.compile`, its weights in oneDNN's layout."""

    def compiled(torch: Any) -> Any:
        return torch.compile(make(torch).eval(), options={"freezing": True})

    return peers.torch(compiled)


def convolution(
    records: Path, trials: int, inner: int, outer: int, image: int, window: int, stride: int
) -> Workload:
    """One image through one layer."""
    rng = np.random.default_rng(1)
    pad = window // 2
    weight = rng.standard_normal((outer, inner, window, window), np.float32)
    weight *= (inner * window**2) ** -0.5
    size = (image + 2 * pad - window) // stride + 1

    def layer(torch: Any) -> Any:
        made = torch.nn.Conv2d(inner, outer, window, stride, pad, bias=False)
        return _with_weight(torch, made, weight)

    def function(x: Any) -> Any:
        return tnp.conv(x, weight, strides=stride, pads=pad)

    return Workload(
        f"conv_{inner}x{image}x{image}_{outer}_{window}x{window}_s{stride}",
        normal((1, inner, image, image)),
        lambda x: reference_conv(x, weight, stride, pad),
        _peers(function, layer, records, trials),
        atol=1e-4,
        flops=2 * (size * window) ** 2 * outer * inner,
    )


def product(records: Path, trials: int, rows: int, columns: int, depth: int) -> Workload:
    """Rows through one linear layer."""
    weight = np.random.default_rng(1).standard_normal((depth, columns), np.float32)
    weight *= depth**-0.5

    def layer(torch: Any) -> Any:
        made = torch.nn.Linear(depth, columns, bias=False)
        return _with_weight(torch, made, np.ascontiguousarray(weight.T))

    return Workload(
        f"matmul_{rows}x{columns}x{depth}",
        normal((rows, depth)),
        wide(lambda x: x @ weight.astype(np.float64)),
        _peers(lambda x: x @ weight, layer, records, trials),
        atol=1e-4,
        flops=2 * rows * columns * depth,
    )


def _with_weight(torch: Any, layer: Any, weight: Any) -> Any:
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
    return layer


def _peers(
    function: Function, layer: Callable[[Any], Any], records: Path, trials: int
) -> dict[str, Builder]:
    return {
        "tuned": tuned(function, records, trials),
        "planned": planned(function),
        "torch": peers.torch(layer),
        "torch packed": packed(layer),
    }


def workloads(records: Path, trials: int) -> list[Workload]:
    """All of them."""
    return [
        *(product(records, trials, *sizes) for sizes in PRODUCTS),
        *(convolution(records, trials, *layer) for layer in CONVOLUTIONS),
    ]


def verdicts(rows: Sequence[Row]) -> dict[str, float]:
    """The geometric mean of each peer's times over the tuned ones, by kind of program."""
    found: dict[str, float] = {}
    for kind in ("matmul", "conv"):
        chosen = [row.cells for row in rows if row.workload.name.startswith(kind)]
        chosen = [cells for cells in chosen if "tuned" in cells and cells["tuned"].samples]
        for peer in ("torch", "torch packed", "planned"):
            able = [cells for cells in chosen if peer in cells and cells[peer].samples]
            if able:
                ratios = [cells[peer].median / cells["tuned"].median for cells in able]
                found[f"{kind}: {peer} : tuned"] = statistics.geometric_mean(ratios)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune, time and print; 1 if less was reached than is asked for."""
    parser = harness_cli.parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=Path, help="where measurements are kept")
    parser.add_argument("--trials", type=int, default=128)
    options = parser.parse_args(arguments)
    harness_cli.with_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        records = options.records or Path(scratch, "records.db")
        chosen = harness_cli.select(workloads(records, options.trials), options.only)
        effort = harness.Effort(options.rounds, 3, options.seconds, seed=options.seed)
        names = options.peers.split(",") if options.peers else None
        rows = harness.run(chosen, names, effort, log=partial(print, file=sys.stderr))
    means = verdicts(rows)
    facts = harness_report.describe(harness_report.machine())
    lines = [f"* {name}: {value:.2f}" for name, value in means.items()]
    text = "\n".join([facts, "", harness_report.markdown(rows, "tuned"), *lines]) + "\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        options.json.write_text(harness_report.to_json(rows, harness_report.machine()))
    return int(not all(v >= ASKED for name, v in means.items() if "torch" in name))


if __name__ == "__main__":
    sys.exit(main())
