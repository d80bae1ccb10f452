"""Loops of every kind, branches, bindings, assertions and calls of other functions."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from codegen.emitting import compare, loaded, results_of, stored
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.driver import build, compile_module, show_stage
from tileloom.expr import EQ, GT, LT, And, Call, Cast, Expr, Let, Mul, StringImm, Var, const
from tileloom.runtime import parallel
from tileloom.target import Target
from tileloom.tir import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Buffer,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    LetStmt,
    PrimFunc,
    Stmt,
    While,
    make_buffer,
    seq,
)
from tir.programs import func, loops

KINDS = ("serial", "parallel", "vectorized", "unrolled")


def buffers(*sizes: int, kind: str = "int32") -> list[Buffer]:
    return [make_buffer((size,), kind, "ABCDEF"[k]) for k, size in enumerate(sizes)]


# ---------------------------------------------------------------------------- loops


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["int32", "int64", "int8", "uint32"])
@pytest.mark.parametrize(("low", "extent"), [(0, 0), (0, 1), (3, 7), (-4, 13), (0, 16), (5, 1)])
def test_loops(kind: str, index: str, low: int, extent: int) -> None:
    if low < 0 and index == "uint32":
        low = 1
    a, b = buffers(32, 32)
    i = Var("i", index)
    body = stored(b, i + const(8, index), loaded(a, i + const(8, index)) * 3 + Cast("int32", i))
    loop = For(i, const(low, index), const(extent, index), kind, body)
    compare(func([a, b], loop), np.arange(32, dtype="i4"))


@pytest.mark.parametrize("kind", KINDS)
def test_loops_of_sizes_known_at_run_time(kind: str) -> None:
    n, m = Var("n"), Var("m", "int64")
    a, b = buffers(64, 64)
    i = Var("i")
    loop = For(i, n, Cast("int32", m), kind, stored(b, i, loaded(a, i) + n))
    program = func([a, n, m, b], loop)
    kernel = build(program)
    for low, extent in [(0, 0), (0, 64), (5, 1), (7, 30), (3, -2)]:
        wanted = results_of(program, [x := np.arange(64, dtype="i4"), low, extent])
        found = results_of(program, [x, low, extent], kernel)
        np.testing.assert_array_equal(found, wanted)


def test_loops_of_vectors_are_not_unrolled_where_their_number_is_unknown() -> None:
    a, b = buffers(64, 64, kind="float32")
    i, n, lane = Var("i"), Var("n"), Var("lane")
    advice = "llvm.loop.unroll.runtime.disable"

    def text(extent: Expr, body: Stmt) -> str:
        return show_stage(func([a, n, b], For(i, const(0), extent, "serial", body)), "llvm")

    store = stored(b, i * 8 + lane, loaded(a, i * 8 + lane) * 2.0)
    vectors = For(lane, const(0), const(8), "vectorized", store)
    assert advice in text(n, vectors)
    assert advice not in text(const(4), vectors)
    assert advice not in text(n, stored(b, i + 1, loaded(b, i) * 2.0))


def test_nested_loops_over_one_variable_name() -> None:
    """Loops one after another may share a variable."""
    a, b = buffers(8, 8)
    i = Var("i")
    first = For(i, const(0), const(8), "serial", stored(b, i, loaded(a, i) + i * i))
    second = For(i, const(2), const(4), "serial", stored(b, i, loaded(b, i) + i * i))
    compare(func([a, b], seq(first, second)), np.arange(8, dtype="i4"))


def test_bounds_read_from_memory() -> None:
    """Ragged rows; the bound is read anew for each row."""
    p, b = buffers(5, 20)
    i, j = Var("i"), Var("j")
    inner = For(j, loaded(p, i), loaded(p, i + 1) - loaded(p, i), "serial", stored(b, j, i))
    program = func([p, b], For(i, const(0), const(4), "serial", inner))
    compare(program, np.array([0, 3, 3, 10, 20], "i4"))


def test_while() -> None:
    """Collatz: the condition is read again each time."""
    a, b = buffers(12, 12)

    def body(i: Var) -> Stmt:
        local = make_buffer((1,), "int32", "x")
        x = loaded(local, 0)
        odd = EQ(x % 2, const(1))
        step = IfThenElse(odd, stored(local, 0, x * 3 + 1), stored(local, 0, x // 2))
        loop = While(GT(x, const(1)), seq(step, stored(b, i, loaded(b, i) + 1)))
        run = seq(stored(local, 0, loaded(a, i)), stored(b, i, 0), loop)
        return Allocate(local.data, local.dtype, (const(1),), const(True), DeclBuffer(local, run))

    (found,) = compare(func([a, b], loops((12,), body)), np.arange(12, dtype="i4"))
    assert found.tolist() == [0, 0, 1, 7, 2, 5, 8, 16, 3, 19, 6, 14]


def test_while_that_guards_its_reads() -> None:
    a, b = buffers(6, 1)
    at = loaded(b, 0)
    search = While(And(LT(at, const(6)), GT(loaded(a, at), const(0))), stored(b, 0, at + 1))
    kernel = build(func([a, b], seq(stored(b, 0, 0), search)))
    for x, wanted in (([1, 2, 0, 4, 5, 6], 2), ([1] * 6, 6), ([0] * 6, 0)):
        y = np.array([9], "i4")
        kernel(np.array(x, "i4"), y)
        assert y[0] == wanted


# ---------------------------------------------------------------------------- parallel loops


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 7, 63, 64, 65, 255, 1000])
@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_parallel_loops_cover_every_iteration_once(extent: int, workers: int) -> None:
    """Also the last ones, which workers share a few at a time."""
    a, b = buffers(1000, 1000)
    i = Var("i")
    body = stored(b, i, loaded(b, i) + loaded(a, i) + 1)
    notes = {"max_workers": workers} if workers else {}
    loop = For(i, const(0), const(extent), "parallel", body, annotations=notes)
    x, y = np.arange(1000, dtype="i4"), np.zeros(1000, "i4")
    with parallel.num_threads(4):  # on however many cores
        build(func([a, b], loop))(x, y)
    assert y.tolist() == [*range(1, extent + 1), *[0] * (1000 - extent)]


@pytest.mark.parametrize("extent", [0, 1, 2, 1000])
@pytest.mark.parametrize("workers", [0, 3])
def test_parallel_loops_of_open_extents(extent: int, workers: int) -> None:
    n, b = buffers(1, 1000)
    i = Var("i")
    notes = {"max_workers": workers} if workers else {}
    body = stored(b, i, loaded(b, i) + i + 1)
    loop = For(i, const(0), loaded(n, const(0)), "parallel", body, annotations=notes)
    y = np.zeros(1000, "i4")
    build(func([n, b], loop))(np.array([extent], "i4"), y)
    assert y.tolist() == [*range(1, extent + 1), *[0] * (1000 - extent)]


def test_parallel_loops_see_what_is_around_them() -> None:
    """Scalars of all kinds, outer loop variables, let-bound values, allocations, constants."""
    n, f, flag = Var("n", "int64"), Var("f", "float64"), Var("flag", "bool")
    t, u = Var("t", "float32"), Var("u", "bool")
    a = make_buffer((4, 8), "float32", "A").replace(shape=(const(32),))
    b = make_buffer((32,), "float32", "B")
    own = make_buffer((8,), "float32", "L")
    i, j = Var("i"), Var("j")
    value = loaded(own, j) + t * Cast("float32", f) + Cast("float32", n + i)
    picked = Call("float32", "tir.if_then_else", [And(flag, u), value, -value])
    share = For(j, const(0), const(8), "parallel", stored(b, i * 8 + j, picked))
    fill = loops((8,), lambda k: stored(own, k, loaded(a, i * 8 + k)))
    bound = LetStmt(t, loaded(a, i) + 1.0, LetStmt(u, GT(loaded(a, i * 2), const(0.0)), share))
    inside = DeclBuffer(own, seq(fill, bound))
    body = Allocate(own.data, own.dtype, (const(8),), const(True), inside)
    program = func([a, n, f, flag, b], For(i, const(0), const(4), "serial", body))
    x = np.linspace(-3, 3, 32).astype("f4")
    for on in (True, False):
        compare(program, x, 5, 0.5, on, tolerance=1e-6)


def test_a_pointer_bound_by_let_may_alias() -> None:
    """`tir.noalias` speaks of buffers; a pointer into one of them is not one more."""
    a, p = make_buffer((64,), "int32", "A"), Var("p", "handle")
    tail = make_buffer((32,), "int32", "T", data=p)
    i = Var("i")
    step = seq(stored(a, i + 32, loaded(a, i) + 1), stored(tail, i, loaded(tail, i) * 2))
    share = For(i, const(0), const(32), "parallel", step)
    address = Call("handle", "tir.address_of", [loaded(a, 32)])
    program = func([a], LetStmt(p, address, DeclBuffer(tail, share)))
    kernel = build(program.with_attr("tir.noalias", True))
    x = np.arange(64, dtype="i4")
    kernel(x)
    assert x.tolist() == [*range(32), *(2 * (k + 1) for k in range(32))]


def test_parallel_loops_one_in_another_and_in_a_row() -> None:
    a, b = buffers(60, 60)
    i, j, k = Var("i"), Var("j"), Var("k")
    at = i * 12 + j * 4 + k
    inner = For(k, const(0), const(4), "vectorized", stored(b, at, loaded(a, at) * 2))
    nest = For(i, const(0), const(5), "parallel", For(j, const(0), const(3), "parallel", inner))
    again = For(i, const(0), const(60), "parallel", stored(b, i, loaded(b, i) + i))
    compare(func([a, b], seq(nest, again)), np.arange(60, dtype="i4"))


# ---------------------------------------------------------------------------- bindings


def test_one_name_bound_twice() -> None:
    """Copies of a body share its names; each sees its own value."""
    a, b = buffers(8, 8)
    t = Var("t")
    double = lambda k: LetStmt(t, loaded(a, k) + k, stored(b, k, t * t + t))  # noqa: E731
    compare(func([a, b], seq(*map(double, range(8)))), np.arange(8, dtype="i4"))


def test_a_name_bound_inside_its_own_scope() -> None:
    a, b = buffers(8, 8)
    t = Var("t")
    inner = LetStmt(t, const(100), stored(b, 1, t + 1))
    outer = LetStmt(t, loaded(a, 0), seq(stored(b, 0, t + 1), inner, stored(b, 2, t + 1)))
    y = np.zeros(8, "i4")
    build(func([a, b], outer))(np.full(8, 7, "i4"), y)
    assert y[:3].tolist() == [8, 101, 8]


def test_values_of_one_branch_are_not_used_in_the_other() -> None:
    a, b = buffers(8, 16)

    def body(i: Var) -> Stmt:
        costly = Mul(loaded(a, i), loaded(a, i)) + i
        branch = IfThenElse(LT(i, const(4)), stored(b, i, costly), stored(b, i, costly + 1))
        return seq(branch, stored(b, i + 8, costly * i))

    compare(func([a, b], loops((8,), body)), np.arange(8, dtype="i4"))


def test_what_was_stored_is_loaded_again() -> None:
    a, b = buffers(4, 4)
    x = loaded(a, 0)
    steps = seq(stored(b, 0, x), stored(a, 0, x + 1), stored(b, 1, x), stored(a, 0, x * 10))
    program = func([a, b], seq(steps, stored(b, 2, x), stored(b, 3, x + x)))
    y, z = np.array([5, 0, 0, 0], "i4"), np.zeros(4, "i4")
    build(program)(y, z)
    assert z.tolist() == [5, 6, 60, 120]


def test_lets_in_guarded_branches() -> None:
    a, b = buffers(6, 8)
    t = Var("t")

    def body(i: Var) -> Stmt:
        inner = Let(t, loaded(a, i), t * t + Let(t, loaded(a, i) + 1, t))
        return stored(b, i, Call("int32", "tir.if_then_else", [i < 6, inner, -i]))

    compare(func([a, b], loops((8,), body)), np.arange(6, dtype="i4"))


def test_attributes_are_passed_through() -> None:
    a, b = buffers(4, 4)
    body = AttrStmt(a, "some.note", const(1), loops((4,), lambda i: stored(b, i, loaded(a, i))))
    compare(func([a, b], body), np.arange(4, dtype="i4"))


# ---------------------------------------------------------------------------- assertions


def test_assertions_tell_which_one_failed() -> None:
    n, (a,) = Var("n"), buffers(4)
    third = AssertStmt(GT(n, const(2)), "n must exceed 2", stored(a, 0, n))
    second = AssertStmt(LT(n, const(50)), "n must be below 50", third)
    kernel = build(func([a, n], second))
    x = np.zeros(4, "i4")
    kernel(x, 7)
    assert x[0] == 7
    for bad, words in ((1, "n must exceed 2"), (99, "n must be below 50")):
        with pytest.raises(UserError, match=words):
            kernel(x, bad)
    assert x[0] == 7


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_assertions_in_loops(kind: str) -> None:
    a, b = buffers(100, 100)
    i = Var("i")
    positive = AssertStmt(GT(loaded(a, i), const(0)), "all must be positive", stored(b, i, 1))
    kernel = build(func([a, b], For(i, const(0), const(100), kind, positive)))
    x, y = np.ones(100, "i4"), np.zeros(100, "i4")
    kernel(x, y)
    assert y.all()
    x[63] = 0
    with pytest.raises(UserError, match="all must be positive"):
        kernel(x, np.zeros(100, "i4"))


# ---------------------------------------------------------------------------- other functions


def _module_with_symbols(program: PrimFunc, symbols: Mapping[str, int]) -> tuple[Any, ...]:
    code, _ = compile_module(IRModule({"main": program}), Target.host(), symbols)
    return code, ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.address("main"))


def test_external_functions() -> None:
    """Called for a value, and for their effect exactly as often as they stand there."""
    seen: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_double)  # type: ignore[untyped-decorator]
    def note(k: int, x: float) -> int:
        seen.append(k)
        return int(k * 10 + x)

    (b,) = buffers(4)

    def call(k: Expr) -> Call:
        return Call("int32", "tir.call_extern", [StringImm("note"), k, const(0.5, "float64")])

    body = seq(loops((4,), lambda i: stored(b, i, call(i))), Evaluate(call(const(9))))
    body = seq(body, Evaluate(call(const(9))))
    address: Any = ctypes.cast(note, ctypes.c_void_p).value
    _code, kernel = _module_with_symbols(func([b], body), {"note": address})
    y = np.zeros(4, "i4")
    assert kernel(y.ctypes.data) == 0
    assert y.tolist() == [0, 10, 20, 30] and seen == [0, 1, 2, 3, 9, 9]


def test_functions_of_one_module_call_each_other() -> None:
    """As the segments of a graph do: with the address of a part of an array."""
    a, b = buffers(8, 8)
    inner = func([c := make_buffer((4,), "int32", "C"), d := make_buffer((4,), "int32", "D")],
                 loops((4,), lambda i: stored(d, i, loaded(c, i) + 1)), "inner")  # fmt: skip
    calls = [
        Evaluate(Call("int32", "tir.call_extern", [
            StringImm("inner"),
            Call("handle", "tir.address_of", [loaded(a, 4 * k)]),
            Call("handle", "tir.address_of", [loaded(b, 4 - 4 * k)]),
        ]))
        for k in range(2)
    ]  # fmt: skip
    kernels = build(IRModule({"inner": inner, "main": func([a, b], seq(*calls))}))
    x, y = np.arange(8, dtype="i4"), np.zeros(8, "i4")
    kernels["main"](x, y)
    assert y.tolist() == [5, 6, 7, 8, 1, 2, 3, 4]


def call_of(name: str, *args: Expr) -> Evaluate:
    return Evaluate(Call("int32", "tir.call_extern", [StringImm(name), *args]))


def test_a_function_fails_where_one_that_it_calls_does() -> None:
    """And it may call one that comes after it."""
    (a,), n = buffers(4), Var("n")
    checked = AssertStmt(GT(n, const(0)), "n must be positive", stored(a, 0, n))
    inner = func([a, n], checked, "inner")
    b, m = make_buffer((4,), "int32", "B"), Var("m")
    outer = func([b, m], seq(call_of("inner", b.data, m), stored(b, 1, 5)))
    kernels = build(IRModule({"main": outer, "inner": inner}))
    x = np.zeros(4, "i4")
    kernels["main"](x, 3)
    assert x.tolist() == [3, 5, 0, 0]
    with pytest.raises(UserError, match="main: n must be positive"):
        kernels["main"](x, -3)


def test_one_function_has_one_type() -> None:
    (a,) = buffers(4)
    body = seq(call_of("f", a.data), call_of("f", const(1)))
    with pytest.raises(UnsupportedError, match="'f' is called with arguments of other types"):
        build(func([a], body))


def test_data_that_the_loader_provides() -> None:
    (b,) = buffers(4)
    table, p = make_buffer((4,), "int32", "T"), Var("p", "handle")
    table = table.replace(data=p)
    data = np.array([3, 1, 4, 1], "i4")
    look = Call("handle", "tir.lookup_param", [StringImm("weights")])
    copy = loops((4,), lambda i: stored(b, i, loaded(table, i)))
    program = func([b], LetStmt(p, look, DeclBuffer(table, copy)))
    _code, kernel = _module_with_symbols(program, {"weights": data.ctypes.data})
    y = np.zeros(4, "i4")
    kernel(y.ctypes.data)
    assert y.tolist() == [3, 1, 4, 1]
