"""Conversions taken away by computing their operands in the other layout from the start.

The backward slice of a conversion is what its operand is computed from, each value with the layout
it must have so that the conversion has nothing to do. If all of it may be computed again, it is;
if all but one widening operation (an extension, a broadcast) may, the conversion moves before that,
where there is less to convert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..dialects.scf import ForLoop, IfBranches, add_if_results, add_iter_args
from ..ir.core import BlockArgument, Operation, OpResult, Region, Value
from ..ir.dominance import Dominance
from ..ir.rewriter import OpBuilder
from ..ir.types import TensorType, as_tensor, element_bits
from ..layouts.encodings import DotOperandEncoding, Encoding
from ..layouts.infer import infer_src_encoding
from .propagate import encoding_of
from .properties import can_repeat, folds_into_conversion, keeps_layout

Stop = Callable[[Operation], bool]
WIDENING = ("arith.extsi", "arith.extui", "arith.extf", "tt.broadcast", "tt.expand_dims")


@dataclass
class BackwardSlice:
    """Values, and the layouts that they are to have."""

    layouts: dict[Value, Encoding] = field(default_factory=dict)

    def set(self, value: Value, encoding: Encoding) -> bool:
        """Gives a value a layout; fails if it has another one."""
        return self.layouts.setdefault(value, encoding) is encoding

    def merge(self, other: BackwardSlice) -> bool:
        """Takes in another slice; fails if they disagree, and then stays as it is."""
        if any(self.layouts.get(v, e) is not e for v, e in other.layouts.items()):
            return False
        self.layouts.update(other.layouts)
        return True


def backward_slice(
    root: Value, encoding: Encoding, stop: Stop | None = None
) -> BackwardSlice | None:
    """What a value is computed from, so that it has a layout.

    Args:
        stop: operations at which the slice ends, as at those that make elements in any layout.

    Returns:
        None if there is none: a loop's result, layouts that disagree, or an operation for whose
        operands no layout follows.
    """
    found = BackwardSlice()
    waiting: list[tuple[Value, Encoding]] = [(root, encoding)]
    seen: set[tuple[Value, Encoding]] = set()
    while waiting:
        value, wanted = waiting.pop()
        if (value, wanted) in seen or not isinstance(value.type, TensorType):
            continue
        seen.add((value, wanted))
        if not found.set(value, wanted):
            return None
        sources = _sources(value, wanted, found, stop)
        if sources is None:
            return None
        waiting += sources
    return found


def _sources(
    value: Value, wanted: Encoding, found: BackwardSlice, stop: Stop | None
) -> Iterable[tuple[Value, Encoding]] | None:
    """What a value is computed from, with layouts; None if no layout follows."""
    if isinstance(value, BlockArgument):
        around = value.owner.parent_op
        if around is None or around.name != "scf.for" or not value.index:
            return None
        loop = ForLoop(around)
        return (loop.init_of(value), wanted), (loop.yield_of(value), wanted)
    op = value.defining_op
    if op is None or op.name in ("scf.for", "scf.while", "tt.cat"):
        return None
    if op.name == "scf.if":
        if stop is not None and stop(op):
            return ()
        branches, index = IfBranches(op), value.index  # type: ignore[attr-defined]
        return [(branches.yields(taken)[index], wanted) for taken in (True, False)]
    for result in op.results:
        if isinstance(result.type, TensorType) and not found.set(result, wanted):
            return None
    if folds_into_conversion(op, wanted) or (stop is not None and stop(op)):
        return ()
    return _operands_with_layout(op, wanted)


def _operands_with_layout(
    op: Operation, wanted: Encoding
) -> Iterable[tuple[Value, Encoding]] | None:
    source = source_encoding(op, wanted)
    if source is None:
        return None
    return [(operand, source) for operand in op.operands]


def source_encoding(op: Operation, wanted: Encoding) -> Encoding | None:
    """The layout that an operation's operands need so that its results have one."""
    return wanted if keeps_layout(op) else infer_src_encoding(op, wanted)


def repeatable_slice(
    root: Value, encoding: Encoding, stop: Stop | None = None
) -> BackwardSlice | None:
    """The backward slice, if all of it may be computed again; where it stops, all but that."""
    found = backward_slice(root, encoding, stop)
    if found is None:
        return None
    for value in found.layouts:
        op = value.defining_op
        if (
            op is not None
            and not can_repeat(op)
            and not folds_into_conversion(op, found.layouts[value])
        ):
            return None
    return found


class Rematerialization:
    """Takes conversions of a function away, or moves them up."""

    def __init__(self, function: Operation) -> None:
        self.function = function
        self.dominance = Dominance()
        self.known: dict[tuple[Value, Encoding], Value] = {}  # by conversions, and repeated
        self.repeated: dict[tuple[Value, Encoding], Value] = {}  # right after the values

    def conversions(self) -> list[Operation]:
        """The conversions of the function, but those to operands of products."""
        return [
            op for op in self.function.walk() if op.name == "ttg.convert_layout" and _is_movable(op)
        ]

    def remove(self) -> None:
        """Computes the operands of conversions in the layouts they convert to, where that is
        possible."""
        for op in self.conversions():
            if op.block is None or not self.remove_one(op):
                self.known.setdefault((op.operands[0], _target(op)), op.results[0])

    def remove_one(self, op: Operation) -> bool:
        """Takes a conversion away if it can be."""
        source, wanted = op.operands[0], _target(op)
        again = self.known.get((source, wanted))
        if again is op.results[0]:
            again = None
        if again is not None and self.dominance.value_dominates(again, op):
            op.results[0].replace_uses(again)
            op.erase()
            return True
        found = repeatable_slice(source, wanted)
        if found is None:
            return False
        self.rewrite(found, op, {})
        return True

    def hoist(self) -> None:
        """Moves conversions before operations that widen what they convert."""
        for op in self.conversions():
            if op.block is not None:
                self.hoist_one(op)

    def hoist_one(self, op: Operation) -> None:
        """Moves a conversion before the one widening operation that cannot be repeated with what
        it needs, if there is one."""
        found = repeatable_slice(op.operands[0], _target(op), is_widening)
        if found is None:
            return
        widening = self._single_widening(found)
        if widening is None:
            return
        result = widening.results[0]
        wanted = found.layouts[result]
        needed = source_encoding(widening, wanted)
        if needed is None:
            return
        build = OpBuilder(before=widening)
        operand = widening.operands[0]
        converted = build.convert(operand, operand.type.with_encoding(needed))  # type: ignore[attr-defined]
        copy = widening.clone()
        copy.set_operand(0, converted)
        copy.results[0].type = result.type.with_encoding(wanted)  # type: ignore[attr-defined]
        build.insert(copy)
        del found.layouts[result]
        self.rewrite(found, op, {result: copy.results[0]})

    def _single_widening(self, found: BackwardSlice) -> Operation | None:
        """The one widening operation of a slice before which the slice cannot go on."""
        stopped: Operation | None = None
        for value in tuple(found.layouts):
            op = value.defining_op
            if op is None or not is_widening(op):
                continue
            needed = source_encoding(op, found.layouts[value])
            if needed is None:
                return None
            rest = repeatable_slice(op.operands[0], needed)
            if rest is not None and found.merge(rest):
                continue
            if stopped is not None:
                return None
            stopped = op
        return stopped

    def rewrite(self, found: BackwardSlice, op: Operation, made: dict[Value, Value]) -> None:
        """Computes the values of a slice again in their layouts, and replaces a conversion."""
        repeat = Repetition(self, found.layouts, made)
        for region in self.function.regions:
            repeat.visit_region(region)
        new = repeat.lookup(op.operands[0], op)
        op.results[0].replace_uses(new)
        op.erase()


class Repetition:
    """Computes the values of a slice again, each right after the first computation."""

    def __init__(
        self, owner: Rematerialization, layouts: dict[Value, Encoding], made: dict[Value, Value]
    ) -> None:
        self.owner = owner
        self.made = made
        self.layouts: dict[Value, Encoding] = {}
        for value, encoding in layouts.items():
            if encoding_of(value) is encoding or value in made:
                continue
            again = owner.repeated.get((value, encoding))
            if again is None:
                self.layouts[value] = encoding
            else:
                made[value] = again
        # The operations that are, or hold, definitions of these values.
        self.places: set[Operation] = set()
        for value in self.layouts:
            op = value.defining_op or _parent(value)
            if op is not None:
                self.places.update(op.ancestors())

    def lookup(self, value: Value, user: Operation) -> Value:
        """A value in its layout, for an operation that uses it."""
        encoding = self.layouts.get(value)
        if encoding is None:
            return self.made.get(value, value)
        again = self.owner.known.get((value, encoding))
        if again is not None and self.owner.dominance.value_dominates(again, user):
            return again
        return self.made[value]

    def visit_region(self, region: Region) -> None:
        """Repeats what is in a region."""
        for block in region.blocks:
            for op in block.snapshot():
                if op in self.places:
                    self.visit(op)

    def visit(self, op: Operation) -> None:
        """Repeats an operation: one with regions gets more arguments and results."""
        if op.name == "scf.for":
            self.extend_loop(op)
            return
        for region in op.regions:
            self.visit_region(region)
        wanted = [result for result in op.results if result in self.layouts]
        if not wanted:
            return
        if op.name == "scf.if":
            self.extend_branch(op, wanted)
        else:
            self.copy(op, wanted)

    def extend_loop(self, op: Operation) -> None:
        """Carries values through a loop in other layouts besides."""
        loop = ForLoop(op)
        chosen = [argument for argument in loop.iter_args if argument in self.layouts]
        inits = [self.lookup(loop.init_of(argument), op) for argument in chosen]
        yielded = [loop.yield_of(argument) for argument in chosen]
        added = add_iter_args(op, inits)
        for old, new in zip(chosen, added, strict=True):
            self.set(old, new)
        self.visit_region(op.regions[0])
        last = op.body.terminator
        for argument, value in zip(added, yielded, strict=True):
            last.set_operand(argument.index - 1, self.lookup(value, last))

    def extend_branch(self, op: Operation, wanted: list[OpResult]) -> None:
        """Yields values from branches in other layouts besides."""
        branches = IfBranches(op)
        lists = []
        for taken in (True, False):
            values = branches.yields(taken)
            block = op.regions[0 if taken else 1].blocks[0]
            lists.append([self.lookup(values[r.index], block.terminator) for r in wanted])
        for old, new in zip(wanted, add_if_results(op, *lists), strict=True):
            self.set(old, new)

    def copy(self, op: Operation, wanted: list[OpResult]) -> None:
        """Repeats an operation after itself, or converts what costs nothing in any layout."""
        build = OpBuilder().after_op(op)
        encoding = self.layouts[wanted[0]]
        if folds_into_conversion(op, encoding):
            for result in wanted:
                type = as_tensor(result.type).with_encoding(encoding)
                self.set(result, build.convert(result, type))
            return
        made = op.clone()
        made.set_operands([self.lookup(operand, op) for operand in op.operands])
        build.insert(made)
        for old, new in zip(op.results, made.results, strict=True):
            if old in self.layouts:
                new.type = as_tensor(old.type).with_encoding(encoding)
                self.set(old, new)

    def set(self, old: Value, new: Value) -> None:
        """Lets a value stand for another in its layout, also for later conversions."""
        self.made[old] = new
        self.owner.known[(old, self.layouts[old])] = new
        self.owner.repeated[(old, self.layouts[old])] = new


def is_widening(op: Operation) -> bool:
    """Whether an operation gives more bits than it takes."""
    if op.name == "tt.fp_to_fp":
        return element_bits(op.operands[0].type) < element_bits(op.results[0].type)
    return op.name in WIDENING


def _target(op: Operation) -> Encoding:
    return op.results[0].type.encoding  # type: ignore[attr-defined,no-any-return]


def _is_movable(op: Operation) -> bool:
    return not isinstance(_target(op), DotOperandEncoding)


def _parent(value: Value) -> Operation | None:
    return None if value.block is None else value.block.parent_op
