"""Specialization: sizes and scalars become known, the meaning stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError, ShapeError
from tileloom.expr import SizeVar, Var, const
from tileloom.tir import (
    Block,
    BlockRealize,
    assert_structural_equal,
    make_buffer,
    run,
    seq,
    structural_equal,
    verify,
)
from tileloom.tir.specialize import specialize
from tir.programs import func, load, loops, matmul, softmax, store


def test_sizes_become_those_of_the_static_program() -> None:
    m, n, k = SizeVar("m"), SizeVar("n"), SizeVar("k")
    general = matmul(m, n, k)
    assert_structural_equal(specialize(general, {m: 2, n: 3, k: 5}), matmul(2, 3, 5))
    some = specialize(general, {n: 3})
    assert_structural_equal(some, matmul(SizeVar("m"), 3, SizeVar("k")))
    assert structural_equal(specialize(some, {m: 2, k: 5}), matmul(2, 3, 5))
    verify(some)


def test_by_buffers() -> None:
    m, n, k = SizeVar("m"), SizeVar("n"), SizeVar("k")
    general = matmul(m, n, k)
    a, b, _ = general.params
    values: Any = {a: make_buffer((7, 1)), general.buffers[1]: make_buffer((1, 4))}
    assert_structural_equal(specialize(general, values), matmul(7, 4, 1))
    for values, message in [
        ({a: make_buffer((7, 1)), b: make_buffer((2, 4))}, "extent 0 of buffer 'B' is 1, got 2"),
        ({a: make_buffer((7,))}, "cannot stand for"),
        ({a: make_buffer((7, 1), "int8")}, "cannot stand for"),
        ({a: make_buffer((7, 1), strides=(1, 1))}, "no strides"),
    ]:
        with pytest.raises(ShapeError, match=message):
            specialize(general, values)
    moved = general.replace(
        buffer_map={**general.buffer_map, a: make_buffer((m, k), name="A", elem_offset=Var("at"))}
    )
    found = specialize(moved, {a: make_buffer((7, 1))}).buffers[0]
    assert found.static_shape == (7, 1) and isinstance(found.elem_offset, Var)
    static = matmul(2, 3, 4)
    with pytest.raises(ShapeError, match="extent 1 of buffer 'A' is 4, got 5"):
        specialize(static, {static.params[0]: make_buffer((2, 5))})
    assert specialize(static, {static.params[0]: make_buffer((2, 4))}) is static


def test_scalars_disappear_and_fold() -> None:
    x, n = Var("x"), SizeVar("n")
    a, t = make_buffer((n * 2,), "int32", "A"), make_buffer((n + 1,), "int32", "T")
    body = loops((n * 2,), lambda i: store(a, (i,), load(t, i % (n + 1)) * x))
    fill = loops((n + 1,), lambda i: store(t, (i,), i + x // n))
    root = Block((), (), (), "root", seq(fill, body), alloc_buffers=(t,))
    f = func((a, x, n), BlockRealize((), const(True), root))
    g: Any = specialize(f, {x: 3, n: 4})
    assert len(g.params) == 1
    assert g.buffers[0].static_shape == (8,)
    assert g.body.block.alloc_buffers[0].static_shape == (5,)
    verify(g)
    one, two = np.zeros(8, "int32"), np.zeros(8, "int32")
    run(f, one, 3, 4)
    run(g, two)
    np.testing.assert_array_equal(one, two)
    with pytest.raises(ArgumentError, match="x is a int32, got"):
        specialize(f, {x: 1.5})


def test_what_is_not_concerned_stays_the_same_object() -> None:
    n, m = SizeVar("n"), SizeVar("m")
    a, b = make_buffer((8,), "int32", "A"), make_buffer((n,), "int32", "B")
    first = loops((8,), lambda i: store(a, (i,), i))
    second = loops((n,), lambda i: store(b, (i,), i))
    f = func((a, b, n, m), seq(first, second))
    assert specialize(f, {m: 3}).body is f.body
    blocks = softmax(2, 3)
    assert specialize(blocks.replace(params=(*blocks.params, m)), {m: 3}).body is blocks.body
    assert specialize(f, {n: 3}).body.seq[0] is first


def test_a_division_by_zero_is_left_alone() -> None:
    x, a = Var("x"), make_buffer((1,), "int32", "A")
    f = func((a, x), store(a, (0,), const(8) // x))
    assert str(specialize(f, {x: 0}).body.value) == "8 // 0"


def test_unknown_keys() -> None:
    f = softmax(2, 3)
    key: Any
    value: Any
    for key, value in [(Var("z"), 1), (make_buffer((2,), name="Z"), make_buffer((2,)))]:
        with pytest.raises(ArgumentError, match=r"z is no parameter|'Z' is no buffer"):
            specialize(f, {key: value})
    with pytest.raises(ArgumentError, match="specialized by a buffer"):
        specialize(f, {f.params[0]: 3})


def test_sizes_are_folded_in_indices() -> None:
    n, i = SizeVar("n"), Var("i")
    buffer = make_buffer((64,), "int32", "A")
    for index, text in (
        (i * n, "A[i]"), (n * i + n, "A[i + 1]"), (i // n, "A[i]"), ((n + 3) * i, "A[4 * i]"),
        (i % n, "A[0]"),
    ):  # fmt: skip
        made = specialize(func((buffer, i, n), store(buffer, (index,), 1)), {n: 1})
        assert f"{text} = 1" in str(made), (text, str(made))
