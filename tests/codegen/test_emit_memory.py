"""Loads and stores: guarded ones that must not fault, gathers, strides, masks, allocations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from codegen.emitting import (
    FLOATS,
    INTEGERS,
    at_page_end,
    compare,
    loaded,
    ramp,
    results_of,
    same,
    stored,
    vector_index,
)
from tileloom.base import dtype
from tileloom.base.errors import UserError
from tileloom.driver import build
from tileloom.expr import (
    EQ,
    GE,
    GT,
    LT,
    NE,
    And,
    Broadcast,
    Call,
    Cast,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    Not,
    Or,
    Ramp,
    Select,
    Var,
    const,
)
from tileloom.expr.nodes import broadcast_to
from tileloom.target import Target
from tileloom.tir import (
    Allocate,
    AllocateConst,
    Buffer,
    DeclBuffer,
    For,
    IfThenElse,
    Stmt,
    make_buffer,
    seq,
)
from tir.programs import func, loops

KINDS = ("bool", *INTEGERS, *FLOATS)


def choose(condition: Expr, yes: Expr, no: Expr) -> Expr:
    return Call(yes.dtype, "tir.if_then_else", [condition, yes, no])


def sample(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    low = 0 if kind.startswith("u") or kind == "bool" else -100
    return rng.integers(low, 2 if kind == "bool" else 100, size).astype(dtype(kind).numpy)


# ---------------------------------------------------------------------------- guarded loads


def test_a_scalar_guard_keeps_from_faulting() -> None:
    """B[i] = A[i] where i < 13, of 32: the page after A cannot be read."""
    a, b = make_buffer((13,), "float32", "A"), make_buffer((32,), "float32", "B")

    def body(i: Var) -> Stmt:
        return stored(b, i, choose(i < 13, loaded(a, i), const(-1.0)))

    x = at_page_end(np.arange(13, dtype="f4"))
    kernel = build(func([a, b], loops((32,), body)))
    y = np.zeros(32, "f4")
    kernel(x, y)
    assert y.tolist() == [*range(13), *[-1.0] * 19]


# Processors without 512-bit registers, and without masks and gathers at all.
NARROWER = [f"cpu -mtriple=x86_64-linux-gnu -mcpu={name}" for name in ("haswell", "x86-64")]
TARGETS = ["cpu", *(NARROWER if Target.host().arch == "x86_64" else [])]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [4, 16, 64])
def test_a_vector_guard_keeps_from_faulting(
    kind: str, lanes: int, target: str, rng: np.random.Generator
) -> None:
    size = lanes + 3
    a, b = make_buffer((size,), kind, "A"), make_buffer((3 * lanes,), kind, "B")
    i = Var("i")
    at = ramp(i * lanes, lanes)
    zeros = broadcast_to(const(0, kind), lanes)
    value = choose(LT(at, broadcast_to(const(size), lanes)), loaded(a, at), zeros)
    program = func([a, b], For(i, const(0), const(3), "serial", stored(b, at, value)))
    x = sample(kind, size, rng)
    y = np.ones(3 * lanes, dtype(kind).numpy)
    build(program, target)(at_page_end(x), y)
    same(y, np.concatenate([x, np.zeros(3 * lanes - size, x.dtype)]))


GUARDED: dict[str, Any] = {
    # what is loaded, of A[n], at i in [0, 16); the last element is at n - 1.
    "gather": lambda a, i, n: loaded(a, FloorDiv(i * 3, broadcast_to(const(3), 16))),
    "reversed": lambda a, i, n: loaded(a, ramp(15, 16, -1)),
    "strided": lambda a, i, n: loaded(a, ramp(0, 16, 2)),
    "one": lambda a, i, n: Broadcast(loaded(a, n + 100), 16),
    "one as a vector": lambda a, i, n: loaded(a, Broadcast(const(n + 100), 16)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("kind", ["float32", "bool", "int64"])
def test_masked_loads_of_every_form(
    name: str, kind: str, target: str, rng: np.random.Generator
) -> None:
    """Where the mask is false the address may be anything."""
    n = 7
    a, b = make_buffer((n,), kind, "A"), make_buffer((16,), kind, "B")
    m = make_buffer((16,), "bool", "M")
    at = ramp(0, 16)
    value = GUARDED[name](a, at, n)
    zeros = broadcast_to(const(0, kind), 16)
    program = func([a, m, b], stored(b, at, choose(loaded(m, at), value, zeros)))
    flat = {
        "gather": np.arange(16),
        "reversed": np.arange(15, -1, -1),
        "strided": np.arange(16) * 2,
    }
    where = flat.get(name, np.full(16, n + 100))
    x = sample(kind, n, rng)
    mask = where < n
    y = np.ones(16, dtype(kind).numpy)
    build(program, target)(at_page_end(x), mask, y)
    same(y, np.where(mask, x[np.where(mask, where, 0)], 0).astype(x.dtype))


def test_one_load_for_all_lanes_is_made_if_any_wants_it() -> None:
    a, b, m = (
        make_buffer((s,), k, n)
        for s, k, n in ((4, "float32", "A"), (8, "float32", "B"), (8, "bool", "M"))
    )
    at = ramp(0, 8)
    value = choose(loaded(m, at), Broadcast(loaded(a, 2), 8), broadcast_to(const(-1.0), 8))
    program = func([a, m, b], stored(b, at, value))
    x = np.arange(4, dtype="f4")
    for mask in (np.zeros(8, bool), np.arange(8) == 5, np.ones(8, bool)):
        (found,) = compare(program, x, mask)
        assert found.tolist() == np.where(mask, 2, -1).tolist()


def test_loads_under_masks_within_masks(rng: np.random.Generator) -> None:
    """The inner guard counts only where the outer one holds; both sides are guarded."""
    a, b = make_buffer((8,), "int32", "A"), make_buffer((16,), "int32", "B")
    at = ramp(0, 16)
    bound: Any = lambda v: broadcast_to(const(v), 16)  # noqa: E731
    inner = choose(GE(at, bound(4)), loaded(a, at), loaded(a, at - bound(-4)) * bound(10))
    other = loaded(a, at - bound(8))
    program = func([a, b], stored(b, at, choose(LT(at, bound(8)), inner, other)))
    x = sample("int32", 8, rng)
    y = np.zeros(16, "i4")
    build(program)(at_page_end(x), y)
    assert y.tolist() == [*(x[4:] * 10), *x[4:], *x]


def test_what_was_loaded_under_a_mask_is_not_used_without_it() -> None:
    a, b, c = (make_buffer((8,), "int32", n) for n in "ABC")
    at = ramp(0, 8)
    low = LT(at, broadcast_to(const(4), 8))
    both = choose(low, loaded(a, at), broadcast_to(const(0), 8)) + loaded(a, at)
    program = func([a, b, c], seq(stored(b, at, both), stored(c, at, loaded(a, at) + both)))
    x = np.arange(1, 9, dtype="i4")
    found = compare(program, x)
    assert found[0].tolist() == (x + np.where(np.arange(8) < 4, x, 0)).tolist()


@pytest.mark.parametrize("what", ["and", "or", "nested", "if"])
def test_a_condition_guards_what_it_reads(what: str) -> None:
    """`i < n and A[i] > 0` does not read A[n]."""
    a, b = make_buffer((6,), "int32", "A"), make_buffer((16,), "int32", "B")

    def body(i: Var) -> Stmt:
        inside, positive = i < 6, GT(loaded(a, i), const(0))
        tests = {
            "and": And(inside, positive),
            "or": Not(Or(Not(inside), Not(positive))),
            "nested": And(And(inside, positive), NE(loaded(a, i), const(3))),
            "if": And(inside, positive),
        }
        if what == "if":
            return IfThenElse(tests[what], stored(b, i, 1), stored(b, i, 0))
        return stored(b, i, Select(tests[what], const(1), const(0)))

    x = np.array([1, -1, 3, 0, 5, -2], "i4")
    y = np.full(16, 9, "i4")
    build(func([a, b], loops((16,), body)))(at_page_end(x), y)
    wanted = [1, 0, 0 if what == "nested" else 1, 0, 1, 0]
    assert y.tolist() == wanted + [0] * 10


# ---------------------------------------------------------------------------- forms of access


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_loads_of_every_form(kind: str, target: str, rng: np.random.Generator) -> None:
    a, p = make_buffer((64,), kind, "A"), make_buffer((16,), "int32", "P")
    at = ramp(0, 16)
    loads = [
        loaded(a, ramp(5, 16)),
        loaded(a, ramp(20, 16, -1)),
        loaded(a, ramp(1, 16, 3)),
        loaded(a, ramp(60, 16, -2)),
        loaded(a, ramp(7, 16, 0)),
        loaded(a, Broadcast(const(9), 16)),
        loaded(a, loaded(p, at)),
        loaded(a, Ramp(loaded(p, 3), loaded(p, 0), 16)),
        loaded(a, ramp(0, 16), LT(at, broadcast_to(const(5), 16))),
        loaded(a, loaded(p, at), GT(loaded(p, at), broadcast_to(const(20), 16))),
    ]
    outputs = [make_buffer((16,), kind, f"B{k}") for k in range(len(loads))]
    body = seq(*(stored(b, at, v) for b, v in zip(outputs, loads, strict=True)))
    places = rng.integers(0, 48, 16).astype("i4")
    places[0], places[3] = 2, 11
    compare(func([a, p, *outputs], body), sample(kind, 64, rng), places, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_stores_of_every_form(kind: str, target: str, rng: np.random.Generator) -> None:
    a, p = make_buffer((16,), kind, "A"), make_buffer((16,), "int32", "P")
    at, odd = (
        ramp(0, 16),
        EQ(FloorMod(ramp(0, 16), broadcast_to(const(2), 16)), broadcast_to(const(1), 16)),
    )
    value = loaded(a, at)
    stores: list[Any] = [
        lambda b: stored(b, ramp(5, 16), value),
        lambda b: stored(b, ramp(20, 16, -1), value),
        lambda b: stored(b, ramp(1, 16, 3), value),
        lambda b: stored(b, loaded(p, at), value),
        lambda b: stored(b, at, value, odd),
        lambda b: stored(b, loaded(p, at), value, odd),
        lambda b: stored(b, ramp(9, 16), Broadcast(loaded(a, 3), 16)),
    ]
    outputs: list[Any] = [make_buffer((64,), kind, f"B{k}") for k in range(len(stores))]
    places = rng.permutation(60)[:16].astype("i4")
    program = func([a, p, *outputs], seq(*(s(b) for s, b in zip(stores, outputs, strict=True))))
    compare(program, sample(kind, 16, rng), places, target=target)


def test_a_masked_store_does_not_fault() -> None:
    b, i = make_buffer((19,), "float32", "B"), Var("i")
    at = ramp(i * 16, 16)
    fits = LT(at, broadcast_to(const(19), 16))
    ones = broadcast_to(const(1.0), 16)
    program = func([b], For(i, const(0), const(2), "serial", stored(b, at, ones, fits)))
    y = at_page_end(np.zeros(19, "f4"))
    build(program)(y)
    assert y.tolist() == [1.0] * 19


@pytest.mark.parametrize("index_type", ["int8", "uint8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_indices_of_every_type(index_type: str, lanes: int, rng: np.random.Generator) -> None:
    """uint8 200 is 200, not -56."""
    n = 250 if index_type.startswith("u") else 120
    a, p, b = (
        make_buffer((256,), "int32", "A"),
        make_buffer((8,), index_type, "P"),
        make_buffer((8,), "int32", "B"),
    )
    i = Var("i")
    at = vector_index(i * lanes, lanes)
    wide = dtype("int32").with_lanes(lanes)
    body = stored(b, at, loaded(a, loaded(p, at)) + loaded(a, Cast(wide, loaded(p, at))))
    program = func([a, p, b], For(i, const(0), const(8 // lanes), "serial", body))
    compare(program, sample("int32", 256, rng), rng.integers(n - 60, n, 8).astype(index_type))


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
def test_hashes_wrap_before_they_are_indices(kind: str, rng: np.random.Generator) -> None:
    a, p = make_buffer((13,), "int32", "A"), make_buffer((64,), kind, "P")
    b = make_buffer((64,), "int32", "B")
    prime = const(1000003, kind)

    def body(i: Var) -> Stmt:
        hashed = loaded(p, i) * prime + 7
        return stored(b, i, loaded(a, FloorMod(hashed, const(13, kind))))

    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, 64, kind)
    compare(func([a, p, b], loops((64,), body)), np.arange(13, dtype="i4"), x)


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_single_select_guards_what_it_takes(lanes: int) -> None:
    """As in the interpreter, the other side is not evaluated."""
    a, b = make_buffer((16,), "float32", "A"), make_buffer((40,), "float32", "B")

    def body(i: Var) -> Stmt:
        at = vector_index(i * lanes, lanes)
        return stored(b, at, Select(i * lanes < 16, loaded(a, at), broadcast_to(const(2.0), lanes)))

    x = np.arange(16, dtype="f4")
    y = np.zeros(40, "f4")
    build(func([a, b], loops((40 // lanes,), body)))(at_page_end(x), y)
    assert y.tolist() == [*range(16), *[2.0] * 24]


def test_a_cast_in_an_index_keeps_its_meaning() -> None:
    a, p, b = (
        make_buffer((300,), "int32", "A"),
        make_buffer((4,), "int8", "P"),
        make_buffer((4,), "int32", "B"),
    )

    def body(i: Var) -> Stmt:
        byte = Cast("uint8", loaded(p, i))
        return stored(b, i, loaded(a, Cast("int32", byte) + 1))

    found = compare(
        func([a, p, b], loops((4,), body)),
        np.arange(300, dtype="i4"),
        np.array([-1, -128, 0, 5], "i1"),
    )
    assert found[0].tolist() == [256, 129, 1, 6]


def test_bools_in_memory_are_bytes() -> None:
    """Any byte but 0 is true, and what is written is 0 or 1."""
    a, b = make_buffer((16,), "bool", "A"), make_buffer((16,), "bool", "B")
    c = make_buffer((16,), "float32", "C")
    at = ramp(0, 16)
    value = Select(loaded(a, at), broadcast_to(const(1.0), 16), broadcast_to(const(0.0), 16))
    program = func([a, b, c], seq(stored(b, at, loaded(a, at)), stored(c, at, value)))
    x = np.arange(16, dtype="u1").view(bool)
    y, z = np.zeros(16, bool), np.zeros(16, "f4")
    build(program)(x, y, z)
    assert y.view("u1").tolist() == [0] + [1] * 15 and z.tolist() == [0.0] + [1.0] * 15


# ---------------------------------------------------------------------------- memory of its own


def local(size: ExprLike, kind: str, body: Callable[..., Any]) -> Stmt:
    """`body(buffer)` with a buffer of its own."""
    buffer: Buffer = make_buffer((size,), kind, "L")
    extents = (buffer.shape[0],)
    inside = DeclBuffer(buffer, body(buffer))
    return Allocate(buffer.data, buffer.dtype, extents, const(True), inside)


@pytest.mark.parametrize("size", [1, 17, 1000, 200_000, 3_000_000])
@pytest.mark.parametrize("kind", ["bool", "float64"])
def test_allocations_small_and_large(size: int, kind: str) -> None:
    a, b = make_buffer((4,), kind, "A"), make_buffer((4,), kind, "B")

    def body(own: Buffer) -> Stmt:
        copy = loops((4,), lambda i: stored(own, i * (size // 4), loaded(a, i)))
        back = loops((4,), lambda i: stored(b, i, loaded(own, i * (size // 4))))
        return seq(copy, back)

    program = func([a, b], local(size, kind, body))
    x = np.array([0, 1, 1, 0] if kind == "bool" else [1, 2, 3, 4]).astype(kind)
    y = np.ones(4, kind)
    build(program)(x, y)
    assert y.tolist() == (x.tolist() if size >= 4 else [x[3]] * 4)


def test_many_local_arrays_do_not_overflow_the_stack() -> None:
    """40 arrays of 256 KiB alive at once, in a thread with a stack of 2 MiB."""
    b = make_buffer((1,), "float32", "B")
    size = 1 << 16

    def nest(k: int) -> Stmt:
        if k == 0:
            return stored(b, 0, 1.0)

        def body(own: Buffer) -> Stmt:
            fill = loops((size,), lambda i: stored(own, i, Cast("float32", i)))
            total = stored(b, 0, loaded(b, 0) + loaded(own, size - 1))
            return seq(fill, nest(k - 1), total)

        return local(size, "float32", body)

    kernel, y = build(func([b], nest(40))), np.zeros(1, "f4")
    before = threading.stack_size(2 << 20)
    try:
        thread = threading.Thread(target=kernel, args=(y,))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert y[0] == 1 + 40 * (size - 1)


def test_an_allocation_of_symbolic_size() -> None:
    n = Var("n")
    a, b = make_buffer((n,), "int32", "A"), make_buffer((n,), "int32", "B")

    def body(own: Buffer) -> Stmt:
        return seq(
            loops((n,), lambda i: stored(own, i, loaded(a, n - 1 - i))),
            loops((n,), lambda i: stored(b, i, loaded(own, i) * 2)),
        )

    kernel = build(func([a, b, n], local(n, "int32", body)))
    for size in (0, 1, 5, 300_000):
        x = np.arange(size, dtype="i4")
        y = np.zeros(size, "i4")
        kernel(x, y, size)
        np.testing.assert_array_equal(y, x[::-1] * 2)


def test_memory_that_is_not_to_be_had_is_an_error() -> None:
    n, b = Var("n", "int64"), make_buffer((1,), "int64", "B")
    body = local(n, "int64", lambda own: seq(stored(own, n - 1, n), stored(b, 0, n)))
    kernel, y = build(func([b, n], body)), np.zeros(1, "i8")
    kernel(y, 1000)
    assert y[0] == 1000
    with pytest.raises(UserError, match="no memory for 'L'"):
        kernel(y, 1 << 50)
    assert y[0] == 1000


@pytest.mark.parametrize("step", [1, 2, 3, 4, -1, -2, -3])
@pytest.mark.parametrize("kind", ["bool", "float16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_strided_loads_stay_inside(
    step: int, kind: str, lanes: int, rng: np.random.Generator
) -> None:
    """Nothing before the first element and behind the last is touched."""
    size = (lanes - 1) * abs(step) + 1
    a, b = make_buffer((size,), kind, "A"), make_buffer((lanes,), kind, "B")
    first = 0 if step > 0 else size - 1
    program = func([a, b], stored(b, ramp(0, lanes), loaded(a, ramp(first, lanes, step))))
    x, kernel = sample(kind, size, rng), build(program)
    for start in (True, False):
        y = np.zeros(lanes, dtype(kind).numpy)
        kernel(at_page_end(x, start), y)
        same(y, x[::step])


@pytest.mark.parametrize("kind", KINDS)
def test_constant_data(kind: str, rng: np.random.Generator) -> None:
    data, b = sample(kind, 37, rng), make_buffer((37,), kind, "B")
    table = make_buffer((37,), kind, "T")
    body = DeclBuffer(table, loops((37,), lambda i: stored(b, i, loaded(table, 36 - i))))
    extents = (const(37),)
    program = func([b], AllocateConst(table.data, table.dtype, extents, data, body))
    (found,) = results_of(program, [], build(program))
    same(found, data[::-1])


def test_a_local_buffer_of_vectors(rng: np.random.Generator) -> None:
    a, b = make_buffer((20,), "float32", "A"), make_buffer((20,), "float32", "B")

    def body(vectors: Buffer) -> Stmt:
        fill = loops((5,), lambda i: stored(vectors, i, loaded(a, ramp(i * 4, 4))))
        product: Any = lambda i: loaded(vectors, 4 - i) * loaded(vectors, i)  # noqa: E731
        return seq(fill, loops((5,), lambda i: stored(b, ramp(i * 4, 4), product(i))))

    x = rng.standard_normal(20).astype("f4")
    program = func([a, b], local(5, "float32x4", body))
    (found,) = results_of(program, [x], build(program))
    same(found.reshape(5, 4), x.reshape(5, 4)[::-1] * x.reshape(5, 4))
