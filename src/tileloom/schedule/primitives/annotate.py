"""annotate, unannotate: notes on loops, blocks and sparse iterations for later passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...expr import Expr
from ..analysis.additions import ATOMIC
from ..errors import name_of, refuse
from ..instruction import AnyRef, ValueRef, primitive
from ..sref import Referable, StmtSRef
from ..state import ScheduleState
from ._write_back import add_atomically


@primitive("Annotate", coordinates=True)
def annotate(state: ScheduleState, block_or_loop: AnyRef, ann_key: str, ann_val: ValueRef) -> None:
    """Attach a note to a loop, block or sparse iteration; one that has the key keeps what it has.

    With "atomic" a block that stores one element adds it atomically from then on (SparseTIR), a
    block that adds goes on to add. One with a `T.init()` stays: `reverse_cache_write` adds what it
    makes.

    Args:
        ann_key: the key.
        ann_val: a number, a number variable, a string, or lists and dictionaries of such.
    """
    known = _annotations(block_or_loop)
    kept = _kept(ann_val)
    if ann_key not in known:
        if ann_key == ATOMIC and kept and block_or_loop.is_block:
            add_atomically(state, block_or_loop)
        _set(state, block_or_loop, {**known, ann_key: kept})


@primitive("Unannotate", coordinates=True)
def unannotate(state: ScheduleState, block_or_loop: AnyRef, ann_key: str) -> None:
    """Take a note away."""
    known = _annotations(block_or_loop)
    if ann_key not in known:
        there = ", ".join(map(repr, known)) or "none"
        raise refuse(
            f"{name_of(block_or_loop)} has no annotation {ann_key!r}",
            at=[block_or_loop],
            hint=f"its annotations: {there}",
            fast="The annotation key is not found",
        )
    _set(state, block_or_loop, {k: v for k, v in known.items() if k != ann_key})


def _stmt(place: StmtSRef) -> Referable:
    if place.is_iteration:
        return place.iteration
    return place.loop if place.is_loop else place.block


def _annotations(place: StmtSRef) -> Mapping[str, Any]:
    return _stmt(place).annotations


def _set(state: ScheduleState, place: StmtSRef, annotations: dict[str, Any]) -> None:
    state.replace(place, _stmt(place).replace(annotations=annotations))


def _kept(value: Any) -> Any:
    """A copy of its own: what a program holds does not change."""
    if isinstance(value, Mapping):
        return {key: _kept(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_kept, value))
    if value is None or isinstance(value, (str, int, float, Expr)):
        return value
    raise refuse(
        f"{value!r} cannot be an annotation",
        hint="numbers, number variables, strings, and lists and dictionaries of them can",
    )
