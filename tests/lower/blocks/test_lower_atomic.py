"""Blocks that add atomically because their annotation says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import build
from tileloom.base.errors import UserError
from tileloom.lower.blocks import lower_atomic
from tileloom.script import from_source, show
from tileloom.tir import run

_TEXT = """@T.prim_func
def main(
    A: T.Buffer((8, 4), "{kind}"), rows: T.Buffer((8,), "int32"), B: T.Buffer((20,), "{kind}")
):
    for i in {loop}:
        for j in range(4):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.block_attr({{"atomic": True}})
{body}
"""


_BLOCKS = 'T.thread_binding(8, "blockIdx.x")'


def program(body: str, loop: str = "T.parallel(8)", kind: str = "float32") -> Any:
    """A function over a block with the annotation."""
    lines = "\n".join(" " * 16 + line for line in body.strip("\n").splitlines())
    return from_source(_TEXT.format(body=lines, loop=loop, kind=kind))


ADDITIONS = [
    "B[rows[vi]] = B[rows[vi]] + A[vi, vj]",
    "B[rows[vi]] = A[vi, vj] + B[rows[vi]]",
    "B[rows[vi]] = A[vi, vj]",
]


@pytest.mark.parametrize("body", ADDITIONS)
def test_a_store_is_an_addition(body: str) -> None:
    func = lower_atomic(program(body))
    text = show(func)
    assert "T.atomic_add(T.address_of(B[rows[vi]]), A[vi, vj])" in text
    assert "block_attr" not in text
    assert lower_atomic(func) is func


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int32", "int8"])
@pytest.mark.parametrize("body", ADDITIONS[1:])
def test_results(body: str, kind: str) -> None:
    """On the CPU, where loops are parallel, on the emulator, and in the interpreter."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (8, 4)).astype(kind)
    rows = np.array([3, 3, 0, 19, 3, 7, 7, 3], "int32")
    start = rng.integers(-4, 5, 20).astype(kind)
    expected = start.copy()
    np.add.at(expected, rows, a.sum(1, dtype=kind))
    func = program(body, kind=kind)
    threads = program(body, kind=kind, loop=_BLOCKS)
    for kernel in (
        build(func, "cpu"),
        lambda *args: run(func, *args),
        build(threads, "cuda -arch=sm_90a", device="emulator"),
    ):
        found = start.copy()
        kernel(a, rows, found)
        np.testing.assert_array_equal(found, expected)


def test_memory_of_a_thread_is_stored_to() -> None:
    """A sum of its own, started in a block inside, is added at the end."""
    func = lower_atomic(program("""
S = T.alloc_buffer((1,), scope="local")
with T.block("start"):
    S[0] = 0.0
for k in range(4):
    with T.block("own"):
        vk = T.axis.reduce(4, k)
        with T.init():
            S[0] = 0.0
        S[0] = S[0] + A[vi, vk]
B[rows[vi]] = B[rows[vi]] + S[0]"""))  # fmt: skip
    text = show(func)
    assert "S[0] = S[0] + A[vi, vk]" in text
    assert text.count("atomic_add") == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("B[rows[vi]] = B[rows[vi]] * A[vi, vj]", "does not only add to elements\n"),
        ("B[rows[vi]] = B[rows[vi]] - A[vi, vj] * B[0]", "does not only add to elements\n"),
        ("B[rows[vi]] = B[0] + A[vi, vj]", "does not only add to elements\n"),
        (
            "with T.init():\n    B[rows[vi]] = 0.0\nB[rows[vi]] = B[rows[vi]] + A[vi, vj]",
            "it starts them, too\n",
        ),
    ],
)
def test_refusals(body: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        lower_atomic(program(body))
