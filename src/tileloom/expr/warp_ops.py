"""Calls that the threads of a warp, or some of a block, make together; and who a thread is."""

from __future__ import annotations

#: The type of the result, by op; empty for that of the last argument.
WARP_RESULTS = {
    # Votes and matches: a mask of lanes that take part, then a value.
    "tir.ballot_sync": "uint32",
    "tir.any_sync": "bool",
    "tir.all_sync": "bool",
    "tir.match_any_sync": "uint32",
    "tir.match_all_sync": "uint32",
    "tir.elect_sync": "bool",
    "tir.activemask": "uint32",
    # Sums and the like of 32-bit integers over the lanes of a mask.
    "tir.reduce_add_sync": "",
    "tir.reduce_min_sync": "",
    "tir.reduce_max_sync": "",
    "tir.reduce_and_sync": "",
    "tir.reduce_or_sync": "",
    "tir.reduce_xor_sync": "",
    # Which lane a thread is, and masks of the lanes below, up to, above it.
    "tir.lane_id": "int32",
    "tir.lanemask_lt": "uint32",
    "tir.lanemask_le": "uint32",
    "tir.lanemask_eq": "uint32",
    "tir.lanemask_ge": "uint32",
    "tir.lanemask_gt": "uint32",
    # Barriers of a warp's lanes; of `count` threads of a block that name the same number.
    "tir.syncwarp": "int32",
    "tir.barrier_sync": "int32",
    "tir.barrier_arrive": "int32",
}
#: How many arguments each takes.
WARP_ARGUMENTS = {
    **dict.fromkeys(WARP_RESULTS, 2),
    **{op: 0 for op in WARP_RESULTS if op == "tir.activemask" or op.startswith("tir.lane")},
    **dict.fromkeys(("tir.elect_sync", "tir.syncwarp"), 1),
}
#: The least architecture of those that not all have.
WARP_ARCHS = {op: "sm_80" for op in WARP_RESULTS if op.startswith("tir.reduce_")}
NAMED_BARRIERS = ("tir.barrier_sync", "tir.barrier_arrive")
WHOLE_WARP = 0xFFFFFFFF
