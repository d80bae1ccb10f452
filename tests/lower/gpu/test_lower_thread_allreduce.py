"""Reductions over any axes of a block's threads: results, and how many barriers they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import calls, check_gpu, syncs
from tileloom.script import from_source
from tileloom.tir import PrimFunc

AXES = "zyx"


def reduction(sizes: dict[str, int], over: str, rounds: int, result: str, value: str) -> PrimFunc:
    """B[r, ...] = result over some of the axes z, y and x of A[r, z, y, x]."""
    kinds = "".join("R" if axis in over else "S" for axis in AXES)
    kept = [f"v{axis}" for axis in AXES if axis not in over]
    shape = [sizes[axis] for axis in AXES if axis not in over]
    loops = "\n".join(
        " " * (8 + 4 * k) + f"for {axis} in T.thread_binding({sizes[axis]}, "
        f'thread="threadIdx.{axis}"):'
        for k, axis in enumerate(sorted(AXES, key=over.__contains__))
    )
    place = ", ".join(["vr", *kept])
    func = from_source(f"""
@T.prim_func
def main(
    A: T.Buffer(({rounds}, {sizes["z"]}, {sizes["y"]}, {sizes["x"]}), "float32"),
    B: T.Buffer(({", ".join(map(str, [rounds, *shape]))},), "float32"),
):
    for r in range({rounds}):
{loops}
                    with T.block("out"):
                        vr, vz, vy, vx = T.axis.remap("S{kinds}", [r, z, y, x])
                        with T.init():
                            B[{place}] = T.float32({value})
                        B[{place}] = {result.format(f"B[{place}]", "A[vr, vz, vy, vx]")}
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(
    ("x", "y", "z", "over", "shuffles"),
    [
        (4, 3, 2, "y", 0), (3, 5, 1, "y", 0), (8, 4, 2, "z", 0), (2, 17, 2, "y", 0),
        (5, 2, 3, "zy", 0), (8, 3, 2, "zx", 0), (6, 3, 2, "zyx", 0), (7, 3, 2, "yx", 0),
        (8, 4, 2, "yx", 5), (32, 2, 2, "yx", 6), (32, 3, 2, "yx", 7), (16, 6, 1, "yx", 7),
        (33, 1, 2, "x", 0), (64, 2, 2, "x", 6), (96, 1, 2, "x", 7), (16, 2, 2, "x", 4),
        (1, 32, 2, "y", 5), (1, 40, 2, "y", 0), (4, 1, 2, "y", 0), (2, 2, 2, "x", 1),
        (1, 1, 8, "z", 3), (4, 2, 4, "z", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rounds", [1, 2])
def test_axes_of_threads(x: int, y: int, z: int, over: str, shuffles: int, rounds: int) -> None:
    """Neighbours of a power of two, or whole warps, use shuffles; all others shared memory."""
    func = reduction({"x": x, "y": y, "z": z}, over, rounds, "{} + {}", "0")
    axes = tuple(1 + AXES.index(axis) for axis in over)
    flat = check_gpu(func, lambda A, B: [A.sum(axis=axes)])
    assert calls(flat, "shuffle_down") == shuffles
    count = {"x": x, "y": y, "z": z}
    size = 1
    for axis in over:
        size *= count[axis]
    if size == 1 or (shuffles and size <= 32):
        assert syncs(flat) == 0
    else:
        assert syncs(flat) >= rounds


@pytest.mark.parametrize(
    ("result", "value", "wanted"),
    [
        ("T.max({}, {})", "-1000", np.max),
        ("T.min({1}, {0})", "1000", np.min),
        ("{} * T.Select({} > T.float32(0), T.float32(2), T.float32(1))", "1", None),
    ],
)
@pytest.mark.parametrize(("x", "y"), [(32, 3), (24, 2), (8, 1), (5, 3)])
def test_other_reductions(result: str, value: str, wanted: Any, x: int, y: int) -> None:
    """What there is not, where a warp or a half is not full, changes no result."""
    func = reduction({"x": x, "y": y, "z": 1}, "x", 1, result, value)

    def reference(A: Any, B: Any) -> list[Any]:
        return [2.0 ** (A > 0).sum(axis=3) if wanted is None else wanted(A, axis=3)]

    check_gpu(func, reference)
