"""Arrays of a model's file and of a call: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import SparseTensorProto, TensorProto, helper

from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UserError
from tileloom.frontend.jit.dims import Dim
from tileloom.frontend.onnx import tensors
from tileloom.frontend.onnx.elements import numpy_type
from tileloom.frontend.onnx.feeds import ValueInfo, as_array, read_feeds, suggest, value_info
from tileloom.frontend.onnx.tensors import to_array, to_dense

FLOAT: Any
INT64: Any
FLOAT, INT64, INT4, UINT4 = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT4, TensorProto.UINT4
)  # fmt: skip


def external(size: int, **entries: object) -> TensorProto:
    proto = TensorProto(name="w", data_type=FLOAT, dims=[size])
    proto.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


@pytest.mark.parametrize(
    ("size", "entries"),
    [(4, {}), (3, {"offset": 4}), (3, {"offset": 4, "length": 12}), (0, {"offset": 16}),
     (0, {}), (2, {"offset": ""})],
)  # fmt: skip
def test_data_in_files(size: int, entries: Any, tmp_path: Path) -> None:
    values = np.arange(4, dtype=np.float32) + 1
    (tmp_path / "data").write_bytes(values.tobytes())
    first = int(entries.get("offset") or 0) // 4
    found = to_array(external(size, location="data", **entries), tmp_path)
    assert found.dtype == np.float32 and found.tolist() == values[first : first + size].tolist()
    assert found.flags.writeable is (size == 0)  # what is mapped belongs to the file


def test_files_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    assert to_array(external(0, location="data"), tmp_path).shape == (0,)


@pytest.mark.parametrize(
    ("size", "entries", "words"),
    [(5, {}, "needs 20 bytes at offset 0"), (4, {"offset": 1}, "needs 16 bytes at offset 1"),
     (4, {"length": 12}, "the model says the length is 12"),
     (4, {"offset": "-1"}, "'-1' is not a number"), (4, {"length": "x"}, "length 'x'"),
     (4, {"location": "none"}, "is missing in"), (4, {"location": "../data"}, "lies outside"),
     (4, {"location": "a\0b"}, "is not a usable path"), (-1, {}, "negative dimension")],
)  # fmt: skip
def test_files_that_do_not_fit(
    size: int, entries: dict[str, object], words: str, tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path / "inner"):
        folder.mkdir(exist_ok=True)
        (folder / "data").write_bytes(bytes(16))
    with pytest.raises(UserError, match=words):
        to_array(external(size, **{"location": "data", **entries}), tmp_path / "inner")


def test_files_by_their_place(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    with pytest.raises(UserError, match="lies outside"):
        to_array(external(4, location=str(tmp_path / "data")), tmp_path)
    with pytest.raises(UserError, match="was not loaded from a file"):
        to_array(external(4, location="data"))


@pytest.mark.parametrize(("kind", "wanted"), [(INT4, [0, -1, 7, -8, 3]), (UINT4, [0, 15, 7, 8, 3])])
def test_elements_of_a_few_bits(kind: int, wanted: list[int], tmp_path: Path) -> None:
    stored = bytes([0xF0, 0x87, 0x03])
    raw = TensorProto(name="w", data_type=kind, dims=[5], raw_data=stored)
    fields = TensorProto(name="w", data_type=kind, dims=[5], int32_data=list(stored))
    (tmp_path / "data").write_bytes(b"\xff" + stored)
    outside = external(5, location="data", offset=1)
    outside.data_type = kind
    for proto in (raw, fields, outside):
        assert to_array(proto, tmp_path).tolist() == wanted
    for proto in (
        TensorProto(name="w", data_type=kind, dims=[7], raw_data=stored),
        TensorProto(name="w", data_type=kind, dims=[4], int32_data=list(stored)),
    ):
        with pytest.raises(UserError, match="but the file has 3"):
            to_array(proto)


@pytest.mark.parametrize("name", ["float64", "int8", "uint16", "complex128", "bool", "int64"])
def test_elements_of_whole_bytes(name: str, tmp_path: Path) -> None:
    values = np.array([1, 0, 1, 1, 0]).astype(name)
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    (tmp_path / "data").write_bytes(values.tobytes())
    outside = external(5, location="data")
    outside.data_type = kind
    raw = TensorProto(name="w", data_type=kind, dims=[5], raw_data=values.tobytes())
    fields = helper.make_tensor("w", kind, [5], values)
    for proto in (raw, outside, fields):
        found = to_array(proto, tmp_path)
        assert found.dtype == values.dtype and found.tolist() == values.tolist()


def test_floats_of_four_bits() -> None:
    proto = TensorProto(name="w", data_type=TensorProto.FLOAT4E2M1, dims=[4])
    proto.raw_data = bytes([0x42, 0xF0])
    assert to_array(proto).astype(np.float32).tolist() == [1.0, 2.0, 0.0, -6.0]
    even = TensorProto(name="w", data_type=INT4, dims=[4], int32_data=[0x21, 0x43])
    assert to_array(even).tolist() == [1, 2, 3, 4]


def test_elements_in_fields() -> None:
    values: Any
    for kind, values in [
        (TensorProto.UINT32, [0, 2**32 - 1]), (INT64, [-(2**40), 5]), (FLOAT, [1.5, -2.0]),
        (TensorProto.INT8, [-128, 127]), (TensorProto.COMPLEX64, [1 + 2j, -3j, 4]),
        (TensorProto.FLOAT16, [1.5, -2.0]), (TensorProto.BOOL, [True, False]),
        (TensorProto.STRING, ["a", "ü"]),
    ]:  # fmt: skip
        proto = helper.make_tensor("w", kind, [len(values)], values)
        assert to_array(proto).tolist() == values
        proto.dims[0] += 1
        with pytest.raises(UserError, match="tensor 'w' of shape"):
            to_array(proto)


# ---------------------------------------------------------------------------- sparse tensors


def sparse(indices: np.ndarray, shape: list[int], count: int) -> SparseTensorProto:
    values = helper.make_tensor("v", FLOAT, [count], np.arange(count) + 1.0)
    places = helper.make_tensor("i", INT64, list(indices.shape), indices.reshape(-1).tolist())
    return SparseTensorProto(values=values, indices=places, dims=shape)


def test_sparse_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    flat, pairs = np.array([0, 5]), np.array([[0, 0], [1, 2]])
    for indices in (flat, pairs):
        assert to_dense(sparse(indices, [2, 3], 2)).tolist() == [[1, 0, 0], [0, 0, 2]]
    for none in (np.zeros((0, 2), np.int64), np.zeros((0,), np.int64)):
        assert to_dense(sparse(none, [2, 3], 0)).tolist() == [[0] * 3] * 2
    for wrong, shape, words in [
        (np.array([0, 6]), [2, 3], "outside its shape"), (flat - 1, [2, 3], "outside its shape"),
        (pairs + np.array([0, 1]), [2, 3], "outside its shape"),
        (pairs, [-2, 3], "negative dimension"),
        (np.array([0]), [2, 3], r"2 values, but indices of \(1,\)"),
        (pairs, [2, 3, 1], r"2 values, but indices of \(2, 2\)"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=words):
            to_dense(sparse(wrong, shape, 2))
    monkeypatch.setattr(tensors, "LARGEST_TENSOR", 24)
    assert to_dense(sparse(flat, [2, 3], 2)).shape == (2, 3)
    with pytest.raises(UserError, match="too large"):
        to_dense(sparse(flat, [7, 1], 2))


# ---------------------------------------------------------------------------- arguments


class Foreign:
    def __init__(self, array: np.ndarray, device: str) -> None:
        self.array, self.device = array, type("Place", (), {"type": device})()

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Listed:
    def __array__(self, *_args: object, **_options: object) -> np.ndarray:
        return np.ones(2, np.float32)


KIND, STRINGS = np.dtype("float32"), np.dtype(object)


def test_what_becomes_an_array() -> None:
    own = np.ones(2, np.float32)
    assert as_array(own, KIND, "x") is own
    value: Any
    for value in ([1, 1], (1.0, 1), own.astype(">f4"), Foreign(own, "cpu"), Listed()):
        found = as_array(value, KIND, "x")
        assert found.dtype == KIND and found.dtype.isnative and found.tolist() == [1, 1]
    assert as_array(np.float32(3), KIND, "x").shape == as_array(3, KIND, "x").shape == ()
    for value in (["a", "b"], np.array(["a", "b"]), np.array([b"a", b"b"])):
        assert as_array(value, STRINGS, "x").tolist() == ["a", "b"]
    for value, error, words in [
        (np.ones(2), DTypeError, "x must have dtype float32, got float64"),
        (np.float64(1), DTypeError, "got float64"), (["a"], ArgumentError, "cannot be made"),
        (object(), ArgumentError, "must be an array, not object"),
        (Foreign(own, "cuda"), ArgumentError, "x is on device"),
        (None, ArgumentError, "not NoneType"),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            as_array(value, KIND, "x")
    with pytest.raises(DTypeError, match="x must hold strings, got float32"):
        as_array(own, STRINGS, "x")
    with pytest.raises(DTypeError, match="x must hold strings, got int64"):
        as_array([1, 2], STRINGS, "x")
    grid = as_array(np.array([["a"], ["b"]]), STRINGS, "x")
    assert grid.shape == (2, 1)
    torch = pytest.importorskip("torch")
    bits = as_array(torch.tensor([1.5, -2.0]).bfloat16(), numpy_type(TensorProto.BFLOAT16), "x")
    assert bits.astype(np.float32).tolist() == [1.5, -2.0]
    assert as_array(torch.ones(2, requires_grad=True), KIND, "x").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [("imge", ["image", "mask"], "did you mean 'image'?"), ("zzz", [], "known are none"),
     ("zzz", ["a", "b"], "known are 'a', 'b'")],
)  # fmt: skip
def test_suggestions(name: str, known: list[str], text: str) -> None:
    assert suggest(name, known) == text


def test_what_a_model_says_of_an_input() -> None:
    plain = helper.make_tensor_value_info("x", FLOAT, [2, "n", None, -1, 0])
    found: Any = value_info(plain)
    assert found.shape == (2, "n", None, None, 0) and found.is_tensor
    assert (found.type, found.dtype) == ("tensor(float)", np.float32)
    assert value_info(helper.make_tensor_value_info("x", FLOAT, None)).shape is None
    listed = helper.make_optional_type_proto(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(INT64, [3]))
    )
    found = value_info(helper.make_value_info("y", listed))
    assert (found.type, found.kind) == ("optional(seq(tensor(int64)))", ("optional", "sequence"))
    assert not found.is_tensor
    table = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [1]))
    with pytest.raises(UserError, match="'m' is a map"):
        value_info(helper.make_value_info("m", table))


INPUTS = [
    ValueInfo("a", (2, "n", None), "tensor(float)", FLOAT),
    ValueInfo("b", ("n",), "tensor(float)", FLOAT),
    ValueInfo("c", None, "tensor(float)", FLOAT),
    ValueInfo("d", ("m",), "optional(tensor(float))", FLOAT, ("optional",)),
    ValueInfo("e", ("n",), "seq(tensor(float))", FLOAT, ("sequence",)),
]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


GIVEN = {"a": ones(2, 3, 7), "b": ones(3), "c": ones(4, 4), "e": [ones(5), ones(6)]}


def test_feeds() -> None:
    found: Any = read_feeds(INPUTS, (), GIVEN, {})
    assert set(found) == {*GIVEN, "d"} and found["d"] is None and found["b"] is GIVEN["b"]
    assert [len(each) for each in found["e"]] == [5, 6]
    found = read_feeds(INPUTS, (), {**GIVEN, "d": ones(9)}, {"n": 3})
    assert found["d"].shape == (9,)
    assert read_feeds(INPUTS, (), {**GIVEN, "d": None}, {})["d"] is None
    less = {name: GIVEN[name] for name in ("a", "b")}
    assert set(read_feeds(INPUTS, ("c", "d", "e"), less, {})) == {"a", "b"}
    for bounds in ((3, 3), (1, 3), (3, 9)):
        read_feeds(INPUTS, (), GIVEN, {}, {"n": Dim("n", *bounds)})


@pytest.mark.parametrize("outer", ["optional", "sequence"])
def test_feeds_in_layers(outer: str) -> None:
    info = ValueInfo("f", ("n",), "", FLOAT, (outer, "sequence"))  # type: ignore[arg-type]
    inner = [ones(2), ones(3)]
    given = inner if outer == "optional" else [inner]
    found: Any = read_feeds([info], (), {"f": given}, {})["f"]
    assert found == given and (found if outer == "optional" else found[0])[1] is inner[1]
    with pytest.raises(ArgumentError, match="must be a list of arrays"):
        read_feeds([info], (), {"f": ones(2) if outer == "optional" else [ones(2)]}, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": 1}, "no input 'x'"),
        ({"a": ones(2, 3)}, r"'a' must have shape \[2, n, \?\], got \[2, 3\]"),
        ({"a": ones(3, 3, 1)}, "dimension 0 is fixed to 2"),
        ({"b": ones(4)}, "'n' is 3 by input 'a'"),
        ({"b": None}, "'b' must be an array, not None$"),
        ({"e": ones(2)}, "'e' must be a list of arrays, not ndarray"),
        ({"e": [ones(2, 2)]}, "'e' must have shape"),
    ],
)
def test_feeds_that_do_not_fit(given: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_feeds(INPUTS, (), {**GIVEN, **given}, {})


def test_feeds_that_miss() -> None:
    with pytest.raises(ArgumentError, match="missing input 'b', 'e'"):
        read_feeds(INPUTS, ("c",), {"a": ones(2, 3, 1)}, {})
    with pytest.raises(ShapeError, match=r"'n' is 4 by load\(shapes"):
        read_feeds(INPUTS, (), GIVEN, {"n": 4})
    for bounds in ((1, 2), (4, 9)):
        with pytest.raises(ShapeError, match="axis 1 of input 'a' has size 3, and 'n' goes from"):
            read_feeds(INPUTS, (), GIVEN, {}, {"n": Dim("n", *bounds)})
