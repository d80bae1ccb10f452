"""Blocks that read what they write: threads may share them where each element is one instance's."""

from __future__ import annotations

import pytest

from schedule.common import parse
from tileloom.schedule import Schedule, ScheduleError

UPDATE = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32")):
    for i in range(48):
        with T.block("B"):
            v = T.axis.spatial(48, i)
            A[{row}, {column}] = A[{row}, {column}] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("row", "column", "is_own"),
    [
        ("v // 6", "v % 6", True),
        ("v % 8", "v // 8", True),
        ("v // 6", "0", False),
        ("v // 12", "v % 6", False),
        ("v % 6", "v % 6", False),
    ],
)
def test_elements_by_digits_of_an_axis(row: str, column: str, is_own: bool) -> None:
    sch = Schedule(parse(UPDATE.format(row=row, column=column)))
    (loop,) = sch.get_loops("B")
    if is_own:
        sch.bind(loop, "threadIdx.x")
        return
    with pytest.raises(ScheduleError, match="both reads and writes"):
        sch.bind(loop, "threadIdx.x")
