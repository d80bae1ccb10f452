"""From programs without layouts to programs with default ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...base.errors import UserError
from ..dialects.functions import function_type
from ..ir.attributes import DenseElementsAttr, StringAttr, TypeAttr
from ..ir.core import Operation, Value
from ..ir.rewriter import OpBuilder, set_module_integer
from ..ir.types import FunctionType, PointerType, ShapedType, TensorType, Type, as_tensor
from ..layouts.blocked import blocked_encoding, default_blocked
from ..layouts.encodings import (
    BlockedEncoding,
    CTALayout,
    DotOperandEncoding,
    Encoding,
    SliceEncoding,
)
from ..layouts.infer import halved, infer_dst_encoding
from ..layouts.properties import elements_per_thread
from .registry import tile_pass


@tile_pass("convert-triton-to-tritongpu", target="", num_warps=4, threads_per_warp=32, num_ctas=1)
def convert_triton_to_tritongpu(
    module: Operation, target: str, num_warps: int, threads_per_warp: int, num_ctas: int
) -> None:
    """Gives every tensor a layout: the default one, or that which follows from its operands.

    Args:
        target: `"cuda:80"`, kept in the module.
        num_warps: of a thread block, a power of two.
        threads_per_warp: of a warp.
        num_ctas: thread blocks of a cluster.
    """
    for name, value in (("num_warps", num_warps), ("threads_per_warp", threads_per_warp)):
        if value < 1 or value & (value - 1):
            raise UserError(f"{name} is a power of two, not {value}")
    converter = LayoutGiver(num_warps, threads_per_warp, num_ctas)
    for op in module.body:
        converter.function(op)
    set_module_integer(module, "ttg.num-ctas", num_ctas)
    set_module_integer(module, "ttg.num-warps", num_warps)
    set_module_integer(module, "ttg.threads-per-warp", threads_per_warp)
    if target:
        module.attributes["ttg.target"] = StringAttr(target)


class LayoutGiver:
    """Gives layouts to the values of functions, in their order."""

    def __init__(self, warps: int, threads: int, ctas: int) -> None:
        self.warps = warps
        self.threads = threads
        self.ctas = ctas
        self.converted: dict[tuple[Value, Encoding], Value] = {}

    def default(self, shape: Sequence[int]) -> BlockedEncoding:
        """The layout of a tensor that no operand gives one."""
        return default_blocked(shape, self.warps, self.threads, default_cta(shape, self.ctas))

    def typed(self, type: Type) -> Type:
        """The type with layouts where it has none."""
        if isinstance(type, TensorType) and type.encoding is None:
            return type.with_encoding(self.default(type.shape))  # type: ignore[no-any-return]
        if isinstance(type, PointerType):
            return PointerType(self.typed(type.pointee), type.space)
        if isinstance(type, FunctionType):
            return FunctionType([*map(self.typed, type.inputs)], [*map(self.typed, type.results)])
        return type

    def function(self, function: Operation) -> None:
        """Gives layouts to all values of a function."""
        if "function_type" in function.attributes:
            function.attributes["function_type"] = TypeAttr(self.typed(function_type(function)))
        for op in list(function.walk()):
            if op is not function:
                self.operation(op)
            for region in op.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        argument.type = self.typed(argument.type)

    def operation(self, op: Operation) -> None:
        """Gives layouts to the results of an operation."""
        match op.name:
            case "tt.expand_dims":
                self.expand(op)
            case "tt.dot":
                self.product(op)
            case "tt.cat":
                self.cat(op)
            case "tt.split":
                self.split(op)
            case "tt.reduce" | "tt.trans" | "tt.join" | "tt.reshape" | "tt.broadcast":
                self.inferred(op)
            case _:
                self.others(op)

    def others(self, op: Operation) -> None:
        """The results in default layouts; operands have those already, or are converted."""
        for result in op.results:
            result.type = self.typed(result.type)
        value = op.attributes.get("value")
        if op.name == "arith.constant" and isinstance(value, DenseElementsAttr):
            type = op.results[0].type
            if isinstance(type, ShapedType):
                op.attributes["value"] = DenseElementsAttr(type, value.values)
        self.default_operands(op)

    def default_operands(self, op: Operation) -> None:
        """Lets all operands be converted to default layouts."""
        for index, operand in enumerate(op.operands):
            wanted = self.default_of(operand.type)
            if wanted is not None:
                self.convert(op, index, wanted)

    def default_of(self, type: Type) -> Encoding | None:
        """The default layout of a tensor, if it has another one."""
        if not isinstance(type, TensorType):
            return None
        wanted = self.default(type.shape)
        return wanted if type.encoding is not wanted else None

    def convert(self, op: Operation, index: int, encoding: Encoding) -> None:
        """Lets an operand be converted to a layout."""
        operand = op.operands[index]
        type = as_tensor(operand.type)
        if type.encoding is encoding:
            return
        made = self.converted.get((operand, encoding))
        if made is None:
            build = OpBuilder().after_value(operand)
            made = build.convert(operand, type.with_encoding(encoding))
            self.converted[(operand, encoding)] = made
        op.set_operand(index, made)

    def inferred(self, op: Operation) -> None:
        """The results in the layouts that follow from those of the operands."""
        self.default_operands(op)
        source = as_tensor(op.operands[0].type).encoding
        for result in op.results:
            if not isinstance(result.type, TensorType):
                continue
            made = infer_dst_encoding(op, source)  # type: ignore[arg-type]
            if made is None:
                made = self.default(result.type.shape)
            result.type = result.type.with_encoding(made)

    def expand(self, op: Operation) -> None:
        """`tt.expand_dims`: the operand as a slice of the result's layout."""
        operand = as_tensor(op.operands[0].type)
        axis = op.integer("axis")
        source = self.default(operand.shape)
        fields = (source.size_per_thread, source.threads_per_warp, source.warps_per_cta)
        cta = CTALayout(
            _inserted(source.cta.per_cga, axis),
            _inserted(source.cta.split, axis),
            tuple(range(operand.rank, -1, -1)),
        )
        made = BlockedEncoding(
            *(_inserted(field, axis) for field in fields), range(operand.rank + 1), cta
        )
        self.convert(op, 0, SliceEncoding(axis, made))
        result = op.results[0]
        result.type = as_tensor(result.type).with_encoding(made)

    def product(self, op: Operation) -> None:
        """`tt.dot`: a thread has a square of the result; operands as it needs them."""
        result = as_tensor(op.results[0].type)
        rank = result.rank
        each = [1] * rank
        many = result.size // (self.warps * self.threads)
        if many >= 4:
            each[-2:] = 2, 2
        if many >= 16:
            each[-2:] = 4, 4
        order = range(rank - 1, -1, -1)
        cta = default_cta(result.shape, self.ctas)
        encoding = blocked_encoding(result.shape, each, order, self.warps, self.threads, cta)
        for index in (0, 1):
            self.convert(op, index, DotOperandEncoding(index, encoding))
        self.convert(op, 2, encoding)
        op.results[0].type = result.with_encoding(encoding)

    def cat(self, op: Operation) -> None:
        """`tt.cat`: a thread holds the elements of both operands."""
        left, right = (as_tensor(operand.type) for operand in op.operands)
        result = as_tensor(op.results[0].type)
        encoding = self.default(result.shape)
        needed = elements_per_thread(left) + elements_per_thread(right)
        needed = 1 << (needed - 1).bit_length()
        own = elements_per_thread(result.with_encoding(encoding))
        sizes = list(encoding.size_per_thread)
        sizes[encoding.order[0]] *= max(1, needed // own)
        made = encoding.replace(size_per_thread=tuple(sizes))
        op.results[0].type = result.with_encoding(made)

    def split(self, op: Operation) -> None:
        """`tt.split`: a thread has both halves."""
        operand = as_tensor(op.operands[0].type)
        encoding = operand.encoding
        made = halved(encoding) if isinstance(encoding, Encoding) else None
        if made is None:
            shape = operand.shape[:-1]
            rest = self.default(shape)
            last = len(shape)
            cta = rest.cta
            whole = BlockedEncoding(
                (*rest.size_per_thread, 2),
                (*rest.threads_per_warp, 1),
                (*rest.warps_per_cta, 1),
                (last, *rest.order),
                CTALayout((*cta.per_cga, 1), (*cta.split, 1), (last, *cta.order)),
            )
            self.convert(op, 0, whole)
            made = rest
        for result in op.results:
            result.type = as_tensor(result.type).with_encoding(made)


def default_cta(shape: Sequence[int], ctas: int) -> CTALayout:
    """The thread blocks of a cluster over a tensor, the slowest dimension last."""
    rank = len(shape)
    if ctas == 1:
        return CTALayout.one(rank)
    split = [1] * rank
    left = ctas
    for dim in range(rank):
        split[dim] = max(1, min(left, shape[dim]))
        left //= split[dim]
    split[rank - 1] *= ctas // prod(split)
    return CTALayout(tuple(split), tuple(split), tuple(range(rank - 1, -1, -1)))


def _inserted(values: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*values[:axis], 1, *values[axis:])
