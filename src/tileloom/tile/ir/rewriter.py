"""Building and rewriting: an insertion point, and patterns applied until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...base.errors import InternalError, UserError
from .attributes import IntegerAttr, constant_attribute
from .core import Block, Operation, OpResult, Region, Value
from .definitions import Trait, definition_of, segments
from .interning import Attribute
from .slots import SEGMENTS
from .types import I32, Type


class OpBuilder:
    """Makes operations at an insertion point.

    >>> from .types import I32
    >>> block = Block([I32])
    >>> build = OpBuilder(block)
    >>> total = build("arith.addi", block.arguments[0], build.constant(1, I32))
    >>> total.defining_op.name, len(block)
    ('arith.addi', 2)
    """

    def __init__(self, block: Block | None = None, before: Operation | None = None) -> None:
        self.block = block
        self.before = before  # None: at the end of the block
        self.span: Any = None
        if before is not None:
            self.before_op(before)

    def before_op(self, op: Operation) -> OpBuilder:
        """Inserts before an operation from now on."""
        self.block, self.before, self.span = op.block, op, op.span
        return self

    def after_op(self, op: Operation) -> OpBuilder:
        """Inserts after an operation from now on."""
        self.block, self.before, self.span = op.block, op.next, op.span
        return self

    def after_value(self, value: Value) -> OpBuilder:
        """Inserts where a value is first known from now on."""
        if isinstance(value, OpResult):
            return self.after_op(value.owner)
        if value.block is None:
            raise InternalError("the value is defined in no block")
        return self.at_start(value.block)

    def at_start(self, block: Block) -> OpBuilder:
        """Inserts at the front of a block from now on."""
        self.block, self.before = block, block.first
        return self

    def at_end(self, block: Block) -> OpBuilder:
        """Inserts at the end of a block, before its terminator if it has one, from now on."""
        last = block.last
        ends = last is not None and last.definition.is_terminator
        self.block, self.before = block, last if ends else None
        return self

    def insert(self, op: Operation) -> Operation:
        """Puts an operation at the insertion point."""
        if self.block is None:
            raise InternalError("there is no insertion point")
        if op.span is None:
            op.span = self.span
        if self.before is None:
            return self.block.append(op)
        return self.block.insert_before(self.before, op)

    def create(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        regions: Iterable[Region] = (),
        groups: Sequence[int] | None = None,
    ) -> Operation:
        """An operation at the insertion point.

        Args:
            result_types: may be left out where they follow from the operands.
            groups: the number of operands of each slot, for operations that need it.
        """
        definition = definition_of(name)
        made = dict(attributes or {})
        if definition.has_segments and SEGMENTS not in made:
            if groups is None:
                raise InternalError(f"{name} needs to know how many operands each slot has")
            made[SEGMENTS] = segments(groups)
        if result_types is None:
            result_types = self.infer(name, [value.type for value in operands], made)
        return self.insert(Operation(definition, operands, result_types, made, regions))

    def infer(
        self, name: str, types: Sequence[Type], attributes: Mapping[str, Attribute]
    ) -> Sequence[Type]:
        """The types of the results of an operation."""
        definition = definition_of(name)
        if definition.infer is not None:
            return definition.infer(types, attributes)
        if not definition.results:
            return ()
        if Trait.SAME_TYPE in definition.traits:
            return types[:1]
        raise InternalError(f"{name} needs the types of its results")

    def __call__(
        self,
        name: str,
        *operands: Value,
        type: Type | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        groups: Sequence[int] | None = None,
    ) -> Value:
        """The one result of a new operation."""
        types = None if type is None else (type,)
        return self.create(name, operands, types, attributes, groups=groups).result

    def constant(self, value: Any, type: Type) -> Value:
        """A constant: a scalar, or a tensor of one value."""
        attribute = constant_attribute(value, type)
        return self.create("arith.constant", (), (type,), {"value": attribute}).result

    def convert(self, value: Value, type: Type) -> Value:
        """The value in the layout of a type, if it has another one."""
        if value.type is type:
            return value
        return self("ttg.convert_layout", value, type=type)

    def clone(self, op: Operation, mapping: dict[Value, Value] | None = None) -> Operation:
        """A copy of an operation at the insertion point."""
        return self.insert(op.clone(mapping))


Rewrite = Callable[[Operation, "PatternRewriter"], bool]
MAX_REWRITES = 100_000


class PatternRewriter(OpBuilder):
    """What patterns rewrite with: it remembers which operations to look at again."""

    def __init__(self) -> None:
        super().__init__()
        self.worklist: list[Operation] = []
        self.waiting: set[Operation] = set()
        self.constants: dict[tuple[Block, Attribute], Operation] = {}

    def push(self, op: Operation | None) -> None:
        """Lets an operation be looked at again."""
        if op is not None and op not in self.waiting:
            self.waiting.add(op)
            self.worklist.append(op)

    def pop(self) -> Operation:
        """The next operation to look at."""
        op = self.worklist.pop()
        self.waiting.discard(op)
        return op

    def insert(self, op: Operation) -> Operation:
        super().insert(op)
        for inner in op.walk():
            self.push(inner)
        return op

    def constant_at_entry(self, value: Attribute, type: Type, op: Operation) -> Value:
        """The one constant of a value at the front of the function around an operation."""
        entry = isolated_entry(op)
        known = self.constants.get((entry, value))
        if known is None or known.block is None:
            self.at_start(entry)
            known = self.create("arith.constant", (), (type,), {"value": value})
            self.constants[entry, value] = known
        return known.result

    def unique_constant(self, op: Operation) -> bool:
        """Moves a constant to the front of the function, or lets an equal one stand for it."""
        key = isolated_entry(op), op.attributes["value"]
        known = self.constants.setdefault(key, op)
        if known.block is None:
            known = self.constants[key] = op
        if known is not op:
            if not op.attributes.keys() - {"value"}:
                self.replace_op(op, known.results)
                return True
            return False
        entry, previous = key[0], op.previous
        leading = op.block is entry and (
            previous is None or (previous.name == "arith.constant" and self.is_known(previous))
        )
        if not leading and entry.first is not None:
            op.move_before(entry.first)
        return False

    def is_known(self, op: Operation) -> bool:
        """Whether an operation is one of the constants at the front of a function."""
        return self.constants.get((op.block_of(), op.attributes["value"])) is op

    def push_users(self, value: Value) -> None:
        """Lets the users of a value be looked at again."""
        for user in value.users:
            self.push(user)

    def replace_op(self, op: Operation, values: Sequence[Value]) -> None:
        """Lets values stand for an operation's results, and erases it."""
        if len(values) != len(op.results):
            raise InternalError(f"{op.name} has {len(op.results)} results, not {len(values)}")
        for result, value in zip(op.results, values, strict=True):
            self.push_users(result)
            result.replace_uses(value)
        self.erase_op(op)

    def replace_value(self, old: Value, new: Value) -> None:
        """Lets a value stand for another."""
        self.push_users(old)
        old.replace_uses(new)

    def replace_with(
        self,
        op: Operation,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        groups: Sequence[int] | None = None,
    ) -> Operation:
        """Lets a new operation stand for another, in its place."""
        self.before_op(op)
        types = op.result_types if result_types is None else result_types
        made = self.create(name, operands, types, attributes, groups=groups)
        self.replace_op(op, made.results)
        return made

    def erase_op(self, op: Operation) -> None:
        """Erases an operation; the definitions of its operands are looked at again."""
        for inner in op.walk():
            self.waiting.discard(inner)
        if op.name == "arith.constant" and op.block is not None and self.is_known(op):
            del self.constants[op.block, op.attributes["value"]]
        operands = [operand.defining_op for operand in op.operands]
        op.erase()
        for definition in operands:
            self.push(definition)

    def modified(self, op: Operation) -> None:
        """Says that an operation was changed in place."""
        self.push(op)
        for result in op.results:
            self.push_users(result)


def apply_patterns(
    root: Operation, patterns: Mapping[str, Sequence[Rewrite]], *, fold: bool = True
) -> bool:
    """Applies patterns to all operations in `root` until none matches.

    Args:
        patterns: rewrites by the names of the operations they look at; `""` is for all.
        fold: also folds constants and erases what is not used.

    Returns:
        Whether anything was changed.
    """
    rewriter = PatternRewriter()
    for op in reversed([op for op in root.walk() if op is not root]):
        rewriter.push(op)
    general = tuple(patterns.get("", ()))
    changed = False
    left = MAX_REWRITES
    while rewriter.worklist:
        op = rewriter.worklist[-1]
        if op not in rewriter.waiting:
            rewriter.worklist.pop()  # erased, or looked at since
            continue
        rewriter.pop()
        if op.block is None:
            continue
        if fold and op.name == "arith.constant":
            changed |= erase_if_dead(op, rewriter) or rewriter.unique_constant(op)
            continue
        if fold and (erase_if_dead(op, rewriter) or fold_op(op, rewriter)):
            changed = True
            continue
        for rewrite in (*patterns.get(op.name, ()), *general):
            rewriter.before_op(op)
            if rewrite(op, rewriter):
                changed = True
                left -= 1
                if op.block is not None:
                    rewriter.push(op)
                break
        if not left:
            raise InternalError("patterns do not come to an end", str(root))
    return changed


def has_no_effects(op: Operation) -> bool:
    """Whether an operation, with what is in its regions, may be removed if nobody uses it."""
    definition = op.definition
    if definition.is_pure:
        return not op.regions or all(
            has_no_effects(inner) for r in op.regions for b in r.blocks for inner in b
        )
    if Trait.RECURSIVE_EFFECTS in definition.traits:
        return op.name != "scf.while" and all(
            has_no_effects(inner) for r in op.regions for b in r.blocks for inner in b
        )
    return False


def is_removable(op: Operation) -> bool:
    """Whether an operation is dead if nobody uses its results: also loads, whose values alone
    matter, unless they are volatile."""
    if op.name == "tt.load":
        volatile = op.attributes.get("isVolatile")
        return not (isinstance(volatile, IntegerAttr) and volatile.value)
    if op.name in ("ttg.local_alloc", "ttg.local_load"):
        return True
    if op.name in ("tt.elementwise_inline_asm", "tt.extern_elementwise"):
        pure = op.attributes.get("pure")
        return isinstance(pure, IntegerAttr) and bool(pure.value)
    if Trait.RECURSIVE_EFFECTS in op.definition.traits and op.name != "scf.while":
        return all(
            is_removable(inner) or inner.definition.is_terminator
            for r in op.regions
            for b in r.blocks
            for inner in b
        )
    return has_no_effects(op)


def erase_if_dead(op: Operation, rewriter: PatternRewriter) -> bool:
    """Erases an operation whose results nobody uses and that does nothing else."""
    if not op.is_unused or op.definition.is_terminator or not is_removable(op):
        return False
    if Trait.SYMBOL in op.definition.traits or op.name == "builtin.module":
        return False
    rewriter.erase_op(op)
    return True


# What an operation folds to: an attribute or a value for each result, or None. A rule gets the
# operation and the constants among its operands.
Fold = Callable[[Operation, Sequence["Attribute | None"]], "Sequence[Attribute | Value] | None"]
FOLDS: dict[str, Fold] = {}


def fold_rule(*names: str) -> Callable[[Fold], Fold]:
    """Registers how operations fold."""

    def register(rule: Fold) -> Fold:
        for name in names:
            FOLDS[name] = rule
        return rule

    return register


def constant_of(value: Value) -> Attribute | None:
    """The constant that a value is, or None."""
    op = value.defining_op
    return op.attributes["value"] if op is not None and op.name == "arith.constant" else None


def isolated_entry(op: Operation) -> Block:
    """The first block of the innermost region around an operation that uses nothing from
    outside: constants stand there."""
    block = op.block_of()
    around = block.parent_op
    while around is not None and Trait.ISOLATED not in around.definition.traits:
        if around.block is None:
            break
        block = around.block
        around = block.parent_op
    region = block.region
    return block if region is None else region.blocks[0]


def constant_to_the_right(op: Operation) -> bool:
    """Exchanges the operands of a commutative operation whose first alone is a constant."""
    if len(op.operands) != 2 or Trait.COMMUTATIVE not in op.definition.traits:
        return False
    first, second = op.operands
    if constant_of(first) is None or constant_of(second) is not None:
        return False
    op.set_operands((second, first))
    return True


def fold_op(op: Operation, rewriter: PatternRewriter) -> bool:
    """Replaces an operation by constants or by values that are there already; a constant operand
    of a commutative one goes to the right."""
    if constant_to_the_right(op):
        rewriter.modified(op)
    rule = FOLDS.get(op.name)
    if rule is None:
        return False
    folded = rule(op, [constant_of(operand) for operand in op.operands])
    if folded is None:
        return False
    values = [
        rewriter.constant_at_entry(made, result.type, op) if isinstance(made, Attribute) else made
        for result, made in zip(op.results, folded, strict=True)
    ]
    for result, value in zip(op.results, values, strict=True):
        if value.type is not result.type:
            raise InternalError(f"{op.name} of type {result.type} folds to one of {value.type}")
    rewriter.replace_op(op, values)
    return True


# Rewrites that make an operation simpler, by its name, for `canonicalize`.
PATTERNS: dict[str, list[Rewrite]] = {}


def pattern(*names: str) -> Callable[[Rewrite], Rewrite]:
    """Registers a rewrite that makes operations simpler."""

    def register(rewrite: Rewrite) -> Rewrite:
        for name in names:
            PATTERNS.setdefault(name, []).append(rewrite)
        return rewrite

    return register


def module_integer(module: Operation, name: str, default: int | None = None) -> int:
    """An integer attribute of a module, such as `ttg.num-warps`."""
    found = module.attributes.get(name)
    if isinstance(found, IntegerAttr):
        return found.value
    if default is None:
        raise UserError(f"the module has no attribute {name!r}")
    return default


def set_module_integer(module: Operation, name: str, value: int) -> None:
    """Sets an integer attribute of a module."""
    module.attributes[name] = IntegerAttr(value, I32)
