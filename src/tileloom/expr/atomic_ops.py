"""Calls that read and change memory through a pointer, by name."""

from __future__ import annotations

#: How many values each takes beside the pointer, which comes first; a last argument may name the
#: order. They give what was there before.
ATOMIC_VALUES = {
    "tir.atomic_add": 1, "tir.atomic_min": 1, "tir.atomic_max": 1, "tir.atomic_and": 1,
    "tir.atomic_or": 1, "tir.atomic_xor": 1, "tir.atomic_exchange": 1, "tir.atomic_cas": 2,
    "tir.atomic_load": 0, "tir.atomic_store": 1,
}  # fmt: skip
ATOMIC_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
