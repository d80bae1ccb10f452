"""Operators of AKG graphs against the reference in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg import reference
from frontend.akg.build import check, graph, op, single, tensor
from tileloom.akg import load
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.frontend.akg.handlers import product

UNIT = {"ACos", "Asin"}
POSITIVE = {"Log", "Sqrt", "Rsqrt", "Acosh", "Reciprocal", "Pow"}


def values(rng: np.random.Generator, name: Any, shape: Any, kind: str = "float32") -> Any:
    array = rng.standard_normal(shape)
    if name in UNIT:
        array = np.tanh(array)
    elif name in POSITIVE:
        array = np.abs(array) + 1
    return array.astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("name", sorted(reference.UNARY))
def test_unary(rng: np.random.Generator, name: Any, kind: str) -> None:
    kind = "bool" if name == "LogicalNot" else kind
    made = "bool" if name.startswith("Is") or kind == "bool" else kind
    x = values(rng, name, (5, 7), kind)
    check(single(name, [tensor("x", (5, 7), kind)], tensor("y", (5, 7), made)), {"x": x})


@pytest.mark.parametrize("name", sorted(reference.BINARY))
def test_binary_operands_are_broadcast(rng: np.random.Generator, name: Any) -> None:
    kind = "bool" if name.startswith("Logical") else "float32"
    compares = name in ("Equal", "NotEqual") or name.startswith(("Greater", "Less", "Logical"))
    x, y = (values(rng, name, shape, kind) for shape in ((3, 1, 7), (5, 1)))
    if name in ("FloorDiv", "FloorMod", "Mod", "Div", "RealDiv"):
        y = np.abs(y) + np.float32(0.5)
    out = tensor("z", (3, 5, 7), "bool" if compares else kind)
    given = {"x": x, "y": y}
    check(single(name, [tensor("x", (3, 1, 7), kind), tensor("y", (5, 1), kind)], out), given)


def test_a_literal_takes_the_type_of_the_tensor(rng: np.random.Generator) -> None:
    two = tensor("two", (1,), "float32", value=2)
    half = tensor("x", (4,), "float16")
    given = {"x": rng.standard_normal(4).astype("float16")}
    check(single("Mul", [half, two], tensor("y", (4,), "float16")), given)


def test_literals_of_rank_zero_and_of_many_elements(rng: np.random.Generator) -> None:
    given = {"x": rng.standard_normal((2, 3)).astype("float32")}
    x, y = tensor("x", (2, 3)), tensor("y", (2, 3))
    check(single("Add", [x, tensor("c", (), value=0.5)], y), given)
    row = single("Add", [x, tensor("c", (3,), value=[1.0, 2.0, 3.0])], y)
    assert np.array_equal(
        load(row).run(None, given)[0], given["x"] + np.array([1, 2, 3], np.float32)
    )


@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 1031, 2), (3, 0, 2)])
@pytest.mark.parametrize("axis", [1, [0, 2], [], [-1], None])
@pytest.mark.parametrize("keep", [True, False])
def test_reductions(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int | list[int] | None, keep: bool
) -> None:
    x = rng.standard_normal(shape).astype("float32")
    axes = tuple([axis] if isinstance(axis, int) else axis or range(3))
    made = np.sum(x, axes, keepdims=keep).shape
    attrs = {"keep_dims": keep} | ({} if axis is None else {"axis": axis})
    names = ["ReduceSum"] if 0 in shape else ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"]
    for name in names:
        check(single(name, [tensor("x", shape)], tensor("y", made), **attrs), {"x": x})


def test_a_reduction_keeps_the_extents_that_the_file_says(rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 5)).astype("float16")
    out = tensor("y", (1,), "float16")
    check(single("ReduceSum", [tensor("x", (6, 5), "float16")], out, axis=[0, 1]), {"x": x})


def test_products_of_elements_and_reductions_of_bools(rng: np.random.Generator) -> None:
    x = (rng.random((3, 8)) + 0.5).astype("float32")
    check(single("ReduceProd", [tensor("x", (3, 8))], tensor("y", (3,)), axis=[1]), {"x": x})
    b = rng.integers(0, 2, (3, 8)).astype(bool)
    for name in ("ReduceAll", "ReduceAny"):
        made = single(name, [tensor("b", (3, 8), "bool")], tensor("y", (3,), "bool"), axis=[1])
        check(made, {"b": b})


def test_long_sums_of_float16_are_kept_in_float32() -> None:
    x = np.full((4096,), 1.0, "float16")  # float16 would stop at 2048
    made = single(
        "ReduceSum", [tensor("x", (4096,), "float16")], tensor("y", (1,), "float16"), axis=[0]
    )
    assert check(made, {"x": x})["y"][0] == 4096


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("made", ["float16", "float32"])
def test_products(
    rng: np.random.Generator, transpose_a: bool, transpose_b: bool, made: str
) -> None:
    a = rng.standard_normal((37, 18) if transpose_a else (18, 37)).astype("float16")
    b = rng.standard_normal((13, 37) if transpose_b else (37, 13)).astype("float16")
    operands = [tensor("a", a.shape, "float16"), tensor("b", b.shape, "float16")]
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b, "Akg": True}
    out = tensor("c", (18, 13), made)
    check(single("MatMul", operands, out, dst_type=made, **attrs), {"a": a, "b": b})
    bias = rng.standard_normal(13).astype(made)
    biased = single("MatMul", [*operands, tensor("d", (13,), made)], out, **attrs)
    check(biased, {"a": a, "b": b, "d": bias})


def test_products_of_batches(rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 3, 4, 5), (2, 3, 6, 5)))
    made = single(
        "BatchMatMul", [tensor("a", a.shape), tensor("b", b.shape)], tensor("c", (2, 3, 4, 6)),
        transpose_a=False, transpose_b=True,
    )  # fmt: skip
    check(made, {"a": a, "b": b})


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 0, 1]])
def test_convolutions(
    rng: np.random.Generator, stride: int, dilation: int, pads: list[int]
) -> None:
    x = rng.standard_normal((2, 9, 11, 5)).astype("float16")
    weight = rng.standard_normal((7, 3, 2, 5)).astype("float16")
    left, right, top, bottom = pads
    high = (9 + top + bottom - 2 * dilation - 1) // stride + 1
    wide = (11 + left + right - dilation - 1) // stride + 1
    made = single(
        "Conv2D",
        [tensor("x", x.shape, "float16", format="NHWC"), tensor("w", weight.shape, "float16")],
        tensor("y", (2, high, wide, 7), "float16"),
        stride=[1, 1, stride, stride], dilation=[1, 1, dilation, dilation], pad_list=pads,
        group=1, groups=1, format="NCHW", pad_mode="same",
    )  # fmt: skip
    check(made, {"x": x, "w": weight})


def convolution(x: Any, weight: Any, out: Any, pads: Any = (0, 0, 0, 0), **more: Any) -> Any:
    """A composite of one convolution with a step of 2."""
    operands = [tensor("x", x, "float16", format="NHWC"), tensor("w", weight, "float16")]
    attrs = {"stride": [1, 1, 2, 2], "dilation": [1, 1, 1, 1], "pad_list": list(pads)}
    return single("Conv2D", operands, tensor("y", out, "float32"), **attrs, group=1, **more)


def test_convolutions_are_products_of_patches_unless_these_are_large(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((2, 9, 9, 4)).astype("float16")
    weight = rng.standard_normal((7, 3, 3, 4)).astype("float16")
    made = convolution(x.shape, weight.shape, (2, 5, 5, 7), (1, 1, 1, 1))
    assert "conv" not in str(load(made).graph)
    check(made, {"x": x, "w": weight})
    monkeypatch.setattr(product, "MOST_PATCHES", 2 * 25 * 36 * 2 - 1)
    assert "conv" in str(load(made).graph)
    check(made, {"x": x, "w": weight})


def test_a_convolution_of_single_points_is_a_product() -> None:
    one = single(
        "Conv2D", [tensor("x", (2, 9, 9, 4)), tensor("w", (7, 1, 1, 4))],
        tensor("y", (2, 9, 9, 7)), stride=[1, 1, 1, 1], dilation=[1, 1, 1, 1], pad_list=[0] * 4,
    )  # fmt: skip
    assert load(one).kernel_count == 1


def test_convolutions_that_do_not_fit() -> None:
    for x, weight in (((2, 9, 9, 4), (7, 3, 3, 5)), ((2, 2, 9, 4), (7, 3, 3, 4))):
        with pytest.raises(UserError, match=r"op 0 \(Conv2D\)"):
            load(convolution(x, weight, (2, 4, 4, 7)))


def test_movements(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 4)).astype("float32")
    given, t = {"x": x}, tensor("x", (2, 3, 4))
    check(single("Transpose", [t], tensor("y", (4, 2, 3)), perm=[2, 0, 1]), given)
    check(single("Reshape", [t], tensor("y", (6, 4)), shape=[-1, 4]), given)
    check(single("Reshape", [t], tensor("y", (6, 4))), given)
    check(single("ExpandDims", [t], tensor("y", (2, 3, 1, 4)), axis=2), given)
    check(single("Tile", [t], tensor("y", (4, 3, 12)), multiples=[2, 1, 3]), given)
    check(single("Slice", [t], tensor("y", (1, 2, 4)), begin=[1, 0, 0], size=[1, 2, 4]), given)
    check(single("Concat", [[t, t]], tensor("y", (2, 6, 4)), axis=1), given)
    pads = {"head": [0, 1, 0], "tail": [0, 0, 5], "pad_val": -1.5}
    check(single("PadAkg", [t], tensor("y", (2, 4, 9)), **pads), given)
    check(single("UnPadAkg", [t], tensor("y", (2, 2, 1)), tail=[0, 1, 3]), given)
    check(single("CumSum", [t], tensor("y", (2, 3, 4)), axis=1), given)
    parts = [tensor("a", (2, 1, 4)), tensor("b", (2, 1, 4)), tensor("c", (2, 1, 4))]
    check(graph([op("Split", [t], parts, axis=1, output_num=3)], [t], parts), given)


@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks", "index"),
    [
        ([1, 0, 0], [2, 3, 4], [1, 2, 1], {}, np.s_[1:2, 0:3:2, 0:4]),
        ([0, 2, 3], [2, 0, 0], [1, -1, -2], {}, np.s_[0:2, 2:0:-1, 3:0:-2]),
        ([1, 1, 1], [1, 1, 1], [1, 1, 1], {"begin_mask": 7, "end_mask": 5}, np.s_[:, :1, :]),
        ([5, 9, 9], [6, 0, 0], [1, -1, -1], {"begin_mask": 7, "end_mask": 7},
         np.s_[:, ::-1, ::-1]),
        ([-1, 0, 0], [0, 3, 4], [1, 1, 1], {"shrink_axis_mask": 1}, np.s_[-1]),
        ([0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}, np.s_[..., 1:3]),
        ([0, 0, 1], [0, 0, 2], [1, 1, 1], {"new_axis_mask": 1, "ellipsis_mask": 2},
         np.s_[None, ..., 1:2]),
        ([1, 0, 1], [2, 0, 3], [1, 1, 1], {"ellipsis_mask": 2}, np.s_[1:2, ..., 1:3]),
        ([1, 0, 0, 3], [2, 0, 0, 4], [1, 1, 1, 1], {"ellipsis_mask": 2, "new_axis_mask": 4},
         np.s_[1:2, ..., None, 3:4]),
        ([0, 1, 0], [2, 3, 0], [1, 1, 1], {"ellipsis_mask": 4}, np.s_[0:2, 1:3, ...]),
        ([1, -2, 1], [2, 0, 3], [1, 1, 1], {"shrink_axis_mask": 3}, np.s_[1, -2, 1:3]),
    ],
)  # fmt: skip
def test_strided_slices(
    rng: np.random.Generator,
    begin: list[int],
    end: list[int],
    strides: list[int],
    masks: dict[str, int],
    index: Any,
) -> None:
    x = rng.standard_normal((2, 3, 4)).astype("float32")
    wanted = x[index]
    out = tensor("y", wanted.shape)
    attrs = {"begin": begin, "end": end, "strides": strides, **masks}
    (ours,) = load(single("StridedSlice", [tensor("x", x.shape)], out, **attrs))(x)
    assert np.array_equal(ours, wanted)


def test_tiled_matrices_there_and_back(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 20, 33)).astype("float16")
    there = single(
        "TransData", [tensor("x", x.shape, "float16")], tensor("y", (2, 3, 2, 16, 16), "float16"),
        src_format="DefaultFormat", dst_format="FRACTAL_NZ",
    )  # fmt: skip
    (tiles,) = load(there)(x)
    for _ in range(20):
        i, j = rng.integers(0, 20), rng.integers(0, 33)
        assert tiles[1, j // 16, i // 16, i % 16, j % 16] == x[1, i, j]
    assert not tiles[:, :, 1, 4:].any()
    back = single(
        "TransData", [tensor("y", tiles.shape, "float16")], tensor("x", x.shape, "float16"),
        src_format="FRACTAL_NZ", dst_format="DefaultFormat",
    )  # fmt: skip
    assert np.array_equal(load(back)(tiles)[0], x)


def test_choices_and_conversions(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 5)).astype("float32")
    b = x > 0
    t, cond = tensor("x", (4, 5)), tensor("b", (4, 5), "bool")
    zero = tensor("zero", (1,), value=0.0)
    check(single("Select", [cond, t, zero], t | {"tensor_name": "y"}), {"b": b, "x": x})
    for kind in ("float16", "int32", "bool"):
        made = single("Cast", [t], tensor("y", (4, 5), kind), dst_type=kind)
        check(made, {"x": x * 3})
    check(single("AddN", [[t, t, t]], tensor("y", (4, 5)), n=3), {"x": x})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot_leaves_out_what_is_out_of_range(axis: int) -> None:
    indices = np.array([0, 3, -1, 4, 2], "int32")
    literals = [tensor("on", (1,), value=2.0), tensor("off", (1,), value=-1.0)]
    shape = (4, 5) if axis == 0 else (5, 4)
    made = single(
        "OneHot", [tensor("i", (5,), "int32"), *literals], tensor("y", shape), axis=axis, depth=4
    )
    assert check(made, {"i": indices})["y"].sum() == 3 * 2 - 17


def test_gathers_and_scatters(rng: np.random.Generator) -> None:
    data = rng.standard_normal((6, 5, 2)).astype("float32")
    t = tensor("x", data.shape)
    places = np.array([[0, 5], [-1, 6]], "int32")
    i = tensor("i", (2, 2), "int32")
    check(single("Gather", [t, i], tensor("y", (6, 2, 2, 2)), axis=1), {"x": data, "i": places})
    given = {"x": data, "i": np.array([[0, 4], [5, 5], [3, -1]], "int32")}
    at = tensor("i", (3, 2), "int32")
    check(single("GatherNd", [t, at], tensor("y", (3, 2))), given)
    updates = rng.standard_normal((3, 2)).astype("float32")
    made = single("TensorScatterAdd", [t, at, tensor("u", (3, 2))], tensor("y", data.shape))
    check(made, {**given, "u": updates})


def test_segments(rng: np.random.Generator) -> None:
    data = rng.standard_normal((7, 3)).astype("float32")
    ids = np.array([0, 2, -1, 2, 9, 0, 3], "int32")
    made = single(
        "UnsortedSegmentSum", [tensor("x", data.shape), tensor("i", (7,), "int32")],
        tensor("y", (4, 3)), num_segments=4,
    )  # fmt: skip
    check(made, {"x": data, "i": ids})


def test_sparse_rows(rng: np.random.Generator) -> None:
    starts = np.array([0, 2, 2, 5, 6, 6], "int32")  # rows 1 and 4 are empty
    columns = np.array([1, 3, 0, 1, 2, 3], "int32")
    numbers = rng.standard_normal(6).astype("float32")
    s, c, v = tensor("s", (6,), "int32"), tensor("c", (6,), "int32"), tensor("v", (6,))
    given = {"s": starts, "c": columns, "v": numbers}
    shape = {"dense_shape": [5, 4]}
    for name, other in (("CSRMul", (5, 4)), ("CSRDiv", (1, 4)), ("CSRMul", (5, 1))):
        dense = (rng.random(other) + 1).astype("float32")
        made = single(name, [s, c, v, tensor("d", other)], tensor("y", (6,)), **shape)
        check(made, {**given, "d": dense})
    dense = rng.standard_normal((5, 4)).astype("float32")
    made = single("CSRGather", [s, c, tensor("d", (5, 4))], tensor("y", (6,)), **shape)
    check(made, {"s": starts, "c": columns, "d": dense})
    check(single("CSRReduceSum", [s, c, v], tensor("y", (5, 1)), axis=[1], **shape), given)
    for width, name in ((1, "CSRMV"), (3, "CSRMM")):
        dense = rng.standard_normal((4, width)).astype("float32")
        made = single(name, [s, c, v, tensor("d", (4, width))], tensor("y", (5, width)), **shape)
        check(made, {**given, "d": dense})


@pytest.mark.parametrize(
    ("dense", "axis"),
    [([5, 4], 1), ([5, 4], -1), ([5, 4], [1]), ([5, 4, 2], 1), ([5, 4, 2], -2), ([5, 4, 2], [-2])],
)
def test_sums_of_sparse_rows(rng: np.random.Generator, dense: list[int], axis: Any) -> None:
    """Along the columns, which are the second axis however it is counted; more axes are kept."""
    shape = (6, *dense[2:])
    given = {
        "s": np.array([0, 2, 2, 5, 6, 6], "int32"),
        "c": np.array([1, 3, 0, 1, 2, 3], "int32"),
        "v": rng.standard_normal(shape).astype("float32"),
    }
    inputs = [tensor("s", (6,), "int32"), tensor("c", (6,), "int32"), tensor("v", shape)]
    result = tensor("y", (5, *dense[2:]))
    made = single("CSRReduceSum", inputs, result, axis=axis, dense_shape=dense)
    (found,) = load(made)(*given.values())
    wanted = np.zeros((5, *dense[2:]), "float32")
    for row, value in zip([0, 0, 2, 2, 2, 3], given["v"], strict=True):
        wanted[row] += value
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("dense", "axis"),
    [([5, 4], 0), ([5, 4], -2), ([5, 4], 2), ([5, 4, 2], -1), ([5, 4, 2], 2), ([5, 4, 2], 0)],
)
def test_sparse_sums_along_other_axes_are_refused(dense: list[int], axis: int) -> None:
    shape = (6, *dense[2:])
    inputs = [tensor("s", (6,), "int32"), tensor("c", (6,), "int32"), tensor("v", shape)]
    with pytest.raises(UserError, match="axis"):
        load(single("CSRReduceSum", inputs, tensor("y", (5,)), axis=axis, dense_shape=dense))


@pytest.mark.parametrize("dense", [[], [5]])
def test_sparse_shapes_have_rows_and_columns(dense: list[int]) -> None:
    inputs = [tensor("s", (6,), "int32"), tensor("c", (6,), "int32"), tensor("v", (6,))]
    with pytest.raises(UserError, match="has no rows and columns"):
        load(single("CSRReduceSum", inputs, tensor("y", (5,)), axis=1, dense_shape=dense))


def test_whether_any_element_is_not_zero() -> None:
    made = single("ElemAny", [tensor("x", (3, 4))], tensor("y", (1,)))
    (none,) = load(made)(np.zeros((3, 4), "float32"))
    (some,) = load(made)(np.eye(3, 4, dtype="float32"))
    assert (none, some) == (0, 1)


@pytest.mark.parametrize("name", ["Custom", "StandardNormal", "Complex"])
def test_what_is_refused_is_named_with_its_place(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'Fused_test', op 0 \\({name}\\)"):
        load(single(name, [tensor("x", (2,))], tensor("y", (2,))))
