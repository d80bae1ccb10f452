"""The types of calls, where a script does not say them."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.expr import Range, Var, cast, const
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.script.intrinsics import intrinsic_names, is_intrinsic, result_type

I, L, F = Var("i", "int32"), Var("l", "int64"), Var("f", "float32")
P, H, V = Var("p", "bool"), Var("h", "handle"), Var("v", "float32x4")


@pytest.mark.parametrize(
    ("name", "args", "kind"),
    [
        ("exp", (F,), "float32"),
        ("exp", (V,), "float32x4"),
        ("isnan", (F,), "bool"),
        ("isnan", (V,), "boolx4"),
        ("if_then_else", (P, F, F), "float32"),
        ("if_then_else", (P, L, L), "int64"),
        ("tvm_warp_shuffle", (I, F, I, I, I), "float32"),
        ("tvm_warp_shuffle_xor", (I, L, I, I, I), "int64"),
        ("tvm_warp_shuffle_up", (I, P, I, I, I), "bool"),
        ("ptx_wgmma_descriptor", (H, I), "uint64"),
        ("round_bf16", (F,), "bfloat16"),
        ("round_bf16", (V,), "bfloat16x4"),
        ("bitwise_and", (L, L), "int64"),
        ("shift_left", (I, I), "int32"),
        ("no_such_operation", (), "void"),
        ("no_such_operation", (L, I), "int64"),
    ],
)
def test_result_types(name: str, args: tuple[Any, ...], kind: str) -> None:
    assert str(result_type(name, args)) == kind


def test_names() -> None:
    names = intrinsic_names()
    assert names == sorted(set(names)) and {"exp", "tvm_warp_shuffle", "round_bf16"} <= {*names}
    assert all(is_intrinsic(name) for name in names)
    assert not is_intrinsic("no_such_operation")


@pytest.mark.parametrize("name", ["max", "min", "abs"])
def test_a_type_that_is_said_must_be_that_of_the_result(name: str) -> None:
    args = (F, F) if name in ("max", "min") else (F,)
    function = getattr(T, name)
    assert function(*args, dtype="float32").dtype == "float32"
    for other in ("float64", "int32", "float16"):
        with pytest.raises(UserError, match="the result is float32, not"):
            function(*args, dtype=other)


def test_the_range_of_an_iteration_variable() -> None:
    text = (
        "@T.prim_func\ndef main(A: T.Buffer((64,))):\n"
        "    tx = T.int32()\n"
        '    T.attr(T.iter_var(tx, ({low}, {high}), "ThreadIndex", "threadIdx.x"), '
        '"thread_extent", 16)\n'
        "    A[tx] = T.float32(1)\n"
    )
    for low, high in ((0, 16), (2, 16), (5, 6)):
        func: Any = parse(text.format(low=low, high=high))
        domain = func.body.node.dom
        assert isinstance(domain, Range)
        assert (int(domain.min), int(domain.extent)) == (low, high - low)  # type: ignore[call-overload]


def test_wide_numbers() -> None:
    assert result_type("max", (cast("int64", I), const(1, "int64"))) == "int64"
