"""The tutorial's matmul: each step of its schedule, measured against MKL, written as a page.

`python -m benchmarks.tutorial_matmul` prints a table; `--write` writes `docs/tutorial-matmul.md`.
The prose of a step is the docstring of its function, the code shown is the function's body.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tileloom
from tileloom import PrimFunc, Schedule, te

from . import harness, harness_report
from .harness import Call, Effort, Row, Workload

N = 1024
PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial-matmul.md"
#: What the last step on one thread is to reach, as a part of MKL's speed.
ASKED = 0.8
#: Cores that others may keep busy in a round that counts as quiet.
QUIET = 0.2

# ---------------------------------------------------------------------------- the programs


def matmul(n: int) -> PrimFunc:
    """The formula and nothing else. `te.create_prim_func` makes one block of it: three loops, of
    which two are spatial and one is a reduction."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_prim_func([A, B, C])


def packed(n: int) -> PrimFunc:
    """The same product over a copy `P` of `B`, cut into panels of 32 columns. Each panel lies in
    memory in just the order in which the innermost loops read it."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    P = te.compute((n // 32, n, 32), lambda jo, r, ji: B[r, jo * 32 + ji], name="P")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * P[j // 32, k, j % 32], axis=k), name="C")
    return te.create_prim_func([A, B, C])


# ---------------------------------------------------------------------------- the steps


def naive(sch: Schedule) -> None:
    """Nothing is scheduled yet: `Schedule(matmul(1024))` as it is. Each element of `C` is one long
    sum, and `B` is read down its columns: every load touches another line of the cache."""


def tiled(sch: Schedule) -> None:
    """Split the loops into tiles and put the tiles outside. A tile of `B`, 32 rows of 64 columns,
    now stays in the first-level cache while all its uses happen; the innermost loop runs along the
    rows of `B` and `C`. `split` and `reorder` only rename and permute iterations, so the block
    inside is untouched: its iteration variables get new values, no more."""
    i, j, k = sch.get_loops("C")
    io, ii = sch.split(i, [None, 32])
    jo, ji = sch.split(j, [None, 64])
    ko, ki = sch.split(k, [None, 32])
    sch.reorder(io, jo, ko, ii, ki, ji)


def vectorised(sch: Schedule) -> None:
    """The innermost loop becomes vector instructions: 16 floats are one register of AVX-512, two
    of AVX2. `vectorize` is legal because `j` is spatial: two iterations never touch the same
    element. (Ask to vectorise `k` and the schedule refuses, and says why.) LLVM may have found
    vectors by itself in the step before, so this gains little yet; what follows builds on it."""
    i, j, k = sch.get_loops("C")
    io, ii = sch.split(i, [None, 32])
    jo, jv, ji = sch.split(j, [None, 4, 16])
    ko, ki = sch.split(k, [None, 32])
    sch.reorder(io, jo, ko, ii, ki, jv, ji)
    sch.vectorize(ji)


def register_tile(sch: Schedule) -> None:
    """Until now each multiplication loads and stores an element of `C`. Let the block write a
    small buffer instead, `cache_write(..., "local")`, and move the copy back to just after its
    tile is ready, `reverse_compute_at`. The buffer shrinks to what one tile needs, 8 x 32 floats;
    with its loops unrolled every element has a name of its own, and LLVM keeps all 16 vectors in
    registers through the whole of `k`. Each step of `k` is now two loads, 8 broadcasts and 16
    fused multiply-adds."""
    copy = sch.cache_write("C", 0, "local")
    i, j, k = sch.get_loops("C")
    io, ii = sch.split(i, [None, 8])
    jo, jv, ji = sch.split(j, [None, 2, 16])
    sch.reorder(jo, io, k, ii, jv, ji)
    sch.reverse_compute_at(copy, io)
    sch.vectorize(ji)
    sch.unroll(jv)
    sch.unroll(ii)
    row, column = sch.get_loops(copy)[-2:]
    outer, lanes = sch.split(column, [None, 16])
    sch.vectorize(lanes)
    sch.unroll(outer)
    sch.unroll(row)


def packing(sch: Schedule) -> None:
    """A panel of `B` is 1024 rows that lie 4 KiB apart: each in a page of its own, all of them in
    few sets of the cache. So change the program: `packed(1024)` has a stage `P` that copies `B`
    into panels that are contiguous. The copy moves a million floats, the product makes a thousand
    times as many multiplications. The schedule of `C` stays as it was; `P` is vectorised. From
    here on the steps start from this program."""
    register_tile(sch)
    sch.vectorize(sch.get_loops("P")[-1])


def decomposed(sch: Schedule) -> None:
    """`T.init()` runs in the first iteration of `k`, which is a question asked in each of them.
    `decompose_reduction` makes a block of its own of it, before the loop; the loop over `k` is
    then nothing but multiply-adds."""
    packing(sch)
    sch.decompose_reduction("C", sch.get_loops("C")[2])


def two_threads(sch: Schedule) -> None:
    """Panels are independent of each other: the outermost loops run in parallel. Mark them before
    the reduction is decomposed: afterwards two blocks write each tile, and the schedule, which as
    TVM's looks at whole blocks, refuses."""
    packing(sch)
    sch.parallel(sch.get_loops("P")[0])
    sch.parallel(sch.get_loops("C")[0])
    sch.decompose_reduction("C", sch.get_loops("C")[2])


@dataclass(frozen=True)
class Step:
    """A step of the tutorial: its title, the program it starts from, how it is scheduled."""

    title: str
    schedule: Callable[[Schedule], None]
    program: Callable[[int], PrimFunc] = matmul
    threads: int = 1

    @property
    def name(self) -> str:
        """How the measurements call it."""
        return self.schedule.__name__

    def apply(self, n: int = N) -> Schedule:
        """The schedule after this step."""
        sch = Schedule(self.program(n))
        self.schedule(sch)
        return sch


STEPS = (
    Step("Naive", naive),
    Step("Tiles", tiled),
    Step("Vectors", vectorised),
    Step("A tile in registers", register_tile),
    Step("Packing", packing, packed),
    Step("The initial value, apart", decomposed, packed),
    Step("Two threads", two_threads, packed, threads=2),
)


# ---------------------------------------------------------------------------- measuring


def workload(steps: Sequence[Step], threads: int, n: int = N) -> Workload:
    """The steps that run on so many threads, next to MKL on as many."""
    peers: dict[str, harness.Builder] = {s.name: _builder(s, n) for s in steps}
    peers["mkl"] = _mkl

    def inputs(rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
        return tuple(rng.standard_normal((n, n), np.float32) for _ in range(2))

    def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return a.astype(np.float64) @ b.astype(np.float64)

    name = f"matmul_{n}, threads: {threads}"
    return Workload(name, inputs, product, peers, atol=1e-2, flops=2 * n**3)


def _builder(step: Step, n: int) -> harness.Builder:
    def build(a: NDArray[Any], b: NDArray[Any]) -> Call:
        kernel = tileloom.build(step.apply(n).mod["main"])
        out = np.empty((n, n), np.float32)

        def call() -> NDArray[Any]:
            kernel(a, b, out)
            return out

        return call

    return build


def _mkl(a: NDArray[Any], b: NDArray[Any]) -> Call:
    import torch

    left, right, out = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(np.empty_like(a))
    return lambda: torch.matmul(left, right, out=out).numpy()


def measure(steps: Sequence[Step], effort: Effort, n: int = N) -> list[Row]:
    """A row of measurements for each number of threads."""
    import torch

    rows = []
    for threads in sorted({s.threads for s in steps}):
        torch.set_num_threads(threads)
        tileloom.set_num_threads(threads)
        chosen = [s for s in steps if s.threads == threads]
        rows.append(harness.run_one(workload(chosen, threads, n), None, effort))
        print(harness.summary(rows[-1]), file=sys.stderr)
    return rows


# ---------------------------------------------------------------------------- the page

_HEAD = """# Tutorial: a matmul as fast as MKL's, step by step

Made by `python -m benchmarks.tutorial_matmul --write`; nothing is edited by hand.

We schedule C = A B, {n} x {n} x {n} in float32, with `tileloom.Schedule`: from three loops to
machine code at the speed of MKL, one thread, in five changes. No primitive changes what is
computed: each checks that, and `sch.verify()` proves it once more. The names are those of TVM,
see [Schedules](schedules.md).

{table}
{facts}

```python
import numpy as np
import tileloom
from tileloom import PrimFunc, Schedule, te
```
"""

_RUN = """A step is a function that takes a schedule. This runs one, on a smaller product:

```python
def run(step, program=matmul, n=256):
    sch = Schedule(program(n))
    step(sch)
    kernel = tileloom.build(sch.mod["main"])
    a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype("float32")
    c = np.empty((n, n), "float32")
    kernel(a, b, c)                   # c is written
    print("largest error:", np.abs(c - a @ b).max())
    return kernel
```

Below, the programs are shown as they are after each step, without the regions that blocks read and
write.
"""


def page(rows: Sequence[Row], effort: Effort) -> str:
    """The whole page."""
    about = (
        f"{harness_report.describe(harness_report.machine())}. All versions on as many threads run "
        "in turns within one process, each checked against float64 first; medians and minima of "
        f"{effort.rounds} rounds or fewer. MKL is PyTorch's `matmul` on as many threads."
    )
    foreign = max(row.foreign for row in rows)
    if foreign > QUIET:
        about += f" **Other work kept {foreign:.1f} cores busy meanwhile: judge ratios of minima.**"
    facts = "\n".join(textwrap.wrap(about, 100))
    parts = [
        _HEAD.format(n=N, table=table(rows), facts=facts),
        "## The program\n",
        prose(matmul) + "\n",
        code(matmul, whole=True),
        _RUN,
    ]
    for number, step in enumerate(STEPS, 1):
        parts.append(f"## {number}. {step.title}\n")
        parts.append(prose(step.schedule) + "\n")
        if step.schedule is packing:
            parts.append(prose(packed) + "\n\n" + code(packed, whole=True))
        if body := code(step.schedule, whole=False):
            parts.append(body + "\n" + call_of(step))
        parts.append(f"```\n{abridged(step.apply())}\n```\n")
        parts.append(speed(step, rows) + "\n")
    parts.append(_TAIL)
    return "\n".join(parts)


_TAIL = """## What next

`tileloom.schedule.library` holds these moves as functions: `tile`, `register_tile`,
`parallel_vectorize_unroll` and others. A schedule is data: `print(sch.trace)` shows the steps
taken, and `sch.trace.as_json()` stores them, to be applied to the same program elsewhere.
"""


def table(rows: Sequence[Row]) -> str:
    """Speeds of all steps."""
    lines = ["| step | threads | ms | GFLOP/s | of MKL, by medians | by minima |"]
    lines.append("|---|---|---|---|---|---|")
    for number, step in enumerate(STEPS, 1):
        row, cell, mkl = _cells(step, rows)
        if not cell.samples:
            lines.append(f"| {number}. {step.title} | {step.threads} | {cell.note} | | | |")
            continue
        rate = (row.workload.flops or 0) / cell.median / 1e9
        lines.append(
            f"| {number}. {step.title} | {step.threads} | {_ms(cell.median)} | {rate:.3g} | "
            f"{mkl.median / cell.median:.2f} | {mkl.minimum / cell.minimum:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.1f}"


def _cells(step: Step, rows: Sequence[Row]) -> tuple[Row, harness.Cell, harness.Cell]:
    row = next(row for row in rows if step.name in row.cells)
    return row, row.cells[step.name], row.cells["mkl"]


def speed(step: Step, rows: Sequence[Row]) -> str:
    """One sentence on how fast a step is."""
    _, cell, mkl = _cells(step, rows)
    if not cell.samples:
        return f"**Not measured: {cell.note}.**\n"
    part = mkl.median / cell.median
    return f"**{_ms(cell.median)} ms, {part:.2f} of MKL's speed.**\n"


def prose(function: Callable[..., Any]) -> str:
    """A docstring as a paragraph."""
    return "\n".join(textwrap.wrap(inspect.getdoc(function) or "", 100))


def code(function: Callable[..., Any], *, whole: bool) -> str:
    """The source of a function without its docstring, or nothing if it does nothing."""
    source = textwrap.dedent(inspect.getsource(function))
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    first, *rest = definition.body
    if not rest:
        return ""
    lines = source.splitlines()
    head = lines[: first.lineno - 1]
    text = "\n".join([*head, *lines[rest[0].lineno - 1 :]])
    return f"```python\n{text}\n```\n"


def call_of(step: Step) -> str:
    """How a reader tries a step."""
    program = "" if step.program is matmul else f", {step.program.__name__}"
    return f"```python\nrun({step.name}{program})\n```\n"


def abridged(sch: Schedule) -> str:
    """The program's loops and blocks: no regions, no declarations."""
    dropped = ("# from", "T.reads(", "T.writes(", 'T.func_attr({"tir.noalias"')
    lines = str(sch.mod["main"]).splitlines()
    kept = [line for line in lines if line.strip() and not line.strip().startswith(dropped)]
    start = next(i for i, line in enumerate(kept) if line.startswith("def "))
    return "\n".join(kept[start:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page if asked to; 1 if the bar is missed or a step is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/tutorial-matmul.md")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--only", help="measure the steps of this name alone")
    options = parser.parse_args(arguments)
    effort = Effort(options.rounds, 3, options.seconds, noise=QUIET)
    steps = [s for s in STEPS if options.only in (None, s.name)]
    rows = measure(steps, effort)
    if options.write and options.only is None:
        PAGE.write_text(page(rows, effort))
    if options.only is None:
        print(table(rows))
        _, cell, mkl = _cells(STEPS[-2], rows)
        return int(not mkl.minimum / cell.minimum >= ASKED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
