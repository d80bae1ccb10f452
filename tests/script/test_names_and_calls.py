"""Names for several loops or axes, macros of any parameters, functions that call each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import ParseError
from tileloom.script import from_source
from tileloom.script import ir as I
from tileloom.script import tir as T
from tileloom.tir import PrimFunc, assert_structural_equal
from tileloom.tir.nodes import Scripted

HEAD = "from tileloom.script import ir as I, tir as T\n\n"


def parse(text: str) -> Scripted | None:
    return from_source(HEAD + text)


PLAIN = parse("""
@T.prim_func
def main(A: T.Buffer((8, 4, 2), "float32")):
    for i, j, k in T.grid(8, 4, 2):
        with T.block("A"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            A[vi, vj, vk] = T.float32(1)
""")

FORM = """
@T.prim_func
def main(A: T.Buffer((8, 4, 2), "float32")):
    for {loops} in T.grid(8, 4, 2):
        with T.block("A"):
            {axes} = T.axis.remap("SSS", {values})
            A[{indices}] = T.float32(1)
"""


@pytest.mark.parametrize(
    ("loops", "axes", "values", "indices"),
    [
        ("iters", "vi, vj, vk", "iters", "vi, vj, vk"),
        ("iters", "axes", "iters", "axes"),
        ("i, *rest", "vi, *axes", "[i, *rest]", "vi, *axes"),
        ("*rest, k", "*axes, vk", "[*rest, k]", "*axes, vk"),
        ("i, *rest, k", "vi, *axes, vk", "[i, *rest, k]", "vi, *axes, vk"),
        ("i, j, k, *rest", "vi, vj, vk, *axes", "[i, j, k, *rest]", "vi, vj, vk, *axes"),
        ("[i, j, k]", "[vi, vj, vk]", "[i, j, k]", "vi, vj, vk"),
    ],
)
def test_one_name_for_several(loops: str, axes: str, values: str, indices: str) -> None:
    text = FORM.format(loops=loops, axes=axes, values=values, indices=indices)
    assert_structural_equal(parse(text), PLAIN)


def test_several_get_numbers() -> None:
    text = FORM.format(loops="t, *it", axes="*v, w", values="[t, *it]", indices="*v, w")
    assert "for t, it_0, it_1 in T.grid(8, 4, 2):" in str(parse(text))
    assert "v_0, v_1, w = T.axis.remap" in str(parse(text))


@pytest.mark.parametrize("loops", ["i, j", "i, j, k, l", "*i, *j", "i, j, k, l, *m", "i, A[0], k"])
def test_names_that_do_not_fit(loops: str) -> None:
    text = FORM.format(loops=loops, axes="a, b, c", values="[i, j, k]", indices="a, b, c")
    with pytest.raises(ParseError, match=r"names? for 3 loops|must be a name"):
        parse(text)
    text = FORM.format(loops="i, j, k", axes="a, b", values="[i, j, k]", indices="a, b, b")
    with pytest.raises(ParseError, match="2 names for 3 values"):
        parse(text)


def test_range_has_annotations() -> None:
    func: Any = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(2, 8, annotations={"pragma": 3}):
        A[i] = T.float32(1)
""")
    assert dict(func.body.annotations) == {"pragma": 3}
    assert_structural_equal(from_source(str(func)), func)


# ---------------------------------------------------------------------------- macros


@T.macro
def fill(A: Any, *indices: Any, value: Any = T.float32(3), **more: Any) -> None:  # noqa: B008
    A[indices] = value + more.get("plus", T.float32(0))


@T.macro
def both(first: Any, second: int = 2, *, third: Any) -> None:
    T.evaluate(T.call_extern("int32", "f", first, second, third))


def test_macros_take_any_parameters() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 4), "float32")) -> None:
        for i in range(8):
            fill(A, i)
        for i, j in T.grid(8, 4):
            fill(B, i, j, value=T.float32(5), plus=T.float32(1))
        both(1, third=3)
        both(1, 7, third=3)

    text = str(main)
    assert "A[i] = T.float32(3.0) + T.float32(0.0)" in text
    assert "B[i, j] = T.float32(5.0) + T.float32(1.0)" in text
    assert 'T.call_extern("int32", "f", 1, 2, 3)' in text
    assert 'T.call_extern("int32", "f", 1, 7, 3)' in text


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("both(1)", "lacks 'third'"),
        ("both(third=3)", "lacks 'first'"),
        ("both(1, 2, 3, third=3)", "takes 2 arguments"),
        ("both(1, first=1, third=3)", "gives 'first' twice"),
        ("both(1, third=3, fourth=4)", "has no parameter 'fourth'"),
    ],
)
def test_calls_of_macros_that_do_not_fit(call: str, fault: str) -> None:
    text = f"""
@T.macro
def both(first, second=2, *, third):
    T.evaluate(first)

@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    {call}
"""
    with pytest.raises(ParseError, match=fault):
        parse(text)


# ---------------------------------------------------------------------------- classes and modules


class Plain:
    """A class that is no module: its functions are functions."""

    @T.prim_func
    def first(A: T.Buffer((8,), "float32")) -> None:
        A[0] = T.float32(1)

    class Inner:
        @T.prim_func(private=True)
        def second(A: T.Buffer((8,), "float32")) -> None:
            A[0] = T.float32(2)


def test_functions_of_a_plain_class() -> None:
    assert isinstance(Plain.first, PrimFunc) and Plain.first.name == "first"
    assert isinstance(Plain.Inner.second, PrimFunc)
    assert "global_symbol" not in Plain.Inner.second.attrs

    class Local:
        @T.prim_func
        def third(A: T.Buffer((8,), "float32")) -> None:
            A[0] = T.float32(3)

    assert isinstance(Local.third, PrimFunc)


@I.ir_module
class Calls:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        for i in T.parallel(8):
            Calls.twice(A.data, B.data, i)  # type: ignore[operator]

    @T.prim_func(private=True)
    def twice(a: T.handle("float32"), b: T.handle("float32"), i: T.int32) -> None:
        A = T.decl_buffer((8,), "float32", data=a)
        B = T.decl_buffer((8,), "float32", data=b)
        B[i] = A[i] * T.float32(2)


def test_functions_of_a_module_call_each_other() -> None:
    assert "Module.twice(A.data, B.data, i)" in str(Calls)
    assert_structural_equal(from_source(str(Calls)), Calls)
    kernels = tileloom.build(Calls)  # type: ignore[arg-type]
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    kernels["main"](a, b)
    np.testing.assert_array_equal(b, a * 2)


VALUES = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = Module.value({arguments})

    @T.prim_func(private=True)
    def value(i: T.int32) -> T.float32:
        return T.cast(i, "float32")
"""


def test_functions_that_return_values() -> None:
    module: Any = parse(VALUES.format(arguments="i"))
    assert str(module["main"].body.body.value.dtype) == "float32"
    assert_structural_equal(from_source(str(module)), module)
    out = np.zeros(8, "float32")
    tileloom.build(module)["main"](out)
    np.testing.assert_array_equal(out, np.arange(8))
    with pytest.raises(ParseError, match="takes 1 arguments, got 2"):
        parse(VALUES.format(arguments="i, i"))
    with pytest.raises(ParseError, match="no attribute 'valu'"):
        parse(VALUES.format(arguments="i").replace("Module.value", "Module.valu"))
