"""Programs, and traces of them, for tests of measurements."""

from __future__ import annotations

import json

from tileloom.schedule import Schedule
from tileloom.script import parse
from tileloom.tir import IRModule, PrimFunc

MATMUL = """
@T.prim_func
def main(
    A: T.Buffer((16, 24), "float32"),
    B: T.Buffer((24, 32), "float32"),
    C: T.Buffer((16, 32), "float32"),
):
    for i, j, k in T.grid(16, 32, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def function(text: str) -> PrimFunc:
    """The function of a text."""
    found = parse(text)
    assert isinstance(found, PrimFunc)
    return found


def tiled(text: str = MATMUL, tile: int = 4) -> str:
    """A trace as JSON text: the first loop split, the one after it vectorized."""
    sch = Schedule(IRModule({"main": function(text)}))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    i, j, *_ = sch.get_loops(block)
    sch.split(i, [None, tile])
    sch.reorder(*sch.get_loops(block)[3:], j)
    sch.vectorize(j)
    assert sch.trace is not None
    return json.dumps(sch.trace.as_json())
