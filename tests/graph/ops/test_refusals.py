"""What op builders refuse, on both sides of each limit: the sentence tells which check it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.graph import ops
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.ops.windows import Windows


def t(*shape: int, kind: str = "float32") -> Any:
    return Tensor(tensor_type(shape, kind), "x")


def i(*shape: int) -> Any:
    return t(*shape, kind="int64")


IMAGE = t(1, 4, 6, 6)

REFUSED: list[tuple[Callable[[], Any], str]] = [
    # ------------------------------------------------------------------ and of other operators
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3)), "the weight .* in 1 groups does not fit"),
    (lambda: ops.conv_transpose(IMAGE, t(3, 2, 3, 3)), "the weight .* in 1 groups does not fit"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), groups=3), "in 3 groups does not fit"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 1, 1), pads=4), "less than nothing of .* 0"),
    (lambda: ops.attention(t(4), t(5, 4), t(5, 6)), "need two dimensions each"),
    (lambda: ops.attention(t(3, 4), t(4), t(5, 6)), "need two dimensions each"),
    (lambda: ops.attention(t(3, 4), t(5, 4), t(6)), "need two dimensions each"),
    (lambda: ops.reduce_as(t(2, 3), (2, 2)), "do(es)? not broadcast"),
    (lambda: ops.reduce_as(t(3), (2, 3)), r"shape \[2, 3\] does not broadcast to float32\[3\]"),
    (lambda: ops.cast(t(2), "float32x4"), "tensors of float32x4 do not exist"),
    (lambda: ops.cast(t(2), "handle"), "tensors of handle do not exist"),
    (lambda: ops.constant(["a"], "float32"), "cannot make a float32 constant of"),
    (lambda: ops.constant(300, "int8"), "cannot make a int8 constant of 300"),
    (lambda: ops.add(i(2), 1.5), "1.5 is no value of int64"),
    (lambda: ops.add(i(2), math.inf), "inf is no value of int64"),
    (lambda: ops.add_n([]), "add_n: needs at least one tensor"),
    (lambda: ops.einsum("ij->ji"), "needs at least one operand"),
    (lambda: ops.bincount(i(2, 3), 4), "counts the elements of a vector, not"),
    (lambda: ops.bincount(i(3), 0), "counts into 0 bins"),
    (lambda: ops.scatter_elements(t(4, 3), i(5, 4), t(5, 4)), "exceed axis 1 of data"),
    (lambda: ops.scatter_elements(t(4, 3), i(5, 3), t(5, 2)), "do not fit data"),
    (lambda: ops.det(t(3, 4)), "needs square matrices"),
    (lambda: ops.inverse(t(2, 4, 3)), "needs square matrices"),
    (lambda: ops.inverse(t(4)), "at least 2"),
    (lambda: ops.instance_norm_grad(t(4), t(4), t(1), t(1)), "needs a batch and a channel"),
    (lambda: ops.layer_norm(t(2, 3), t(2, 2, 3), axis=-1), "scale and bias do not broadcast"),
    (lambda: ops.lrn(t(4), 3), "needs a batch and a channel dimension"),
    (lambda: ops.stack([]), "needs at least one tensor"),
    (lambda: ops.tile(t(2, 3), (2, -1)), "negative repeats"),
    (lambda: ops.repeat(t(2, 3), -1, 0), "negative repeats -1"),
    (lambda: ops.roll(t(2, 3), (1, 2), (0, 1, 0)), "2 shifts along 3 axes"),
    (lambda: ops.triu(t(3)), "triu: needs two dimensions"),
    (lambda: ops.tril(t(3)), "tril: needs two dimensions"),
    (lambda: ops.dropout(t(2), t(2, kind="bool"), 1.5), "a dropout rate of 1.5"),
    (lambda: ops.dropout(t(2), t(2, kind="bool"), -0.1), "a dropout rate of -0.1"),
    (lambda: ops.bias_add(t(2, 3), t(2), 1), "does not fit axis 1"),
    # ------------------------------------------------------------------ convolutions, windows
    (lambda: ops.conv(t(1, 4), t(4, 4)), "the input must have at least 3|at least 3"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3)), "as many dimensions as the input"),
    (lambda: ops.conv(IMAGE, t(4, 2, 3, 3), groups=0), "0 groups do not divide"),
    (lambda: ops.conv(IMAGE, t(4, 2, 3, 3), groups=3), "3 groups do not divide"),
    (lambda: ops.conv(IMAGE, t(5, 2, 3, 3), groups=2), "2 groups do not divide"),
    (lambda: ops.conv(IMAGE, t(4, 3, 3, 3)), "takes 3 channels in 1 groups"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), t(3)), "needs one value for each of 4"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), t(1, 4)), "needs one value for each of 4"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), strides=0), "must be positive"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), dilations=(1, 0)), "must be positive"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), strides=(1, 1, 1)), "strides needs one value"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), pads=(1, 1, 1)), "pads needs two values"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), pads=(0, 0, 0, -1)), "negative padding"),
    (lambda: ops.conv(IMAGE, t(4, 4, 7, 3)), "a window of 7 does not fit"),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 3), dilations=3), "a window of 7 does not fit"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), strides=(1,)), "strides needs one value"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), dilations=(1,)), "dilations needs one value"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), output_padding=(1,)), "output_padding needs"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), pads=(1,)), "pads needs two values"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), strides=0), "below one"),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), dilations=(0, 1)), "below one"),
    (lambda: ops.max_pool(IMAGE, (0, 2)), "must be positive"),
    (lambda: ops.max_pool(IMAGE, (2, 2), pads=(0, 0, -1, 0)), "negative padding"),
    (lambda: ops.max_pool(IMAGE, (7, 2)), "a window of 7 does not fit"),
    # ------------------------------------------------------------------ products
    (lambda: ops.matmul(t(2, 3), t(4, 5)), "3 columns, 4 rows"),
    (lambda: ops.matmul(t(2, 3), t(3, 5), transpose_a=True), "2 columns, 3 rows"),
    (lambda: ops.matmul(t(2, 3), t(3, 5), transpose_b=True), "3 columns, 5 rows"),
    (lambda: ops.matmul(t(3), t(4)), "do not fit"),
    (lambda: ops.matmul(t(), t(4)), "the left operand has no dimensions"),
    (lambda: ops.matmul(t(4), t()), "the right operand has no dimensions"),
    (lambda: ops.matmul(t(2, 3), t(3, 4), out_dtype="int32"), "does not fit int32"),
    (lambda: ops.matmul(i(2, 3), i(3, 4), out_dtype="int32"), "does not fit int32"),
    (lambda: ops.einsum("ij,jk->ik", t(2, 3)), "einsum"),
    (lambda: ops.einsum("ij,jk->il", t(2, 3), t(3, 4)), "einsum"),
    (lambda: ops.einsum("ij,jk->ik", t(2, 3), t(4, 5)), "einsum"),
    (lambda: ops.einsum("ijk->ij", t(2, 3)), "einsum"),
    # ------------------------------------------------------------------ shapes
    (lambda: ops.reshape(t(2, 3), (4, 2)), "reshape"),
    (lambda: ops.reshape(t(2, 3), (-1, 4)), "reshape"),
    (lambda: ops.reshape(t(2, 3), (-1, -1)), "reshape"),
    (lambda: ops.transpose(t(2, 3), (0, 0)), "no permutation"),
    (lambda: ops.transpose(t(2, 3), (0,)), "no permutation"),
    (lambda: ops.broadcast_to(t(2, 3), (2, 4)), "broadcast"),
    (lambda: ops.broadcast_to(t(2, 3), (3,)), "broadcast"),
    (lambda: ops.concat([t(2, 3), t(2, 4)], 0), "differ in more than axis 0"),
    (lambda: ops.concat([t(2, 3), t(2, 3, 1)], 0), "differ in more than axis 0"),
    (lambda: ops.concat([t(2, 3), i(2, 3)], 0), "different types"),
    (lambda: ops.concat([t(2, 3), t(2, 3)], 2), "axis 2 is out of range"),
    (lambda: ops.split(t(6), 0), "cannot cut into 0 parts"),
    (lambda: ops.split(t(6), [2, 3]), "do not add up to axis 0"),
    (lambda: ops.split(t(6), [8, -2]), "do not add up to axis 0"),
    (lambda: ops.split(t(6), 2, 1), "axis 1 is out of range"),
    (lambda: ops.split(t(6), 2, -2), "axis -2 is out of range"),
    (lambda: ops.pad(t(3), ((-2, -2),)), "cuts off more than"),
    (lambda: ops.pad(t(3), ((1, 1), (0, 0))), "two amounts for each dimension"),
    (lambda: ops.squeeze(t(1, 3), 1), "squeeze"),
    (lambda: ops.expand_dims(t(3), 3), "axis 3 is out of range|expand_dims"),
    (lambda: ops.strided_slice(t(6), [0], [3], [0], [0]), "the step along axis 0 is 0"),
    (lambda: ops.strided_slice(t(6), [0, 1], [3]), "strided_slice"),
    (lambda: ops.strided_slice(t(6), [0], [3], [1]), "axis 1 is out of range"),
    (lambda: ops.tile(t(3), (-1,)), "tile"),
    (lambda: ops.depth_to_space(t(1, 3, 2, 2), 2), "depth_to_space"),
    (lambda: ops.space_to_depth(t(1, 3, 3, 2), 2), "space_to_depth"),
    (lambda: ops.diagonal(t(3)), "diagonal"),
    # ------------------------------------------------------------------ indices
    (lambda: ops.gather(t(3), t(2)), "the indices must have an integer type"),
    (lambda: ops.gather(t(3, 2), i(2), 2), "axis 2 is out of range"),
    (lambda: ops.gather_elements(t(3, 4), i(3)), "need as many dimensions"),
    (lambda: ops.gather_elements(t(3, 4), i(4, 4), 1), "exceed axis 0 of the data"),
    (lambda: ops.gather_nd(t(3, 4), i(2, 3)), "do not fit"),
    (lambda: ops.scatter_elements(t(3), i(2), t(3)), "do not fit data"),
    (lambda: ops.scatter_elements(t(3), i(2, 1), t(2, 1)), "do not fit data"),
    (lambda: ops.scatter_elements(t(3), t(2), t(2)), "the indices must have an integer type"),
    (lambda: ops.scatter_elements(t(3), i(2), t(2), reduction="mean"), "unknown reduction"),
    (lambda: ops.scatter_nd(t(3, 4), i(2, 3), t(2)), "do not fit data"),
    (lambda: ops.scatter_nd(t(3, 4), i(2, 1), t(2)), "do not fit data"),
    (lambda: ops.topk(t(5), 6), "cannot take 6 elements"),
    (lambda: ops.topk(t(5), -1), "cannot take -1 elements"),
    (lambda: ops.one_hot(t(3), 4), "one_hot"),
    # ------------------------------------------------------------------ norms, losses
    (lambda: ops.layer_norm(t(2, 3), None, t(3)), "a bias needs a scale"),
    (lambda: ops.layer_norm_with_stats(t(2, 3), None, t(3)), "a bias needs a scale"),
    (lambda: ops.layer_norm(t(2, 3), t(2)), "do not broadcast to"),
    (lambda: ops.group_norm(t(2, 4, 3), 3, t(4), t(4)), "3 groups do not divide"),
    (lambda: ops.group_norm(t(4), 2, t(4), t(4)), "batch and a channel dimension|do not divide"),
    (lambda: ops.instance_norm(t(4), t(4), t(4)), "batch and a channel dimension"),
    (lambda: ops.batch_norm(t(4), *[t(4)] * 4), "one value for each channel"),
    (lambda: ops.batch_norm(t(2, 4), t(4), t(4), t(3), t(4)), "mean must have one value"),
    (lambda: ops.nll_loss(t(4, 3), i(3)), "targets .* do not fit"),
    (lambda: ops.nll_loss(t(4, 3), t(4)), "the targets must have an integer type"),
    (lambda: ops.nll_loss(t(), i()), "needs a dimension of classes"),
    (lambda: ops.nll_loss(t(4, 3), i(4), t(4)), "weights .* do not fit the classes"),
    (lambda: ops.mse_loss(t(4), t(4), "all"), "unknown reduction"),
    (lambda: ops.attention(t(), t(3, 4), t(3, 4)), "two dimensions each"),
    (lambda: ops.resize(t(1, 1, 4, 4), (1, 1, 8)), "one size for each"),
    (lambda: ops.resize(t(1, 1, 4, 4), (1, 1, 8, 8), "area"), "unknown mode 'area'"),
    (lambda: ops.resize(t(1, 1, 4, 4), (1, 1, 8, 8), coordinates="odd"), "unknown coordinates"),
    (lambda: ops.resize(t(1, 1, 4, 4), (1, 1, 8, 8), nearest="odd"), "unknown nearest"),
    (lambda: ops.cumsum(t(3), 1), "axis 1"),
    (lambda: ops.cumsum(t(3), -2), "axis -2"),
    (lambda: ops.sum(t(3, 4), (0, 0)), "repeated axis"),
    (lambda: ops.sum(t(3, 4), (0, -2)), "repeated axis"),
    (lambda: ops.max(t(0, 3), 0), "no elements"),
    (lambda: ops.argmin(t(0, 3), 0), "no elements"),
    (lambda: ops.add(t(3), t(4)), "do not broadcast"),
    (lambda: ops.where(t(3), t(3), t(3)), "the condition must have a bool type"),
    (lambda: ops.swiglu(t(2, 3)), "axis 1 of .* has no halves"),
    (lambda: ops.flatten(t(2, 3), 3), "axis 3 is out of range"),
    (lambda: ops.flatten(t(2, 3), -4), "axis -4 is out of range"),
]


@pytest.mark.parametrize(("build", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        build()


ALLOWED: list[tuple[Callable[[], Tensor], tuple[int, ...]]] = [
    # What is just within the limits of the refusals above.
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), groups=2), (1, 4, 8, 8)),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 1, 1), pads=3), (1, 2, 0, 0)),
    (lambda: ops.reduce_as(t(2, 3), (1, 3)), (1, 3)),
    (lambda: ops.reduce_as(t(4, 2, 3), (2, 1)), (2, 1)),
    (lambda: ops.add(i(2), 2.0), (2,)),
    (lambda: ops.bincount(i(3), 1), (1,)),
    (lambda: ops.scatter_elements(t(4, 3), i(5, 3), t(5, 3)), (4, 3)),
    (lambda: ops.tile(t(2, 3), (0, 1)), (0, 3)),
    (lambda: ops.repeat(t(2, 3), 0, 1), (2, 0)),
    (lambda: ops.roll(t(2, 3), (1, 2), 0), (2, 3)),
    (lambda: ops.dropout(t(2), t(2, kind="bool"), 1), (2,)),
    (lambda: ops.dropout(t(2), t(2, kind="bool"), 0), (2,)),
    (lambda: ops.lrn(t(2, 4), 3), (2, 4)),
    (lambda: ops.conv(IMAGE, t(4, 4, 6, 6)), (1, 4, 1, 1)),
    (lambda: ops.conv(IMAGE, t(8, 1, 3, 3), t(8), groups=4), (1, 8, 4, 4)),
    (lambda: ops.conv(IMAGE, t(4, 4, 3, 2), pads=(1, 0, 2, 1), strides=(2, 3)), (1, 4, 4, 2)),
    (lambda: ops.conv_transpose(IMAGE, t(4, 2, 3, 3), strides=2, output_padding=1), (1, 2, 14, 14)),
    (lambda: ops.max_pool(IMAGE, (6, 2), 2), (1, 4, 1, 3)),
    (lambda: ops.max_pool(IMAGE, (3, 3), 2, ceil_mode=True), (1, 4, 3, 3)),
    (lambda: ops.max_pool(IMAGE, (3, 3), 2), (1, 4, 2, 2)),
    (lambda: ops.max_pool(t(1, 1, 5), (2,), 2, (0, 1), ceil_mode=True), (1, 1, 3)),
    (lambda: ops.max_pool(t(1, 1, 4), (2,), 3, (0, 1), ceil_mode=True), (1, 1, 2)),
    (lambda: ops.max_pool(t(1, 1, 3), (1,), 2, (0, 1), ceil_mode=True), (1, 1, 2)),
    (lambda: ops.matmul(t(3), t(3)), ()),
    (lambda: ops.matmul(t(2, 1, 4, 3), t(5, 3, 6)), (2, 5, 4, 6)),
    (lambda: ops.matmul(t(3), t(5, 3, 6)), (5, 6)),
    (lambda: ops.matmul(t(5, 6, 3), t(3)), (5, 6)),
    (lambda: ops.split(t(7), 3)[2], (1,)),
    (lambda: ops.split(t(2), 3)[2], (0,)),
    (lambda: ops.split(t(6), [6, 0])[1], (0,)),
    (lambda: ops.pad(t(3), ((-1, -2),)), (0,)),
    (lambda: ops.pad(t(3), ((-1, 2),)), (4,)),
    (lambda: ops.concat([t(2, 3), t(2, 0)], -1), (2, 3)),
    (lambda: ops.reshape(t(0, 3), (0, 5)), (0, 5)),
    (lambda: ops.reshape(t(4, 3), (2, -1)), (2, 6)),
    (lambda: ops.strided_slice(t(6), [-1], [-7], [0], [-2]), (3,)),
    (lambda: ops.strided_slice(t(6), [4], [2]), (0,)),
    (lambda: ops.strided_slice(t(6), [-9], [9]), (6,)),
    (lambda: ops.strided_slice(t(6, 4), [1], [9], [1], [2]), (6, 2)),
    (lambda: ops.gather(t(3, 4), i(2, 5), 1), (3, 2, 5)),
    (lambda: ops.gather_elements(t(3, 4), i(2, 7), 1), (2, 7)),
    (lambda: ops.gather_nd(t(3, 4, 5), i(7, 2)), (7, 5)),
    (lambda: ops.gather_nd(t(3, 4, 5), i(3, 1), 1), (3, 5)),
    (lambda: ops.scatter_nd(t(3, 4), i(2, 2), t(2)), (3, 4)),
    (lambda: ops.topk(t(5), 5)[0], (5,)),
    (lambda: ops.topk(t(5), 0)[1], (0,)),
    (lambda: ops.layer_norm(t(2, 3, 4), t(3, 4), t(4), 1), (2, 3, 4)),
    (lambda: ops.diagonal(t(2, 3, 5)), (2, 3)),
    (lambda: ops.depth_to_space(t(1, 12, 2, 3), 2), (1, 3, 4, 6)),
    (lambda: ops.space_to_depth(t(1, 3, 4, 6), 2), (1, 12, 2, 3)),
    (lambda: ops.tile(t(2, 3), (2, 0)), (4, 0)),
    (lambda: ops.repeat(t(2, 3), 2), (12,)),
    (lambda: ops.flatten(t(2, 3, 4), 0), (1, 24)),
    (lambda: ops.flatten(t(2, 3, 4), 3), (24, 1)),
    (lambda: ops.flatten(t(2, 3, 4), -1), (24, 1)),
    (lambda: ops.stack([t(2, 3)] * 4, -1), (2, 3, 4)),
    (lambda: ops.unstack(t(2, 3), 1)[2], (2,)),
    (lambda: ops.sum(t(2, 3, 4), (0, -1), True), (1, 3, 1)),
    (lambda: ops.max(t(0, 3), 1), (0,)),
    (lambda: ops.argmax(t(2, 3), None, True), (1, 1)),
    (lambda: ops.nll_loss(t(4, 3, 5), i(4, 5), t(3), reduction="none")[0], (4, 5)),
    (lambda: ops.attention(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6)), (2, 3, 6)),
    (lambda: ops.einsum("...ij,jk", t(7, 2, 3), t(3, 4)), (7, 2, 4)),
    (lambda: ops.einsum("ii->i", t(3, 3)), (3,)),
    (lambda: ops.einsum("ij->ji", t(2, 3)), (3, 2)),
]


@pytest.mark.parametrize(("build", "shape"), ALLOWED, ids=range(len(ALLOWED)))
def test_shapes_within_the_limits(build: Callable[[], Tensor], shape: tuple[int, ...]) -> None:
    assert build().shape == shape


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads", "dilation", "ceil", "expected"),
    [(6, 3, 1, (0, 0), 1, False, 4), (6, 3, 2, (0, 0), 1, False, 2), (6, 3, 2, (0, 0), 1, True, 3),
     (7, 3, 2, (0, 0), 1, True, 3), (5, 3, 1, (1, 1), 2, False, 3), (4, 2, 3, (0, 1), 1, True, 2),
     (4, 1, 4, (0, 1), 1, True, 1), (4, 1, 4, (1, 1), 1, True, 2), (0, 1, 1, (1, 0), 1, False, 1)],
)  # fmt: skip
def test_how_many_windows_there_are(
    size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil: bool,
    expected: int,
) -> None:  # fmt: skip
    windows = Windows((kernel,), (stride,), pads, (dilation,))
    assert windows.outputs((size,), ceil) == (expected,)
    assert windows.reach(0) == (kernel - 1) * dilation + 1
