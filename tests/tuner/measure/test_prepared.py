"""What is done once for constant inputs, and not timed with each call."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.schedule import Schedule
from tileloom.target import target
from tileloom.tir import Block, IRModule, PrimFunc, collect
from tileloom.tuner.context import TuneContext
from tileloom.tuner.measure import MeasureTask, Timing, measure_task
from tileloom.tuner.measure import task as task_module
from tileloom.tuner.measure.prepared import PreparedKernel, without_layout_rewrites
from tileloom.tuner.postprocs.rewrite_layout import RewriteLayout
from tuner.measure.programs import MATMUL, function

QUICK = Timing(samples=3, sample_seconds=1e-4, seconds=0.05, alone=False)
FREE = MATMUL.replace("):\n", '):\n    T.func_attr({"layout_free_buffers": [1]})\n', 1)
#: Reads the weight outside of the product too.
TWICE = FREE.replace(
    "    for i, j, k", "    for i in range(16):\n        with T.block('D'):\n"
    "            vi = T.axis.spatial(16, i)\n            C[vi, 0] = B[vi, 0]\n    for i, j, k"
)  # fmt: skip


def rewritten(text: str) -> Schedule:
    """A schedule whose weight is read in tiles."""
    mod = IRModule({"main": function(text)})
    sch = Schedule(mod)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(j, [None, 8])
    sch.reorder(outer, i, k, inner)
    assert RewriteLayout().apply(sch, TuneContext(mod, target("cpu")))
    return sch


def names(func: PrimFunc) -> list[str]:
    return [block.name_hint for block in collect(func.body, Block)][1:]


def test_a_change_of_layout_is_a_function_of_its_own() -> None:
    whole = rewritten(FREE).mod["main"]
    main, (before,) = without_layout_rewrites(whole)
    assert names(whole) == ["B_global", "C"] and names(main) == ["C"]
    assert before.argument == 1 and names(before.func) == ["B_global"]
    assert [b.static_shape for b in main.buffers] == [(16, 24), (4, 24, 8), (16, 32)]
    main_kernel, kernel = tileloom.build(main), tileloom.build(before.func)
    a, b = np.ones((16, 24), "f4"), np.arange(24 * 32, dtype="f4").reshape(24, 32)
    c, made = np.zeros((16, 32), "f4"), np.zeros((4, 24, 8), "f4")
    PreparedKernel(main_kernel, [(1, kernel, made)])(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    np.testing.assert_array_equal(made, b.reshape(24, 4, 8).transpose(1, 0, 2))


@pytest.mark.parametrize("text", [MATMUL, TWICE], ids=["not free", "read elsewhere"])
def test_what_is_needed_in_every_call_stays(text: str) -> None:
    whole = rewritten(text).mod["main"]
    main, before = without_layout_rewrites(whole)
    assert main is whole and not before


def test_a_candidate_is_timed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And still compared with the program as a whole."""
    trace: Any = rewritten(FREE).trace
    kernels = []
    make = task_module._kernel

    def kept(*arguments: Any) -> Any:
        kernels.append(make(*arguments))
        return kernels[-1]

    monkeypatch.setattr(task_module, "_kernel", kept)
    task = MeasureTask(FREE, json.dumps(trace.as_json()), timing=QUICK)
    assert measure_task(task).is_ok
    (kernel,) = kernels
    assert isinstance(kernel, PreparedKernel)
    zeros = 0 * kernel.before[0][2]
    monkeypatch.setattr(PreparedKernel, "prepared", lambda self, given: [given[0], zeros, given[2]])
    assert measure_task(task).status == "wrong"
