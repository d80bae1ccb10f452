"""The interpreter against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import ArgumentError, UnsupportedError, UserError, VerifyError
from tileloom.expr import (
    Broadcast,
    Call,
    IterVar,
    Ramp,
    Range,
    SizeVar,
    Var,
    const,
)
from tileloom.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    While,
    make_buffer,
    seq,
)
from tileloom.tir.run import run
from tir.programs import block, func, load, loops, matmul, softmax, store

# ---------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 1, 1), (7, 3, 13), (0, 3, 2), (2, 0, 3)])
@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int8"])
def test_matmul(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> None:
    m, n, k = shape
    a = rng.integers(-100, 100, (m, k)).astype(kind)
    b = rng.integers(-100, 100, (k, n)).astype(kind)
    c = np.full((m, n), 77, kind)
    run(matmul(m, n, k, kind), a, b, c)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(c, a @ b)


def test_an_empty_reduction_writes_nothing() -> None:
    c = np.full((2, 3), 7, "float32")
    run(matmul(2, 3, 0), np.ones((2, 0), "float32"), np.ones((0, 3), "float32"), c)
    assert (c == 7).all()


def test_symbolic_matmul(rng: np.random.Generator) -> None:
    f = matmul(SizeVar("m"), SizeVar("n"), SizeVar("k"), "int8", "int32")
    for m, n, k in [(3, 4, 5), (1, 7, 2)]:
        a, b = (rng.integers(-128, 128, s).astype("int8") for s in [(m, k), (k, n)])
        c = np.zeros((m, n), "int32")
        run(f, a, b, c)
        np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))
    with pytest.raises(ArgumentError, match="'B' has shape"):
        run(f, a, b[:1], c)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("shape", [(3, 17), (1, 1), (0, 4)])
def test_softmax(rng: np.random.Generator, shape: Any, strict: bool) -> None:
    x = rng.standard_normal(shape).astype("float32")
    y = np.empty_like(x)
    run(softmax(*shape), x, y, strict=strict)
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_predicate_guards_imperfect_tiles() -> None:
    a = make_buffer((10,), "int32", "A")

    def tile(outer: Var, inner: Var) -> Any:
        value = outer * 4 + inner
        return block(
            "A", "S", (10,), lambda v: store(a, (v,), v * v), values=[value], predicate=value < 10
        )

    out = np.zeros(10, "int32")
    run(func((a,), loops((3, 4), tile)), out)
    np.testing.assert_array_equal(out, np.arange(10) ** 2)


def test_a_binding_outside_its_domain_is_refused() -> None:
    a = make_buffer((16,), "int32", "A")

    def tile(i: Var) -> Any:
        return block("A", "S", (10,), lambda v: store(a, (v,), v), values=[i])

    with pytest.raises(VerifyError, match="'v0' of block 'A' is bound to 10"):
        run(func((a,), loops((12,), tile)), np.zeros(16, "int32"))


def test_init_runs_where_all_reductions_start() -> None:
    a, count = make_buffer((2,), "int32", "A"), make_buffer((1,), "int32", "N")
    body = block(
        "A",
        "SRR",
        (2, 3, 4),
        lambda i, j, k: store(a, (i,), load(a, i) + 1),
        lambda i, j, k: seq(store(a, (i,), 0), store(count, (0,), load(count, 0) + 1)),
    )
    out, inits = np.full(2, 99, "int32"), np.zeros(1, "int32")
    run(func((a, count), body), out, inits)
    assert out.tolist() == [12, 12]
    assert inits.tolist() == [2]


def test_match_buffer_aliases_a_region() -> None:
    a = make_buffer((6, 8), "int32", "A")
    stride, offset = Var("s"), Var("o")
    sub = make_buffer((2, 4), "int32", "sub", strides=(stride, 1), elem_offset=offset)
    row = make_buffer((4,), "int32", "row")

    def body(i: Var, j: Var) -> Any:
        def region(height: Any) -> Any:
            return BufferRegion(a, (Range(i * 2, height), Range(j * 4, 4)))

        inner = loops((2, 4), lambda x, y: store(sub, (x, y), stride * 100 + offset + x + y))
        first = loops((4,), lambda y: store(row, (y,), load(row, y) + 1000))
        return seq(inner, first)

    i, j = Var("vi"), Var("vj")
    node = Block(
        (IterVar(Range(0, 3), i), IterVar(Range(0, 2), j)),
        (),
        (),
        "tile",
        body(i, j),
        match_buffers=(
            MatchBufferRegion(sub, BufferRegion(a, (Range(i * 2, 2), Range(j * 4, 4)))),
            MatchBufferRegion(row, BufferRegion(a, (Range(i * 2, 1), Range(j * 4, 4)))),
        ),
    )
    f = func((a,), loops((3, 2), lambda x, y: BlockRealize((x, y), const(True), node)))
    out = np.zeros((6, 8), "int32")
    run(f, out)
    rows, columns = np.mgrid[:6, :8]
    expected = 800 + rows // 2 * 16 + columns // 4 * 4 + rows % 2 + columns % 4
    np.testing.assert_array_equal(out, expected + 1000 * (rows % 2 == 0))


def test_match_buffer_checks_what_is_declared() -> None:
    a = make_buffer((6, 8), "int32", "A")
    sub = make_buffer((2, 4), "int32", "sub", strides=(4, 1))
    source = BufferRegion(a, (Range(0, 2), Range(0, 4)))
    node = Block((), (), (), "b", store(sub, (0, 0), 1),
                 match_buffers=(MatchBufferRegion(sub, source),))  # fmt: skip
    with pytest.raises(VerifyError, match="stride 0 of buffer 'sub' is 8, but 4"):
        run(func((a,), BlockRealize((), const(True), node)), np.zeros((6, 8), "int32"))


# ---------------------------------------------------------------------------- loops and flat


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorized", "unrolled"])
def test_loop_kinds_mean_the_same(kind: str) -> None:
    a = make_buffer((5, 3), "int32", "A")
    out = np.zeros((5, 3), "int32")
    run(func((a,), loops((5, 3), lambda i, j: store(a, (i, j), i * 3 + j), kind)), out)
    np.testing.assert_array_equal(out.ravel(), np.arange(15))


def test_loops_from_any_start_and_with_extents_of_outer_loops() -> None:
    a, i, j = make_buffer((6, 6), "int32", "A"), Var("i"), Var("j")
    inner = For(j, i, 6 - i, "serial", store(a, (i, j), 1))
    out = np.zeros((6, 6), "int32")
    run(func((a,), For(i, const(2), const(4), "serial", inner)), out)
    expected = np.triu(np.ones((6, 6), "int32"))
    expected[:2] = 0
    np.testing.assert_array_equal(out, expected)


def test_more_loops_than_python_allows() -> None:
    a = make_buffer((1,), "int64", "A")
    n = make_buffer((1,), "int32", "N")

    # Extents that are loaded keep the loops from being merged.
    stmt = store(a, (0,), load(a, 0) + 1)
    for _ in range(30):
        stmt = For(Var("i"), const(0), load(n, 0), "serial", stmt)
    f = func((a, n), stmt)
    out = np.zeros(1, "int64")
    run(f, out, np.ones(1, "int32"))
    assert out[0] == 1


def test_thread_loops() -> None:
    a, tx, bx = make_buffer((4, 8), "int32", "A"), Var("tx"), Var("bx")
    thread = IterVar(None, Var("threadIdx.x"), 1, "threadIdx.x")
    inner = For(tx, const(0), const(8), "thread_binding", store(a, (bx, tx), bx * 8 + tx), thread)
    group = IterVar(Range(0, 4), bx, 1, "blockIdx.x")
    out = np.zeros((4, 8), "int32")
    run(func((a,), AttrStmt(group, "thread_extent", const(4), inner)), out)
    np.testing.assert_array_equal(out.ravel(), np.arange(32))


def test_a_thread_launched_twice_is_one() -> None:
    a, x, y = make_buffer((4,), "int32", "A"), Var("x"), Var("y")
    one, two = (IterVar(Range(0, 4), v, 1, "threadIdx.x") for v in (x, y))
    inner = AttrStmt(two, "thread_extent", const(4), store(a, (x,), load(a, x) + y))
    out = np.zeros(4, "int32")
    run(func((a,), AttrStmt(one, "thread_extent", const(4), inner)), out)
    assert out.tolist() == [0, 1, 2, 3]


def test_barriers_are_refused() -> None:
    barrier = Evaluate(Call("int32", "tir.tvm_storage_sync", [const(0)]))
    with pytest.raises(UnsupportedError, match="tvm_storage_sync"):
        run(func((), barrier))


def flat_program(n: int) -> PrimFunc:
    """B = A * 2 + 1 through a flat allocation, four lanes at a time with a masked tail."""
    a, b = make_buffer((n,), "float32", "A"), make_buffer((n,), "float32", "B")
    p = Var("t", "handle", ("float32", "global"))
    t = make_buffer((n,), "float32", "t", data=p)
    i = Var("i")
    lanes = Ramp(i * 4, const(1), 4)
    mask = lanes < Broadcast(const(n), 4)

    def vector_loop(body: Any) -> Any:
        return For(i.with_name("i"), const(0), const((n + 3) // 4), "serial", body)

    first = BufferStore(t, BufferLoad(a, [lanes], mask) * 2, (lanes,), mask)
    second = BufferStore(b, BufferLoad(t, [lanes], mask) + 1, (lanes,), mask)
    loop = For(i, const(0), const((n + 3) // 4), "serial", seq(first, second))
    return func((a, b), Allocate(p, dtype("float32"), (const(n),), const(True), loop))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("n", [1, 4, 7, 16])
def test_masked_vectors(rng: np.random.Generator, n: int, strict: bool) -> None:
    a, b = rng.standard_normal(n).astype("float32"), np.zeros(n, "float32")
    run(flat_program(n), a, b, strict=strict)
    np.testing.assert_array_equal(b, a * 2 + 1)


def test_flattened_parameters_take_the_arrays_of_the_original() -> None:
    flat = make_buffer((24,), "int32", "A")
    out = np.zeros((4, 6), "int32")
    run(func((flat,), loops((24,), lambda i: store(flat, (i,), i))), out)
    np.testing.assert_array_equal(out, np.arange(24).reshape(4, 6))
    n = SizeVar("n")
    free = make_buffer((n * 6,), "int32", "A")
    f = func((free,), loops((n, 6), lambda i, j: store(free, (i * 6 + j,), 1)))
    with pytest.raises(ArgumentError, match="value of n"):
        run(f, out)
    run(f, out, values={n: 4})
    assert (out == 1).all()


def test_buffers_over_one_pointer_alias() -> None:
    a = make_buffer((2, 3), "int32", "A")
    flat = make_buffer((6,), "int32", "flat", data=a.data)
    shifted = make_buffer((2,), "int32", "s", data=a.data, elem_offset=const(2), strides=(3,))
    body = seq(
        loops((6,), lambda i: store(flat, (i,), i)),
        DeclBuffer(shifted, loops((2,), lambda i: store(shifted, (i,), load(shifted, i) + 100))),
    )
    out = np.zeros((2, 3), "int32")
    run(func((a,), body), out)
    assert out.tolist() == [[0, 1, 102], [3, 4, 105]]


def test_constants_lets_branches_and_while() -> None:
    p, out = Var("table", "handle", ("int32", "global")), make_buffer((5,), "int32", "Out")
    data = np.array([5, 0, 3, 1, 4], "int32")
    table = make_buffer((5,), "int32", "table", data=p)
    x = Var("x")
    count = make_buffer((1,), "int32", "n")

    def body(i: Var) -> LetStmt:
        halve = seq(store(count, (0,), load(count, 0) // 2), store(out, (i,), load(out, i) + 1))
        steps = seq(store(count, (0,), x), store(out, (i,), 0), While(load(count, 0) > 0, halve))
        return LetStmt(x, load(table, i), IfThenElse(x.__eq__(3), store(out, (i,), -1), steps))

    inner = AllocateConst(p, dtype("int32"), (const(5),), data, loops((5,), body))
    f = func((out,), Allocate(count.data, dtype("int32"), (const(1),), const(True), inner))
    result = np.zeros(5, "int32")
    run(f, result)
    assert result.tolist() == [3, 0, -1, 1, 3]


def test_assertions() -> None:
    n = Var("n")
    f = func((n,), AssertStmt(n > 2, "n must be large", Evaluate(const(0))))
    run(f, 3)
    with pytest.raises(UserError, match="assertion failed: n must be large"):
        run(f, 2)


def test_return_value() -> None:
    n = Var("n")
    assert run(func((n,), Evaluate(Call("int32", "tir.ret", [n * 2]))), 21) == 42


# ---------------------------------------------------------------------------- memory errors


@pytest.mark.parametrize(("index", "shown"), [(5, "5"), (-1, "-1")])
def test_out_of_bounds(index: int, shown: str) -> None:
    a, i = make_buffer((5, 5), "int32", "A"), Var("i")
    message = f"index {shown} is out of bounds for axis 1 of buffer 'A', which has 5"
    for stmt in (store(a, (0, i), 1), store(a, (0, 0), load(a, 0, i))):
        with pytest.raises(VerifyError, match=message):
            run(func((a, i), stmt), np.zeros((5, 5), "int32"), index)
    lanes = Ramp(i, const(1), 2) if index > 0 else Ramp(i, const(3), 2)
    with pytest.raises(VerifyError, match=message):
        value = Broadcast(const(1), 2)
        run(
            func((a, i), BufferStore(a, value, (const(0), lanes))), np.zeros((5, 5), "int32"), index
        )


def test_a_buffer_must_lie_in_its_memory() -> None:
    p = Var("p", "handle", ("int32", "global"))
    big = make_buffer((5,), "int32", "big", data=p)
    f = func((), Allocate(p, dtype("int32"), (const(4),), const(True), store(big, (0,), 1)))
    with pytest.raises(VerifyError, match="'big' of shape"):
        run(f)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int8", "uint64", "bool"])
def test_reading_what_nobody_wrote(kind: str) -> None:
    t, out = make_buffer((3,), kind, "T"), make_buffer((1,), kind, "Out")
    root = Block((), (), (), "root", store(out, (0,), load(t, 1)), alloc_buffers=(t,))
    f = func((out,), BlockRealize((), const(True), root))
    result = np.zeros(1, dtype(kind).numpy)
    run(f, result)
    assert np.isnan(result.astype("float64")).all() if dtype(kind).is_float else result[0] != 0
    with pytest.raises(VerifyError, match="buffer 'T' is read at"):
        run(f, result, strict=True)


def test_undefined_names() -> None:
    a = make_buffer((3,), "int32", "A")
    with pytest.raises(VerifyError, match="variable 'x'"):
        run(func((a,), store(a, (Var("x"),), 1)), np.zeros(3, "int32"))
    with pytest.raises(VerifyError, match="buffer 'B'"):
        run(func((a,), store(make_buffer((3,), "int32", "B"), (0,), 1)), np.zeros(3, "int32"))


# ---------------------------------------------------------------------------- arguments


def test_wrong_arguments() -> None:
    f = matmul(2, 3, 4)
    a, b, c = (np.zeros(s, "float32") for s in [(2, 4), (4, 3), (2, 3)])
    for args, message in [
        ((a, b), "takes 3 arguments, got 2"),
        ((a, b, c.astype("float64")), "'C' has elements of float32, got an array of float64"),
        ((a, b, c.T), r"'C' has shape \(2, 3\), got \(3, 2\)"),
        ((a, b, [1, 2]), "'C' needs an array, got list"),
        ((a, np.zeros((3, 4), "float32").T, c), "compact, got an array with strides"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            run(f, *args)
    c.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        run(f, a, b, c)


def test_strides_of_a_parameter() -> None:
    s = Var("s")
    for strides in [(s, 1), (16, 1)]:
        a = make_buffer((4, 8), "int32", "A", strides=strides)
        f = func((a,), loops((4, 8), lambda i, j, a=a: store(a, (i, j), i * 8 + j)))
        base = np.full((4, 16), -1, "int32")
        run(f, base[:, :8])
        np.testing.assert_array_equal(base[:, :8].ravel(), np.arange(32))
        assert (base[:, 8:] == -1).all()
    with pytest.raises(ArgumentError, match="has strides"):
        run(f, np.zeros((4, 8), "int32"))


def test_offset_of_a_parameter() -> None:
    a = make_buffer((2, 2), "int32", "A", strides=(4, 1), elem_offset=const(3))
    memory = np.zeros(10, "int32")
    run(func((a,), loops((2, 2), lambda i, j: store(a, (i, j), 1))), memory)
    assert memory.tolist() == [0, 0, 0, 1, 1, 0, 0, 1, 1, 0]
    with pytest.raises(ArgumentError):
        run(func((a,), loops((2, 2), lambda i, j: store(a, (i, j), 1))), memory[:8])


def test_modules() -> None:
    a = make_buffer((1,), "int32", "A")
    one, two = (func((a,), store(a, (0,), n)) for n in (1, 2))
    out = np.zeros(1, "int32")
    run(IRModule({"f": one}), out)
    assert out[0] == 1
    run(IRModule({"f": one, "g": two}), out, name="g")
    assert out[0] == 2
    with pytest.raises(ArgumentError, match="no function 'main' in the module, which has: f, g"):
        run(IRModule({"f": one, "g": two}), out)
