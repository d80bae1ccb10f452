"""`tvm.meta_schedule.TuneContext`: a program to tune, and what it is tuned with."""

from __future__ import annotations

import logging
from functools import cached_property
from importlib import import_module
from typing import Any

from ....base.errors import UserError
from ....schedule.random import Random
from ....target import Target as Machine
from ....tir import IRModule, PrimFunc
from ....tuner import context as tuner
from .._names import missing
from ..ir.module import IRModule as Module
from ..ir.module import as_module
from ..target import Target
from .utils import cpu_count, fork_seed


def normalize_mod(mod: PrimFunc | IRModule) -> Module:
    """A module of one function "main"."""
    if isinstance(mod, PrimFunc):
        if "global_symbol" not in mod.attrs:
            mod = mod.with_attr("global_symbol", "main")
        return Module({"main": mod.with_attr("tir.noalias", True)})
    if not isinstance(mod, IRModule):
        raise TypeError(f"a function or module is tuned, not {type(mod).__name__}")
    if len(mod.functions) != 1:
        raise ValueError(f"a module to tune has one function, not {list(mod.functions)}")
    [func] = mod.functions.values()
    return as_module(mod) if "main" in mod.functions else Module({"main": func})


_normalize_mod = normalize_mod


class TuneContext:
    """A program, the machine, a space generator, a search strategy and a seed.

    >>> TuneContext(target="llvm -num-cores 4", rand_state=7, task_name="empty").task_name
    'empty'
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule | None = None,
        *,
        target: Target | str | None = None,
        space_generator: Any = None,
        search_strategy: Any = None,
        task_name: str = "main",
        rand_state: int = -1,
        num_threads: int | str = "physical",
        logger: logging.Logger | None = None,
    ) -> None:
        self.mod = normalize_mod(mod) if isinstance(mod, PrimFunc) else mod
        self.target = target if target is None or isinstance(target, Target) else Target(target)
        self.space_generator = _made("space_generator", "SpaceGenerator", space_generator)
        self.search_strategy = _made("search_strategy", "SearchStrategy", search_strategy)
        self.task_name = task_name
        self.rand_state = fork_seed(rand_state, 1)[0] if rand_state == -1 else int(rand_state)
        self.num_threads = _threads(num_threads)
        self.logger = logger or logging.getLogger("tvm.meta_schedule")
        self._initialize()

    def _initialize(self) -> None:
        if self.space_generator is not None:
            self.space_generator._initialize_with_tune_context(self)
        if self.search_strategy is not None:
            self.search_strategy._initialize_with_tune_context(self)

    @cached_property
    def random(self) -> Random:
        """Where what is drawn for this context comes from."""
        return Random(max(1, self.rand_state % ((1 << 31) - 1)))

    @property
    def machine(self) -> Machine:
        """The target as the tuner knows it; the machine that we are on if there is none."""
        return Target("llvm").tileloom if self.target is None else self.target.tileloom

    def of(self, mod: IRModule | None) -> tuner.TuneContext:
        """What parts of the tuner are told."""
        return tuner.TuneContext(mod or self.mod or Module({}), self.machine, self.task_name)

    def generate_design_space(self) -> list[Any]:
        """The design spaces of the program."""
        if self.mod is None:
            raise ValueError("`mod` is not provided. Please construct TuneContext with `mod`")
        found: list[Any] = self._need("space_generator").generate_design_space(self.mod)
        return found

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int = 64,
        design_spaces: Any = None,
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Prepare the search."""
        strategy = self._need("search_strategy")
        spaces = self.generate_design_space() if design_spaces is None else design_spaces
        strategy.pre_tuning(max_trials, num_trials_per_iter, spaces, database, cost_model)

    def post_tuning(self) -> None:
        """End the search."""
        self._need("search_strategy").post_tuning()

    def generate_measure_candidates(self) -> Any:
        """The candidates to measure next; None if there are no more."""
        return self._need("search_strategy").generate_measure_candidates()

    def notify_runner_results(self, measure_candidates: Any, results: Any) -> None:
        """Tell the search how long candidates took."""
        self._need("search_strategy").notify_runner_results(measure_candidates, results)

    def clone(self) -> TuneContext:
        """A context with its own generator and strategy."""
        generator, strategy = self.space_generator, self.search_strategy
        return TuneContext(
            self.mod,
            target=self.target,
            space_generator=None if generator is None else generator.clone(),
            search_strategy=None if strategy is None else strategy.clone(),
            task_name=self.task_name,
            rand_state=self.rand_state,
            num_threads=self.num_threads,
            logger=self.logger,
        )

    def _need(self, name: str) -> Any:
        found = getattr(self, name)
        if found is None:
            raise UserError(f"{name} is not provided", hint=f"TuneContext(..., {name}=...)")
        return found


def _made(file: str, name: str, given: Any) -> Any:
    """A part of the context: itself, or what its class makes of a short form of it."""
    if given is None:
        return None
    cls = getattr(import_module(f"{__package__}.{file}"), name)  # it stands on this module
    return given if isinstance(given, cls) else cls.create(given)


def _threads(given: int | str) -> int:
    if isinstance(given, int):
        return given
    if given not in ("physical", "logical"):
        raise ValueError(f"num_threads is a number, 'physical' or 'logical', not {given!r}")
    return cpu_count(logical=given == "logical")


__all__ = ["TuneContext"]
__getattr__ = missing(__name__)
