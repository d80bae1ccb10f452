"""AKG files: every form of them, what a model says of itself, and what is wrong with a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from frontend.akg.build import graph, op, single, tensor
from tileloom.akg import load
from tileloom.base.errors import ArgumentError, ShapeError, UnsupportedError, UserError
from tileloom.frontend.akg.call import HANDLERS

X, Y = tensor("x", (3,)), tensor("y", (3,))
NEG = single("Neg", [X], Y)
ONES = np.ones(3, "float32")


def test_paths_texts_and_dictionaries(tmp_path: Path) -> None:
    path = tmp_path / "Fused_Neg.info"
    path.write_text(json.dumps(NEG))
    text = json.dumps(NEG)
    for source in (path, str(path), text, text.encode(), NEG, {"network": "net", "graph": NEG}):
        assert np.array_equal(load(source)(ONES)[0], -ONES)


def test_a_model_describes_itself() -> None:
    model = tileloom.akg.load({**NEG, "op": "Fused_Neg", "process": "cpu"})
    assert model.name == "Fused_Neg"
    assert model.about["process"] == "cpu"
    (info,) = model.get_inputs()
    assert (info.name, info.shape, info.dtype, info.format, info.written) == (
        "x", (3,), np.dtype("float32"), "DefaultFormat", False,
    )  # fmt: skip
    assert [info.name for info in model.outputs] == ["y"]
    assert [node.op.name for node in model.graph.nodes] == ["neg"]
    assert model.replaced == {}
    assert model.kernel_count == 1


def test_running_by_name_and_by_place() -> None:
    model = load(single("Sub", [X, tensor("z", (3,))], Y))
    a, b = np.array([4, 5, 6], np.float32), np.array([1, 2, 3], np.float32)
    wanted = np.array([3, 3, 3], np.float32)
    assert np.array_equal(model(a, b)[0], wanted)
    assert np.array_equal(model(z=b, x=a)[0], wanted)
    assert np.array_equal(model(a, z=b)[0], wanted)
    assert np.array_equal(model.run(["y"], {"x": a, "z": b})[0], wanted)
    assert model.run([], {"x": a, "z": b}) == []


def test_wrong_feeds() -> None:
    model = load(NEG)
    for feeds, words in (
        ({}, "'x' is missing"),
        ({"X": ONES}, "no input 'X'"),
        ({"x": ONES.astype("float64")}, "float64"),
        ({"x": ONES[:2]}, "shape"),
    ):
        with pytest.raises(ArgumentError, match=words):
            model.run(None, feeds)
    with pytest.raises(ArgumentError, match="no output 'Y'"):
        model.run(["Y"], {"x": ONES})
    with pytest.raises(ArgumentError, match="2 arrays for 1 input"):
        model(ONES, ONES)
    with pytest.raises(ArgumentError, match="given twice"):
        model(ONES, x=ONES)


def test_the_interpreter_gives_the_same() -> None:
    model = load(single("Exp", [X], Y), target="reference")
    assert np.allclose(model(ONES)[0], np.e)


def test_an_input_may_be_an_output() -> None:
    model = load(graph([], [X], [X]))
    (result,) = model(ONES)
    assert np.array_equal(result, ONES)
    assert result is not ONES


def test_a_graph_without_inputs() -> None:
    one = tensor("one", (1,), value=1.0)
    made = graph([op("BroadcastTo", [one], [tensor("y", (2, 3))], shape=[2, 3])], [], [
        tensor("y", (2, 3))])  # fmt: skip
    assert np.array_equal(load(made)()[0], np.ones((2, 3), "float32"))


def test_outputs_named_twice_and_unused_operators() -> None:
    steps = [op("Neg", [X], [Y]), op("Exp", [X], [tensor("unused", (3,))])]
    first, second = load(graph(steps, [X], [Y, Y]))(ONES)
    assert np.array_equal(first, second)
    assert first is not second


def wrong(change: Any) -> Any:
    broken = json.loads(json.dumps(NEG))
    change(broken)
    return broken


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no/such/file.info", "cannot read 'no/such/file.info'"),
        ("{", "this is no JSON"),
        ("[1, 2]", "no list 'op_desc'"),
        (b"\xff\xfe\x00", "this is no JSON"),
        (7, "a path, a text or a dictionary"),
        ({}, "no list 'op_desc'"),
        (wrong(lambda g: g["op_desc"][0].pop("name")), "op 0 has no name"),
        (wrong(lambda g: g["op_desc"].append(3)), "op 1 has no name"),
        (wrong(lambda g: g.update(input_desc=3)), "a list of tensors is 3"),
        (wrong(lambda g: g["output_desc"][0].pop("tensor_name")), "no 'tensor_name'"),
        (wrong(lambda g: g["output_desc"][0].update(data_type="complex64")), "complex64"),
        (wrong(lambda g: g["output_desc"][0].update(data_type=None)), "element type 'None'"),
        (wrong(lambda g: g["output_desc"][0].update(shape=[-1])), r"shape \[-1\]"),
        (wrong(lambda g: g["output_desc"][0].update(shape=None)), "shape None"),
        (wrong(lambda g: g["output_desc"][0].update(tensor_name="z")), "nothing before it makes"),
        (wrong(lambda g: g["op_desc"][0].update(name="Nge")), r"op 0 \(Nge\): .* not known"),
        (wrong(lambda g: g["op_desc"][0].update(attr=[3])), r"op 0 \(Neg\): an attribute"),
        (wrong(lambda g: g["op_desc"][0].update(input_desc=[])), r"\(Neg\): input 0 is missing"),
        (wrong(lambda g: g["op_desc"][0].update(input_desc=[[]])), "input 0 is missing"),
        (wrong(lambda g: g["op_desc"][0].update(input_desc=4)), "its inputs are 4"),
        (wrong(lambda g: g["op_desc"][0].update(output_desc=[])), "op 0 .Neg.: it has no outputs"),
        (wrong(lambda g: g["op_desc"][0].update(attr=7)), r"op 0 .Neg.: its attributes are 7"),
        (wrong(lambda g: g["input_desc"][0][0].update(shape=[1 << 48])), "larger than any memory"),
        (wrong(lambda g: g["op_desc"][0]["output_desc"][0].update(shape=[4])), "the file says"),
        (wrong(lambda g: g["input_desc"].append(g["input_desc"][0])), "the same name"),
    ],
)
def test_broken_files_are_the_users(source: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(source)


def test_refusals_name_graph_place_and_operator() -> None:
    steps = [op("Neg", [X], [Y]), op("Frobnicate", [Y], [tensor("z", (3,))])]
    with pytest.raises(UnsupportedError, match=r"'Fused_test', op 1 \(Frobnicate\): .*not known"):
        load(graph(steps, [X], [tensor("z", (3,))]))


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(UserError) as caught:
        load(single("Sqtr", [X], Y))
    assert caught.value.hint == "did you mean 'Sqrt'?"


@pytest.mark.parametrize(
    ("name", "inputs", "shape", "attrs", "words"),
    [
        ("Transpose", [X], (3,), {"perm": [0, 1]}, "out of range"),
        ("Transpose", [X], (3,), {"perm": "x"}, "'perm' has an unusable value"),
        ("Transpose", [X], (3,), {}, "'perm' is missing"),
        ("ReduceSum", [X], (1,), {"axis": [1]}, "axis"),
        ("ReduceSum", [X], (1,), {"axis": ["a"]}, "'axis' has an unusable value"),
        ("Add", [X, tensor("z", (4,))], (3,), {}, "broadcast|fit"),
        ("BroadcastTo", [X], (2, 4), {}, "broadcast"),
        ("Slice", [X], (2,), {"begin": [0, 0], "size": [1, 1]}, "do not fit"),
        ("StridedSlice", [X], (2,), {"begin": [0], "end": [1, 1], "strides": [1]}, "differ"),
        ("StridedSlice", [X], (2,), {"begin": [0] * 2, "end": [1] * 2, "strides": [1] * 2},
         "more entries"),
        ("PadAkg", [X], (4,), {"head": [0], "tail": [1, 1], "pad_val": 0}, "do not fit"),
        ("UnPadAkg", [X], (2,), {"tail": [1, 1]}, "does not fit"),
        ("OneHot", [X, X, X], (3, 4), {"depth": 4, "axis": 5}, "axis"),
        ("OneHot", [X, X, X], (3, 4), {"axis": -1}, "'depth' is missing"),
        ("OneHot", [X, X, X], (3, 4), {"depth": 4}, "must be one number"),
        ("MatMul", [X, X], (3,), {}, "the file says"),
        ("Conv2D", [X, X], (3,), {}, "blocked"),
        ("TransData", [X], (3,), {"src_format": "A", "dst_format": "B"}, "from A to B"),
        ("GatherNd", [X, tensor("i", (2, 4), "int32")], (2,), {}, "do not fit"),
        ("CSRReduceSum", [X, X, X], (3,), {"dense_shape": [3], "axis": 1}, "rows and columns"),
        ("AddN", [[]], (3,), {}, "no inputs"),
        ("Tile", [X, tensor("m", (1,), "int32")], (6,), {}, "must be a literal"),
    ],
)  # fmt: skip
def test_operators_that_do_not_fit(
    name: str, inputs: Any, shape: tuple[int, ...], attrs: Any, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        load(single(name, inputs, tensor("y", shape), **attrs))


def test_a_literal_with_other_values_than_its_shape() -> None:
    with pytest.raises(ShapeError, match="has 2 values"):
        load(single("Add", [X, tensor("c", (3,), value=[1.0, 2.0])], Y))


def test_the_guide_names_every_operator() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "akg.md").read_text()
    named = set(re.findall(r"\w+", text))
    assert set(HANDLERS) - named == set()
