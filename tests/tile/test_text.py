"""Text in and out: names, aliases, both spellings, and messages with places."""

from __future__ import annotations

import pytest

from tileloom.base.errors import ParseError, VerifyError
from tileloom.tile import parse, show, verify

PROGRAM = """\
#blocked = #triton_gpu.blocked<{sizePerThread = [1, 2], threadsPerWarp = [1, 32], \
warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #triton_gpu.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], \
instrShape = [16, 8]}>
#shared = #triton_gpu.shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], \
hasLeadingOffset = false}>
module attributes {"triton_gpu.num-ctas" = 1 : i32, "triton_gpu.num-warps" = 4 : i32} {
  tt.func public @f(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: i32) -> \
tensor<32xf32, #triton_gpu.slice<{dim = 1, parent = #blocked}>> attributes {noinline = false} {
    %cst = arith.constant dense<0.000000e+00> : tensor<32xf32, \
#triton_gpu.slice<{dim = 1, parent = #blocked}>>
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %cst_0 = arith.constant dense<true> : tensor<32x128xi1, #blocked>
    %0 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<32x128x!tt.ptr<f32>, #blocked>
    %1 = scf.for %arg2 = %c0_i32 to %arg1 step %c1_i32 iter_args(%arg3 = %cst) -> \
(tensor<32xf32, #triton_gpu.slice<{dim = 1, parent = #blocked}>>)  : i32 {
      %9 = tt.load %0, %cst_0 cacheModifier = ca {tag} : tensor<32x128x!tt.ptr<f32>, #blocked>
      %10 = "tt.reduce"(%9) <{axis = 1 : i32}> ({
      ^bb0(%arg4: f32, %arg5: f32):
        %12 = arith.addf %arg4, %arg5 : f32
        tt.reduce.return %12 : f32
      }) : (tensor<32x128xf32, #blocked>) -> tensor<32xf32, \
#triton_gpu.slice<{dim = 1, parent = #blocked}>>
      %11 = arith.addf %arg3, %10 : tensor<32xf32, #triton_gpu.slice<{dim = 1, parent = #blocked}>>
      scf.yield %11 : tensor<32xf32, #triton_gpu.slice<{dim = 1, parent = #blocked}>>
    }
    %2 = triton_gpu.local_alloc : () -> !tt.memdesc<2x128x32xf16, #shared, \
#triton_gpu.shared_memory, mutable>
    %3 = triton_gpu.memdesc_subview %2[%c0_i32, %c0_i32, %c0_i32] : !tt.memdesc<2x128x32xf16, \
#shared, #triton_gpu.shared_memory, mutable> -> !tt.memdesc<128x32xf16, #shared, \
#triton_gpu.shared_memory, mutable>
    %4 = triton_gpu.async_wait {num = 0 : i32}
    %5 = triton_gpu.local_load %3 token %4 : !tt.memdesc<128x32xf16, #shared, \
#triton_gpu.shared_memory, mutable> -> tensor<128x32xf16, \
#triton_gpu.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
    %6 = arith.cmpi slt, %c0_i32, %arg1 : i32
    %7:2 = scf.if %6 -> (i32, f32) {
      %cst_1 = arith.constant 0xFF800000 : f32
      scf.yield %c0_i32, %cst_1 : i32, f32
    } else {
      %cst_1 = arith.constant 1.500000e+00 : f32
      scf.yield %c1_i32, %cst_1 : i32, f32
    }
    cf.cond_br %6, ^bb1(%7#0 : i32), ^bb2
  ^bb1(%8: i32):
    tt.return %1 : tensor<32xf32, #triton_gpu.slice<{dim = 1, parent = #blocked}>>
  ^bb2:
    tt.return %1 : tensor<32xf32, #triton_gpu.slice<{dim = 1, parent = #blocked}>>
  }
}"""


def lines(text: str) -> list[str]:
    """The lines but the aliases, whose order is free."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_text_is_that_of_mlir() -> None:
    module = parse(PROGRAM)
    verify(module)
    assert lines(show(module)) == lines(PROGRAM.replace("\\\n", ""))


@pytest.mark.parametrize("spelling", ["3.2", "era", "3.3"])
@pytest.mark.parametrize("generic", [False, True])
def test_text_is_read_back(spelling: str, generic: bool) -> None:
    module = parse(PROGRAM)
    text = show(module, spelling=spelling, generic=generic)
    again = parse(text)
    assert show(again, spelling="3.3") == show(module, spelling="3.3")


def test_spelling_is_that_of_the_text() -> None:
    assert "!ttg.memdesc" in show(parse(PROGRAM), spelling="3.3")
    assert "#ttg.swizzled_shared" in show(parse(show(parse(PROGRAM), spelling="3.3")))


@pytest.mark.parametrize(
    ("body", "message", "line", "column"),
    [
        ("%0 = arith.addi %x, %y : i32", "undeclared SSA value name '%y'", 2, 21),
        ("%0 = arith.addi %x, %x : f32", "'f32' vs 'i32'", 2, 17),
        ("%0:2 = arith.addi %x, %x : i32", "defines 1 results but was provided 2", 2, 1),
        ("%x = arith.addi %x, %x : i32", "redefinition of SSA value '%x'", 2, 1),
        ("%0 = arith.cmpi almost, %x, %x : i32", "expected one of eq, ne", 2, 17),
        ("%0 = tt.splat %x : i32 -> tensor<4xi33x>", "expected a type", 2, 36),
        ("%0 = tt.splat %x : i32 -> tensor<4xi32, #none>", "undefined symbol alias", 2, 41),
        ("cf.br ^nowhere", "undefined block", 2, 7),
        ("flub %x", "expected an operation, not 'flub'", 2, 1),
    ],
)
def test_a_fault_in_text_is_shown(body: str, message: str, line: int, column: int) -> None:
    text = f"tt.func @f(%x: i32) {{\n{body}\ntt.return }}"
    with pytest.raises(ParseError, match=message) as caught:
        parse(text)
    span = caught.value.span
    assert span is not None
    assert (span.line, span.column) == (line, column)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<4xi32>", "size of range"),
        ('%0 = "arith.addi"(%x) : (i32) -> i32', "expected 2 operands"),
        ('%0 = "arith.addf"(%x, %x) : (i32, i32) -> i32', "must be floating-point-like"),
        ('%0 = "arith.addi"(%x, %x) : (i32, i32) -> i64', "the same type for all operands"),
        ('%0 = "tt.splat"(%x) : (i32) -> tensor<4xf32>', "spreads a value of type i32"),
        ("tt.return %x : i32", "must be the last operation"),
    ],
)
def test_an_illegal_program_is_refused(body: str, message: str) -> None:
    module = parse(f"tt.func @f(%x: i32) {{\n{body}\ntt.return }}")
    with pytest.raises(VerifyError, match=message) as caught:
        verify(module)
    assert caught.value.span is not None
    assert caught.value.span.line == 2


def test_a_use_before_its_definition_is_refused() -> None:
    text = """tt.func @f(%c: i1) {
      cf.cond_br %c, ^bb1, ^bb2
    ^bb1:
      %0 = arith.constant 1 : i32
      cf.br ^bb2
    ^bb2:
      %1 = arith.addi %0, %0 : i32
      tt.return
    }"""
    with pytest.raises(VerifyError, match="does not dominate this use"):
        verify(parse(text))


def test_names_of_functions_are_quoted() -> None:
    text = 'tt.func private @"zeros(4)"() {\n tt.call @"zeros(4)"() : () -> ()\n tt.return\n}'
    assert show(parse(show(parse(text)))) == show(parse(text))
