"""Products and convolutions of AKG's graphs against sums over all places in NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from frontend.akg.build import single, tensor, values
from tileloom.akg import load
from tileloom.base.errors import UserError


def whole(seed: int, *shape: int, kind: str = "float32") -> Any:
    """Small whole numbers: their products and sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(kind)


def described(name: str, array: Any, **more: Any) -> dict[str, Any]:
    return tensor(name, array.shape, str(array.dtype), **more)


def tiled(x: Any) -> Any:
    """FRACTAL_NZ: tiles of 16 by 16, those of one column of tiles after each other."""
    *batch, m, n = x.shape
    rows, columns = -(-m // 16), -(-n // 16)
    tiles = np.zeros((*batch, columns, rows, 16, 16), x.dtype)
    for i, j in itertools.product(range(m), range(n)):
        tiles[..., j // 16, i // 16, i % 16, j % 16] = x[..., i, j]
    return tiles


# ---------------------------------------------------------------------------- products


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize(
    "names", [("transpose_a", "transpose_b"), ("transpose_x1", "transpose_x2")]
)
@pytest.mark.parametrize("flags", list(itertools.product((False, True), repeat=2)))
def test_operands_are_transposed(
    flags: tuple[bool, bool], names: tuple[str, str], batch: tuple[int, ...]
) -> None:
    a, b = whole(1, *batch, 3, 5), whole(2, *batch, 5, 4)
    given = [np.swapaxes(x, -1, -2) if flag else x for x, flag in zip((a, b), flags, strict=True)]
    made = single(
        "BatchMatMul" if batch else "MatMul",
        [described("a", given[0]), described("b", given[1])], tensor("c", (*batch, 3, 4)),
        **dict(zip(names, flags, strict=True)),
    )  # fmt: skip
    np.testing.assert_array_equal(values(made, *given)[0], a @ b)


def test_one_name_of_a_transposition_is_enough() -> None:
    a, b = whole(1, 5, 3), whole(2, 4, 5)
    made = single("MatMul", [described("a", a), described("b", b)], tensor("c", (3, 4)),
                  transpose_a=True, transpose_x2=True)  # fmt: skip
    np.testing.assert_array_equal(values(made, a, b)[0], a.T @ b.T)


@pytest.mark.parametrize(
    ("kind", "made", "row", "wanted"),
    [
        ("float16", "float32", [2048, 1, 0], 2049),  # float16 has no 2049
        ("float16", "float16", [2048, 1, 0], 2048),
        ("float16", "float16", [40000, 40000, -40000], 40000),  # beyond its greatest number
        ("float32", "float16", [100000, -100000, 1], 1),  # added up in the wider type
        ("float32", "float32", [16777216, 1, 1], 16777218),
        ("float32", "float64", [0.5, 0.25, 0], 0.75),
        ("int32", "int32", [1 << 30, 5, 1], (1 << 30) + 6),
        ("int32", "float32", [3, 4, 5], 12),
        ("int8", "int32", [100, 100, -1], 199),
        ("int32", "int8", [100, 50, -23], 127),
    ],
)
def test_types_of_products(kind: str, made: str, row: list[float], wanted: float) -> None:
    a, b = np.array([row], kind), np.ones((3, 1), kind)
    out = tensor("c", (1, 1), made)
    (found,) = values(single("MatMul", [described("a", a), described("b", b)], out), a, b)
    assert found.dtype == made and found[0, 0] == wanted


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4), (3, 1), (1,)])
@pytest.mark.parametrize("kind", ["float16", "float32", "int32"])
def test_what_is_added_is_of_any_type(shape: tuple[int, ...], kind: str) -> None:
    a, b, c = whole(1, 3, 5, kind="float16"), whole(2, 5, 4, kind="float16"), whole(3, *shape)
    c = c.astype(kind)
    made = single("MatMul", [described("a", a), described("b", b), described("c", c)],
                  tensor("d", (3, 4)))  # fmt: skip
    wanted = a.astype("float32") @ b.astype("float32") + c.astype("float32")
    np.testing.assert_array_equal(values(made, a, b, c)[0], wanted)


@pytest.mark.parametrize(
    ("attrs", "sides"),
    [
        ({}, ""),
        ({"left_format": "FRACTAL_NZ"}, "a"),
        ({"right_format": "FRACTAL_NZ"}, "b"),
        ({"left_format": "FRACTAL_NZ", "right_format": "FRACTAL_NZ"}, "ab"),
        ({"pri_format": "FRACTAL_NZ"}, "ab"),
        ({"pri_format": "FRACTAL_NZ", "left_format": "DefaultFormat"}, "b"),
        ({"pri_format": "FRACTAL_NZ", "right_format": "ND"}, "a"),
    ],
)
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("result", ["DefaultFormat", "FRACTAL_NZ"])
def test_operands_and_results_in_tiles(
    result: str, batch: tuple[int, ...], attrs: dict[str, str], sides: str
) -> None:
    a, b = whole(1, *batch, 32, 48), whole(2, *batch, 48, 16)
    given = [tiled(x) if side in sides else x for side, x in zip("ab", (a, b), strict=True)]
    wanted = tiled(a @ b) if result == "FRACTAL_NZ" else a @ b
    made = single(
        "MatMul", [described("a", given[0]), described("b", given[1])],
        tensor("c", wanted.shape, format=result), **attrs,
    )  # fmt: skip
    np.testing.assert_array_equal(values(made, *given)[0], wanted)


def test_matrices_without_tiles_are_taken_as_they_are() -> None:
    a, b = whole(1, 2, 3, 5), whole(2, 2, 5, 4)
    made = single("MatMul", [described("a", a), described("b", b)], tensor("c", (2, 3, 4)),
                  pri_format="FRACTAL_NZ")  # fmt: skip
    np.testing.assert_array_equal(values(made, a, b)[0], a @ b)


# ---------------------------------------------------------------------------- convolutions


def convolved(x: Any, weight: Any, strides: Any, dilations: Any, pads: Any, groups: int = 1) -> Any:
    """Data NHWC, filters OHWI: a sum over all places of the filter."""
    left, right, top, bottom = pads
    x = np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)])
    filters, *kernel, depth = weight.shape
    spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    high, wide = ((n - s - 1) // step + 1
                  for n, s, step in zip(x.shape[1:3], spans, strides, strict=True))  # fmt: skip
    total = np.zeros((x.shape[0], high, wide, filters))
    each = filters // groups
    for n, i, j, f in np.ndindex(*total.shape):
        row, column, low = i * strides[0], j * strides[1], f // each * depth
        part = x[n, row : row + spans[0] + 1 : dilations[0],
                 column : column + spans[1] + 1 : dilations[1], low : low + depth]  # fmt: skip
        total[n, i, j, f] = (part * weight[f]).sum()
    return total


STRIDES, DILATIONS, PADS = (2, 1), (1, 2), (1, 0, 2, 1)


def convolution(x: Any, weight: Any, shape: Any, kind: str = "float32", **attrs: Any) -> Any:
    defaults = {"stride": [1, 1, *STRIDES], "dilation": [*DILATIONS], "pad_list": list(PADS)}
    formats = [attrs.pop("format", "NHWC"), attrs.pop("filters", "DefaultFormat")]
    inputs = [described("x", x, format=formats[0]), described("w", weight, format=formats[1])]
    return single("Conv2D", inputs, tensor("y", shape, kind), **defaults | attrs)


@pytest.mark.parametrize(
    "attrs", [{"group": 2}, {"groups": 2}, {"group": 2, "groups": 1}, {"group": 1, "groups": 2}]
)
def test_groups_of_channels(attrs: Any) -> None:
    """What a file says by the first name counts."""
    groups = attrs.get("group", attrs.get("groups", 1))
    x, weight = whole(1, 2, 5, 6, 4), whole(2, 6, 2, 3, 4 // groups)
    wanted = convolved(x, weight, STRIDES, DILATIONS, PADS, groups)
    made = convolution(x, weight, wanted.shape, **attrs)
    np.testing.assert_array_equal(values(made, x, weight)[0], wanted)


@pytest.mark.parametrize("formats", [("NCHW", "NCHW"), ("NCHW", "DefaultFormat"),
                                     ("DefaultFormat", "NCHW")])  # fmt: skip
@pytest.mark.parametrize("groups", [1, 3])
def test_channels_come_first_where_a_format_says_so(groups: int, formats: tuple[str, str]) -> None:
    x, weight = whole(1, 2, 5, 6, 3), whole(2, 3, 2, 3, 3 // groups)
    wanted = convolved(x, weight, STRIDES, DILATIONS, PADS, groups).transpose(0, 3, 1, 2)
    data, filters = (np.ascontiguousarray(t.transpose(0, 3, 1, 2)) for t in (x, weight))
    made = convolution(data, filters, wanted.shape, group=groups, format=formats[0],
                       filters=formats[1])  # fmt: skip
    np.testing.assert_array_equal(values(made, data, filters)[0], wanted)


@pytest.mark.parametrize("formats", [("NHWC", "NHWC"), ("NHWC", "NCHW"), ("NCHW", "NHWC"),
                                     ("DefaultFormat", "DefaultFormat")])  # fmt: skip
def test_channels_come_last_otherwise(formats: tuple[str, str]) -> None:
    x, weight = whole(1, 2, 5, 6, 3), whole(2, 4, 2, 3, 3)
    wanted = convolved(x, weight, STRIDES, DILATIONS, PADS)
    made = convolution(x, weight, wanted.shape, format=formats[0], filters=formats[1])
    np.testing.assert_array_equal(values(made, x, weight)[0], wanted)


@pytest.mark.parametrize(
    ("attrs", "strides", "dilations", "pads"),
    [
        ({"stride": None}, (1, 1), DILATIONS, PADS),
        ({"dilation": None}, STRIDES, (1, 1), PADS),
        ({"pad_list": None}, STRIDES, DILATIONS, (0, 0, 0, 0)),
        ({"stride": [1, 2], "dilation": [1, 1, 2, 1]}, (1, 2), (2, 1), PADS),
        ({"pad_list": [0, 3, 1, 0]}, STRIDES, DILATIONS, (0, 3, 1, 0)),
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_attributes_of_convolutions(
    group: int, attrs: dict[str, Any], strides: Any, dilations: Any, pads: Any
) -> None:
    x, weight = whole(1, 1, 6, 7, 2), whole(2, 4, 2, 3, 2 // group)
    wanted = convolved(x, weight, strides, dilations, pads, group)
    made = convolution(x, weight, wanted.shape, group=group, **attrs)
    np.testing.assert_array_equal(values(made, x, weight)[0], wanted)


@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_add_up_in_the_type_of_their_result(group: int) -> None:
    x, weight = np.full((1, 1, 1, 4), 1024, "float16"), np.ones((2, 1, 1, 4 // group), "float16")
    x[..., 1::2] = 0.5
    for kind, wanted in (("float32", 2049 / group), ("float16", float(np.float16(2049 / group)))):
        made = convolution(x, weight, (1, 1, 1, 2), kind, group=group, pad_list=[0] * 4,
                           stride=[1, 1], dilation=[1, 1])  # fmt: skip
        (found,) = values(made, x, weight)
        assert found.dtype == kind and found.ravel().tolist() == [wanted, wanted]


@pytest.mark.parametrize("shape", [(12, 4), (48,)])
def test_results_are_read_in_the_shape_that_the_file_says(shape: tuple[int, ...]) -> None:
    x, weight = whole(1, 2, 3, 4, 3), whole(2, 4, 2, 3, 3)
    wanted = convolved(x, weight, (1, 1), (1, 1), (0, 0, 0, 0))[:, :, :, :]
    assert wanted.shape == (2, 2, 2, 4)
    x = np.concatenate([x, x[:1]])
    wanted = np.concatenate([wanted, wanted[:1]])
    made = convolution(x, weight, shape, stride=None, dilation=None, pad_list=None)
    np.testing.assert_array_equal(values(made, x, weight)[0], wanted.reshape(shape))


@pytest.mark.parametrize(
    ("x", "weight", "attrs", "words"),
    [
        ((1, 4, 4, 2, 16), (3, 2, 2, 2), {}, "blocked layout"),
        ((1, 4, 4, 2), (3, 2, 2, 2, 16), {}, "blocked layout"),
        ((1, 4, 4, 2), (3, 2, 2, 2), {"data_format": "NC1HWC0"}, "blocked layout"),
        ((1, 4, 4, 2), (3, 2, 2, 2), {"pad_list": [0, 0]},
         "attribute 'pad_list' has 2 numbers, 4 are needed"),
        ((1, 4, 4, 2), (3, 2, 2, 2), {"stride": []},
         "attribute 'stride' has 0 numbers, 2 are needed"),
        ((1, 4, 4, 2), (3, 5, 1, 2), {}, "do not fit data"),
        ((1, 4, 4, 2), (3, 1, 5, 2), {}, "do not fit data"),
        ((1, 4, 4, 2), (3, 0, 1, 2), {}, "do not fit data"),
        ((1, 4, 4, 2), (3, 1, 0, 2), {}, "do not fit data"),
    ],
)  # fmt: skip
def test_convolutions_that_are_refused(x: Any, weight: Any, attrs: Any, words: str) -> None:
    made = single("Conv2D", [tensor("x", x), tensor("w", weight)], tensor("y", (1, 1, 1, 3)),
                  **attrs)  # fmt: skip
    with pytest.raises(UserError, match=words):
        load(made)
