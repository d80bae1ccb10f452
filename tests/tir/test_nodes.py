"""Nodes of programs: what they say of themselves, and how they are built."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tileloom.base.errors import ShapeError
from tileloom.expr import Broadcast, IntImm, Ramp, Range, SizeVar, Var, const
from tileloom.tir import (
    BufferLoad,
    BufferRegion,
    Evaluate,
    IRModule,
    PrimFunc,
    SeqStmt,
    make_buffer,
    seq,
)
from tileloom.tir.nodes import check_extents, first_line, is_no_op
from tir.programs import func, load, loops, matmul, store

A = make_buffer((4, 6), "float32", "A")
N = SizeVar("n")


def test_one_object_is_the_same_as_itself_alone() -> None:
    one, two = store(A, (0, 0), 1), store(A, (0, 0), 1)
    pairs: list[Any] = [
        (one, two), (func((A,), one), func((A,), one)), (IRModule({}), IRModule({})),
        (A, make_buffer((4, 6), "float32", "A")), (Var("x"), Var("x")),
    ]  # fmt: skip
    for a, b in pairs:
        assert a.same_as(a) and not a.same_as(b) and not a.same_as(None)
    assert load(A, 0, 1).same_as(load(A, 0, 1)) and not load(A, 0, 1).same_as(load(A, 1, 0))


def test_buffers() -> None:
    scope: Any = A.scope
    assert (A.ndim, A.static_shape, scope, scope()) == (2, (4, 6), "global", "global")
    assert repr(A) == "Buffer(A: float32[4, 6] in global)"
    open_ = make_buffer((N, 6), "int8", "O", scope="shared")
    assert (open_.ndim, open_.static_shape, open_.scope) == (2, None, "shared")
    assert open_.data.pointee == ("int8", "shared") and open_.data.name == "O"
    assert make_buffer(()).static_shape == ()
    over = make_buffer((24,), data=A.data, strides=(2,))
    assert over.data is A.data and over.strides == (const(2),)
    assert (A.data_alignment, A.offset_factor, A.elem_offset, A.strides) == (64, 0, None, ())
    assert A[1, 2] is BufferLoad(A, [const(1), const(2)])
    assert over[N + 1] is BufferLoad(over, [N + 1])
    vector = BufferLoad(make_buffer((4,), "float32x2"), [Ramp(const(0), const(1), 4)])
    assert vector.dtype == "float32x8"
    cases: list[Any] = [((0, 4), None), ((4, -1), -1), ((-7, -1), -7), ((N, 0), None)]
    for sizes, bad in cases:
        if bad is None:
            check_extents([IntImm("int32", s) if isinstance(s, int) else s for s in sizes], "X")
            assert make_buffer(sizes).ndim == 2
        else:
            with pytest.raises(ShapeError, match=f"^X has the negative extent {bad}$"):
                make_buffer(sizes, name="X")


def test_loads_and_regions() -> None:
    mask = Broadcast(const(True), 2)
    lanes = Ramp(const(0), const(1), 2)
    plain, masked = BufferLoad(A, [N, lanes]), BufferLoad(A, [N, lanes], mask)
    assert plain.children == (N, lanes) and masked.children == (N, lanes, mask)
    assert plain.with_children((const(1), lanes)) is BufferLoad(A, [const(1), lanes])
    other = masked.with_children((const(1), lanes, mask))
    assert other is BufferLoad(A, [const(1), lanes], mask)
    whole, point = BufferRegion.full(A), BufferRegion.point(A, [N, const(2, "int64")])
    assert [(str(r.min), str(r.extent)) for r in whole.region] == [("0", "4"), ("0", "6")]
    assert [(str(r.min), str(r.extent)) for r in point.region] == [
        ("n", "1"), ("T.int64(2)", "T.int64(1)"),
    ]  # fmt: skip
    assert isinstance(whole.region[0], Range)


def test_rows_of_statements() -> None:
    one, two, three = (store(A, (0, k), k) for k in range(3))
    nothing = Evaluate(const(0))
    row: Any = seq(one, seq(two, nothing), None, nothing, three)
    assert isinstance(row, SeqStmt) and row.seq == (one, two, three)
    assert (len(row), row[0], row[2], row[-1]) == (3, one, three, three)
    assert bool(row) and bool(SeqStmt(()))
    assert seq(one) is one and seq(nothing, one, None) is one
    assert is_no_op(seq()) and is_no_op(seq(nothing, nothing)) and is_no_op(nothing)
    assert not is_no_op(one) and not is_no_op(Evaluate(N)) and not is_no_op(row)


def test_functions() -> None:
    f = func((A, N), store(A, (0, 0), 1), "name")
    assert (f.name, PrimFunc((), Evaluate(const(0))).name) == ("name", "main")
    assert f.buffers == (A,) and func((N,), f.body).buffers == ()
    b = make_buffer((1,), name="B")
    assert func((b, N, A), f.body).buffers == (b, A)
    assert f.with_attr("k", 3).attrs == {"global_symbol": "name", "k": 3}
    assert f.with_attr({"k": 3, "l": 4}).attrs == {"global_symbol": "name", "k": 3, "l": 4}
    assert f.with_attr("k", 3).with_attr("k", 4).attrs["k"] == 4
    assert f.with_attr("k", 3).without_attr("global_symbol").attrs == {"k": 3}
    assert f.without_attr("unknown").attrs == f.attrs == {"global_symbol": "name"}
    assert f.with_body(two := Evaluate(N)).body is two and f.body is not two
    assert IRModule({"f": f})["f"] is f
    with pytest.raises(KeyError):
        IRModule({"f": f})["g"]


def test_texts(capsys: pytest.CaptureFixture[str]) -> None:
    f = matmul(2, 3, 4)
    assert str(f) == f.script() == f.script(show_meta=True) and "T.match_buffer" not in str(f)
    f.show()
    assert capsys.readouterr().out == f"{f}\n"
    loop = loops((3,), lambda i: store(A, (i, 0), 1))
    assert first_line(loop) == "for i0 in range(3): ..." and first_line(N + 1) == "n + 1"
    assert first_line("") == "" and first_line("\n\n a\n") == "a" and first_line("a\nb") == "a ..."


def test_copies() -> None:
    expr = load(A, 0, 1) + N
    assert copy.copy(expr) is expr and copy.deepcopy(expr) is expr
    f = matmul(2, N, 3)
    again = pickle.loads(pickle.dumps(f))
    assert again is not f and str(again) == str(f)
