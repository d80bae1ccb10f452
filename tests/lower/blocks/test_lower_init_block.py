"""Inits of reductions in all orders of loops: the same results, whoever else touches the memory."""

from __future__ import annotations

import itertools
import textwrap

import numpy as np
import pytest

from tileloom.lower.blocks.lower_init_block import lower_init_block
from tileloom.script import from_source
from tileloom.tir import Block, BlockRealize, PrimFunc, collect
from tileloom.tir.run import run

SIZES = {"i": 3, "j": 4, "k": 2, "l": 3}


def program(text: str) -> PrimFunc:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((4, 6, 9), "float32"), B: T.Buffer((12,), "float32"), n: T.int32,
         C: T.Buffer((12,), "float32")):
{textwrap.indent(textwrap.dedent(text).strip(), "    ")}
""")
    assert isinstance(func, PrimFunc)
    return func


def check(func: PrimFunc, n: int = 2) -> PrimFunc:
    """The same memory after both; no init is left."""
    made = lower_init_block(func)
    assert all(block.init is None for block in collect(made.body, Block))
    results = []
    for one in (func, made):
        rng = np.random.default_rng(n)
        a = rng.integers(-9, 9, (4, 6, 9)).astype("float32")
        b, c = np.arange(12, dtype="float32"), np.full(12, 7, "float32")
        run(one, a, b, n, c)
        results.append([a, b, c])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)
    return made


def nest(order: tuple[str, ...], body: str, sizes: dict[str, str]) -> str:
    loops = [" " * 4 * at + f"for {v} in range({sizes[v]}):" for at, v in enumerate(order)]
    return "\n".join([*loops, textwrap.indent(textwrap.dedent(body).strip(), " " * 4 * len(order))])


SUM = """
with T.block("sum"):
    vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
    {where}
    with T.init():
        B[vi * 4 + vj] = T.float32(0)
    B[vi * 4 + vj] = B[vi * 4 + vj] + A[vi, vk * 3 + vl, vj]
"""


@pytest.mark.parametrize("order", sorted(itertools.permutations("ijkl")), ids="".join)
@pytest.mark.parametrize(
    "where", ["", "T.where(i < 2)", "T.where(k * 3 + l < 5)", "T.where(i + k > 0)"]
)
def test_orders_of_loops(order: tuple[str, ...], where: str) -> None:
    sizes = {v: str(n) for v, n in SIZES.items()}
    made = check(program(nest(order, SUM.format(where=where), sizes)))
    names = [block.name_hint for block in collect(made.body, Block)]
    assert names.count("sum") == 1


@pytest.mark.parametrize("order", ["ijkl", "kijl", "iklj", "lkji"])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_sizes_that_may_be_zero(order: str, n: int) -> None:
    """No step of the reduction: the result is what the init says, which blocks alone do not."""
    sizes = {**{v: str(m) for v, m in SIZES.items()}, "k": "n"}
    func = program(nest(tuple(order), SUM.format(where=""), sizes))
    if n:
        check(func, n)
        return
    b = np.arange(1, 13, dtype="float32")
    run(lower_init_block(func), np.ones((4, 6, 9), "float32"), b, 0, np.zeros(12, "float32"))
    assert not b.any()


OTHERS = [
    "C[i] = B[i * 4]",
    "C[i] = T.float32(1)",
    "B[i * 4 + 1] = T.float32(3)",
    "C[i] = C[i] + T.float32(1)",
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("at", ["before", "after"])
@pytest.mark.parametrize("order", ["ik", "ki"])
def test_other_work_in_the_loop(other: str, at: str, order: str) -> None:
    """Where the loop does something else with the memory, the init stays where it is."""
    block = """
with T.block("sum"):
    vi, vk = T.axis.remap("SR", [i, k])
    with T.init():
        B[vi * 4] = T.float32(0)
    B[vi * 4] = B[vi * 4] + A[vi, vk, 0]
"""
    work = f'with T.block("other"):\n    T.reads(B[0:12])\n    {other}\n'
    body = f"{work}{block.lstrip()}" if at == "before" else f"{block.lstrip()}{work}"
    made = check(program(nest(tuple(order), body, {"i": "3", "k": "4"})))
    alone = "B[" not in other
    inits = [r.block.name_hint for r in collect(made.body, BlockRealize)]
    assert ("sum_init" in inits) is alone


@pytest.mark.parametrize(
    "axes",
    [
        ("T.axis.spatial(3, f // 4)", "T.axis.reduce(4, f % 4)"),
        ("T.axis.spatial(3, f % 3)", "T.axis.reduce(4, f // 3)"),
    ],
)
@pytest.mark.parametrize("extent", ["12", "n * 6"])
@pytest.mark.parametrize("n", [0, 2])
def test_a_loop_that_is_both(axes: tuple[str, str], extent: str, n: int) -> None:
    """A fused loop carries the reduction and the places: no loop of its own for the init."""
    text = f"""
for f in range({extent}):
    with T.block("sum"):
        vi = {axes[0]}
        vk = {axes[1]}
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk, 0]
"""
    if extent == "12" or n:
        check(program(text), n)
    else:
        made = lower_init_block(program(text))
        b = np.arange(12, dtype="float32")
        run(made, np.ones((4, 6, 9), "float32"), b, 0, np.zeros(12, "float32"))
        assert b[:3].tolist() == [0, 0, 0] and b[3:].tolist() == list(range(3, 12))
