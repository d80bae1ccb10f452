"""Elements moved, repeated, cut out, padded or joined."""

from __future__ import annotations

from collections.abc import Sequence

from ....base.errors import UnsupportedError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, handler

#: The side of the tiles of FRACTAL_NZ.
_SIDE = 16
_PLAIN = ("DefaultFormat", "NCHW", "ND")


@handler("Reshape", "ExpandDims", "Squeeze", "Flatten")
def reshape(call: Call) -> Tensor:
    return ops.reshape(call.tensor(0), call.output.shape)


@handler("BroadcastTo")
def broadcast_to(call: Call) -> Tensor:
    return ops.broadcast_to(call.tensor(0), call.output.shape)


@handler("Transpose")
def transpose(call: Call) -> Tensor:
    return ops.transpose(call.tensor(0), call.ints("perm", 1))


@handler("Tile")
def tile(call: Call) -> Tensor:
    return ops.tile(call.tensor(0), call.ints("multiples", 1))


@handler("Concat")
def concat(call: Call) -> Tensor:
    return ops.concat(call.tensors(), call.integer("axis", 0))


@handler("Split")
def split(call: Call) -> Sequence[Tensor]:
    sizes = [output.shape for output in call.desc.outputs]
    axis = call.integer("axis", 0)
    if not all(-len(shape) <= axis < len(shape) for shape in sizes):
        call.bad("axis")
    return ops.split(call.tensor(0), [shape[axis] for shape in sizes], axis)


@handler("Slice")
def slice_(call: Call) -> Tensor:
    begin, size = call.ints("begin", 1), call.ints("size", 2)
    shape = call.tensor(0).shape
    if not len(begin) == len(size) == len(shape):
        raise UserError(f"begin {begin} and size {size} do not fit shape {list(shape)}")
    ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, shape, strict=True)]
    return ops.strided_slice(call.tensor(0), begin, ends)


@handler("StridedSlice")
def strided_slice(call: Call) -> Tensor:
    """Bit k of a mask is about entry k; see TensorFlow's StridedSlice."""
    x = call.tensor(0)
    begin, end = call.ints("begin", 1), call.ints("end", 2)
    strides = call.ints("strides", 3)
    if not len(begin) == len(end) == len(strides):
        raise UserError("begin, end and strides differ in length")
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {name: call.integer(f"{name}_mask", 0) for name in names}
    entries = len(begin)
    fresh = sum(masks["new_axis"] >> k & 1 for k in range(entries))
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    for k in range(entries):
        axis = len(starts)
        if masks["ellipsis"] >> k & 1:
            whole = x.ndim - axis - (entries - k - 1 - fresh)
            starts += [0] * whole
            stops += list(x.shape[axis : axis + whole])
            steps += [1] * whole
        elif masks["new_axis"] >> k & 1:
            fresh -= 1
        elif axis >= x.ndim:
            raise UserError(f"there are more entries than the {x.ndim} axes of {x.type}")
        else:
            start, stop, step = begin[k], end[k], strides[k]
            extent = x.shape[axis]
            if masks["shrink_axis"] >> k & 1:
                start += extent if start < 0 else 0
                stop, step = start + 1, 1
            else:
                low, high = (0, extent) if step > 0 else (extent - 1, -extent - 1)
                start = low if masks["begin"] >> k & 1 else start
                stop = high if masks["end"] >> k & 1 else stop
            starts.append(start)
            stops.append(stop)
            steps.append(step)
    part = ops.strided_slice(x, starts, stops, list(range(len(starts))), steps)
    return ops.reshape(part, call.output.shape)


@handler("PadAkg")
def pad(call: Call) -> Tensor:
    head, tail = call.ints("head"), call.ints("tail")
    x, value = call.tensor(0), call.attr("pad_val", 0)
    if not len(head) == len(tail) == x.ndim:
        raise UserError(f"head {head} and tail {tail} do not fit {x.type}")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (int, float)):
        call.bad("pad_val")
    return ops.pad(x, list(zip(head, tail, strict=True)), value=value)


@handler("UnPadAkg")
def unpad(call: Call) -> Tensor:
    x, tail = call.tensor(0), call.ints("tail")
    if len(tail) != x.ndim:
        raise UserError(f"tail {tail} does not fit {x.type}")
    return ops.pad(x, [(0, -amount) for amount in tail])


@handler("TransData")
def trans_data(call: Call) -> Tensor:
    source, wanted = (call.text(f"{side}_format", "DefaultFormat") for side in ("src", "dst"))
    if source in _PLAIN and wanted == "FRACTAL_NZ":
        return to_fractal(call.tensor(0))
    if source == "FRACTAL_NZ" and wanted in _PLAIN:
        return from_fractal(call.tensor(0), call.output.shape)
    raise UnsupportedError(f"conversion from {source} to {wanted} is not supported")


def to_fractal(x: Tensor) -> Tensor:
    """[..., M, N] as [..., N/16, M/16, 16, 16], padded with zeros."""
    *batch, m, n = x.shape
    rows, columns = -(-m // _SIDE), -(-n // _SIDE)
    tails = [(0, 0)] * len(batch) + [(0, rows * _SIDE - m), (0, columns * _SIDE - n)]
    tiles = ops.reshape(ops.pad(x, tails), [*batch, rows, _SIDE, columns, _SIDE])
    k = len(batch)
    return ops.transpose(tiles, [*range(k), k + 2, k, k + 1, k + 3])


def from_fractal(x: Tensor, shape: Sequence[int]) -> Tensor:
    """[..., N1, M1, 16, 16] as [..., M, N], the padding cut off."""
    *batch, n1, m1, m0, n0 = x.shape
    k = len(batch)
    moved = ops.transpose(x, [*range(k), k + 1, k + 2, k, k + 3])
    plain = ops.reshape(moved, [*batch, m1 * m0, n1 * n0])
    return ops.strided_slice(plain, [0, 0], list(shape[-2:]), [k, k + 1])
