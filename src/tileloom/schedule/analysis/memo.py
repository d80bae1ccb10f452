"""Memoised analyses: facts about statements, which never change."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar, cast

from ..state import ScheduleState

P = ParamSpec("P")
T = TypeVar("T")


def memoised(
    func: Callable[Concatenate[ScheduleState, P], T],
) -> Callable[Concatenate[ScheduleState, P], T]:
    """Keep the results of `func(state, *nodes)` in the state.

    The result may depend on nothing but the nodes: statements and expressions, never references,
    whose statements change.
    """

    def lookup(state: ScheduleState, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (func, *args)
        memo = state.memo
        if key in memo:
            return memo[key]  # type: ignore[no-any-return]
        result = memo[key] = func(state, *args, **kwargs)
        return result

    return cast(Callable[Concatenate[ScheduleState, P], T], update_wrapper(lookup, func))
