"""AutoInline: what it inlines, and what keeps it from doing so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tileloom import te
from tileloom.expr import const
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.tir import PrimFunc
from tileloom.tuner.rules.auto_inline import AutoInline, is_spatial_function

from .programs import apply, assert_same, blocks, chain, script

ANY = AutoInline(
    disallow_if_then_else=False, require_injective=False, require_ordered=False, disallow_op=()
)


def reduced(element: Any, columns: int = 8) -> PrimFunc:
    """Block "B" makes elements, "C" adds up rows of them."""
    a, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, columns), "k")
    b = te.compute((8, columns), lambda i, j: element(a, i, j), name="B")
    return te.create_prim_func([a, te.compute((8,), lambda i: te.sum(b[i, k], k), name="C")])


KEEPING: list[tuple[Any, dict[str, Any]]] = [
    (lambda a, i, j: T.exp(a[i, j]), {"disallow_op": ()}),
    (
        lambda a, i, j: te.if_then_else(j < 4, a[i, j], const(0.0, "float32")),
        {"disallow_if_then_else": False},
    ),
    (
        lambda a, i, j: T.Select(j < 4, a[i, j], const(0.0, "float32")),
        {"disallow_if_then_else": False},
    ),
    (lambda a, i, j: a[i, i] + 1.0, {"require_injective": False}),
    (lambda a, i, j: a[j, i] + 1.0, {"require_ordered": False}),
]


@pytest.mark.parametrize(("element", "waived"), KEEPING)
def test_each_attribute_keeps_a_block(element: Any, waived: dict[str, Any]) -> None:
    func = reduced(element)
    (kept,) = apply(AutoInline(), func, "B")
    assert blocks(kept) == ["B", "C"]
    (inlined,) = apply(replace(AutoInline(), **waived), func, "B")
    assert blocks(inlined) == ["C"]
    assert_same(func, [inlined])


def test_indices_that_are_no_shifted_variables_are_not_injective() -> None:
    func = reduced(lambda a, i, j: a[i, j // 2])
    assert blocks(apply(AutoInline(), func, "B")[0]) == ["B", "C"]
    assert blocks(apply(replace(AutoInline(), require_injective=False), func, "B")[0]) == ["B", "C"]
    assert blocks(apply(ANY, func, "B")[0]) == ["C"]
    shifted = reduced(lambda a, i, j: a[i, j + 2], columns=6)
    assert blocks(apply(AutoInline(), shifted, "B")[0]) == ["C"]


def test_without_reductions_nothing_keeps_a_block() -> None:
    func = chain(T.exp, lambda x: x * 2.0)
    assert is_spatial_function(func)
    assert blocks(apply(AutoInline(), func, "B0")[0]) == ["B1"]
    assert not is_spatial_function(reduced(lambda a, i, j: a[i, j]))


def test_a_result_goes_into_its_producer_where_that_is_wanted() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0)
    assert blocks(apply(AutoInline(), func, "B1")[0]) == ["B0", "B1"]
    (sch,) = apply(AutoInline(into_producer=True), func, "B1")
    assert blocks(sch) == ["B0"]
    assert_same(func, [sch])
    alone = AutoInline(into_consumer=False)
    assert blocks(apply(alone, func, "B0")[0]) == ["B0", "B1"]


def test_a_result_does_not_go_into_a_reduction() -> None:
    a, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], k), name="B")
    func = te.create_prim_func([a, te.compute((8,), lambda i: b[i] * 2.0, name="C")])
    assert blocks(apply(AutoInline(into_producer=True), func, "C")[0]) == ["B", "C"]


@pytest.mark.parametrize(
    ("note", "left"),
    [('"meta_schedule.inline_rule": "disable"', ["B", "C"]), ('"other": "disable"', ["C"])],
)
def test_blocks_may_say_that_they_stay(note: str, left: list[str]) -> None:
    func = script(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.block_attr({{{note}}})
            B[v] = A[v] + 1.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * 2.0
""")
    assert blocks(apply(AutoInline(), func, "B")[0]) == left


def test_a_block_made_for_an_intrinsic_takes_nothing_in() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.block_attr({"meta_schedule.auto_tensorize": "copy"})
            B[v] = A[v] + 1.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * 2.0
""")
    assert blocks(apply(AutoInline(into_producer=True), func, "C")[0]) == ["B", "C"]


def test_what_reads_nothing_goes_anywhere() -> None:
    def element(a: Any, i: Any, j: Any) -> Any:
        return te.if_then_else(i < j, const(1.0, "float32"), const(0.0, "float32"))

    func = reduced(element)
    assert blocks(apply(AutoInline(), func, "B")[0]) == ["C"]
    assert blocks(apply(AutoInline(inline_const_tensor=False), func, "B")[0]) == ["B", "C"]


def test_outputs_and_roots_stay() -> None:
    func = chain(lambda x: x + 1.0)
    assert blocks(apply(ANY, func, "B0")[0]) == ["B0"]
    assert blocks(apply(ANY, func, "root")[0]) == ["B0"]


def test_roots_that_declare_what_they_write_stay() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + 1.0
""")
    assert blocks(apply(ANY, func, "root")[0]) == ["B"]


def test_what_nobody_reads_stays() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] * 2.0
""")
    assert blocks(apply(ANY, func, "B")[0]) == ["B", "C"]


def kept(statement: str, condition: str = "True") -> bool:
    """Whether the conditions keep a block, which makes "B" under a condition, for a sum "C"."""
    func = script(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where({condition})
            {statement}
    for i in range(8):
        with T.block("C"):
            v = T.axis.reduce(8, i)
            with T.init():
                C[()] = 0.0
            C[()] = C[()] + B[v]
""")
    sch = Schedule(func)
    block = sch.get_sref(sch.get_block("B"))
    return not AutoInline().allows(sch.state, block)


def test_conditions_around_statements_keep_a_block() -> None:
    assert not kept("B[v] = A[v]")
    assert kept("B[v] = A[v]", "i < 4")
    assert kept("""if v < 4:
                B[v] = A[v]""")
