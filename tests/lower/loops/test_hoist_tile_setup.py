"""The sizes of tile registers are said before loops, and only where that changes nothing."""

from __future__ import annotations

import textwrap

import pytest

from tileloom.lower.loops import hoist_tile_setup
from tileloom.script import parse
from tileloom.tir import PrimFunc

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
"""
SESSION = """
T.evaluate(T.amx_configure(2, 8, 2, 8, 2, 8))
T.evaluate(T.amx_zero(0))
for k in range(4):
    T.evaluate(T.amx_load(1, T.address_of(A[k * 4]), 8))
    T.evaluate(T.amx_load(2, T.address_of(A[k * 4]), 8))
    T.evaluate(T.amx_dot_u8s8(0, 1, 2))
T.evaluate(T.amx_store(0, T.address_of(B[i * 4]), 8))
T.evaluate(T.amx_release())
"""


def around(loop: str, body: str) -> str:
    return f"{loop}\n{textwrap.indent(body.strip(), '    ')}\n"


def hoisted(body: str) -> list[str]:
    """What is done with tiles, and the loops around it, as lines."""
    func = parse(HEAD + textwrap.indent(body, "    "))
    assert isinstance(func, PrimFunc)
    lines = hoist_tile_setup(func).script().splitlines()
    found = [line for line in lines if "T.amx_" in line or " for " in line]
    return [line.split("(")[0][4:] for line in found]


def place(lines: list[str], what: str) -> list[int]:
    """How deep it stands, each time."""
    return [
        len(line) - len(line.lstrip()) for line in lines if line.lstrip().startswith(f"T.{what}")
    ]


def test_before_all_loops() -> None:
    lines = hoisted(around("for j in range(2):", around("for i in range(4):", SESSION)))
    assert place(lines, "amx_configure") == [0] and place(lines, "amx_release") == [0]


def test_in_each_iteration_of_a_parallel_loop() -> None:
    lines = hoisted(around("for j in T.parallel(2):", around("for i in range(4):", SESSION)))
    assert place(lines, "amx_configure") == [4] and place(lines, "amx_release") == [4]


def test_sizes_that_differ_stay_apart() -> None:
    other = SESSION.replace("(2, 8, 2", "(1, 8, 2")
    body = around("for j in range(3):", f"for i in range(2):{textwrap.indent(SESSION, '    ')}")
    body += around("for i in range(4):", other)
    assert place(hoisted(body), "amx_configure") == [0, 0]
    mixed = around("for i in range(4):", SESSION + other)
    assert place(hoisted(mixed), "amx_configure") == [4, 4]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.evaluate(T.amx_zero(0))\n", ""),  # it begins with the zeros that come with the sizes
        ("T.evaluate(T.amx_zero(0))", "if i < 2:\n    T.evaluate(T.amx_zero(0))"),
        ("T.evaluate(T.amx_load(2,", "T.evaluate(T.amx_load(1,"),  # tile 2 is set by nobody
        (
            "T.evaluate(T.amx_store",
            'T.evaluate(T.call_extern("int32", "f"))\nT.evaluate(T.amx_store',
        ),
        ("T.evaluate(T.amx_release())", ""),
    ],
)
def test_what_relies_on_the_place_stays(old: str, new: str) -> None:
    assert old in SESSION
    lines = hoisted(around("for i in range(4):", SESSION.replace(old, new)))
    assert place(lines, "amx_configure") == [4]
