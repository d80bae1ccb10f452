"""Folds of constants against NumPy's arithmetic, and laws that hold without constants."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.tile import parse, run_passes, show, verify
from tileloom.tile.ir.attributes import DenseElementsAttr, constant_attribute
from tileloom.tile.ir.core import Operation, Value
from tileloom.tile.ir.definitions import definition_of
from tileloom.tile.ir.elementwise import numbers
from tileloom.tile.ir.interning import Attribute
from tileloom.tile.ir.rewriter import FOLDS, constant_of
from tileloom.tile.ir.types import F16, F32, F64, I8, I32, TensorType, Type

SIGNED: dict[Any, Any] = {I8: np.int8, I32: np.int32}
UNSIGNED: dict[Any, Any] = {I8: np.uint8, I32: np.uint32}
REAL: dict[Any, Any] = {F16: np.float16, F32: np.float32, F64: np.float64}


def folded(name: str, values: list[tuple[Any, ...]], types: list[Type], result: Type) -> Any:
    """The elements that an operation on tensors of the values folds to, or None."""
    count = len(values[0])
    op_operands = []
    for elements, type in zip(values, types, strict=True):
        tensor = TensorType((count,), type)
        attribute = DenseElementsAttr(tensor, elements)
        made = Operation(definition_of("arith.constant"), (), (tensor,), {"value": attribute})
        op_operands.append(made.results[0])
    op = Operation(definition_of(name), op_operands, (TensorType((count,), result),))
    made_values = FOLDS[name](op, [constant_of(operand) for operand in op_operands])
    if made_values is None:
        return None
    found = made_values[0]
    known = numbers(found if isinstance(found, Attribute) else constant_of(found))
    if known is None:
        return None
    return list(known) * count if len(known) == 1 else list(known)


INTEGERS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "addi": (SIGNED, operator.add),
    "subi": (SIGNED, operator.sub),
    "muli": (SIGNED, operator.mul),
    "andi": (SIGNED, operator.and_),
    "ori": (SIGNED, operator.or_),
    "xori": (SIGNED, operator.xor),
    "maxsi": (SIGNED, np.maximum),
    "minsi": (SIGNED, np.minimum),
    "maxui": (UNSIGNED, np.maximum),
    "minui": (UNSIGNED, np.minimum),
    "divui": (UNSIGNED, np.floor_divide),
    "remui": (UNSIGNED, np.remainder),
    "remsi": (SIGNED, np.fmod),
    "floordivsi": (SIGNED, np.floor_divide),
    "shli": (SIGNED, np.left_shift),
    "shrsi": (SIGNED, np.right_shift),
    "shrui": (UNSIGNED, np.right_shift),
}


@given(st.data(), st.sampled_from(sorted(INTEGERS)), st.sampled_from([I8, I32]))
def test_integers(data: st.DataObject, name: str, type: Type) -> None:
    table, function = INTEGERS[name]
    info = np.iinfo(SIGNED[type])
    number = st.integers(int(info.min), int(info.max)) | st.integers(-3, 3)
    first = tuple(data.draw(st.lists(number, min_size=4, max_size=4)))
    if name.startswith("sh"):
        number = st.integers(0, info.bits - 1)
    if name.startswith(("div", "rem", "floor")):
        number = number.filter(lambda n: n not in (0, -1))
    second = tuple(data.draw(st.lists(number, min_size=4, max_size=4)))
    arrays = [np.array(v, SIGNED[type]).view(table[type]) for v in (first, second)]
    expected = function(*arrays).view(SIGNED[type])
    assert folded(f"arith.{name}", [first, second], [type, type], type) == expected.tolist()


FLOATS: dict[str, Callable[..., Any]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}


@given(st.data(), st.sampled_from(sorted(FLOATS)), st.sampled_from([F16, F32, F64]))
def test_floats(data: st.DataObject, name: str, type: Type) -> None:
    dtype = REAL[type]
    number = st.floats(width=np.dtype(dtype).itemsize * 8)
    values = [tuple(data.draw(st.lists(number, min_size=3, max_size=3))) for _ in range(2)]
    with np.errstate(all="ignore"):
        expected = FLOATS[name](*(np.array(v, dtype) for v in values))
    found = folded(f"arith.{name}", values, [type, type], type)
    np.testing.assert_array_equal(np.array(found, dtype), expected)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        *((name, 5, 0) for name in ("divsi", "divui", "remsi", "remui", "floordivsi")),
        *((name, -(2**31), -1) for name in ("divsi", "remsi", "ceildivsi")),
        *((name, 1, 32) for name in ("shli", "shrsi", "shrui")),
    ],
)
def test_what_is_undefined_does_not_fold(name: str, first: int, second: int) -> None:
    assert folded(f"arith.{name}", [(first,), (second,)], [I32, I32], I32) is None


@given(st.floats(width=32), st.sampled_from(["fptosi", "fptoui"]))
def test_floats_to_integers(value: float, name: str) -> None:
    found = folded(f"arith.{name}", [(value,)], [F32], I8)
    least, end = (-129, 128) if name == "fptosi" else (-1, 256)
    if np.isfinite(value) and least < value < end:
        assert found == [int(np.array(int(value)).astype(np.int8))]
    else:
        assert found is None


@given(st.floats(width=32))
def test_casts_of_floats_are_exact(value: float) -> None:
    found = folded("arith.truncf", [(value,)], [F32], F16)
    with np.errstate(over="ignore"):
        exact = float(np.float16(value)) == value
    assert found == ([value] if exact else None)


# Each expression of x and y (i32), c (i1), f (f32), and what it becomes.
LAWS = {
    "arith.addi %x, %c0 : i32": "%x",
    "arith.muli %x, %c1 : i32": "%x",
    "arith.muli %c0, %x : i32": "%c0",
    "arith.subi %x, %x : i32": "%c0",
    "arith.divsi %x, %c1 : i32": "%x",
    "arith.remui %x, %c1 : i32": "%c0",
    "arith.andi %x, %x : i32": "%x",
    "arith.xori %x, %x : i32": "%c0",
    "arith.ori %x, %c0 : i32": "%x",
    "arith.select %c, %x, %x : i32": "%x",
    "arith.divsi %x, %x : i32": None,
    "arith.divsi %x, %c0 : i32": None,
    "arith.muli %x, %y : i32": None,
    "tt.addptr %p, %c0 : !tt.ptr<i32>, i32": "%p",
    "tt.addptr %p, %c1 : !tt.ptr<i32>, i32": None,
    "arith.addf %f, %zero : f32": None,
    "arith.subf %f, %zero : f32": "%f",
    "arith.mulf %f, %zero : f32": None,
    "arith.subf %f, %f : f32": None,
}


@pytest.mark.parametrize("text", LAWS)
def test_laws(text: str) -> None:
    type = "!tt.ptr<i32>" if "addptr" in text else text.rsplit(" ", 1)[1]
    module = parse(
        f"""tt.func public @f(%x: i32, %y: i32, %c: i1, %f: f32, %p: !tt.ptr<i32>) -> {type} {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %r = {text}
  tt.return %r : {type}
}}"""
    )
    verify(module)
    last = next(op for op in module.walk() if op.name == "tt.return")
    before = last.operands[0].defining_op
    run_passes(module, ["canonicalize"], check=True)
    wanted = LAWS[text]
    if wanted is None:
        assert last.operands[0].defining_op is before, show(module)
    elif wanted == "%c0":
        assert constant_of(last.operands[0]) is constant_attribute(0, I32)
    else:
        index = ("%x", "%y", "%c", "%f", "%p").index(wanted)
        assert last.operands[0] is _arguments(module)[index]


def _arguments(module: Operation) -> list[Value]:
    function = next(op for op in module.walk() if op.name == "tt.func")
    return list(function.body.arguments)


def test_constants_stand_once_at_the_front() -> None:
    module = parse(
        """tt.func public @f(%x: i32, %n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %two = arith.constant 2 : i32
    %again = arith.addi %c1, %c1 : i32
    %a = arith.muli %two, %i : i32
    %b = arith.addi %a, %again : i32
    tt.store %p, %b : !tt.ptr<i32>
  }
  tt.return
}"""
    )
    run_passes(module, ["canonicalize"], check=True)
    body = next(op for op in module.walk() if op.name == "tt.func").body
    leading = [op.name for op in body][:4]
    assert leading == ["arith.constant"] * 3 + ["scf.for"]
    assert sum(op.name == "arith.constant" for op in module.walk()) == 3
