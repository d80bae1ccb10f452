"""What AKG's operators and files refuse: the sentence tells which check it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frontend.akg.build import graph, op, single, tensor
from tileloom.akg import load
from tileloom.base.errors import UserError

X, Y = tensor("x", (2, 3)), tensor("y", (2, 3))
I = tensor("i", (4,), "int32")
IMAGE, FILTER = tensor("x", (1, 6, 6, 2)), tensor("w", (4, 3, 3, 2))


def conv(*inputs: Any, shape: tuple[int, ...] = (1, 4, 4, 4), **attrs: Any) -> Any:
    return single("Conv2D", inputs or (IMAGE, FILTER), tensor("y", shape), **attrs)


def sliced(**attrs: Any) -> Any:
    return single("StridedSlice", [X], Y, **attrs)


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (single("Split", [X], Y, axis=2), "'axis'"),
        (single("Split", [X], Y, axis=-3), "'axis'"),
        (single("Slice", [X], Y, begin=[0], size=[2, 3]), "do not fit shape"),
        (single("Slice", [X], Y, begin=[0, 0], size=[2]), "do not fit shape"),
        (single("Slice", [X], Y, begin=[0], size=[2]), "do not fit shape"),
        (sliced(begin=[0], end=[2], strides=[1, 1]), "differ in length"),
        (sliced(begin=[0], end=[2, 3], strides=[1]), "differ in length"),
        (sliced(begin=[0] * 3, end=[2] * 3, strides=[1] * 3), "more entries than the 2 axes"),
        (single("PadAkg", [X], Y, head=[0], tail=[0, 0]), "do not fit"),
        (single("PadAkg", [X], Y, head=[0, 0], tail=[0]), "do not fit"),
        (single("PadAkg", [X], Y, head=[0, 0], tail=[0, 0], pad_val="a"), "'pad_val'"),
        (single("PadAkg", [X], Y, head=[0, 0], tail=[0, 0], pad_val=[1, 2]), "'pad_val'"),
        (single("UnPadAkg", [X], Y, tail=[0]), "does not fit"),
        (conv(tensor("x", (1, 6, 6)), FILTER), "blocked layout"),
        (conv(IMAGE, tensor("w", (4, 3, 3))), "blocked layout"),
        (conv(data_format="NC1HWC0"), "blocked layout"),
        (conv(stride=[1]), "attribute 'stride' has 1 numbers, 2 are needed"),
        (conv(pad_list=[1, 1, 1]), "attribute 'pad_list' has 3 numbers, 4 are needed"),
        (conv(tensor("x", (1, 2, 6, 2)), FILTER), "do not fit data"),
        (conv(tensor("x", (1, 6, 2, 2)), FILTER), "do not fit data"),
        (conv(dilation=[3, 1]), "do not fit data"),
        (conv(shape=(1, 4, 4, 5)), "the file says"),
        (single("Gather", [X, I], tensor("y", (5, 3)), axis=0), "the file says"),
        (single("GatherNd", [X, tensor("i", (4, 3), "int32")], tensor("y", (4,))),
         "indices .* do not fit data"),
        (single("GatherNd", [X, tensor("i", (4, 0), "int32")], tensor("y", (4,))),
         "indices .* do not fit data"),
        (single("GatherNd", [X, tensor("i", (), "int32")], tensor("y", (4,))),
         "indices .* do not fit data"),
        (single("TensorScatterAdd", [X, tensor("i", (4, 3), "int32"), tensor("u", (4,))], Y),
         "indices .* do not fit data"),
        (single("OneHot", [I, tensor("a", (2,)), tensor("b", (1,))], tensor("y", (4, 5)),
                depth=5, axis=-1), "must be one number"),
        (single("Add", [X, tensor("l", (4,), value=[1.0, 2.0])], Y), "has 2 values"),
        (graph([op("Assign", [tensor("l", (2, 3), value=[1.0]), X], [Y])], [X], [Y]),
         "it writes to a literal"),
        (graph([op("Assign", [X], [Y])], [X], [Y]), "a parameter and its new value"),
        (graph([op("Add", [X, X], [Y, tensor("z", (2, 3))])], [X], [Y]),
         "it has 1 outputs, 2 are named"),
        (graph([op("Add", [X, tensor("xx", (2, 3))], [Y])], [X], [Y]), "nothing before it makes"),
        (single("Abbs", [X], Y), "this operator is not known"),
    ],
    ids=range(34),
)  # fmt: skip
def test_operators(description: Any, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        load(description)
    assert "AKG graph 'Fused_test', op 0 (" in caught.value.message


def changed(**changes: Any) -> dict[str, Any]:
    return {**single("Abs", [X], Y), **changes}


def of_op(**changes: Any) -> dict[str, Any]:
    return changed(op_desc=[{**op("Abs", [X], [Y]), **changes}])


def of_tensor(**changes: Any) -> dict[str, Any]:
    return changed(input_desc=[[{**X, **changes}]])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"op": "f"}, "no list 'op_desc'"),
        ("[1, 2]", "no list 'op_desc'"),
        (changed(op_desc={}), "no list 'op_desc'"),
        ("{", "this is no JSON"),
        ("/no/such/file", "cannot read '/no/such/file'"),
        (3, "a path, a text or a dictionary"),
        (changed(input_desc=3), "a list of tensors is 3"),
        (changed(op_desc=[{"name": 3}]), "op 0 has no name"),
        (changed(op_desc=[3]), "op 0 has no name"),
        (of_op(input_desc={"a": 1}), r"op 0 \(Abs\): its inputs are"),
        (of_op(output_desc=[]), "it has no outputs"),
        (of_op(attr={"a": 1}), "its attributes are"),
        (of_op(attr=[{"value": 1}]), "an attribute has no name"),
        (of_op(attr=[3]), "an attribute has no name"),
        (of_tensor(tensor_name=3), "a tensor has no 'tensor_name'"),
        (of_tensor(data_type="quaternion"), "has element type 'quaternion'"),
        (of_tensor(shape=None), "has shape None"),
        (of_tensor(shape=[-1]), r"has shape \[-1\]"),
        (of_tensor(shape=[True]), r"has shape \[True\]"),
        (of_tensor(shape=[1 << 24, 1 << 23]), "larger than any memory"),
    ],
    ids=range(20),
)
def test_files(source: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(source)


def test_forms_that_are_read() -> None:
    plain = changed()
    for source in (plain, json.dumps(plain), f"  {json.dumps(plain)}", {"graph": plain}):
        assert [info.name for info in load(source).inputs] == ["x"]
    assert load(changed(op_desc=[op("Abs", [X], [Y], unused=None)])).inputs[0].shape == (2, 3)
