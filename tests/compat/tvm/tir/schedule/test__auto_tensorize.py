"""Which axes of a block stand for those of an intrinsic."""

from __future__ import annotations

from typing import Any

import pytest

from compat.sum_programs import ONE, program
from tileloom.compat.tvm import tir
from tileloom.compat.tvm.tir.schedule.analysis import get_auto_tensorize_mapping_info
from tileloom.script import parse


@pytest.mark.parametrize(
    ("value", "wanted", "axes"),
    [
        (ONE, ONE, "x, y"),
        ("A[y, x] * B[x]", ONE, "y, x"),
        ("D[x, y] * B[y]", ONE, "x, y"),  # whatever the names
        (f"{ONE} + A[x, y]", f"{ONE} + A[x, y]", "x, y"),
        (f"{ONE} + A[y, x]", f"{ONE} + A[x, y]", None),  # another place of one buffer
        (f"{ONE} + A[x, y]", f"{ONE} + A[y, x]", None),
        (f"{ONE} + D[x, y]", f"{ONE} + A[x, y]", None),  # another buffer
        (f"{ONE} + A[x, y]", f"{ONE} + D[x, y]", None),
        ("A[x, y] + B[y]", ONE, None),  # another operation
        (f"T.exp({ONE})", f"T.exp({ONE})", "x, y"),
        (f"T.exp({ONE})", f"T.log({ONE})", None),
        (f"{ONE} * T.float32(2)", f"{ONE} * T.float32(2)", "x, y"),
        (f"{ONE} * T.float32(2)", f"{ONE} * T.float32(3)", None),
        (f"T.pow({ONE}, T.float32(2))", f"T.pow({ONE}, T.float32(2))", "x, y"),
        (f"{ONE} + T.Cast('float32', x)", f"{ONE} + T.Cast('float32', x)", None),
        (f"{ONE} * n", f"{ONE} * n", None),
        ("A[x, y] * B[x + y]", ONE, None),  # both axes index the same buffers
        (f"if x < 2:\n    C[x, y] = {ONE}", ONE, None),
        (ONE, f"if x < 2:\n    C[x, y] = {ONE}", None),
        ("A[x, y]", "A[x, y]", None),  # axes that cannot be told apart
    ],
)
def test_axes_of_intrinsics(value: str, wanted: str, axes: str | None) -> None:
    sch = tir.Schedule(program(value, 8))
    info = get_auto_tensorize_mapping_info(sch, sch.get_block("C"), program(wanted, 4))
    if axes is None:
        assert info is None
        return
    assert info is not None
    (found,) = info.mappings
    assert ", ".join(map(str, found.final_indices)) == axes
    assert get_auto_tensorize_mapping_info(sch, "C", program(wanted, 4)) is not None


def test_types_of_intrinsics() -> None:
    sch = tir.Schedule(program(f"T.Cast('int32', {ONE})", 8, "int32"))
    assert get_auto_tensorize_mapping_info(sch, "C", program(ONE, 4)) is None
    same = program(f"T.Cast('int32', {ONE})", 4, "int32")
    assert get_auto_tensorize_mapping_info(sch, "C", same) is not None


def test_descriptions_without_axes_say_nothing() -> None:
    sch = tir.Schedule(program(ONE, 8))
    bare: Any = parse("""
@T.prim_func
def main(A: T.Buffer((1,), "float32"), C: T.Buffer((1,), "float32")):
    with T.block("root"):
        with T.block("C"):
            C[0] = A[0]
""")
    assert get_auto_tensorize_mapping_info(sch, "C", bare) is None
    assert get_auto_tensorize_mapping_info(tir.Schedule(bare), "C", program(ONE, 4)) is None
