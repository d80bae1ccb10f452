"""Design spaces: equal to TVM's, step for step, and the ways that rules open."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from tileloom import UserError, te
from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.target import target
from tileloom.tir import IRModule
from tileloom.tuner.context import TuneContext
from tileloom.tuner.design_space import (
    PostOrderApply,
    ScheduleFn,
    SpaceGeneratorUnion,
    design_spaces,
)
from tuner.rules.programs import CPU, assert_same, chain, product, script
from tuner.tvm_spaces import steps, workloads
from tuner.workloads import WORKLOADS

TARGETS = {"llvm_nc4": CPU, "cuda_sm70": "cuda -arch=sm_70", "cuda_sm80_tc": "cuda -arch=sm_80"}
#: How many spaces there are on each target; (3, 1, 3) of other workloads.
COUNTS = {"GMM": (3, 1, 3), "C2D": (3, 1, 3), "NRM": (3, 2, 2), "SFM": (9, 4, 4)}


def context_of(func: Any, machine: str = CPU) -> TuneContext:
    return TuneContext(IRModule({"main": func}), target(machine))


def taken(sch: Schedule) -> list[str]:
    trace: Any = sch.trace
    return [step.kind.name for step in trace.simplified(True).insts]


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("workload", COUNTS)
def test_spaces_are_those_of_tvm(workload: str, machine: str) -> None:
    if not workloads():
        pytest.skip("the sample of design spaces is not here")
    sample = workloads()[workload]
    func = from_source("from tileloom.script import tir as T\n" + sample["script"])
    found = design_spaces(context_of(func, TARGETS[machine]))
    ours = [steps(sch.trace.simplified(True).as_python()) for sch in found]  # type: ignore[union-attr]
    assert ours == [steps(space["trace_py"]) for space in sample["targets"][machine]]
    assert len(ours) == COUNTS[workload][list(TARGETS).index(machine)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("GMM", "DEP", "NRM", "SFM") else pytest.mark.slow)
     for name in WORKLOADS],
)  # fmt: skip
def test_there_are_as_many_as_tvm_has_and_all_compute_the_same(name: str) -> None:
    func = WORKLOADS[name]()
    found = [design_spaces(context_of(func, machine)) for machine in TARGETS.values()]
    assert tuple(map(len, found)) == COUNTS.get(name, (3, 1, 3))
    for spaces in found:
        assert_same(func, spaces)


def test_products_of_bytes_get_tiles_for_an_intrinsic() -> None:
    a, b = te.placeholder((16, 16), "uint8", "A"), te.placeholder((32, 16), "int8", "B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute(
        (16, 32), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), k), "C"
    )
    context = context_of(te.create_prim_func([a, b, c]), "cpu -mcpu=cascadelake")
    found = design_spaces(context)
    assert len(found) == 3
    notes = [sch.get(sch.get_block("C_o")).annotations for sch in found]
    assert all(n["meta_schedule.auto_tensorize"] == "dot_16x4_vnni" for n in notes)


def test_a_seed_decides_all() -> None:
    func = product(16, 16, 64)
    first, again, other = (design_spaces(context_of(func), seed=seed) for seed in (3, 3, 4))
    assert [str(sch.trace) for sch in first] == [str(sch.trace) for sch in again]
    assert [str(sch.trace) for sch in first] != [str(sch.trace) for sch in other]


@dataclass(frozen=True, slots=True)
class Marks:
    """Annotates blocks, in one way or two."""

    key: str
    ways: int = 1

    def apply(self, sch: Schedule, block: Any, context: TuneContext) -> list[Schedule]:
        found = [sch, *(sch.copy() for _ in range(self.ways - 1))]
        for number, way in enumerate(found):
            way.annotate(block, self.key, number)
        return found


@dataclass(frozen=True, slots=True)
class Fails:
    """Takes a step, and then one that is refused."""

    def apply(self, sch: Schedule, block: Any, context: TuneContext) -> list[Schedule]:
        sch.annotate(block, "before", 1)
        sch.compute_inline(block)
        return [sch]


@dataclass(frozen=True, slots=True)
class Inlines:
    """Inlines the producers of a block."""

    def apply(self, sch: Schedule, block: Any, context: TuneContext) -> list[Schedule]:
        if sch.get_sref(block).parent is not None:
            for producer in sch.get_producers(block):
                sch.compute_inline(producer)
        return [sch]


def test_rules_see_the_last_block_first_and_each_way() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0)
    found = design_spaces(context_of(func), [Marks("a", 2), Marks("b")])
    assert len(found) == 8  # two ways for each of two blocks and the root

    def notes(sch: Schedule, name: str) -> dict[str, int]:
        return dict(sch.get(sch.get_block(name)).annotations)

    seen = [tuple(notes(s, n)["a"] for n in ("root", "B1", "B0")) for s in found]
    # The first way of the root is followed to its end last, and the second rule turns all round.
    assert seen == [(r, b, a) for r in (0, 1) for b in (0, 1) for a in (0, 1)]
    assert all(notes(sch, "B0")["b"] == 0 for sch in found)
    trace: Any = found[0].trace
    named = [step.inputs[0] for step in trace.insts if step.kind.name == "Annotate"]
    first = [step.outputs[0] for step in trace.insts[:3]]
    assert named == [*first[::-1], *first[::-1]]


def test_blocks_that_are_gone_are_passed_over() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0)
    (sch,) = design_spaces(context_of(func), [Inlines(), Marks("a")])
    assert taken(sch)[-3:] == ["ComputeInline", "Annotate", "Annotate"]


def test_a_rule_that_is_refused_leaves_the_block_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0)
    with caplog.at_level(logging.INFO, "tileloom.tuner"):
        (sch,) = design_spaces(context_of(func), [Fails()])
    assert taken(sch) == ["GetBlock", "Annotate", "ComputeInline"]  # "B0" alone can be inlined
    assert [m.split()[2] for m in caplog.messages] == ["block", "block"]
    assert "'B1'" in caplog.messages[1]


def test_a_filter_says_which_blocks_are_looked_at() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0)
    only = PostOrderApply((Marks("a"),), lambda block: block.name_hint == "B1")
    (sch,) = only.generate(context_of(func))
    assert taken(sch) == ["GetBlock", "Annotate"]
    assert sch.get(sch.get_block("B1")).annotations == {"a": 0}


def test_inner_blocks_come_before_outer_ones() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("outer"):
            x = T.axis.spatial(8, i)
            for j in range(8):
                with T.block("inner"):
                    y = T.axis.spatial(8, j)
                    B[x, y] = A[x, y] + 1.0
""")
    (sch,) = design_spaces(context_of(func), [Marks("a")])
    trace: Any = sch.trace
    names = [step.attrs[0] for step in trace.insts if step.kind.name == "GetBlock"]
    assert names == ["inner", "outer", "root"]


def test_blocks_with_one_name_are_refused() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            x = T.axis.spatial(8, i)
            C[x] = A[x] + 1.0
    for i in range(8):
        with T.block("B"):
            x = T.axis.spatial(8, i)
            B[x] = C[x] + 1.0
""")
    with pytest.raises(UserError, match="2 blocks have the name 'B'"):
        design_spaces(context_of(func))


def test_functions_of_users_and_unions() -> None:
    func = chain(lambda x: x + 1.0)
    context = context_of(func)

    def split(sch: Schedule) -> None:
        sch.split(sch.get_loops("B0")[0], [2, None])

    def several(sch: Schedule) -> list[Schedule]:
        return [sch, sch.copy()]

    assert [taken(sch)[-1] for sch in ScheduleFn(split).generate(context)] == ["Split"]
    assert len(ScheduleFn(several).generate(context)) == 2
    assert len(ScheduleFn(lambda sch: sch.copy()).generate(context)) == 1
    union = SpaceGeneratorUnion((ScheduleFn(several), PostOrderApply(()), ScheduleFn(split)))
    assert [len(taken(sch)) for sch in union.generate(context, seed=5)] == [0, 0, 0, 3]


def test_softmax_on_a_gpu_reduces_both_rows_in_one_kernel() -> None:
    found = design_spaces(context_of(WORKLOADS["SFM"](), "cuda -arch=sm_70"))
    outermost = [[s.get(s.get_loops(b)[0]) for b in ("most", "total", "y")] for s in found]
    assert [len(set(map(id, loops))) for loops in outermost] == [3, 3, 2, 1]
