"""Access regions, common ancestors, undefined variables and the graph of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.expr import (
    Broadcast,
    Call,
    Expr,
    IterVar,
    Let,
    Max,
    Min,
    Ramp,
    Range,
    Select,
    SizeVar,
    Var,
    const,
)
from tileloom.expr.evaluate import evaluate
from tileloom.tir import (
    Block,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    While,
    collect,
    make_buffer,
    seq,
)
from tileloom.tir.analysis import (
    access_regions,
    detect_buffer_lca,
    infer_block_access,
    undefined_vars,
    union_regions,
    used_buffers,
)
from tileloom.tir.analysis_intervals import Intervals
from tir.programs import at, block, func, load, loops, matmul, softmax, store

A = make_buffer((16, 16), "float32", "A")
B = make_buffer((64,), "float32", "B")
C = make_buffer((64,), "float32", "C")


def shown(regions: Sequence[BufferRegion]) -> dict[str, str]:
    return {
        region.buffer.name: ", ".join(
            str(p.min) if str(p.extent) == "1" else f"{p.min}:+{p.extent}" for p in region.region
        )
        for region in regions
    }


def accesses(
    axes: tuple[int, ...],
    body: Callable[..., Any],
    init: Callable[..., Any] | None = None,
    **fields: Any,
) -> tuple[dict[str, str], ...]:
    """What a block over variables of these extents reads and writes, as text."""
    names = [IterVar(Range(0, extent), Var(f"v{k}")) for k, extent in enumerate(axes)]
    variables = [axis.var for axis in names]
    start = None if init is None else init(*variables)
    node = Block(tuple(names), (), (), "b", body(*variables), start, **fields)
    reads, writes = infer_block_access(node)
    return shown(reads), shown(writes)


@pytest.mark.parametrize("name", ["top", "E", "total", "Y"])
def test_inferred_regions_are_those_declared(name: str) -> None:
    for program in (softmax(5, 7), matmul(2, 3, 4)):
        for node in collect(program.body, Block):
            if node.name_hint in (name, "C"):
                reads, writes = infer_block_access(node)
                assert shown(reads) == shown(node.reads)
                assert shown(writes) == shown(node.writes)


def test_an_update_without_init_reads_what_it_writes() -> None:
    def add(i: Var) -> Any:
        return store(C, (i,), load(C, i) + load(B, i))

    assert accesses((64,), add) == ({"C": "v0", "B": "v0"}, {"C": "v0"})
    assert accesses((64,), add, lambda i: store(C, (i,), 0)) == ({"B": "v0"}, {"C": "v0"})


def test_loops_inside_run() -> None:
    def tile(v: Var) -> Any:
        return loops((4, 3), lambda i, j: store(C, (v * 4 + i,), load(A, v + j, i * 3 + j)))

    assert accesses((4,), tile) == ({"A": "v0:+3, 0:+12"}, {"C": "v0 * 4:+4"})


def test_extents_of_inner_loops_may_depend_on_outer_ones() -> None:
    i, j = Var("i"), Var("j")
    body = For(
        i, const(0), const(8), "serial", For(j, const(0), i + 1, "serial", store(C, (j,), 0))
    )
    assert shown(access_regions(body)[1]) == {"C": "0:+8"}


def test_regions_are_cut_off_at_the_buffer() -> None:
    def window(v: Var) -> Any:
        return loops((3,), lambda k: store(C, (v,), load(B, v + k - 1)))

    reads, _ = accesses((64,), window)
    assert "T.max(v0 - 1, 0):+" in reads["B"]
    assert "T.min(v0 + 1, 63)" in reads["B"]


def test_conditions_narrow_what_loops_reach() -> None:
    def padded(guard: Callable[..., Any]) -> Any:
        return loops((20,), lambda i: store(A, (0, 0), guard(i, load(B, i - 2))))

    def choose(i: Var, value: Expr) -> Expr:
        inside = (i >= 2) & (i < 12)
        return Call("float32", "tir.if_then_else", [inside, value, const(0.0)])

    assert shown(access_regions(padded(choose))[0]) == {"B": "0:+10"}
    branch = loops((20,), lambda i: IfThenElse(i < 5, store(C, (i,), 0), store(B, (i,), 0)))
    assert shown(access_regions(branch)[1]) == {"C": "0:+5", "B": "5:+15"}


def test_unions() -> None:
    body = seq(store(C, (3,), 0), store(C, (8,), 0), loops((2,), lambda i: store(C, (i + 5,), 0)))
    assert shown(access_regions(body)[1]) == {"C": "3:+6"}
    n = SizeVar("n")
    one, two = (BufferRegion(B, (Range(lo, size),)) for lo, size in [(n, 4), (n + 2, 4)])
    assert shown([union_regions(one, two)]) == {"B": "n:+6"}
    assert union_regions(one, one).region == one.region


def test_indirect_accesses_cover_the_axis() -> None:
    index = make_buffer((64,), "int32", "index")

    def gather(v: Var) -> Any:
        return loops((4,), lambda k: store(C, (v,), load(B, load(index, v * 4 + k))))

    assert accesses((16,), gather) == ({"B": "0:+64", "index": "v0 * 4:+4"}, {"C": "v0"})

    def direct(v: Var) -> Any:
        return store(C, (v,), load(B, load(index, v)))

    assert accesses((16,), direct)[0] == {"B": "index[v0]", "index": "v0"}


def test_lets_and_vectors() -> None:
    x, y = Var("x"), Var("y")
    body = loops((4,), lambda i: LetStmt(x, i * 2, store(C, (x,), Let(y, x + 1, load(B, y)))))
    reads, writes = access_regions(body)
    assert shown(reads) == {"B": "1:+7"}
    assert shown(writes) == {"C": "0:+7"}
    lanes = BufferStore(C, Broadcast(const(0.0), 4), (Ramp(const(8), const(2), 4),))
    assert shown(access_regions(lanes)[1]) == {"C": "8:+7"}


def test_inner_blocks_count_by_what_they_declare() -> None:
    def inner(v: Var) -> Any:
        return block(
            "inner", "S", (4,), lambda w: Evaluate(const(0)),
            reads=lambda w: (BufferRegion(B, (Range(w * 2, 2),)),),
            writes=lambda w: (at(C, (w,)),),
        )  # fmt: skip

    assert accesses((4,), inner) == ({"B": "0:+8"}, {"C": "0:+4"})


def test_views_and_pointers() -> None:
    sub = make_buffer((4,), "float32", "sub")
    source = BufferRegion(A, (Range(const(3), 1), Range(const(8), 4)))
    views = (MatchBufferRegion(sub, source),)

    def body(v: Var) -> Any:
        return loops((2,), lambda i: store(sub, (i + 1,), 0))

    assert accesses((1,), body, match_buffers=views) == ({}, {"A": "3, 9:+2"})
    extern = Evaluate(Call("int32", "tir.call_extern", [B.data]))
    reads, writes = infer_block_access(Block((), (), (), "x", extern), [B])
    assert shown(reads) == shown(writes) == {"B": "0:+64"}


def test_own_memory_does_not_count() -> None:
    assert accesses((1,), lambda v: store(C, (v,), load(B, v)), alloc_buffers=(B,)) == (
        {},
        {"C": "v0"},
    )


X, Y, N = Var("x"), Var("y"), Var("n")
INDEX = st.recursive(
    st.sampled_from([X, Y, N]) | st.integers(-9, 9).map(const),
    lambda t: (
        st.builds(lambda a, b: a + b, t, t)
        | st.builds(lambda a, b: a - b, t, t)
        | st.builds(lambda a, c: a * c, t, st.integers(-3, 3))
        | st.builds(lambda a, c: a // c, t, st.integers(1, 5))
        | st.builds(lambda a, c: a % c, t, st.integers(1, 5))
        | st.builds(lambda a, b: Min(a, b), t, t)
        | st.builds(lambda a, b: Max(a, b), t, t)
        | st.builds(lambda a, b: Select(a < b, a, b), t, t)
    ),
    max_leaves=6,
)


@given(INDEX, st.integers(-2, 3), st.integers(1, 5))
def test_intervals_hold_all_values(expr: Expr, low: int, size: int) -> None:
    intervals = Intervals()
    intervals.run(X, Range(low, size))
    intervals.run(Y, Range(X, 3))
    for condition in (None, X + Y < 4):
        if condition is None:
            found = intervals.of(expr)
        else:
            with intervals.under(condition):
                found = intervals.of(expr)
        for n, x in itertools.product((-7, 0, 5), range(low, low + size)):
            for y in range(x, x + 3):
                if condition is not None and x + y >= 4:
                    continue
                value = evaluate(expr, {X: x, Y: y, N: n})
                first, last = found
                assert first is None or evaluate(first, {N: n}) <= value
                assert last is None or value <= evaluate(last, {N: n})


def test_intervals_are_exact_on_split_indices() -> None:
    i, j = Var("i"), Var("j")
    intervals = Intervals()
    intervals.run(i, Range(0, 4))
    intervals.run(j, Range(0, 8))
    for index, low, high in [
        (i * 8 + j, 0, 31),
        ((i * 8 + j) // 8, 0, 3),
        ((i * 8 + j) % 8, 0, 7),
        (i * 8 + j - i * 8, 0, 7),
        (7 - j, 0, 7),
    ]:
        found: Any = intervals.of(index)
        assert [int(end) for end in found] == [low, high]


# ---------------------------------------------------------------------------- names


def test_used_buffers_and_undefined_vars() -> None:
    n, x = SizeVar("n"), Var("x")
    body = loops((n,), lambda i: store(C, (i + x,), load(B, i)))
    assert used_buffers(body) == (C, B)
    assert undefined_vars(body) == (n, B.data, x, C.data)
    assert undefined_vars(func((B, C), body)) == (n, x)
    assert undefined_vars(func((B, C, n, x), body)) == ()
    for program in (softmax(2, 3), matmul(n, n, 3)):
        assert undefined_vars(program) == ()


# ---------------------------------------------------------------------------- ancestors


def test_common_ancestors() -> None:
    program: Any = softmax(3, 4)
    lca = {b.name: s for b, s in detect_buffer_lca(program).items()}
    root = program.body.block
    assert lca["X"] is lca["top"] is lca["E"] is root
    first: Any = loops((4, 4), lambda i, j: seq(store(B, (i,), 0), store(C, (j,), load(B, i))))
    found = detect_buffer_lca(func((B, C), seq(first, store(C, (0,), 0))))
    assert found[B] is first.body
    assert found[C] is None


def test_a_reduction_keeps_its_buffer_outside() -> None:
    program = matmul(2, 3, 4)
    lca = {b.name: s for b, s in detect_buffer_lca(program).items()}
    j = collect(program.body, For)[1]
    assert lca["C"] is j
    assert lca["A"] is lca["B"] is collect(program.body, Block)[0]


def test_conditions_of_while_loops_are_inside() -> None:
    loop = While(load(B, 0) > 0, store(B, (0,), 0))
    assert detect_buffer_lca(func((B,), loop))[B] is loop
