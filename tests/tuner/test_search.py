"""Evolutionary search: batches without repetition, better with a model, the same for a seed."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.schedule import Schedule, Trace
from tileloom.schedule.random import Random
from tileloom.target import target
from tileloom.tir import For, IRModule, collect
from tileloom.tuner.context import TuneContext
from tileloom.tuner.cost_model import RandomModel
from tileloom.tuner.design_space import design_spaces
from tileloom.tuner.features import per_store_features
from tileloom.tuner.kinds import rule_kind
from tileloom.tuner.mutators.defaults import default_mutators
from tileloom.tuner.postprocs.defaults import default_postprocs
from tileloom.tuner.proposals import Candidate, Proposer
from tileloom.tuner.search import EvolutionarySearch, SearchConfig
from tileloom.tuner.workers import WorkerPool, Workers

SMALL = SearchConfig(population_size=24, init_min_unmeasured=8)


# ---------------------------------------------------------------------------- numbers for programs


@dataclass(frozen=True)
class Numbers:
    """Candidates are even numbers below 1000; a mutation is a step of one or ten."""

    def map(self, task: str, arguments: Sequence[tuple[Any, ...]]) -> list[Candidate | None]:
        return [getattr(self, task)(*given) for given in arguments]

    def sampled(self, seed: int) -> Candidate | None:
        return self.made(Random(seed).integer(0, 1000))

    def mutated(self, text: str, mutator: int, seed: int) -> Candidate | None:
        step = 2 * Random(seed).integer(0, 2) - 1
        return self.made(json.loads(text)[0] + step * (1, 10)[mutator])

    def exact(self, trace: list[Any]) -> Candidate | None:
        return self.made(trace[0])

    def made(self, number: int) -> Candidate | None:
        if number % 2 or not 0 <= number < 1000:
            return None
        return Candidate(f"[{number}]", number, np.array([[float(number)]]), number)


class Exact(RandomModel):
    """Knows that the number 700 is the best."""

    def predict(self, workload: str, features: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([1 / (1 + abs(float(rows[0, 0]) - 700)) for rows in features])

    def update(self, *_given: Any) -> None:
        raise NotImplementedError


def search(model: Any, seed: int = 1, **config: Any) -> EvolutionarySearch:
    return EvolutionarySearch(
        "numbers", Numbers(), model, (0.5, 0.5), seed, replace(SMALL, **config)
    )


def batch(found: EvolutionarySearch, count: int) -> list[int]:
    candidates = found.propose(count)
    assert candidates is not None
    found.record(candidates, [1 + abs(c.key - 700) for c in candidates])
    return [c.key for c in candidates]


class Tensorized(Numbers):
    """Every twentieth number has an intrinsic, of which the model thinks little."""

    def made(self, number: int) -> Candidate | None:
        found = super().made(number)
        return found and replace(found, intrinsics=frozenset({"dot"} if number % 20 == 0 else ()))


def test_the_first_batch_has_some_of_each_intrinsic() -> None:
    found = search(Exact(), population_size=100)
    found.workers = Tensorized()
    first = batch(found, 12)
    with_it = [key for key in first if key % 20 == 0 and abs(key - 700) > 40]
    assert len(first) == 12 and len(with_it) >= 3
    assert len([key for key in batch(found, 12) if abs(key - 700) > 40]) <= 1


def test_nothing_is_proposed_twice() -> None:
    found = search(RandomModel())
    batches = [batch(found, 8) for _ in range(10)]
    proposed = [key for keys in batches for key in keys]
    assert len(proposed) == len(set(proposed)) == 80


def test_what_the_last_checks_refuse_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Numbers.made
    monkeypatch.setattr(Numbers, "exact", lambda s, t: None if t[0] % 8 == 0 else made(s, t[0]))
    found = [batch(search(RandomModel(), seed, population_size=96), 8) for seed in range(1, 6)]
    assert np.mean([len(set(keys)) for keys in found]) > 7.2  # 6 of them pass at first
    assert all(key % 8 for keys in found for key in keys)


def test_a_model_that_knows_finds_the_best() -> None:
    found = search(Exact(), population_size=64)
    best = min(abs(key - 700) for _ in range(4) for key in batch(found, 8))
    assert best == 0


def test_what_was_measured_is_where_the_next_generation_comes_from() -> None:
    """Of 64 candidates 12 are the best so far; nobody else is that near."""
    found = search(Exact(), population_size=64, genetic_num_iters=1)
    found.record([c for k in range(690, 702, 2) if (c := Numbers().made(k))], [1.0] * 6)
    keys = batch(found, 16)
    assert sum(abs(key - 700) <= 20 for key in keys) >= 4
    assert not set(keys) & set(range(690, 702, 2))


def test_a_part_of_the_batch_is_drawn_at_random() -> None:
    near = search(Exact(), population_size=64, eps_greedy=0.0, genetic_num_iters=6)
    mixed = search(Exact(), population_size=64, eps_greedy=0.5, genetic_num_iters=6)
    spread = [np.mean(np.abs(np.array(batch(s, 20)) - 700)) for s in (near, mixed)]
    assert spread[1] > 1.5 * spread[0]


def test_the_same_seed_gives_the_same_candidates_in_the_same_order() -> None:
    found = [search(RandomModel(5), seed) for seed in (7, 7, 8)]
    batches = [[batch(s, 8) for _ in range(3)] for s in found]
    assert batches[0] == batches[1] != batches[2]


@dataclass(frozen=True)
class Doubtful(Numbers):
    """Every third number is refused by the last check."""

    def exact(self, trace: list[Any]) -> Candidate | None:
        return self.made(trace[0]) if trace[0] % 3 else None


def test_what_the_last_check_refuses_is_not_proposed() -> None:
    found = EvolutionarySearch("numbers", Doubtful(), Exact(), (1.0,), 1, SMALL)
    keys = [key for _ in range(4) for key in batch(found, 8)]
    assert keys and all(key % 3 for key in keys)


@dataclass(frozen=True)
class Barren(Numbers):
    """Nothing is legal."""

    def made(self, number: int) -> Candidate | None:
        return None


def test_a_space_without_candidates_ends_the_search() -> None:
    found = EvolutionarySearch("none", Barren(), RandomModel(), (1.0,), 1, SMALL)
    assert found.propose(8) is None


# ---------------------------------------------------------------------------- programs


def matmul() -> IRModule:
    k: Any
    a, b = te.placeholder((32, 16), name="A"), te.placeholder((16, 24), name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((32, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return IRModule({"main": te.create_prim_func([a, b, c])})


def tiled(mod: IRModule) -> Trace:
    sch = Schedule(mod, seed=1)
    i, j, k = sch.get_loops(sch.get_block("C"))
    outer = [sch.split(loop, sch.sample_perfect_tile(loop, 2)) for loop in (i, j)]
    sch.reorder(outer[0][0], outer[1][0], k, outer[0][1], outer[1][1])
    assert sch.trace is not None
    return sch.trace


class NewTile:
    """Draws one tile again."""

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        tiles = [inst for inst in trace.insts if inst.kind.name == "SamplePerfectTile"]
        chosen = tiles[random.integer(0, len(tiles))]
        extent = int(np.prod(trace.get_decision(chosen)))
        return trace.with_decision(chosen, random.perfect_tile(extent, 2), True)


class Unrolled:
    """Unrolls the innermost loop of a tile that is not too long."""

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        loop = sch.get_loops(sch.get_block("C"))[-1]
        if sch.get(loop).static_extent > 4:
            return False
        sch.unroll(loop)
        return True


def extents(mod: IRModule) -> np.ndarray:
    loops = collect(mod["main"].body, For)
    return np.array([[float(str(loop.extent)) for loop in loops]])


def proposer() -> Proposer:
    mod = matmul()
    context = TuneContext(mod, target("cpu -num-cores=2"))
    return Proposer(context, [tiled(mod).as_json()], [Unrolled()], [NewTile()], extents)


def test_a_candidate_holds_what_makes_it_again() -> None:
    made = proposer()
    found = next(c for c in map(made.sampled, range(1, 99)) if c is not None)
    again = made.exact(found.trace)
    assert again is not None and again.key == found.key and again.trace == found.trace
    np.testing.assert_array_equal(again.features, found.features)
    assert "Unroll" in [step[0] for step in found.trace[0]]


def test_making_candidates_leaves_no_cycles() -> None:
    """What is no longer used goes at once: searching for cycles took a sixth of the time."""
    context = TuneContext(matmul(), target("cpu -num-cores=2"))
    spaces = [sch.trace.as_json() for sch in design_spaces(context) if sch.trace is not None]
    kind = rule_kind(context.target)
    extract = partial(per_store_features, target=context.target)
    mutators = [mutator for mutator, _ in default_mutators(kind)]
    made = Proposer(context, spaces, default_postprocs(kind), mutators, extract)
    first = next(c for c in map(made.sampled, range(1, 99)) if c is not None)
    gc.collect()
    gc.disable()
    try:
        found = [made.mutated(first.text, 0, seed) for seed in range(1, 9)]
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert any(found)


def test_a_refused_candidate_is_none() -> None:
    """So is one that a postprocessor rejects."""
    found = [proposer().sampled(seed) for seed in range(1, 30)]
    assert None in found and any(found)
    steps, decisions = next(c for c in found if c).trace
    bound = [*steps, ["Bind", ["l1"], ["threadIdx.x"], []]]
    assert proposer().exact([bound, decisions]) is None


@pytest.mark.slow
def test_processes_propose_what_one_does() -> None:
    def batches(workers: Workers) -> list[list[int]]:
        found = EvolutionarySearch("m", workers, RandomModel(1), (1.0,), 3, SMALL)
        return [[c.key for c in found.propose(6) or ()] for _ in range(3)]

    made = proposer()
    with WorkerPool(1) as pool:
        expected = batches(pool.workers(made))
    assert all(expected)
    with WorkerPool(2) as pool:
        assert batches(pool.workers(made)) == expected
        assert batches(pool.workers(made)) == expected  # another program for the same processes
