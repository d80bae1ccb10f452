"""Pointers to blocks become tensors of pointers with masks.

A pointer to a block is a base, a shape, strides and offsets. Only the offsets change; loops and
branches carry them, as 64-bit integers, in place of the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...base.errors import UserError
from ..ir.attributes import DenseArrayAttr, EnumAttr, IntegerAttr
from ..ir.core import Block, Operation, Region, Value
from ..ir.interning import Attribute
from ..ir.rewriter import OpBuilder
from ..ir.types import I1, I32, I64, PointerType, TensorType, Type, is_float
from .registry import tile_pass


@dataclass(frozen=True)
class BlockPointerParts:
    """The parts of a pointer to a block."""

    base: Value
    shape: Sequence[Value]
    strides: Sequence[Value]
    offsets: Sequence[Value]
    block: TensorType

    def has_same_tensor(self, other: BlockPointerParts) -> bool:
        """Whether the other pointer is into the same tensor."""
        return (self.base, *self.shape, *self.strides) == (
            *(other.base, *other.shape),
            *other.strides,
        )

    def tensor_of(self, element: Type) -> TensorType:
        """The type of a tensor of the block's shape."""
        return TensorType(self.block.shape, element)

    def indices(self, dim: int, build: OpBuilder) -> Value:
        """The indices into the tensor along a dimension, of extent one along the others."""
        extent = self.block.shape[dim]
        row = TensorType((extent,), I64)
        start = build("tt.splat", self.offsets[dim], type=row)
        bounds: dict[str, Attribute] = {"start": IntegerAttr(0), "end": IntegerAttr(extent)}
        narrow = build("tt.make_range", type=TensorType((extent,), I32), attributes=bounds)
        value = build("arith.addi", start, build("arith.extsi", narrow, type=row))
        shape = [extent]
        for other in range(self.block.rank):
            if other != dim:
                shape.insert(other, 1)
                value = build(
                    "tt.expand_dims",
                    value,
                    type=TensorType(shape, I64),
                    attributes={"axis": IntegerAttr(other)},
                )
        return value

    def pointers(self, indices: Sequence[Value], build: OpBuilder) -> Value:
        """The tensor of pointers to the elements."""
        type = self.tensor_of(self.base.type)
        pointer = build("tt.splat", self.base, type=type)
        for index, stride in zip(indices, self.strides, strict=True):
            wide = build("tt.splat", stride, type=index.type)
            offset = build("arith.muli", index, wide)
            offset = build("tt.broadcast", offset, type=self.tensor_of(I64))
            pointer = build("tt.addptr", pointer, offset)
        return pointer

    def mask(self, indices: Mapping[int, Value], build: OpBuilder) -> Value | None:
        """Where elements are inside of the tensor along some dimensions."""
        mask: Value | None = None
        for dim, index in indices.items():
            zero = build("tt.splat", build.constant(0, I64), type=index.type)
            lower = build("arith.cmpi", index, zero, attributes=_predicate("sge"))
            end = build("tt.splat", self.shape[dim], type=index.type)
            upper = build("arith.cmpi", index, end, attributes=_predicate("slt"))
            inside = build("arith.andi", lower, upper)
            inside = build("tt.broadcast", inside, type=self.tensor_of(I1))
            mask = inside if mask is None else build("arith.andi", mask, inside)
        return mask


def _predicate(word: str) -> dict[str, Attribute]:
    return {"predicate": EnumAttr("keyword", word)}


Pointers = Sequence[BlockPointerParts | None]


def is_block_pointer(type: Type) -> bool:
    """Whether a type is that of pointers to blocks."""
    return isinstance(type, PointerType) and isinstance(type.pointee, TensorType)


@tile_pass("triton-rewrite-tensor-pointer")
def triton_rewrite_tensor_pointer(module: Operation) -> None:
    """Rewrites loads and stores through pointers to blocks, and what makes and carries them."""
    if any(op.name == "tt.make_tensor_ptr" for op in module.walk()):
        rewriting = _Rewriting()
        for region in module.regions:
            rewriting.region(region)
        for op in reversed(rewriting.dead):
            op.erase()


class _Rewriting:
    """What is known of the pointers to blocks so far."""

    def __init__(self) -> None:
        self.known: dict[Value, BlockPointerParts] = {}
        self.dead: list[Operation] = []

    def region(self, region: Region) -> None:
        for block in region.blocks:
            for op in block.snapshot():
                self.operation(op)

    def operation(self, op: Operation) -> None:
        match op.name:
            case "tt.make_tensor_ptr":
                self.make(op)
            case "tt.advance":
                self.advance(op)
            case "tt.load" | "tt.store":
                if is_block_pointer(op.operands[0].type):
                    self.access(op)
            case "scf.for":
                self.loop(op)
            case "scf.if":
                self.branch(op)
            case "scf.while":
                self.while_loop(op)
            case "scf.yield" | "scf.condition":
                return  # rewritten with what is around it
            case _:
                if any(is_block_pointer(value.type) for value in op.operands):
                    raise UserError(f"'{op.name}' op takes a pointer to a block")
                for region in op.regions:
                    self.region(region)

    def pointer(self, value: Value) -> BlockPointerParts:
        found = self.known.get(value)
        if found is None:
            raise UserError("a pointer to a block is not made by tt.make_tensor_ptr")
        return found

    def make(self, op: Operation) -> None:
        build = OpBuilder(before=op)
        shape, strides = list(op.operand_group("shape")), list(op.operand_group("strides"))
        wide = [build("arith.extsi", value, type=I64) for value in op.operand_group("offsets")]
        block = op.results[0].type.pointee  # type: ignore[attr-defined]
        self.known[op.results[0]] = BlockPointerParts(op.operands[0], shape, strides, wide, block)
        self.dead.append(op)

    def advance(self, op: Operation) -> None:
        build = OpBuilder(before=op)
        source = self.pointer(op.operands[0])
        moved = [
            build("arith.addi", offset, build("arith.extsi", by, type=I64))
            for offset, by in zip(source.offsets, op.operands[1:], strict=True)
        ]
        self.known[op.results[0]] = replace(source, offsets=moved)
        self.dead.append(op)

    def access(self, op: Operation) -> None:
        pointer = self.pointer(op.operands[0])
        build = OpBuilder(before=op)
        indices = [pointer.indices(dim, build) for dim in range(pointer.block.rank)]
        address = pointer.pointers(indices, build)
        checked = op.attributes.get("boundaryCheck")
        dims = checked.values if isinstance(checked, DenseArrayAttr) else ()
        mask = pointer.mask({dim: indices[dim] for dim in dims}, build)
        masks = [] if mask is None else [mask]
        if op.name == "tt.store":
            attributes = _without(op, "boundaryCheck", "operandSegmentSizes")
            groups = (1, 1, len(masks))
            build.create(op.name, (address, op.operands[1], *masks), (), attributes, (), groups)
        else:
            other = _padding(op, pointer, build) if masks else []
            attributes = _without(op, "boundaryCheck", "padding", "operandSegmentSizes")
            made = build.create(
                *(op.name, (address, *masks, *other), None, attributes, ()),
                (1, len(masks), len(other)),
            )
            op.results[0].replace_uses(made.results[0])
        self.dead.append(op)

    # Loops and branches carry offsets. Where a value was a pointer, a stand-in is used until the
    # operations that use it are erased.

    def stand_in(self, old: Value, pointer: BlockPointerParts, build: OpBuilder) -> None:
        made = build("ub.poison", type=old.type)
        if made.defining_op is not None:
            self.dead.append(made.defining_op)
        old.replace_uses(made)
        self.known[made] = pointer

    def learn(
        self, old: Sequence[Value], new: Sequence[Value], pointers: Pointers, build: OpBuilder
    ) -> None:
        """Lets values stand for others, of which some are pointers by their offsets."""
        at = 0
        for value, pointer in zip(old, pointers, strict=True):
            count = 1 if pointer is None else len(pointer.offsets)
            if pointer is None:
                value.replace_uses(new[at])
            else:
                carried = replace(pointer, offsets=new[at : at + count])
                self.stand_in(value, carried, build)
            at += count

    def pointers(self, values: Sequence[Value]) -> Pointers:
        """The values that are pointers to blocks."""
        return [self.pointer(v) if is_block_pointer(v.type) else None for v in values]

    def spread(self, values: Sequence[Value], expected: Pointers | None = None) -> list[Value]:
        """Values, with the offsets of pointers in their place."""
        made: list[Value] = []
        for index, (value, pointer) in enumerate(zip(values, self.pointers(values), strict=True)):
            other = expected[index] if expected is not None else None
            if pointer is None:
                made.append(value)
                continue
            if other is not None and not pointer.has_same_tensor(other):
                raise UserError("a pointer to a block is carried into another tensor")
            made.extend(pointer.offsets)
        return made

    def arguments(self, block: Block, first: int, pointers: Pointers) -> None:
        """Gives a block offsets for those of its arguments that are pointers."""
        old = block.arguments[first:]
        new: list[Value] = []
        for argument, pointer in zip(old, pointers, strict=True):
            types = [argument.type] if pointer is None else [I64] * len(pointer.offsets)
            new.extend(block.add_argument(type, argument.name) for type in types)
        self.learn(old, new, pointers, OpBuilder().at_start(block))
        block.remove_arguments([argument.index for argument in old])

    def rebuilt(self, op: Operation, operands: Sequence[Value], results: Pointers) -> Operation:
        """The operation with other operands, and offsets for those results that are pointers."""
        types: list[Type] = []
        for result, pointer in zip(op.results, results, strict=True):
            types.extend([result.type] if pointer is None else [I64] * len(pointer.offsets))
        regions = [Region() for _ in op.regions]
        made = Operation(op.definition, operands, types, op.attributes, regions, span=op.span)
        for source, target in zip(op.regions, regions, strict=True):
            source.move_blocks_to(target)
        op.block_of().insert_before(op, made)
        self.learn(op.results, made.results, results, OpBuilder().after_op(made))
        op.erase()
        return made

    def loop(self, op: Operation) -> None:
        pointers = self.pointers(op.operands[3:])
        body = op.body
        if any(pointers):
            self.arguments(body, 1, pointers)
            op = self.rebuilt(op, [*op.operands[:3], *self.spread(op.operands[3:])], pointers)
        self.region(op.regions[0])
        last = body.terminator
        last.set_operands(self.spread(last.operands, pointers))

    def branch(self, op: Operation) -> None:
        for region in op.regions:
            self.region(region)
        ends = [region.blocks[0].terminator for region in op.regions if region.blocks]
        pointers = self.pointers(ends[0].operands)
        for last in ends:
            last.set_operands(self.spread(last.operands, pointers))
        if any(pointers):
            self.rebuilt(op, op.operands, pointers)

    def while_loop(self, op: Operation) -> None:
        before, after = (region.blocks[0] for region in op.regions)
        carried = self.pointers(op.operands)
        self.arguments(before, 0, carried)
        self.region(op.regions[0])
        condition, last = before.terminator, after.terminator
        given = self.pointers(condition.operands[1:])
        self.arguments(after, 0, given)
        self.region(op.regions[1])
        condition.set_operands([condition.operands[0], *self.spread(condition.operands[1:])])
        last.set_operands(self.spread(last.operands, carried))
        if any(carried) or any(given):
            self.rebuilt(op, self.spread(op.operands), given)


def _padding(op: Operation, pointer: BlockPointerParts, build: OpBuilder) -> list[Value]:
    """What a load gives outside of the tensor."""
    word = op.enum("padding")
    if word is None:
        return []
    element = pointer.block.element
    zero = 0.0 if is_float(element) else 0
    scalar = build.constant(math.nan if word == "pad_nan" else zero, element)
    return [build("tt.splat", scalar, type=pointer.tensor_of(element))]


def _without(op: Operation, *names: str) -> dict[str, Attribute]:
    return {name: value for name, value in op.attributes.items() if name not in names}
