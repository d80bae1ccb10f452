"""Traces: text, JSON, decisions, simplification."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import MATMUL, check_trace, refused, schedule
from tileloom import UserError
from tileloom.schedule import Trace
from tileloom.tir import assert_structural_equal


def tiled() -> Any:
    sch = schedule(MATMUL)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    tiles = sch.sample_perfect_tile(i, n=2, max_innermost_factor=16, decision=[16, 8])
    i0, i1 = sch.split(i, tiles)
    sch.reorder(i0, j, k, i1)
    depth = sch.sample_categorical([0, 16], [0.25, 0.1], decision=1)
    sch.enter_postproc()
    sch.fuse(i0, j)
    sch.annotate(block, "depth", depth)
    return sch


PYTHON = """\
# from tvm import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name="C", func_name="main")
  l1, l2, l3 = sch.get_loops(block=b0)
  v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[16, 8])
  l6, l7 = sch.split(loop=l1, factors=[v4, v5], preserve_unit_iters=True, disable_predication=False)
  sch.reorder(l6, l2, l3, l7)
  v8 = sch.sample_categorical(candidates=[0, 16], probs=[0.25, 0.10000000000000001], decision=1)
  sch.enter_postproc()
  l9 = sch.fuse(l6, l2, preserve_unit_iters=True)
  sch.annotate(block_or_loop=b0, ann_key="depth", ann_val=v8)"""

JSON: list[Any] = [
    [
        ["GetBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l1"], [2, 16], ["v4", "v5"]],
        ["Split", ["l1", "v4", "v5"], [True, False], ["l6", "l7"]],
        ["Reorder", ["l6", "l2", "l3", "l7"], [], []],
        ["SampleCategorical", [], [[0, 16], [0.25, 0.1]], ["v8"]],
        ["EnterPostproc", [], [], []],
        ["Fuse", ["l6", "l2"], [1], ["l9"]],
        ["Annotate", ["b0", "v8"], ["depth"], []],
    ],
    [[2, [16, 8]], [5, 1]],
]


def test_formats() -> None:
    sch = tiled()
    assert str(sch.trace) == PYTHON
    assert sch.trace.as_json() == JSON
    assert isinstance(sch.trace.as_json()[0][7][2][0], int)
    assert sch.trace.as_json()[0][7][2][0] is not True
    check_trace(sch, MATMUL)


def test_without_postprocessing() -> None:
    trace = tiled().trace
    assert len(trace.as_python(remove_postproc=True)) == 6
    assert len(trace.as_json(remove_postproc=True)[0]) == 6
    sch: Any = schedule(MATMUL)
    trace.apply_to_schedule(sch, remove_postproc=True)
    assert len(sch.trace.insts) == 6


def test_decisions() -> None:
    sch = tiled()
    inst = sch.trace.insts[2]
    assert sch.trace.get_decision(inst) == [16, 8]
    other = sch.trace.with_decision(inst, [32, 4], remove_postproc=False)
    assert sch.trace.get_decision(inst) == [16, 8]
    again = schedule(MATMUL)
    other.apply_to_schedule(again, remove_postproc=False)
    assert [again.get(loop).extent for loop in again.get_loops("C")] == [2048, 96, 4]
    third: Any = schedule(MATMUL)

    def provider(step: Any, inputs: Any, attrs: Any, decision: Any) -> Any:
        return [64, 2] if step.kind.name == "SamplePerfectTile" else decision

    sch.trace.apply_to_schedule(third, False, provider)
    assert third.trace.as_json()[1] == [[2, [64, 2]], [5, 1]]


def test_simplified_drops_what_nobody_uses() -> None:
    sch = tiled()
    sch.get_block("root")
    sch.get_child_blocks("root")
    simple = sch.trace.simplified(remove_postproc=False)
    assert [inst.kind.name for inst in simple.insts] == [s[0] for s in JSON[0]]
    short = sch.trace.simplified(remove_postproc=True)
    assert [inst.kind.name for inst in short.insts][-1] == "Reorder"  # the depth is not used
    again = schedule(MATMUL)
    simple.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_append_and_pop() -> None:
    sch = tiled()
    trace = Trace(sch.trace.insts, sch.trace.decisions)
    last: Any = trace.pop()
    assert last.kind.name == "Annotate" and len(sch.trace.insts) == 9
    trace.append(last)
    assert str(trace) == PYTHON
    assert Trace().pop() is None


@pytest.mark.parametrize(
    "data",
    [
        3,
        [[], [], []],
        [[["Nope", [], [], []]], []],
        [[["GetLoops", ["b0"], [], []]], []],
        [[["GetBlock", [], ["C"], ["b0"]]], []],
        [[["GetBlock", [], ["C", "main"], ["b0", "b1"]]], []],
        [[["GetBlock", ["b1", "b2"], ["C", "main"], ["b0"]]], []],
    ],
)
def test_broken_json(data: int | list[list[list[Any]]]) -> None:
    with pytest.raises(UserError):
        Trace.apply_json_to_schedule(data, schedule(MATMUL))


def test_refusals_name_the_step() -> None:
    sch = tiled()
    error = refused(sch, "step 12: split", "split", sch.get_loops("C")[0], [3, 5])
    assert "factors=[3, 5]" in str(error)


def test_no_trace() -> None:
    sch = schedule(MATMUL, trace=False)
    sch.unroll(sch.get_loops("C")[0])
    assert sch.trace is None and "unroll" in str(sch)


def test_lists_that_steps_give_belong_to_their_taker() -> None:
    sch = schedule(MATMUL)
    loops = sch.get_loops("C")
    sch.reorder(loops.pop(), loops.pop(0))
    sch.get_child_blocks(sch.get_block("root")).clear()
    check_trace(sch, MATMUL)


def test_a_trace_is_read_without_a_schedule() -> None:
    """Its JSON is the same again, what is left open and decisions included."""
    sch = tiled()
    sch.split(sch.get_loops("C")[0], [None, 2])
    written = sch.trace.as_json()
    again = Trace.from_json(written)
    assert again.as_json() == written
    other = schedule(MATMUL)
    again.apply_to_schedule(other, remove_postproc=False)
    assert_structural_equal(other.mod, sch.mod)


@pytest.mark.parametrize(
    ("step", "word"),
    [
        (["Nothing", [], [], []], "Nothing"),
        (["GetLoops", ["b7"], [], ["l1"]], "b7"),
        (["EnterPostproc", [], [], ["b0"]], "defines nothing"),
    ],
)
def test_what_is_no_trace_is_refused(step: list[object], word: str) -> None:
    with pytest.raises(UserError, match=word):
        Trace.from_json([[step], []])
