"""The session: names, shapes, types, what is fed and what comes out."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from frontend.onnx.helpers import f32, interpret, model
from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UserError
from tileloom.frontend.onnx import load

AFFINE = model("affine (float[batch, 3] x, float[3] bias) => (float[batch, 3] y, "
               "float[batch, 3] z) {"
               " y = Add(x, bias) z = Mul(y, y) }")  # fmt: skip


def test_runs_compiled_by_name_and_by_position() -> None:
    session = load(AFFINE)
    x, bias = np.arange(6, dtype=np.float32).reshape(2, 3), f32(1, 2, 3)
    expected = x + bias
    for results in (
        session.run(None, {"x": x, "bias": bias}),
        session.run(["y", "z"], {"bias": bias, "x": x}),
        session(x, bias),
        session(x, bias=bias),
    ):
        np.testing.assert_allclose(results[0], expected)
        np.testing.assert_allclose(results[1], expected**2)
    (z,) = session.run(["z"], {"x": x, "bias": bias})
    np.testing.assert_allclose(z, expected**2)


def test_describes_inputs_and_outputs() -> None:
    session = interpret(AFFINE)
    assert [(i.name, i.shape, i.type) for i in session.get_inputs()] == [
        ("x", ("batch", 3), "tensor(float)"),
        ("bias", (3,), "tensor(float)"),
    ]
    assert [i.name for i in session.get_outputs()] == ["y", "z"]


def test_specialises_for_each_shape_and_zero_batch_works() -> None:
    session = load(AFFINE)
    for batch in (1, 5, 0, 1):
        y, z = session(np.ones((batch, 3), np.float32), f32(0, 1, 2))
        assert y.shape == z.shape == (batch, 3)


def test_shapes_bound_at_load() -> None:
    session = interpret(AFFINE, shapes={"batch": 4})
    assert session.graph().inputs[0].shape == (4, 3)
    with pytest.raises(ShapeError, match=r"'batch' is 4 by load\(shapes=\.\.\.\)"):
        session(np.ones((5, 3), np.float32), f32(0, 1, 2))
    assert interpret(AFFINE, shapes={"x": (2, 3)}).graph().outputs[0].shape == (2, 3)
    with pytest.raises(ShapeError, match="fixed to 2"):
        interpret(AFFINE, shapes={"x": (2, 3)})(np.ones((5, 3), np.float32), f32(0, 1, 2))


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"batsch": 4}, "did you mean 'batch'"),
        ({"batch": -1}, "natural number"),
        ({"batch": 2.5}, "natural number"),
        ({"x": (2, 4)}, "does not fit"),
        ({"x": (2,)}, "does not fit"),
    ],
)
def test_wrong_shapes_at_load(shapes: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        interpret(AFFINE, shapes=shapes)


GOOD = {"x": np.ones((2, 3), np.float32), "bias": np.ones(3, np.float32)}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"bais": f32(1, 2, 3)}, ArgumentError, "did you mean 'bias'"),
        ({"bias": None}, ArgumentError, "must be an array, not None"),
        ({"bias": np.ones(3)}, DTypeError, r"must have dtype float32, got float64"),
        ({"bias": np.ones(3, np.int64)}, DTypeError, "astype"),
        ({"bias": f32(1, 2)}, ShapeError, "dimension 0 is fixed to 3"),
        ({"x": f32(1, 2, 3)}, ShapeError, r"must have shape \[batch, 3\], got \[3\]"),
        ({"bias": object()}, ArgumentError, "must be an array"),
        ({"bias": "abc"}, ArgumentError, "cannot be made an array"),
        ({"bias": {"a": 1}}, ArgumentError, "must be an array"),
    ],
)
def test_wrong_feeds(change: Any, error: Any, text: str) -> None:
    with pytest.raises(error) as raised:
        interpret(AFFINE).run(None, {**GOOD, **change})
    import re

    assert re.search(text, str(raised.value)), raised.value


def test_missing_input_and_unknown_output() -> None:
    session = interpret(AFFINE)
    with pytest.raises(ArgumentError, match="missing input 'bias'"):
        session.run(None, {"x": GOOD["x"]})
    with pytest.raises(ArgumentError, match="no output 'w'"):
        session.run(["w"], GOOD)
    with pytest.raises(ArgumentError, match="3 arrays for 2 inputs"):
        session(1, 2, 3)
    with pytest.raises(ArgumentError, match="given twice"):
        session(GOOD["x"], x=GOOD["x"])


def test_symbols_must_agree_between_inputs() -> None:
    text = "add (float[n] a, float[n] b) => (float[n] c) { c = Add(a, b) }"
    with pytest.raises(ShapeError, match="'n' is 3 by input 'a'"):
        interpret(model(text))(f32(1, 2, 3), f32(1))


def test_lists_and_numbers_are_taken_strided_arrays_too() -> None:
    session = load(model("twice (float[n] a, int64 k) => (float[n] c, int64 l) "
                         "{ c = Add(a, a) l = Add(k, k) }"))  # fmt: skip
    c, total = session([1, 2.5], 4)
    np.testing.assert_array_equal(c, f32(2, 5))
    assert total == 8 and total.dtype == np.int64
    c, _ = session(np.arange(6, dtype=np.float32)[::2], 0)
    np.testing.assert_array_equal(c, f32(0, 4, 8))
    c, _ = session(np.arange(3, dtype=">f4"), 0)
    np.testing.assert_array_equal(c, f32(0, 2, 4))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    session = load(model("twice (float[n] a) => (float[n] c) { c = Add(a, a) }"))
    (c,) = session(torch.tensor([1.0, 2.0], requires_grad=True))
    np.testing.assert_array_equal(c, f32(2, 4))
    session = interpret(model("twice (bfloat16[n] a) => (bfloat16[n] c) { c = Add(a, a) }"))
    (c,) = session(torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    assert c.dtype == ml_dtypes.bfloat16
    with pytest.raises(ArgumentError, match="device meta"):
        session(torch.ones(2, dtype=torch.bfloat16, device="meta"))


def test_a_default_input_need_not_be_fed() -> None:
    proto = model(
        "add (float[2] a, float[2] b) => (float[2] c) <float[2] b = {1, 2}> { c = Add(a, b) }"
    )
    assert {value.name for value in proto.graph.input} == {"a", "b"}
    session = interpret(proto)
    assert [info.name for info in session.get_inputs()] == ["a"]
    np.testing.assert_array_equal(session(f32(0, 0))[0], f32(1, 2))
    np.testing.assert_array_equal(session(f32(0, 0), b=f32(5, 5))[0], f32(5, 5))


def test_outputs_that_are_inputs_or_constants_or_repeated() -> None:
    text = "same (float[2] a) => (float[2] a, float[2] b, float[2] c, float[2] d) " \
           "<float[2] c = {1, 2}>" \
           "{ b = Identity(a) d = Identity(c) }"  # fmt: skip
    a = f32(5, 6)
    for target in ("cpu", "reference"):
        results = load(model(text), target=target)(a)
        for found, expected in zip(results, (a, a, f32(1, 2), f32(1, 2)), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_graph_shows_the_ir_and_says_what_is_missing() -> None:
    session = interpret(AFFINE)
    assert "mul(" in str(session.graph(GOOD))
    with pytest.raises(UserError, match="shapes that are not known"):
        session.graph()


def test_strings_in_and_out() -> None:
    session = interpret(model("join (string[n] a, string[n] b) => (string[n] c) "
                              "{ c = StringConcat(a, b) }", 20))  # fmt: skip
    (c,) = session(np.array(["x", "y"]), ["1", "2"])
    assert c.tolist() == ["x1", "y2"]
    (c,) = session(np.array(["x", "y"]), ["1", "3"])
    assert c.tolist() == ["x1", "y3"]
    with pytest.raises(DTypeError, match="must hold strings"):
        session(f32(1, 2), ["1", "3"])


def test_sequences_in_and_out() -> None:
    text = "more (seq(float[n]) s, float[n] x) => (seq(float[n]) t, int64 k) " \
           "{ t = SequenceInsert(s, x) k = SequenceLength(t) }"  # fmt: skip
    session = load(model(text))
    t, k = session([f32(1), f32(2, 3)], f32(4))
    assert [item.tolist() for item in t] == [[1], [2, 3], [4]] and k == 3
    t, k = session([], f32(4))
    assert [item.tolist() for item in t] == [[4]] and k == 1
    with pytest.raises(ArgumentError, match="must be a list"):
        session(f32(1), f32(4))


def test_importing_tileloom_does_not_import_onnx_but_the_door_does() -> None:
    source = Path(__file__).parents[3] / "src"
    script = (
        "import sys, tileloom; assert 'onnx' not in sys.modules; import tileloom.onnx as o; o.load"
    )
    subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(source)}, check=True)


def test_the_door_names_the_missing_package() -> None:
    source = Path(__file__).parents[3] / "src"
    script = "import sys; sys.modules['onnx'] = None; import tileloom.onnx"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'tileloom[onnx]'" in result.stderr


def test_threads_may_share_a_model() -> None:
    session = load(AFFINE)
    x = [np.full((k % 4 + 1, 3), k, np.float32) for k in range(40)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda a: session(a, f32(1, 2, 3)), x))
    for a, (y, z) in zip(x, results, strict=True):
        np.testing.assert_array_equal(y, a + f32(1, 2, 3))
        np.testing.assert_array_equal(z, y * y)


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> list[np.ndarray]:
        raise MemoryError

    session = interpret(AFFINE)
    monkeypatch.setattr("tileloom.frontend.onnx.session._execute", exhausted)
    with pytest.raises(UserError, match=r"not enough memory: .* 48 bytes"):
        session(np.ones((2, 3), np.float32), f32(1, 2, 3))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_results_are_fresh_in_each_call(target: str) -> None:
    proto = model("g (float[n] x) => (float[n] y, float[3] c, float[n] w, int64[1] s) "
                  "<float[3] c = {0, 0, 0}> "
                  "{ y = Relu(x) w = Identity(x) s = Shape(x) }")  # fmt: skip
    session, x = load(proto, target=target), f32(1, 1)
    for _ in range(2):
        y, c, w, s = session(x)
        assert [a.tolist() for a in (y, c, w, s)] == [[1, 1], [0, 0, 0], [1, 1], [2]]
        for array in (y, c, w, s):
            array += 5
    assert x.tolist() == [1, 1]


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array(f32(1, 2, 3), [0, 0, 1])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="mask"):
        interpret(AFFINE)(f32(1, 2, 3).reshape(1, 3), masked)
