"""MutateTileSize: a factor moves from one tile of a loop to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...schedule.instruction import Instruction
from ...schedule.random import Random, factorize
from ...schedule.trace import Trace
from ..annotations import COOPERATIVE_FETCH
from ..context import TuneContext
from .steps import annotated_draws, decided, one_of

_NO_LIMIT = -1
#: Of each tile that can give: which others can take, and which factors.
Moves = list[tuple[int, list[tuple[int, list[int]]]]]


@dataclass(frozen=True, slots=True)
class MutateTileSize:
    """Another tiling of one loop, or another width of the vectors of a cooperative copy.

    All `sample_perfect_tile` steps and all widths are as likely. In a tiling one tile gives a
    divisor to another, so that the product stays; the last keeps to `max_innermost_factor`.
    """

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        """The trace with other tiles; None if no loop can be tiled otherwise."""
        tilings = [
            (inst, ways)
            for inst in decided(trace, "SamplePerfectTile")
            if (ways := moves(trace.decisions[inst], inst.attrs[1]))
        ]
        widths = annotated_draws(trace, [COOPERATIVE_FETCH])
        if not tilings and not widths:
            return None
        at = random.integer(0, len(tilings) + len(widths))
        if at >= len(tilings):
            return _other_width(trace, widths[at - len(tilings)], random)
        inst, ways = tilings[at]
        source, targets = one_of(ways, random)
        target, factors = one_of(targets, random)
        factor = one_of(factors, random)
        tile = list(trace.decisions[inst])
        tile[source] //= factor
        tile[target] *= factor
        return trace.with_decision(inst, tile, remove_postproc=True)


def moves(tile: Sequence[int], max_innermost_factor: int) -> Moves:
    """All ways to move a factor within a tiling, none if it is open.

    >>> moves([3, 4], 8)
    [(1, [(0, [2, 4])])]
    """
    if min(tile) < 1:
        return []
    result = []
    for source, size in enumerate(tile):
        targets = []
        for target, old in enumerate(tile):
            limited = target == len(tile) - 1 and max_innermost_factor != _NO_LIMIT
            most = max_innermost_factor // old if limited else size
            factors = [f for f in _divisors(size) if f <= most]
            if target != source and factors:
                targets.append((target, factors))
        if targets:
            result.append((source, targets))
    return result


@lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    """Those above 1, in increasing order."""
    found = [1]
    for prime, count in factorize(number):
        found = [d * prime**power for power in range(count + 1) for d in found]
    return tuple(sorted(found)[1:])


def _other_width(trace: Trace, inst: Instruction, random: Random) -> Trace:
    current = trace.decisions[inst]
    others = [i for i in range(len(inst.attrs[0])) if i != current]
    return trace.with_decision(inst, one_of(others, random), remove_postproc=True)
