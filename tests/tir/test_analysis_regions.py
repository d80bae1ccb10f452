"""Regions of accesses, held against the elements that are touched when the loops are run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tileloom.expr import (
    Broadcast,
    Call,
    Expr,
    IterVar,
    Let,
    Min,
    Range,
    Var,
    const,
    evaluate,
    intrin,
)
from tileloom.tir import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Stmt,
    While,
    make_buffer,
    seq,
)
from tileloom.tir.analysis import access_regions, allocated_buffers, infer_block_access
from tir.programs import at, block, load, loops, store

A = make_buffer((40, 40), "float32", "A")
B = make_buffer((64,), "float32", "B")
C = make_buffer((64,), "float32", "C")
N = make_buffer((64,), "int32", "N")
I, J, K, X = Var("i"), Var("j"), Var("k"), Var("x")


def shown(regions: Sequence[BufferRegion]) -> dict[str, str]:
    return {
        region.buffer.name: ", ".join(
            str(p.min) if str(p.extent) == "1" else f"{p.min}:+{p.extent}" for p in region.region
        )
        for region in regions
    }


def box(points: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """The least box around points: starts and extents."""
    return [(min(p), max(p) - min(p) + 1) for p in zip(*points, strict=True)]


#: Loops (variable, start, extent, which may use those outside), and two indices of `A`.
NESTS: list[tuple[list[tuple[Var, Any, Any]], tuple[Any, Any]]] = [
    ([(I, 0, 5), (J, 0, 3)], (I, J)),
    ([(I, 2, 5), (J, 1, 3)], (I + J, I * 2 + J)),
    ([(I, 0, 4), (J, 0, 8)], (I * 8 + J, 31 - I * 8 - J)),
    ([(I, 0, 6), (J, 0, 4)], (I * 4 // 3, (I * 4 + J) % 4)),
    ([(I, 0, 6), (J, 0, I + 1)], (J, I + J)),
    ([(I, 0, 6), (J, I, 3)], (J, I)),
    ([(I, 3, 4), (J, I * 2, 2)], (J, I)),
    ([(I, 0, 7), (J, 0, 2), (K, 0, 3)], (I * 2 + J * 3 + K, 20 - K * 5)),
    ([(I, 0, 1), (J, 5, 1)], (I + 3, J)),
    ([(I, 0, 10)], (Min(I, const(6)), I // 4)),
    ([(I, 0, 10)], (intrin.max(I, 6), 9 - I)),
    ([(I, 4, 12)], (I // 4, I % 16)),
    ([(I, 0, 12)], (I % 5, I // 5)),
    ([(I, 0, 3), (J, 0, 3)], (Let(X, I + J, X * 2), I)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NESTS)))
def test_boxes_are_those_of_the_elements_touched(number: int) -> None:
    nest, indices = NESTS[number]
    points: list[dict[Var, int]] = [{}]
    places = [as_index(i) for i in indices]
    for var, low, extent in nest:
        points = [
            {**env, var: value}
            for env in points
            for start in [value_of(low, env)]
            for value in range(start, start + value_of(extent, env))
        ]
    touched = [tuple(int(evaluate(i, env)) for i in places) for env in points]
    stmt: Stmt = BufferStore(A, load(A, *places[::-1]), tuple(places))
    for var, low, extent in reversed(nest):
        stmt = For(var, as_index(low), as_index(extent), "serial", stmt)
    reads, writes = access_regions(stmt)
    for (region,), points_of in ((writes, touched), (reads, [p[::-1] for p in touched])):
        assert region.buffer is A
        found = [(int(p.min), int(p.extent)) for p in region.region]  # type: ignore[call-overload]
        assert found == box(points_of)


def as_index(value: Any) -> Expr:
    return value if isinstance(value, Expr) else const(value)


def value_of(value: Any, env: Any) -> int:
    return int(evaluate(as_index(value), env))


def reads(stmt: Stmt) -> dict[str, str]:
    return shown(access_regions(stmt)[0])


def writes(stmt: Stmt) -> dict[str, str]:
    return shown(access_regions(stmt)[1])


def element(buffer: Any, *indices: Any) -> Call:
    return Call("handle", "tir.address_of", [BufferLoad(buffer, [as_index(i) for i in indices])])


@pytest.mark.parametrize(
    ("stmt", "read", "written"),
    [
        # What a statement evaluates on the way counts.
        (For(I, N[0], N[1], "serial", store(C, (I,), 0)), {"N": "0:+2"},
         {"C": "T.max(N[0], 0):+T.min(N[0] + N[1] - 1, 63) - T.max(N[0], 0) + 1"}),
        (IfThenElse(N[3] > 0, store(C, (1,), 0)), {"N": "3"}, {"C": "1"}),
        (IfThenElse(N[3] > 0, store(C, (1,), 0), store(C, (4,), 0)), {"N": "3"}, {"C": "1:+4"}),
        (LetStmt(X, N[3], store(C, (X,), 0)), {"N": "3"}, {"C": "N[3]"}),
        (While(N[3] > 0, store(N, (3,), 0)), {"N": "3"}, {"N": "3"}),
        (AssertStmt(N[5] > 0, "", store(C, (1,), 0)), {"N": "5"}, {"C": "1"}),
        (AttrStmt("n", "pragma", N[5], store(C, (1,), 0)), {"N": "5"}, {"C": "1"}),
        (store(C, (N[2],), load(B, N[4])), {"B": "N[4]", "N": "2:+3"}, {"C": "N[2]"}),
        (Evaluate(Let(X, N[2], B[X + 1] + C[X])), {"N": "2", "B": "N[2] + 1", "C": "N[2]"}, {}),
        # Threads run as loops do; other attributes are no loops.
        (AttrStmt(IterVar(None, I, 1, "threadIdx.x"), "thread_extent", const(8),
                  store(C, (I + 2,), load(B, I * 2))), {"B": "0:+15"}, {"C": "2:+8"}),
        (AttrStmt(IterVar(None, I, 1, "threadIdx.x"), "pragma", const(8), store(C, (I,), 0)),
         {}, {"C": "i"}),
        # Conditions narrow both sides, of statements and of values.
        (loops((20,), lambda i: IfThenElse(i < 5, store(C, (i,), 0), store(B, (i,), 0))),
         {}, {"C": "0:+5", "B": "5:+15"}),
        (loops((20,), lambda i: IfThenElse(i >= 7, store(C, (i,), 0))), {}, {"C": "7:+13"}),
        (loops((20,), lambda i: Evaluate(intrin.if_then_else(i < 3, B[i], C[i]))),
         {"B": "0:+3", "C": "3:+17"}, {}),
        (loops((20,), lambda i: LetStmt(X, i < 3, Evaluate(const(0)))), {}, {}),
        (loops((20,), lambda i: LetStmt(K, i + 4, IfThenElse(K < 9, store(C, (K,), 0)))),
         {}, {"C": "4:+5"}),
        # An atomic call reads and writes its element, and reads its operands and indices.
        (loops((4,), lambda i: Evaluate(Call("int32", "tir.atomic_add", (
            element(N, i + 3), const(1))))), {"N": "3:+4"}, {"N": "3:+4"}),
        (loops((4,), lambda i: Evaluate(Call("float32", "tir.atomic_add", (
            element(C, N[i]), load(B, i * 2))))),
         {"C": "0:+64", "N": "0:+4", "B": "0:+7"}, {"C": "0:+64"}),
        # An address may reach all of its buffer.
        (Evaluate(Call("int32", "tir.call_extern", (element(B, 3),))),
         {"B": "0:+64"}, {"B": "0:+64"}),
        (Evaluate(Call("int32", "tir.call_extern", (const(1), load(B, 3)))), {"B": "3"}, {}),
        (BufferStore(C, Broadcast(const(0.0), 4), (Broadcast(I, 4),)), {}, {"C": "0:+64"}),
    ],
    ids=lambda value: str(value).strip().split("\n")[0] if isinstance(value, Stmt) else "",
)  # fmt: skip
def test_what_statements_touch(stmt: Stmt, read: dict[str, str], written: dict[str, str]) -> None:
    assert reads(stmt) == read
    assert writes(stmt) == written


def test_known_domains_cut_nothing_but_prove() -> None:
    """A variable outside stays as it is; what is known of it cuts the region at the buffer."""
    body = loops((3,), lambda i: store(C, (X + i,), 0))
    (open_,) = access_regions(body)[1]
    assert "T.max" in str(open_.region[0].min) or "T.min" in str(open_.region[0].extent)
    assert shown(access_regions(body, {X: Range(0, 60)})[1]) == {"C": "x:+3"}
    last = access_regions(body, {X: Range(0, 63)})[1][0].region[0]
    assert str(last.min) == "x"
    for x, extent in ((0, 3), (60, 3), (61, 3), (62, 2)):
        assert evaluate(last.extent, {X: x}) == extent


def blocks_accesses(body: Stmt, **fields: Any) -> tuple[dict[str, str], dict[str, str]]:
    found = infer_block_access(Block((), (), (), "b", body, **fields))
    return shown(found[0]), shown(found[1])


def test_pointers_that_a_block_may_reach() -> None:
    extern = Evaluate(Call("int32", "tir.call_extern", (B.data, load(C, 1))))
    kind = Call("float32", "tir.type_annotation", ())
    pointer = Call("handle", "tir.tvm_access_ptr", (kind, B.data, const(5), const(1), const(3)))
    atomic = Evaluate(Call("float32", "tir.atomic_add", (pointer, load(C, 2))))
    node = Block((), (), (), "b", extern)
    assert shown(infer_block_access(node)[0]) == {"C": "1"}
    assert [shown(r) for r in infer_block_access(node, (B,))] == [
        {"B": "0:+64", "C": "1"},
        {"B": "0:+64"},
    ]
    node = Block((), (), (), "b", atomic)
    assert [shown(r) for r in infer_block_access(node)] == [{"C": "2"}, {}]
    assert [shown(r) for r in infer_block_access(node, (B,))] == [
        {"B": "0:+64", "C": "2"},
        {"B": "0:+64"},
    ]


def test_views_of_views() -> None:
    """Places in a view count from where it begins; leading unit axes may be left out."""
    row = make_buffer((20,), "float32", "row")
    part = make_buffer((8,), "float32", "part")
    matches = (
        MatchBufferRegion(row, BufferRegion(A, (Range(7, 1), Range(const(10), 20)))),
        MatchBufferRegion(part, BufferRegion(row, (Range(const(3), 8),))),
    )
    for index, place in ((2, "7, 15"), (0, "7, 13")):
        found = blocks_accesses(store(part, (index,), load(row, 1)), match_buffers=matches)
        assert found == ({"A": "7, 11"}, {"A": place})
    spread = loops((4,), lambda i: store(part, (i * 2,), load(part, 7 - i)))
    assert blocks_accesses(spread, match_buffers=matches) == (
        {"A": "7, 17:+4"}, {"A": "7, 13:+7"},
    )  # fmt: skip


def test_inner_blocks_are_run_for_their_values() -> None:
    def inner(v: Expr, predicate: Any = True) -> Stmt:
        return block(
            "inner", "S", (40,), lambda w: Evaluate(const(0)), values=[v], predicate=predicate,
            reads=lambda w: (BufferRegion(B, (Range(w, 3),)),),
            writes=lambda w: (at(C, (w * 2,)),),
        )  # fmt: skip

    nested = loops((10,), lambda i: inner(i + 4))
    assert (reads(nested), writes(nested)) == ({"B": "4:+12"}, {"C": "8:+19"})
    some = loops((10,), lambda i: inner(i + 4, i < 3))
    assert (reads(some), writes(some)) == ({"B": "4:+5"}, {"C": "8:+5"})
    loaded = inner(N[6])
    assert reads(loaded)["N"] == "6"
    let = loops((10,), lambda i: LetStmt(X, i * 2, inner(X + 1)))
    assert (reads(let), writes(let)) == ({"B": "1:+21"}, {"C": "2:+37"})


def test_memory_of_blocks_inside() -> None:
    other = make_buffer((4,), name="other")
    root = Block((), (), (), "root", store(C, (0,), load(B, 1)), alloc_buffers=(B, other))
    stmt = BlockRealize((), const(True), root)
    assert allocated_buffers(stmt) == (B, other)
    assert allocated_buffers(seq(store(C, (0,), 0), stmt)) == (B, other)
    assert allocated_buffers(store(C, (0,), 0)) == ()
    # A statement's own memory is no region of it, a block's own neither.
    body = loops((2,), lambda i: store(C, (i,), load(B, 1)))
    assert blocks_accesses(body, alloc_buffers=(B,)) == ({}, {"C": "0:+2"})
    assert blocks_accesses(body, alloc_buffers=(C,)) == ({"B": "1"}, {})


@pytest.mark.parametrize("size", [1, 3, 4, 8])
@pytest.mark.parametrize("low", [-2, 0, 60])
def test_regions_end_where_the_buffer_ends(low: int, size: int) -> None:
    stmt = loops((size,), lambda i: store(C, (i + low,), load(C, i + low)))
    touched = [i + low for i in range(size) if 0 <= i + low < 64]
    if size == 1:
        touched = [low]  # one element stays as it is, wherever it lies
    for regions in access_regions(stmt):
        (part,) = regions[0].region
        assert (int(part.min), int(part.extent)) == (touched[0], len(touched))  # type: ignore[call-overload]
