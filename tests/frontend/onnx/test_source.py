"""Files that are broken or mean harm: always a clear error of the user's kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from frontend.onnx.helpers import f32, interpret, model, one_node, run
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.frontend.onnx import load
from tileloom.frontend.onnx.tensors import to_array

ADD = model("add (float[2] a) => (float[2] c) <float[2] b = {1, 2}> { c = Add(a, b) }")


def test_path_bytes_and_message(tmp_path: Path) -> None:
    path = tmp_path / "add.onnx"
    onnx.save(ADD, path)
    for given_model in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), ADD):
        np.testing.assert_array_equal(run(given_model, f32(0, 0))[0], f32(1, 2))


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        load(tmp_path / "none.onnx")
    with pytest.raises(UserError, match="cannot read"):
        load(tmp_path)
    with pytest.raises(UserError, match="a path, bytes or a ModelProto, not int"):
        load(3)
    for data in (b"", b"garbage that is no protobuf", ADD.SerializeToString()[:-20]):
        with pytest.raises(UserError, match=r"not an ONNX model|malformed|needs|no graph"):
            load(data)


def test_unknown_operators_are_all_named() -> None:
    text = "f (float[2] x) => (float[2] y) { a = Frob(x) b = Nicate(a) y = other.Thing(b) }"
    with pytest.raises(UnsupportedError) as raised:
        load(model(text, extra=', "other": 3'))
    for part in (
        "'Frob' of domain 'ai.onnx'",
        "opset 17",
        "'Nicate'",
        "'Thing' of domain 'other'",
        "['a']",
    ):
        assert part in str(raised.value)


def test_unknown_operators_in_subgraphs_and_functions() -> None:
    inner = "g (float[2] x, bool c) => (float[2] y) { y = If(c) <then_branch = a () => " \
            "(float[2] t) { t = Frob(x) }, " \
            "else_branch = b () => (float[2] e) { e = Neg(x) }> }"  # fmt: skip
    function = '<domain: "local", opset_import: ["": 17]> f (x) => (y) { y = Frob(x) }'
    call = "g (float[2] x) => (float[2] y) { y = local.f(x) }"
    for proto in (model(inner), model(call, extra=', "local": 1', functions=function)):
        with pytest.raises(UnsupportedError, match="'Frob'"):
            load(proto)


@pytest.mark.parametrize("opset", [0, 29, 1000])
def test_unsupported_opsets(opset: int) -> None:
    with pytest.raises(UnsupportedError, match=f"imports opset {opset} .* opsets 1 to 28"):
        load(one_node("Relu", [f32(1)], opset))


def test_a_domain_that_is_not_imported() -> None:
    proto = one_node("Relu", [f32(1)])
    proto.graph.node[0].domain = "ai.onnx.ml"
    with pytest.raises(UnsupportedError, match="does not say which opset"):
        load(proto)


def nodes(*lines: tuple[str, list[str], list[str]]) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(*line) for line in lines],
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info("y", 1, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (nodes(("Add", ["x", "b"], ["a"]), ("Neg", ["a"], ["b"]), ("Neg", ["b"], ["y"])), "b"),
        (nodes(("Add", ["x", "weight"], ["y"])), "weight"),
        (nodes(("Neg", ["x"], ["y"]), ("Abs", ["x"], ["y"])), "y"),
        (nodes(("Neg", ["x"], ["z"])), "'y'"),
        (nodes(("Add", ["x"], ["y"])), "Add"),
    ],
    ids=["cycle", "missing initialiser", "made twice", "no output", "too few inputs"],
)
def test_broken_graphs(proto: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        interpret(proto)(f32(1, 2))


def test_wrong_attribute_types() -> None:
    proto = one_node("Softmax", [f32(1, 2)], axis="last")
    with pytest.raises(UserError, match="axis"):
        interpret(proto)(f32(1, 2))


# ---------------------------------------------------------------------------- tensors


def with_initializer(tensor: TensorProto) -> onnx.ModelProto:
    proto = nodes(("Add", ["x", "w"], ["y"]))
    tensor.name = "w"
    proto.graph.initializer.append(tensor)
    return proto


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (TensorProto(dims=[2], data_type=1, raw_data=b"1234"), "needs 8 bytes, but the file has 4"),
        (TensorProto(dims=[2], data_type=1, float_data=[1, 2, 3]), "needs 2 values"),
        (TensorProto(dims=[1 << 40, 1 << 40], data_type=1, float_data=[1]), "needs 1208925819"),
        (TensorProto(dims=[-2], data_type=1, float_data=[1, 2]), "negative dimension"),
        (TensorProto(dims=[2], data_type=99, raw_data=b"12345678"), "number 99"),
        (TensorProto(dims=[2], data_type=0, raw_data=b"12345678"), "UNDEFINED"),
        (TensorProto(dims=[2], data_type=14, raw_data=b"1234567812345678"), "complex64"),
    ],
)
def test_broken_initializers(tensor: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        interpret(with_initializer(tensor))(f32(1, 2))


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(dims=[2], data_type=1, float_data=[1.5, 2.5]),
        TensorProto(dims=[2], data_type=1, raw_data=np.array([1.5, 2.5], np.float32).tobytes()),
    ],
)
def test_typed_and_raw_data(tensor: Any) -> None:
    np.testing.assert_array_equal(run(with_initializer(tensor), f32(0, 0))[0], f32(1.5, 2.5))


NUMBERS = {
    "BOOL": "bool", "INT8": "int8", "UINT8": "uint8", "INT16": "int16", "UINT16": "uint16",
    "INT32": "int32", "INT64": "int64", "UINT32": "uint32", "UINT64": "uint64",
    "FLOAT16": "float16", "FLOAT": "float32", "DOUBLE": "float64",
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("raw", [True, False])
def test_all_types_of_initializers(name: Any, raw: bool) -> None:
    array = np.array([[0, 1, 1]], NUMBERS[name])
    number = getattr(TensorProto, name)
    tensor = (
        numpy_helper.from_array(array, "w")
        if raw
        else helper.make_tensor("w", number, [1, 3], array.reshape(-1).tolist())
    )
    proto = model("f () => (float[1, 3] y) { y = Cast<to = 1>(w) }")
    proto.graph.initializer.append(tensor)
    np.testing.assert_array_equal(run(proto)[0], [[0, 1, 1]])


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("INT4", b"\x21\x8f\x07", [1, 2, -1, -8, 7]),
        ("UINT4", b"\x21\x8f\x07", [1, 2, 15, 8, 7]),
        ("INT2", b"\xe4\x03", [0, 1, -2, -1, -1]),
        ("UINT2", b"\xe4\x03", [0, 1, 2, 3, 3]),
        ("FLOAT4E2M1", b"\x21\xf7\x08", [0.5, 1, 6, -6, -0.0]),
        ("FLOAT8E4M3FN", b"\x00\x38\x40\xb8\x7e", [0, 1, 2, -1, 448]),
        ("FLOAT8E5M2", b"\x00\x3c\x40\xbc\x7c", [0, 1, 2, -1, np.inf]),
        ("BFLOAT16", b"\x00\x00\x80\x3f\x00\x40\x80\xbf\x80\x7f", [0, 1, 2, -1, np.inf]),
    ],
)
@pytest.mark.parametrize("raw", [True, False])
def test_narrow_types_of_initializers(name: str, data: bytes, expected: Any, raw: bool) -> None:
    number = getattr(TensorProto, name)
    tensor = TensorProto(dims=[5], data_type=number)
    if raw:
        tensor.raw_data = data
    else:
        tensor.int32_data.extend(np.frombuffer(data, "<u2" if name == "BFLOAT16" else "u1"))
    np.testing.assert_array_equal(to_array(tensor).astype(np.float32), np.float32(expected))


def sparse(indices: list[int], dims: list[int], shape: list[int]) -> onnx.ModelProto:
    proto = nodes(("Add", ["x", "w"], ["y"]))
    values = helper.make_tensor("w", 1, [2], [5.0, 7.0])
    places = helper.make_tensor("i", 7, shape, indices)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, dims))
    return proto


def test_sparse_initializers() -> None:
    for proto in (sparse([0, 3], [3, 2], [2]), sparse([0, 0, 1, 1], [3, 2], [2, 2])):
        np.testing.assert_array_equal(run(proto, f32(1, 1))[0], [[6, 1], [1, 8], [1, 1]])


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (sparse([0, 6], [3, 2], [2]), "outside its shape"),
        (sparse([0, -1], [3, 2], [2]), "outside its shape"),
        (sparse([0, 0, 3, 0], [3, 2], [2, 2]), "outside its shape"),
        (sparse([0, 1, 2], [3, 2], [3]), "2 values, but indices"),
        (sparse([0, 1], [1 << 30, 1 << 30], [2]), "too large"),
    ],
)
def test_broken_sparse_initializers(proto: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        interpret(proto)(f32(1, 1))


# ---------------------------------------------------------------------------- external data


def external(tmp_path: Path, **entries: str) -> Any:
    tensor = TensorProto(name="w", dims=[2], data_type=1, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    proto = nodes(("Add", ["x", "w"], ["y"]))
    proto.graph.initializer.append(tensor)
    folder = tmp_path / "models"
    folder.mkdir(exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    (folder / "weights.bin").write_bytes(b"pad!" + np.array([3, 4], np.float32).tobytes())
    (tmp_path / "secret").write_bytes(np.array([3, 4], np.float32).tobytes())
    return path, proto


def test_external_data(tmp_path: Path) -> None:
    path, proto = external(tmp_path, location="weights.bin", offset="4", length="8")
    np.testing.assert_array_equal(run(path, f32(0, 1))[0], f32(3, 5))
    np.testing.assert_array_equal(run(proto, f32(0, 1), folder=path.parent)[0], f32(3, 5))
    with pytest.raises(UserError, match="not loaded from a file"):
        run(proto, f32(0, 1))


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"location": "../secret"}, "outside the model's folder"),
        ({"location": "sub/../../secret"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "link"}, "outside the model's folder"),
        ({"location": "none.bin"}, "is missing"),
        ({"location": ""}, "is missing"),
        ({"location": "a\0b"}, "usable path|missing"),
        ({"location": "weights.bin", "offset": "8"}, "needs 8 bytes at offset 8"),
        ({"location": "weights.bin", "offset": "-4"}, "is not a number"),
        ({"location": "weights.bin", "offset": "99999999999999"}, "needs 8 bytes"),
        ({"location": "weights.bin", "length": "4"}, "length is 4"),
    ],
)
def test_external_data_that_must_not_be_read(
    tmp_path: Path, entries: dict[str, str], text: str
) -> None:
    path, _ = external(tmp_path, **entries)
    (path.parent / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match=text):
        run(path, f32(0, 1))


# ---------------------------------------------------------------------------- size


@pytest.mark.parametrize(
    "body",
    [
        "y = ConstantOfShape(huge)",
        "s = Constant<value_ints = [1, 1]>() r = Reshape(x, s) y = Expand(r, huge)",
        "y = Tile(x, one)",
        "r = ConstantOfShape(huge) y = ReduceSum<keepdims = 0>(r)",
        "a = Constant<value_int = 0>() b = Constant<value_int = 999999999999>() "
        "c = Constant<value_int = 1>() i = Range(a, b, c) y = Cast<to = 1>(i)",
    ],
)
def test_huge_tensors_are_refused_before_they_are_made(body: str) -> None:
    text = f"""f (float[1] x) => (float[n] y)
    <int64[2] huge = {{4000000000, 4000000000}}, int64[1] one = {{4000000000000000}}>
    {{ {body} }}"""
    with pytest.raises(UserError, match=r"would need|too large|too many"):
        run(model(text), f32(1))


# ---------------------------------------------------------------------------- fuzzing

TINY = model(
    """tiny (float[n, 4] x, int64[2] shape) => (float[m, k] y, float[q] z)
    <float[4, 3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, int64[1] axes = {1}, int64[4] pads = {0,1,0,1},
     int64 one = {1}>
    {
      h = MatMul(x, w)
      c = Constant<value = float[3] {0.5, 1.5, 2.5}>()
      b = local.Act<alpha = 0.25>(h, c)
      r = Reshape(b, shape)
      p = Pad<mode = "reflect">(r, pads)
      s = Softmax<axis = -1>(p)
      f = Shape(s)
      i = ReduceProd<keepdims = 0>(f)
      ok = Greater(i, one)
      y = If(ok) <then_branch = then () => (float[a, b] t) { t = Transpose<perm = [1, 0]>(s) },
                  else_branch = els () => (float[a, b] e) { e = Identity(s) }>
      z = ReduceSum<keepdims = 0>(y, axes)
    }""",
    extra=', "local": 1',
    functions="""<domain: "local", opset_import: ["": 17]>
    Act <alpha> (a, b) => (r) { t = Add(a, b)  r = LeakyRelu<alpha: float = @alpha>(t) }""",
).SerializeToString()
FEEDS = [np.arange(24, dtype=np.float32).reshape(6, 4), np.array([3, 6])]


def try_to_run(data: bytes) -> None:
    """Anything but an answer or a UserError is a defect."""
    try:
        session = interpret(data)
        names = [info.name for info in session.get_inputs()]
        session.run(None, dict(zip(names, FEEDS, strict=False)))
    except UserError:
        pass


def test_the_fuzzed_model_is_sound() -> None:
    y, z = run(TINY, *FEEDS)
    assert y.shape == (8, 3) and z.shape == (8,)


@given(st.integers(0, len(TINY) - 1))
@settings(max_examples=150)
def test_truncated_files(length: int) -> None:
    try_to_run(TINY[:length])


@given(
    st.lists(st.tuples(st.integers(0, len(TINY) - 1), st.integers(0, 255)), min_size=1, max_size=3)
)
@settings(max_examples=1500)
def test_changed_bytes(changes: Any) -> None:
    data = bytearray(TINY)
    for place, value in changes:
        data[place] = value
    try_to_run(bytes(data))
