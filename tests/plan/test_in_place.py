"""Results that replace operands, decided on blocks before they are scheduled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.driver import build
from tileloom.expr import const
from tileloom.plan import plan_in_place, plan_kernel
from tileloom.plan.in_place import replace_operand
from tileloom.script import from_source
from tileloom.target import Target
from tileloom.tir import PrimFunc, run

N, M = 21, 34
HOST = Target.host()
Make = Callable[[Any, Any], list[Any]]


def elementwise(a: Any, b: Any) -> list[Any]:
    return [te.compute((N, M), lambda i, j: a[i, j] * 2.0 + b[i, j], name="C")]


def rows(a: Any, b: Any) -> list[Any]:
    k = te.reduce_axis((0, M), name="k")
    total = te.compute((N,), lambda i: te.sum(a[i, k], axis=k), name="S")
    return [te.compute((N, M), lambda i, j: a[i, j] - total[i] + b[i, j], name="C")]


def of_rows(a: Any, b: Any) -> list[Any]:
    k = te.reduce_axis((0, M), name="k")
    total = te.compute((N,), lambda i: te.sum(b[i, k], axis=k), name="S")
    return [te.compute((N, M), lambda i, j: a[i, j] - total[i], name="C")]


def kept_as_well(a: Any, b: Any) -> list[Any]:
    new = te.compute((N, M), lambda i, j: a[i, j] + b[i, j], name="C")
    return [new, te.compute((N, M), lambda i, j: new[i, j] * 3.0, name="D")]


def a_chain(a: Any, b: Any) -> list[Any]:
    twice = te.compute((N, M), lambda i, j: a[i, j] * 2.0, name="T")
    return [te.compute((N, M), lambda i, j: twice[i, j] + b[i, j], name="C")]


def not_read(a: Any, b: Any) -> list[Any]:
    return [te.compute((N, M), lambda i, j: b[i, j] + 1.0, name="C")]


def before(a: Any, b: Any) -> list[Any]:
    other = te.compute((N, M), lambda i, j: a[N - 1 - i, j] * 2.0, name="T")
    return [te.compute((N, M), lambda i, j: other[i, j] + b[i, j], name="C")]


def reversed_rows(a: Any, b: Any) -> list[Any]:
    return [te.compute((N, M), lambda i, j: a[N - 1 - i, j] + b[i, j], name="C")]


def both(a: Any, b: Any) -> list[Any]:
    """The old value is needed by what needs the new one."""
    new = te.compute((N, M), lambda i, j: a[i, j] + b[i, j], name="C")
    return [new, te.compute((N, M), lambda i, j: new[i, j] * a[i, j], name="D")]


def prefix(a: Any, b: Any) -> list[Any]:
    k = te.reduce_axis((0, M), name="k")
    value = lambda i, j: te.sum(te.if_then_else(k <= j, a[i, k], 0.0), axis=k)  # noqa: E731
    return [te.compute((N, M), value, name="C")]


def function(make: Make) -> PrimFunc:
    a, b = te.placeholder((N, M), name="A"), te.placeholder((N, M), name="B")
    return te.create_prim_func([a, b, *make(a, b)])


@pytest.mark.parametrize(
    "make",
    [elementwise, kept_as_well, a_chain, not_read, of_rows],
)
def test_safe_functions_compute_the_same(make: Make) -> None:
    func = function(make)
    merged = plan_in_place(func, HOST, 0, 2)
    assert merged is not None and [b.name for b in merged.func.buffers][:2] == ["B", "C"]
    a, b = np.random.default_rng(0).standard_normal((2, N, M)).astype("float32")
    outputs = [np.empty_like(a) for _ in func.params[2:]]
    build(plan_kernel(func, HOST).func)(a, b, *outputs)
    further = [np.empty_like(a) for _ in outputs[1:]]
    place = a.copy()
    build(merged.func)(b, place, *further)
    for have, want in zip((place, *further), outputs, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [reversed_rows, both, prefix, rows, before])
def test_unsafe_functions_stay(make: Make) -> None:
    assert plan_in_place(function(make), HOST, 0, 2) is None


def test_other_sizes_and_types_stay() -> None:
    a, wide = te.placeholder((8,), name="A"), te.placeholder((8,), "float64", "A")
    half = te.compute((4,), lambda i: a[i] + a[i + 4], name="B")
    assert replace_operand(te.create_prim_func([a, half]), 0, 1) is None
    narrowed = te.compute((8,), lambda i: wide[i].astype("float32"), name="B")
    assert replace_operand(te.create_prim_func([wide, narrowed]), 0, 1) is None


@pytest.mark.parametrize(("place", "safe"), [(lambda i, j: i * 4 + j, True),
                                             (lambda i, j: i + j * 2, False)])  # fmt: skip
def test_other_shapes_of_the_same_size(place: Callable[..., Any], safe: bool) -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((2, 4), lambda i, j: a[place(i, j)] * 2.0, name="B")])
    merged = replace_operand(func, 0, 1)
    assert (merged is not None) == safe
    if merged is not None:
        values = np.arange(8, dtype="float32").reshape(2, 4)
        build(merged)(values)
        np.testing.assert_array_equal(values.ravel(), np.arange(8) * 2)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_arrays_with_more_than_2_to_the_31_elements(kind: str) -> None:
    n = const(1 << 16, kind)
    a = te.placeholder((n, n), name="A")
    func = te.create_prim_func([a, te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="B")])
    assert replace_operand(func, 0, 1) is not None
    turned = te.compute((n, n), lambda i, j: a[j, i] * 2.0, name="B")
    assert replace_operand(te.create_prim_func([a, turned]), 0, 1) is None


@pytest.mark.parametrize(("kind", "rows", "safe"), [("int32", 1 << 16, False),
                         ("int64", 1 << 16, True), ("int32", 1 << 14, True)])  # fmt: skip
def test_positions_that_are_no_numbers_of_the_index_type(kind: str, rows: int, safe: bool) -> None:
    n, m = const(rows, kind), const(1 << 16, kind)
    a = te.placeholder((n, m, const(1, kind)), name="A")
    zero = const(0, kind)
    func = te.create_prim_func([a, te.compute((n, m), lambda i, j: a[i, j, zero] * 2.0, name="B")])
    assert (replace_operand(func, 0, 1) is not None) is safe


def nest(store: str, name: str = "C", extent: int = 8, kind: str = "spatial") -> str:
    """A nest of one block; its variable is v."""
    return f"""
    for i in range({extent}):
        with T.block("{name}"):
            v = T.axis.{kind}({extent}, i)
            {store}"""


@pytest.mark.parametrize(
    ("body", "safe"),
    [
        (nest("C[v] = A[v] * 2.0"), True),
        (nest("C[v] = B[v] * 2.0"), True),
        (nest("C[v] = A[v]", extent=4), True),
        (nest("C[v] = A[v]") + nest("B[v] = C[v]", "B"), True),
        (nest("C[v] = A[7 - v]"), False),
        (nest("C[v] = A[v] + A[0]"), False),
        (nest("C[7 - v] = A[7 - v]"), False),  # it would have to be seen that this is a bijection
        (nest("A[v] = B[v]", "A") + nest("C[v] = A[v]"), False),  # the operand is a result as well
        (nest("C[v] = B[v]") + nest("A[v] = B[v]", "A"), False),
        (nest("C[v] = A[v]", "C1", 4) + nest("C[v + 4] = A[v + 4]", "C2", 4), False),
        (nest("C[v] = B[v]", "C1", 4) + nest("C[v + 4] = B[v + 4]", "C2", 4), False),
        (nest("B[v] = A[v]", "B") + nest("C[v] = B[v]"), False),  # made of what is read before
        (nest("C[v] = B[v]") + nest("B[v] = A[v]", "B"), False),
        (nest("C[v] = A[v]", kind="reduce"), False),
        (nest("C[0] = A[0]"), False),  # which all iterations read, and the first one overwrites
    ],
)
def test_who_may_read_what_is_replaced(body: str, safe: bool) -> None:
    arrays = ", ".join(f'{name}: T.Buffer((8,), "float32")' for name in "ABC")
    func: Any = from_source(
        f"from tileloom.script import tir as T\n\n@T.prim_func\ndef main({arrays}):{body}\n"
    )
    merged = replace_operand(func, 0, 2)
    assert (merged is not None) == safe
    if merged is None:
        return
    a, b = np.arange(8, dtype="float32"), np.arange(8, dtype="float32") * 10
    apart, other, result = a.copy(), b.copy(), a.copy()
    run(func, apart, other, result)  # what is not stored stays what the operand was
    assert [buffer.name for buffer in merged.buffers] == ["B", "C"]
    run(merged, b, a)
    assert np.array_equal(a, result) and np.array_equal(b, other)


@pytest.mark.parametrize("strided", [0, 1])
def test_strided_buffers_stay(strided: int) -> None:
    strides = ["", ""]
    strides[strided] = ", strides=[2]"
    func: Any = from_source(
        "from tileloom.script import tir as T\n\n@T.prim_func\ndef main(a: T.handle, c: T.handle):"
        f"""
    A = T.match_buffer(a, (8,), "float32"{strides[0]})
    C = T.match_buffer(c, (8,), "float32"{strides[1]})
    {nest("C[v] = A[v] * 2.0").strip()}
"""
    )
    assert replace_operand(func, 0, 1) is None
