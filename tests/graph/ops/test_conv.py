"""Convolutions against loops, and what is refused."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type


def direct(x: Any, w: Any, strides: Any, pads: Any, dilations: Any, groups: Any) -> Any:
    """The defining sum, one term at a time, over a padded copy."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    sizes = [
        (x.shape[2 + k] - (w.shape[2 + k] - 1) * dilations[k] - 1) // strides[k] + 1
        for k in range(rank)
    ]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    depth, count = w.shape[1], w.shape[0] // groups
    spaces = [range(n) for n in (*result.shape, depth, *w.shape[2:])]
    for n, o, *rest in itertools.product(*spaces):
        at, c, offset = rest[:rank], rest[rank], rest[rank + 1 :]
        place = [at[k] * strides[k] + offset[k] * dilations[k] for k in range(rank)]
        result[(n, o, *at)] += x[(n, o // count * depth + c, *place)] * w[(o, c, *offset)]
    return result


@pytest.mark.parametrize(
    ("x", "w", "strides", "pads", "dilations", "groups"),
    [
        ((1, 1, 5), (1, 1, 3), (1,), (0, 0), (1,), 1),
        ((2, 3, 7), (4, 3, 2), (2,), (1, 0), (3,), 1),
        ((1, 2, 5, 4), (3, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((2, 4, 5, 6), (6, 2, 3, 2), (2, 1), (0, 1, 2, 0), (1, 2), 2),
        ((1, 3, 4, 4), (6, 1, 2, 2), (1, 1), (0, 0, 0, 0), (1, 1), 3),
        ((1, 2, 3, 4, 3), (2, 2, 2, 1, 3), (1, 2, 1), (1, 0, 1, 0, 0, 1), (1, 1, 1), 1),
        ((1, 2, 3, 3), (2, 2, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ],
)
def test_conv(
    x: tuple[int, ...],
    w: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
    rng: np.random.Generator,
) -> None:
    a, b = rng.integers(-4, 5, x).astype("float32"), rng.integers(-4, 5, w).astype("float32")
    found = check(lambda s, t: ops.conv(s, t, None, strides, pads, dilations, groups), a, b)
    np.testing.assert_array_equal(found, direct(a, b, strides, pads, dilations, groups))


def test_bias_and_amounts_for_all_dimensions(rng: np.random.Generator) -> None:
    x, w, b = rng.random((1, 2, 6, 6)), rng.random((3, 2, 3, 3)), rng.random(3)
    found = check(lambda *t: ops.conv(*t, strides=2, pads=1), x, w, b)
    plain = direct(x, w, (2, 2), (1, 1, 1, 1), (1, 1), 1)
    np.testing.assert_allclose(found, plain + b[:, None, None])


def test_empty_tensors() -> None:
    x, w = np.zeros((0, 2, 4), "float32"), np.ones((3, 2, 3), "float32")
    assert check(ops.conv, x, w).shape == (0, 3, 2)
    x, w = np.zeros((1, 0, 4), "float32"), np.ones((3, 0, 3), "float32")
    assert (check(ops.conv, x, w) == np.zeros((1, 3, 2))).all()


def test_integers_into_a_wider_type() -> None:
    x, w = np.full((1, 1, 3), 255, "uint8"), np.full((1, 1, 3), -128, "int8")
    found = check(lambda a, b: ops.conv(a, b, out_dtype="int32"), x, w)
    assert found.tolist() == [[[-3 * 255 * 128]]]


@pytest.mark.parametrize("outputs", [2, 8])
def test_integers_padded_with_their_zero_point(outputs: int, rng: np.random.Generator) -> None:
    for x, w, pads in (
        ((1, 3, 5, 7), (outputs, 3, 3, 2), (1, 0, 2, 1)),
        ((2, 4, 6), (outputs, 2, 3), (1, 1)),
        ((1, 2, 4, 5, 6), (outputs, 2, 3, 3, 3), (1, 1, 1, 1, 1, 1)),
    ):
        rank, groups = len(x) - 2, x[1] // w[1]
        for kind, out in (("uint8", "int32"), ("int32", None)):
            a = rng.integers(0, 256, x).astype(kind)
            b = rng.integers(-128, 128, w).astype("int8" if out else kind)
            more: dict[str, Any] = {
                "pads": pads,
                "groups": groups,
                "out_dtype": out,
                "pad_value": 200,
            }
            found = check(partial(ops.conv, **more), a, b)
            ones = (1,) * rank
            want = direct(a.astype("int64") - 200, b.astype("int64"), ones, pads, ones, groups)
            total = b.astype("int64").sum(tuple(range(1, rank + 2)))
            want += 200 * total.reshape(-1, *ones)
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("x", "w", "pad", "dilation", "groups"),
    [
        ((1, 70, 5, 6), (9, 70, 3, 3), 1, 1, 1),  # two stretches of 35 windows
        ((2, 130, 7, 5), (10, 65, 3, 3), 2, 2, 2),
        ((1, 9, 5, 6, 7), (4, 9, 5, 5, 5), 2, 1, 1),
        ((1, 2, 9, 9, 9), (4, 2, 9, 9, 9), 1, 1, 1),
        ((1, 1, 11, 12, 11), (5, 1, 11, 11, 11), 1, 1, 1),  # windows longer than a stretch
        ((1, 600, 40), (7, 600, 1), 1, 1, 1),
        ((3, 257, 33), (4, 257, 2), 0, 1, 1),
    ],
)
def test_windows_of_many_stretches(
    x: tuple[int, ...],
    w: Any,
    pad: int,
    dilation: int,
    groups: Any,
    rng: np.random.Generator,
) -> None:
    a, b = rng.integers(-4, 5, x).astype("float32"), rng.integers(-4, 5, w).astype("float32")
    image = Tensor(tensor_type(x, "float32"), "x")
    result = ops.conv(image, ops.constant(b), None, 1, pad, dilation, groups)
    bias = rng.integers(-9, 9, result.shape[2:]).astype("float32")  # of each pixel
    shifted = ops.add(ops.relu(result), ops.constant(bias))
    [found, plain] = compile_graph(Graph([image], [shifted, result]))(a)
    rank: Any
    rank, each = len(x) - 2, w[0] // groups
    wide = np.pad(a, [(0, 0), (0, 0), *[(pad, pad)] * rank])
    reach = [(k - 1) * dilation + 1 for k in w[2:]]
    views = np.lib.stride_tricks.sliding_window_view(wide, reach, tuple(range(2, rank + 2)))
    views = views[(..., *[slice(None, None, dilation)] * rank)]
    parts = [
        np.tensordot(
            views[:, g * w[1] : (g + 1) * w[1]], b[g * each : (g + 1) * each],
            ([1, *range(2 + rank, 2 + 2 * rank)], list(range(1, rank + 2))),
        )
        for g in range(groups)
    ]  # fmt: skip
    want = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    np.testing.assert_array_equal(plain, want)
    np.testing.assert_array_equal(found, np.maximum(want, 0) + bias)


@pytest.mark.parametrize(
    "sizes", [(8, 17), pytest.param((8, 6, 7), marks=pytest.mark.slow), (5, 1)]
)
def test_results_in_other_shapes(sizes: tuple[int, ...], rng: np.random.Generator) -> None:
    x, w = (2, 3, *sizes), (8, 3, *(3 for _ in sizes))
    a, b = rng.integers(-4, 5, x).astype("float32"), rng.integers(-4, 5, w).astype("float32")
    ones = (1,) * len(sizes)
    want: Any = direct(a, b, ones, (1, 1) * len(sizes), ones, 1)
    last, mixed = [0, *range(2, len(x)), 1], [0, 2, 1, *range(3, len(x))]
    for change, expected in (
        (lambda y: ops.reshape(y, [2, 8, -1]), want.reshape(2, 8, -1)),
        (lambda y: ops.reshape(y, [16, *sizes]), want.reshape(16, *sizes)),
        (lambda y: ops.reshape(y, [2, 2, 4, -1, sizes[-1]]), want.reshape(2, 2, 4, -1, sizes[-1])),
        (lambda y: ops.transpose(y, last), want.transpose(last)),
        (lambda y: ops.transpose(y, [1, 0, *last[1:-1]]), want.swapaxes(0, 1)),
        (lambda y: ops.transpose(y, mixed), want.transpose(mixed)),
    ):
        image = Tensor(tensor_type(x, "float32"), "x")
        made = change(ops.relu(ops.conv(image, ops.constant(b), pads=1)))  # type: ignore[no-untyped-call]
        shift = rng.integers(-9, 9, expected.shape[-2:]).astype("float32")
        result = ops.add(made, ops.constant(shift))
        [found] = compile_graph(Graph([image], [result]))(a)
        np.testing.assert_array_equal(found, np.maximum(expected, 0) + shift)


def test_half_precision(rng: np.random.Generator) -> None:
    x, w = rng.random((1, 3, 5, 5)).astype("float16"), rng.random((2, 3, 3, 3)).astype("float16")
    assert check(lambda a, b: ops.conv(a, b, pads=1), x, w).dtype == np.float16


def test_mistakes_are_told() -> None:
    for kind, value in (("uint8", 256), ("int8", 128), ("float32", 1)):
        w: Any
        x, w = (ops.constant(np.zeros(s, kind)) for s in ((1, 1, 3), (1, 1, 3)))
        with pytest.raises(DTypeError, match=f"a padding of {value} does not fit"):
            ops.conv(x, w, pads=1, pad_value=value)
    x, w = np.zeros((1, 4, 5, 5)), np.zeros((6, 4, 3, 3))  # type: ignore[assignment]
    for build, words in [
        (lambda a, b: ops.conv(a, b, groups=2), "takes 8 channels in 2 groups, the input"),
        (lambda a, b: ops.conv(a, b, groups=3), "3 groups do not divide 4 and 6 channels"),
        (lambda a, b: ops.conv(a, b, dilations=3), "a window of 7 does not fit spatial dim"),
        (lambda a, b: ops.conv(a, b, strides=0), "must be positive"),
        (lambda a, b: ops.conv(a, b, strides=(1, 1, 1)), "strides needs one value for each of 2"),
        (lambda a, b: ops.conv(a, b, pads=(1, 1, 1)), "pads needs two values for each of 2"),
        (lambda a, b: ops.conv(a, ops.reshape(b, (6, 4, 9))), "as many dimensions as the input"),
        (lambda a, b: ops.conv(a, b, ops.zeros((5,), "float64")), "the bias"),
    ]:
        with pytest.raises(ShapeError, match=words) as caught:
            values(build, x, w)
        assert str(caught.value).startswith("conv: ")
    with pytest.raises(DTypeError, match="conv: operands of different types"):
        values(ops.conv, x, w.astype("float32"))
