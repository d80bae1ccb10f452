"""Which loops an intrinsic could take, and what schedules have."""

from __future__ import annotations

from typing import Any

import pytest

from compat.sum_programs import ONE, PROGRAM, program
from tileloom.compat.tvm import tir
from tileloom.compat.tvm.tir.schedule.analysis import (
    get_tensorize_loop_mapping,
    has_block,
    is_output_block,
)
from tileloom.script import parse


@pytest.mark.parametrize(
    ("size", "padded", "paddings"),
    [(4, False, ()), (8, True, ()), (3, False, None), (3, True, (3, 3)), (16, True, (16, 16))],
)
def test_loops_of_intrinsics(size: int, padded: bool, paddings: Any) -> None:
    sch = tir.Schedule(program(ONE, 8))
    info = get_tensorize_loop_mapping(sch, "C", program(ONE, size), padded)
    if paddings is None:
        assert info is None
        return
    assert info is not None
    i, j = sch.get_loops(sch.get_block("C"))
    names = {sch.get_sref(loop): name for loop, name in ((i, "i"), (j, "j"))}
    assert {names[ours]: theirs.loop_var.name for ours, theirs in info.loop_map.items()} == {
        "i": "i", "j": "j",
    }  # fmt: skip
    assert sorted(info.desc_loop_indexer.values()) == [0, 1]
    assert (info.block_iter_paddings and tuple(info.block_iter_paddings)) == (paddings or None)


def test_what_schedules_have() -> None:
    text = PROGRAM.replace("T.writes(C[0:SIZE, 0:SIZE])", """T.writes(C[0:SIZE, 0:SIZE])
        S = T.alloc_buffer((4, 4), "float32")
        for i, j in T.grid(4, 4):
            with T.block("S"):
                x = T.axis.spatial(SIZE, i)
                y = T.axis.spatial(SIZE, j)
                S[x, y] = A[x, y]""")  # fmt: skip
    text = text.replace("SIZE", "4").replace("KIND", "float32")
    sch = tir.Schedule(parse(text.replace("STORE", "C[x, y] = S[x, y] * B[y]")))
    assert is_output_block(sch, "C") and not is_output_block(sch, sch.get_block("S"))
    assert has_block(sch, "S") and has_block(sch, "root") and not has_block(sch, "s")
