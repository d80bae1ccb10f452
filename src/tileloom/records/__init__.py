"""Records: what was measured, kept in a file or a database, and found again by the next search.

    with open_records("tuned.db") as records:
        records.add_workload(key, mod.script())
        records.add(Record(key, target_key(machine), sch.trace.as_json(), seconds=(1.2e-3,)))
        fastest = records.best(key, target_key(machine))

See docs/tuning-records.md for the places there are and what each keeps.
"""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, room

if TYPE_CHECKING:
    from .keys import target_key, workload_key
    from .lookup import chosen_trace, has_records, noting, usual_place
    from .places import copy_records, open_records
    from .record import CANDIDATE, STATUS, Record, RecordSummary
    from .store import RecordStore

__all__ = [
    "CANDIDATE", "STATUS", "Record", "RecordStore", "RecordSummary", "chosen_trace",
    "copy_records",
    "has_records", "noting", "open_records", "target_key", "usual_place", "workload_key",
]  # fmt: skip

room(
    __name__, keys="target_key workload_key", places="copy_records open_records",
    record="CANDIDATE STATUS Record RecordSummary", store="RecordStore",
    lookup="chosen_trace has_records noting usual_place",
)  # fmt: skip
