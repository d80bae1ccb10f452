"""From loops to flat: indices, vectors, copies, partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lower.programs import TRUE, check, function, nest
from tileloom.base.errors import InternalError
from tileloom.driver import build
from tileloom.expr import (
    And,
    Call,
    Expr,
    Ramp,
    Select,
    Var,
    binary,
    const,
)
from tileloom.lower import lower
from tileloom.lower.analysis.linear import linear
from tileloom.lower.loops.flatten_buffers import flatten_buffers
from tileloom.lower.loops.hoist_if import hoist_if
from tileloom.lower.loops.legalize_parallel import legalize_parallel
from tileloom.lower.loops.loop_partition import loop_partition
from tileloom.lower.loops.narrow_index_dtype import narrow_index_dtype
from tileloom.lower.loops.remove_no_op import remove_no_op
from tileloom.lower.loops.simplify import simplify
from tileloom.lower.loops.unroll_loops import unroll_loops
from tileloom.lower.vector.vectorize_loops import vectorize_loops
from tileloom.tir import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    While,
    collect,
    make_buffer,
    seq,
)
from tileloom.tir.run import run


def likely(condition: Expr) -> Expr:
    return Call("bool", "tir.likely", (condition,))


def stores(func: PrimFunc) -> Any:
    return collect(func.body, BufferStore)


def loops(func: PrimFunc) -> list[For]:
    return collect(func.body, For)


# ---------------------------------------------------------------------------- indices


def test_linear_forms() -> None:
    i, j = Var("i"), Var("j")
    same = [((i * 4 + j) * 3, i * 12 + j * 3), ((i * 8 + 5) // 4, i * 2 + 1), ((i * 8 + 5) % 4, 1)]
    for a, b in same:
        assert linear(a).same_as(linear(const(b) if isinstance(b, int) else b))
    assert not linear((i * 8 + j) // 4).same_as(linear(i * 2 + j))


@pytest.mark.parametrize(
    ("fields", "indices", "expected"),
    [
        ({}, (3, "i", "j"), "i * 7 + j + 105"),
        ({"strides": (100, 10, 2)}, (3, "i", "j"), "i * 10 + j * 2 + 300"),
        ({"elem_offset": const(9)}, (0, "i", "j"), "i * 7 + j + 9"),
    ],
)
def test_row_major(fields: dict[str, Any], indices: tuple[int, str, str], expected: str) -> None:
    variables = {"i": Var("i"), "j": Var("j")}
    A = make_buffer((4, 5, 7), "float32", "A", **fields)
    at: Any = [variables[x] if isinstance(x, str) else const(x) for x in indices]
    body = nest(BufferStore(A, A[tuple(at)], at), (variables["i"], 5), (variables["j"], 7))
    (store,) = stores(flatten_buffers(function(body, A, root=False)))
    assert linear(store.indices[0]).same_as(linear(store.value.indices[0]))
    assert str(store.indices[0]) == expected
    assert store.buffer.ndim == 1 and store.buffer.elem_offset is None


def test_scalar_buffers_have_one_element() -> None:
    A = make_buffer((), "float32", "A")
    flat: Any = flatten_buffers(function(BufferStore(A, A[()] + 1.0, ()), A, root=False))
    assert flat.buffers[0].shape == (1,)
    assert stores(flat)[0].indices == (0,)


def test_long_buffers_are_indexed_in_64_bits() -> None:
    i, j = Var("i"), Var("j")
    for side, kind in ((40_000, "int32"), (70_000, "int64")):
        A = make_buffer((side, side), "int8", "A")
        func = function(
            nest(BufferStore(A, const(1, "int8"), (i, j)), (i, side), (j, side)), A, root=False
        )
        assert stores(lower(func))[0].indices[0].dtype == kind


def test_unknown_shapes_are_indexed_in_64_bits() -> None:
    n, m, i, j = Var("n"), Var("m"), Var("i"), Var("j")
    A = make_buffer((n, m), "float32", "A")
    func = function(nest(BufferStore(A, const(1.0), (i, j)), (i, n), (j, m)), A, root=False)
    assert stores(flatten_buffers(func))[0].indices[0].dtype == "int64"


def test_64_bit_loops_are_narrowed() -> None:
    i, j = Var("i", "int64"), Var("j", "int64")
    A, B = make_buffer((6, 7), "int64", "A"), make_buffer((1 << 33,), "int8", "B")
    body = nest(BufferStore(A, i * j + (1 << 40), (i, j)), (i, 6), (j, 7))
    func = function(body, A, root=False)
    narrow = narrow_index_dtype(flatten_buffers(func))
    assert {loop.loop_var.dtype for loop in loops(narrow)} == {"int32"}
    assert stores(narrow)[0].indices[0].dtype == "int32"
    check(func)
    far = function(nest(BufferStore(B, const(1, "int8"), (i * (1 << 30),)), (i, 8)), B, root=False)
    assert stores(narrow_index_dtype(far))[0].indices[0].dtype == "int64"


def test_flatten_wants_no_blocks() -> None:
    from lower.programs import matmul

    with pytest.raises(InternalError, match="met the block"):
        flatten_buffers(matmul(2, 2, 2))


# ---------------------------------------------------------------------------- vectors


def vector_store(
    value: Callable[..., Any],
    index: Callable[..., Any] | None = None,
    extent: int = 8,
    guard: Callable[..., Any] | None = None,
    size: int = 64,
) -> PrimFunc:
    """OUT[index(v)] = value(IN, v) in a vectorised loop."""
    IN, OUT, v = make_buffer((size,), "int32", "I"), make_buffer((size,), "int32", "O"), Var("v")
    body: Any = BufferStore(OUT, value(IN, v), (v if index is None else index(v),))
    if guard is not None:
        body = IfThenElse(guard(IN, v), body)
    return function(nest(body, (v, extent, "vectorized")), IN, OUT, root=False)


@pytest.mark.parametrize(
    ("value", "index", "expected"),
    [
        (lambda A, v: A[v], None, "I[T.Ramp(0, 1, 8)]"),
        (lambda A, v: A[v * 2 + 1], lambda v: v * 3, "I[T.Ramp(1, 2, 8)]"),
        (lambda A, v: A[7 - v], None, "I[T.Ramp(7, -1, 8)]"),
        (lambda A, v: A[3], None, "T.Broadcast(I[3], 8)"),
        (lambda A, v: A[v // 8 + v % 8], None, "I[T.Ramp(0, 1, 8)]"),
        (lambda A, v: v * 2, None, "T.Ramp(0, 2, 8)"),
    ],
)
def test_vectors(
    value: Callable[..., Any], index: Callable[..., Any] | None, expected: str
) -> None:
    func = vector_store(value, index)
    (store,) = stores(vectorize_loops(func))
    assert str(store.value) == expected
    assert store.indices[0].dtype.lanes == 8
    check(func)


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 7, 63, 64, 65, 130])
def test_any_length(extent: int) -> None:
    func = vector_store(lambda A, v: A[v] * 3 + v, extent=extent, size=130)
    flat = check(func)
    assert all(s.value.dtype.lanes <= 64 for s in stores(flat))
    assert all(loop.kind == "serial" for loop in loops(flat))


def test_guards_become_masks() -> None:
    """I[v * 9] would be out of bounds where the guard fails."""
    func = vector_store(
        lambda A, v: A[v * 9] + A[v - 1], None, 16, lambda A, v: binary(And, v > 0, v * 9 < 64)
    )
    (store,) = stores(vectorize_loops(func))
    assert store.predicate is not None
    check(func)


@pytest.mark.parametrize("lanes", [2, 4])
def test_what_all_lanes_read_is_loaded_if_one_wants_it(lanes: int) -> None:
    A, B, C = (make_buffer((40,), "int32", name) for name in "ABC")
    o, v = Var("o"), Var("v")
    at = o * lanes + v
    body = IfThenElse(B[at] > 0, BufferStore(A, A[at] * C[o + B[0] % 2], (at,)))
    func = function(nest(body, (o, 40 // lanes), (v, lanes, "vectorized")), A, B, C, root=False)
    check(func)
    a, b = np.arange(1, 41).astype("int32"), np.arange(40).astype("int32") % 3
    wanted = np.where(b > 0, a * (np.arange(40) // lanes), a)
    build(func)(a, b, np.arange(40).astype("int32"))
    assert np.array_equal(a, wanted)


def test_a_single_guard_lets_scalar_loads_stay_scalar() -> None:
    A, o, v = make_buffer((41,), "int32", "A"), Var("o"), Var("v")
    at = o * 8 + v
    body = IfThenElse(at < 35, BufferStore(A, A[at] * A[40], (at,)))
    func = function(nest(body, (o, 5), (v, 8, "vectorized")), A, root=False)
    flat = vectorize_loops(func)
    assert [str(branch.condition) for branch in collect(flat.body, IfThenElse)] == ["o * 8 < 35"]
    assert "Broadcast(A[40], 8)" in str(stores(flat)[0].value)
    check(func)


def test_a_mask_does_not_see_what_is_stored_under_it() -> None:
    A, B, v = make_buffer((8,), "int32", "A"), make_buffer((8,), "int32", "B"), Var("v")
    yes = seq(BufferStore(A, const(-5), (v,)), BufferStore(B, const(1), (v,)))
    no = seq(BufferStore(A, const(5), (v,)), BufferStore(B, const(2), (v,)))
    for condition in (A[v] > 0, binary(And, A[v] > 0, B[v] > 0)):
        loop = nest(IfThenElse(condition, yes, no), (v, 8, "vectorized"))
        check(function(loop, A, B, root=False))


@pytest.mark.parametrize(
    "value",
    [
        lambda A, v: Call("int32", "tir.if_then_else", (v < 4, A[v + 60], A[v - 4])),
        lambda A, v: Select(binary(And, v < 4, A[v] > 3), A[v], const(5)),
        lambda A, v: Call("int32", "tir.if_then_else", (A[0] > 0, A[v], const(5))),
        lambda A, v: Call(
            "int32", "tir.if_then_else", (binary(And, v < 4, A[v + 60] > 0), A[v], v)
        ),
        lambda A, v: Call("int32", "tir.if_then_else", (A[v] != 0, const(100) // A[v], const(-1))),
    ],
)
def test_choices(value: Callable[..., Any]) -> None:
    check(vector_store(value))


@pytest.mark.parametrize("kind", ["accumulate", "last", "while", "extern", "assert"])
def test_what_cannot_be_vectors_stays_serial(kind: str) -> None:
    A, v = make_buffer((16,), "int32", "A"), Var("v")
    zero = const(0)
    body = {
        "accumulate": BufferStore(A, A[zero] + A[v], (zero,)),
        "last": BufferStore(A, A[v + 1], (zero,)),
        "while": While(A[v] > 0, BufferStore(A, A[v] - 1, (v,))),
        "extern": Evaluate(Call("int32", "tir.call_extern", (v,))),
        "assert": AssertStmt(v < 10, "small", BufferStore(A, v, (v,))),
    }[kind]
    func = function(nest(body, (v, 8, "vectorized")), A, root=False)
    flat = vectorize_loops(func)
    assert [loop.kind for loop in loops(flat)] == ["serial"]
    if kind != "extern":
        check(func)


def test_memory_inside_a_vector_loop_is_one_for_each_lane() -> None:
    A, local, v, k = (
        make_buffer((8,), "int32", "A"),
        make_buffer((3,), "int32", "L"),
        Var("v"),
        Var("k"),
    )
    body = seq(
        nest(BufferStore(local, A[v] * k, (k,)), (k, 3)),
        BufferStore(A, local[0] + local[1] * 10 + local[2] * 100, (v,)),
    )
    body = Allocate(local.data, local.dtype, local.shape, TRUE, DeclBuffer(local, body))
    func = function(nest(body, (v, 8, "vectorized")), A, root=False)
    flat = check(func)
    assert collect(flat.body, Allocate)[0].extents == (24,)  # type: ignore[comparison-overlap]
    assert all(store.value.dtype.lanes == 8 for store in stores(flat))


def test_a_dynamic_vector_loop_is_serial() -> None:
    A, v, n = make_buffer((8,), "int32", "A"), Var("v"), Var("n")
    func = PrimFunc(
        (n, p := Var("p", "handle")), nest(BufferStore(A, v, (v,)), (v, n, "vectorized")), {p: A}
    )
    (loop,) = loops(lower(func))
    assert loop.kind == "serial"


# ---------------------------------------------------------------------------- parallel


def parallel_program(index: Callable[..., Any], value: Callable[..., Any]) -> PrimFunc:
    A, B, i = make_buffer((8,), "int32", "A"), make_buffer((8,), "int32", "B"), Var("i")
    body = BufferStore(B, value(A, B, i), (index(i),))
    return function(nest(body, (i, 8, "parallel")), A, B, root=False)


def test_parallel_iterations_do_not_share() -> None:
    def add(A: Buffer, B: Buffer, i: Var) -> Any:
        return B[0] + A[i]

    shared = legalize_parallel(parallel_program(lambda i: const(0), add))
    own = legalize_parallel(parallel_program(lambda i: i, lambda A, B, i: B[i] + A[i]))
    assert [loops(f)[0].kind for f in (shared, own)] == ["serial", "parallel"]


def test_one_level_of_parallelism() -> None:
    A, i, j, k = make_buffer((4, 4, 4), "int32", "A"), Var("i"), Var("j"), Var("k")
    body = nest(BufferStore(A, k, (i, j, k)), (i, 4), (j, 4, "parallel"), (k, 4, "parallel"))
    kinds = [loop.kind for loop in loops(legalize_parallel(function(body, A, root=False)))]
    assert kinds == ["serial", "parallel", "serial"]


# ---------------------------------------------------------------------------- copies


def test_unrolling() -> None:
    A, i, j, t = make_buffer((3, 2), "int32", "A"), Var("i"), Var("j"), Var("t")
    body = LetStmt(t, i * 2, nest(BufferStore(A, t + j, (i, j)), (j, 2)))
    func = function(nest(body, (i, 3, "unrolled")), A, root=False)
    flat = unroll_loops(func)
    lets, inner = collect(flat.body, LetStmt), loops(flat)
    assert len({x.var for x in lets}) == 3 and len({x.loop_var for x in inner}) == 3
    check(func)


@pytest.mark.parametrize(
    ("step", "explicit", "kinds"), [(8, 1, []), (8, 0, ["unrolled"]), (3, 1, ["serial"])]
)
def test_automatic_unrolling(step: int, explicit: int, kinds: list[str]) -> None:
    A, i = make_buffer((4,), "int32", "A"), Var("i")
    loop = nest(BufferStore(A, i, (i,)), (i, 4))
    body = AttrStmt(Var("n"), "pragma_unroll_explicit", const(explicit), loop)
    body = AttrStmt(Var("n"), "pragma_auto_unroll_max_step", const(step), body)
    flat = unroll_loops(function(body, A, root=False))
    assert [x.kind for x in loops(flat)] == kinds
    assert not collect(flat.body, AttrStmt)


def test_huge_unrolled_loops_are_left() -> None:
    A, i = make_buffer((5000,), "int32", "A"), Var("i")
    func = function(nest(BufferStore(A, i, (i,)), (i, 5000, "unrolled")), A, root=False)
    assert [loop.kind for loop in loops(unroll_loops(func))] == ["unrolled"]


# ---------------------------------------------------------------------------- partitions


def tiles(n: int, tile: int, kind: str = "serial", inner: str = "vectorized") -> PrimFunc:
    A, B, o, v = (
        make_buffer((n,), "int32", "A"),
        make_buffer((n,), "int32", "B"),
        Var("o"),
        Var("v"),
    )
    at = o * tile + v
    body = IfThenElse(likely(at < n), BufferStore(B, A[at] * 2, (at,)))
    return function(nest(body, (o, -(-n // tile), kind), (v, tile, inner)), A, B, root=False)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100, 103])
@pytest.mark.parametrize("kind", ["serial", "parallel", "unrolled"])
@pytest.mark.parametrize("inner", ["vectorized", "serial"])
def test_no_guard_is_left(n: int, kind: str, inner: str) -> None:
    flat = check(tiles(n, 8, kind, inner))
    assert all(store.predicate is None for store in stores(flat))
    assert len(collect(flat.body, IfThenElse)) <= (1 if kind == "parallel" else 0)
    assert "likely" not in " ".join(str(b.condition) for b in collect(flat.body, IfThenElse))


def test_partition_of_unknown_length() -> None:
    n, o, v = Var("n"), Var("o"), Var("v")
    A = make_buffer((n,), "int32", "A")
    at = o * 8 + v
    body: Any = IfThenElse(likely(at < n), BufferStore(A, A[at] + at, (at,)))
    body = nest(body, (o, (n + 7) // 8), (v, 8, "vectorized"))
    func = PrimFunc((p := Var("p", "handle"), n), body, {p: A})
    flat = lower(func)
    unmasked = [s for s in stores(flat) if s.value.dtype.lanes == 8 and s.predicate is None]
    assert unmasked, "the main part has whole vectors"
    for size in (0, 1, 7, 8, 9, 40):
        a = np.arange(size, dtype="int32")
        run(flat, a, size)
        np.testing.assert_array_equal(a, np.arange(size) * 2)


@pytest.mark.parametrize("n", [1, 9, 64, 70, 96, 101])
def test_a_parallel_loop_leaves_an_earlier_end_to_one_inside(n: int) -> None:
    """Tasks of 4 tiles of 8: the last one has fewer tiles."""
    A, B = make_buffer((8 * n,), "int32", "A"), make_buffer((8 * n,), "int32", "B")
    o, t, v = Var("o"), Var("t"), Var("v")
    at = o * 32 + t * 8 + v
    body = IfThenElse(likely(at < 8 * n), BufferStore(B, A[at] * 2, (at,)))
    loops_around = (o, -(-n // 4), "parallel"), (t, 4), (v, 8, "vectorized")
    flat = check(function(nest(body, *loops_around), A, B, root=False))
    assert not collect(flat.body, IfThenElse) and len(stores(flat)) == 1


@pytest.mark.parametrize("n", [1, 7, 8, 33, 64, 65])
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_only_what_is_guarded_is_doubled(n: int, kind: str) -> None:
    tiles_, A = -(-n // 8), make_buffer((8 * n,), "int32", "A")
    B, S = make_buffer((n,), "int32", "B"), make_buffer((8 * tiles_,), "int32", "S")
    o, k, u, v = (Var(name) for name in "okuv")
    at = o * 8 + v
    total = seq(
        nest(BufferStore(S, const(0), (o * 8 + u,)), (u, 8)),
        nest(BufferStore(S, S[o * 8] + A[k], (o * 8,)), (k, 8 * n)),
    )
    result = IfThenElse(likely(at < n), BufferStore(B, S[o * 8] + at, (at,)))
    body = seq(total, nest(result, (v, 8, "vectorized")))
    flat = check(function(nest(body, (o, tiles_, kind)), A, B, S, root=False))
    sums = [loop for loop in loops(flat) if str(loop.extent) == str(8 * n) and n > 1]
    assert len(sums) == (n > 1), "there is one loop over the sum, however ragged the result"
    assert all(store.predicate is None for store in stores(flat))


def test_guards_from_below() -> None:
    """Padding: the first iterations are outside."""
    A, B, o, v = (
        make_buffer((30,), "int32", "A"),
        make_buffer((30,), "int32", "B"),
        Var("o"),
        Var("v"),
    )
    at = o * 4 + v - 6
    inside = binary(And, likely(at >= 0), likely(at < 30))
    body = IfThenElse(inside, BufferStore(B, A[at], (at,)), Evaluate(const(0)))
    flat = check(function(nest(body, (o, 9), (v, 4)), A, B, root=False))
    assert any(not collect(loop.body, IfThenElse) for loop in loops(flat))


def test_a_reduction_loop_shrinks_to_its_guard() -> None:
    A, S, o, k = (
        make_buffer((33,), "int32", "A"),
        make_buffer((1,), "int32", "S"),
        Var("o"),
        Var("k"),
    )
    at, zero = o * 8 + k, const(0)
    body = IfThenElse(likely(at < 33), BufferStore(S, S[zero] + A[at], (zero,)))
    func = function(nest(body, (o, 5), (k, 8)), A, S, root=False)
    assert not collect(check(func).body, IfThenElse)
    assert len(stores(loop_partition(simplify(flatten_buffers(func))))) <= 2


# ---------------------------------------------------------------------------- cleaning


def test_conditions_are_hoisted() -> None:
    A, i, j, n = make_buffer((4, 4), "int32", "A"), Var("i"), Var("j"), Var("n")
    body = IfThenElse(binary(And, i < n, j < i), BufferStore(A, const(1), (i, j)))
    hoisted = hoist_if(function(nest(body, (i, 4), (j, 4)), A, root=False))
    outer = loops(hoisted)[0].body
    assert isinstance(outer, IfThenElse) and str(outer.condition) == "i < n"
    reading = IfThenElse(A[0, 0] > 0, BufferStore(A, const(1), (i, j)))
    kept = function(nest(reading, (i, 4), (j, 4)), A, root=False)
    assert hoist_if(kept) is kept


def test_no_ops_go() -> None:
    A, B = make_buffer((4,), "int32", "A"), make_buffer((4,), "int32", "B")
    i, j, t = Var("i"), Var("j"), Var("t")
    nothing = seq(
        nest(Evaluate(const(0)), (i, 4)),
        BufferStore(A, A[2], (const(2),)),
        nest(BufferStore(A, const(1), (const(1),)), (j, 0)),
        LetStmt(t, A[1], IfThenElse(A[0] > 1, Evaluate(A[2]))),
        Allocate(B.data, B.dtype, B.shape, TRUE, DeclBuffer(B, Evaluate(const(1)))),
    )
    keep = AssertStmt(A[3] > 0, "positive", Evaluate(const(0)))
    cleaned = remove_no_op(function(seq(nothing, keep), A, root=False))
    assert isinstance(cleaned.body, AssertStmt)
    assert isinstance(cleaned.body.body, Evaluate)


def test_simplify_uses_loops_and_conditions() -> None:
    A, i, j = make_buffer((64,), "int32", "A"), Var("i"), Var("j")
    body = IfThenElse(
        i * 8 + j < 64,
        IfThenElse(j > 3, IfThenElse(j > 2, BufferStore(A, (i * 8 + j) // 8, (i * 8 + j,)))),
    )
    simple = simplify(function(nest(body, (i, 8), (j, 8)), A, root=False))
    (only,) = collect(simple.body, IfThenElse)
    assert str(only.condition) == "3 < j"
    assert stores(simple)[0].value is i


def test_a_condition_on_memory_does_not_outlive_a_store() -> None:
    A = make_buffer((2,), "int32", "A")
    inner = IfThenElse(A[0] > 0, BufferStore(A, const(7), (const(1),)))
    body = IfThenElse(A[0] > 0, seq(BufferStore(A, const(-1), (const(0),)), inner))
    flat = lower(function(body, A, root=False))
    a = np.array([5, 0], "int32")
    run(flat, a)
    assert a.tolist() == [-1, 0]


def test_user_vectors_are_flattened() -> None:
    A, i = make_buffer((4, 8), "float32", "A"), Var("i")
    ramp = Ramp(const(0), const(1), 8)
    body = nest(BufferStore(A, A[i, ramp] * 2.0, (i, ramp)), (i, 4))
    func = function(body, A, root=False)
    assert str(stores(flatten_buffers(func))[0].indices[0]) == "T.Ramp(i * 8, 1, 8)"
