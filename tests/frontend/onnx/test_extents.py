"""Models whose shapes are computed from extents, imported once for many sizes.

What is imported is evaluated in NumPy, so that the import alone is tested; `test_dynamic` compiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import Evaluated, model
from frontend.onnx.test_dynamic import PAIRS, exported, tokens
from tileloom.base.errors import ShapeError
from tileloom.frontend.onnx import Model, load

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.frontend.onnx.dynamic.compile_polymorphic", Evaluated)


def arrays(session: Model, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Numbers for each input where labels have these sizes."""
    feeds = {}
    for info in session.get_inputs():
        shape: list[Any] = [sizes[dim] if isinstance(dim, str) else dim for dim in info.shape or ()]
        count = int(np.prod(shape))
        feeds[info.name] = (np.arange(count) * 37 % 11 - 5).astype(info.dtype).reshape(shape)
    return feeds


def programs(proto: Any, some: Any, **options: Any) -> int:
    """How many programs a model needs for these sizes, when it is as right as ONNX Runtime."""
    session = load(proto, **options)
    peer = onnxruntime.InferenceSession(proto.SerializeToString())
    static = load(proto, target="reference", dynamic=False)
    for sizes in some:
        feeds = arrays(session, sizes)
        found = session.run(None, feeds)
        for ours, theirs in zip(found, peer.run(None, feeds), strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), sizes
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=str(sizes))
        for ours, theirs in zip(found, static.run(None, feeds), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    return session.compilations


def pairs(*sizes: tuple[int, int]) -> list[Mapping[str, int]]:
    return [{"b": b, "s": s} for b, s in sizes]


SIZES = pairs((3, 5), (1, 1), (2, 2), (7, 1), (1, 13), (5, 16), (4, 100))
#: What the models below may use: scalars `c...`, vectors of one number `v...`, and others.
CONSTANTS = ", ".join(
    [
        *(f"int64 c{k} = {{{k}}}, int64[1] v{k} = {{{k}}}" for k in range(7)),
        "int64 minus = {-5}, int64[1] vminus = {-1}, int64[1] low = {-1000}",
        "int64[2] v01 = {0, 1}, int64[2] v12 = {1, 2}, int64[3] v543 = {5, 4, 3}",
        "int64[3] v356 = {3, 5, 6}, int64[4] to = {0, -1, 2, 3}, int64[5] none = {0, 0, 0, 0, 2}",
        "int64[2] ones = {1, 1}, int64[2] minuses = {-1, -1}, int64[2] two4 = {-1, 4}",
        "float[1] vf = {3}, float f0 = {0}, float f2 = {2}, float[2] values = {0, 1}",
        f"float[1, 100, 1] table = {{{', '.join(map(str, range(100)))}}}",
    ]
)


def about(text: str, opset: int = 15) -> Any:
    """A model of an input `x` of shape [b, s, 6]."""
    outputs, _, body = text.partition("{")
    return model(f"m (float[b, s, 6] x) => {outputs} <{CONSTANTS}> {{{body}", opset)


ONE_PROGRAM = {
    "shape": "(int64[3] y) { y = Shape(x) }",
    "part of a shape": "(int64[r] y) { y = Shape <start = -2, end = -1> (x) }",
    "size": "(int64 y) { y = Size(x) }",
    "reshape by gather and concat": """(float[m, n, o] y) { shape = Shape(x)
        b = Gather(shape, c0) s = Gather(shape, c1) b1 = Unsqueeze(b, v0) s1 = Unsqueeze(s, v0)
        wanted = Concat <axis = 0> (s1, b1, v6) y = Reshape(x, wanted) }""",
    "reshape to a product": """(float[m, o] y) { shape = Shape(x) both = Gather(shape, v01)
        rows = ReduceProd <axes = [0]> (both) wanted = Concat <axis = 0> (rows, v6)
        y = Reshape(x, wanted) }""",
    "reshape with 0 and -1": "(float[m, n, o, p] y) { y = Reshape(x, to) }",
    "reshape by division": """(float[m, n, o] y) { shape = Shape(x) b = Slice(shape, v0, v1)
        d = Slice(shape, v2, v3) h = Div(d, v2) wanted = Concat <axis = 0> (b, vminus, h)
        y = Reshape(x, wanted) }""",
    "flatten": "(float[m, n] y) { y = Flatten <axis = 2> (x) }",
    "expand": "(float[m, n, o] y) { shape = Shape(x) e = Expand(vf, shape) y = Mul(e, x) }",
    "expand as PyTorch does": """(float[m, n] y) { shape = Shape(x) both = Gather(shape, v01)
        same = Equal(both, minuses) wanted = Where(same, ones, both) y = Expand(vf, wanted) }""",
    "constant of shape": """(int64[m, n, o] y) { shape = Shape(x)
        y = ConstantOfShape <value = int64[1] {7}> (shape) }""",
    "range": """(int64[m] y, float[o] z) { shape = Shape(x) s = Gather(shape, c1)
        y = Range(c0, s, c1) back = Range(s, minus, minus) z = Cast <to = 1> (back) }""",
    "slice to an extent": """(float[b, s, 4] y) { s = Shape <start = 1, end = 2> (x)
        t = Slice(table, v0, s, v1) wide = Slice(x, v0, v4, v2) y = Add(wide, t) }""",
    "slices": """(float[m, n, o] y, float[p, q, r] z, float[t, u, v] w) {
        z = Slice(x, vminus, low, v1, vminus) y = Slice(x, v0, vminus, v0)
        w = Slice(x, v1, v6, v1, v2) }""",
    "tile": """(float[m, n, o] y) { b = Shape <start = 0, end = 1> (x)
        r = Concat <axis = 0> (b, ones) y = Tile(x, r) }""",
    "split in halves": "(float[b, s, 3] y) { l, r = Split <axis = 2> (x) y = Mul(l, r) }",
    "split by extents": """(float[m, n, o] y) { s = Shape <start = 1, end = 2> (x)
        t = Concat <axis = 1> (x, x) u = Concat <axis = 0> (s, s) l, r = Split <axis = 1> (t, u)
        y = Add(l, r) }""",
    "pad": """(float[m, n, o] y) { s = Shape <start = 1, end = 2> (x)
        pads = Concat <axis = 0> (none, s) y = Pad(x, pads) }""",
    "arithmetic": """(int64[3] y, int64[3] z, int64[3] u) { shape = Shape(x)
        t = Mul(shape, v543) q = Add(t, v543) y = Div(q, v543) z = Mod(q, v543)
        m = Max(shape, v543) u = Min(m, t) }""",
    "comparisons": """(bool[3] y, int64[3] z) { shape = Shape(x) y = Greater(shape, v356)
        e = Equal(shape, v356) z = Where(e, v356, shape) }""",
    "the mean over an extent": "(float[b, 6] y) { y = ReduceMean <axes = [1], keepdims = 0> (x) }",
    "the integer mean": """(int32[6] y) { i = Cast <to = 6> (x)
        y = ReduceMean <axes = [0, 1], keepdims = 0> (i) }""",
    "a number in a formula": """(float[b, s, 6] y) { shape = Shape(x) s = Gather(shape, c1)
        f = Cast <to = 1> (s) r = Sqrt(f) y = Div(x, r) }""",
    "one hot": """(float[m, n] y) { shape = Shape(x) s = Gather(shape, c1)
        i = Range(c0, s, c1) y = OneHot(i, s, values) }""",
    "einsum": """(float[b, s, s] y) { y = Einsum <equation = "bid,bjd->bij"> (x, x) }""",
    "concat": "(float[m, n, o] y) { y = Concat <axis = 0> (x, x, x) }",
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_PROGRAM)
def test_one_program_for_all_sizes(name: Any) -> None:
    assert programs(about(ONE_PROGRAM[name]), SIZES) == 1


def test_softmax_of_old_flattens() -> None:
    proto = model("m (float[b, s, 6] x) => (float[b, s, 6] y) { y = Softmax <axis = 1> (x) }", 12)
    assert programs(proto, SIZES) == 1


#: Models that need more, and for which sizes how many.
MORE_PROGRAMS = {
    "a value of floats: while extents are exact in them": (
        """(float[m] y) { shape = Shape(x) s = Gather(shape, c1) t = Add(s, s)
        f = Cast <to = 1> (t) y = Range(f0, f, f2) }""",
        SIZES,
        1,
    ),
    "a condition on an extent: one for each answer": (
        """(float[m, n, o] y) { s = Shape <start = 1, end = 2> (x) t = Greater(s, v3)
        y = If(t) <then_branch = g () => (float[m, n, o] u) { u = Neg(x) },
                   else_branch = h () => (float[m, n, o] u) { u = Add(x, x) }> }""",
        SIZES,
        2,
    ),
    "a dimension of 1 that is left out: one for 1, one for others": (
        """(float[?] y) { b = Shape <start = 0, end = 1> (x) t = Equal(b, v1)
        y = If(t) <then_branch = g () => (float[?] u) { u = Squeeze(x, v0) },
                   else_branch = h () => (float[?] u) { u = Identity(x) }> }""",
        SIZES,
        2,
    ),
    "all dimensions of 1": ("(float[?] y) { y = Squeeze(x) }", SIZES, 4),
    "a loop of so many steps: one for each number": (
        """(float[b, s, 6] y) { s = Shape <start = 1, end = 2> (x) n = Squeeze(s)
        y = Loop(n, "", x) <body = g (int64 i, bool c, float[b, s, 6] u) =>
            (bool d, float[b, s, 6] v) { d = Identity(c) v = Add(u, x) }> }""",
        pairs((1, 2), (3, 2), (4, 3), (5, 2), (7, 3)),
        2,
    ),
    "what fits by luck: where one dimension makes it fit, the other is open": (
        "(float[m, n] y) { y = Reshape(x, two4) }",
        pairs((4, 2), (8, 3), (2, 2), (12, 1)),
        3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE_PROGRAMS)
def test_more_programs(name: Any) -> None:
    text, sizes, count = MORE_PROGRAMS[name]
    assert programs(about(text), sizes) == count


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
def test_a_transformer_is_imported_once(dynamo: bool) -> None:
    data = exported(dynamo)
    session, peer = load(data), onnxruntime.InferenceSession(data)
    for feeds in map(tokens, [*PAIRS, (1, 64)]):
        for ours, theirs in zip(session.run(None, feeds), peer.run(None, feeds), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert session.compilations == 1


# ---------------------------------------------------------------------------- dimensions


def test_dimensions_that_nothing_is_said_of_agree_by_their_sizes() -> None:
    proto = model("m (float[?, 3] x, float[?, 3] y) => (float[?, 3] z) { z = Add(x, y) }")
    session = load(proto)
    for n in (4, 7, 1, 100):
        x, y = np.ones((n, 3), np.float32), np.full((n, 3), 2, np.float32)
        np.testing.assert_array_equal(session(x, y)[0], x + y)
    assert session.compilations == 2  # for a size of 1, which may as well be repeated
    np.testing.assert_array_equal(session(x, y[:1])[0], x + y[:1])
    assert session.compilations == 3


PAST = """m (float[b, past, 4] old, float[b, new, 4] x, float[b, all] mask)
          => (float[m, n, o] y) <int64[1] one = {1}> {
    k = Concat <axis = 1> (old, x) kt = Transpose <perm = [0, 2, 1]> (k) q = MatMul(x, kt)
    a = Unsqueeze(mask, one) y = Add(q, a) }"""


@pytest.mark.parametrize(
    "total", ["total", "past + new", "new+past", "total length"], ids=lambda total: total
)
def test_a_dimension_that_is_the_sum_of_others(total: str) -> None:
    proto = model(PAST)
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = total
    sizes = [(2, 8, 3), (1, 9, 1), (3, 1, 1), (2, 13, 5)]
    some = [{"b": b, "past": past, "new": new, total: past + new} for b, past, new in sizes]
    assert programs(proto, some) == 1


def test_a_formula_that_is_wrong_costs_no_more_than_programs() -> None:
    proto = model("m (float[n] x, float[m] y) => (float[n] u, float[k] v) "
                  "{ u = Neg(x) v = Neg(y) }")  # fmt: skip
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*n"
    session = load(proto)
    for n, m, count in ((3, 6, 1), (5, 10, 1), (3, 5, 2), (8, 16, 2)):
        u, v = session(np.ones(n, np.float32), np.ones(m, np.float32))
        assert (u.shape, v.shape, session.compilations) == ((n,), (m,), count)


def test_unknown_ranks_have_a_program_each() -> None:
    proto = model("m (float x) => (float y) { y = Exp(x) }")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    session = load(proto)
    for shape in ((3,), (4, 5), (7,), (1, 9)):
        np.testing.assert_allclose(session(np.ones(shape, np.float32))[0], np.e, rtol=1e-6)
    assert session.compilations == 2


def test_names_that_are_no_identifiers() -> None:
    proto = model("m (float[n] x, float[m] y) => (float[n] u, float[m] v) "
                  "{ u = Neg(x) v = Neg(y) }")  # fmt: skip
    for value, name in zip(proto.graph.input, ("batch size", "batch_size"), strict=True):
        value.type.tensor_type.shape.dim[0].dim_param = name
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    session = load(proto)
    for n, m in ((3, 4), (4, 3), (9, 2)):
        u, v = session(np.ones(n, np.float32), np.ones(m, np.float32))
        assert (u.shape, v.shape) == ((n,), (m,))
    assert session.compilations == 1


# ---------------------------------------------------------------------------- no symbols


def test_what_depends_on_data_has_a_program_for_each_size() -> None:
    proto = model("m (float[n] x) => (int64[r, m] y) { y = NonZero(x) }")
    session = load(proto)
    for n in (3, 5, 3):
        x = np.arange(n, dtype=np.float32)
        assert session(x)[0].tolist() == [list(range(1, n))]
    assert session.compilations == 2 * 2  # the value, and what follows from it
    assert "these sizes alone" in session.explain({"x": x})


def test_sizes_of_0_have_a_program_of_their_own() -> None:
    proto = about("(float[m, n, o] y) { y = Concat <axis = 0> (x, x) }")
    assert programs(proto, pairs((2, 3), (0, 3), (2, 0), (4, 5))) == 3


def test_it_can_be_turned_off() -> None:
    proto = about("(float[b, s, 6] y) { y = Neg(x) }")
    assert programs(proto, pairs((2, 3), (4, 3), (2, 3)), dynamic=False) == 2


def test_only_so_many_programs_are_tried() -> None:
    text, _, _ = MORE_PROGRAMS["a loop of so many steps: one for each number"]
    many = [{"b": 2, "s": s} for s in range(1, 12)]
    assert programs(about(text), many) == 11
    assert programs(about(text), [*many, {"b": 3, "s": 2}, {"b": 3, "s": 11}]) == 12


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(float[m] y) { y = Reshape(x, v5) }", "cannot reshape"),
        ("(float[m, n, o] y) { y = Concat <axis = 0> (x, table) }", "axis 0"),
        ("(float[m] y) { s = Shape(x) y = Expand(x, v543) }", "do not broadcast"),
    ],
)
def test_what_is_wrong_is_said_with_the_numbers(text: str, error: str) -> None:
    session = load(about(text))
    for b in (2, 3):
        with pytest.raises(ShapeError, match=error) as raised:
            session(np.ones((b, 5, 6), np.float32))
        assert "node '" in str(raised.value) and f"{b}, 5, 6]" in str(raised.value)
