"""Tuning of what is no schedule: which of several ways to compute something is the fastest.

A choice is a short text that its owner can make a call of. What is found is kept where schedules
are, under a key that says what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from ..records import CANDIDATE, STATUS, Record, open_records, target_key
from ..target import Target
from ..tuner.measure import Limits, LocalExecutor, Measurement, Timing, measure_call
from ..tuner.measure.measure import outcome
from ..tuner.tune_program import place_of
from ..tuner.tuner import CLEARLY, FINALISTS, MOSTLY

#: Makes a call of a choice; pickled for another process. The call returns its result.
Make = Callable[[str], Callable[[], Any]]
_SECONDS = 60.0  # that a choice may take: some are made of large arrays first


@dataclass(frozen=True)
class TunedChoice:
    """What was found.

    Attributes:
        choice: the one to take from now on.
        seconds: of a call of it; infinity where nothing ran.
        default_seconds: of a call of the default, at the same time.
        times: seconds of each choice that was measured; infinity where it failed.
        errors: what was wrong with those.
    """

    choice: str
    seconds: float
    default_seconds: float
    times: dict[str, float]
    errors: dict[str, str]

    @property
    def speedup(self) -> float:
        """How many times as fast as the default; 1 where that is not known."""
        ratio = self.default_seconds / self.seconds
        return ratio if 0 < ratio < inf else 1.0


def tune_choice(
    key: str,
    make: Make,
    choices: Sequence[str],
    records: str | Path | None = None,
    timing: Timing | None = None,
) -> TunedChoice:
    """Measure choices and keep the fastest.

    Each is measured in a process of its own, in turns with the first one, with whose result its own
    is compared. Another than the first is taken where it is clearly faster, twice.

    Args:
        key: says what is computed.
        make: makes a call of a choice; a function of a module, or a `partial` of one.
        choices: the default first.
        records: as of `TuneOptions`.
        timing: as of `MeasureTask`.

    Raises:
        UserError: there is no place for records.
    """
    target, default = target_key(Target.host()), choices[0]
    with open_records(place_of(records)) as store, _executor() as executor:

        def measured(choice: str) -> Measurement:
            wanted = choice, default, timing or Timing()
            return outcome(executor.submit(measure_call, make, *wanted))

        found: dict[str, Measurement] = {}
        for choice in choices:
            found[choice] = measured(choice)
            store.add(_record(key, target, choice, found[choice]))
        faster = [choice for choice in choices[1:] if _is_faster(found[choice])]
        faster.sort(key=lambda choice: found[choice].ratio)
        again = {choice: measured(choice) for choice in faster[:FINALISTS]}
        again = {choice: each for choice, each in again.items() if _is_faster(each)}
        best = min(again, key=lambda choice: again[choice].ratio, default=default)
        last = again.get(best, found[best])
        if last.is_ok:
            store.choose(_record(key, target, best, last))
    return TunedChoice(
        best,
        last.median,
        median(last.baseline_seconds) if best != default else last.median,
        {choice: each.median for choice, each in found.items()},
        {choice: each.error for choice, each in found.items() if not each.is_ok},
    )


def _executor() -> LocalExecutor:
    return LocalExecutor(1, Limits(_SECONDS))


def _is_faster(found: Measurement) -> bool:
    """Whether a choice is clearly faster than the default."""
    return found.is_ok and found.ratio <= CLEARLY and found.wins >= MOSTLY


def _record(key: str, target: str, choice: str, found: Measurement) -> Record:
    extra: dict[str, Any] = {CANDIDATE: choice, STATUS: found.status}
    if found.baseline_seconds:
        extra["default_seconds"] = [*found.baseline_seconds]
    return Record(key, target, [choice], found.seconds, found.error, extra=extra)
