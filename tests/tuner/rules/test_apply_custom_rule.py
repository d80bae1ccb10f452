"""ApplyCustomRule: functions of users, by name and target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tileloom import UserError
from tileloom.schedule import Schedule
from tileloom.target import target
from tileloom.tir import IRModule, PrimFunc
from tileloom.tuner.context import TuneContext
from tileloom.tuner.design_space import PostOrderApply
from tileloom.tuner.rules import apply_custom_rule
from tileloom.tuner.rules.apply_custom_rule import ApplyCustomRule, schedule_rule, target_keys

from .programs import CPU, CUDA, apply, extents, script


@pytest.fixture(autouse=True)
def _own_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(apply_custom_rule, "_RULES", {})
    yield


def noted(name: str) -> PrimFunc:
    return script(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.block_attr({{"schedule_rule": "{name}"}})
            B[v] = A[v] + 1.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * 2.0
""")


def by(factor: int) -> Any:
    def rule(sch: Schedule, block: Any) -> None:
        sch.split(sch.get_loops(block)[0], [None, factor])

    return rule


def test_the_function_of_the_target_is_called() -> None:
    schedule_rule("tile", "cpu")(by(2))
    schedule_rule("tile", "gpu")(by(4))
    func = noted("tile")
    assert extents(apply(ApplyCustomRule(), func, "B", CPU)[0], "B") == [4, 2]
    assert extents(apply(ApplyCustomRule(), func, "B", CUDA)[0], "B") == [2, 4]
    schedule_rule("tile", "cuda")(by(8))  # the narrower name is stronger
    assert extents(apply(ApplyCustomRule(), func, "B", CUDA)[0], "B") == [1, 8]
    assert extents(apply(ApplyCustomRule(), func, "C", CPU)[0], "C") == [8]


def test_a_function_may_return_several_ways() -> None:
    @schedule_rule("two", "cpu")
    def two(sch: Schedule, block: Any) -> list[Schedule]:
        other = sch.copy()
        by(2)(sch, block)
        return [sch, other]

    @schedule_rule("one", "cpu")
    def one(sch: Schedule, block: Any) -> Schedule:
        return sch.copy()

    assert len(apply(ApplyCustomRule(), noted("two"), "B")) == 2
    assert len(apply(ApplyCustomRule(), noted("one"), "B")) == 1


def test_unknown_names_are_refused_with_those_that_are_known() -> None:
    schedule_rule("tile", "cuda")(by(2))
    with pytest.raises(UserError, match="no schedule rule 'tile' is registered for 'cpu'") as info:
        apply(ApplyCustomRule(), noted("tile"), "B")
    assert "'tile' for 'cuda'" in str(info.value)


def test_none_is_no_rule() -> None:
    (sch,) = apply(ApplyCustomRule(), noted("None"), "B")
    assert extents(sch, "B") == [8]


@pytest.mark.parametrize("name", ["tile", "None"])
def test_other_rules_leave_such_a_block_alone(name: str) -> None:
    schedule_rule("tile", "cpu")(lambda sch, block: None)
    context = TuneContext(IRModule({"main": noted(name)}), target(CPU))
    (sch,) = PostOrderApply().generate(context)
    assert extents(sch, "B") == [8]  # not inlined, and left where it is
    trace: Any = sch.trace
    taken = [s.kind.name for s in trace.simplified(True).insts]
    assert taken == ["GetBlock", "Annotate", "Annotate"]


def test_mistakes_of_the_function_are_seen() -> None:
    @schedule_rule("wrong", "cpu")
    def wrong(sch: Schedule, block: Any) -> None:
        sch.get_block("nowhere")

    context = TuneContext(IRModule({"main": noted("wrong")}), target(CPU))
    with pytest.raises(UserError, match="nowhere"):
        PostOrderApply().generate(context)


def test_keys_of_targets() -> None:
    assert target_keys(target("cpu -mtriple=aarch64-linux-gnu")) == ("arm_cpu", "cpu")
