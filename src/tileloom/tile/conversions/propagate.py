"""Layouts spread forward from the operations that must keep theirs.

Each value gets the layouts that reach it; of several, one is chosen. Then operations are done in
the layouts chosen for their results, and conversions stay where layouts meet that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.scf import ForLoop
from ..ir.core import Block, Operation, Region, Value
from ..ir.rewriter import OpBuilder
from ..ir.types import TensorType, Type
from ..layouts.encodings import BlockedEncoding, DotOperandEncoding, Encoding, NvidiaMmaEncoding
from ..layouts.infer import infer_dst_encoding, infer_src_encoding
from .properties import ACCESSES, ATOMICS, INFERRED, folds_into_conversion, is_anchor, keeps_layout

CONTROL = ("scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition")


def encoding_of(value: Value) -> Encoding | None:
    """The layout of a tensor, or None."""
    type = value.type
    return type.encoding if isinstance(type, TensorType) else None  # type: ignore[return-value]


def propagate_layouts(function: Operation) -> None:
    """Moves conversions of layout in a function to where they are needed."""
    Propagation(function).run()


class Propagation:
    """The layouts that reach the values of a function."""

    def __init__(self, function: Operation) -> None:
        self.function = function
        self.reaching: dict[Value, dict[Encoding, None]] = {}
        self.rewritten: dict[Value, Value] = {}
        self.dead: list[Operation] = []

    def run(self) -> None:
        """Finds the layouts and rewrites the function."""
        self.find_anchors()
        self.spread()
        self.chosen = {value: self.choose(value, found) for value, found in self.reaching.items()}
        for region in self.function.regions:
            self.rewrite_region(region)
        for op in reversed(self.dead):
            op.erase()

    # Which layouts reach which values.

    def find_anchors(self) -> None:
        """Begins with the arguments of the function, and with operations that keep their layout."""
        for argument in self.function.body.arguments:
            self.add_anchor(argument)
        for op in self.function.walk():
            if is_anchor(op):
                for result in op.results:
                    self.add_anchor(result)

    def add_anchor(self, value: Value) -> None:
        """Lets a value's layout spread. That of tensor cores does only where it is asked for
        again: reductions over it would cost more than a conversion."""
        encoding = encoding_of(value)
        if encoding is None:
            return
        if isinstance(encoding, NvidiaMmaEncoding) and not reaches_tensor_cores(value, encoding):
            return
        self.reaching[value] = {encoding: None}

    def spread(self) -> None:
        """Spreads layouts to users until nothing changes."""
        waiting = list(self.reaching)
        while waiting:
            value = waiting.pop()
            for user, index in value.uses():
                targets = self.targets(user, index)
                waiting += self.add(targets, tuple(self.reaching[value]), user)

    def targets(self, user: Operation, index: int) -> Sequence[Value]:
        """The values that have the layout of an operand, or one that follows from it."""
        if user.name in CONTROL:
            return control_targets(user, index)
        if user.name == "ttng.warp_group_dot_wait":
            return (user.results[index],)
        if keeps_layout(user) or user.name in INFERRED:
            return user.results
        return ()

    def add(
        self, targets: Sequence[Value], encodings: Sequence[Encoding], user: Operation
    ) -> list[Value]:
        """Adds layouts to values; gives those for which one is new."""
        changed = []
        for target in targets:
            if not isinstance(target.type, TensorType):
                continue
            known = self.reaching.setdefault(target, {})
            before = len(known)
            for encoding in encodings:
                made = self.inferred(user, encoding, target)
                if made is not None:
                    known[made] = None
            if not known:
                del self.reaching[target]
            elif len(known) > before:
                changed.append(target)
        return changed

    def inferred(self, user: Operation, encoding: Encoding, target: Value) -> Encoding | None:
        """The layout of a result for that of an operand. A conversion is left out if it can be:
        its result has the layout of its operand."""
        if user.name in CONTROL or user.name == "ttg.convert_layout":
            return encoding
        if user.name == "ttng.warp_group_dot_wait" or keeps_layout(user):
            return encoding
        return infer_dst_encoding(user, encoding)

    def choose(self, value: Value, found: dict[Encoding, None]) -> Encoding:
        """One of the layouts that reach a value: of loads and atomics a blocked one, of others
        that of tensor cores, else the first."""
        op = value.defining_op
        is_access = op is not None and op.name in (*ACCESSES, *ATOMICS)
        preferred = BlockedEncoding if is_access else NvidiaMmaEncoding
        first = next(iter(found))
        if len(found) == 1:
            return first
        return next((each for each in found if isinstance(each, preferred)), first)

    # Rewriting.

    def rewrite_region(self, region: Region) -> None:
        """Does the operations of a region in the layouts chosen."""
        for block in tuple(region.blocks):
            for op in block.snapshot():
                self.visit(op)

    def visit(self, op: Operation) -> None:
        """Rewrites an operation whose results have another layout, and what is in it."""
        changed = any(
            result in self.chosen and self.chosen[result] is not encoding_of(result)
            for result in op.results
        )
        made = self.rewrite(op) if changed else op
        if made is op and op.name not in ("scf.yield", "scf.condition"):
            self.keep(op)
        for inner in made.regions:
            self.rewrite_region(inner)
        if made.name in ("scf.for", "scf.if", "scf.while"):
            convert_yields(made, self)

    def keep(self, op: Operation) -> None:
        """Lets an operation stay, over operands in the layouts that it expects. A reduction to
        a scalar, or an assertion, takes its operands as they come."""
        if op.name == "tt.assert" or (op.name == "tt.reduce" and _gives_scalars(op)):
            encodings = {self.chosen.get(operand) for operand in op.operands}
            if len(encodings) == 1 and None not in encodings:
                (encoding,) = encodings
                op.set_operands([self.value_as(each, encoding) for each in op.operands])
                return
        for index, operand in enumerate(op.operands):
            if operand in self.chosen:
                op.set_operand(index, self.value_as(operand, encoding_of(operand)))

    def value_as(self, value: Value, encoding: Encoding | None) -> Value:
        """A value in a layout; converted, if it has another one now."""
        if not isinstance(value.type, TensorType) or encoding is None:
            return value
        current = self.rewritten.get(value, value)
        if encoding_of(current) is encoding:
            return current
        build = OpBuilder().after_value(current)
        return build.convert(current, current.type.with_encoding(encoding))  # type: ignore[attr-defined]

    def map(self, old: Value, new: Value) -> None:
        """Lets a value stand for another of another layout."""
        if old.type is new.type:
            old.replace_uses(new)
        else:
            self.rewritten[old] = new

    def rewrite(self, op: Operation) -> Operation:
        """Does an operation in the layouts chosen for its results."""
        self.dead.append(op)
        if op.name in ("scf.for", "scf.while", "scf.if"):
            return self.rewrite_control(op)
        encoding = self.chosen[next(r for r in op.results if r in self.chosen)]
        build = OpBuilder(before=op)
        if op.name == "ttg.convert_layout":
            source = op.operands[0]
            current = self.value_as(source, self.chosen.get(source, encoding_of(source)))
            made = build.create(
                "ttg.convert_layout", [current], [_with(op.results[0].type, encoding)]
            )
        elif folds_into_conversion(op, encoding):
            copy = build.clone(op)
            made = build.create(
                "ttg.convert_layout", copy.results, [_with(op.results[0].type, encoding)]
            )
        else:
            made = self.copy_in_layout(op, encoding, build)
        for old, new in zip(op.results, made.results, strict=True):
            self.map(old, new)
        return made

    def copy_in_layout(self, op: Operation, encoding: Encoding, build: OpBuilder) -> Operation:
        """A copy of an operation whose results have a layout."""
        needed = encoding if keeps_layout(op) else infer_src_encoding(op, encoding)
        made = op.clone()
        made.set_operands([self.value_as(operand, needed) for operand in op.operands])
        for result in made.results:
            result.type = _with(result.type, encoding)
        return build.insert(made)

    def rewrite_control(self, op: Operation) -> Operation:
        """A loop or branch whose results have the layouts chosen; its body moves over."""
        types = [_with(r.type, self.chosen.get(r, encoding_of(r))) for r in op.results]
        operands = list(op.operands)
        if op.name == "scf.for":
            for index, result in enumerate(op.results):
                encoding = self.chosen.get(result, encoding_of(result))
                operands[3 + index] = self.value_as(operands[3 + index], encoding)
        elif op.name == "scf.while":
            for index, argument in enumerate(op.regions[0].blocks[0].arguments):
                encoding = self.chosen.get(argument, encoding_of(argument))
                operands[index] = self.value_as(operands[index], encoding)
        made = Operation(op.definition, operands, types, op.attributes, span=op.span)
        op.block_of().insert_before(op, made)
        for region in op.regions:
            target = made.add_region()
            region.move_blocks_to(target)
            for block in target.blocks:
                self.retype_arguments(block)
        for old, new in zip(op.results, made.results, strict=True):
            self.map(old, new)
        return made

    def retype_arguments(self, block: Block) -> None:
        """Gives the arguments of a block the layouts chosen. Users are rewritten after this, and
        ask for the old value: each argument is replaced by a new one that stands for it."""
        old = block.arguments
        block.arguments = []
        for argument in old:
            encoding = self.chosen.get(argument, encoding_of(argument))
            made = block.add_argument(_with(argument.type, encoding), argument.name)
            if made.type is argument.type:
                argument.replace_uses(made)
                if argument in self.chosen:
                    self.chosen[made] = self.chosen[argument]
            else:
                self.rewritten[argument] = made


def convert_yields(op: Operation, propagation: Propagation) -> None:
    """Lets the regions of a loop or branch yield the types of its results."""
    for region in op.regions:
        for block in region.blocks:
            last = block.terminator
            first = 1 if last.name == "scf.condition" else 0
            wanted = yielded_types(op, last)
            for index, type in enumerate(wanted):
                operand = last.operands[first + index]
                if isinstance(type, TensorType):
                    value = propagation.value_as(operand, type.encoding)  # type: ignore[arg-type]
                    last.set_operand(first + index, value)


def yielded_types(op: Operation, terminator: Operation) -> Sequence[Type]:
    """The types that a terminator of a loop or branch is to yield."""
    if op.name == "scf.while" and terminator.name == "scf.yield":
        return [operand.type for operand in op.operands]
    return op.result_types


def control_targets(user: Operation, index: int) -> Sequence[Value]:
    """The values that an operand of a loop, a branch or a terminator becomes."""
    match user.name:
        case "scf.for":
            return _loop_values(user, index - 3) if index >= 3 else ()
        case "scf.while":
            return (user.regions[0].blocks[0].arguments[index],)
        case "scf.yield":
            return _yield_targets(user, index)
        case "scf.condition" if index and user.parent is not None:
            loop = user.parent
            return loop.regions[1].blocks[0].arguments[index - 1], loop.results[index - 1]
    return ()


def _yield_targets(user: Operation, index: int) -> Sequence[Value]:
    around = user.parent
    if around is None:
        return ()
    if around.name == "scf.for":
        return _loop_values(around, index)
    if around.name == "scf.while":
        return (around.regions[0].blocks[0].arguments[index],)
    return (around.results[index],) if around.name == "scf.if" else ()


def _loop_values(loop: Operation, index: int) -> Sequence[Value]:
    return ForLoop(loop).iter_args[index], loop.results[index]


def _with(type: Type, encoding: Encoding | None) -> Type:
    return type.with_encoding(encoding) if isinstance(type, TensorType) else type


def _gives_scalars(op: Operation) -> bool:
    return not any(isinstance(result.type, TensorType) for result in op.results)


def reaches_tensor_cores(value: Value, encoding: NvidiaMmaEncoding) -> bool:
    """Whether a value in the layout of tensor cores, or what is computed from it, is converted
    to such a layout again, or stored for them."""
    waiting: list[Value] = [value]
    seen: set[Value] = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for user, index in current.uses():
            if user.name == "ttg.convert_layout":
                target = encoding_of(user.results[0])
                if isinstance(target, NvidiaMmaEncoding):
                    return target.version > 1 or target is encoding
                if isinstance(target, DotOperandEncoding):
                    return encoding.version > 1
            if encoding.version == 3 and user.name in ("ttg.local_alloc", "ttg.local_store"):
                return True
            waiting += user.results
            if user.name in CONTROL:
                waiting += control_targets(user, index)
    return False
