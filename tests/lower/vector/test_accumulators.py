"""Which stores of a loop add up in one place, and which keep it from running in vectors."""

from __future__ import annotations

from typing import Any

import pytest

from lower.pass_texts import parsed
from tileloom.lower.vector.accumulators import find_accumulators
from tileloom.lower.vector.body import CannotVectorize
from tileloom.tir import For, collect

SUMS = [
    ("for i in range(8): A[0] = A[0] + B[i]", ["A[0] Add B[i]"]),
    ("for i in range(8): A[0] = B[i] + A[0]", ["A[0] Add B[i]"]),
    ("for i in range(8): A[n] = A[n] * B[i]", ["A[n] Mul B[i]"]),
    ("for i in range(8): A[0] = T.max(A[0], B[i])", ["A[0] Max B[i]"]),
    ("for i in range(8): A[0] = T.min(B[i] * 2.0, A[0])", ["A[0] Min B[i] * T.float32(2.0)"]),
    ("for i in range(8):\n    A[0] = A[0] + B[i]\n    I[1] = I[1] + i",
     ["A[0] Add B[i]", "I[1] Add i"]),
    ("for i in range(8): A[i] = B[i]", []),
    ("for i in range(8): A[i] = A[i] + B[0]", []),
    ("for i in range(8):\n    A[i] = B[i]\n    A[i] = A[i] * 2.0", []),
    ("for i in range(8):\n    A[i * 2] = B[i]\n    A[i * 2 + 1] = B[i]", []),
    ("for i in range(8):\n    x: T.int32 = n + 1\n    A[x] = A[x] + B[i]", ["A[x] Add B[i]"]),
    ("for i in range(8):\n    x: T.int32 = i + 1\n    A[x] = B[i]", []),
    ("for i in range(8):\n    A[n + 1] = A[n + 1] + B[i]\n    A[n] = A[n] + B[i]",
     ["A[n + 1] Add B[i]", "A[n] Add B[i]"]),
    ("for i in range(8):\n    L = T.allocate([1], 'float32', 'local')\n"
     "    S = T.decl_buffer((1,), data=L, scope='local')\n    S[0] = B[i]\n    A[i] = S[0]", []),
]  # fmt: skip


def body(text: str) -> For:
    (loop, *_) = collect(parsed(text).body, For)
    return loop


@pytest.mark.parametrize(("text", "wanted"), SUMS)
def test_what_adds_up(text: str, wanted: list[str]) -> None:
    found = [
        f"{store.buffer.name}[{store.indices[0]}] {op.__name__} {value}"
        for store, op, value in find_accumulators(body(text))
    ]
    assert found == wanted


REFUSED = [
    ("for i in range(8): A[0] = B[i]", "all iterations store into A"),
    ("for i in range(8): A[0] = A[0] - B[i]", "all iterations store into A"),
    ("for i in range(8): A[0] = A[0] + A[0]", "all iterations store into A"),
    ("for i in range(8): A[0] = A[0] + (B[i] - A[0])", "all iterations store into A"),
    ("for i in range(8): A[0] = A[1] + B[i]", "all iterations store into A"),
    ("for i in range(8): A[0] = A[0] + A[i]", "all iterations store into A"),
    ("for i in range(8):\n    A[n] = A[n] + B[i]\n    A[1] = A[1] + B[i]",
     "two sums in one place"),
    ("for i in range(8):\n    A[0] = A[0] + B[i]\n    A[0] = A[0] * B[i]",
     "two sums in one place"),
    ("for i in range(8):\n    A[0] = A[0] + B[i]\n    A[1] = A[1] + A[0]",
     "all iterations store into A"),
    ("for i in range(8):\n    A[0] = A[0] + B[i]\n    A[i + 1] = B[i]",
     "A is read elsewhere than it is written"),
    ("for i in range(8):\n    A[0] = A[0] + B[i]\n    B[i] = A[0]",
     "A is read while it is added up"),
    ("for i in range(8): A[i] = A[i + 1]", "A is read elsewhere than it is written"),
    ("for i in range(8):\n    A[i] = B[i]\n    B[i] = A[0]", "read elsewhere than it is written"),
    ("for i in range(8):\n    A[i] = B[i]\n    A[i + 1] = B[i]",
     "iterations store into one element"),
    ("for i in range(8): A[i // 2] = A[i // 2] + B[i]", "is read in several iterations"),
    ("for i in range(8): A.vstore([T.Ramp(0, 1, 2)], B[0:2], predicate=T.Ramp(i, 1, 2) < "
     "T.Broadcast(4, 2))", "a store of vectors"),
    ("for i in range(8):\n    x: T.int32 = I[i]\n    A[x] = A[x] + B[i]", "several iterations"),
    ("for i in range(8): A[I[n]] = A[I[n]] + B[i]", "several iterations"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_depends_on_other_iterations(text: str, reason: str) -> None:
    found: Any = body(text)
    with pytest.raises(CannotVectorize, match=reason):
        list(find_accumulators(found))
