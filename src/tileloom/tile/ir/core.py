"""The SSA form: operations with operands and results, in blocks, in regions of operations.

    Operation ::= results = name(operands) attributes successors regions
    Region    ::= blocks                        the first is the entry
    Block     ::= arguments, operations         the last operation is the terminator
    Value     ::= result of an operation | argument of a block

Unlike the other IRs of Tileloom this one is mutable: passes move and replace operations. Values
know their users; an operation knows its block, and a block its region. Types and attributes are
interned and immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...base.errors import InternalError
from .interning import Attribute
from .source import SourceRange
from .types import Type

if TYPE_CHECKING:
    from ...base.span import Span
    from .definitions import OpDefinition

ORDER_STEP = 16


class Value:
    """Something an operation computes, or a block is given. `users` maps operations to how
    many of their operands it is, in the order in which they came to use it."""

    __slots__ = ("name", "type", "users")

    def __init__(self, type: Type, name: str = "") -> None:
        self.type = type
        self.name = name
        self.users: dict[Operation, int] = {}

    @property
    def defining_op(self) -> Operation | None:
        """The operation whose result this is, or None for a block's argument."""
        return None

    @property
    def block(self) -> Block | None:
        """The block in which the value is defined."""
        raise NotImplementedError

    @property
    def use_count(self) -> int:
        """The number of operands that this value is."""
        return sum(self.users.values())

    def uses(self) -> Iterator[tuple[Operation, int]]:
        """The operations that use the value, and the positions of the operands."""
        for user in tuple(self.users):
            for index, operand in enumerate(user.operands):
                if operand is self:
                    yield user, index

    def replace_uses(self, new: Value, where: Any = None) -> None:
        """Lets every user, or those for which `where(operation)` holds, use another value."""
        if new is self:
            return
        for user in tuple(self.users):
            if where is None or where(user):
                user.replace_operand(self, new)


class OpResult(Value):
    """A result of an operation."""

    __slots__ = ("index", "owner")

    def __init__(self, type: Type, owner: Operation, index: int) -> None:
        super().__init__(type)
        self.owner = owner
        self.index = index

    @property
    def defining_op(self) -> Operation:
        return self.owner

    @property
    def block(self) -> Block | None:
        return self.owner.block


class BlockArgument(Value):
    """An argument of a block."""

    __slots__ = ("index", "owner")

    def __init__(self, type: Type, owner: Block, index: int, name: str = "") -> None:
        super().__init__(type, name)
        self.owner = owner
        self.index = index

    @property
    def block(self) -> Block:
        return self.owner


class Operation:
    """An operation. Operands are changed through `set_operand`, which keeps the users right."""

    __slots__ = (
        *("_next", "_operands", "_order", "_previous", "attributes", "block", "definition"),
        *("name", "regions", "results", "span", "successors"),
    )

    # Writes an operation as text; `show.py`, which knows how, puts itself here.
    writer: ClassVar[Callable[[Operation], str]] = repr

    def __init__(
        self,
        definition: OpDefinition,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
        regions: Iterable[Region] = (),
        successors: Sequence[Block] = (),
        span: Span | SourceRange | None = None,
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self._operands = list(operands)
        for operand in self._operands:
            users = operand.users
            users[self] = users.get(self, 0) + 1
        self.results = [OpResult(type, self, i) for i, type in enumerate(result_types)]
        self.attributes: dict[str, Attribute] = dict(attributes or {})
        self.regions: list[Region] = []
        for region in regions:
            self.add_region(region)
        self.successors = list(successors)
        self.span = span
        self.block: Block | None = None
        self._next: Operation | None = None
        self._previous: Operation | None = None
        self._order = -1

    # Operands and results.

    @property
    def operands(self) -> Sequence[Value]:
        """The operands, in order; to be changed by `set_operand` and `set_operands` alone."""
        return self._operands

    @property
    def result(self) -> OpResult:
        """The result of an operation that has one."""
        if len(self.results) != 1:
            raise InternalError(f"{self.name} has {len(self.results)} results, not one")
        return self.results[0]

    def add_results(self, types: Sequence[Type]) -> Sequence[OpResult]:
        """Gives the operation more results, after the others."""
        first = len(self.results)
        made = [OpResult(type, self, first + i) for i, type in enumerate(types)]
        self.results += made
        return made

    def operand(self, name: str) -> Value | None:
        """The operand of a name in the operation's definition, or None if it is left out."""
        group = self.operand_group(name)
        return group[0] if group else None

    def operand_group(self, name: str) -> Sequence[Value]:
        """The operands of a name in the operation's definition: none, one or several."""
        first, last = self.definition.operand_range(self, name)
        return self._operands[first:last]

    def set_operand(self, index: int, value: Value) -> None:
        """Changes an operand."""
        old = self._operands[index]
        if old is not value:
            self._drop_user(old)
            self._operands[index] = value
            value.users[self] = value.users.get(self, 0) + 1

    def set_operands(self, values: Sequence[Value]) -> None:
        """Changes all operands; there may be another number of them."""
        for old in self._operands:
            self._drop_user(old)
        self._operands = list(values)
        for value in self._operands:
            value.users[self] = value.users.get(self, 0) + 1

    def replace_operand(self, old: Value, new: Value) -> None:
        """Changes every operand that is `old`."""
        for index, operand in enumerate(self._operands):
            if operand is old:
                self.set_operand(index, new)

    def _drop_user(self, value: Value) -> None:
        left = value.users[self] - 1
        if left:
            value.users[self] = left
        else:
            del value.users[self]

    @property
    def result_types(self) -> list[Type]:
        """The types of the results."""
        return [result.type for result in self.results]

    @property
    def is_unused(self) -> bool:
        """Whether no result has a user."""
        return not any(result.users for result in self.results)

    # Place.

    @property
    def next(self) -> Operation | None:
        """The operation after this one in the block."""
        return self._next

    @property
    def previous(self) -> Operation | None:
        """The operation before this one in the block."""
        return self._previous

    @property
    def parent(self) -> Operation | None:
        """The operation in a region of which this one is."""
        return None if self.block is None else self.block.parent_op

    def ancestors(self) -> Iterator[Operation]:
        """The operation itself, and those around it, inner ones first."""
        op: Operation | None = self
        while op is not None:
            yield op
            op = op.parent

    def enclosing(self, *names: str) -> Operation | None:
        """The innermost operation around this one that has one of the names."""
        around = self.parent
        while around is not None and around.name not in names:
            around = around.parent
        return around

    def is_inside(self, other: Operation) -> bool:
        """Whether this operation is `other`, or in a region of it."""
        return any(op is other for op in self.ancestors())

    def is_before(self, other: Operation) -> bool:
        """Whether this operation comes before another of the same block."""
        if self.block is None or self.block is not other.block:
            raise InternalError(f"{self.name} and {other.name} are not in one block")
        if self._order < 0 or other._order < 0:
            self.block.number_operations()
        return self._order < other._order

    def move_before(self, anchor: Operation) -> None:
        """Moves the operation to just before another."""
        if anchor is not self:
            self.detach()
            anchor.block_of().insert_before(anchor, self)

    def move_after(self, anchor: Operation) -> None:
        """Moves the operation to just after another."""
        if anchor is not self:
            self.detach()
            anchor.block_of().insert_after(anchor, self)

    def block_of(self) -> Block:
        """The block the operation is in."""
        if self.block is None:
            raise InternalError(f"{self.name} is in no block")
        return self.block

    def detach(self) -> Operation:
        """Takes the operation out of its block, and leaves it as it is."""
        if self.block is not None:
            self.block.remove(self)
        return self

    def erase(self) -> None:
        """Takes the operation out of its block for good; nothing may use its results."""
        if not self.is_unused:
            raise InternalError(f"{self.name} is erased, but its results are used")
        self.detach()
        self.drop_references()

    def drop_references(self) -> None:
        """Lets the operation, and what is in its regions, use no values any more."""
        self.set_operands(())
        self.successors = []
        for region in self.regions:
            for block in region.blocks:
                for op in block:
                    op.drop_references()

    # Regions.

    def add_region(self, region: Region | None = None) -> Region:
        """Adds a region, an empty one if none is given."""
        made = Region() if region is None else region
        made.parent = self
        self.regions.append(made)
        return made

    @property
    def body(self) -> Block:
        """The entry block of the first region."""
        return self.regions[0].blocks[0]

    def walk(self) -> Iterator[Operation]:
        """The operation and all in its regions, outer ones first. What was visited may be
        erased or replaced while walking; what comes after it may not."""
        yield self
        for region in self.regions:
            for block in tuple(region.blocks):
                for op in block.snapshot():
                    yield from op.walk()

    def walk_inner_first(self) -> Iterator[Operation]:
        """All operations in the regions and the operation itself, inner ones first."""
        for region in self.regions:
            for block in tuple(region.blocks):
                for op in block.snapshot():
                    yield from op.walk_inner_first()
        yield self

    # Copies.

    def clone(
        self, mapping: dict[Value, Value] | None = None, blocks: dict[Block, Block] | None = None
    ) -> Operation:
        """A copy in no block, with its regions. Operands are looked up in `mapping`, to which
        the copy's results, and the arguments and results in its regions, are added."""
        mapping = {} if mapping is None else mapping
        blocks = {} if blocks is None else blocks
        copy = Operation(
            self.definition,
            [mapping.get(operand, operand) for operand in self._operands],
            self.result_types,
            self.attributes,
            successors=[blocks.get(block, block) for block in self.successors],
            span=self.span,
        )
        for old, new in zip(self.results, copy.results, strict=True):
            new.name = old.name
            mapping[old] = new
        for region in self.regions:
            region.clone_into(copy.add_region(), mapping, blocks)
        return copy

    # Attributes, read in short.

    def integer(self, name: str) -> int:
        """The value of an integer attribute."""
        return self.attributes[name].value  # type: ignore[attr-defined,no-any-return]

    def enum(self, name: str) -> str | None:
        """The keyword of an attribute, or None if there is none."""
        found = self.attributes.get(name)
        return None if found is None else found.value  # type: ignore[attr-defined]

    def describe_span(self) -> Span | None:
        """Where the operation stands in its source, if it came from one."""
        if isinstance(self.span, SourceRange):
            return self.span.resolve()
        return self.span

    def __str__(self) -> str:
        return Operation.writer(self)

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


class Block:
    """A list of operations that run one after another; a region's entry block has the
    arguments of the region."""

    __slots__ = ("_first", "_last", "arguments", "name", "region")

    def __init__(self, argument_types: Sequence[Type] = (), name: str = "") -> None:
        self.arguments: list[BlockArgument] = []
        for type in argument_types:
            self.add_argument(type)
        self.region: Region | None = None
        self.name = name
        self._first: Operation | None = None
        self._last: Operation | None = None

    @property
    def parent_op(self) -> Operation | None:
        """The operation in a region of which the block is."""
        return None if self.region is None else self.region.parent

    @property
    def first(self) -> Operation | None:
        """The first operation."""
        return self._first

    @property
    def last(self) -> Operation | None:
        """The last operation."""
        return self._last

    @property
    def terminator(self) -> Operation:
        """The last operation, which must be a terminator."""
        if self._last is None or not self._last.definition.is_terminator:
            raise InternalError("the block has no terminator")
        return self._last

    def __iter__(self) -> Iterator[Operation]:
        op = self._first
        while op is not None:
            following = op._next
            yield op
            op = following

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def snapshot(self) -> list[Operation]:
        """The operations as a list of its own."""
        return list(self)

    def before_terminator(self) -> Iterator[Operation]:
        """The operations but the terminator."""
        return (op for op in self if not op.definition.is_terminator)

    def add_argument(self, type: Type, name: str = "") -> BlockArgument:
        """Adds an argument after the others."""
        made = BlockArgument(type, self, len(self.arguments), name)
        self.arguments.append(made)
        return made

    def remove_arguments(self, indices: Iterable[int]) -> None:
        """Takes arguments away; nothing may use them."""
        gone = set(indices)
        for index in gone:
            if self.arguments[index].users:
                raise InternalError("an argument is removed, but it is used")
        self.arguments = [a for a in self.arguments if a.index not in gone]
        for index, argument in enumerate(self.arguments):
            argument.index = index

    def append(self, op: Operation) -> Operation:
        """Puts an operation at the end."""
        return self._link(op, self._last, None)

    def prepend(self, op: Operation) -> Operation:
        """Puts an operation at the front."""
        return self._link(op, None, self._first)

    def insert_before(self, anchor: Operation, op: Operation) -> Operation:
        """Puts an operation before one of the block."""
        return self._link(op, anchor._previous, anchor)

    def insert_after(self, anchor: Operation, op: Operation) -> Operation:
        """Puts an operation after one of the block."""
        return self._link(op, anchor, anchor._next)

    def _link(self, op: Operation, before: Operation | None, after: Operation | None) -> Operation:
        if op.block is not None:
            raise InternalError(f"{op.name} is in a block already")
        op.block, op._previous, op._next = self, before, after
        if before is None:
            self._first = op
        else:
            before._next = op
        if after is None:
            self._last = op
            known = before is None or before._order >= 0
            op._order = (before._order + ORDER_STEP if before else 0) if known else -1
        else:
            after._previous = op
            first = -1 if before is None else before._order
            between = (first + after._order) // 2
            known = before is None or first >= 0
            op._order = between if known and first < between < after._order else -1
        return op

    def remove(self, op: Operation) -> None:
        """Takes an operation out of the block."""
        if op._previous is None:
            self._first = op._next
        else:
            op._previous._next = op._next
        if op._next is None:
            self._last = op._previous
        else:
            op._next._previous = op._previous
        op.block = op._next = op._previous = None

    def number_operations(self) -> None:
        """Numbers the operations, for `Operation.is_before`."""
        for index, op in enumerate(self):
            op._order = index * ORDER_STEP

    def find_ancestor(self, op: Operation) -> Operation | None:
        """The operation of this block that is `op`, or that `op` is in."""
        return next((around for around in op.ancestors() if around.block is self), None)

    @property
    def successors(self) -> Sequence[Block]:
        """The blocks that the terminator may go to."""
        return self._last.successors if self._last is not None else ()

    @property
    def predecessors(self) -> list[Block]:
        """The blocks of the region whose terminators may come here."""
        region = self.region
        return [b for b in region.blocks if self in b.successors] if region is not None else []


class Region:
    """Blocks, of which the first is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.parent: Operation | None = None
        for block in blocks:
            self.append(block)

    def append(self, block: Block) -> Block:
        """Adds a block after the others."""
        block.region = self
        self.blocks.append(block)
        return block

    @property
    def entry(self) -> Block | None:
        """The first block, or None."""
        return self.blocks[0] if self.blocks else None

    def clone_into(
        self, target: Region, mapping: dict[Value, Value], blocks: dict[Block, Block]
    ) -> None:
        """Puts copies of the blocks into another region."""
        for block in self.blocks:
            copy = target.append(Block(name=block.name))
            blocks[block] = copy
            for argument in block.arguments:
                mapping[argument] = copy.add_argument(argument.type, argument.name)
        waiting: list[tuple[Operation, Operation]] = []
        for block in self.blocks:
            for op in block:
                copy_op = op.clone(mapping, blocks)
                blocks[block].append(copy_op)
                waiting.append((op, copy_op))
        # With several blocks, an operand may be defined in a block that comes later.
        if len(self.blocks) > 1:
            for op, copy_op in waiting:
                copy_op.set_operands([mapping.get(o, o) for o in op.operands])

    def move_blocks_to(self, target: Region) -> None:
        """Moves all blocks to the end of another region."""
        for block in self.blocks:
            target.append(block)
        self.blocks = []
