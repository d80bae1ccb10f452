"""The verifiers: legal programs pass, each kind of breach is found and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import UserError, VerifyError
from tileloom.expr import (
    And,
    Broadcast,
    Call,
    Cast,
    CommReducer,
    Expr,
    IterVar,
    Let,
    Not,
    Or,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
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
    Stmt,
    While,
    make_buffer,
    seq,
)
from tileloom.tir.spec import verify
from tir.programs import at, block, func, load, loops, matmul, softmax, store

A = make_buffer((4, 4), "float32", "A")
ROW = make_buffer((16,), "float32", "Row")
X = Var("x")
TRUE = const(True)
NOTHING = Evaluate(const(0))


def of(stmt: Stmt, *params: Any) -> PrimFunc:
    return func((A, ROW, *params), stmt)


def refuse(stmt: Any, message: str, stage: str = "blocks", *params: Any) -> None:
    program = stmt if isinstance(stmt, (PrimFunc, IRModule)) else of(stmt, *params)
    with pytest.raises(VerifyError, match=message):
        verify(program, stage)


@pytest.mark.parametrize(
    "program",
    [
        matmul(2, 3, 4),
        matmul(SizeVar("m"), SizeVar("n"), SizeVar("k")),
        softmax(2, 3),
        IRModule({"f": softmax(1, 1), "g": matmul(1, 1, 1)}),
    ],
)
def test_legal_blocks(program: Any) -> None:
    verify(program, "blocks")
    with pytest.raises(VerifyError, match="must be gone by now"):
        verify(program, "loops")


def test_legal_loops_and_flat() -> None:
    two = of(loops((4, 4), lambda i, j: store(A, (i, j), 0)))
    verify(two, "loops")
    with pytest.raises(VerifyError, match="buffer 'A' is not flat"):
        verify(two, "flat")
    p = Var("p", "handle", ("float32", "local"))
    local = make_buffer((16,), "float32", "local", data=p)
    ramp = Ramp(const(0), const(1), 4)
    body = seq(
        DeclBuffer(local, store(local, (0,), 1)),
        BufferStore(ROW, BufferLoad(local, [ramp]), (ramp,)),
    )
    flat = of(Allocate(p, dtype("float32"), (const(16),), TRUE, body))
    verify(flat, "flat")
    verify(flat, "loops")
    with pytest.raises(VerifyError, match="'local' is used where it is not declared"):
        verify(flat, "blocks")


def test_unknown_stage() -> None:
    with pytest.raises(UserError, match="unknown stage 'end'"):
        verify(matmul(1, 1, 1), "end")


def test_the_message_names_the_place() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(of(loops((4,), lambda i: store(ROW, (i + X,), 0))))
    text = str(caught.value)
    assert "variable 'x' is used where it is not defined" in text
    assert "in: function 'main' > loop 'i0'" in text
    assert "at: i0 + x" in text


# ---------------------------------------------------------------------------- definitions


def test_variables() -> None:
    loop = For(X, const(0), const(4), "serial", store(ROW, (X,), 0))
    verify(of(loop))
    refuse(loop.replace(body=loop), "'x' is defined a second time|defined a second")
    refuse(seq(loop, loop.replace(kind="parallel")), "'x' is defined a second time")
    refuse(seq(loop, store(ROW, (X,), 0)), "'x' is used where it is not defined")
    refuse(LetStmt(X, X + 1, NOTHING), "'x' is used where it is not defined")
    refuse(LetStmt(X, const(1, "int64"), NOTHING), "the value of 'x' is a int64, not a int32")
    let = Let(X, const(1), X + 1)
    verify(of(Evaluate(let + let)))
    refuse(Evaluate(let + Let(X, const(2), X)), "'x' is defined a second time")
    refuse(Evaluate(let + X), "'x' is used")


def test_parameters() -> None:
    p, q = Var("p", "handle"), Var("q", "handle")
    refuse(PrimFunc((p, p), NOTHING), "'p' stands twice")
    refuse(PrimFunc((p,), NOTHING, {q: A}), "buffer 'A' belongs to 'q', not a parameter")
    refuse(PrimFunc((X,), NOTHING, {X: A}), "parameter 'x' of a buffer is a int32")
    half = make_buffer((const(1.5),), "float32", "H")
    refuse(PrimFunc((p,), NOTHING, {p: half}), "buffer 'H' has a float32 in its shape")
    odd = make_buffer((4, 4), name="odd", strides=(1,))
    refuse(PrimFunc((p,), NOTHING, {p: odd}), "2 dimensions and 1 strides")


def test_buffers() -> None:
    other = make_buffer((4,), name="other")
    for stage in ("blocks", "loops", "flat"):
        refuse(store(other, (0,), 0), "'other' is used where it is not declared", stage)
        refuse(store(ROW, (0,), load(other, 0)), "'other' is used", stage)
    refuse(DeclBuffer(other, NOTHING), "'other' stands over a pointer that is not defined")
    alias = make_buffer((4,), name="alias", data=A.data)
    verify(of(DeclBuffer(alias, store(alias, (0,), 0))))
    refuse(seq(DeclBuffer(alias, NOTHING), store(alias, (0,), 0)), "'alias' is used")
    shaped = make_buffer((X,), name="shaped", data=A.data)
    refuse(DeclBuffer(shaped, NOTHING), "'x' is used")


# ---------------------------------------------------------------------------- blocks


def test_blocks_hide_the_loops_around() -> None:
    def body(i: Var) -> Stmt:
        return block("B", "S", (4,), lambda v: store(ROW, (i,), 0), values=[i])

    refuse(loops((4,), body), "loop variable 'i0' is used inside of a block")

    def nested(v: Var) -> Stmt:  # the variable of an outer block may be used
        return block("inner", "S", (4,), lambda w: store(ROW, (v + w,), 0))

    verify(of(block("outer", "S", (4,), nested)))


def realize(node: Block, *values: Expr, predicate: Expr = TRUE) -> BlockRealize:
    return BlockRealize(values, predicate, node)


def test_block_realizations() -> None:
    axis = IterVar(Range(0, 4), Var("v"))
    node = Block((axis,), (), (), "B", NOTHING)
    verify(of(realize(node, const(0))))
    refuse(realize(node), "1 iteration variables and is realised for 0 values")
    refuse(realize(node, const(0, "int64")), "the value of 'v' of block 'B' is a int64")
    refuse(
        realize(node, const(0), predicate=const(1)), "predicate of block 'B' is a int32, not a bool"
    )
    refuse(node, "stands outside of a BlockRealize")
    for bad, message in [
        (IterVar(None, Var("v")), "domain of 'v' is missing"),
        (IterVar(Range(0, -1), Var("v")), "domain of 'v' is negative"),
        (IterVar(Range(0, 4), Var("v", "int64")), "domain of 'v' is a int32, not a int64"),
        (IterVar(Range(0, 4), Var("v"), 17), "unknown type 17"),
    ]:
        refuse(realize(node.replace(iter_vars=(bad,)), const(0, bad.var.dtype)), message)


def test_block_regions() -> None:
    def with_regions(**regions: Any) -> BlockRealize:
        return realize(Block((), regions.pop("reads", ()), (), "B", NOTHING, **regions))

    refuse(with_regions(reads=(BufferRegion(A, (Range(0, 4),)),)), "1 ranges for 2 dimensions")
    refuse(with_regions(reads=(at(ROW, (X,)),)), "'x' is used")
    refuse(
        with_regions(reads=(at(make_buffer((4,), name="o"), (const(0),)),)), "buffer 'o' is used"
    )
    sub = make_buffer((2,), "float32", "sub", elem_offset=Var("o"))
    match = MatchBufferRegion(sub, BufferRegion(ROW, (Range(4, 2),)))
    verify(of(with_regions(match_buffers=(match,))))
    wrong = MatchBufferRegion(make_buffer((2,), "int8", "sub"), match.source)
    refuse(with_regions(match_buffers=(wrong,)), "matches one of another type")
    local = make_buffer((X,), name="local")
    refuse(with_regions(alloc_buffers=(local,)), "'x' is used")


# ---------------------------------------------------------------------------- statements


def test_loops() -> None:
    loop: Any = For(X, const(0), const(4), "serial", NOTHING)
    thread = IterVar(Range(0, 4), Var("t"), 1, "threadIdx.x")
    verify(of(loop.replace(kind="thread_binding", thread_binding=thread)))
    change: Any
    for change, message in [
        ({"kind": "fast"}, "unknown kind 'fast'"),
        ({"extent": const(4, "int64")}, "extent of loop 'x' is a int64, not a int32"),
        ({"min": const(0.0)}, "start of loop 'x' is a float32"),
        ({"loop_var": Var("f", "float32")}, "loop 'f' has a variable of type float32"),
        ({"kind": "thread_binding"}, "without a thread binding"),
        ({"thread_binding": thread}, "loop 'x' is serial, with a thread binding"),
        (
            {"kind": "thread_binding", "thread_binding": IterVar(None, Var("t"), 1)},
            "thread without a tag",
        ),
    ]:
        refuse(loop.replace(**change), message)
    refuse(loop.replace(kind="vectorized"), "still to be vectorised", "flat")


def test_accesses() -> None:
    refuse(store(A, (0,), 0), "2 dimensions, but is accessed by 1 indices")
    refuse(store(ROW, (0,), load(A, 0)), "accessed by 1 indices")
    refuse(BufferStore(ROW, const(0), (const(0),)), "stored to buffer 'Row' is a int32")
    refuse(store(ROW, (const(1.0),), 0), "index 0 of buffer 'Row' is a float32")
    lanes = Ramp(const(0), const(1), 4)
    four = Broadcast(const(0.0), 4)
    verify(of(BufferStore(A, four, (const(0), lanes))))
    refuse(BufferStore(A, const(0.0), (const(0), lanes)), "is a float32, not a float32x4")
    refuse(BufferStore(A, four, (lanes, const(0))), "index 0 of buffer 'A' is a vector")
    mask = Broadcast(TRUE, 4)
    verify(of(BufferStore(ROW, four, (lanes,), mask)))
    refuse(BufferStore(ROW, four, (lanes,), TRUE), "4 lanes, but its predicate is a bool")
    refuse(BufferStore(ROW, const(0.0), (const(0),), mask), "1 lanes, but its predicate")
    refuse(Evaluate(BufferLoad(ROW, [lanes], Broadcast(const(1), 4))), "predicate is a int32x4")


def test_conditions_are_bools() -> None:
    one = const(1)
    refuse(IfThenElse(one, NOTHING), "condition of a branch is a int32, not a bool")
    refuse(While(one, NOTHING), "condition of a while loop is a int32")
    refuse(AssertStmt(one, "", NOTHING), "condition of an assertion is a int32")
    refuse(IfThenElse(Broadcast(TRUE, 2), NOTHING), "is a boolx2")
    refuse(IfThenElse(TRUE, NOTHING, IfThenElse(one, NOTHING)), "branch is a int32")


def test_expressions() -> None:
    lanes = Ramp(const(0), const(1), 4)
    f = Var("f", "float32")
    for expr, message in [
        (And(const(1), const(2)), "'and' needs bools"),
        (Not(const(1)), "'not' needs a bool"),
        (Select(const(1), lanes, lanes), "condition of a Select of int32x4 is a int32"),
        (Select(Broadcast(TRUE, 2), lanes, lanes), "is a boolx2"),
        (Cast("float32x2", lanes), "changes the number of lanes"),
        (Ramp(const(0), const(1, "int64"), 4), "stride of int64"),
        (Shuffle([lanes, const(1.0)], [0]), "several types"),
        (Call("float32", "tir.exp", []), "tir.exp takes 1 arguments, got 0"),
        (Call("int32", "tir.if_then_else", [const(1)] * 3), "condition of tir.if_then_else"),
        (Call("int32", "tir.if_then_else", [TRUE, const(1), const(1.0)]), "chooses between"),
        (
            Reduce(CommReducer([f], [f], [f], [f]), [const(0.0)], [], [], TRUE),
            "Reduce belongs to tensor expressions",
        ),
    ]:
        refuse(Evaluate(expr), message)
    verify(of(Evaluate(Select(TRUE, lanes, lanes))))


def test_memory() -> None:
    p = Var("p", "handle", ("float32", "global"))
    memory = Allocate(p, dtype("float32"), (const(4), const(4)), TRUE, NOTHING)
    verify(of(memory), "loops")
    refuse(memory, "2 extents, not one", "flat")
    refuse(
        memory.replace(body=memory.replace(condition=const(False))),
        "'p' is defined a second",
        "loops",
    )
    refuse(memory.replace(condition=const(1)), "condition of the memory of 'p'", "loops")
    refuse(memory.replace(extents=(const(1.0),)), "extent of type float32", "loops")
    refuse(memory.replace(buffer_var=X), "allocated for 'x', a int32", "loops")
    data = AllocateConst(p, dtype("float32"), (const(2),), np.zeros(2, "int32"), NOTHING)
    refuse(data, "data of 'p' is int32, not float32", "flat")


def test_launches() -> None:
    axis = IterVar(None, X, 1, "threadIdx.x")
    launch = AttrStmt(axis, "thread_extent", const(4), store(ROW, (X,), 0))
    verify(of(seq(launch, launch)), "flat")
    refuse(launch.replace(node="x"), "needs an iteration variable", "flat")
    inner = block("B", "S", (4,), lambda v: store(ROW, (X,), 0), values=[X])
    refuse(launch.replace(body=inner), "loop variable 'x' is used inside of a block")


# ---------------------------------------------------------------------------- at the edge


TWO = Broadcast(const(1), 2)
ONE_LANE = Ramp(const(0), const(1), 2)
HALF = Broadcast(const(1.0), 2)
PAIR = Broadcast(TRUE, 2)


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        # Vectors of two lanes are vectors.
        (DeclBuffer(make_buffer((TWO,), name="o", data=A.data), NOTHING),
         "'o' has a int32x2 in its shape"),
        (DeclBuffer(make_buffer((4,), name="o", data=A.data, strides=(TWO,)), NOTHING),
         "'o' has a int32x2 in its shape or strides"),
        (DeclBuffer(make_buffer((4,), name="o", data=A.data, elem_offset=TWO), NOTHING),
         "'o' has a int32x2 in its shape or strides"),
        (DeclBuffer(make_buffer((4,), name="o", data=A.data, strides=(1, 1)), NOTHING),
         "1 dimensions and 2 strides"),
        (DeclBuffer(make_buffer((4,), name="o", data=X), NOTHING), "of buffer 'o' is a int32"),
        (For(Var("v", "int32x2"), TWO, TWO, "serial", NOTHING), "has a variable of type int32x2"),
        (For(Var("b", "bool"), TRUE, TRUE, "serial", NOTHING), "has a variable of type bool"),
        (BufferStore(A, HALF, (TWO, const(0))), "index 0 of buffer 'A' is a vector; only the last"),
        (Evaluate(BufferLoad(A, [ONE_LANE, ONE_LANE])), "index 0 of buffer 'A' is a vector"),
        (Evaluate(BufferLoad(A, [TRUE, const(0)])), "index 0 of buffer 'A' is a bool, not an int"),
        (Evaluate(BufferLoad(ROW, [ONE_LANE], TRUE)), "has 2 lanes, but its predicate is a bool"),
        (Evaluate(BufferLoad(ROW, [ONE_LANE], TWO)), "2 lanes, but its predicate is a int32x2"),
        (Evaluate(BufferLoad(ROW, [const(0)], PAIR)), "has 1 lanes, but its predicate is a boolx2"),
        (BufferStore(ROW, const(1.0), (ONE_LANE,)), "'Row' is a float32, not a float32x2"),
        (BufferStore(ROW, HALF, (const(0),)), "to buffer 'Row' is a float32x2, not a float32"),
        (Evaluate(Select(PAIR, const(1), const(2))), "condition of a Select of int32 is a boolx2"),
        (Evaluate(Select(const(1), const(1), const(2))), "of a Select of int32 is a int32"),
        (Evaluate(Cast("float32", TWO)), "from int32x2 to float32 changes the number of lanes"),
        (Evaluate(Ramp(const(0, "int8"), const(1), 2)), "from a int8 has a stride of int32"),
        (Evaluate(Shuffle([TWO, HALF], [0])), "a Shuffle joins vectors of several types"),
        (Evaluate(And(TRUE, TRUE) & Not(const(0))), "'not' needs a bool, got int32"),
        (Evaluate(Or(const(1), const(0))), "'or' needs bools, got int32"),
        (Evaluate(Call("float32", "tir.pow", [const(1.0)])), "tir.pow takes 2 arguments, got 1"),
        (Evaluate(Call("int32", "tir.if_then_else", [const(1), const(1), const(1)])),
         "the condition of tir.if_then_else is a int32, not a bool"),
        (Evaluate(Call("int32", "tir.if_then_else", [TRUE, const(1), const(1.0)])),
         "of int32 chooses between int32 and float32"),
        (Evaluate(Call("int32", "tir.if_then_else", [TRUE, const(1.0), const(1)])),
         "of int32 chooses between float32 and int32"),
        (Evaluate(Call("int64", "tir.if_then_else", [TRUE, const(1), const(1)])),
         "of int64 chooses between int32 and int32"),
        (Evaluate(Call("int32", "tir.memory_fence", [const(1)])), "memory_fence is for one"),
        (Evaluate(Call("int32", "tir.syncwarp", [const(1.0)])), "takes a mask of 32 lanes"),
        (Evaluate(Call("int32", "tir.atomic_add", [const(1), const(1)])), "takes a pointer to"),
        (While(HALF < HALF, NOTHING), "condition of a while loop is a boolx2, not a bool"),
        (AssertStmt(PAIR, "", NOTHING), "condition of an assertion is a boolx2"),
        (AttrStmt("n", "pragma", X, NOTHING), "variable 'x' is used where it is not defined"),
        (AttrStmt("n", "pragma", const(1), store(ROW, (X,), 0)), "variable 'x' is used"),
        (AssertStmt(TRUE, "", store(ROW, (X,), 0)), "variable 'x' is used"),
        (LetStmt(X, const(1.0), NOTHING), "the value of 'x' is a float32, not a int32"),
        (Evaluate(Let(X, const(1.0), const(1))), "'x' is a int32"),
        (seq(LetStmt(X, const(1), NOTHING), LetStmt(X, const(2), NOTHING)), "defined a second"),
        (seq(LetStmt(X, const(1), Evaluate(X)), store(ROW, (X,), 0)), "'x' is used where"),
        (IfThenElse(TRUE, LetStmt(X, const(1), Evaluate(X)), Evaluate(X)), "'x' is used"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_not_legal(stmt: Stmt, message: str) -> None:
    refuse(stmt, message, "loops")
    refuse(stmt, message, "blocks")


@pytest.mark.parametrize(
    "stmt",
    [
        Evaluate(Select(TRUE, TWO, TWO)),
        Evaluate(Select(PAIR, TWO, TWO)),
        Evaluate(Ramp(const(0), const(1), 1)),
        Evaluate(Broadcast(const(0), 1)),
        Evaluate(Cast("float32x2", TWO)),
        Evaluate(Shuffle([TWO, const(3)], [0, 2])),
        BufferStore(A, HALF, (const(0), ONE_LANE)),
        BufferStore(A, HALF, (const(0), ONE_LANE), PAIR),
        BufferStore(ROW, const(1.0), (const(0),), TRUE),
        Evaluate(BufferLoad(ROW, [const(0, "uint8")])),
        Evaluate(Call("int32", "tir.call_extern", [])),
        Evaluate(Call("int32", "tir.unknown", [const(1), const(1)])),
        For(Var("u", "uint8"), const(0, "uint8"), const(4, "uint8"), "serial", NOTHING),
        For(Var("z"), const(0), const(0), "parallel", NOTHING),
        LetStmt(Var("h", "float16"), const(1.0, "float16"), NOTHING),
        IfThenElse(TRUE, NOTHING, NOTHING),
        AttrStmt("n", "pragma", const(1.0), NOTHING),
        seq(LetStmt(X, const(1), Evaluate(X)), AssertStmt(TRUE, "", Evaluate(const(2)))),
        DeclBuffer(make_buffer((0, 4), name="o", data=A.data, elem_offset=const(0)), NOTHING),
    ],
    ids=lambda stmt: str(stmt).strip().split("\n")[0],
)
def test_what_is_legal(stmt: Stmt) -> None:
    verify(of(stmt), "blocks")
    verify(of(stmt), "loops")


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize("kind", range(9))
def test_domains_of_any_size_and_kind(size: int, kind: int) -> None:
    node = Block((IterVar(Range(0, size), Var("v"), kind),), (), (), "B", NOTHING)
    verify(of(realize(node, const(0))))


@pytest.mark.parametrize("kind", [-1, 9])
def test_kinds_that_do_not_exist(kind: int) -> None:
    node = Block((IterVar(Range(0, 4), Var("v"), kind),), (), (), "B", NOTHING)
    refuse(realize(node, const(0)), f"of the unknown type {kind}")


@pytest.mark.parametrize(
    ("shape", "fields", "flat"),
    [
        ((16,), {}, True),
        ((16,), {"elem_offset": const(0)}, True),
        ((16,), {"elem_offset": const(4)}, False),
        ((16,), {"elem_offset": Var("o")}, False),
        ((16,), {"strides": (1,)}, False),
        ((4, 4), {}, False),
        ((), {}, False),
    ],
)
def test_flat_buffers(shape: Any, fields: Any, flat: bool) -> None:
    buffer = make_buffer(shape, "float32", "view", **fields)
    body = store(buffer, (0,) * len(shape), 1)
    program = func((buffer,), body)
    verify(program, "loops")
    if flat:
        verify(program, "flat")
    else:
        refuse(program, "buffer 'view' is not flat", "flat")


def test_one_thread_is_launched_around_several_parts() -> None:
    for key in ("thread_extent", "virtual_thread"):
        axis = IterVar(None, X, 1, "threadIdx.x")
        launch = AttrStmt(axis, key, const(4), store(ROW, (X,), 0))
        verify(of(seq(launch, launch)), "flat")
        refuse(AttrStmt(IterVar(None, X, 1), key, const(4), NOTHING), "with a thread tag", "flat")
        refuse(seq(launch, store(ROW, (X,), 0)), "variable 'x' is used", "flat")
        inside = block("B", "S", (4,), lambda v: store(ROW, (X,), 0), values=[X])
        refuse(launch.replace(body=inside), "'x' is used inside of a block")


def test_messages_name_all_that_is_around() -> None:
    thread = AttrStmt(IterVar(None, X, 1, "threadIdx.x"), "thread_extent", const(4), Evaluate(
        Var("missing")))  # fmt: skip
    p = Var("p", "handle", ("float32", "global"))
    local = make_buffer((4,), "float32", "local", data=p)
    inner = IfThenElse(TRUE, While(TRUE, LetStmt(Var("l"), const(1), thread)))
    memory = Allocate(p, dtype("float32"), (const(4),), TRUE, DeclBuffer(local, inner))
    with pytest.raises(VerifyError) as caught:
        verify(of(loops((4,), lambda i: memory)), "loops")
    path = ["function 'main'", "loop 'i0'", "memory of 'p'", "buffer 'local'", "branch", "while",
            "let 'l'", "attribute 'thread_extent'"]  # fmt: skip
    assert f"in: {' > '.join(path)}\n" in str(caught.value)
    assert str(caught.value).startswith("not legal at the stage 'loops': variable 'missing' is")
    with pytest.raises(VerifyError) as after:  # the path ends where a statement ends
        verify(of(seq(loops((4,), lambda i: NOTHING), loops((2,), lambda i: NOTHING), thread)))
    assert "in: function 'main' > attribute 'thread_extent'\n" in str(after.value)


def test_memory_of_constants() -> None:
    p = Var("p", "handle", ("float32", "global"))
    data = AllocateConst(p, dtype("float32"), (const(2),), np.zeros(2, "float32"), NOTHING)
    for stage in ("loops", "flat"):
        verify(of(data), stage)
    refuse(data.replace(extents=(const(2), const(1))), "has 2 extents, not one", "flat")
    refuse(data.replace(extents=(TWO,)), "extent of type int32x2", "loops")
    memory = Allocate(p, dtype("float32"), (TWO,), TRUE, NOTHING)
    refuse(memory, "extent of type int32x2", "loops")
    refuse(memory.replace(extents=(X,)), "variable 'x' is used", "loops")
    refuse(seq(data, store(make_buffer((2,), data=p, name="q"), (0,), 0)), "'q' is used", "flat")
