"""Matrix products and convolutions with their epilogues, as products of packed panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import compute as te
from ...base import DType, dtype
from ...base.errors import InternalError
from ...compute import if_then_else
from ...expr import Add, And, Expr, ProducerLoad, Var, binary, cast, const
from ...tir import Buffer, BufferLoad, BufferStore, Stmt, make_buffer, seq
from ..contractions import accumulator_of, matmul_extents, reads_points
from ..nodes import Node
from ..ops.conv import around
from ..partition.layouts import Layout, is_plain, size_of
from ..symbols import is_symbolic
from .access import row_major
from .frame import Axis, Frame, constantly
from .gemm import product_kernel
from .gemm_plan import Element, Lines, Product, Tap
from .nest import allocate
from .stages import Stage, make_stages

if TYPE_CHECKING:
    from .machine import Machine

#: Bytes after which addresses fall into the same set of the nearest cache.
CACHE_WAY = 4096


@dataclass(frozen=True)
class Position:
    """Where a product stands: an index for each dimension of its result.

    The last index is `base + lane`, where a vector's lanes are apart from where it begins, so
    that a piece of a row is seen to stay together when the row is taken apart. For the same reason
    `pixel` is where it stands among the elements of the last `rank` dimensions, if that is known.
    """

    indices: tuple[Expr, ...]
    base: Expr | None = None
    lane: Expr | None = None
    rank: int = 0
    pixel: Expr | None = None

    def flat(self, shape: Sequence[int]) -> Expr:
        """The place among all elements."""
        if self.pixel is None:
            return _flat(self.indices, shape)
        first = len(shape) - self.rank
        return _flat([*self.indices[:first], self.pixel], [*shape[:first], size_of(shape[first:])])

    def along(self, dim: Sequence[tuple[int, int]], shape: Sequence[int]) -> Expr:
        """The index of a dimension that (extent, step) pairs of the product make up."""
        total: Expr | None = None
        for extent, step in dim:
            digit = self._digit(extent, step, shape)
            total = digit if total is None else total * extent + digit
        return const(0) if total is None else total

    def _digit(self, extent: int, step: int, shape: Sequence[int]) -> Expr:
        below = size_of(shape)
        for index, own in zip(self.indices, shape, strict=True):
            below //= own or 1
            # Not by what is more and what is less, which may depend on sizes; and where a size can
            # only be 0 there are no elements, so that any place is right.
            unit = below or 1
            if own != 1 and step % unit == 0 and below * own % (step * extent or 1) == 0:
                return self._part(index, own, step // unit, extent)
        raise InternalError("a dimension of an epilogue is made of none of its product's")

    def _part(self, index: Expr, own: int, step: int, extent: int) -> Expr:
        if self.base is not None and self.lane is not None and index is self.indices[-1]:
            if step == 1:
                start = self.base % extent if extent != own else self.base
                place: Expr = start + self.lane
                return place
            index = self.base
        value: Expr = index // step if step != 1 else index
        digit: Expr = value % extent if step * extent != own else value
        return digit


class Operand:
    """Elements of an operand: memory, or formulas of what is in memory."""

    def __init__(self, tensor: te.Tensor, buffers: Mapping[te.Tensor, Buffer]) -> None:
        self.dtype = tensor.dtype
        self.buffers = buffers
        self.memory = buffers.get(tensor)
        self.shape = tensor.static_shape
        self.stage = None if self.memory is not None else make_stages([tensor])[-1]

    @property
    def buffer(self) -> Buffer:
        """Its memory; only the packed operands have formulas."""
        if self.memory is None:
            raise InternalError("an operand that is made while it is packed has no memory")
        return self.memory

    def at(self, indices: Sequence[Expr], flat: Expr) -> Expr:
        """The element at a position, which is also given as one in a row of all elements."""
        if self.stage is None:
            return BufferLoad(self.buffer, [flat])
        # What has the operand's own shape lies at the same place, however `indices` are written.
        same: dict[Expr, Expr] = {
            load: BufferLoad(self.buffers[load.producer], [flat])
            for load in self.stage.loads
            if load.producer in self.buffers
            and load.producer.static_shape == self.shape
            and self._is_own_place(load)
        }
        live = [i for i, n in zip(indices, self.shape, strict=True) if n != 1]
        pairs = zip(self.stage.axes, self.stage.extents, strict=True)
        axes = [Axis((v,), (n,)) for v, n in pairs]
        return Frame(axes, live, self.buffers, known=same).formula(self.stage.body[0])

    def _is_own_place(self, load: ProducerLoad) -> bool:
        axes = () if self.stage is None else self.stage.axes
        live = [i for i, n in zip(load.indices, self.shape, strict=True) if n != 1]
        return len(live) == len(axes) and all(a is b for a, b in zip(live, axes, strict=True))


class Anchored:
    """A kernel around a product: its operands, its result's formulas, and their memory.

    Args:
        node: the matrix product or convolution.
        result: the tensor expression that stands for its result in the formulas.
        buffers: memory of the group's inputs and outputs.
        outputs: the formulas that the kernel stores.
        layouts: how they lie in the result.
    """

    def __init__(
        self,
        node: Node,
        operands: Sequence[te.Tensor],
        result: te.Tensor,
        buffers: Mapping[te.Tensor, Buffer],
        outputs: Sequence[te.Tensor],
        layouts: Mapping[te.Tensor, Layout],
    ) -> None:
        self.node = node
        self.result = result
        self.buffers = buffers
        self.layouts = layouts
        self.operands = [Operand(tensor, buffers) for tensor in operands]
        self.stages = make_stages([t for t in outputs if t is not result])
        self.raw = result in outputs
        self.dtype = accumulator_of(node)
        size = size_of(result.static_shape)
        for stage in self.stages:
            if stage.is_reduction or size_of(stage.extents) != size:
                raise InternalError("an epilogue must have the shape of the product")

    def store(self, position: Position, value: Expr) -> Stmt:
        """The results at a position of the product, whose sum is `value`."""
        final = cast(self.result.dtype, value)
        stmts: list[Stmt] = []
        if self.raw:
            where = position.flat(self.result.static_shape)
            stmts.append(BufferStore(self.buffers[self.result], final, (where,)))
        for stage in self.stages:
            axes, at = self._place(stage, position)
            sources = {self.result: constantly(final)}
            frame = Frame(axes, at, self.buffers, sources)
            where = frame.position(stage.axes, stage.extents)
            for tensor, part in zip(stage.op.outputs, stage.body, strict=True):
                stmts.append(BufferStore(self.buffers[tensor], frame.formula(part), (where,)))
        return seq(*stmts)

    def _place(self, stage: Stage, position: Position) -> tuple[list[Axis], list[Expr]]:
        """Axes of a stage, and where they stand when the product stands at a position."""
        shape = self.result.static_shape
        layout = self.layouts[stage.op.outputs[0]]
        dims = [dim for dim in layout if dim]
        axes = [Axis((v,), (n,)) for v, n in zip(stage.axes, stage.extents, strict=True)]
        at = [position.along(dim, shape) for dim in dims]
        count = 0 if position.pixel is None else _covering(dims, size_of(shape[-position.rank :]))
        if count > 1 and position.pixel is not None:
            parts = axes[-count:]
            whole = Axis(tuple(a.parts[0] for a in parts), tuple(a.extents[0] for a in parts))
            axes[-count:], at[-count:] = [whole], [position.pixel]
        return axes, at

    def waiting_room(self) -> Buffer:
        """Memory for unfinished sums: an output of the right size and type, else a new array."""
        size = 1
        for extent in self.result.static_shape:
            size *= extent
        for stage in self.stages:
            for tensor in stage.op.outputs:
                if tensor.dtype is self.dtype and is_plain(self.layouts[tensor]):
                    return self.buffers[tensor]
        if self.raw and self.result.dtype is self.dtype:
            return self.buffers[self.result]
        return make_buffer((size,), self.dtype, "sums")


def _covering(dims: Sequence[tuple[tuple[int, int], ...]], size: int) -> int:
    """How many of the last dimensions make up the last `size` elements, which are in order.

    0 if a dimension has others as well.
    """
    covered = 1
    for count, dim in enumerate(reversed(dims), 1):
        covered *= size_of(extent for extent, _ in dim)
        if covered == size:
            return count
    return 0


def anchored_kernel(kernel: Anchored, machine: Machine) -> Stmt:
    """The loops of a product with its epilogue."""
    product, room = (_matmul if kernel.node.op.kind == "matmul" else _conv)(kernel)
    body = product_kernel(product, machine)
    return body if room in kernel.buffers.values() else allocate(room, body)


def _position(outer: Sequence[Expr], column: Expr) -> Position:
    """A position whose last index may be that of a lane, the variable of a vector loop."""
    match column:
        case Add(base, Var(name="lane") as lane):
            return Position((*outer, column), base, lane)
        case Var(name="lane"):
            return Position((*outer, column), const(0), column)
    return Position((*outer, column))


def _flat(position: Sequence[Expr], shape: Sequence[int]) -> Expr:
    total: Expr = const(0)
    for index, step, extent in zip(position, row_major(shape), shape, strict=True):
        if extent != 1:
            total = total + index * step
    return total


# ---------------------------------------------------------------------------- matrix products


def _matmul(kernel: Anchored) -> tuple[Product, Buffer]:
    node = kernel.node
    rows, depth, columns = matmul_extents(node)
    batch = node.outputs[0].shape[:-2]
    left = _operand(kernel, 0, len(batch), node.attrs["transpose_a"])
    packed = None
    if node.op.name == "packed_matmul":
        packed = kernel.operands[1].buffer, node.inputs[1].shape[2]
    turned_right = bool(node.attrs.get("transpose_b", False))
    right = _operand(kernel, 1, len(batch), turned_right)
    room = kernel.waiting_room()

    def place(at: list[Expr], i: Expr, j: Expr) -> Expr:
        return _flat([*at, i, j], node.outputs[0].shape)

    def epilogue(at: list[Expr], i: Expr, j: Expr, value: Expr) -> Stmt:
        return kernel.store(_position([*at, i], j), value)

    product = Product(
        batch,
        rows,
        columns,
        depth,
        kernel.dtype,
        kernel.result.dtype,
        _kinds(kernel, 0, 1),
        left,
        right,
        epilogue,
        (room, place),
        packed,
        left_lines=None if node.attrs["transpose_a"] else _lines(kernel, 0, len(batch)),
        right_lines=_lines(kernel, 1, len(batch), turned=True) if turned_right else None,
        right_rows=None if turned_right else _lines(kernel, 1, len(batch)),
        turned_left=node.attrs["transpose_a"],
        turned_right=turned_right,
        left_collides=depth * kernel.operands[0].dtype.bytes % CACHE_WAY == 0,
    )
    return product, room


def _operand(kernel: Anchored, number: int, rank: int, transposed: bool) -> Element:
    """Elements of an operand whose batch dimensions may be missing or of extent 1."""
    operand, shape = kernel.operands[number], kernel.node.inputs[number].shape
    own = len(shape) - 2

    def element(at: list[Expr], row: Expr, column: Expr) -> Expr:
        inner = [column, row] if transposed else [row, column]
        index = [*at[rank - own :], *inner]
        return operand.at(index, _flat(index, shape))

    return element


def _lines(kernel: Anchored, number: int, rank: int, *, turned: bool = False) -> Lines | None:
    """Where an operand lies, whose last dimension is the depth, if it is memory as it stands."""
    operand, shape = kernel.operands[number], kernel.node.inputs[number].shape
    own = len(shape) - 2
    if operand.memory is None:
        return None

    def place(at: list[Expr], row: Expr, column: Expr) -> Expr:
        inner = [column, row] if turned else [row, column]
        return _flat([*at[rank - own :], *inner], shape)

    return Lines(operand.memory, place)


def _kinds(kernel: Anchored, left: int, right: int) -> tuple[DType, DType]:
    """The types of the operands, whatever panels hold them in."""
    words = kernel.node.attrs.get("words_of")
    found = kernel.operands[right].dtype if words is None else dtype(words)
    return kernel.operands[left].dtype, found


# ---------------------------------------------------------------------------- convolutions


def _conv(kernel: Anchored) -> tuple[Product, Buffer]:
    """Output channels are rows, output pixels are columns, and a window is the depth."""
    node = kernel.node
    x, weight = (tensor.shape for tensor in node.inputs)
    groups = node.attrs["groups"]
    channels, window = weight[0] // groups, weight[2:]
    pixels = node.outputs[0].shape[2:]
    size, depth = _product(pixels), weight[1] * _product(window)
    patches = _patches(kernel, x, window, pixels)
    room = kernel.waiting_room()

    weights = kernel.operands[1].buffer

    def weight_at(at: list[Expr], i: Expr, k: Expr) -> Expr:
        row: Expr = at[1] * channels + i if groups > 1 else i
        return row * depth + k  # type: ignore[no-any-return]

    def left(at: list[Expr], i: Expr, k: Expr) -> Expr:
        return BufferLoad(weights, [weight_at(at, i, k)])

    def position(at: list[Expr], i: Expr, j: Expr) -> list[Expr]:
        channel = at[1] * channels + i if groups > 1 else i
        return [at[0], channel, j]

    def place(at: list[Expr], i: Expr, j: Expr) -> Expr:
        return _flat(position(at, i, j), (x[0], weight[0], size))

    def right(at: list[Expr], k: Expr, j: Expr) -> Expr:
        return patches(at[0], at[1] * weight[1] if groups > 1 else const(0), k, j)

    windows: tuple[tuple[int, ...], Tap] | None = None
    if not reads_points(node) and not any(map(is_symbolic, window)):
        taps = _taps(kernel, x, window, pixels)

        def tap(at: list[Expr], channel: Expr, offsets: list[Expr], j: Expr) -> Expr:
            first = at[1] * weight[1] if groups > 1 else const(0)
            return taps(at[0], first + channel, offsets, j)

        windows = tuple(window), tap

    def epilogue(at: list[Expr], i: Expr, j: Expr, value: Expr) -> Stmt:
        n, channel, pixel = position(at, i, j)
        digits = _split(pixel, pixels)
        return kernel.store(Position((n, channel, *digits), rank=len(pixels), pixel=pixel), value)

    product = Product(
        (x[0], groups), channels, size, depth, kernel.dtype, kernel.result.dtype,
        _kinds(kernel, 1, 0), left, right, epilogue, (room, place),
        left_lines=Lines(weights, weight_at), taps=windows,
    )  # fmt: skip
    return product, room


def _patches(
    kernel: Anchored, x: Sequence[int], window: Sequence[int], pixels: Sequence[int]
) -> Callable[[Expr, Expr, Expr, Expr], Expr]:
    """Element k of the window at pixel j: of channel `first + k // window`."""
    taps = None if reads_points(kernel.node) else _taps(kernel, x, window, pixels)

    def patch(n: Expr, first: Expr, k: Expr, j: Expr) -> Expr:
        if taps is None:
            flat = _flat([n, first + k, j], (x[0], x[1], _product(pixels)))
            index = [n, first + k, *_split(j, pixels)]
            return kernel.operands[0].at(index, flat)
        channel, *offsets = _split(k, (x[1], *window))
        return taps(n, first + channel, offsets, j)

    return patch


def _taps(
    kernel: Anchored, x: Sequence[int], window: Sequence[int], pixels: Sequence[int]
) -> Callable[[Expr, Expr, Sequence[Expr], Expr], Expr]:
    """The element at some offsets in the window at pixel j of a channel."""
    attrs, buffer = kernel.node.attrs, kernel.operands[0].buffer
    strides, dilations, before = attrs["strides"], attrs["dilations"], attrs["pads"][: len(window)]

    def tap(n: Expr, channel: Expr, offsets: Sequence[Expr], j: Expr) -> Expr:
        inside: list[Expr] = []
        index = []
        for d, (pixel, offset) in enumerate(zip(_split(j, pixels), offsets, strict=True)):
            at = pixel * strides[d] + offset * dilations[d] - before[d]
            index.append(at)
            if before[d]:
                inside.append(at >= 0)
            end = (pixels[d] - 1) * strides[d] + (window[d] - 1) * dilations[d] - before[d]
            if end >= x[2 + d]:
                inside.append(at < x[2 + d])
        value: Expr = BufferLoad(buffer, [_flat([n, channel, *index], x)])
        if not inside:
            return value
        condition = inside[0]
        for part in inside[1:]:
            condition = binary(And, condition, part)
        return if_then_else(condition, value, const(around(attrs), buffer.dtype))

    return tap


def _split(position: Expr, extents: Sequence[int]) -> list[Expr]:
    """A flat position as one index for each extent."""
    found = []
    step = _product(extents)
    for k, extent in enumerate(extents):
        step //= extent or 1
        index = position // step if step != 1 else position
        found.append(index % extent if k else index)
    return found


def _product(extents: Sequence[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
