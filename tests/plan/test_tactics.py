"""The tactics one by one, on the softmax of 64 rows of 128 that their source walks through."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import te
from tileloom.expr import IntImm
from tileloom.lower import lower
from tileloom.plan import GroupRefused
from tileloom.plan.cuda.storage import reach_of
from tileloom.plan.cuda.tactics import (
    align_loops,
    bind_axes,
    factor_reductions,
    fuse_horizontally,
    fuse_vertically,
    inline_compute,
    place_storage,
    schedule_static,
)
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import kernel_costs, run_kernels
from tileloom.target import target
from tileloom.tir import PrimFunc

pytest.importorskip("islpy")
GPU = target("cuda -arch=sm_80")


def softmax(rows: int = 64, columns: int = 128) -> PrimFunc:
    """Op by op, with the broadcasts that op lowering leaves."""
    x = te.placeholder((rows, columns), name="x")
    j, k = (te.reduce_axis((0, columns), name=name) for name in "jk")
    top = te.compute((rows, 1), lambda i, _: te.max(x[i, j], axis=j), name="top")
    wide = te.compute((rows, columns), lambda i, c: top[i, 0], name="wide")
    less = te.compute((rows, columns), lambda i, c: x[i, c] - wide[i, c], name="less")
    power = te.compute((rows, columns), lambda i, c: T.exp(less[i, c]), name="power")
    total = te.compute((rows, 1), lambda i, _: te.sum(power[i, k], axis=k), name="total")
    out = te.compute((rows, columns), lambda i, c: power[i, c] / total[i, 0], name="out")
    return te.create_prim_func([x, out])


def blocks(sch: Schedule) -> list[str]:
    return [sch.get(rv).name_hint for rv in sch.get_child_blocks(sch.get_block("root"))]


def loops(sch: Schedule, name: str) -> list[tuple[int, str]]:
    found = []
    for rv in sch.get_loops(name):
        loop = sch.get(rv)
        assert isinstance(loop.extent, IntImm)
        tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
        if loop.extent.value != 1 or tag:
            found.append((loop.extent.value, tag))
    return found


# ---------------------------------------------------------------------------- one by one


def test_loops_are_aligned_with_the_master_reduction() -> None:
    a = te.placeholder((64, 16, 8), name="A")
    k = te.reduce_axis((0, 128), name="k")
    flat = te.compute((64, 128), lambda i, c: a[i, c // 8, c % 8] * 2.0, name="flat")
    rows = te.compute((64,), lambda i: te.sum(flat[i, k], axis=k), name="rows")
    back = te.compute((64, 16, 8), lambda i, j, l: a[i, j, l] / rows[i], name="back")
    small = te.compute((8, 8), lambda i, j: rows[i * 8 + j] + 1.0, name="small")
    sch = Schedule(te.create_prim_func([a, back, small]))
    said = align_loops(sch)
    assert said[0].startswith("rows: the others follow its loops [64, 128]")
    assert [line.split(":")[0] for line in said] == ["rows", "flat", "back", "small"]
    assert loops(sch, "flat") == loops(sch, "back") == [(64, ""), (128, "")]
    assert loops(sch, "small") == [(64, "")]


def test_what_does_not_divide_keeps_its_loops() -> None:
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((5, 7), name="B")
    k = te.reduce_axis((0, 8), name="k")
    rows = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="rows")
    other = te.compute((5, 7), lambda i, j: b[i, j] + 1.0, name="other")
    sch = Schedule(te.create_prim_func([a, b, rows, other]))
    assert "do not follow" in align_loops(sch)[-1]
    assert loops(sch, "other") == [(5, ""), (7, "")]


def test_formulas_are_inlined_however_often_they_are_read() -> None:
    sch = Schedule(softmax())
    inline_compute(sch)
    assert blocks(sch) == ["top", "total", "out"]
    assert str(sch.mod).count("T.exp") == 2


@pytest.mark.parametrize(
    ("length", "threads", "parts"), [(128, 128, True), (2048, 1024, True), (1031, 1024, False),
                                     (7, 7, True), (3000, 1000, True), (2062, 1024, False)]
)  # fmt: skip
def test_reductions_use_threads_whatever_their_length(
    length: int, threads: int, parts: bool
) -> None:
    sch = Schedule(softmax(4, length))
    inline_compute(sch)
    factor_reductions(sch)
    assert ("top_rf" in blocks(sch)) is parts
    assert (threads, "threadIdx.x") in loops(sch, "top")


def test_vertical_fusion_puts_everything_under_the_rows() -> None:
    sch = Schedule(softmax())
    inline_compute(sch)
    factor_reductions(sch)
    fuse_vertically(sch)
    outer = {sch.get(sch.get_loops(name)[0]) for name in blocks(sch)}
    assert len(outer) == 1
    assert outer.pop().extent.value == 64


def test_horizontal_fusion_joins_results() -> None:
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 16), lambda i, j: a[i, j] * 2.0, name="C")
    d = te.compute((4, 16), lambda i, j: a[i, j] * 3.0, name="D")
    sch = Schedule(te.create_prim_func([a, b, c, d]))
    said = fuse_horizontally(sch)
    assert said == ["C with B: 2 loops merged", "D with C: their outer loops differ"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [(100, [(100, "threadIdx.x")]), (5000, [(5, "blockIdx.x"), (1024, "threadIdx.x")]),
     (1 << 20, [(256, "blockIdx.x"), (1024, "threadIdx.x"), (4, "")])],
)  # fmt: skip
def test_formulas_are_bound_by_their_size(size: int, expected: list[tuple[int, str]]) -> None:
    a = te.placeholder((size,), name="A")
    sch = Schedule(te.create_prim_func([a, te.compute((size,), lambda i: a[i] + 1.0, name="B")]))
    bind_axes(sch)
    assert loops(sch, "B") == expected


# ---------------------------------------------------------------------------- storage


def reversed_rows(per_thread: int) -> Schedule:
    """B[i, c] = A[i, 63 - c] * 2 through an intermediate, with threads over c."""
    a = te.placeholder((4, 64), name="A")
    s = te.compute((4, 64), lambda i, c: a[i, c] * 2.0, name="S")
    b = te.compute((4, 64), lambda i, c: s[i, 63 - c], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    for name in ("S", "B"):
        thread, inner = sch.split(sch.get_loops(name)[1], [None, per_thread])
        sch.bind(thread, "threadIdx.x")
        del inner
    merged = sch.merge(sch.get_loops("S")[0], sch.get_loops("B")[0])
    sch.bind(merged, "blockIdx.x")
    return sch


@pytest.mark.parametrize(("per_thread", "reach"), [(1, "block"), (16, "block"), (64, "thread")])
def test_who_must_see_a_buffer(per_thread: int, reach: str) -> None:
    sch = reversed_rows(per_thread)
    buffer = sch.get(sch.get_block("S")).writes[0].buffer
    assert reach_of(sch, buffer) == reach
    place_storage(sch)
    value = np.arange(256, dtype="float32").reshape(4, 64)
    result = np.zeros_like(value)
    run_kernels(lower(sch.mod["main"], GPU), value, result)
    assert np.array_equal(result, 2 * value[:, ::-1])


def test_blocks_that_would_have_to_wait_are_refused() -> None:
    a = te.placeholder((64,), name="A")
    s = te.compute((64,), lambda i: a[i] * 2.0, name="S")
    b = te.compute((64,), lambda i: s[63 - i], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    for name in ("S", "B"):
        sch.bind(sch.get_loops(name)[0], "blockIdx.x")
    with pytest.raises(GroupRefused, match="wait for each other"):
        place_storage(sch)


def test_a_reduced_value_reaches_the_threads_that_share_in_it() -> None:
    sch, _ = schedule_static(softmax())
    for name in ("top", "total"):
        assert sch.get(sch.get_block(name)).writes[0].buffer.scope == "local"


# ---------------------------------------------------------------------------- the whole


@pytest.mark.parametrize(
    ("rows", "columns"), [(64, 128), (5, 1031), (1, 7), (3, 1), (7, 33), (2, 2048)]
)
def test_softmax_stage_by_stage(rows: int, columns: int) -> None:
    func = softmax(rows, columns)
    sch, stages = schedule_static(func)
    assert [stage.tactic for stage in stages] == [
        "align_loops", "inline_compute", "factor_reductions", "fuse_horizontally",
        "fuse_vertically", "bind_axes", "place_storage",
    ]  # fmt: skip
    value = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")
    result = np.full_like(value, np.nan)
    run_kernels(lower(sch.mod["main"], GPU), value, result)
    power = np.exp(value - value.max(1, keepdims=True))
    np.testing.assert_allclose(result, power / power.sum(1, keepdims=True), 1e-5, 1e-6)


def test_what_the_source_leaves_unbound_is_bound() -> None:
    """There, every thread computes a whole row of the result: 64 * 128 * 128 stores."""
    sch, _ = schedule_static(softmax())
    [cost] = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert cost.stores["global"].elements == 64 * 128
    assert cost.calls == {"exp": 2 * 64 * 128}
    assert cost.syncs <= 2 * 2
    assert (cost.blocks, cost.threads) == (64, 128)


def test_a_stage_says_what_was_done() -> None:
    _, stages = schedule_static(softmax())
    text = str(stages[2])
    assert text.startswith("# factor_reductions\n")
    assert "128 threads, each 1 of 128" in text


# ---------------------------------------------------------------------------- what they say


def norm(rows: int, columns: int) -> PrimFunc:
    """Rows divided by their sums: one reduction and one block after it."""
    x, k = te.placeholder((rows, columns), name="x"), te.reduce_axis((0, columns), name="k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    out = te.compute((rows, columns), lambda i, c: x[i, c] / total[i], name="out")
    return te.create_prim_func([x, out])


def two_results(size: int) -> PrimFunc:
    x = te.placeholder((size, 4), name="x")
    y = te.compute((size, 4), lambda i, j: x[i, j] + 1.0, name="y")
    z = te.compute((4, size), lambda i, j: x[j, i] * 2.0, name="z")
    return te.create_prim_func([x, y, z])


#: After which tactic each block is spoken of, and how. Blocks that a tactic has nothing to do with
#: are left out: the master and other reductions keep their loops, elementwise blocks their order.
SAID = {
    "softmax": (
        softmax(64, 128),
        {
            "align_loops": [
                "top: the others follow its loops [64, 128]",
                *(f"{name}: its loops are the master's already"
                  for name in ("wide", "less", "power", "out")),
            ],
            "inline_compute": ["wide: inlined", "less: inlined", "power: inlined"],
            "factor_reductions": ["top: 128 threads, each 1 of 128",
                                  "total: 128 threads, each 1 of 128"],
            "fuse_horizontally": [],
            "bind_axes": ["nest of top_rf: blockIdx.x", "out: threadIdx.x, 128 threads"],
            "place_storage": ["top.rf: local", "top: local", "total.rf: local", "total: local",
                              "out: global, a result"],
        },
    ),
    "rows of a prime length": (
        norm(5, 1031),
        {
            "align_loops": ["total: the others follow its loops [5, 1031]",
                            "out: its loops are the master's already"],
            "inline_compute": [],
            "factor_reductions": ["total: 1024 threads take turns over 1031"],
            "fuse_vertically": ["out with total: 1 loops merged"],
            "bind_axes": ["nest of total: blockIdx.x", "out: threadIdx.x, 1024 threads"],
            "place_storage": ["total: local", "out: global, a result"],
        },
    ),
    "short rows": (
        norm(7, 6),
        {
            "factor_reductions": ["total: 6 threads, each 1 of 6"],
            "fuse_vertically": ["total with total_rf: 1 loops merged",
                                "out with total: 1 loops merged"],
            "bind_axes": ["nest of total_rf: blockIdx.x", "out: threadIdx.x, 6 threads"],
            "place_storage": ["total.rf: local", "total: local", "out: global, a result"],
        },
    ),
    "two results": (
        two_results(100),
        {
            "align_loops": ["y: the others follow its loops [100, 4]", "z: loops [100, 4]"],
            "inline_compute": [],
            "factor_reductions": [],
            "fuse_horizontally": ["z with y: 2 loops merged"],
            "fuse_vertically": ["z with y: one nest already"],
            "bind_axes": ["nest of y: blockIdx.x", "y: threadIdx.x, 256 threads",
                          "z: its threads are bound"],
            "place_storage": ["y: global, a result", "z: global, a result"],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_was_done_is_said(name: str) -> None:
    func, wanted = SAID[name]
    _, stages = schedule_static(func)
    found = {stage.tactic: list(stage.said) for stage in stages}
    assert {tactic: found[tactic] for tactic in wanted} == wanted
