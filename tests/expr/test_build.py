"""What the operators fold while expressions are built, and what they leave alone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.base.errors import DTypeError, UserError
from tileloom.expr import (
    Add,
    And,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Or,
    Sub,
    Var,
    cast,
    const,
    evaluate,
)
from tileloom.expr.build import binary, bitwise, promote

I: Any = Var("i", "int32")
B = Var("b", "bool")
EFFECT = Call("int32", "tir.call_extern", (const(1),))
CONDITION = Call("bool", "tir.call_extern", (const(1),))
ARITHMETIC = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod)


@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.__name__)
@pytest.mark.parametrize("number", [-1, 0, 1, 2])
def test_constant_operands_keep_the_value(op: Any, number: int) -> None:
    for a, b in [(I, const(number)), (const(number), I)]:
        divides = op not in (Add, Sub, Mul)
        for value in (-3, -1, 1, 2, *([] if divides else [0])):
            if divides and (b.value if b is not I else value) == 0:
                continue
            kept = evaluate(op(a, b), {I: value})
            assert evaluate(binary(op, a, b), {I: value}) == kept


@pytest.mark.parametrize(
    ("built", "folded"),
    [
        (I + 0, I),
        (0 + I, I),
        (I - 0, I),
        (I * 1, I),
        (1 * I, I),
        (I * 0, const(0)),
        (0 * I, const(0)),
        (I // 1, I),
        (I % 1, const(0)),
        (binary(Div, I, 1), I),
        (binary(Mod, I, 1), const(0)),
        (binary(And, B, True), B),
        (binary(And, True, B), B),
        (binary(And, B, False), const(False)),
        (binary(And, False, B), const(False)),
        (binary(Or, B, False), B),
        (binary(Or, False, B), B),
        (binary(Or, B, True), const(True)),
        (binary(Or, True, B), const(True)),
    ],
)
def test_units_and_zeros(built: Expr, folded: Expr) -> None:
    assert str(built) == str(folded)
    assert built.dtype == folded.dtype


@pytest.mark.parametrize(
    ("built", "kept"),
    [
        (0 * EFFECT, True),
        (EFFECT * 0, True),
        (EFFECT % 1, True),
        (binary(Mod, EFFECT, 1), True),
        (binary(And, CONDITION, False), True),
        (binary(Or, CONDITION, True), True),
        # Of these the second part is not evaluated.
        (binary(And, False, CONDITION), False),
        (binary(Or, True, CONDITION), False),
    ],
)
def test_effects_are_kept(built: Expr, kept: bool) -> None:
    assert ("call_extern" in str(built)) is kept


def test_unit_operands_of_effects() -> None:
    assert EFFECT + 0 is EFFECT
    assert EFFECT * 1 is EFFECT
    assert binary(And, True, CONDITION) is CONDITION
    assert binary(Or, CONDITION, False) is CONDITION


@pytest.mark.parametrize("op", [Div, Mod, FloorDiv, FloorMod], ids=lambda op: op.__name__)
def test_division_of_constants_by_zero(op: Any) -> None:
    with pytest.raises(UserError, match=r"division by zero in 3 .* 0"):
        binary(op, const(3), const(0))


def test_constants_that_do_not_fit() -> None:
    assert (const(2**31 - 1) + 1).dtype == "int64"
    assert (const(-(2**31)) + 0).dtype == "int32"
    assert (const(-(2**31)) - 1).value == -(2**31) - 1
    assert (const(2**30) * 2).value == 2**31
    # No type holds this one: the operation stays.
    assert isinstance(const(2**63 - 1, "int64") + 1, Add)
    assert (const(127, "int8") + const(0, "int8")).dtype == "int8"


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ("int32", "float16", "float16"),
        ("float16", "int32", "float16"),
        ("float16", "float64", "float64"),
        ("float64", "float32", "float64"),
        ("int8", "int32", "int32"),
        ("int64", "uint8", "int64"),
        ("int32", "uint32", "int32"),
        ("uint32", "int32", "int32"),
        ("bool", "int8", "int8"),
        ("uint8", "bool", "uint8"),
        ("float16", "bfloat16", "float32"),
    ],
)
def test_promotion(a: str, b: str, kind: str) -> None:
    assert promote(Var("a", a).dtype, Var("b", b).dtype) == kind
    assert binary(Add, Var("a", a), Var("b", b)).dtype == kind


def test_python_numbers_take_the_other_operand_s_type() -> None:
    byte, half = Var("x", "int8"), Var("h", "float16")
    assert (byte + 127).dtype == "int8"
    assert (127 + byte).dtype == "int8"
    assert (byte + 128).dtype == "int32"
    assert (byte - 129).dtype == "int32"
    assert (half + 1).dtype == "float16"
    assert (half * 1.5).dtype == "float16"
    assert (I * 1.5).dtype == "float32"
    assert (I + 2**31).dtype == "int64"
    assert (B + 1).dtype == "int32"


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_bitwise_operators_of_constants(op: str) -> None:
    value: Any = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}[
        op
    ]
    for a, b in itertools.product([-4, 0, 3, 6], repeat=2):
        assert bitwise(f"tir.bitwise_{op}", const(a), const(b)).value == value(a, b)
    for a, b in itertools.product([False, True], repeat=2):
        folded: Any = bitwise(f"tir.bitwise_{op}", const(a), const(b))
        assert (folded.value, folded.dtype) == (value(a, b), "bool")
    with pytest.raises(DTypeError, match=f"bitwise_{op} needs integers, got float32"):
        bitwise(f"tir.bitwise_{op}", const(1.5), const(2))


def test_shifts_of_constants() -> None:
    assert [(const(3) << count).value for count in (0, 2, 31, 32)] == [3, 12, -(2**31), 0]
    assert [(const(-3) >> count).value for count in (0, 1, 40)] == [-3, -2, -1]
    assert bitwise("tir.shift_left", const(3), const(-1)).value == 0
    assert bitwise("tir.shift_right", const(-3), const(-1)).value == -1
    assert bitwise("tir.shift_right", const(3), const(-1)).value == 0


def test_casts_of_constants() -> None:
    assert cast("int8", const(200)).value == -56
    assert cast("float32", const(3)).value == 3.0
    assert cast("int32", I) is I
    assert isinstance(cast("bool", const(2)), IntImm)
    assert cast("float16", const(1.5)).dtype == "float16"
    # Not folded: what a float that does not fit becomes is the machine's affair.
    assert not isinstance(cast("int32", const(1.5)), IntImm)


def test_true_division_of_integers_is_refused() -> None:
    with pytest.raises(DTypeError, match="'/' of integers"):
        I / 2
    assert (Var("x", "float32") / 2).dtype == "float32"
