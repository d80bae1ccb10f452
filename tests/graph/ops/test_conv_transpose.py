"""Transposed convolutions against the sum of scaled kernels, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, graph_of, values
from tileloom.base.errors import ShapeError
from tileloom.graph import ops
from tileloom.graph.expand import expand


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 1)])
def test_conv_transpose_is_the_transpose(
    groups: int, strides: tuple[int, ...], dilations: tuple[int, ...], rng: np.random.Generator
) -> None:
    """<conv(x), y> = <x, conv_transpose(y)> for all x and y."""
    w = rng.integers(-4, 5, (4, 6 // groups, 3, 2)).astype("float64")
    pads = (1, 0, 0, 1)
    y = rng.integers(-4, 5, (1, 4, 3, 4)).astype("float64")
    back = check(
        lambda a, b: ops.conv_transpose(a, b, None, strides, pads, dilations, groups), y, w
    )
    x = rng.integers(-4, 5, back.shape).astype("float64")
    forth = values(lambda a, b: ops.conv(a, b, None, strides, pads, dilations, groups), x, w)
    assert (forth * y).sum() == (x * back).sum()


def test_conv_transpose_output_padding_and_bias(rng: np.random.Generator) -> None:
    x, w, b = rng.random((1, 2, 3)), rng.random((2, 2, 3)), rng.random(2)
    plain = check(lambda *t: ops.conv_transpose(*t, strides=2), x, w)
    more = check(lambda *t: ops.conv_transpose(*t, strides=2, output_padding=1), x, w, b)
    assert (plain.shape, more.shape) == ((1, 2, 7), (1, 2, 8))
    np.testing.assert_allclose(more[..., :7], plain + b[:, None])


# Kernel, stride, dilation, padding before and after, output padding: along one dimension.
ALONG = [
    (3, 2, 1, 1, 1, 1),  # phases of two taps and of one
    (4, 2, 1, 1, 1, 0),  # as many in each, which begin in the middle of a step
    (2, 3, 1, 0, 0, 2),  # a phase without any
    (1, 2, 1, 0, 0, 1),
    (5, 2, 1, 3, 0, 0),  # more cut off before than after
    (2, 2, 1, 3, 4, 0),  # whole steps of the input cut off
    (3, 2, 2, 1, 2, 1),  # phases that dilation skips
    (3, 3, 2, 0, 1, 0),
    (7, 3, 1, 2, 2, 2),
    (3, 1, 2, 1, 3, 0),
]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("along", ALONG)
def test_along_one_dimension(along: Any, groups: int, rng: np.random.Generator) -> None:
    kernel, stride, dilation, before, after, more = along
    x = rng.integers(-4, 5, (2, 2 * groups, 5)).astype("float64")
    w = rng.integers(-4, 5, (2 * groups, 3, kernel)).astype("float64")
    check(
        lambda a, b: ops.conv_transpose(
            a, b, None, stride, (before, after), dilation, groups, more
        ), x, w,
    )  # fmt: skip


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("first", "second"), zip(ALONG, ALONG[3:] + ALONG[:3], strict=True))
def test_along_two_dimensions(
    first: Any, second: Any, groups: int, rng: np.random.Generator
) -> None:
    kernel, strides, dilations, before, after, more = zip(first, second, strict=True)
    x = rng.integers(-4, 5, (1, 2 * groups, 5, 4)).astype("float64")
    w = rng.integers(-4, 5, (2 * groups, 1, *kernel)).astype("float64")
    found = check(
        lambda a, b: ops.conv_transpose(
            a, b, None, strides, (*before, *after), dilations, groups, more
        ), x, w,
    )  # fmt: skip
    lengths = [(k - 1) * d + 1 - p - q + m for k, _, d, p, q, m in (first, second)]
    assert found.shape[2:] == (4 * strides[0] + lengths[0], 3 * strides[1] + lengths[1])


def test_nothing_is_multiplied_by_zeros() -> None:
    """The product is with the image as it is, and with each element of the kernel once."""
    for kernel, stride in ((2, 2), (3, 2), (4, 2), (8, 2), (5, 3)):
        graph = graph_of(lambda a, b, s=stride: ops.conv_transpose(a, b, strides=s),
                         np.zeros((1, 2, 9, 9)), np.zeros((2, 3, kernel, kernel)))  # fmt: skip
        nodes = expand(graph).nodes
        assert all(node.op.name != "conv_transpose" for node in nodes)
        (conv,) = (node for node in nodes if node.op.name == "conv")
        image, weight = conv.inputs
        assert image.shape == (1, 2, 9, 9) and weight.type.size == 2 * 3 * kernel**2


def test_infinities_stay_where_the_kernel_reaches(rng: np.random.Generator) -> None:
    x, w = rng.random((1, 2, 4, 4)), rng.random((2, 2, 3, 3))
    x[0, 0, 2, 1] = np.inf
    found = check(lambda a, b: ops.conv_transpose(a, b, strides=2), x, w)
    assert np.isinf(found[..., 4:7, 2:5]).all() and not np.isnan(found).any()
    assert np.isinf(found).sum() == 2 * 9


def test_nothing_to_sum() -> None:
    w = np.ones((2, 3, 3), "float32")
    none = check(lambda a, b: ops.conv_transpose(a, b, strides=2), np.ones((0, 2, 4), "f4"), w)
    assert none.shape == (0, 3, 9)
    y, w = np.ones((1, 2, 1)), np.ones((2, 3, 4))
    assert check(lambda a, b: ops.conv_transpose(a, b, pads=2), y, w).shape == (1, 3, 0)


def test_mistakes_are_told() -> None:
    x, w = np.zeros((1, 4, 5)), np.zeros((4, 2, 3))
    for build, words in [
        (lambda a, b: ops.conv_transpose(a, ops.reshape(b, (2, 4, 3))), "the weight"),
        (lambda a, b: ops.conv_transpose(a, b, strides=(1, 1)), "strides needs one value for"),
        (lambda a, b: ops.conv_transpose(a, b, pads=(1, 1, 1)), "pads needs two values for each"),
        (lambda a, b: ops.conv_transpose(a, b, strides=0), "below one"),
        (lambda a, b: ops.conv_transpose(a, b, pads=4), "leaves less than nothing of spatial"),
    ]:
        with pytest.raises(ShapeError, match=words) as caught:
            values(build, x, w)
        assert str(caught.value).startswith("conv_transpose: ")
