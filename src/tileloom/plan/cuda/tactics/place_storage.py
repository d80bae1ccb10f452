"""place_storage: registers, shared memory, or a refusal."""

from __future__ import annotations

from ....schedule.schedule import Schedule
from ...domain import GroupRefused
from ...loops import blocks_by_name, writes_output
from ..storage import SCOPES, reach_of


def place_storage(sch: Schedule) -> list[str]:
    """Put every intermediate where those who read it can see it; barriers follow from that.

    Returns:
        What was done, a line a buffer.

    Raises:
        GroupRefused: blocks of threads would have to wait for each other.
    """
    said = []
    for name in blocks_by_name(sch):
        for k in range(len(sch.get(sch.get_block(name)).writes)):
            block = sch.get(sch.get_block(name))
            buffer = block.writes[k].buffer
            if writes_output(sch, block):
                said.append(f"{buffer.name}: global, a result")
                continue
            reach = reach_of(sch, buffer)
            if reach is None or reach == "grid":
                raise GroupRefused(
                    f"{buffer.name!r} is read by blocks of threads that did not compute it; they "
                    "would have to wait for each other"
                )
            if buffer.scope != SCOPES[reach]:
                sch.set_scope(sch.get_block(name), k, SCOPES[reach])
            said.append(f"{buffer.name}: {SCOPES[reach]}")
    return said
