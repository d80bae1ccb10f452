"""The importer: scopes, functions, control flow, constant folding, dependence on values."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import f32, interpret, model, run, run_node
from tileloom.base.errors import ShapeError, UnsupportedError, UserError
from tileloom.frontend.onnx import fold, importer, load


def ops_of(session: Any, feeds: Any = None) -> list[str]:
    return [node.op.name for node in session.graph(feeds).nodes]


# ---------------------------------------------------------------------------- folding


def test_what_depends_on_constants_and_shapes_alone_is_folded() -> None:
    text = """fold (float[2, 6] x) => (float[n, m] y) <int64[1] three = {3}, float[2] w = {1, 2}>
    {
      s = Shape(x)
      i = Constant<value_ints = [1]>()
      d = Gather(s, i)
      half = Div(d, three)
      shape = Concat<axis = 0>(three, half, half)
      r = Reshape(x, shape)
      v = Add(w, w)
      v2 = Mul(v, v)
      y = Add(r, v2)
    }"""
    session = interpret(model(text))
    assert ops_of(session) == ["reshape", "constant", "add"] or set(ops_of(session)) == {
        "reshape", "constant", "add",
    }  # fmt: skip
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(session(x)[0], x.reshape(3, 2, 2) + f32(4, 16))


def test_a_large_fill_is_not_folded() -> None:
    text = """fill (float[1] x) => (float[n] y) <int64[1] n = {100000}>
    { c = ConstantOfShape(n) y = Add(c, x) }"""
    session = interpret(model(text))
    assert "broadcast_to" in ops_of(session)
    assert session(f32(2))[0].shape == (100000,)


def doubled(times: int) -> Any:
    """A model of a constant of four ones that is joined with itself again and again, and summed."""
    names = ["c", *(f"t{k}" for k in range(times))]
    steps = "\n".join(f"{b} = Concat<axis = 0>({a}, {a})" for a, b in pairwise(names))
    return model(
        f"""bomb (float[4] x) => (float[4] y) <float[4] c = {{1, 1, 1, 1}}>
        {{ {steps}
          s = ReduceSum<keepdims = 0>({names[-1]})
          y = Add(x, s) }}"""
    )


def test_constants_grow_within_a_budget() -> None:
    kept = [node for node in interpret(doubled(18)).graph().nodes if node.op.name == "constant"]
    assert sum(node.outputs[0].value.nbytes for node in kept) <= fold.SMALL  # type: ignore[misc, union-attr]
    np.testing.assert_array_equal(run(doubled(18), f32(0, 1, 2, 3))[0], f32(0, 1, 2, 3) + 4 * 2**18)


def test_constants_beyond_the_memory_are_refused() -> None:
    with pytest.raises(UserError, match=r"would need [\d,]+ bytes, more than this machine's"):
        interpret(doubled(47))


def test_many_constants_grow_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MOST_MADE", 1000)
    lines = [
        f"k{k} = Constant<value_ints = [{k}]>() c{k} = ConstantOfShape(k{k})" for k in range(40)
    ]
    joined = ", ".join(f"c{k}" for k in range(40))
    text = f"""many (float[1] x) => (float[n] y) {{
      {" ".join(lines)}
      all = Concat<axis = 0>({joined}) y = Add(x, all) }}"""
    session: Any = interpret(model(text))
    kept = [node for node in session.graph().nodes if node.op.name == "constant"]
    assert sum(node.outputs[0].value.nbytes for node in kept) < 3000  # 8 bytes for each extent
    np.testing.assert_array_equal(session(f32(2))[0], np.full(780, 2, "f4"))


def test_work_at_import_is_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "FOLD_STEPS", 2_000)
    text = """pool (float[1] x) => (float[1] y) <float[1, 1, 8, 8] c = {%s}> {
      p = MaxPool<kernel_shape = [%d, %d], pads = [4, 4, 4, 4]>(c)
      s = ReduceMax<keepdims = 0>(p)
      y = Add(x, s) }"""
    monkeypatch.setattr(fold, "STEPS_OF_NODE", 0)
    monkeypatch.setattr(fold, "FOLD_STEPS_EACH", 0)
    numbers = ", ".join(map(str, range(64)))
    for kernel, found in ((2, []), (8, ["max_pool", "reduce_max"])):
        session = interpret(model(text % (numbers, kernel, kernel)))
        assert [name for name in ops_of(session) if name in ("max_pool", "reduce_max")] == found
        assert session(f32(1))[0].tolist() == [64]
        assert load(model(text % (numbers, kernel, kernel)))(f32(1))[0].tolist() == [64]


def test_values_of_the_structure_are_computed_within_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fold, "LARGEST_TENSOR", 1 << 20)
    text = """deep (float[n] x) => (float[m] y) <float[1] one = {1}, int64[1] n = {200000}> {
      c = ConstantOfShape(n)
      s = ReduceSum<keepdims = 1>(c)
      k = Cast<to = 7>(s)
      l = Sub(k, k)
      y = Reshape(x, l) }"""
    with pytest.raises(UserError, match=r"node 'y' .*too many to be computed while it is read"):
        interpret(model(text))(f32())


def test_nodes_that_no_output_needs_are_not_imported() -> None:
    text = """dead (float[2] x) => (float[2] y) { y = Relu(x) z = Bernoulli(x) }"""
    np.testing.assert_array_equal(run(model(text), f32(-1, 1))[0], f32(0, 1))


# ---------------------------------------------------------------------------- values


@pytest.mark.parametrize(("parts", "count"), [("2", 3), ("5", 1), ("9", 1), ("1", 5)])
def test_a_sequence_of_parts_of_one_size(parts: str, count: int) -> None:
    text = f"""cut (float[2, 5] x) => (float[2, 5] y, int64 n, float[2, k] z)
      <int64 s = {{{parts}}}, int64 last = {{-1}}> {{ q = SplitToSequence<axis = 1>(x, s)
      y = ConcatFromSequence<axis = 1>(q) n = SequenceLength(q) z = SequenceAt(q, last) }}"""
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    y, n, z = run(model(text), x)
    assert np.array_equal(x, y) and n == count
    assert np.array_equal(z, x[:, int(parts) * (count - 1) :])


RESHAPE = model("to (float[n] x, int64[k] shape) => (float[a] y) { y = Reshape(x, shape) }")


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_an_input_may_decide_the_shape(target: str) -> None:
    session = load(RESHAPE, target=target)
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [2, 3], [-1]):
        (y,) = session(x, np.array(shape))
        np.testing.assert_array_equal(y, x.reshape(shape))
    with pytest.raises(ShapeError, match=r"cannot reshape \[6\] to \[4, 4\]"):
        session(x, np.array([4, 4]))
    with pytest.raises(UserError, match="depends on the value of 'shape'"):
        interpret(RESHAPE, shapes={"n": 6, "k": 2}).graph()


def test_a_value_seen_before_is_not_imported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    count: Any = []
    original = importer.Importer.run
    monkeypatch.setattr(importer.Importer, "run", lambda *a: count.append(1) or original(*a))
    session = interpret(RESHAPE)
    x = np.arange(6, dtype=np.float32)
    session(x, np.array([2, 3]))
    before = len(count)
    session(x, np.array([2, 3]))
    assert len(count) == before
    session(x, np.array([3, 2]))
    assert len(count) == before + 1


def test_a_computed_value_may_decide_the_shape() -> None:
    text = """where (float[n] x) => (int64[k] places, float[k] found) <float zero = {0}>
    {
      m = Greater(x, zero)
      nz = NonZero(m)
      flat = Constant<value_ints = [-1]>()
      places = Reshape(nz, flat)
      found = Gather(x, places)
    }"""
    session = load(model(text))
    for x in (f32(1, -2, 3), f32(-1, -2, -3), f32(4, 5, 6)):
        places, found = session(x)
        np.testing.assert_array_equal(places, np.flatnonzero(x > 0))
        np.testing.assert_array_equal(found, x[x > 0])


# ---------------------------------------------------------------------------- control flow


def test_if_by_constant_by_shape_and_by_data() -> None:
    body = """
      y = If(c) <then_branch = a () => (float[k] t) { t = Neg(x) },
                 else_branch = b () => (float[k] e) { e = Add(x, x) }>"""
    data = model(f"pick (float[2] x, bool c) => (float[2] y) {{ {body} }}")
    session = interpret(data)
    np.testing.assert_array_equal(session(f32(1, 2), True)[0], f32(-1, -2))
    np.testing.assert_array_equal(session(f32(1, 2), False)[0], f32(2, 4))
    shape = model(f"""pick (float[n] x) => (float[n] y) <int64 two = {{2}}>
      {{ s = Size(x) c = Greater(s, two) {body} }}""")
    session = interpret(shape)
    assert ops_of(session, {"x": f32(1, 2, 3)}) == ["neg"]
    assert ops_of(session, {"x": f32(1)}) == ["add"]


LOOP = """
  y, trace = Loop(m, c, x) <body = step (int64 i, bool go, float[k] v) =>
      (bool on, float[k] next, float[k] seen)
      { f = Cast<to = 1>(i) w = Add(v, f) next = Mul(w, scale) seen = Identity(v)
        on = Less(i, last) }>"""


@pytest.mark.parametrize(("trips", "last", "expected"), [(3, 9, 3), (9, 2, 3), (0, 5, 0)])
def test_loop_with_trip_count_and_condition(trips: int, last: int, expected: int) -> None:
    outputs = "float[2] y, float[s, k] trace" if expected else "float[2] y"
    proto = model(f"""loop (float[2] x, float scale) => ({outputs})
      <int64 m = {{{trips}}}, bool c = {{1}}, int64 last = {{{last}}}> {{ {LOOP} }}""")
    y, *trace = run(proto, f32(1, 2), np.float32(0.5))
    v = f32(1, 2)
    for i in range(expected):
        np.testing.assert_allclose(trace[0][i], v)
        v = (v + i) * np.float32(0.5)
    np.testing.assert_allclose(y, v)


def test_a_loop_may_end_by_its_data() -> None:
    text = """halve (float x) => (float y, int64 n) <int64 zero = {0}, int64 one = {1},
      float two = {2}, float half = {0.5}, bool yes = {1}>
    {
      y, n = Loop(, yes, x, zero) <body = step (int64 i, bool go, float v, int64 k) =>
        (bool on, float w, int64 k2) { w = Mul(v, half) k2 = Add(k, one) on = Greater(w, two) }>
    }"""
    session = interpret(model(text))
    for x, steps in ((100.0, 6), (2.5, 1), (9.0, 3)):
        y, n = session(np.float32(x))
        assert n == steps and y == x / 2**steps


def test_nodes_of_one_name_are_told_apart() -> None:
    text = """twice (float x) => (float y, float z) <int64 two = {2}, float limit = {9}>
    {
      go = Less(x, limit)
      y = Loop(two, go, x) <body = a (int64 i, bool c, float v) => (bool d, float w)
        { w = Add(v, v) d = Less(w, limit) }>
      down = Neg(y)
      z = Loop(two, go, down) <body = b (int64 i, bool c, float v) => (bool d, float w)
        { w = Add(v, v) d = Less(w, limit) }>
    }"""
    proto = model(text)
    for node in proto.graph.node:
        node.name = "the same"
    session = interpret(proto)
    assert [float(value) for value in session(np.float32(3))] == [12, -48]
    assert [float(value) for value in session(np.float32(5))] == [10, -40]


def test_a_loop_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.frontend.onnx.handlers.control.MOST_ITERATIONS", 50)
    text = """loop (float x) => (float y) <bool c = {1}>
    { y = Loop(, c, x)
      <body = step (int64 i, bool go, float v) => (bool go, float w) { w = Add(v, v) }> }"""
    with pytest.raises(UserError, match="more than 50 iterations"):
        run(model(text), np.float32(1))


def test_scan_sums() -> None:
    text = """scan (float[2] s, float[n, 2] x) => (float[2] last, float[2, n] all)
    { last, all = Scan<num_scan_inputs = 1, scan_output_axes = [1], scan_input_directions = [1],
        body = add (float[2] a, float[2] b) => (float[2] c, float[2] d)
        { c = Add(a, b) d = Identity(c) }>(s, x) }"""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    last, every = run(model(text), f32(0, 0), x)
    np.testing.assert_allclose(last, x.sum(0))
    np.testing.assert_allclose(every, np.cumsum(x[::-1], 0).T)


# ---------------------------------------------------------------------------- functions


def test_functions_are_inlined_with_their_attributes() -> None:
    functions = """
    <domain: "local", opset_import: ["": 17, "local": 1]>
    soft <axis, alpha: float = 2.0> (x) => (y) {
        s = local.scale<alpha: float = @alpha>(x)
        y = Softmax<axis: int = @axis>(s)
    }
    <domain: "local", opset_import: ["": 17]>
    scale <alpha> (x) => (y) { a = Constant<value_float: float = @alpha>() y = Mul(x, a) }
    """
    text = "f (float[2, 2, 2] x) => (float[2, 2, 2] y, float[2, 2, 2] z) " \
           "{ y = local.soft<axis = 1>(x) z = local.soft<axis = 1, alpha = 0.0>(x) }"  # fmt: skip
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    y, z = run(model(text, extra=', "local": 1', functions=functions), x)
    np.testing.assert_allclose(y, np.exp(2 * x) / np.exp(2 * x).sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(z, 0.5)


def test_a_function_that_calls_itself_is_refused() -> None:
    functions = """<domain: "local", opset_import: ["local": 1]> f (x) => (y) { y = local.f(x) }"""
    text = "g (float[2] x) => (float[2] y) { y = local.f(x) }"
    with pytest.raises(UserError):
        run(model(text, extra=', "local": 1', functions=functions), f32(1, 2))


def test_operators_defined_by_onnx_in_terms_of_others() -> None:
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    theta = np.array([[[1, 0, 0], [0, 1, 0]]] * 2, np.float32)
    grid = run_node("AffineGrid", theta, np.array([2, 1, 2, 2]), opset=20)
    np.testing.assert_allclose(grid[0, :, :, 0], [[-0.5, 0.5], [-0.5, 0.5]])
    with pytest.raises(UnsupportedError, match="randomness"):
        run_node("Bernoulli", x)


def test_errors_name_the_node_the_operator_and_the_opset() -> None:
    with pytest.raises(ShapeError, match=r"node 'the_node' \(MatMul, opset 17\)"):
        run_node("MatMul", np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


def test_loops_that_unroll_too_far_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "MOST_NODES", 10)
    text = """loop (float[2] x, float scale) => (float[2] y, float[s, k] trace)
      <int64 m = {9}, bool c = {1}, int64 last = {9}>"""
    with pytest.raises(UserError, match="more than 10 nodes"):
        run(model(f"{text} {{ {LOOP} }}"), f32(1, 2), np.float32(0.5))
