"""AxisInfo by hand: what Triton claims and is false, what it does not see, hints, calls, loops."""

from __future__ import annotations

import pytest

from tileloom.tile import parse
from tileloom.tile.analysis.axis_info import AxisInfo, ModuleAxisInfo
from tileloom.tile.ir.core import Operation, Value

BINARY = """tt.func @f() {{
  %x = tt.make_range {{start = {start} : i32, end = {end} : i32}} : tensor<128xi32>
  %d = arith.constant dense<{base}> : tensor<128xi32>
  %r = arith.subi %x, %d : tensor<128xi32>
  %c = arith.constant dense<{constant}> : tensor<128xi32>
  %y = arith.{name} : tensor<128xi32>
  tt.return
}}"""


def last(module: Operation, name: str) -> tuple[ModuleAxisInfo, Value]:
    """The analysis, and the result of the last operation of a name."""
    return ModuleAxisInfo(module), [op for op in module.walk() if op.name == name][-1].results[0]


def of(name: str, constant: int, base: int = 0, start: int = 0) -> AxisInfo:
    text = BINARY.format(start=start, end=start + 128, base=base, constant=constant, name=name)
    axis_info, value = last(parse(text), f"arith.{name.split()[0]}")
    return axis_info.of(value)


@pytest.mark.parametrize(
    ("name", "constant", "base", "start", "contiguity", "divisibility", "constancy"),
    [
        ("addi %r, %r", 0, 0, 0, 1, 2, 1),
        ("subi %c, %r", 4, 0, 0, 1, 1, 1),
        ("remsi %c, %r", 64, 0, 32, 1, 1, 1),
        ("maxsi %r, %c", 64, 0, 0, 1, 1, 1),
        ("minsi %r, %c", 64, 0, 16, 1, 1, 1),
        ("divsi %r, %c", 32, 64, 0, 1, 1, 1),
        ("remsi %r, %c", 32, 64, 0, 1, 1, 1),
        # and what Triton does not see
        ("andi %r, %c", 7, 0, 0, 8, 8, 1),
        ("shrsi %r, %c", 3, 0, 0, 1, 1, 8),
        ("remsi %r, %c", 32, 0, 0, 32, 32, 1),
        ("divsi %r, %c", 32, 0, 0, 1, 1, 32),
        ("divui %r, %c", 32, 64, 0, 1, 1, 32),
    ],
)
def test_arithmetic(
    name: str,
    constant: int,
    base: int,
    start: int,
    contiguity: int,
    divisibility: int,
    constancy: int,
) -> None:
    info = of(name, constant, base, start)
    found = info.contiguity + info.divisibility + info.constancy
    assert found == (contiguity, divisibility, constancy)


def test_a_signed_stride() -> None:
    info = of("subi %c, %r", 4)
    assert (info.stride, info.stride_value) == ((128,), (-1,))


CALLS = """
tt.func private @g(%p: !tt.ptr<f32>, %o: tensor<64xi32>) {
  %s = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %a = tt.addptr %s, %o {tt.none} : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.return
}
tt.func public @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %c = arith.constant dense<64> : tensor<64xi32>
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %q = arith.addi %r, %c : tensor<64xi32>
  tt.call @g(%p, %r) : (!tt.ptr<f32>, tensor<64xi32>) -> ()
  tt.call @g(%p, %q) : (!tt.ptr<f32>, tensor<64xi32>) -> ()
  tt.return
}"""


def test_arguments_by_their_calls() -> None:
    axis_info, pointer = last(parse(CALLS), "tt.addptr")
    info = axis_info.of(pointer)
    assert (info.contiguity, info.divisibility) == ((64,), (16,))
    assert axis_info.pointer_alignment(pointer) == 4
    axis_info, pointer = last(parse(CALLS.replace("private", "public")), "tt.addptr")
    assert axis_info.contiguity(pointer) == (1,)
    assert "an argument" in axis_info.explain(pointer)[-1]


def test_hints_take_the_place_of_what_was_found() -> None:
    text = CALLS.replace("{tt.none}", "{tt.divisibility = dense<64> : tensor<1xi32>}")
    axis_info, pointer = last(parse(text), "tt.addptr")
    assert axis_info.of(pointer).divisibility == (64,)


def test_a_possibly_negative_dividend_is_explained() -> None:
    text = BINARY.format(start=0, end=128, base=64, constant=32, name="remsi %r, %c")
    axis_info, value = last(parse(text), "arith.remsi")
    assert "may be negative, down to -64" in axis_info.explain(value)[0]
