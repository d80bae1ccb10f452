"""Mutators: each changes one decision, finds all there are, and repeats itself for a seed."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from tileloom.schedule.primitives.sample_compute_location import candidates
from tileloom.schedule.random import Random
from tileloom.schedule.trace import Trace
from tileloom.tuner.context import Mutator
from tileloom.tuner.mutators import (
    MutateComputeLocation,
    MutateParallel,
    MutateThreadBinding,
    MutateTileSize,
    MutateUnroll,
)
from tileloom.tuner.mutators.defaults import default_mutators
from tileloom.tuner.mutators.mutate_tile_size import moves
from tuner.mutators.traces import (
    TWO_STEPS,
    changed,
    context,
    cpu_steps,
    gpu_steps,
    mutants,
    replayed,
    traced,
)


def decision(trace: Trace, kind: str, number: int = 0) -> Any:
    """What the first (second, ...) step of a kind has drawn."""
    return [trace.decisions[i] for i in trace.insts if i.kind.name == kind][number]


def located(sch: Any) -> None:
    """A block that may be computed in several places."""
    block = sch.get_block("B")
    sch.compute_at(block, sch.sample_compute_location(block))


ABOUT = context()
TWO = context(TWO_STEPS)
CPU = traced(ABOUT, cpu_steps)
GPU = traced(ABOUT, gpu_steps)
LOCATED = traced(TWO, located)

ALL: list[tuple[Mutator, Trace, Any]] = [
    (MutateTileSize(), CPU, ABOUT),
    (MutateTileSize(), GPU, ABOUT),
    (MutateUnroll(), CPU, ABOUT),
    (MutateThreadBinding(), GPU, ABOUT),
    (MutateComputeLocation(), LOCATED, TWO),
]
MISPLACED: list[tuple[Mutator, Trace, Any]] = [
    (MutateTileSize(), LOCATED, TWO),
    (MutateUnroll(), GPU, ABOUT),
    (MutateThreadBinding(), CPU, ABOUT),
    (MutateComputeLocation(), CPU, ABOUT),
    (MutateParallel(), GPU, ABOUT),
]


@pytest.mark.parametrize(("mutator", "trace", "about"), ALL)
def test_one_decision_changes_and_the_steps_can_be_taken(
    mutator: Mutator, trace: Trace, about: Any
) -> None:
    before = trace.as_json()
    found = mutants(mutator, trace, about, 12)
    assert len(found) == 12
    for mutant in found:
        assert mutant.as_json()[0] == trace.as_json(remove_postproc=True)[0]
        assert len(changed(trace, mutant)) == 1
    replayed(found[0], about)
    assert trace.as_json() == before


@pytest.mark.parametrize(("mutator", "trace", "about"), [*ALL, (MutateParallel(), CPU, ABOUT)])
def test_a_seed_gives_the_same_again(mutator: Mutator, trace: Trace, about: Any) -> None:
    again = Trace(trace.insts, trace.decisions)
    first = [mutant.as_json() for mutant in mutants(mutator, trace, about, 5)]
    assert first == [mutant.as_json() for mutant in mutants(mutator, again, about, 5)]


@pytest.mark.parametrize(("mutator", "trace", "about"), MISPLACED)
def test_nothing_to_change(mutator: Mutator, trace: Trace, about: Any) -> None:
    assert mutator.apply(trace, about, Random(3)) is None


def test_tiles_keep_their_product_and_the_limit_of_the_last() -> None:
    seen = set()
    for mutant in mutants(MutateTileSize(), CPU, ABOUT, 200):
        for number, extent in enumerate((128, 64, 96)):
            tile = decision(mutant, "SamplePerfectTile", number)
            assert prod(tile) == extent and tile[-1] <= 16
            seen.add((number, *tile))
    assert len(seen) > 30  # many ways, of all three loops


def test_moves_of_factors() -> None:
    assert moves([1, 1], 8) == moves([1], 8) == moves([12], 8) == moves([-1, 1, 1], 8) == []
    assert moves([6, 1], -1) == [(0, [(1, [2, 3, 6])])]
    assert moves([6, 2], 4) == [(0, [(1, [2])]), (1, [(0, [2])])]
    assert moves([2, 5, 4], 4) == [
        (0, [(1, [2])]),
        (1, [(0, [5])]),
        (2, [(0, [2, 4]), (1, [2, 4])]),
    ]


def test_widths_of_copies_are_drawn_as_tiles_are() -> None:
    widths = {decision(m, "SampleCategorical", 1) for m in mutants(MutateTileSize(), GPU, ABOUT)}
    assert widths == {0, 1, 2} - {decision(GPU, "SampleCategorical", 1)}


@pytest.mark.parametrize(
    ("mutator", "trace", "count"), [(MutateUnroll(), CPU, 4), (MutateThreadBinding(), GPU, 4)]
)
def test_categories_are_all_reached(mutator: Mutator, trace: Trace, count: int) -> None:
    found = {decision(mutant, "SampleCategorical") for mutant in mutants(mutator, trace, ABOUT)}
    assert found == {*range(count)} - {decision(trace, "SampleCategorical")}


@pytest.mark.parametrize(("probabilities", "others"), [([0.5, 0.0, 0.5], {2}), ([1, 0, 0], set())])
def test_categories_without_probability_are_not_drawn(
    probabilities: list[float], others: set[int]
) -> None:
    def steps(sch: Any) -> None:
        depth = sch.sample_categorical([0, 16, 64], probabilities, decision=0)
        sch.annotate(sch.get_block("root"), "meta_schedule.unroll_explicit", depth)

    found = mutants(MutateUnroll(), traced(ABOUT, steps), ABOUT)
    assert {decision(mutant, "SampleCategorical") for mutant in found} == others


def test_places_are_those_of_the_primitive() -> None:
    sch = replayed(Trace(), TWO)
    places = candidates(sch.state, sch.get_sref(sch.get_block("B")))
    found = mutants(MutateComputeLocation(), LOCATED, TWO)
    drawn = {decision(mutant, "SampleComputeLocation") for mutant in found}
    assert drawn == {*places} - {decision(LOCATED, "SampleComputeLocation")}
    assert len(drawn) > 1


def parallel_limit(trace: Trace) -> Any:
    inst = next(i for i in trace.insts if i.kind.name == "Annotate" and "parallel" in i.attrs[0])
    return inst.inputs[1]


def tiled(i: list[int], j: list[int]) -> Trace:
    """A product whose loops have these extents."""

    def steps(sch: Any) -> None:
        outer, inner, k = sch.get_loops(sch.get_block("C"))
        sch.reorder(*sch.split(outer, i), *sch.split(inner, j), k)
        sch.annotate(sch.get_block("root"), "meta_schedule.parallel", 64)

    return traced(ABOUT, steps)


def test_parallel_limits_differ_in_what_they_do() -> None:
    """Loops of 4, 32, 2, 32: limits of 4 to 127 share 128 iterations, those below 4 only 4."""
    trace = tiled([4, 32], [2, 32])
    assert {parallel_limit(m) for m in mutants(MutateParallel(), trace, ABOUT)} == {1}
    wide = mutants(MutateParallel(max_jobs_per_core=64), trace, ABOUT)
    assert {parallel_limit(m) for m in wide} == {1, 128, 256}
    for mutant in wide:
        assert parallel_limit(trace) == 64
        assert replayed(mutant, ABOUT).trace is not None


def test_parallel_limits_that_do_the_same_are_no_mutants() -> None:
    assert mutants(MutateParallel(), tiled([128], [64]), ABOUT) == []


def test_a_parallel_limit_changes_nothing_else() -> None:
    for mutant in mutants(MutateParallel(max_jobs_per_core=4096), CPU, ABOUT, 5):
        assert changed(CPU, mutant) == []
        steps, old = mutant.as_json()[0], CPU.as_json(remove_postproc=True)[0]
        differ = [(a, b) for a, b in zip(steps, old, strict=True) if a != b]
        assert [(a[0], b[2]) for a, b in differ] == [("Annotate", ["meta_schedule.parallel"])]


@pytest.mark.parametrize("kind", ["llvm", "vnni", "avx512", "dotprod", "asimd", "cuda"])
def test_probabilities_add_up_to_one(kind: Any) -> None:
    assert sum(p for _, p in default_mutators(kind)) == pytest.approx(1)
