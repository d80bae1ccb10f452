"""`tvm.meta_schedule.search_strategy`: which candidates are measured next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from ....base.errors import UserError
from ....schedule import Schedule as OurSchedule
from ....tuner.cost_model import FAILED, Validation
from ....tuner.proposals import Candidate, Proposer
from ....tuner.search import EvolutionarySearch as OurSearch
from ....tuner.search import SearchConfig
from ....tuner.workers import InThisProcess
from .._names import missing
from ..tir.schedule import Schedule
from .arg_info import ArgInfo, TensorInfo
from .mutator import tuner_mutators
from .postproc import tuner_postprocs
from .profiler import timed
from .tune_context import TuneContext
from .utils import NotOverriddenError, Overridable, plain, shash2hex

_EMPTY = 5  # batches without anything new in a row that end a search


class MeasureCandidate:
    """A schedule, and what its function takes."""

    def __init__(self, sch: OurSchedule, args_info: Sequence[TensorInfo] | None) -> None:
        self.sch = sch
        self.args_info = list(args_info or ())
        self.made: Candidate | None = None

    @staticmethod
    def of(sch: OurSchedule, made: Candidate | None = None) -> MeasureCandidate:
        """The candidate of a schedule; `made` is what the search knows it as."""
        found = MeasureCandidate(sch, ArgInfo.from_entry_func(sch.mod))
        found.made = made
        return found


class _Proposer(Proposer):
    """Makes candidates of TVM's kind of schedules, which take the place of features."""

    def _schedule(self, seed: int, check: bool) -> OurSchedule:
        return Schedule.build(
            self.context.mod, seed=seed, error_render_level="none", enable_check=check
        )

    def _candidate(self, sch: OurSchedule) -> Candidate | None:
        found = super()._candidate(sch)
        return None if found is None else Candidate(found.text, found.key, sch)  # type: ignore[arg-type]

    def from_space(self, sch: OurSchedule) -> Candidate | None:
        """The candidate of a schedule that lacks its postprocessing steps only."""
        return None if sch.trace is None else self._made(sch.trace, 1)


def _no_features(_mod: Any) -> Any:
    return np.zeros((0, 0))


@dataclass
class _Run:
    """What a strategy has from `pre_tuning` to `post_tuning`."""

    max_trials: int
    batch: int
    proposer: _Proposer
    done: int = 0
    empty: int = 0
    extra: Any = field(default=None)

    @property
    def count(self) -> int:
        """How many candidates the next batch may have."""
        return min(self.batch, self.max_trials - self.done)


class SearchStrategy(Overridable):
    """Proposes batches of candidates."""

    context: TuneContext | None = None
    _run: _Run | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self.context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[OurSchedule],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a search."""
        context = self._tuned()
        generator = context.space_generator
        if generator is None:
            raise UserError("the context has no space generator")
        traces = [sch.trace.as_json() for sch in design_spaces if sch.trace is not None]
        proposer = _Proposer(
            context.of(context.mod),
            traces,
            tuner_postprocs(_list(generator.postprocs)),
            tuner_mutators([*_shares(generator)]),
            _no_features,
        )
        self._run = _Run(max_trials, num_trials_per_iter, proposer)

    def post_tuning(self) -> None:
        """End the search."""
        self._run = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next candidates; None if there are no more."""
        run = self._running()
        if run.count <= 0:
            return None
        found = self._batch(run)
        if found is None:
            return None
        run.done += len(found)
        return [MeasureCandidate.of(_schedule_of(candidate), candidate) for candidate in found]

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """What came of the candidates."""

    def clone(self) -> SearchStrategy:
        """A strategy for another context."""
        other = copy(self)
        other._run = None
        return other

    def _batch(self, run: _Run) -> list[Candidate] | None:
        raise NotOverriddenError.of(
            type(self).__name__, "GenerateMeasureCandidates", "generate_measure_candidates"
        )

    def _tuned(self) -> TuneContext:
        if self.context is None or self.context.mod is None:
            raise UserError("the strategy has no context", hint="TuneContext(search_strategy=...)")
        return self.context

    def _running(self) -> _Run:
        if self._run is None:
            raise UserError("the search has not begun", hint="call pre_tuning first")
        return self._run

    @staticmethod
    def create(kind: str = "evolutionary", *args: Any, **options: Any) -> SearchStrategy:
        """A strategy by its name."""
        kinds: dict[str, Callable[..., SearchStrategy]] = {
            "evolutionary": EvolutionarySearch,
            "replay-trace": ReplayTrace,
            "replay-func": ReplayFunc,
        }
        if kind not in kinds:
            raise ValueError(f"unknown search strategy {kind!r}, known are {list(kinds)}")
        return kinds[kind](*args, **options)


def _shares(generator: Any) -> dict[Any, Any]:
    """Mutators and how likely each is taken; none where the generator has none."""
    found = generator.mutator_probs
    return found if isinstance(found, dict) else {}


def _list(given: Any) -> list[Any]:
    return [] if given is None or isinstance(given, str) else list(given)


def _schedule_of(candidate: Candidate) -> OurSchedule:
    sch: Any = candidate.features
    return sch  # type: ignore[no-any-return]


class PySearchStrategy(SearchStrategy):
    """A strategy of the user's."""

    def pre_tuning(self, *_args: Any, **_options: Any) -> None:
        """To be defined."""
        raise NotOverriddenError.of("PySearchStrategy", "PreTuning", "pre_tuning")

    def clone(self) -> SearchStrategy:
        """The strategy itself, unless it says otherwise."""
        return self


class ReplayTrace(SearchStrategy):
    """Design spaces with decisions drawn at random."""

    def __init__(self, max_fail_count: int = 100) -> None:
        self.max_fail_count = max_fail_count

    def _batch(self, run: _Run) -> list[Candidate] | None:
        random = self._tuned().random
        return _drawn(
            run.count, self.max_fail_count, lambda: run.proposer.sampled(random.fork_seed())
        )


class ReplayFunc(SearchStrategy):
    """Design spaces made anew for each candidate."""

    max_fail_count = 100

    def _batch(self, run: _Run) -> list[Candidate] | None:
        context = self._tuned()

        def draw() -> Candidate | None:
            spaces = context.generate_design_space()
            return run.proposer.from_space(spaces[context.random.integer(0, len(spaces))])

        return _drawn(run.count, self.max_fail_count, draw)


def _drawn(
    count: int, most_failures: int, draw: Callable[[], Candidate | None]
) -> list[Candidate] | None:
    """So many candidates; None where too many draws are none."""
    found: list[Candidate] = []
    for _ in range(count):
        tries = (draw() for _ in range(most_failures))
        candidate = next((made for made in tries if made is not None), None)
        if candidate is None:
            return found or None
        found.append(candidate)
    return found


@dataclass
class _Scores:
    """A cost model of TVM's kind as the search asks it."""

    context: TuneContext
    model: Any
    validation: Validation | None = None

    def predict(self, workload: str, features: Sequence[Any]) -> Any:
        """Scores of schedules, which stand where features do."""
        candidates = [MeasureCandidate.of(sch) for sch in features]
        return np.asarray(self.model.predict(self.context, candidates), dtype=np.float64)

    def update(self, workload: str, features: Sequence[Any], seconds: Sequence[float]) -> None:
        """Nothing: it learns from a callback."""

    def learn(self, known: Any) -> None:
        """Nothing."""


class EvolutionarySearch(SearchStrategy):
    """`tileloom.tuner.search.EvolutionarySearch`."""

    def __init__(
        self,
        *,
        population_size: int = 512,
        init_measured_ratio: float = 0.2,
        init_min_unmeasured: int = 50,
        max_fail_count: int = 5,
        genetic_num_iters: int = 4,
        genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10,
        eps_greedy: float = 0.05,
    ) -> None:
        self.config = SearchConfig(
            population_size,
            init_measured_ratio,
            init_min_unmeasured,
            max_fail_count,
            genetic_num_iters,
            genetic_mutate_prob,
            genetic_max_fail_count,
            eps_greedy,
        )

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[OurSchedule],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a search, from what the database knows of the program."""
        super().pre_tuning(max_trials, num_trials_per_iter, design_spaces, database, cost_model)
        context, run = self._tuned(), self._running()
        if database is None or cost_model is None:
            raise UserError("an evolutionary search needs a database and a cost model")
        shares = [float(plain(share)) for share in _shares(context.space_generator).values()]
        run.extra = OurSearch(
            shash2hex(context.mod),
            InThisProcess(run.proposer),
            _Scores(context, cost_model),
            shares or [1.0],
            context.random.fork_seed(),
            self._config(shares),
        )
        self._resume(run, database)

    def _config(self, shares: Sequence[float]) -> SearchConfig:
        """Without mutators nothing is mutated."""
        if shares:
            return self.config
        return SearchConfig(**{**vars(self.config), "genetic_mutate_prob": 0.0})

    def _resume(self, run: _Run, database: Any) -> None:
        mod = self._tuned().mod
        if not database.has_workload(mod):
            return
        records = database.get_top_k(database.commit_workload(mod), 1 << 30)
        for record in records:
            candidate = run.proposer.exact(record.trace.as_json())
            if candidate is not None:
                run.extra.record([candidate], [fmean(map(float, record.run_secs))])

    @timed("EvoSearch")
    def _batch(self, run: _Run) -> list[Candidate] | None:
        found: list[Candidate] | None = run.extra.propose(run.count)
        if found is None:
            return None
        run.empty = 0 if found else run.empty + 1
        return None if run.empty >= _EMPTY else found

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[Any]
    ) -> None:
        """The fastest are where the next generation comes from."""
        pairs = zip(measure_candidates, results, strict=True)
        made = [(candidate.made, result.run_secs) for candidate, result in pairs]
        known = [(own, seconds) for own, seconds in made if own is not None]
        times = [fmean(map(float, seconds)) if seconds else FAILED for _, seconds in known]
        self._running().extra.record([own for own, _ in known], times)


__getattr__ = missing(__name__)
