"""What postprocessors share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec

from ...base.errors import UserError
from ...schedule.analysis.tree import child_blocks
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef

P = ParamSpec("P")


def accepted(steps: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Take steps; False if one of them is refused, which only means that a candidate is none.

    >>> accepted(int, "7")
    True
    """
    try:
        steps(*args, **kwargs)
    except UserError:
        return False
    return True


def all_blocks(sch: Schedule) -> Iterator[tuple[str, StmtSRef]]:
    """The blocks of a module with the names of their functions, outer ones first.

    Steps must not be taken while it runs.
    """
    state = sch.state
    for name in state.mod.functions:
        stack = [state.root(name)]
        while stack:
            block = stack.pop()
            yield name, block
            stack += reversed(child_blocks(state, block))
