"""The schedule itself: its arguments, its variables, and what it says about them."""

from __future__ import annotations

import copy as copies
import json
from typing import Any, cast

import pytest

from schedule.common import ELEMENTWISE, MATMUL, parse, schedule
from tileloom import Schedule, ScheduleError, UserError
from tileloom.expr import Var, const
from tileloom.schedule import Trace
from tileloom.schedule.instruction import can, find_kind, kinds
from tileloom.schedule.rv import BlockRV, LoopRV
from tileloom.tir import IRModule


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"error_render_level": "loud"}, "error_render_level is one of"),
        ({"debug_mask": "some"}, "debug_mask is a number or one of"),
        ({"seed": 0}, "a seed is -1 or from 1"),
    ],
)
def test_options_that_are_none(options: Any, match: str) -> None:
    with pytest.raises(UserError, match=match):
        Schedule(parse(MATMUL), **options)


@pytest.mark.parametrize("mod", [None, "text", parse(MATMUL).body])
def test_what_cannot_be_scheduled(mod: Any) -> None:
    with pytest.raises(UserError, match=r"cannot schedule .*: pass an IRModule or PrimFunc"):
        Schedule(mod)


@pytest.mark.parametrize("mask", [0, 1, 2, 3, "all", "none"])
def test_masks_of_checks(mask: Any) -> None:
    sch = Schedule(parse(MATMUL), debug_mask=mask)
    assert sch.state.debug_mask == {"all": 3, "none": 0}.get(mask, mask)
    sch.split(sch.get_loops("C")[0], [None, 4])


def test_which_function_is_worked_on() -> None:
    func = parse(MATMUL)
    assert Schedule(func).func_working_on == "main"
    assert Schedule(IRModule({"f": func})).func_working_on == "f"
    assert Schedule(IRModule({"f": func, "main": func})).func_working_on == "main"
    sch = Schedule(IRModule({"f": func, "g": parse(ELEMENTWISE)}))
    assert sch.func_working_on is None
    with pytest.raises(UserError, match="name the function to verify"):
        sch.verify()
    with pytest.raises(UserError, match="name the function to verify"):
        sch.verify("h")
    with pytest.raises(UserError, match="no function is called 'h'"):
        sch.work_on("h")
    assert sch.func_working_on is None
    sch.work_on("g")
    assert sch.get(sch.get_block("B")).name_hint == "B"


def test_what_a_variable_stands_for() -> None:
    sch = schedule(MATMUL)
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sref = sch.get_sref(block)
    assert sch.get(sref) is sref.stmt is sch.get(block)
    assert sch.get_sref(sch.get(loops[1])) is sch.get_sref(loops[1])
    assert sch.get(3) == 3 and sch.get(const(4) + 1) == 5
    tile = sch.sample_perfect_tile(loops[0], n=2, decision=[32, 4])
    assert sch.get(tile[0] * 2 + tile[1]) == 68
    n = Var("n")
    assert sch.get(n) is n


@pytest.mark.parametrize("value", [True, "x", 1.5, [1]])
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(ScheduleError, match="a number is needed, got"):
        schedule(MATMUL).get(value)


def test_what_is_no_place() -> None:
    sch: Any
    sch, other = schedule(MATMUL), schedule(MATMUL)
    block, loop = sch.get_block("C"), sch.get_loops("C")[0]
    for step, match in (
        (lambda: sch.split(block, [None, 2]), "a loop is needed, got .* \\(BlockRV\\)"),
        (lambda: sch.get_loops(loop), "a block is needed, got .* \\(LoopRV\\)"),
        (lambda: sch.add_unit_loop(3), "a block or a loop is needed, got 3 \\(int\\)"),
        (lambda: sch.annotate(3, "a", 1), "a block, a loop or a sparse iteration is needed"),
        (lambda: sch.split(other.get_loops("C")[0], [None, 2]), "is not one of this schedule"),
        (lambda: sch.get_sref(LoopRV()), "is not one of this schedule"),
    ):
        with pytest.raises(ScheduleError, match=match):
            step()  # type: ignore[no-untyped-call]
    for stmt in (other.get(other.get_block("C")), other.get(other.get_loops("C")[0])):
        changed = copies.copy(stmt)
        kind = "loop 'i'" if hasattr(stmt, "loop_var") else "block 'C'"
        with pytest.raises(UserError, match=f"the {kind} is not part of the program"):
            sch.get_sref(changed.replace() if changed is stmt else changed)


def test_variables_that_are_forgotten() -> None:
    sch = schedule(MATMUL)
    loop = sch.get_loops("C")[0]
    sch.remove_rv(loop)
    with pytest.raises(ScheduleError, match="is not one of this schedule") as found:
        sch.unroll(loop)
    assert "step 3: unroll(loop=<gone>)" in str(found.value)
    with pytest.raises(UserError, match="the variable is not one of this schedule"):
        sch.remove_rv(loop)


def test_loops_that_a_step_replaced() -> None:
    sch = schedule(MATMUL)
    loop = sch.get_loops("C")[0]
    outer, inner = sch.split(loop, [None, 4])
    with pytest.raises(ScheduleError, match="no longer in the program") as found:
        sch.unroll(loop)
    assert "step 4: unroll(loop=<gone>)" in str(found.value)
    with pytest.raises(ScheduleError, match="step 4: fuse") as found:
        sch.fuse(inner, outer)
    assert "[loop 'i_1', loop 'i_0']" in str(found.value)


def test_variables_of_numbers_are_shown_as_numbers() -> None:
    sch = schedule(MATMUL)
    factor = sch.sample_categorical([3], [1.0])
    with pytest.raises(ScheduleError, match="do not reach the extent 128") as found:
        sch.split(sch.get_loops("C")[0], [factor, 5])
    assert "split(loop=loop 'i', factors=[3, 5], " in str(found.value)
    with pytest.raises(ScheduleError) as found:
        sch.parallel(cast(Any, factor))
    assert "parallel(loop=3)" in str(found.value)


def test_texts() -> None:
    sch = schedule(MATMUL)
    sch.get_block("C")
    assert str(sch) == f"{sch.mod}\n\n{sch.trace}"
    bare: Any = schedule(MATMUL, trace=False)
    bare.split(bare.get_loops("C")[0], [None, 4])
    assert bare.trace is None and str(bare) == str(bare.mod)
    assert bare.copy().trace is None
    with pytest.raises(ScheduleError, match="step 1: unroll"):
        bare.unroll(bare.get_block("C"))


def test_show_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    sch = schedule(MATMUL)
    sch.get_block("C")
    sch.show()
    text = capsys.readouterr().out
    assert "@T.prim_func" in text or "T.prim_func" in text
    assert 'sch.get_block(name="C", func_name="main")' in text
    schedule(MATMUL, trace=False).show()
    assert "sch.get_block" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "which", "match"),
    [
        ("cache_read", 2, "has 2 buffers that it reads, so there is no index 2"),
        ("cache_read", -1, "so there is no index -1"),
        ("cache_read", "C", "the block 'C' reads no buffer 'C'"),
        ("cache_write", 1, "has 1 buffers that it writes, so there is no index 1"),
        ("cache_write", "A", "the block 'C' writes no buffer 'A'"),
    ],
)
def test_buffers_that_are_none(method: str, which: object, match: str) -> None:
    sch = schedule(MATMUL)
    with pytest.raises(ScheduleError, match=match):
        getattr(sch, method)("C", which, "local")


@pytest.mark.parametrize("which", [1, "B"])
def test_buffers_by_index_and_name(which: Any) -> None:
    sch = schedule(MATMUL)
    buffer: Any = sch.mod["main"].buffers[1]
    for given in (which, buffer):
        copy = sch.copy()
        made = copy.cache_read("C", given, "local")
        assert copy.get(made).reads[0].buffer.name == "B"
        assert copy.trace is not None
        assert copy.trace.as_json()[0][-1][2] == [1, "local"]  # the index, not the name


def test_copies_share_variables() -> None:
    sch: Any = schedule(MATMUL)
    loop = sch.get_loops("C")[0]
    other = sch.copy()
    other.split(loop, [None, 4])
    assert sch.get(loop).extent.value == 128
    assert len(sch.trace.insts) == 2 and len(other.trace.insts) == 3
    assert sch.get_sref(loop) is not other.get_sref(other.get_loops("C")[0])
    sch.state.verify_references()
    other.state.verify_references()


def test_streams_of_random_numbers() -> None:
    sch, other = schedule(MATMUL, seed=7), schedule(MATMUL, seed=8)
    other.seed(7)
    assert sch.fork_seed() == other.fork_seed()
    fork = sch.copy()
    assert fork.fork_seed() == sch.fork_seed()


# ---------------------------------------------------------------------------- kinds of steps


def test_kinds_are_found_by_name() -> None:
    assert find_kind("Split") is kinds()["split"]
    with pytest.raises(UserError, match="no schedule primitive has the instruction kind 'Splat'"):
        find_kind("Splat")


@pytest.mark.parametrize(
    ("inputs", "attrs", "match"),
    [
        ([], [True, False], "too few inputs for Split: loop is missing"),
        (["l", 1, 2], [True], "too few attributes for Split"),
        (["l", 1, 2], [True, False, 3], "too many inputs or attributes for Split"),
    ],
)
def test_steps_that_are_too_short_or_too_long(
    inputs: list[Any], attrs: list[int], match: str
) -> None:
    with pytest.raises(UserError, match=match):
        find_kind("Split").unpack(inputs, attrs)


@pytest.mark.parametrize(
    ("name", "arguments", "packed"),
    [
        # Factors are inputs of their own; loops are listed one by one.
        ("Split", {"loop": "l", "factors": [None, 4], "preserve_unit_iters": True,
                   "disable_predication": False}, (["l", None, 4], [True, False])),
        ("Reorder", {"ordered_loops": ["a", "b"]}, (["a", "b"], [])),
        ("Blockize", {"target": "l", "preserve_unit_iters": True}, (["l"], [True])),
        ("GetBlock", {"name": "C", "func_name": None}, ([], ["C", None])),
        ("ComputeAt", {"block": "b", "loop": "l", "preserve_unit_loops": False, "index": -1},
         (["b", "l"], [False, -1])),
    ],
)  # fmt: skip
def test_inputs_and_attributes(
    name: str, arguments: dict[str, Any], packed: tuple[list[Any], ...]
) -> None:
    kind = find_kind(name)
    assert kind.pack(arguments) == packed
    assert kind.unpack(*packed) == arguments


def test_truth_values_are_read_from_numbers() -> None:
    found = find_kind("ComputeAt").unpack(["b", "l"], [1, -1])
    assert found["preserve_unit_loops"] is True and found["index"] == -1


def test_which_steps_can_be_left_out() -> None:
    pure = {kind.method for kind in kinds().values() if kind.pure}
    assert pure == {name for name in kinds() if name.startswith(("sample_", "get_"))}
    assert all(kind.is_pure == kind.pure for kind in kinds().values())


def test_wrong_arguments_name_the_method() -> None:
    sch: Any = schedule(MATMUL)
    with pytest.raises(UserError, match="unroll: missing a required argument: 'loop'") as found:
        sch.unroll()
    assert "unroll(loop" in str(found.value)
    with pytest.raises(UserError, match="split: got an unexpected keyword argument 'parts'"):
        sch.split(sch.get_loops("C")[0], [None, 2], parts=3)
    with pytest.raises(UserError, match="unroll: multiple values for argument 'loop'"):
        sch.unroll(sch.get_loops("C")[0], loop=sch.get_loops("C")[1])
    with pytest.raises(UserError, match="unroll: too many positional arguments"):
        sch.unroll(*sch.get_loops("C"))


def test_questions_change_nothing() -> None:
    sch = schedule(ELEMENTWISE)
    before = sch.mod
    block = {name: sch.get_sref(sch.get_block(name)) for name in "BC"}
    assert can(sch.state, "ComputeInline", block["B"])
    assert not can(sch.state, "ComputeInline", block["C"])
    assert can(sch.state, "ReverseComputeInline", block["C"])
    assert not can(sch.state, "ReverseComputeInline", block["B"])
    assert not can(sch.state, "NoSuchStep", block["B"])
    assert not can(sch.state, "Unroll", block["B"])  # a step that cannot be asked about
    assert sch.mod is before


def test_numbers_in_index_maps_and_data() -> None:
    sch = schedule(ELEMENTWISE)
    size = sch.sample_categorical([4, 4], [0.5, 0.5])
    sch.annotate("B", "sizes", {"a": [size, size + 1], "b": 2.5})
    assert dict(sch.get(sch.get_block("B")).annotations["sizes"]) == {"a": [4, 5], "b": 2.5}
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, j // size, j % size))
    assert sch.get(sch.get_block("B")).writes[0].buffer.static_shape == (13, 2, 4)


def test_index_maps_of_traces_follow_decisions() -> None:
    sch = schedule(ELEMENTWISE)
    rows, columns = sch.sample_perfect_tile(sch.get_loops("B")[1], 2, decision=[2, 4])
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, j // columns, j % columns))
    trace: Any = sch.trace
    assert "index_map=lambda i, j: (i, j // v4, j % v4,)" in str(trace)
    assert rows is not columns
    draw = next(step for step in trace.insts if step.kind.name == "SamplePerfectTile")
    other = trace.simplified(False).with_decision(draw, [4, 2], False)
    for replay in ("trace", "json"):
        again = schedule(ELEMENTWISE)
        if replay == "trace":
            other.apply_to_schedule(again, remove_postproc=False)
        else:
            Trace.apply_json_to_schedule(json.loads(json.dumps(other.as_json())), again)
        assert again.get(again.get_block("B")).writes[0].buffer.static_shape == (13, 4, 2)
        assert isinstance(again.trace, Trace)
        assert again.trace.simplified(False).as_json() == other.as_json()


def test_layouts_of_parameters_follow_each_other() -> None:
    """A proof about transformed parameters needs to know both transformations."""
    pytest.importorskip("islpy")
    sch = schedule(ELEMENTWISE)
    sch.transform_layout("B", ("read", 0), lambda i, j: (j, i))
    sch.transform_layout("B", ("read", 0), lambda j, i: (j // 2, i, j % 2))
    assert sch.mod["main"].buffers[0].static_shape == (4, 13, 2)
    assert sch.verify().state == "ok"
    assert sch.copy().verify().state == "ok"


def test_variables_are_of_two_kinds() -> None:
    sch = schedule(MATMUL)
    assert isinstance(sch.get_block("C"), BlockRV)
    assert all(isinstance(loop, LoopRV) for loop in sch.get_loops("C"))
    assert isinstance(sch.trace, Trace)
