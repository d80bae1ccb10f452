"""LLVM IR as text: for other machines, short, the same each time; what is refused."""

from __future__ import annotations

import re

import pytest

from codegen.emitting import loaded, mapped, ramp, stored
from tileloom.base.errors import InternalError, UnsupportedError
from tileloom.codegen import jit
from tileloom.codegen.module import emit_module
from tileloom.driver import assembly
from tileloom.expr import (
    GT,
    Add,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    Max,
    Mul,
    Select,
    StringImm,
    Var,
    const,
)  # fmt: skip
from tileloom.expr.nodes import broadcast_to
from tileloom.lower import lower
from tileloom.target import Target
from tileloom.tir import AssertStmt, Evaluate, For, IRModule, PrimFunc, make_buffer, seq
from tir.programs import func, loops, matmul, softmax

AARCH64 = "cpu -mtriple=aarch64-linux-gnu"
AVX2 = "cpu -mtriple=x86_64-linux-gnu -mcpu=haswell"
SSE2 = "cpu -mtriple=x86_64-linux-gnu -mcpu=x86-64"


def text_of(program: PrimFunc) -> str:
    return emit_module(IRModule({"main": lower(program)})).ir_text


def exponential(kind: str, lanes: int) -> PrimFunc:
    return mapped([kind], [lambda a: Call(a.dtype, "tir.exp", [a])], lanes, 64)


def integers(kind: str) -> PrimFunc:
    cast = lambda a, b: Cast("float32x16", Max(a, b))  # noqa: E731
    return mapped([kind, kind], [Add, Mul, FloorDiv, FloorMod, cast], 16, 64)


def gathered() -> PrimFunc:
    a, p, b = (
        make_buffer((64,), k, n) for k, n in (("float32", "A"), ("int32", "P"), ("float32", "B"))
    )
    at = ramp(0, 16)
    fits = loaded(p, at) < broadcast_to(const(64), 16)
    zeros = broadcast_to(const(0.0), 16)
    guarded = Call("float32x16", "tir.if_then_else", [fits, loaded(a, loaded(p, at)), zeros])
    return func([a, p, b], seq(stored(b, at, guarded), stored(b, ramp(0, 16, 4), guarded, fits)))


def threads() -> PrimFunc:
    a, b = make_buffer((64,), "float16", "A"), make_buffer((64,), "bfloat16", "B")
    i = Var("i")
    body = stored(
        b,
        i,
        Cast(
            "bfloat16",
            Select(loaded(a, i) > const(0.0, "float16"), loaded(a, i), const(1.0, "float16")),
        ),
    )
    return func([a, b], For(i, const(0), const(64), "parallel", body))


@pytest.mark.parametrize(
    ("extent", "limit", "most"), [(3, 0, 3), (3, 2, 2), (3, 9, 3), (0, 0, 1), (1000, 7, 7)]
)
def test_no_more_workers_than_iterations(extent: int, limit: int, most: int) -> None:
    a, i = make_buffer((1000,), "int32", "A"), Var("i")
    notes = {"max_workers": limit} if limit else {}
    loop = For(i, const(0), const(extent), "parallel", stored(a, i, i), annotations=notes)
    text = emit_module(IRModule({"main": func([a], loop)})).ir_text
    assert re.findall(r"@.tileloom_parallel.\(.*, i32 (\d+)\)", text) == [str(most)]


PROGRAMS = {
    "matmul": lambda: matmul(9, 7, 5),
    "softmax": lambda: softmax(4, 33),
    "exp float16": lambda: exponential("float16", 8),
    "exp bfloat16": lambda: exponential("bfloat16", 16),
    "exp float32": lambda: exponential("float32", 16),
    "exp float64": lambda: exponential("float64", 4),
    "int8": lambda: integers("int8"),
    "uint64": lambda: integers("uint64"),
    "gather": gathered,
    "parallel": threads,
}


@pytest.mark.parametrize("target", [AARCH64, AVX2, SSE2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_machines(name: str, target: str) -> None:
    program = PROGRAMS[name]()
    text = assembly(program, target)
    name = program.name
    assert f"{name}:" in text and f"{name}__packed:" in text
    assert ("%rsp" in text or "%rdi" in text) == ("x86" in target)
    if target is not AVX2:
        assert "%ymm" not in text
    assert "%zmm" not in text
    called = set(re.findall(r"\b(?:callq?|bl)\s+([A-Za-z_]\w*)", text))
    foreign = {f for f in called if not f.startswith((name, "vm_", "tileloom"))}
    # What processors without half precision or fused multiply-add leave to libraries.
    helpers = {"__truncsfhf2", "__extendhfsf2", "__truncdfhf2"} if target is not AARCH64 else set()
    helpers |= {"fma", "fmaf"} if target is SSE2 else set()
    assert foreign - helpers <= {"memset", "memcpy", "memmove"}


def test_avx512_only_where_asked() -> None:
    wide = "cpu -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    assert "%zmm" in assembly(exponential("float32", 16), wide)


def test_text_is_the_same_each_time() -> None:
    for name in ("matmul", "parallel", "gather"):
        assert text_of(PROGRAMS[name]()) == text_of(PROGRAMS[name]())


def test_constants_of_vectors_are_short() -> None:
    half = broadcast_to(const(0.5), 16)
    text = text_of(mapped(["float32"], [lambda a: a * half + half], 16, 64))
    assert "splat (float 0x3fe0000000000000)" in text
    assert len(text) < 2500


def test_messages_are_numbered_through_the_module() -> None:
    a = make_buffer((4,), "int32", "A")
    body = loops((4,), lambda i: stored(a, i, i))
    plain = func([a], body, "f")
    assert emit_module(IRModule({"f": plain})).messages == ()
    parts = {
        name: func([a], AssertStmt(GT(loaded(a, const(0)), const(0)), name, body), name)
        for name in "gh"
    }
    assert emit_module(IRModule({"f": plain, **parts})).messages == ("g", "h")


def test_what_only_entries_call_is_compiled_once() -> None:
    a, b = (make_buffer((64,), "float32", name) for name in "AB")
    kernel = func([a], loops((64,), lambda i: stored(a, i, loaded(a, i) + const(1.0))), "kernel")
    call = Call("int32", "tir.call_extern", [StringImm("kernel"), b.data])
    module = IRModule({"kernel": kernel, "main": func([b], seq(Evaluate(call), Evaluate(call)))})
    for entries, count in ((None, 4), (["main"], 2)):
        text = emit_module(module, entries=entries).ir_text
        host = Target.host()
        functions = set(re.findall(r"^([a-z]\w*):", jit.assembly(text, host), re.MULTILINE))
        assert {"kernel", "main__packed"} <= functions and len(functions) == count
        assert text.count("fadd") == 1
        assert ("fadd" in jit.optimised_ir(text, host).partition("@main")[2]) == (entries is None)


def test_what_is_not_flat_is_refused() -> None:
    a = make_buffer((4, 4), "int32", "A")
    two = func([a], loops((4, 4), lambda i, j: stored(a, i, 0).replace(indices=(i, j))))
    with pytest.raises(UnsupportedError, match="flatten_buffers"):
        emit_module(IRModule({"main": two}))
    with pytest.raises(UnsupportedError, match="not in flat form"):
        emit_module(IRModule({"main": matmul(2, 2, 2)}))


def test_unknown_calls_and_types_are_refused() -> None:
    a = make_buffer((4,), "float32", "A")
    call = Call("float32", "tir.no_such_thing", [loaded(a, 0)])
    with pytest.raises(UnsupportedError, match="no code for the call"):
        emit_module(IRModule({"main": func([a], stored(a, 0, call))}))
    b = make_buffer((4,), "float8_e4m3fn", "B")
    with pytest.raises(UnsupportedError, match="no arithmetic on float8_e4m3fn"):
        emit_module(IRModule({"main": func([b], stored(b, 0, loaded(b, 1) + loaded(b, 2)))}))
    with pytest.raises(UnsupportedError, match="no arithmetic on float8_e4m3fn"):
        emit_module(
            IRModule(
                {
                    "main": func(
                        [b], stored(b, 0, loaded(b, 1).astype("float32").astype("float8_e4m3fn"))
                    )
                }
            )
        )
    emit_module(IRModule({"main": func([b], stored(b, 0, loaded(b, 1)))}))
    c = make_buffer((4,), "int4", "C")
    with pytest.raises(UnsupportedError, match="no type for int4"):
        emit_module(IRModule({"main": func([c], stored(c, 0, loaded(c, 1)))}))


def test_a_variable_out_of_scope_is_our_defect() -> None:
    a, x = make_buffer((4,), "int32", "A"), Var("x")
    for stmt in (stored(a, 0, x), stored(a, x, 0), stored(a, 0, x * 2)):
        with pytest.raises(InternalError, match="'x' is used outside its scope"):
            emit_module(IRModule({"main": func([a], stmt)}))
