"""What the threads of a warp do together: shuffles, votes, matches, sums, barriers of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..expr import Call
from .defects import KernelDefect
from .thread_batch import WARP, Array

if TYPE_CHECKING:
    from .machine import Machine

_SHUFFLES = {"": "idx", "_up": "up", "_down": "down", "_xor": "xor"}
_ONE = np.uint32(1)


def _lane(machine: Machine, lanes: Array) -> Array:
    return (machine.batch.thread[lanes] % WARP).astype(np.uint32)


def _together(bits: Array, group: Array, groups: int) -> Array:
    """The union of the bits of every group."""
    result = np.zeros(groups, np.uint32)
    np.bitwise_or.at(result, group, bits)
    return result


class _Party:
    """The lanes of one call, in groups that named each other.

    Attributes:
        group: the number of each thread's group.
        count: of groups.
        bit: of each thread in a mask of its warp's lanes.
        mask: of each thread's group, without lanes that the block does not have.
    """

    def __init__(self, machine: Machine, call: Call, lanes: Array) -> None:
        batch = machine.batch
        warp = batch.warp[lanes]
        given = np.broadcast_to(machine.value(call.args[0], lanes), lanes.shape).astype(np.uint32)
        self.bit = _ONE << _lane(machine, lanes)
        there = np.minimum(batch.threads - warp % batch.warps * WARP, WARP).astype(np.uint64)
        exists = ((np.uint64(1) << there) - np.uint64(1)).astype(np.uint32)
        self.mask = given & exists
        _, self.group = np.unique(
            warp.astype(np.uint64) << np.uint64(32) | given, return_inverse=True
        )
        self.count = int(self.group.max(initial=-1)) + 1
        present = _together(self.bit, self.group, self.count)[self.group]
        wrong = (self.mask != present) | ((given & self.bit) == 0)
        if wrong.any():
            bad = np.flatnonzero(wrong)
            k = int(bad[0])
            raise KernelDefect(
                "divergent warp",
                f"{call.op.removeprefix('tir.')} names lanes {self.mask[k]:#010x} of a warp, and "
                f"lanes {present[k]:#010x} come to it together",
                machine.stmt, batch.places(lanes[bad]), machine.stmt.span if machine.stmt else None,
                hint="name the lanes that run the call, and move it out of conditions between them",
            )  # fmt: skip


def _ballot(machine: Machine, call: Call, lanes: Array) -> tuple[_Party, Array]:
    party = _Party(machine, call, lanes)
    holds = np.broadcast_to(np.asarray(machine.value(call.args[1], lanes), bool), lanes.shape)
    bits = np.where(holds, party.bit, np.uint32(0))
    return party, _together(bits, party.group, party.count)[party.group]


def _all(machine: Machine, call: Call, lanes: Array) -> Any:
    party, votes = _ballot(machine, call, lanes)
    return votes == party.mask


def _matches(machine: Machine, call: Call, lanes: Array) -> tuple[_Party, Array]:
    """For every thread the lanes of its group whose value has the same bits."""
    party = _Party(machine, call, lanes)
    value = np.ascontiguousarray(np.broadcast_to(machine.value(call.args[1], lanes), lanes.shape))
    bits = value.view(np.uint8).reshape(len(lanes), -1)
    keys = np.concatenate([party.group[:, None].astype(np.int64).view(np.uint8), bits], axis=1)
    _, same = np.unique(keys, axis=0, return_inverse=True)
    same = same.reshape(-1)
    return party, _together(party.bit, same, int(same.max(initial=-1)) + 1)[same]


def _match_all(machine: Machine, call: Call, lanes: Array) -> Any:
    party, alike = _matches(machine, call, lanes)
    return np.where(alike == party.mask, party.mask, np.uint32(0))


def _reduce(function: Any) -> Callable[[Machine, Call, Array], Any]:
    def run(machine: Machine, call: Call, lanes: Array) -> Any:
        party = _Party(machine, call, lanes)
        value = np.broadcast_to(machine.value(call.args[1], lanes), lanes.shape)
        first = np.unique(party.group, return_index=True)[1]
        result = value[first].copy()
        rest = np.ones(len(lanes), bool)
        rest[first] = False
        function.at(result, party.group[rest], value[rest])
        return result[party.group]

    return run


def _elect(machine: Machine, call: Call, lanes: Array) -> Any:
    party = _Party(machine, call, lanes)
    return (party.mask & (~party.mask + _ONE)) == party.bit


def _active(machine: Machine, call: Call, lanes: Array) -> Any:
    warp = machine.batch.warp[lanes]
    bits = _ONE << _lane(machine, lanes)
    return _together(bits, warp, len(machine.batch.warp_passed))[warp]


def _sync_warp(machine: Machine, call: Call, lanes: Array) -> Any:
    _Party(machine, call, lanes)
    machine.batch.pass_warps(np.unique(machine.batch.warp[lanes]))
    return np.int32(0)


def _lane_mask(below: Callable[[Array, Array], Array]) -> Callable[[Machine, Call, Array], Any]:
    def run(machine: Machine, call: Call, lanes: Array) -> Any:
        lane = _lane(machine, lanes)[:, None]
        others = np.arange(WARP, dtype=np.uint32)
        return np.where(below(others, lane), _ONE << others, np.uint32(0)).sum(1, dtype=np.uint32)

    return run


def _shuffled(machine: Machine, call: Call, lanes: Array) -> Any:
    batch = machine.batch
    mode = _SHUFFLES[call.op.removeprefix("tir.tvm_warp_shuffle")]
    if len(lanes) < batch.size:
        _Party(machine, call, lanes)  # all whom the mask names
    _, value, amount, width, *_ = (machine.value(arg, lanes) for arg in call.args)
    lane = batch.thread[lanes] % WARP
    start = lane // width * width
    if mode == "idx":
        source = start + amount % width
    elif mode == "xor":
        source = lane ^ amount
    else:
        source = lane - amount if mode == "up" else lane + amount
    inside = (source >= start) & (source < start + width)
    source = np.where(inside, source, lane)
    place = np.full(batch.size, -1)
    place[lanes] = np.arange(len(lanes))
    thread = batch.thread[lanes] - lane + source
    at = lanes - batch.thread[lanes] + thread
    there = thread < batch.threads
    found = np.where(there, place[np.where(there, at, 0)], -1)
    if (found < 0).any():
        lost = lanes[found < 0]
        raise KernelDefect(
            "divergent shuffle",
            "a thread asks for the value of one that takes no part",
            machine.stmt, batch.places(lost), machine.stmt.span if machine.stmt else None,
        )  # fmt: skip
    return np.broadcast_to(value, lanes.shape)[found]


#: By op; each takes the machine, the call, and the threads that make it.
WARP_CALLS: dict[str, Callable[[Machine, Call, Array], Any]] = {
    **{f"tir.tvm_warp_shuffle{tail}": _shuffled for tail in _SHUFFLES},
    "tir.ballot_sync": lambda machine, call, lanes: _ballot(machine, call, lanes)[1],
    "tir.any_sync": lambda machine, call, lanes: _ballot(machine, call, lanes)[1] != 0,
    "tir.all_sync": _all,
    "tir.match_any_sync": lambda machine, call, lanes: _matches(machine, call, lanes)[1],
    "tir.match_all_sync": _match_all,
    "tir.elect_sync": _elect,
    "tir.activemask": _active,
    "tir.reduce_add_sync": _reduce(np.add),
    "tir.reduce_min_sync": _reduce(np.minimum),
    "tir.reduce_max_sync": _reduce(np.maximum),
    "tir.reduce_and_sync": _reduce(np.bitwise_and),
    "tir.reduce_or_sync": _reduce(np.bitwise_or),
    "tir.reduce_xor_sync": _reduce(np.bitwise_xor),
    "tir.lane_id": lambda machine, call, lanes: _lane(machine, lanes).astype(np.int32),
    "tir.lanemask_lt": _lane_mask(np.less),
    "tir.lanemask_le": _lane_mask(np.less_equal),
    "tir.lanemask_eq": _lane_mask(np.equal),
    "tir.lanemask_ge": _lane_mask(np.greater_equal),
    "tir.lanemask_gt": _lane_mask(np.greater),
    "tir.syncwarp": _sync_warp,
}
