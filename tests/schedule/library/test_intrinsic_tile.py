"""Tiles for intrinsics: which loops become one, and that the result stays the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import Schedule, te
from tileloom.schedule.analysis.auto_tensorize import same_computation
from tileloom.schedule.library.intrinsic_tile import tile_with_tensor_intrin
from tileloom.schedule.tensor_intrin import TensorIntrin
from tileloom.tir import run


def dots(m: int, n: int, k: int, then: bool = False, left: str = "uint8") -> Schedule:
    """Dot products "C" of bytes, which are copied before and perhaps after."""
    a, b = te.placeholder((m, k), left, name="A"), te.placeholder((n, k), "int8", name="B")
    a_copy = te.compute((m, k), lambda i, j: a[i, j], name="A2")
    b_copy = te.compute((n, k), lambda i, j: b[i, j], name="B2")
    z = te.reduce_axis((0, k), "k")

    def element(i: Any, j: Any) -> Any:
        return te.sum(a_copy[i, z].astype("int32") * b_copy[j, z].astype("int32"), axis=z)

    c = te.compute((m, n), element, name="C")
    out = te.compute((m, n), lambda i, j: c[i, j] + 1, name="D") if then else c
    return Schedule(te.create_prim_func([a, b, out]), debug_mask="all")


def extents(sch: Schedule) -> list[int]:
    return [sch.get(loop).static_extent for loop in sch.get_loops(sch.get_block("C"))]


@pytest.mark.parametrize("then", [False, True])
@pytest.mark.parametrize(
    ("shape", "padded", "expected"),
    [
        ((5, 32, 8), False, [5, 2, 2, 16, 4]),
        ((32, 24, 8), False, None),  # 16 does not divide 24, and the rows are no columns
        ((5, 24, 8), True, [5, 2, 2, 16, 4]),
        ((5, 32, 6), True, [5, 2, 2, 16, 4]),
        ((5, 20, 6), True, [5, 2, 2, 16, 4]),
    ],
)
def test_tiles(
    shape: tuple[int, int, int], padded: bool, expected: list[int] | None, then: bool
) -> None:
    sch = dots(*shape, then=then)
    before = sch.mod["main"]
    loop = tile_with_tensor_intrin(sch, sch.get_block("C"), "dot_16x4_vnni", padded)
    if expected is None:
        assert loop is None
        return
    assert loop is not None and extents(sch) == expected
    assert sch.get(loop).static_extent == 16
    rng = np.random.default_rng(0)
    m, n, k = shape
    inputs = [
        rng.integers(0, 255, (m, k), "uint8"),
        rng.integers(-128, 127, (n, k), "int8"),
    ]
    outs = [np.zeros((m, n), "int32") for _ in range(2)]
    run(before, *inputs, outs[0])
    run(sch.mod["main"], *inputs, outs[1])
    np.testing.assert_array_equal(outs[0], outs[1])
    # What pads is in the copies before and after: no block more than there was.
    names = [sch.get(block).name_hint for block in sch.get_child_blocks("root")]
    assert len(names) == (4 if then or shape[1] % 16 else 3)
    sch.tensorize(loop, "dot_16x4_vnni")


def test_blocks_that_do_what_an_intrinsic_does() -> None:
    desc = getattr(TensorIntrin.get("dot_16x4_vnni"), "desc")  # noqa: B009
    for left, same in (("uint8", True), ("int8", False)):
        sch = dots(4, 16, 4, left=left)
        assert same_computation(sch.get(sch.get_block("C")), desc) is same
    assert not same_computation(sch.get(sch.get_block("A2")), desc)
