"""What a cost model learns from records of other programs before a search begins."""

from __future__ import annotations

from collections.abc import Collection

from ..records import RecordStore
from .cost_model import FAILED, CostModel, Floats
from .features.packing import unpack

#: Records that are read: with more of them growing trees takes longer, and ranks hardly better.
NEWEST = 2000


def warm_start(
    cost_model: CostModel, records: RecordStore, target: str, but: Collection[str] = ()
) -> int:
    """Have a cost model learn from the newest records of a machine.

    The features come from the records themselves (`Record.extra["features"]`), so that nothing is
    replayed; records without are passed over.

    Args:
        cost_model: what learns.
        records: where measurements are kept.
        target: the `target_key` of the machine.
        but: keys of programs that it gets to know otherwise.

    Returns:
        How many records those were.
    """
    known: dict[str, tuple[list[Floats], list[float]]] = {}
    count = 0
    for workload, latency, extra in records.outcomes(target, NEWEST):
        rows = None if workload in but else unpack(extra.get("features"))
        if rows is not None:
            features, seconds = known.setdefault(workload, ([], []))
            features.append(rows)
            seconds.append(min(latency, FAILED))
            count += 1
    if known:
        cost_model.learn(known)
    return count
