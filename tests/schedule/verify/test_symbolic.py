"""Programs whose sizes are not known yet."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import Schedule
from tileloom.script import parse

pytest.importorskip("islpy")

PRODUCT = """
from tileloom.script import tir as T
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n, m, l = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (n, l))
    B = T.match_buffer(b, (l, m))
    C = T.match_buffer(c, (n, m))
    D = T.alloc_buffer((n, m))
    for i, j, k in T.grid(n, m, l):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(D[vi, vj], T.float32(0))
"""


def tiles(sch: Schedule) -> list[Any]:
    i, j, k = sch.get_loops("D")
    (i0, i1), (j0, j1), (k0, k1) = (
        sch.split(loop, [None, size]) for loop, size in ((i, 8), (j, 16), (k, 4))
    )
    sch.reorder(i0, j0, k0, i1, j1, k1)
    return [i0, j0, k0]


STEPS: dict[str, Any] = {
    "nothing": lambda s: None,
    "tiles at once": lambda s: s.parallel(tiles(s)[0]),
    "a consumer moved": lambda s: s.reverse_compute_at("C", tiles(s)[1]),
    "a cache filled at a tile": lambda s: s.compute_at(s.cache_read("D", 0, "local"), tiles(s)[2]),
    "a cache emptied at a tile": lambda s: s.reverse_compute_at(
        s.cache_write("D", 0, "local"), tiles(s)[1]
    ),
    "a start of its own": lambda s: s.decompose_reduction("D", tiles(s)[2]),
    "sums of parts": lambda s: s.rfactor(s.split(s.get_loops("D")[2], [None, 4])[1], 0),
    "another layout": lambda s: s.transform_layout("D", ("write", 0), lambda i, j: (j, i)),
    "a block of rows": lambda s: s.blockize(s.get_loops("D")[1]),
    "one loop over a matrix": lambda s: s.fuse(*s.get_loops("D")[:2]),
}


@pytest.mark.parametrize("name", STEPS)
def test_all_sizes_at_once(name: str) -> None:
    sch = Schedule(parse(PRODUCT))
    STEPS[name](sch)
    report = sch.verify()
    assert report.ok, f"{report}\n{sch.mod}"
    assert any("at least 1" in note for note in report.notes)
