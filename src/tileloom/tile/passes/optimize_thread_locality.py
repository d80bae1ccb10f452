"""Reductions that stay in a thread for as long as they can.

    for: reduce(32x128 -> 32)    ->    for: reduce(32x32x4 -> 32x32), then reduce(32x32 -> 32)

In a loop that adds up what it reduces, each thread reduces its own elements only; what the threads
hold is reduced once, after the loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..conversions.properties import module_of
from ..dialects.scf import ForLoop, add_iter_args
from ..ir.attributes import UNIT, IntegerAttr
from ..ir.core import BlockArgument, Operation, OpResult, Value
from ..ir.rewriter import OpBuilder, constant_of, module_integer
from ..ir.types import TensorType, as_tensor
from ..layouts.blocked import (
    blocked_encoding,
    thread_local_encoding,
    thread_local_shape,
)
from ..layouts.encodings import BlockedEncoding, SliceEncoding
from ..layouts.properties import elements_by_dimension, elements_per_thread
from .registry import tile_pass

# The combinations that may be reordered, and what they leave a value as it is with.
NEUTRAL = {
    "arith.addf": -0.0,
    "arith.mulf": 1.0,
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf"), -math.inf),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf"), math.inf),
}


@tile_pass("tritongpu-optimize-thread-locality")
def optimize_thread_locality(module: Operation) -> None:
    """Lets threads reduce what they hold: chooses the layouts of reshapes that may reorder, and
    takes the part of reductions that crosses threads out of loops."""
    for op in [op for op in module.walk() if op.name == "tt.reshape"]:
        _reshape_for_reduction(op)
    for op in [op for op in module.walk() if op.name == "tt.reduce"]:
        found = accumulation_of(op)
        if found is not None:
            _split_reduction(found)


def _reshape_for_reduction(op: Operation) -> None:
    """Gives a reshape that may reorder elements the layout in which a reduction of it stays in
    its threads."""
    result = as_tensor(op.results[0].type)
    axes = {user.integer("axis") for user in op.results[0].users if user.name == "tt.reduce"}
    encoding = result.encoding
    if "allow_reorder" not in op.attributes or len(axes) != 1:
        return
    if not isinstance(encoding, BlockedEncoding):
        return
    (axis,) = axes
    if encoding.threads_per_warp[axis] == encoding.warps_per_cta[axis] == 1 and (
        encoding.cta.per_cga[axis] == 1
    ):
        return
    order = (*(dim for dim in encoding.order if dim != axis), axis)
    module = module_of(op)
    made = blocked_encoding(
        result.shape,
        (1,) * result.rank,
        order,
        module_integer(module, "ttg.num-warps", 4),
        module_integer(module, "ttg.threads-per-warp", 32),
        encoding.cta,
    )
    new = result.with_encoding(made)
    if made is encoding or elements_per_thread(new) != elements_per_thread(result):
        return
    op.results[0].type = new
    op.attributes["efficient_layout"] = UNIT
    converted = OpBuilder().after_op(op).convert(op.results[0], result)
    op.results[0].replace_uses(converted, lambda user: user is not converted.defining_op)


@dataclass(frozen=True)
class Accumulation:
    """A reduction in a loop whose result is added to a value that the loop carries."""

    reduction: Operation
    combine: Operation  # what the reduction combines with, in its region
    update: Operation
    argument: BlockArgument
    loop: Operation

    @property
    def source(self) -> TensorType:
        """The type of what is reduced."""
        return as_tensor(self.reduction.operands[0].type)


def accumulation_of(op: Operation) -> Accumulation | None:
    """The accumulation that a reduction is part of, if it can be split."""
    combine = _single_combination(op)
    source = as_tensor(op.operands[0].type)
    encoding = source.encoding
    if combine is None or len(op.results) != 1 or not isinstance(encoding, BlockedEncoding):
        return None
    axis = op.integer("axis")
    if source.rank < 2 or axis != source.rank - 1:
        return None
    if elements_by_dimension(source.shape, encoding)[axis] == 1:
        return None
    if any(_name(operand.defining_op) != "tt.load" for operand in op.operands):
        return None
    return _carried(op, combine)


def _single_combination(op: Operation) -> Operation | None:
    """The one operation by which a reduction combines, if it may be reordered."""
    if len(op.operands) != 1 or not op.regions[0].blocks:
        return None
    inner = op.body.snapshot()
    if len(inner) != 2 or inner[0].name not in NEUTRAL:
        return None
    return inner[0]


def _name(op: Operation | None) -> str:
    return "" if op is None else op.name


def _only_user(value: Value) -> Operation | None:
    return next(iter(value.users)) if value.use_count == 1 else None


def _carried(op: Operation, combine: Operation) -> Accumulation | None:
    update = _only_user(op.results[0])
    if update is None or update.name != combine.name or len(update.results) != 1:
        return None
    terminator = _only_user(update.results[0])
    loop = op.enclosing("scf.for")
    if terminator is None or terminator.name != "scf.yield" or terminator.parent is not loop:
        return None
    others = [operand for operand in update.operands if operand is not op.results[0]]
    if loop is None or len(others) != 1 or not isinstance(others[0], BlockArgument):
        return None
    argument = others[0]
    view = ForLoop(loop)
    if argument.owner is not view.body or view.yield_of(argument) is not update.results[0]:
        return None
    if argument.use_count != 1 or constant_of(view.init_of(argument)) is None:
        return None
    return Accumulation(op, combine, update, argument, loop)


def _split_reduction(found: Accumulation) -> None:
    op, source = found.reduction, found.source
    rank, encoding = source.rank, source.encoding
    if not isinstance(encoding, BlockedEncoding):
        return
    axis = op.integer("axis")
    local = thread_local_encoding(encoding, axis)
    shape = thread_local_shape(source.shape, encoding, axis)
    carried = TensorType(shape[:-1], source.element, SliceEncoding(rank, local))
    init = OpBuilder(before=found.loop).constant(NEUTRAL[found.combine.name], carried)
    (partial,) = add_iter_args(found.loop, [init])
    build = OpBuilder(before=op)
    attributes = {"allow_reorder": UNIT, "efficient_layout": UNIT}
    viewed = build(
        "tt.reshape",
        op.operands[0],
        type=TensorType(shape, source.element, local),
        attributes=attributes,
    )
    inner = build.insert(op.clone())
    inner.set_operands([viewed])
    inner.attributes["axis"] = IntegerAttr(rank)
    inner.results[0].type = carried
    update = found.update.clone()
    update.set_operands([partial, inner.results[0]])
    update.results[0].type = carried
    OpBuilder(before=found.update).insert(update)
    last = found.loop.body.terminator
    last.set_operand(partial.index - 1, update.results[0])
    last.set_operand(found.argument.index - 1, found.argument)
    _reduce_after_loop(found, found.loop.results[-1])


def _reduce_after_loop(found: Accumulation, total: OpResult) -> None:
    """Reduces over threads, and adds what the loop began with."""
    build = OpBuilder().after_op(found.loop)
    old = found.loop.results[found.argument.index - 1]
    users = tuple(old.users)
    encoding = as_tensor(total.type).encoding
    reduction = build.insert(found.reduction.clone())
    reduction.set_operands([total])
    reduction.results[0].type = TensorType(
        as_tensor(old.type).shape,
        found.source.element,
        SliceEncoding(found.reduction.integer("axis"), encoding),
    )
    converted = build.convert(reduction.results[0], old.type)
    update = found.update.clone()
    update.set_operands([old, converted])
    build.insert(update)
    for user in users:
        user.replace_operand(old, update.results[0])
    found.update.erase()
    found.reduction.erase()
