"""TVMScript modules and structural equality, as scripts for TVM have them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import tir
from tileloom.compat.tvm.ir import IRModule, assert_structural_equal, structural_equal
from tileloom.compat.tvm.script import ir as I
from tileloom.compat.tvm.script import tir as T
from tileloom.tir import PrimFunc


@T.prim_func
def scale(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (16, 8), "float32")
    B = T.match_buffer(b, (16, 8), "float32")
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


@T.prim_func
def scale_flat(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (16, 8), "float32")
    B = T.match_buffer(b, (16, 8), "float32")
    for f in T.serial(128):
        with T.block("other_name"):
            vi = T.axis.spatial(16, f // 8)
            vj = T.axis.spatial(8, f % 8)
            B[vi, vj] = A[vi, vj] * 2.0


@T.prim_func
def scale_flat_otherwise(x: T.handle, y: T.handle) -> None:
    X = T.match_buffer(x, (16, 8), "float32")
    Y = T.match_buffer(y, (16, 8), "float32")
    for f in range(128):
        with T.block("B"):
            v1 = T.axis.spatial(16, (f + f) // 16)
            v0 = T.axis.spatial(8, f - 8 * (f // 8))
            Y[v1, v0] = X[v1, v0] * 2.0


@tvm.script.ir_module
class TwoFunctions:
    @T.prim_func
    def first(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            A[i] = T.float32(1)

    @T.prim_func(private=True)
    def second(A: T.Buffer((4,), "float32"), n: T.int32) -> None:
        for i in T.parallel(4):
            A[i] = T.Cast("float32", n)


def without_symbol(func: PrimFunc) -> Any:
    return func.without_attr("global_symbol")


def test_equal_up_to_index_arithmetic() -> None:
    left, right = without_symbol(scale_flat), without_symbol(scale_flat_otherwise)
    assert_structural_equal(left, right)
    assert structural_equal(left, right)
    assert tvm.ir.structural_hash(left) == tvm.ir.structural_hash(right)
    assert tir.analysis.expr_deep_equal(left.body.block.body.extent, tir.const(128))


def test_unequal_is_a_value_error_that_says_where() -> None:
    with pytest.raises(ValueError, match="differ first at"):
        assert_structural_equal(without_symbol(scale), without_symbol(scale_flat))
    assert not structural_equal(scale, scale_flat)


def test_global_symbols_count() -> None:
    with pytest.raises(ValueError):
        assert_structural_equal(scale_flat, scale_flat_otherwise)
    assert_structural_equal(
        scale_flat.with_attr("global_symbol", "main"),
        scale_flat_otherwise.with_attr({"global_symbol": "main"}),
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda x, y: x + y * 4, lambda x, y: y * 2 * 2 + x),
        (lambda x, y: (x * 8 + 3) // 4, lambda x, y: x * 2),
        (lambda x, y: tir.And(x < 3, y > 2), lambda x, y: tir.And(x < 3, y > 2)),
        (lambda x, y: tir.floordiv(x, 4) * 4 + tir.floormod(x, 4), lambda x, y: x),
    ],
)
def test_expressions_in_normal_form(left: Callable[..., Any], right: Callable[..., Any]) -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert_structural_equal(left(x, y), right(x, y))
    assert not structural_equal(left(x, y), x * 3 + 7)


def test_float_arithmetic_is_not_reordered() -> None:
    x, y = tir.Var("x", "float32"), tir.Var("y", "float32")
    assert not structural_equal(x + y, y + x)
    assert structural_equal(x + y, y + x, map_free_vars=True)


@pytest.mark.parametrize("whole", [True, False])
def test_the_order_in_which_variables_are_made_does_not_matter(whole: bool) -> None:
    def make(turn: bool) -> Any:
        buffer = tir.decl_buffer((16, 16), "int32", "A")
        i, j = [tir.Var("i", "int32"), tir.Var("j", "int32")][:: -1 if turn else 1]
        store = tir.BufferStore(buffer, 1, [i + j, tir.max(i, j)])
        nest = tir.For(i, 0, 4, 0, tir.For(j, 0, 4, 0, store))
        return tir.PrimFunc([buffer], nest) if whole else nest

    left, right = make(False), make(True)
    if whole:
        assert_structural_equal(left, right)
        assert tvm.ir.structural_hash(left) == tvm.ir.structural_hash(right)
    else:
        assert_structural_equal(left, right, map_free_vars=True)


def test_containers_and_numbers() -> None:
    x = tir.Var("x", "int32")
    assert_structural_equal([x + 1, 2], [1 + x, 2])
    assert_structural_equal({"a": x * 1}, {"a": x})
    assert_structural_equal(tvm.ir.Range(2, 5), tvm.ir.Range.from_min_extent(2, 3))


def test_module_as_a_container() -> None:
    mod: Any = TwoFunctions
    assert isinstance(mod, IRModule)
    assert isinstance(mod, tvm.IRModule)
    assert sorted(gv.name_hint for gv in mod.get_global_vars()) == ["first", "second"]
    assert mod["first"].attrs["global_symbol"] == "first"
    assert "global_symbol" not in mod["second"].attrs
    assert "first" in mod
    assert "third" not in mod
    var = mod.get_global_var("second")
    assert mod[var] is mod["second"]
    for name, func in mod.functions.items():
        assert isinstance(func, tir.PrimFunc)
        assert name.name_hint in ("first", "second")
    with pytest.raises(ValueError):
        mod.get_global_var("third")


def test_module_changed_in_place() -> None:
    mod = TwoFunctions.clone()
    mod["third"] = scale
    mod.update_func(mod.get_global_var("first"), mod["first"].with_attr("k", 1))
    assert len(mod.get_global_vars()) == 3
    assert mod["first"].attrs["k"] == 1
    assert len(TwoFunctions.get_global_vars()) == 2
    other = tvm.IRModule({"main": scale})
    mod.update(other)
    assert mod["main"] is scale
    assert tvm.IRModule.from_expr(scale)["scale"] is scale


def test_text_goes_round() -> None:
    text = TwoFunctions.script()
    assert_structural_equal(tvm.script.from_source(text), TwoFunctions)
    assert_structural_equal(tvm.script.from_source(scale.script(show_meta=True)), scale)
    assert "T.grid(16, 8)" in str(scale)


def test_from_source_with_names_of_the_caller() -> None:
    func = tvm.script.from_source(
        """
@T.prim_func
def main(A: T.Buffer((N,), "int32")):
    for i in range(N):
        A[i] = i * K
""",
        {"N": 12, "K": 3, "T": T},
    )
    assert func.body.extent == 12


def test_shapes_from_around() -> None:
    n, dtype = 24, "float16"

    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((n,), dtype), B: T.Buffer((n,), dtype)) -> None:
            for i in range(n):
                with T.block("B"):
                    vi = T.axis.spatial(n, i)
                    B[vi] = A[vi] + T.cast(1, dtype)

    assert isinstance(Module, tvm.IRModule)
    assert [buffer.dtype for buffer in Module["main"].buffer_map.values()] == ["float16"] * 2


def test_specialize() -> None:
    @T.prim_func
    def add(a: T.handle, b: T.handle) -> None:
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] + 1.0

    a, _ = add.params
    known: Any = add.specialize({a: tir.decl_buffer((10,), "float32")})
    assert known.body.block.body.extent == 10
    by_size = add.specialize({add.buffer_map[a].shape[0]: 10})
    assert_structural_equal(known, by_size)


def test_parse_errors_are_tvm_errors() -> None:
    with pytest.raises(tvm.error.DiagnosticError):

        @T.prim_func
        def wrong(A: T.Buffer((4,), "float32")) -> None:
            for i in range(4):
                A[i] = undefined_name  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(tvm.TVMError):
        tvm.script.from_source("@T.prim_func\ndef f(A: T.Buffer((4,)):\n    pass")


def test_modules_are_kept_as_json_and_pickles() -> None:
    for program in (TwoFunctions, scale):
        for kept in (
            tvm.ir.load_json(tvm.ir.save_json(program)),
            pickle.loads(pickle.dumps(program)),
        ):
            assert type(kept) is type(program)
            assert_structural_equal(kept, program)
    with pytest.raises(tvm.TVMError):
        tvm.ir.save_json(tir.Var("x", "int32"))
