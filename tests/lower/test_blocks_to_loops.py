"""From blocks to loops: init, allocation, compaction, views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lower.programs import (
    TRUE,
    arrays,
    axis,
    check,
    conjunction,
    function,
    matmul,
    nest,
    outputs,
    points,
    tiled_matmul,
)
from tileloom.base.errors import InternalError, UserError, VerifyError
from tileloom.base.settings import override
from tileloom.expr import REDUCE, Call, IterVar, Range, Var, const
from tileloom.lower import lower
from tileloom.lower.analysis.regions import Accesses
from tileloom.lower.blocks.compact_buffer_region import compact_buffer_region
from tileloom.lower.blocks.convert_blocks_to_opaque import convert_blocks_to_opaque
from tileloom.lower.blocks.lower_init_block import lower_init_block
from tileloom.lower.blocks.lower_match_buffer import lower_match_buffer
from tileloom.lower.blocks.lower_opaque_block import lower_opaque_block
from tileloom.lower.blocks.plan_allocations import plan_and_update_buffer_allocation_location
from tileloom.lower.pipeline import PIPELINE, run_passes
from tileloom.tir import (
    Allocate,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    collect,
    make_buffer,
    seq,
)
from tileloom.tir.run import run


def loops_around(func: PrimFunc, wanted: Stmt) -> Any:
    """The names of the loops around a statement of the function's body."""

    def find(stmt: Stmt, names: Sequence[str]) -> Any:
        if stmt is wanted:
            return names
        inner = [*names, stmt.loop_var.name] if isinstance(stmt, For) else names
        for name in ("body", "block", "init", "then_case", "else_case"):
            child = getattr(stmt, name, None)
            if child is not None:
                found = find(child, inner)
                if found is not None:
                    return found
        for child in getattr(stmt, "seq", ()):
            found = find(child, inner)
            if found is not None:
                return found
        return None

    return find(func.body, [])


# ---------------------------------------------------------------------------- init


def test_init_leaves_the_reduction_loop() -> None:
    func = lower_init_block(matmul(4, 5, 6))
    init, update = collect(func.body, Block)[1:]
    assert (init.name_hint, init.init, update.init) == ("matmul_init", None, None)
    assert [a.iter_type for a in init.iter_vars] == [0, 0]
    assert loops_around(func, init) == ["i", "j"]
    assert loops_around(func, update) == ["i", "j", "k"]
    assert not collect(func.body, IfThenElse)
    assert not {a.var for a in init.iter_vars} & {a.var for a in update.iter_vars}


def test_init_before_an_outer_reduction_loop_with_other_work_in_it() -> None:
    func = lower_init_block(tiled_matmul(8, 8, 8, (4, 4, 4)))
    init = next(b for b in collect(func.body, Block) if b.name_hint == "update_init")
    assert loops_around(func, init) == ["io", "jo", "ii", "jj"]


def test_init_stays_where_the_partial_result_is_used() -> None:
    """A second block reads the sum so far within the reduction loop."""
    A, S, P = (
        make_buffer((6,), "int32", "A"),
        make_buffer((1,), "int32", "S"),
        make_buffer((6,), "int32", "P"),
    )
    vk, vp = axis(6, "vk", REDUCE), axis(6, "vp")
    zero = const(0)
    total = Block(
        (vk,),
        points((A, (vk.var,))),
        points((S, (zero,))),
        "sum",
        BufferStore(S, S[0] + A[vk.var], (zero,)),
        BufferStore(S, const(7), (zero,)),
    )
    prefix = Block(
        (vp,),
        points((S, (zero,))),
        points((P, (vp.var,))),
        "prefix",
        BufferStore(P, S[0], (vp.var,)),
    )
    k = Var("k")
    body = nest(seq(BlockRealize((k,), TRUE, total), BlockRealize((k,), TRUE, prefix)), (k, 6))
    func = function(body, A, S, P)
    lowered = lower_init_block(func)
    assert len(collect(lowered.body, IfThenElse)) == 1
    check(func)


def test_an_empty_reduction_gives_the_identity() -> None:
    func = lower(matmul(3, 4, 0))
    a, b, c = np.zeros((3, 0), "f"), np.zeros((0, 4), "f"), np.full((3, 4), 9, "f")
    assert not outputs(func, [a, b, c])[2].any()


def partial_sums(k: int, inner: int) -> PrimFunc:
    """S[i] = 7 + a sum, P[i, k] the sums on the way: the init cannot leave the loop."""
    A, S, P = (
        make_buffer((3, 6), "int32", "A"),
        make_buffer((3,), "int32", "S"),
        make_buffer((3, 6), "int32", "P"),
    )
    vi, vk = axis(3, "vi"), axis(k * inner, "vk", REDUCE)
    wi, wk = axis(3, "wi"), axis(6, "wk")
    at = (vi.var, vk.var)
    total = Block(
        (vi, vk),
        points((A, at)),
        points((S, (vi.var,))),
        "sum",
        BufferStore(S, S[vi.var] + A[at], (vi.var,)),
        BufferStore(S, const(7), (vi.var,)),
    )
    prefix = Block(
        (wi, wk),
        points((S, (wi.var,))),
        points((P, (wi.var, wk.var))),
        "prefix",
        BufferStore(P, S[wi.var], (wi.var, wk.var)),
    )
    i, o, r = Var("i"), Var("o"), Var("r")
    sums = nest(BlockRealize((i, o * inner + r), TRUE, total), (r, inner))
    body = nest(seq(sums, BlockRealize((i, o), TRUE, prefix)), (i, 3), (o, k))
    return function(body, A, S, P)


@pytest.mark.parametrize(("k", "inner"), [(0, 2), (2, 0), (2, 3)])
def test_an_empty_reduction_that_keeps_its_init(k: int, inner: int) -> None:
    """An init with other work in its loop still reaches results of no iteration."""
    func = partial_sums(k, inner)
    rng = np.random.default_rng(0)
    a, s, p = rng.integers(0, 9, (3, 6)).astype("i"), np.zeros(3, "i"), np.zeros((3, 6), "i")
    _, sums, prefix = outputs(lower(func), [a, s, p])
    np.testing.assert_array_equal(sums, 7 + a[:, : k * inner].sum(1))
    for step in range(k):
        np.testing.assert_array_equal(prefix[:, step], 7 + a[:, : (step + 1) * inner].sum(1))


def test_an_empty_reduction_of_unknown_length() -> None:
    """One loop that is spatial and reduction at once, of n iterations."""
    n = Var("n")
    A, S = make_buffer((n,), "int32", "A"), make_buffer((4,), "int32", "S")
    vi = axis(4, "vi")
    vk = IterVar(Range.from_extent(n), Var("vk"), REDUCE)
    f = Var("f")
    total = Block(
        (vi, vk),
        points((A, (vk.var,))),
        points((S, (vi.var,))),
        "sum",
        BufferStore(S, S[vi.var] + A[vk.var] * (vi.var + 1), (vi.var,)),
        BufferStore(S, vi.var, (vi.var,)),
    )
    body = nest(BlockRealize((f // n, f % n), TRUE, total), (f, n * 4))
    root = BlockRealize((), TRUE, Block((), (), (), "root", body))
    func = PrimFunc((a := Var("a", "handle"), s := Var("s", "handle"), n), root, {a: A, s: S})
    flat = lower(func)
    for size in (0, 1, 5):
        given, out = np.arange(size, dtype="i"), np.full(4, -1, "i")
        run(flat, given, out, size)
        np.testing.assert_array_equal(out, np.arange(4) + given.sum() * np.arange(1, 5))


def test_many_buffers_in_a_chain() -> None:
    """Two hundred allocations nest deeper than Python recurses by itself."""
    buffers = [make_buffer((4,), "int32", f"B{k}") for k in range(202)]
    parts = []
    for k in range(201):
        v, i = axis(4, "v"), Var("i")
        store = BufferStore(buffers[k + 1], buffers[k][v.var] + 1, (v.var,))
        reads = points((buffers[k], (v.var,)))
        block = Block((v,), reads, points((buffers[k + 1], (v.var,))), f"b{k}", store)
        parts.append(nest(BlockRealize((i,), TRUE, block), (i, 4)))
    func = function(seq(*parts), buffers[0], buffers[-1], alloc=buffers[1:-1])
    out = np.zeros(4, "i")
    run(lower(func), np.arange(4, dtype="i"), out)
    assert out.tolist() == [201, 202, 203, 204]


# ---------------------------------------------------------------------------- allocation


def opaque(func: PrimFunc) -> PrimFunc:
    passes = (
        lower_init_block,
        plan_and_update_buffer_allocation_location,
        convert_blocks_to_opaque,
        compact_buffer_region,
        lower_match_buffer,
        lower_opaque_block,
    )
    return run_passes(func, passes)


def allocation_loops(func: PrimFunc) -> Any:
    """The names of the loops around the only allocation."""
    lowered = opaque(func)
    (allocated,) = collect(lowered.body, Allocate)
    return loops_around(lowered, allocated)


def test_buffers_move_inward_and_shrink() -> None:
    func = opaque(tiled_matmul(32, 48, 24, (8, 16, 4)))
    cached: Any
    local: Any
    local, cached = collect(func.body, Allocate)
    assert (local.buffer_var.name, local.extents) == ("L", (8, 16))
    assert (cached.buffer_var.name, cached.extents) == ("AC", (8, 4))
    assert loops_around(func, local) == ["io", "jo"]
    assert loops_around(func, cached) == ["io", "jo", "ko"]


def producer_consumer(read_offset: int) -> PrimFunc:
    """B[i] = A[i]; C[i] = B[i - read_offset] in one loop."""
    A, B, C = (make_buffer((8,), "int32", name) for name in "ABC")
    v, w, i = axis(8, "v"), axis(8, "w"), Var("i")
    make = Block(
        (v,),
        points((A, (v.var,))),
        points((B, (v.var,))),
        "make",
        BufferStore(B, A[v.var], (v.var,)),
    )
    at = w.var - read_offset
    value = B[at] if read_offset == 0 else (B[at] + 0)
    body: Any = BufferStore(C, value, (w.var,))
    if read_offset:
        body = IfThenElse(w.var >= read_offset, body, BufferStore(C, const(0), (w.var,)))
    use = Block((w,), points((B, (at,))), points((C, (w.var,))), "use", body)
    loop = nest(seq(BlockRealize((i,), TRUE, make), BlockRealize((i,), TRUE, use)), (i, 8))
    return function(loop, A, C, alloc=(B,))


@pytest.mark.parametrize(("offset", "extent", "loops"), [(0, 1, ["i"]), (1, 8, []), (3, 8, [])])
def test_what_another_iteration_wrote_stays_outside(
    offset: int, extent: Any, loops: list[str]
) -> None:
    func = producer_consumer(offset)
    lowered = opaque(func)
    allocated: Any
    (allocated,) = collect(lowered.body, Allocate)
    assert allocated.extents == (extent,)
    assert loops_around(lowered, allocated) == loops
    check(func)


def test_what_an_unknown_iteration_wrote_stays_outside() -> None:
    """B[perm[i]] may be of any iteration."""
    A, P, B, C = (make_buffer((8,), "int32", name) for name in "APBC")
    v, w, i, j = axis(8, "v"), axis(8, "w"), Var("i"), Var("j")
    make = Block((v,), (), points((B, (v.var,))), "make", BufferStore(B, A[v.var], (v.var,)))
    use = Block((w,), (), points((C, (w.var,))), "use", BufferStore(C, B[P[w.var]], (w.var,)))
    first, second = BlockRealize((i,), TRUE, make), BlockRealize((i,), TRUE, use)
    func = function(nest(seq(first, second), (i, 8)), A, P, C, alloc=(B,))
    assert allocation_loops(func) == []
    # Where an iteration fills all of B, it is the iteration's own.
    fill = BlockRealize((j,), TRUE, make)
    func = function(nest(seq(nest(fill, (j, 8)), second), (i, 8)), A, P, C, alloc=(B,))
    assert allocation_loops(func) == ["i"]


def test_padded_strides() -> None:
    func = tiled_matmul(16, 16, 8, (8, 8, 4), "serial")
    block = next(b for b in collect(func.body, Block) if b.name_hint == "cache")
    noted = block.replace(annotations={"buffer_dim_align": [(0, 0, 8, 3)]})

    class Note(StmtRewriter):
        def visit_Block(self, stmt: Block) -> Block:
            return noted if stmt is block else super().visit_Block(stmt)

    func = func.replace(body=Note().visit(func.body))
    declared: Any = next(d for d in collect(opaque(func).body, DeclBuffer) if d.buffer.name == "AC")
    assert declared.buffer.strides == (11, 1)
    check(func)


# ---------------------------------------------------------------------------- views


def view_program(strides: bool, extent: int = 4) -> PrimFunc:
    """Row tiles of A doubled through a view with its own offset and strides."""
    A = make_buffer((8, 12), "float32", "A")
    s0, s1, offset = Var("s0"), Var("s1"), Var("offset")
    fields: Any = {"strides": (s0, s1), "elem_offset": offset} if strides else {}
    view = make_buffer((2, extent), "float32", "V", **fields)
    vi, vj, io, jo = axis(4, "vi"), axis(3, "vj"), Var("io"), Var("jo")
    region = BufferRegion(A, (Range(vi.var * 2, const(2)), Range(vj.var * 4, const(4))))
    x, y = Var("x"), Var("y")
    body = nest(BufferStore(view, view[x, y] * 2.0 + 1.0, (x, y)), (x, 2), (y, 4))
    block = Block(
        (vi, vj),
        (region,),
        (region,),
        "double",
        body,
        match_buffers=(MatchBufferRegion(view, region),),
    )
    return function(nest(BlockRealize((io, jo), TRUE, block), (io, 4), (jo, 3)), A)


@pytest.mark.parametrize("strides", [False, True])
def test_a_view_becomes_its_source(strides: bool) -> None:
    func = view_program(strides)
    flat = check(func)
    (a,) = arrays(func)
    np.testing.assert_allclose(outputs(flat, [a])[0], a * 2 + 1, rtol=1e-6)
    assert {s.buffer.name for s in collect(flat.body, BufferStore)} == {"A"}


def test_a_view_that_does_not_fit() -> None:
    with pytest.raises(VerifyError, match="view V declares shape 5, but its source has 4"):
        lower(view_program(False, 5))


# ---------------------------------------------------------------------------- pipeline


def test_unit_loops_go_and_thread_loops_stay() -> None:
    B = make_buffer((1, 4), "int32", "B")
    i, t = Var("i"), Var("t")
    inner = BufferStore(B, t, (i, t))
    thread = axis(4, "threadIdx.x")
    thread.thread_tag = "threadIdx.x"
    loop = For(t, const(0), const(4), "thread_binding", inner, thread)
    func = function(nest(loop, (i, 1)), B)
    (kept,) = collect(lower(func).body, For)
    assert kept.kind == "thread_binding"


def test_until_and_on_stage() -> None:
    func, seen = matmul(2, 3, 4), []
    flat = lower(func, on_stage=lambda name, result: seen.append((name, result)))
    assert [name for name, _ in seen] == [step.__name__ for step in PIPELINE]
    assert seen[-1][1] is flat
    assert collect(lower(func, until="lower_init_block").body, Block)
    assert not collect(lower(func, until="loops").body, Block)
    module = lower(IRModule({"f": func, "g": func}))
    assert set(module.functions) == {"f", "g"}
    with pytest.raises(UserError, match="no stage and no pass 'nonsense'"):
        lower(func, until="nonsense")


def test_checks_between_passes() -> None:
    def broken(func: PrimFunc) -> PrimFunc:
        return func.replace(body=BufferStore(make_buffer((1,)), const(1.0), (const(0),)))

    with override(verify=True):
        lower(tiled_matmul(9, 9, 9, (4, 4, 4)))
        with pytest.raises(InternalError, match="broken made an illegal program"):
            run_passes(matmul(2, 2, 2), (broken,))
    assert isinstance(run_passes(matmul(2, 2, 2), (broken,)).body, BufferStore)


def test_a_program_that_is_not_changed_is_the_same() -> None:
    flat = lower(matmul(4, 4, 4))
    assert all(step(flat) is flat for step in PIPELINE[:5])
    assert isinstance(flat.body, For | SeqStmt)


# ---------------------------------------------------------------------------- unknown shapes


def symbolic_matmul() -> PrimFunc:
    n, m, k = Var("n"), Var("m"), Var("k")
    A, B, C = (
        make_buffer(s, "float32", x) for s, x in (((n, k), "A"), ((k, m), "B"), ((n, m), "C"))
    )
    axes = [
        IterVar(Range.from_extent(size), Var(name), kind)
        for size, name, kind in ((n, "vi", 0), (m, "vj", 0), (k, "vk", REDUCE))
    ]
    i, j, r = (a.var for a in axes)
    block = Block(
        tuple(axes),
        points((A, (i, r)), (B, (r, j))),
        points((C, (i, j))),
        "matmul",
        BufferStore(C, C[i, j] + A[i, r] * B[r, j], (i, j)),
        BufferStore(C, const(0.0), (i, j)),
    )
    io, ii, jo, jj, ko, ki = (Var(x) for x in ("io", "ii", "jo", "jj", "ko", "ki"))
    places = (io * 4 + ii, jo * 8 + jj, ko * 4 + ki)
    guard = conjunction(places[0] < n, places[1] < m, places[2] < k)
    body = nest(
        BlockRealize(places, guard, block),
        (io, (n + 3) // 4, "parallel"),
        (jo, (m + 7) // 8),
        (ko, (k + 3) // 4),
        (ki, 4),
        (ii, 4, "unrolled"),
        (jj, 8, "vectorized"),
    )
    handles = [Var(x, "handle") for x in "abc"]
    root = BlockRealize((), TRUE, Block((), (), (), "root", body))
    return PrimFunc((*handles, n, m, k), root, dict(zip(handles, (A, B, C), strict=True)))


def test_symbolic_shapes() -> None:
    flat = lower(symbolic_matmul())
    rng = np.random.default_rng(0)
    for n, m, k in ((5, 9, 6), (4, 8, 4), (1, 1, 1), (8, 16, 3), (0, 3, 2), (3, 7, 0)):
        a, b = rng.random((n, k), "f"), rng.random((k, m), "f")
        c = np.full(n * m, 9, "f")
        run(flat, a.reshape(-1), b.reshape(-1), c, n, m, k)
        np.testing.assert_allclose(c.reshape(n, m), a @ b, rtol=1e-4, atol=1e-5)


def test_a_buffer_whose_address_is_taken_stays_whole() -> None:
    A, B = make_buffer((8,), "int32", "A"), make_buffer((8,), "int32", "B")
    v, i = axis(8, "v"), Var("i")
    taken = Evaluate(Call("int32", "tir.call_extern", (Call("handle", "tir.address_of", (B[i],)),)))
    block = Block((v,), (), points((B, (v.var,))), "b", BufferStore(B, A[v.var], (v.var,)))
    loop = nest(seq(BlockRealize((i,), TRUE, block), taken), (i, 8))
    allocated: Any
    (allocated,) = collect(opaque(function(loop, A, alloc=(B,))).body, Allocate)
    assert allocated.extents == (8,)


@pytest.mark.parametrize(("late", "loops"), [(False, ["i"]), (True, [])])
def test_what_the_iteration_before_has_left_stays_outside(late: bool, loops: list[str]) -> None:
    """One element, which each iteration reads before it stores the next."""
    A, B, C = (make_buffer((n,), "int32", name) for n, name in ((8, "A"), (1, "B"), (8, "C")))
    v, w, i = axis(8, "v"), axis(8, "w"), Var("i")
    zero = (const(0),)
    make = Block((v,), (), points((B, zero)), "make", BufferStore(B, A[v.var], zero))
    use = Block((w,), points((B, zero)), (), "use", BufferStore(C, B[0], (w.var,)))
    both = [BlockRealize((i,), TRUE, make), BlockRealize((i,), TRUE, use)]
    func = function(nest(seq(*(reversed(both) if late else both)), (i, 8)), A, C, alloc=(B,))
    assert allocation_loops(func) == loops


@pytest.mark.parametrize(("first", "extent"), [(0, 8), (2, 5), (-3, 4), (5, 1)])
def test_what_is_known_of_the_variables_of_blocks(first: int, extent: int) -> None:
    B = make_buffer((16,), "int32", "B")
    axis_of_block = IterVar(Range(first, extent), Var("v"), 0)
    block = Block((axis_of_block,), (), (), "B", BufferStore(B, const(1), (const(0),)))
    i = Var("i")
    body = nest(BlockRealize((i + first,), TRUE, block), (i, extent))
    found = Accesses.of(function(body, alloc=(B,)).body).bounds
    assert tuple(found.const_int_bound(axis_of_block.var)) == (first, first + extent - 1)
