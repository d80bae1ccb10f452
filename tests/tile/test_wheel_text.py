"""Text of every operation: read back as it is, and as Triton's own parser and printer have it."""

from __future__ import annotations

import random
import re

import pytest

from tile.oracle import needs_oracle, triton_text
from tile.wheel_ops import OPERATIONS, module
from tileloom.base.errors import UserError
from tileloom.tile import parse, show, verify

LINES = OPERATIONS.splitlines()


@pytest.fixture(scope="module")
def text() -> str:
    return module(LINES)


def comparable(text: str) -> list[str]:
    """Lines without aliases, whose order is free, comments and spaces that say nothing."""
    lines = (re.sub(r"\s+", " ", line).split(" //")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("spelling", ["3.2", "era", "3.3"])
def test_text_is_read_back(text: str, spelling: str, generic: bool) -> None:
    made = parse(text)
    verify(made)
    shown = show(made, spelling=spelling, generic=generic)
    again = parse(shown)
    assert show(again, spelling="3.2") == show(made, spelling="3.2")
    assert show(again, spelling=spelling, generic=generic) == shown


@needs_oracle
def test_text_is_that_of_triton(text: str) -> None:
    ours, theirs = comparable(show(parse(text), spelling="3.2")), comparable(triton_text(text))
    assert ours == theirs


@needs_oracle
@pytest.mark.parametrize("generic", [False, True])
def test_triton_reads_our_text(text: str, generic: bool) -> None:
    made = parse(text)
    shown = show(made, spelling="3.2", generic=generic)
    assert comparable(triton_text(shown)) == comparable(show(made, spelling="3.2"))


def floats(count: int) -> str:
    """A function with constants of all formats."""
    draw = random.Random(1)
    lines = ["tt.func @f() {"]
    for name, bits in (("f32", 32), ("f64", 64), ("f16", 16), ("bf16", 16)):
        for _ in range(count):
            word = draw.getrandbits(bits) & ~(3 << (bits - 3))  # neither infinite nor no number
            lines.append(f"  %c{len(lines)} = arith.constant 0x{word:0{bits // 4}X} : {name}")
            value = 10 ** draw.uniform(-6, 4)
            lines.append(f"  %c{len(lines)} = arith.constant {value!r} : {name}")
    return "\n".join([*lines, "  tt.return", "}"])


@needs_oracle
def test_floats_are_written_as_by_triton() -> None:
    text = floats(100)
    assert comparable(show(parse(text))) == comparable(triton_text(text))


@pytest.mark.parametrize(
    "text",
    ["0.1", "-8.12280845", "863.799987", "761765.813", "4.90559324E+10", "1.17549435E-38"],
)
def test_floats_have_the_digits_of_llvm(text: str) -> None:
    shown = show(parse(f"tt.func @f() {{ %a = arith.constant {text} : f32 tt.return }}"))
    written = "1.000000e-01" if text == "0.1" else text
    assert f"arith.constant {written} : f32" in shown


def test_bytes_of_dense_elements() -> None:
    text = 'tt.func @f() {{ %a = arith.constant dense<"{}"> : tensor<2xi16> tt.return }}'
    assert "dense<[1, -1]>" in show(parse(text.format("0x0100FFFF")))
    assert "dense<1>" in show(parse(text.format("0x0100")))


LATER = """\
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module {
  tt.func @f(%arg0: !ttg.memdesc<5x8x32xf16, #shared, #smem, mutable>, %arg1: i32, \
%arg2: !tt.ptr<f16>, %arg3: i64) {
    %0 = ttg.memdesc_subslice %arg0[2, 0, 0] : !ttg.memdesc<5x8x32xf16, #shared, #smem, mutable> \
-> !ttg.memdesc<3x8x32xf16, #shared, #smem, mutable, 5x8x32>
    %1 = ttg.memdesc_index %arg0[%arg1] : !ttg.memdesc<5x8x32xf16, #shared, #smem, mutable> -> \
!ttg.memdesc<8x32xf16, #shared, #smem, mutable>
    %2 = ttg.memdesc_reinterpret %1 : !ttg.memdesc<8x32xf16, #shared, #smem, mutable> -> \
!ttg.memdesc<8x32xi16, #shared, #smem, mutable>
    %3 = tt.make_tensor_descriptor %arg2, [%arg1, %arg1], [%arg3, %arg3] : \
<tensor<8x32xf16>>
    %4 = "use"(%3) : (!tt.tensordesc<tensor<8x32xf16>>) -> i32
    tt.return
  }
}"""


def test_text_of_later_versions() -> None:
    given = LATER.replace("\\\n", "")
    assert show(parse(given)) == given
    assert show(parse(given.replace(": <tensor", ": <f16>, <tensor"))) == given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tt.bitcast %f : tensor<8xf32> -> tensor<8xi16>", "data-type of size 32"),
        ("tt.bitcast %p : !tt.ptr<f32> -> i64", "pointer to non-pointer"),
        ("tt.join %f, %h : tensor<8xf32> -> tensor<8x2xf32>", "expects different type"),
        (
            'tt.elementwise_inline_asm "" {constraints = "", packed_element = 3 : i32, '
            "pure = true} %f : tensor<8xf32> -> tensor<8xf32>",
            "packed_element attribute, 3",
        ),
        (
            'tt.elementwise_inline_asm "" {constraints = "", packed_element = 1 : i32, '
            "pure = true} %f : tensor<8xf32> -> tensor<4xf32>",
            "requires the same shape",
        ),
    ],
)
def test_wrong_operations_are_refused(text: str, message: str) -> None:
    whole = f"tt.func @f(%f: tensor<8xf32>, %h: tensor<9xf32>, %p: !tt.ptr<f32>) {{ %0 = {text} "
    with pytest.raises(UserError, match=message):
        verify(parse(whole + "tt.return }"))


def test_operands_end_where_the_next_operation_begins() -> None:
    text = "tt.func @f(%t: !ttg.async.token) { ttg.async_wait %a = ttg.async_wait %t tt.return }"
    assert show(parse(text)).count("ttg.async_wait") == 2
    scaled = (
        "tt.func @f(%a: tensor<16x16xf8E5M2>, %s: tensor<16x1xi8>, %c: tensor<16x16xf32>) {\n"
        "    %0 = tt.dot_scaled %a scale %s, %a, %c lhs = e5m2 rhs = e5m2 : tensor<16x16xf8E5M2>, "
        "tensor<16x1xi8> * tensor<16x16xf8E5M2> -> tensor<16x16xf32>\n tt.return }"
    )
    assert "* tensor<16x16xf8E5M2> -> tensor" in show(parse(scaled))


def test_functions_of_mlir() -> None:
    text = "module {\n  func.func @f(%arg0: i32) -> i32 {\n    return %arg0 : i32\n  }\n}"
    assert show(parse(text)) == text


def test_layouts_of_later_versions() -> None:
    """Bases of clusters are read; layouts that are not known are kept, under a name."""
    blocked = (
        "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], "
        "order = [1, 0]"
    )
    text = (
        f"tt.func @f(%a: tensor<64x64xf32, {blocked}, CGALayout = [[0, 1], [1, 0]]}}>>, "
        "%b: !ttg.memdesc<64xf32, #ttg.padded_shared<[8:+2] {order = [0]}>, #ttg.shared_memory>)"
    )
    shown = show(parse(text))
    assert "CTAsPerCGA = [2, 2], CTASplitNum = [2, 2], CTAOrder = [1, 0]" in shown
    assert "#shared = #ttg.padded_shared<[8:+2] {order = [0]}>" in shown
    assert show(parse(shown)) == shown
    with pytest.raises(UserError, match=r"the basis \[0, 0\] is not supported"):
        parse(text.replace("[[0, 1]", "[[0, 0]"))
