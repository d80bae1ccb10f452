"""Kernels on a GPU against PyTorch (cuBLAS, cuDNN) and Triton: `python -m benchmarks.gpu`.

Each result is compared with PyTorch's in float64 (in float32 where that is too large) before
anything is timed. Times are those of the device, from events around single calls, between which a
buffer larger than the last cache is overwritten; they exclude launches, which are queued while that
runs. Peers take turns, and the median counts. The roofline is what the measured bandwidth of a copy
and the arithmetic units of the device allow.

Where there is no GPU it says so, and writes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tileloom
from benchmarks.gpu_cases import Case, add, cases
from tileloom.runtime import cuda

RESULTS = Path(__file__).parent / "RESULTS-gpu.md"
ROUNDS, WARM = 30, 3
_LAUNCHES, _REPEATS = 200, 20
_FLUSH = 512 << 20
_COPY = 1 << 30
#: Operations of a multiprocessor in a cycle, by compute capability: the first that is not newer.
_PER_CYCLE = {
    100: {"float32": 256, "tf32": 4096, "float16": 8192},
    90: {"float32": 256, "tf32": 2048, "float16": 4096},
    89: {"float32": 256, "tf32": 512, "float16": 1024},
    86: {"float32": 256, "tf32": 256, "float16": 512},
    80: {"float32": 128, "tf32": 1024, "float16": 2048},
    70: {"float32": 128, "tf32": 128, "float16": 1024},
}
Call = Callable[[], Any]


@dataclass(frozen=True)
class Machine:
    """What the device can do at best.

    Attributes:
        bandwidth: bytes in a second that a copy reads and writes.
        cycles: operations in a second by the units that do them.
    """

    name: str
    bandwidth: float
    cycles: dict[str, float]

    def best(self, case: Case) -> float:
        """The least seconds that a case can take."""
        return max(case.moved / self.bandwidth, case.flops / self.cycles[case.units])


@dataclass
class Row:
    """What was measured of one case: microseconds by peer, and what kept a peer out."""

    case: Case
    times: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def units_of(capability: int) -> dict[str, int]:
    """Operations of a multiprocessor in a cycle.

    >>> units_of(90)["float16"], units_of(87)["tf32"]
    (4096, 256)
    """
    known = [number for number in _PER_CYCLE if number <= capability]
    return _PER_CYCLE[max(known)] if known else _PER_CYCLE[70]


# ---------------------------------------------------------------------------- measuring


class Bench:
    """Measures calls on the first device."""

    def __init__(self, torch: Any, rounds: int = ROUNDS) -> None:
        self.torch, self.rounds = torch, rounds
        self.device = cuda.device()
        self.flush = cuda.empty(_FLUSH, "int8")

    def machine(self) -> Machine:
        """The device, its bandwidth measured."""
        source, clock = cuda.zeros(_COPY, "int8"), self.device.attribute("CLOCK_RATE") * 1e3
        times = self.times({"copy": source.copy})
        units = units_of(self.device.capability)
        rates = {name: n * clock * self.device.multiprocessors for name, n in units.items()}
        return Machine(self.device.name, 2 * _COPY / (times["copy"] * 1e-6), rates)

    def times(self, calls: dict[str, Call]) -> dict[str, float]:
        """The median microseconds of each call, in turns."""
        for call in calls.values():
            for _ in range(WARM):
                call()
        marks: dict[str, list[tuple[cuda.Event, cuda.Event]]] = {name: [] for name in calls}
        for _ in range(self.rounds):
            for name, call in calls.items():
                self.flush.clear(0)
                start, end = cuda.Event(), cuda.Event()
                start.record(0)
                call()
                end.record(0)
                marks[name].append((start, end))
            self.device.synchronize()
        return {
            name: statistics.median(end.milliseconds_since(start) * 1e3 for start, end in pairs)
            for name, pairs in marks.items()
        }

    def launches(self, case: Case) -> dict[str, float]:
        """What Python takes to launch something small: microseconds by peer.

        The device's queue holds more calls than are made between two waits.
        """
        given, found = self.inputs(case), {}
        for name, build in self.peers(case).items():
            try:
                call = build(given)
                call()
            except Exception as error:  # a peer that is not there
                print(f"{name} launches nothing: {error}")
                continue
            found[name] = min(self._seconds(call) for _ in range(_REPEATS)) / _LAUNCHES * 1e6
        return found

    def _seconds(self, call: Call) -> float:
        self.device.synchronize()
        start = time.perf_counter()
        for _ in range(_LAUNCHES):
            call()
        passed = time.perf_counter() - start
        self.device.synchronize()
        return passed

    def run(self, case: Case) -> Row:
        """Check and time one case."""
        row = Row(case)
        given = self.inputs(case)
        expected = self.expected(case, given)
        calls: dict[str, Call] = {}
        for name, build in self.peers(case).items():
            try:
                call = build(given)
                self.check(case, call(), expected)
                calls[name] = call
            except Exception as error:  # whatever a peer raises keeps it out, and is told
                row.missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        row.times = self.times(calls)
        return row

    def inputs(self, case: Case) -> list[Any]:
        """Tensors of normal numbers, small enough for sums of products to stay near 1."""
        generator = self.torch.Generator("cuda").manual_seed(0)
        scale = case.deep**-0.25 if case.flops else 1.0
        made = []
        for shape, kind in case.inputs:
            numbers = self.torch.randn(shape, generator=generator, device="cuda") * scale
            made.append(numbers.to(getattr(self.torch, kind)))
        return made

    def expected(self, case: Case, given: Sequence[Any]) -> Any:
        """The result in float64, in float32 for large products."""
        kind = self.torch.float32 if case.flops > 1e12 else self.torch.float64
        precise = case.torch(self.torch, *[x.to(kind) for x in given])
        if kind == self.torch.float32 and case.units == "tf32":
            self.torch.backends.cuda.matmul.allow_tf32 = False
            precise = given[0] @ given[1]
        return precise.float()

    def check(self, case: Case, found: Any, expected: Any) -> None:
        """Raise if a result is not right; elements that NumPy would call close are."""
        off = (found.float() - expected).abs()
        worst = (off - case.rtol * expected.abs()).max().item()
        if not worst <= case.atol:  # NaN is not either
            raise ValueError(f"wrong by {off.max().item():.3g}")

    # ------------------------------------------------------------------ peers

    def peers(self, case: Case) -> dict[str, Callable[[Sequence[Any]], Call]]:
        """Builders of calls by the peer's name."""
        found = {"tileloom": self.tileloom(case), "torch": self.in_torch(case)}
        if case.triton:
            found["triton"] = self.in_triton(case)
        return found

    def tileloom(self, case: Case) -> Callable[[Sequence[Any]], Call]:
        """Our kernel, on PyTorch's tensors."""

        def build(given: Sequence[Any]) -> Call:
            target = self.device.target
            kernel = tileloom.build(case.make(target), target)
            shape, kind = case.output
            out = self.torch.full(shape, float("nan"), dtype=getattr(self.torch, kind),
                                  device="cuda")  # fmt: skip

            def call() -> Any:
                kernel(*given, out)
                return out

            return call

        return build

    def in_torch(self, case: Case) -> Callable[[Sequence[Any]], Call]:
        """PyTorch's own function, and so cuBLAS or cuDNN."""
        return lambda given: lambda: case.torch(self.torch, *given)

    def in_triton(self, case: Case) -> Callable[[Sequence[Any]], Call]:
        """The same in Triton."""

        def build(given: Sequence[Any]) -> Call:
            from benchmarks import gpu_triton

            function = getattr(gpu_triton, case.triton)
            return lambda: function(*given, **case.options)

        return build


# ---------------------------------------------------------------------------- the report


def report(machine: Machine, rows: Sequence[Row], versions: str, launches: dict[str, float]) -> str:
    """The table of results."""
    quick = ", ".join(f"{name} {cost:.1f}" for name, cost in launches.items())
    lines = [
        "# Kernels on a GPU",
        "",
        f"Measured on one {machine.name}, {datetime.date.today().isoformat()}, with {versions}.",
        f"A copy moves {machine.bandwidth / 1e12:.2f} TB/s (read and written); the units do "
        + ", ".join(f"{rate / 1e12:.0f} TFLOP/s in {name}" for name, rate in machine.cycles.items())
        + ", from their number and the clock. Roofline: the time that the slower of the two allows,"
        " over the time taken. Times in microseconds, medians, caches flushed.",
        "",
        f"A launch with three small arrays takes Python, in microseconds: {quick}.",
        "",
        "| | tileloom | rate | roofline | torch | triton | against torch |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [line(machine, row) for row in rows]
    notes = [
        f"* {row.case.name}, {peer}: {why}" for row in rows for peer, why in row.missing.items()
    ]
    if notes:
        lines += ["", "Left out:", "", *notes]
    return "\n".join([*lines, "", "Made by `python -m benchmarks.gpu`.", ""])


def line(machine: Machine, row: Row) -> str:
    """One row of the table."""
    ours, theirs = row.times.get("tileloom"), row.times.get("torch")

    def show(peer: str) -> str:
        return f"{row.times[peer]:.1f}" if peer in row.times else "-"

    cells = [row.case.name, show("tileloom"), "-", "-", show("torch"), show("triton"), "-"]
    if ours:
        amount, unit = (row.case.flops, "TFLOP/s") if row.case.flops else (row.case.moved, "TB/s")
        cells[2] = f"{amount / ours / 1e6:.2f} {unit}"
        cells[3] = f"{100 * machine.best(row.case) / (ours * 1e-6):.0f} %"
        if theirs:
            cells[6] = f"{theirs / ours:.2f}x"
    return f"| {' | '.join(cells)} |"


def versions_of(torch: Any) -> str:
    """What took part."""
    try:
        import triton

        peer = f", Triton {triton.__version__}"
    except ImportError:
        peer = ""
    driver = ".".join(map(str, cuda.driver_version()))
    return f"Tileloom {tileloom.__version__}, PyTorch {torch.__version__}{peer}, CUDA {driver}"


def wanted(names: Sequence[str], scale: int) -> Iterator[Case]:
    """The cases that hold one of the names; all if there are none."""
    for case in cases(scale):
        if not names or any(name in case.name for name in names):
            yield case


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description="Measure kernels on a GPU.")
    parser.add_argument("names", nargs="*", help="only cases whose name holds one of these")
    parser.add_argument("--scale", type=int, default=1, help="divide extents by this")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dry", action="store_true", help="write no file")
    options = parser.parse_args(arguments)
    try:
        cuda.device()
    except cuda.CudaError as error:
        print(f"there is no GPU to measure: {error.message}")
        return 0
    try:
        import torch
    except ImportError:
        print("PyTorch is missing: it makes the inputs, checks results, and is compared with")
        return 0
    if not torch.cuda.is_available():
        print("this PyTorch does not reach the GPU: it is compared with, and checks results")
        return 0
    bench = Bench(torch, options.rounds)
    machine, rows = bench.machine(), []
    for case in wanted(options.names, options.scale):
        rows.append(bench.run(case))
        print(line(machine, rows[-1]), *rows[-1].missing.items(), flush=True)
    text = report(machine, rows, versions_of(torch), bench.launches(add(32)))
    print(text)
    if not options.dry and not options.names and options.scale == 1:
        RESULTS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
