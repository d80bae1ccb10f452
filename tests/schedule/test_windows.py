"""Consumers that read several elements at once, moved below their producers and the other way."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from schedule.common import parse
from tileloom import Schedule, ScheduleError
from tileloom.script import show
from tileloom.tir import run

PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer((SIZE,), "float32"), C: T.Buffer((OUT,), "float32"), I: T.Buffer((8,), "int32")
):
    B = T.alloc_buffer((SIZE,))
    for i in range(SIZE):
        with T.block("B"):
            vi = T.axis.spatial(SIZE, i)
            B[vi] = A[vi] * 2.0
    for i in range(OUT):
        with T.block("C"):
            vi = T.axis.spatial(OUT, i)
            T.reads(B[READ])
            T.writes(C[vi])
            C[vi] = VALUE
"""
FOUR = "B[vi * 4] + B[vi * 4 + 1] + B[vi * 4 + 2] + B[vi * 4 + 3]"
TWO = "B[vi * 4] + B[vi * 4 + 1]"


def text_of(size: int, out: int, read: str, value: str) -> str:
    pieces = {"SIZE": str(size), "OUT": str(out), "READ": read, "VALUE": value}
    text = PROGRAM
    for name, piece in pieces.items():
        text = text.replace(name, piece)
    return text


def nest(sch: Schedule, block: str) -> str:
    """The loops of a block within those that it shares, its axis and its condition."""
    lines = show(sch.mod["main"]).splitlines()
    at = next(k for k, line in enumerate(lines) if f'T.block("{block}")' in line)
    value = lines[at + 1].partition(", ")[2].rstrip(")")
    where = re.search(r"T.where\((.*)\)", lines[at + 2])
    loop = re.search(r"for (ax0|i_1) in range\((\d+)\)", lines[at - 1])
    parts = [f"{loop[2]} times" if loop else "", value, where[1] if where else ""]
    return "; ".join(part for part in parts if part)


def check(sch: Any, text: str) -> None:
    """It computes what it did."""
    first, second = parse(text), sch.mod["main"]
    size, out, _ = (buffer.static_shape[0] for buffer in first.buffers)
    a, index = np.arange(size, dtype="float32"), np.zeros(8, "int32")
    wanted, found = np.zeros(out, "float32"), np.full(out, np.nan, "float32")
    run(first, a, wanted, index)
    run(second, a, found, index)
    assert (wanted == found).all()


WINDOW = "vi * 4:vi * 4 + 4"


@pytest.mark.parametrize(
    ("by", "size", "out", "read", "expected"),
    [
        (4, 32, 8, WINDOW, "i_0"),
        (8, 32, 8, WINDOW, "2 times; i_0 * 2 + ax0"),
        (12, 32, 8, WINDOW, "3 times; i_0 * 3 + ax0; i_0 * 3 + ax0 < 8"),
        (32, 32, 8, WINDOW, "8 times; ax0"),
        (2, 32, 8, WINDOW, None), (6, 32, 8, WINDOW, None), (1, 32, 8, WINDOW, None),
        (4, 30, 7, "vi * 4:vi * 4 + 2", "i_0; i_0 < 7"),
        (2, 32, 8, "0:4", None), (4, 32, 8, "0:4", None), (32, 32, 8, "0:32", "8 times; ax0"),
    ],
)  # fmt: skip
def test_consumers_find_all_that_they_read(
    by: int, size: int, out: int, read: str, expected: str | None
) -> None:
    text = text_of(size, out, read, FOUR if read == WINDOW else TWO)
    sch = Schedule(parse(text))
    outer, _ = sch.split(sch.get_loops("B")[0], [None, by])
    if expected is None:
        with pytest.raises(ScheduleError, match="elements of 'B' at once, not all of which"):
            sch.reverse_compute_at("C", outer)
        return
    sch.reverse_compute_at("C", outer)
    assert nest(sch, "C") == expected
    if read in (WINDOW, "vi * 4:vi * 4 + 2"):
        check(sch, text)


@pytest.mark.parametrize(
    ("size", "out", "read", "value", "expected"),
    [
        (32, 8, WINDOW, FOUR, "4 times; i * 4 + ax0"),
        (30, 7, "vi * 4:vi * 4 + 2", TWO, "2 times; i * 4 + ax0"),
        (32, 8, "0:32", TWO, "32 times; ax0"),
        (32, 8, "vi * 4", "B[vi * 4]", "i * 4"),
    ],
)
def test_producers_make_what_is_read(
    size: int, out: int, read: str, value: str, expected: str
) -> None:
    text = text_of(size, out, read, value)
    sch = Schedule(parse(text))
    sch.compute_at("B", sch.get_loops("C")[0])
    assert nest(sch, "B") == expected
    check(sch, text)


def test_what_data_says_is_read_is_not_made_in_part() -> None:
    sch = Schedule(parse(text_of(32, 8, "I[vi]:I[vi] + 4", TWO)))
    with pytest.raises(ScheduleError, match="depends on data, the elements of 'I'"):
        sch.compute_at("B", sch.get_loops("C")[0])
