"""Rules, postprocessors, mutators and generators by TVM's names."""

from __future__ import annotations

from typing import Any

import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import meta_schedule as ms
from tileloom.compat.tvm.meta_schedule.testing import te_workload
from tileloom.compat.tvm.meta_schedule.testing.space_generation import (
    check_sketches,
    generate_design_space,
)
from tileloom.compat.tvm.script import from_source
from tileloom.compat.tvm.tir import Schedule
from tileloom.compat.tvm.tir.schedule.testing import assert_structural_equal_ignore_global_symbol
from tuner.tvm_spaces import workloads

from .programs import product, sums

CPU = "llvm -num-cores 4"


def kinds(sch: Any) -> list[str]:
    return [inst.kind.name for inst in sch.trace.insts]


@pytest.mark.parametrize(("name", "cpu", "gpu"), [("GMM", 3, 1), ("NRM", 3, 2), ("SFM", 9, 4)])
def test_how_many_design_spaces_there_are(name: str, cpu: int, gpu: int) -> None:
    """As many as TVM's."""
    func = te_workload.create_te_workload(name, 0)
    for target, count in ((CPU, cpu), ("cuda -arch=sm_70", gpu)):
        context = ms.TuneContext(func, target=target, space_generator="post-order-apply")
        assert len(context.generate_design_space()) == count


@pytest.mark.parametrize("name", sorted(workloads()))
def test_operators_are_those_of_tvm(name: str) -> None:
    """Block for block, with their names and annotations."""
    script = workloads()[name]["script"]
    own = te_workload.create_te_workload(name, 0)
    assert_structural_equal_ignore_global_symbol(own, from_source(script))


def test_defaults_are_those_of_a_kind_of_machine() -> None:
    context = ms.TuneContext(product(), target=CPU, space_generator="post-order-apply")
    generator = context.space_generator
    assert [type(rule).__name__ for rule in generator.sch_rules][:2] == [
        "ApplyCustomRule", "InlineConstantScalars",
    ]  # fmt: skip
    assert all(isinstance(p, ms.Postproc) for p in generator.postprocs)
    assert sum(generator.mutator_probs.values()) == pytest.approx(1)
    with pytest.raises(tvm.TVMError, match="hexagon"):
        ms.ScheduleRule.create("hexagon")


def test_parameters_of_rules() -> None:
    rule = ms.schedule_rule.MultiLevelTiling(
        structure="SRS",
        tile_binds=["blockIdx.x"],
        max_innermost_factor=4,
        reuse_write=ms.schedule_rule.ReuseType(req="may", levels=[1], scope="global"),
    )
    spaces = generate_design_space("llvm", product(), CPU, None, [rule])
    assert len(spaces) == 2
    assert [len(sch.get_loops(sch.get_block("C"))) for sch in spaces] == [4, 4]


def test_sketches_are_compared_with_decisions() -> None:
    spaces = generate_design_space("llvm", product(), CPU, ms.schedule_rule.MultiLevelTiling)
    plain = next(sch for sch in spaces if "CacheWrite" not in kinds(sch))
    wanted = Schedule(product())
    block = wanted.get_block("C")
    wanted.annotate(block, "meta_schedule.tiling_structure", "SSRSRS")
    i, j, k = wanted.get_loops(block)
    parts = [wanted.split(loop, [2, 2, 2, 2]) for loop in (i, j)]
    k0, k1 = wanted.split(k, [4, 4])
    (i0, i1, i2, i3), (j0, j1, j2, j3) = parts
    wanted.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    decisions = [("SamplePerfectTile", tile) for tile in ([2] * 4, [2] * 4, [4, 4])]
    check_sketches(product(), [plain], [wanted.mod], [decisions])
    with pytest.raises(AssertionError):
        check_sketches(product(), [plain], [product()], [decisions])


def test_rules_of_users() -> None:
    seen = []

    @ms.derived_object
    class Twice(ms.schedule_rule.PyScheduleRule):
        def _initialize_with_tune_context(self, context: Any) -> None:
            seen.append(context.task_name)

        def apply(self, sch: Any, block: Any) -> Any:
            if sch.get(block).name_hint != "B":
                return [sch]
            other = sch.copy()
            other.split(other.get_loops(block)[0], [2, 4])
            return [sch, other]

    generator = ms.space_generator.PostOrderApply(sch_rules=[Twice()], postprocs=[])
    context = ms.TuneContext(sums(), target=CPU, space_generator=generator, task_name="sums")
    assert len(context.generate_design_space()) == 2
    assert seen == ["sums"]
    others = ms.space_generator.PostOrderApply(lambda block: block.name_hint == "C", [Twice()], [])
    assert len(others.generate_design_space(sums())) == 1


def test_rules_by_the_name_of_a_function() -> None:
    @tvm.register_func("meta_schedule.cpu.by_two", override=True)
    def by_two(sch: Any, block: Any) -> Any:
        sch.split(sch.get_loops(block)[0], [None, 2])
        return [sch]

    sch = Schedule(sums())
    sch.annotate(sch.get_block("B"), "schedule_rule", "by_two")
    [found] = generate_design_space("llvm", sch.mod, CPU, ms.schedule_rule.ApplyCustomRule)
    assert kinds(found)[-1] == "Split"


def test_postprocessors_and_mutators_of_a_context() -> None:
    generator = ms.space_generator.ScheduleFn(
        lambda sch: sch.annotate(sch.get_block("root"), "meta_schedule.parallel", 8),
        sch_rules=[],
        postprocs=[ms.postproc.RewriteParallelVectorizeUnroll()],
        mutator_probs={ms.mutator.MutateParallel(4): 1.0},
    )
    context = ms.TuneContext(product(8), target=CPU, space_generator=generator)
    [sch] = context.generate_design_space()
    [mutator] = generator.mutator_probs
    changed = mutator.apply(sch.trace)
    assert changed.insts[-1].inputs[1] == 1  # one loop in parallel instead of two
    sch.enter_postproc()
    assert generator.postprocs[0].apply(sch)
    assert sch.get(sch.get_loops("C")[0]).kind == tvm.tir.ForKind.PARALLEL


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown space generator 'all'"):
        ms.TuneContext(product(), space_generator="all")
    with pytest.raises(tvm.TVMError, match="Apply method not implemented"):
        ms.postproc.PyPostproc().apply(Schedule(product()))
    with pytest.raises(tvm.TVMError, match="Hexagon"):
        ms.postproc.VerifyVTCMLimit()
    with pytest.raises(AttributeError, match=r"tvm.meta_schedule.relay_integration of TVM is not"):
        ms.relay_integration  # noqa: B018
