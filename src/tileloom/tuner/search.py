"""Evolutionary search: which candidates of a program are measured next.

The parameters and the order of steps are those of MetaSchedule's EvolutionarySearch (Shao et al.,
Tensor Program Optimization with Probabilistic Programs, 2022). Other than there, candidates are
told apart by seeds that are drawn before they are made, so that the same seed gives the same
candidates in the same order however many processes make them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np

from ..schedule.random import Random
from .cost_model import Floats
from .proposals import Candidate
from .strategy import SearchStrategy

#: By MetaSchedule's name.
EVOLUTIONARY = "evolutionary"

_OF_EACH = 4  # candidates for each intrinsic in the first batch


@dataclass(frozen=True)
class SearchConfig:
    """Parameters, with MetaSchedule's names and defaults.

    Attributes:
        population_size: candidates of a generation.
        init_measured_ratio: how much of the first one comes from what was measured.
        init_min_unmeasured: sampling goes on until there are so many others.
        max_fail_count: rounds of sampling without any before the search ends.
        genetic_num_iters: generations.
        genetic_mutate_prob: how likely a candidate is changed rather than kept.
        genetic_max_fail_count: tries of a mutation, but for the first.
        eps_greedy: how much of a batch is drawn at random.
    """

    population_size: int = 512
    init_measured_ratio: float = 0.2
    init_min_unmeasured: int = 50
    max_fail_count: int = 5
    genetic_num_iters: int = 4
    genetic_mutate_prob: float = 0.85
    genetic_max_fail_count: int = 10
    eps_greedy: float = 0.05


@dataclass
class EvolutionarySearch(SearchStrategy):
    """Proposes what the cost model likes best of some generations of candidates.

    Attributes:
        probabilities: of each mutator.
    """

    probabilities: Sequence[float]
    seed: int = 1
    config: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def propose(self, count: int) -> list[Candidate] | None:
        """The next candidates to measure, each legal; None if sampling finds none any more."""
        measured = self._from_measured()
        sampled = self._sampled(self.config.population_size - len(measured))
        if sampled is None:
            return None
        randoms = int(count * self.config.eps_greedy)
        found = self._evolved([*measured, *sampled], count)
        firsts = [] if self.best else self._of_each_intrinsic(sampled, count)
        best = [*firsts, *found][: max(count - randoms, len(firsts))]
        batch = self.legal(self._picked(best, sampled, count))
        if len(batch) < count:  # what is missing would cost another search in the end
            others = [candidate for candidate in found if candidate.key not in self.measured]
            missing = count - len(batch)
            batch += self.legal(self._picked(others[:missing], sampled, missing))
        return batch

    def _of_each_intrinsic(self, sampled: Sequence[Candidate], count: int) -> list[Candidate]:
        """Some candidates for each tensor intrinsic, where there are several ways.

        Features say nothing of what an intrinsic does, nor do scores, until some were measured.
        """
        groups: dict[frozenset[str], list[Candidate]] = {}
        for candidate in sampled:
            groups.setdefault(candidate.intrinsics, []).append(candidate)
        each = min(_OF_EACH, count // (len(groups) + 1)) if len(groups) > 1 else 0
        return [candidate for group in groups.values() for candidate in group[:each]]

    # ------------------------------------------------------------------ generations

    def _from_measured(self) -> list[Candidate]:
        count = int(self.config.population_size * self.config.init_measured_ratio)
        return [candidate for _, candidate in self.best[:count]]

    def _sampled(self, wanted: int) -> list[Candidate] | None:
        found: list[Candidate] = []
        failures = 0
        while len(found) < self.config.init_min_unmeasured:
            seeds = [(self._random.fork_seed(),) for _ in range(wanted)]
            new = [c for c in self.workers.map("sampled", seeds) if c is not None]
            found += new
            failures = 0 if new else failures + 1
            if failures >= self.config.max_fail_count:
                return found or None
        return found

    def _evolved(self, population: list[Candidate], count: int) -> list[Candidate]:
        """The best by score of all generations that were not measured, the best first."""
        seen = set(self.measured)
        turn = itertools.count(0, -1)
        scored: list[tuple[float, int, Candidate]] = []
        for generation in range(self.config.genetic_num_iters + 1):
            features = [candidate.features for candidate in population]
            scores = np.maximum(self.cost_model.predict(self.workload, features), 0.0)
            for score, candidate in zip(scores.tolist(), population, strict=True):
                if candidate.key not in seen:
                    seen.add(candidate.key)
                    scored.append((score, next(turn), candidate))  # of equals the first
            scored = nlargest(count, scored, key=lambda entry: entry[:2])
            if generation < self.config.genetic_num_iters:
                population = self._children(population, scores)
        return [candidate for _, _, candidate in scored]

    def _children(self, population: list[Candidate], scores: Floats) -> list[Candidate]:
        """A generation: parents by their scores, most of them changed in one decision."""
        children: list[Candidate | None] = [None] * len(population)
        parents = [0] * len(population)
        kept: set[int] = set()
        parent_of, mutator_of = _drawer(scores.tolist()), _drawer(self.probabilities)
        for _ in range(self.config.genetic_max_fail_count + 1):
            waiting = [i for i, child in enumerate(children) if child is None]
            tasks: list[tuple[str, int, int]] = []
            places: list[int] = []
            for i in waiting:
                parent = parents[i] = parent_of(self._random)
                if self._random.uniform() < self.config.genetic_mutate_prob:
                    mutator = mutator_of(self._random)
                    tasks.append((population[parent].text, mutator, self._random.fork_seed()))
                    places.append(i)
                elif parent not in kept:
                    kept.add(parent)
                    children[i] = population[parent]
            for i, child in zip(places, self.workers.map("mutated", tasks), strict=True):
                children[i] = child
        return [
            population[parent] if child is None else child
            for parent, child in zip(parents, children, strict=True)
        ]

    def _picked(
        self, best: Sequence[Candidate], others: Sequence[Candidate], count: int
    ) -> list[Candidate]:
        """The best, and random ones up to a count, each program once."""
        chosen = {candidate.key: candidate for candidate in best}
        left = [c for c in others if c.key not in chosen and c.key not in self.measured]
        order = self._random.choose(len(left), len(left)) if left else []
        for i in order:
            if len(chosen) >= count:
                break
            chosen.setdefault(left[i].key, left[i])
        return list(chosen.values())


def _drawer(weights: Sequence[float]) -> Callable[[Random], int]:
    """Draws indices by weights, all alike if they are zero."""
    total = sum(weights)
    shares = [w / total for w in weights] if total > 0 else [1 / len(weights)] * len(weights)
    ends = np.cumsum(shares)
    return lambda random: min(int(np.searchsorted(ends, random.uniform())), len(shares) - 1)
