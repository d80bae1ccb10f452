"""Groups on a CPU whose sizes are variables: one kernel for many shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from plan.shapes import PROGRAMS, Program
from tileloom.driver import build
from tileloom.expr import Var
from tileloom.lower import lower
from tileloom.plan import GroupRefused, schedule_cpu
from tileloom.schedule import Schedule
from tileloom.target import target

CPU = target("cpu -num-cores=2")


def symbolic(
    program: Program, bounds: tuple[int, int | None] | None = None, fixed: Mapping[int, int] = {}
) -> Schedule:
    """Scheduled with variables for all extents but those that are fixed."""
    sizes = [fixed.get(k, Var(f"n{k}")) for k in range(len(program.shape))]
    known = {n: bounds for n in sizes if isinstance(n, Var)} if bounds is not None else {}
    return schedule_cpu(program.function(tuple(sizes)), CPU, bounds=known)


def check(program: Program, sch: Schedule, *shapes: tuple[int, ...]) -> None:
    """The results of one kernel for several shapes."""
    kernel = build(sch.mod["main"])
    for shape in shapes:
        inputs = program.inputs(np.random.default_rng(0), shape)
        wanted = program.results(inputs)
        results = [np.full(w.shape, np.nan, "float32") for w in wanted]
        kernel(*inputs, *results)
        for have, want in zip(results, wanted, strict=True):
            scale = max(1.0, float(np.max(np.abs(want), initial=0)))
            np.testing.assert_allclose(have, want, 2e-5, 2e-5 * scale)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_computes_many_shapes(name: str) -> None:
    program = PROGRAMS[name]
    rank = len(program.shape)
    longer = tuple(n + 3 for n in program.small)
    check(program, symbolic(program), program.small, longer, (1,) * rank, (2,) * (rank - 1) + (64,))


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_are_proven(name: str) -> None:
    pytest.importorskip("islpy")
    assert symbolic(PROGRAMS[name]).verify().ok


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "first_reduce", "elementwise_2"])
@pytest.mark.parametrize("bounds", [(1, 16), (1, 4096), (17, None)])
def test_buckets(name: str, bounds: tuple[int, int | None]) -> None:
    low = bounds[0]
    sch = symbolic(PROGRAMS[name], bounds)
    check(PROGRAMS[name], sch, (low, low), (16 + low - 1, low), (low + 15, low + 15))


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "first_reduce", "broadcast_1"])
@pytest.mark.parametrize("fixed", [{0: 5}, {1: 40}])
def test_some_extents_may_be_known(name: str, fixed: Mapping[int, int]) -> None:
    shapes = [tuple(fixed.get(k, n) for k in range(2)) for n in (1, 7, 100)]
    check(PROGRAMS[name], symbolic(PROGRAMS[name], fixed=fixed), *shapes)


def test_rows_that_stay_small_are_kept_on_the_stack() -> None:
    text = str(lower(symbolic(PROGRAMS["softmax"], (1, 2048)).mod["main"]))
    assert 'exp = T.allocate([2048], "float32"' in text
    assert text.count("T.exp(") < str(lower(symbolic(PROGRAMS["softmax"]).mod["main"])).count(
        "T.exp("
    )


@pytest.mark.parametrize("bounds", [None, (1, 1 << 20)])
def test_rows_that_may_be_long_are_computed_again(bounds: tuple[int, int | None] | None) -> None:
    sch = symbolic(PROGRAMS["softmax"], bounds)
    assert "exp = T.alloc_buffer" not in str(sch.mod)
    assert str(sch.mod).count("T.exp(") == 2


def test_an_inner_extent_that_is_known_is_fused_with_an_outer_one_that_is_not() -> None:
    sch = symbolic(PROGRAMS["elementwise_2"], fixed={1: 6})
    assert "%" not in str(lower(sch.mod["main"]))
    check(PROGRAMS["elementwise_2"], sch, (1, 6), (7, 6), (1000, 6))


def test_loops_that_are_cut_already_are_refused() -> None:
    sch = Schedule(PROGRAMS["elementwise_1"].function((64, 64)))
    sch.compute_inline("exp")
    sch.split(sch.get_loops("add")[1], [None, 8])
    with pytest.raises(GroupRefused, match="add"):
        schedule_cpu(sch.mod, CPU)
