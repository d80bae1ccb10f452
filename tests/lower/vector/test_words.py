"""Words of neighbours, loaded as they lie in vectors and in tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import build, te
from tileloom.expr import Call, Expr, Var
from tileloom.lower import lower
from tileloom.schedule import Schedule
from tileloom.tir import PrimFunc
from tower import check_lowering


def words(rows: int, steps: int, parts: int, apart: int = 1) -> PrimFunc:
    """B[k, j]: words of numbers that are `apart` in row j of A."""
    kind = {2: "int16", 4: "uint8"}[parts]
    A = te.placeholder((rows, steps * parts * apart), kind, name="A")

    def word(k: Any, j: Any) -> Expr:
        places = [k * parts * apart + part * apart for part in range(parts)]
        return Call("int32", "tir.word", [A[j, place] for place in places])

    return te.create_prim_func([A, te.compute((steps, rows), word, name="B")])


def check(func: PrimFunc, parts: int) -> None:
    rows, length = func.buffers[0].static_shape or (0, 0)
    steps = (func.buffers[1].static_shape or (0,))[0]
    apart = length // (steps * parts)
    a = np.random.default_rng(0).integers(0, 200, (rows, length)).astype(str(func.buffers[0].dtype))
    want = np.ascontiguousarray(a[:, ::apart]).view("int32").T
    check_lowering(func, [a, np.empty((steps, rows), "int32")], [None, want])


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("apart", [1, 3])
def test_words_in_vectors(parts: int, apart: int) -> None:
    sch = Schedule(words(5, 24, parts, apart))
    k, j = sch.get_loops("B")
    sch.reorder(j, k)
    sch.annotate(k, "vector_lanes", 8)
    func = sch.mod["main"]
    assert ("reinterpret" in str(lower(func))) == (apart == 1)
    check(func, parts)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize(("rows", "steps"), [(16, 16), (24, 19), (9, 8), (21, 5)])
def test_words_in_tiles(rows: int, steps: int, parts: int) -> None:
    sch = Schedule(words(rows, steps, parts))
    k, j = sch.get_loops("B")
    sch.annotate(k, "vector_tile", 8)
    sch.annotate(j, "vector_lanes", 8)
    func = sch.mod["main"]
    assert ("Shuffle" in str(lower(func)) or "shuffle" in str(lower(func))) == (steps >= 8)
    check(func, parts)


@pytest.mark.parametrize("rows", [5, 16, 37])
def test_tiles_of_an_open_width(rows: int) -> None:
    """Neighbours along the outer loop, which is of any length, as far apart along the inner one."""
    n = Var("n")
    A = te.placeholder((64, n), "uint8", name="A")

    def word(j: Any, k: Any) -> Expr:
        return Call("int32", "tir.word", [A[k * 4 + part, j] for part in range(4)])

    sch = Schedule(te.create_prim_func([A, te.compute((n, 16), word, name="B")]))
    j, k = sch.get_loops("B")
    sch.annotate(j, "vector_tile", 8)
    sch.annotate(k, "vector_lanes", 8)
    func = sch.mod["main"]
    assert "huffle" in str(lower(func))
    a = np.random.default_rng(0).integers(0, 200, (64, rows)).astype("uint8")
    got = np.empty((rows, 16), "int32")
    build(func)(a, got)
    assert np.array_equal(got, np.ascontiguousarray(a.T).view("int32"))
