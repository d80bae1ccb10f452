"""Structural equality and hash: what counts, what does not, and that both agree."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.base import dtype
from tileloom.base.errors import UnsupportedError
from tileloom.expr import (
    REDUCE,
    CommReducer,
    Expr,
    FloatImm,
    IterVar,
    Let,
    Range,
    Reduce,
    SizeVar,
    Var,
    const,
)
from tileloom.target import target
from tileloom.tir import (
    AllocateConst,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IRModule,
    LetStmt,
    PrimFunc,
    Stmt,
    make_buffer,
    seq,
)
from tileloom.tir.structural import (
    StructureError,
    assert_structural_equal,
    register_structure,
    structural_equal,
    structural_hash,
)

I32 = "int32"


def alike(a: Any, b: Any, **options: bool) -> bool:
    """Equality, checked to be symmetric and to agree with the hash."""
    result = structural_equal(a, b, **options)
    assert structural_equal(b, a, **options) is result
    same_hash = structural_hash(a, **options) == structural_hash(b, **options)
    assert same_hash is result  # a collision of 64 bits would be a defect in what is mixed in
    return result


def copy_func(
    n: int = 16,
    names: tuple[str, ...] = ("A", "B", "i"),
    kind: str = "serial",
    ann: Mapping[str, Any] | None = None,
    scale: int = 1,
    **attrs: str,
) -> PrimFunc:
    a, b = make_buffer((n,), name=names[0]), make_buffer((n,), name=names[1])
    i, vi = Var(names[2]), Var("v" + names[2])
    block = Block(
        (IterVar(Range(0, n), vi),),
        (BufferRegion.point(a, [vi]),),
        (BufferRegion.point(b, [vi]),),
        names[1],
        BufferStore(b, BufferLoad(a, [vi]) * scale, (vi,)),
    )
    loop = For(i, const(0), const(n), kind, BlockRealize((i,), const(True), block))
    loop = loop.replace(annotations=ann or {})
    pa, pb = Var("a", "handle"), Var("b", "handle")
    return PrimFunc((pa, pb), loop, {pa: a, pb: b}, attrs)


def test_names_do_not_count() -> None:
    assert alike(copy_func(), copy_func(names=("X", "Y", "k")))


@pytest.mark.parametrize(
    "other",
    [
        copy_func(17),
        copy_func(kind="parallel"),
        copy_func(ann={"pragma": 1}),
        copy_func(scale=2),
        copy_func(global_symbol="f"),
    ],
)
def test_what_counts(other: PrimFunc) -> None:
    assert not alike(copy_func(), other)


def test_annotations_compare_by_value() -> None:
    one = {"tile": [1, 2, {"x": 0.5}], "on": True, "what": "s"}
    two = {"what": "s", "on": const(True), "tile": (1, 2, {"x": 0.5})}
    assert alike(copy_func(ann=one), copy_func(ann=two))
    assert not alike(copy_func(ann=one), copy_func(ann={**two, "on": 1}))
    assert not alike(copy_func(ann={"a": [-1]}), copy_func(ann={"a": [-2]}))


def test_order_of_parameters_counts() -> None:
    f = copy_func()
    swapped = f.replace(params=f.params[::-1])
    assert not alike(f, swapped)
    reordered_map = f.replace(buffer_map=dict(reversed(list(f.buffer_map.items()))))
    assert alike(f, reordered_map)


def test_bound_variables_stand_for_one_another_both_ways() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")

    def nest(outer: Var, inner: Var, value: Expr) -> For:
        body = For(inner, const(0), const(4), "serial", Evaluate(value))
        return For(outer, const(0), const(4), "serial", body)

    assert alike(nest(i, j, i * 2 + j), nest(j, k, j * 2 + k))
    assert not alike(nest(i, j, i * 2 + j), nest(i, j, j * 2 + i))
    assert not alike(nest(i, j, i * 2 + i), nest(i, j, i * 2 + j))


def test_one_variable_in_two_loops() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")

    def two(a: Var, b: Var) -> Stmt:
        return seq(
            *(For(v, const(0), const(4), "serial", Evaluate(v + j)) for v in (a, b)),
        )

    assert alike(two(i, i), two(i, k))


def test_free_variables() -> None:
    x, y = Var("x"), Var("y")
    assert alike(x + 1, x + 1)
    assert not alike(x + 1, y + 1)
    assert alike(x + y, y + x, map_free_vars=True)
    assert not alike(x + x, x + y, map_free_vars=True)
    assert not alike(x + 1, Var("x", "int64") + 1, map_free_vars=True)
    assert not alike(x + 1, SizeVar("x") + 1, map_free_vars=True)


def test_a_free_variable_is_not_a_bound_one() -> None:
    i, n = Var("i"), Var("n")
    loop = For(i, const(0), const(4), "serial", Evaluate(i + n))
    assert not alike(loop, For(n, const(0), const(4), "serial", Evaluate(n + n)))
    assert not alike(loop, For(n, const(0), const(4), "serial", Evaluate(n + i)))


def test_let_expressions() -> None:
    x, y, z = Var("x"), Var("y"), Var("z")
    one, two = Let(x, z + 1, x * x), Let(y, z + 1, y * y)
    assert alike(one, two)
    assert not alike(one, Let(x, z + 2, x * x))
    # Shared on one side, two nodes on the other; and one variable bound to two values.
    assert alike(one + one, one + two)
    assert alike(one + Let(x, z + 2, x), two + Let(y, z + 2, y))
    assert alike(Let(x, one, x + one), Let(y, two, y + one))


def test_reduce_expressions() -> None:
    def total(name: str, n: int = 8, swap: bool = False) -> Expr:
        a, b = Var("a", "float32"), Var("b", "float32")
        result = (b + a) if swap else (a + b)
        reducer = CommReducer([a], [b], [result], [const(0.0)])
        k = Var(name)
        axis = IterVar(Range(0, n), k, REDUCE)
        return Reduce(reducer, [k.astype("float32")], [], [axis], const(True))

    assert alike(total("k"), total("r"))
    assert not alike(total("k"), total("k", 9))
    assert not alike(total("k"), total("k", swap=True))


def test_constants_by_value_and_type() -> None:
    assert alike(FloatImm("float32", float("nan")), FloatImm("float32", float("nan")))
    assert not alike(FloatImm("float32", 0.0), FloatImm("float32", -0.0))
    assert not alike(const(1), const(1, "int64"))
    assert not alike(const(-1), const(-2))


@pytest.mark.parametrize(
    ("field", "value", "counts"),
    [
        ("name", "other", False),
        ("offset_factor", 4, False),
        ("shape", (const(3),), True),
        ("strides", (const(2),), True),
        ("elem_offset", const(1), True),
        ("scope", "shared", True),
        ("data_alignment", 16, True),
        ("axis_separators", (1,), True),
        ("buffer_type", "auto_broadcast", True),
    ],
)
def test_buffer_fields(field: str, value: Any, counts: bool) -> None:
    buffer = make_buffer((4,), name="A")
    assert alike(buffer, buffer.replace(**{field: value})) is not counts


def test_aliases_differ_from_two_buffers() -> None:
    def store_both(a: Buffer, b: Buffer) -> Stmt:
        return seq(*(BufferStore(x, const(0.0), (const(0),)) for x in (a, b)))

    a, b, c, d = (make_buffer((4,), name=n) for n in "abcd")
    assert alike(store_both(a, b), store_both(c, d))
    assert alike(store_both(a, a.replace()), store_both(b, b))
    assert not alike(store_both(a, a), store_both(a, b))


def test_symbolic_shapes_are_bound_by_the_buffer() -> None:
    def ones(n: Expr) -> PrimFunc:
        a, p, i = make_buffer((n, n), name="A"), Var("p", "handle"), Var("i")
        store = BufferStore(a, const(1.0), (i, i))
        return PrimFunc((p,), For(i, const(0), n, "serial", store), {p: a})

    assert alike(ones(SizeVar("n")), ones(SizeVar("m")))
    assert not alike(ones(SizeVar("n")), ones(const(4)))


def test_constant_data() -> None:
    def table(values: Sequence[int]) -> AllocateConst:
        p = Var("p", "handle", ("float32", "global"))
        data = np.array(values, "float32")
        return AllocateConst(p, dtype(data.dtype), (const(len(values)),), data, Evaluate(const(0)))

    assert alike(table([1, 2]), table([1, 2]))
    assert not alike(table([1, 2]), table([1, 3]))


def test_modules() -> None:
    assert alike(IRModule({"f": copy_func(), "g": copy_func(8)}),
                 IRModule({"g": copy_func(8), "f": copy_func()}))  # fmt: skip
    assert not alike(IRModule({"f": copy_func()}), IRModule({"g": copy_func()}))
    assert not alike(IRModule({"f": copy_func()}), IRModule({"f": copy_func()}, {"x": 1}))


def test_kinds_of_nodes_differ() -> None:
    assert not alike(Evaluate(const(1)), const(1))
    assert not alike(const(1), None)


def test_the_error_shows_where() -> None:
    with pytest.raises(StructureError) as caught:
        assert_structural_equal(copy_func(scale=2), copy_func(scale=3))
    text = str(caught.value)
    assert "<root>.body.body.block.body.value.b" in text
    assert "--- left\nT.float32(2" in text
    assert "--- right\nT.float32(3" in text
    assert_structural_equal(copy_func(), copy_func())


def test_unknown_nodes_are_refused_and_can_be_registered() -> None:
    class Node:
        def __init__(self, size: int) -> None:
            self.size = size

    with pytest.raises(UnsupportedError, match="Node"):
        structural_equal(Node(1), Node(1))
    register_structure(Node, ("size", "use"))
    assert alike(Node(1), Node(1))
    assert not alike(Node(1), Node(2))


def test_let_statements_bind() -> None:
    x, y = Var("x"), Var("y")
    assert alike(LetStmt(x, const(1), Evaluate(x)), LetStmt(y, const(1), Evaluate(y)))
    assert not alike(LetStmt(x, const(1), Evaluate(x)), LetStmt(y, const(2), Evaluate(y)))


def test_hash_is_the_same_in_another_process() -> None:
    here = Path(__file__)
    script = (
        f"import sys; sys.path[:0] = [{str(here.parents[2] / 'src')!r}, {str(here.parent)!r}]\n"
        "import test_structural as t\n"
        "print(t.structural_hash(t.copy_func(ann={'x': [1, 'y', 2.5]}, global_symbol='f')))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    expected = structural_hash(copy_func(ann={"x": [1, "y", 2.5]}, global_symbol="f"))
    assert result.stdout.strip() == str(expected), result.stderr


LEAF = st.one_of(st.sampled_from(["p", "q", "r"]), st.integers(-3, 3))
TREE = st.recursive(LEAF, lambda t: st.tuples(st.sampled_from("+*-L"), t, t), max_leaves=12)


def build(tree: Any, env: Mapping[str, Var]) -> Any:
    match tree:
        case str():
            return env[tree]
        case int():
            return const(tree)
        case ("L", value, body):
            var = Var("l")
            return Let(var, build(value, env), build(body, {**env, "p": var}))
        case (op, a, b):
            a, b = build(a, env), build(b, env)
            return {"+": a + b, "-": a - b, "*": a * b}[op]


def loops(tree: Any, names: str) -> Any:
    env = {name: Var(text) for name, text in zip("pqr", names)}
    stmt: Any = Evaluate(build(tree, env))
    for var in env.values():
        stmt = For(var, const(0), const(4), "serial", stmt)
    return stmt


@given(TREE)
def test_renaming_keeps_equality_and_hash(tree: Any) -> None:
    assert alike(loops(tree, "abc"), loops(tree, "xyz"))


@given(TREE, TREE)
def test_two_programs(left: Any, right: Any) -> None:
    # `alike` checks symmetry and that the hash tells apart exactly what equality does.
    a, b = loops(left, "abc"), loops(right, "xyz")
    if alike(a, b):
        assert_structural_equal(a, b)


def test_what_a_pointer_points_to_counts() -> None:
    def through(kind: str, element: str, scope: str) -> PrimFunc:
        p = Var("p", kind, (element, scope))
        return PrimFunc((p,), Evaluate(p))

    base = through("handle", "float32", "global")
    assert alike(base, through("handle", "float32", "global"))
    assert not alike(base, through("handle", "float16", "global"))
    assert not alike(base, through("handle", "float32", "shared"))
    assert not structural_equal(base, PrimFunc((v := Var("p"),), Evaluate(v)))


def test_functions_for_machines() -> None:
    plain = copy_func()
    funcs = [plain, *(plain.with_attr("target", target(f"cuda -arch=sm_{n}")) for n in (80, 90))]
    assert len({structural_hash(func) for func in funcs}) == 3
    again = plain.with_attr("target", target("cuda -arch=sm_90"))
    assert structural_hash(again) == structural_hash(funcs[2])
