"""Variables of sparse iterations: which are meant, and which depend on which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...expr import Var
from ...tir import Axis, SpIterVar
from ...tir.sparse import MERGED, AttachedAxis, FusedAxis
from ..errors import name_of, refuse
from ..sref import StmtSRef


def named_variables(iteration: StmtSRef, given: Sequence[Any]) -> list[str]:
    """The names of variables that users give as `SpIterVar`s, as their variables, or by name."""
    if not isinstance(given, (list, tuple)):
        raise refuse(f"a list of variables is needed, got {given!r}", at=[iteration])
    return [_chosen(iteration, item).var.name for item in given]


def by_name(iteration: StmtSRef, names: Sequence[str]) -> list[SpIterVar]:
    """The variables with names, each of which is given once."""
    found = [_chosen(iteration, name) for name in names]
    twice = next((part for k, part in enumerate(found) if part in found[:k]), None)
    if twice is not None:
        raise refuse(f"the variable {twice.var.name!r} is given more than once", at=[iteration])
    return found


def _chosen(iteration: StmtSRef, given: Any) -> SpIterVar:
    parts = iteration.iteration.sp_iter_vars
    var = given.var if isinstance(given, SpIterVar) else given
    found = [part for part in parts if part.var is var or part.var.name == var]
    if len(found) == 1:
        return found[0]
    name = var.name if isinstance(var, Var) else var
    listed = ", ".join(part.var.name for part in parts) or "none"
    if found:
        what = f"{len(found)} variables of {name_of(iteration)} are called {name!r}"
    elif any(part.var.name == name for part in parts):
        what = f"{name!r} is a variable of another iteration than {name_of(iteration)}"
    else:
        what = f"{name_of(iteration)} has no variable {name!r}"
    raise refuse(what, at=[iteration], hint=f"its variables are {listed}")


def enclosing_variables(iteration: StmtSRef) -> list[SpIterVar]:
    """The variables of the iterations around one, outermost first."""
    around = [sref.iteration for sref in iteration.ancestors() if sref.is_iteration]
    return [part for stmt in reversed(around) for part in stmt.sp_iter_vars]


def parents_of(axis: Axis) -> Iterator[Axis]:
    """The axes below whose positions those of an axis are counted."""
    if isinstance(axis, FusedAxis):
        yield from parents_of(axis.group[0])
    elif isinstance(axis, MERGED):
        for part in axis.parts:
            yield from parents_of(part)
    elif axis.parent is not None:
        yield axis.parent


def axes_of(axis: Axis) -> Iterator[Axis]:
    """The axes whose positions are known where a variable of an axis is."""
    yield axis
    if isinstance(axis, (FusedAxis, AttachedAxis)) and axis.base is not None:
        yield from axes_of(axis.base)
    elif isinstance(axis, MERGED):
        for part in axis.parts:
            yield from axes_of(part)


def same_group(a: Axis, b: Axis) -> bool:
    """Whether two axes are parts of the same fused axes."""
    return (
        isinstance(a, FusedAxis)
        and isinstance(b, FusedAxis)
        and len(a.group) == len(b.group)
        and all(x is y for x, y in zip(a.group, b.group))
    )


def positions_from(
    order: Sequence[SpIterVar], around: Sequence[SpIterVar]
) -> dict[SpIterVar, list[tuple[Axis, SpIterVar | None]]]:
    """For each variable and each parent of its axis, the variable before it that runs over it."""
    known: dict[Axis, SpIterVar] = {}
    found = {}
    for part in (*around, *order):
        found[part] = [(axis, known.get(axis)) for axis in parents_of(part.axis)]
        known.update(dict.fromkeys(axes_of(part.axis), part))
    return found
