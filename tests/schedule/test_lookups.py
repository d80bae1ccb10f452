"""Looking up blocks and loops; names; forks; functions."""

from __future__ import annotations

from typing import Any

import pytest

import tileloom
from schedule.common import ELEMENTWISE, MATMUL, NORMALISE, parse, refused, schedule
from tileloom import Schedule, ScheduleError, UserError
from tileloom.tir import IRModule


def names(sch: Any, blocks: Any) -> Any:
    return [sch.get(block).name_hint for block in blocks]


def test_producers_and_consumers() -> None:
    sch = schedule(NORMALISE)
    assert names(sch, sch.get_producers("C")) == ["S"]
    assert names(sch, sch.get_consumers("S")) == ["C"]
    assert sch.get_consumers("C") == [] and sch.get_producers("S") == []
    assert names(sch, sch.get_output_blocks("root")) == ["C"]
    assert names(sch, sch.get_child_blocks("root")) == ["S", "C"]
    assert names(sch, sch.get_child_blocks(sch.get_loops("C")[1])) == ["C"]
    assert sch.get_loops("root") == []


NESTED = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    with T.block("B_o"):
        vo = T.axis.spatial(1, 0)
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
    with T.block("C_o"):
        vo = T.axis.spatial(1, 0)
        D = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] * 2.0
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = D[vi, vj] * 2.0
"""


def test_output_blocks_are_nested_too() -> None:
    """A block counts by its own scope, as in TVM: B fills what is not its scope's."""
    sch = schedule(NESTED)
    assert names(sch, sch.get_output_blocks("root")) == ["B", "C_o", "C"]
    assert names(sch, sch.get_output_blocks("B_o")) == ["B"]
    assert names(sch, sch.get_output_blocks("C_o")) == ["C"]
    assert sch.get_output_blocks("C") == []


def test_block_names() -> None:
    sch = schedule(ELEMENTWISE)
    refused(sch, "Cannot find a block with the name: D", "get_block", "D")
    func = parse(ELEMENTWISE.replace('"C")', '"B")'))
    with pytest.raises(ScheduleError, match="2 blocks have the name 'B'"):
        schedule(func).get_block("B")


def test_a_loop_is_no_block() -> None:
    sch: Any = schedule(ELEMENTWISE)
    (i, _) = sch.get_loops("B")
    refused(sch, "a block is needed", "get_loops", i)
    refused(sch, "a loop is needed", "unroll", sch.get_block("B"))
    with pytest.raises(UserError, match="unroll"):
        sch.unroll()


def test_what_a_step_replaced_is_refused_by_name() -> None:
    sch = schedule(ELEMENTWISE)
    block, old = sch.get(sch.get_block("B")), sch.get(sch.get_loops("B")[0])
    sch.compute_inline("B")
    with pytest.raises(UserError, match="the block 'B' is not part of the program"):
        sch.get_sref(block)
    with pytest.raises(UserError, match="the loop 'i' is not part of the program"):
        sch.get_sref(old)


def test_levels_of_errors() -> None:
    def text(level: Any) -> Any:
        sch = schedule(MATMUL, error_render_level=level)
        with pytest.raises(ScheduleError) as found:
            sch.get_block("wrong_name")
        return found.value.args[0]

    assert "Cannot find a block with the name: wrong_name" in text("detail")
    assert "the blocks are" in text("detail") and "T.grid" not in text("detail")
    assert text("fast") == "ScheduleError: Cannot find a block with the specified name"
    assert "(not rendered)" in text("none")
    with pytest.raises(UserError):
        schedule(MATMUL, error_render_level="loud")


def test_two_functions() -> None:
    module = IRModule({"f": parse(ELEMENTWISE), "g": parse(ELEMENTWISE)})
    sch = Schedule(module, debug_mask="all")
    with pytest.raises(ScheduleError, match="several functions"):
        sch.get_block("B")
    sch.unroll(sch.get_loops(sch.get_block("B", "g"))[0])
    sch.work_on("f")
    assert sch.func_working_on == "f"
    sch.parallel(sch.get_loops("B")[0])
    assert "unroll" in str(sch.mod["g"]) and "parallel" in str(sch.mod["f"])
    assert "unroll" not in str(sch.mod["f"])
    with pytest.raises(UserError):
        sch.work_on("h")
    with pytest.raises(ScheduleError, match="no function"):
        sch.get_block("B", "h")


def test_copies_go_their_own_way() -> None:
    sch: Any = schedule(ELEMENTWISE)
    i, _ = sch.get_loops("B")
    other: Any = sch.copy()
    sch.split(i, [None, 4])
    assert other.get(i).extent == 13
    other.unroll(i)
    assert other.get(i).kind == "unrolled" and "unroll" not in str(sch.mod)
    assert len(other.trace.insts) == 3 and sch.trace.insts[2].kind.name == "Split"
    assert sch.fork_seed() == other.fork_seed()


def test_get_and_get_sref() -> None:
    sch = schedule(MATMUL)
    i, _, _ = sch.get_loops("C")
    sref = sch.get_sref(i)
    assert sch.get(sref) is sch.get(i) is sref.stmt
    assert sch.get_sref(sch.get(i)) is sref
    sch.remove_rv(i)
    with pytest.raises(ScheduleError, match="not one of this schedule"):
        sch.get(i)
    with pytest.raises(UserError):
        sch.remove_rv(i)
    v = sch.sample_categorical([7], [1.0])
    assert sch.get(v) == 7 and sch.get(v * 2 + 1) == 15


def test_the_methods_are_documented() -> None:
    for name, kind in tileloom.schedule.instruction.kinds().items():
        method = getattr(Schedule, name)
        assert method.__doc__, name
        assert str(kind.signature) and method.__name__ == name


def test_what_is_no_program() -> None:
    with pytest.raises(UserError, match="cannot schedule"):
        Schedule(3)  # type: ignore[arg-type]
    with pytest.raises(UserError):
        Schedule(parse(MATMUL), debug_mask="some")
    with pytest.raises(UserError):
        Schedule(parse(MATMUL), seed=0)


def test_what_starts_a_block_is_part_of_it() -> None:
    """As in TVM, blocks inside of an init are not found."""
    sch = schedule(MATMUL)
    i, _, _ = sch.get_loops("C")
    outer = sch.blockize(i)
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(outer)] == ["C"]
    refused(sch, "Cannot find", "get_block", "C_init")
    assert [sch.get(b).name_hint for b in sch.get_producers("C")] == []
