"""What rules ask of blocks."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.schedule import Schedule
from tileloom.script import from_source
from tileloom.tuner.rules.analysis import (
    access_pattern,
    is_spatial,
    is_write_cache,
    needs_multi_level_tiling,
)


def program(
    body: str, axes: str = "SSR", extents: str = "8, 8, 8", loops: str = "i, j, k"
) -> Schedule:
    names = ", ".join("xyz"[: len(axes)]) + ("," if len(axes) == 1 else "")
    func: Any = from_source(f"""from tileloom.script import tir as T

@T.prim_func
def main(
    A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"), s: T.Buffer((1,), "float32"),
):
    for i, j, k in T.grid({extents}):
        with T.block("C"):
            {names} = T.axis.remap("{axes}", [{loops}])
            {body}
""")
    return Schedule(func)


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"body": "C[x, y] = C[x, y] + A[x, z] * B[z, y]"}, True),
        ({"body": "C[x, y] = C[x, y] + A[x, z]"}, True),  # y does not index A
        ({"body": "C[x, y] = C[x, y] + A[x + y, z]"}, False),
        ({"body": "C[x, y] = C[x, y] + A[x, z]", "extents": "8, 1, 8"}, False),  # y is 0 alone
        ({"body": "C[x, y] = A[x, z] * B[z, y]", "axes": "SSS"}, False),  # no reduction
        ({"body": "C[x, y] = C[x, y] + A[x, z] * A[z, y]"}, False),  # one buffer read twice
        ({"body": "C[x, y] = C[x, y] + A[x, z] * B[z, y]", "loops": "i, k, j"}, False),
        ({"body": "C[x, y] = C[x, y] + 1.0"}, False),  # reads nothing but its output
    ],
)
def test_what_is_to_be_tiled(options: dict[str, str], needed: bool) -> None:
    sch = program(**options)
    sref = sch.get_sref(sch.get_block("C"))
    assert needs_multi_level_tiling(sch.state, sref) is needed


def test_tiled_blocks_are_not_tiled_again() -> None:
    sch = program("C[x, y] = C[x, y] + A[x, z] * B[z, y]")
    sch.annotate("C", "meta_schedule.tiling_structure", "SSRSRS")
    assert not needs_multi_level_tiling(sch.state, sch.get_sref(sch.get_block("C")))


def test_spatial_blocks() -> None:
    for axes, expected in (("SSS", True), ("SSR", False)):
        sch = program("C[x, y] = A[x, z]", axes)
        assert is_spatial(sch.get(sch.get_block("C"))) is expected


@pytest.mark.parametrize(
    ("body", "pattern", "cache"),
    [
        ("C[x, y] = A[x, y]", "surjective injective ordered no_const_read no_shift_read", True),
        ("C[x, y] = A[y, x]", "surjective injective no_const_read no_shift_read", False),
        ("C[x, y] = A[x, x]", "ordered no_const_read no_shift_read", False),
        ("C[x, y] = A[x + 1, y]", "surjective injective ordered no_const_read", True),
        ("C[x, y] = A[x, 3]", "injective ordered no_shift_read", True),
        ("C[x, y] = s[0]", "injective ordered no_shift_read", True),
        ("C[x, y] = A[x, y * 2]", None, False),
        ("C[x, y] = A[x, k]", None, False),
        ("C[x + 1, y] = A[x, y]", None, False),
    ],
)
def test_how_reads_follow_writes(body: str, pattern: str | None, cache: bool) -> None:
    axes, loops = ("SS", "i, j") if "k" not in body else ("SSS", "i, j, k")
    sch = program(body.replace("k", "z"), axes, loops=loops)
    block = sch.get(sch.get_block("C"))
    found = access_pattern(block.reads[0], block.writes[0])
    if pattern is None:
        assert found is None
    else:
        assert found is not None
        assert [n for n in found.__slots__ if getattr(found, n)] == pattern.split()
    assert is_write_cache(block) is cache
