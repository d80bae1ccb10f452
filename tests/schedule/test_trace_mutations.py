"""Traces that were damaged, or written by something else, are refused in words."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from schedule.random_steps import PROGRAMS, Walker
from tileloom import Schedule, UserError
from tileloom.schedule import Trace

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 10**9, 2**70, 0.5, float("nan"), "", "b0", "l1", "v1", "C"),
    *('"C"', "main", "None", "no_such", [], {}, [[]], ["b0"], [1, 2], [None], ["l1", "l1"]),
    *([[0, 1], [0.5]], {"a": 1}, {"a": ["b0"]}, "threadIdx.x", "shared", "float33", b"x", {1, 2}),
)


def traces() -> list[tuple[Any, Any]]:
    """Programs, and steps that they accept."""
    found = []
    for number in range(3 * len(PROGRAMS)):
        make = PROGRAMS[number % len(PROGRAMS)]
        walker: Any = Walker(Schedule(make()), number)
        for _ in range(12):
            walker.step()
        found.append((make, walker.sch.trace.as_json()))
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside lists and dictionaries."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path]
    for key, item in items if isinstance(value, (dict, list)) else ():
        inner = (*path, key)
        found += places(item, inner) if isinstance(item, (dict, list)) else [inner]
    return found


def mutated(trace: Any, rng: random.Random) -> Any:
    """The trace with one or two parts replaced, dropped, doubled or exchanged."""
    result = copy.deepcopy(trace)
    for _ in range(rng.choice((1, 1, 2))):
        paths = places(result) if isinstance(result, list) else [()]
        path = rng.choice(paths)
        if not path:
            continue
        *above, key = path
        parent = result
        for step in above:
            parent = parent[step]
        how = rng.randrange(4)
        if how == 0 or not isinstance(parent, list):
            parent[key] = copy.deepcopy(rng.choice(ODD))
        elif how == 1:
            del parent[key]
        elif how == 2:
            parent.insert(key, copy.deepcopy(parent[key]))
        else:
            other = rng.randrange(len(parent))
            parent[key], parent[other] = parent[other], parent[key]
    return result


def survives(number: int, known: list[tuple[Any, Any]]) -> bool:
    """Whether a mutated trace is accepted; anything but a `UserError` escapes."""
    rng = random.Random(number)
    make, trace = known[number % len(known)]
    try:
        Trace.apply_json_to_schedule(mutated(trace, rng), Schedule(make()))
    except UserError as error:
        assert str(error)
        return False
    return True


def test_mutated_traces_are_refused_in_words() -> None:
    known = traces()
    accepted = sum(survives(number, known) for number in range(250))
    assert 10 < accepted < 200


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_mutated_traces_are_refused_in_words(part: int) -> None:
    known = traces()
    for number in range(1000 * (part + 1), 1000 * (part + 2)):
        survives(number, known)
