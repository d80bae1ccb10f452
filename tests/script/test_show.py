"""The spelling of what is printed."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base import UserError
from tileloom.expr import Expr, FloatImm, IntImm, IterVar, Min, Mul, Range, Select, Var, const
from tileloom.script import parse, show
from tileloom.tir import (
    SERIAL,
    Block,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    SeqStmt,
    make_buffer,
)

MATMUL = """\
# from tileloom.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16, 8), "float32"), b: T.handle, C: T.Buffer((16, 4), "float32")):
        T.func_attr({"tir.noalias": True})
        n = T.int32()
        B = T.match_buffer(b, (n, 4), strides=("s", 1))
        # with T.block("root"):
        B_shared = T.alloc_buffer((8, 4), scope="shared")
        for i, j in T.grid(8, 4):
            with T.block("B_shared"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(B[vi, vj])
                T.writes(B_shared[vi, vj])
                B_shared[vi, vj] = B[vi, vj]
        for i_0 in T.thread_binding(2, thread="blockIdx.x"):
            for i_1 in T.parallel(9, annotations={"pragma_unroll": 16}):
                for j, k in T.grid(4, 8):
                    with T.block("C"):
                        vi = T.axis.spatial(16, i_0 * 8 + i_1)
                        vj, vk = T.axis.remap("SR", [j, k])
                        T.where(i_0 * 8 + i_1 < 16 and i_1 < 8)
                        T.reads(A[vi, vk], B_shared[0:8, vj])
                        T.writes(C[vi, vj])
                        T.block_attr({"tiling": "SSR"})
                        with T.init():
                            C[vi, vj] = T.float32(0.0)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B_shared[vk, vj]

    @T.prim_func(private=True)
    def flat(data: T.handle("float32"), n: T.int64) -> T.int32:
        size: T.int64 = n * T.int64(4)
        assert size > T.int64(0), "not empty"
        buf = T.allocate([128], "float32", "global")
        with T.launch_thread("threadIdx.x", 32) as threadIdx_x:
            buf_1 = T.decl_buffer((32, 4), data=buf)
            buf_1[threadIdx_x, 0:4] = T.Broadcast(T.float32(0.5), 4)
        if n > T.int64(2):
            for i in range(2, 7):
                T.call_extern("void", "f", data, i)
        else:
            while n < T.int64(1):
                T.evaluate(0)
        T.ret(0)"""


def test_a_module_of_every_kind_of_statement() -> None:
    assert show(parse(MATMUL)) == MATMUL


def test_str_is_show() -> None:
    module: Any = parse(MATMUL)
    assert str(module) == MATMUL
    assert str(module["flat"]).startswith("# from tileloom.script import tir as T\n\n@T.prim_func(")


def test_without_sugar() -> None:
    text = show(parse(MATMUL)["main"], syntax_sugar=False)  # type: ignore[index]
    assert "T.grid" not in text
    assert "remap" not in text
    assert "vj = T.axis.spatial(4, j)" in text


def test_siblings_share_names_but_nested_loops_do_not() -> None:
    A = make_buffer((8, 8), "float32", "A")

    def nest() -> For:
        i, j = Var("i"), Var("i")
        store = BufferStore(A, const(1.0), (i, j))
        return For(i, const(0), const(8), SERIAL, For(j, const(0), const(8), SERIAL, store))

    loops = "for i, i_1 in T.grid(8, 8):\n    A[i, i_1] = T.float32(1.0)"
    assert show(SeqStmt((nest(), nest()))) == f"{loops}\n{loops}"


def test_loops_that_depend_on_each_other_are_no_grid() -> None:
    i, j = Var("i"), Var("j")
    A = make_buffer((8,), "float32", "A")
    inner = For(j, const(0), i, SERIAL, BufferStore(A, const(1.0), (j,)))
    assert show(For(i, const(0), const(8), SERIAL, inner)).startswith(
        "for i in range(8):\n    for j in range(i):"
    )


def test_a_let_in_the_middle_has_a_suite() -> None:
    A, x = make_buffer((8,), "int32", "A"), Var("x")
    let = LetStmt(x, const(3), BufferStore(A, x, (x,)))
    assert show(SeqStmt((let, BufferStore(A, const(0), (const(0),))))) == (
        "with T.LetStmt(3) as x:\n    A[x] = x\nA[0] = 0"
    )
    assert show(let) == "x: T.int32 = 3\nA[x] = x"


def test_a_block_on_its_own() -> None:
    A, vi = make_buffer((8,), "float32", "A"), Var("vi")
    block = Block((IterVar(Range(2, 6), vi),), (), (), "b", BufferStore(A, const(0.0), (vi,)))
    assert show(block) == (
        'with T.block("b", no_realize=True):\n    vi = T.axis.spatial((2, 8))\n'
        "    T.reads()\n    T.writes()\n    A[vi] = T.float32(0.0)"
    )


def test_undeclared_buffers_over_a_parameter_are_defined_once() -> None:
    A = make_buffer((4, 4), "float32", "A")
    flat = make_buffer((16,), "float32", "A", data=A.data)
    a = Var("a", "handle")
    func = PrimFunc((a,), BufferStore(flat, const(0.0), (const(3),)), {a: A})
    text = show(func)
    assert "A = T.match_buffer(a, (4, 4))\n    A_1 = T.Buffer((16,), data=A.data)" in text
    again: Any = parse(text)
    assert again.body.buffer.data is again.buffers[0].data


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Var("x") - (Var("y") - 1), "x - (y - 1)"),
        (Mul(Var("x"), const(0)), "T.Mul(x, 0)"),
        (Min(const(1), const(2)), "T.Min(1, 2)"),
        (IntImm("int64", -3), "T.int64(-3)"),
        (FloatImm("float16", float("inf")), 'T.float16("inf")'),
        ((Var("x") < 1) & (Var("y") > 2), "x < 1 and y > 2"),
        (Select(Var("c", "bool"), const(1), const(2)), "T.Select(c, 1, 2)"),
        ((Var("x") < 1) == (Var("y") < 2), "(x < 1) == (y < 2)"),
    ],
)
def test_expressions(expr: Expr, text: str) -> None:
    assert show(expr) == text


def test_a_zero_dimensional_load() -> None:
    assert show(BufferLoad(make_buffer((), "float32", "s"), [])) == "s[()]"


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(UserError, match="cannot print 3"):
        show(3)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int32", -3, "-3"), ("int64", 3, "T.int64(3)"), ("uint8", 200, "T.uint8(200)"),
        ("bool", 1, "T.bool(True)"), ("bool", 0, "T.bool(False)"),
        ("handle", 0, 'T.IntImm("handle", 0)'),
    ],
)  # fmt: skip
def test_integers(kind: str, value: int, text: str) -> None:
    assert show(PrimFunc((), Evaluate(IntImm(kind, value)))).endswith(f"    T.evaluate({text})")
