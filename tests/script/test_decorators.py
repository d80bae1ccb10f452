"""Programs written as Python functions and classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import ParseError
from tileloom.expr import Call, IntImm, SizeVar, Var
from tileloom.script import from_source, parse, show
from tileloom.script import ir as I
from tileloom.script import tir as T
from tileloom.tir import (
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    IRModule,
    LetStmt,
    PrimFunc,
    SeqStmt,
    assert_structural_equal,
    collect,
)

SIZE = 16
SHAPE = (4, 8)
KIND = "float16"


@T.prim_func
def copy(A: T.Buffer((SIZE,), KIND), B: T.Buffer((SIZE,), KIND)) -> None:
    """Copies."""
    for i in T.parallel(SIZE):
        with T.block("copy"):
            vi = T.axis.S(SIZE, i)
            B[vi] = A[vi]


@I.ir_module
class Module:
    """Two functions."""

    I.module_attrs({"version": 3})

    @T.prim_func
    def main(a: T.handle, n: T.int32) -> None:
        A = T.match_buffer(a, (n, SIZE))
        for i, j in T.grid(n, SIZE):
            with T.block("set"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(vi * SIZE + vj)

    @T.prim_func(private=True)
    def other(x: T.float32) -> T.float32:
        return x + T.float32(1)


def test_a_function_at_the_top_of_a_file() -> None:
    assert isinstance(copy, PrimFunc)
    assert copy.name == "copy"
    assert copy.buffers[0].dtype == "float16"
    assert copy.buffers[0].static_shape == (16,)
    root = copy.body.block
    assert root.name_hint == "root"
    loop = root.body
    assert loop.kind == "parallel"
    block = loop.body.block
    assert [r.buffer.name for r in block.reads] == ["A"]
    assert [r.buffer.name for r in block.writes] == ["B"]


def test_spans_point_into_this_file() -> None:
    loop: Any = collect(copy.body, For)[0]
    assert loop.span.filename == __file__
    assert loop.span.text == "    for i in T.parallel(SIZE):"
    store: Any = collect(copy.body, BufferStore)[0]
    assert store.span.text.strip() == "B[vi] = A[vi]"
    assert (store.span.column, store.span.end_column) == (13, 26)


def test_a_class_is_a_module() -> None:
    assert isinstance(Module, IRModule)
    assert list(Module.functions) == ["main", "other"]  # type: ignore[unreachable]
    assert Module.attrs == {"version": 3}
    assert Module["main"].attrs == {"global_symbol": "main"}
    assert Module["other"].attrs == {}
    assert Module["other"].ret_type == "float32"
    assert isinstance(Module["other"].body.value, Call)


def test_closures_are_constants() -> None:
    extent, kind, tile = 12, "int32", [3, 4]

    @T.prim_func
    def func(A: T.Buffer((extent,), kind)) -> None:
        for i, j in T.grid(*tile):
            if extent > 5:
                A[i * tile[1] + j] = extent + 1
            else:
                A[0] = 0

    assert func.buffers[0].dtype == "int32"
    store = collect(func.body, BufferStore)[0]
    assert store.value is IntImm("int32", 13)
    assert not collect(func.body, IfThenElse)


def test_a_class_inside_a_function() -> None:
    width = 5

    @I.ir_module
    class Inner:
        @T.prim_func
        def main(A: T.Buffer((width,), "float32")) -> None:
            for i in range(width):
                A[i] = T.float32(0)

    assert Inner["main"].buffers[0].static_shape == (5,)  # type: ignore[misc]


def test_a_python_function_builds_an_expression() -> None:
    def square(x: Any) -> object:
        return x * x

    @T.prim_func
    def func(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            A[i] = square(A[i] + T.float32(1))

    assert show(func.body.body.value) == "(A[i] + T.float32(1.0)) * (A[i] + T.float32(1.0))"


def test_symbolic_shapes() -> None:
    n = T.int32(is_size_var=True)

    @T.prim_func
    def func(A: T.Buffer((n, 4), "float32"), B: T.Buffer((n,), "float32"), m: T.int64) -> None:
        for i in range(n):
            B[i] = A[i, 0]

    a, b = func.buffers
    assert isinstance(a.shape[0], SizeVar)
    assert a.shape[0] is b.shape[0] is func.body.extent
    assert a.shape[0].name == "n"
    assert_structural_equal(parse(show(func)), func)


def test_shapes_may_name_scalar_parameters() -> None:
    @T.prim_func
    def func(A: T.Buffer((k,), "float32"), k: T.int32) -> None:  # noqa: F821
        A[k - 1] = T.float32(0)

    assert func.buffers[0].shape[0] is func.params[1]


def test_annotations_as_strings() -> None:
    func: Any = parse(
        "@T.prim_func\ndef f(A: 'T.Buffer((4,), \"int8\")', n: 'int64'):\n    A[n] = 1"
    )
    assert func.buffers[0].dtype == "int8"
    assert func.params[1].dtype == "int64"


@T.macro
def add_to(buffer: Any, index: Any, value: Any) -> None:
    buffer[index] = buffer[index] + value * SIZE


def test_macros_are_inlined() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")) -> None:
        for i in range(4):
            add_to(A, i, 2)

    assert show(func.body.body) == "A[i] = A[i] + 32"


@T.macro
def add_later(buffer: Any, index: Any) -> None:
    buffer[index] = buffer[index] + DEFINED_LATER


DEFINED_LATER = 7


def test_macros_see_what_their_module_defines_later() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")) -> None:
        for i in range(4):
            add_later(A, i)

    assert show(func.body.body) == "A[i] = A[i] + 7"


def test_lets() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            j = i + 1
            x: T.float32 = 2
            shape = T.meta_var((4, 4))
            A[j] = x * T.float32(shape[0])

    let: Any = func.body.body
    assert isinstance(let, LetStmt)
    assert (let.var.name, let.var.dtype) == ("j", "int32")
    assert (let.body.var.name, let.body.value.dtype) == ("x", "float32")


def test_regions_and_slices() -> None:
    @T.prim_func
    def func(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")) -> None:
        for i, j in T.grid(4, 4):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 4 : vi * 4 + 4, 4 * vj : 4 * (vj + 1)])
                T.writes(B[vi * 4 : (vi + 1) * 4, 0:16])
                a = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=4)
                B[vi, 0:8] = A[vi, 8:16] + a[0, a.elem_offset : a.elem_offset + 8]

    block: Any = collect(func.body, BlockRealize)[1].block
    assert [r.extent for r in block.reads[0].region] == [4, 4]
    assert [r.extent for r in block.writes[0].region] == [4, 16]
    assert block.body.value.dtype == "float32x8"
    assert_structural_equal(parse(show(func)), func)


def test_augmented_assignment_and_operators() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), c: T.bool) -> None:
        A[0] += 2
        A[1] = 3 if c else A[2]
        A[2] = T.max(A[0], 3) // 2 % 5 << 1
        A[3] = T.Select(not c and A[0] > 2, 1, 0)

    texts = show(func).splitlines()[-4:]
    assert [text.strip() for text in texts] == [
        "A[0] = A[0] + 2",
        "A[1] = T.if_then_else(c, 3, A[2])",
        "A[2] = T.shift_left(T.max(A[0], 3) // 2 % 5, 1)",
        "A[3] = T.Select(not c and A[0] > 2, 1, 0)",
    ]


def test_allocations_and_launches() -> None:
    @T.prim_func
    def func(A: T.Buffer((64,), "float32")) -> None:
        with T.launch_thread("blockIdx.x", 2) as bx, T.launch_thread("threadIdx.x", 32) as tx:
            B = T.decl_buffer((4,), "float32", scope="local")
            B[0] = A[bx * 32 + tx]
            T.evaluate(T.call_extern("int32", "f", B.data, A.access_ptr("rw")))

    assert_structural_equal(parse(show(func)), func)
    assert 'T.allocate([4], "float32", "local")' in show(func)


def test_tvm_text_with_its_imports() -> None:
    text = """
import tvm
from tvm.script import ir as J
from tvm.script import tir as S

WIDTH = 4

@tvm.script.ir_module
class M:
    @S.prim_func
    def main(x: S.Buffer((WIDTH,), "float32")) -> None:
        S.func_attr({"global_symbol": "kernel", "tir.noalias": S.bool(True)})
        for i in S.serial(0, WIDTH):
            x[i] = S.exp(x[i], dtype="float32")
"""
    module: Any = from_source(text)
    assert module["main"].name == "kernel"
    assert module["main"].body.body.value.op == "tir.exp"


def test_several_functions_are_a_module() -> None:
    text = "@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)\n"
    module: Any = parse(
        text + text.replace("f", "g").replace("deg", "def").replace("prim_gunc", "prim_func")
    )
    assert list(module.functions) == ["f", "g"]


def test_sequences_keep_no_ops() -> None:
    func: Any = parse("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(0)\n    T.evaluate(n)\n")
    assert isinstance(func.body, SeqStmt)
    assert len(func.body.seq) == 2


def test_the_namespace_outside_of_scripts() -> None:
    assert T.float32(1).dtype == "float32"
    assert T.exp(Var("x", "float32")).op == "tir.exp"
    assert "vectorized" in dir(T)
    assert "exp" in dir(T)
    with pytest.raises(AttributeError, match="vektorized"):
        _ = T.vektorized


def test_a_function_without_source_text() -> None:
    space: dict[str, object] = {"T": T}
    with pytest.raises(ParseError, match="source text of f cannot be found"):
        exec("@T.prim_func\ndef f(n: T.int32):\n    pass", space)


def test_constants_of_numpy() -> None:
    table = np.array([1, 2, 3], dtype="int32")

    @T.prim_func
    def func(A: T.Buffer((3,), "int32"), i: T.int32) -> None:
        t = T.allocate_const(table, "int32", [3])
        values = T.decl_buffer((3,), "int32", data=t)
        A[i] = values[i] + int(table[2])

    assert "T.allocate_const([1, 2, 3]" in show(func)
    assert_structural_equal(parse(show(func)), func)


def test_tensor_intrinsics_as_written_for_tvm() -> None:
    @T.prim_func
    def func(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (16, 16), "uint8", offset_factor=1, strides=[T.int32(), 1])
        B = T.match_buffer(b, (16,), dtype="int32", offset_factor=1)
        with T.block("root"):
            T.reads(A[0:16, 0:16], B[0:16])
            T.writes(B[0:16])
            lanes = A.vload([0, 0], "uint8x4")
            word = T.reinterpret("int32", lanes)
            B[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
                "int32x16", T.uint32(3), T.int32x16(0), T.broadcast(word, 16)
            )
            T.evaluate(
                T.tvm_load_matrix_sync(
                    *(B.data, 16, 16, 16, B.elem_offset // 256),
                    *(A.access_ptr("r"), A.strides[0], "row_major"),
                    dtype="handle",
                )
            )

    text = show(func)
    assert_structural_equal(parse(text), func)
    assert 'strides=("A_s0", 1)' in text
    assert "lanes: T.uint8x4 = A[0, 0:4]" in text
    assert "B[0:16] = T.call_llvm_pure_intrin(" in text
    assert 'T.tvm_access_ptr(T.type_annotation("uint8"), A.data, A.elem_offset, 256, 1)' in text


def test_targets_and_odd_attributes() -> None:
    @T.prim_func(private=True)
    def func(n: T.int32) -> None:
        T.func_attr({"target": T.target("cuda -arch=sm_80"), "none": None, "f": 1.5})
        T.evaluate(n)

    again = parse(show(func))
    assert again.attrs == func.attrs
    assert str(again.attrs["target"]) == "cuda -arch=sm_80"
