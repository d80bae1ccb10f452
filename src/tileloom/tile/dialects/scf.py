"""Structured control flow: loops and branches with regions that yield values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..ir.core import Block, BlockArgument, Operation, OpResult, Region, Value
from ..ir.definitions import Trait, define, definition_of
from ..ir.types import I1, INDEX, Type

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter


def make_yield(values: Sequence[Value] = (), name: str = "scf.yield") -> Operation:
    """A terminator that gives values to the operation around it."""
    return Operation(definition_of(name), values)


def _end_with_yield(parser: Parser, region: Region, needed: bool = False) -> None:
    block = region.blocks[-1] if region.blocks else region.append(Block())
    if block.last is None or not block.last.definition.is_terminator:
        if needed:
            raise parser.error("expected scf.yield at the end of the region")
        block.append(make_yield())


# Loops.


def _parse_for(parser: Parser, draft: Draft) -> None:
    place = parser.start
    iv = parser.take("value", "the loop's variable")
    parser.expect("=")
    bounds = [parser.value_name()]
    for word in ("to", "step"):
        parser.expect(word)
        bounds.append(parser.value_name())
    names: list[tuple[str, int]] = []
    inits = []
    result_types: list[Type] = []
    if parser.accept("iter_args"):
        parser.expect("(")
        while not parser.accept(")"):
            names.append((parser.value, parser.start))
            parser.take("value", "a name of an iter_arg")
            parser.expect("=")
            inits.append(parser.value_name())
            parser.accept(",")
        parser.expect("->")
        result_types = parser.result_type_list()
    type: Type = parser.type() if parser.accept(":") else INDEX
    if len(result_types) != len(inits):
        raise parser.error(
            f"mismatch in number of loop-carried values and defined values: {len(inits)} vs "
            f"{len(result_types)}"
        )
    draft.values = [parser.resolve(bound, type) for bound in bounds]
    draft.values += [parser.resolve(*pair) for pair in zip(inits, result_types, strict=True)]
    arguments = [
        (iv, type, place),
        *((name, t, at) for (name, at), t in zip(names, result_types, strict=True)),
    ]
    region = parser.region(arguments)
    _end_with_yield(parser, region, bool(result_types))
    draft.regions.append(region)
    draft.all_result_types = result_types
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())


def _show_for(writer: OpWriter, op: Operation) -> None:
    loop = ForLoop(op)
    bounds = map(writer.value, (loop.lower, loop.upper, loop.step))
    iv = writer.value(loop.iv)
    writer.item("{} = {} to {} step {}".format(iv, *bounds))
    if loop.inits:
        pairs = zip(loop.iter_args, loop.inits, strict=True)
        text = ", ".join(f"{writer.value(a)} = {writer.value(b)}" for a, b in pairs)
        types = ", ".join(writer.type(type) for type in op.result_types)
        writer.item(f"iter_args({text}) -> ({types})")
    if loop.iv.type is not INDEX:
        writer.item(f" : {writer.type(loop.iv.type)}")  # two spaces, as MLIR writes it
    writer.region(op.regions[0], terminator=bool(op.results))
    writer.item(writer.dictionary(op.attributes))


class ForLoop:
    """`scf.for`, by the names of its parts."""

    __slots__ = ("op",)

    def __init__(self, op: Operation) -> None:
        if op.name != "scf.for":
            raise UserError(f"{op.name} is not a loop scf.for")
        self.op = op

    @property
    def lower(self) -> Value:
        """The first value of the variable."""
        return self.op.operands[0]

    @property
    def upper(self) -> Value:
        """What the variable stays below."""
        return self.op.operands[1]

    @property
    def step(self) -> Value:
        """What is added after each iteration."""
        return self.op.operands[2]

    @property
    def inits(self) -> Sequence[Value]:
        """The values of `iter_args` at first."""
        return self.op.operands[3:]

    @property
    def body(self) -> Block:
        """The body, whose first argument is the variable."""
        return self.op.body

    @property
    def iv(self) -> BlockArgument:
        """The variable."""
        return self.body.arguments[0]

    @property
    def iter_args(self) -> Sequence[BlockArgument]:
        """The values carried from one iteration to the next, in the body."""
        return self.body.arguments[1:]

    @property
    def yields(self) -> Sequence[Value]:
        """What the body yields."""
        return self.body.terminator.operands

    @property
    def results(self) -> Sequence[OpResult]:
        """The values after the last iteration."""
        return self.op.results

    def init_of(self, argument: BlockArgument) -> Value:
        """The first value of an `iter_arg`."""
        return self.op.operands[argument.index + 2]

    def yield_of(self, argument: BlockArgument) -> Value:
        """What the body yields for an `iter_arg`."""
        return self.yields[argument.index - 1]


def make_for(
    lower: Value, upper: Value, step: Value, inits: Sequence[Value], attributes: object = None
) -> Operation:
    """A loop with an empty body, whose block has the arguments and no terminator."""
    types = [value.type for value in inits]
    region = Region([Block([lower.type, *types])])
    op = Operation(
        definition_of("scf.for"),
        (lower, upper, step, *inits),
        types,
        attributes,  # type: ignore[arg-type]
        [region],
    )
    return op


def add_iter_args(op: Operation, inits: Sequence[Value]) -> list[BlockArgument]:
    """Lets a loop carry more values; gives the arguments of the body for them. Each is yielded as
    it is, until the terminator is given something else."""
    body = op.body
    op.set_operands([*op.operands, *inits])
    op.add_results([value.type for value in inits])
    made = [body.add_argument(value.type) for value in inits]
    last = body.last
    if last is not None and last.name == "scf.yield":
        last.set_operands([*last.operands, *made])
    return made


def _verify_for(op: Operation) -> None:
    loop = ForLoop(op)
    types = [value.type for value in loop.inits]
    if op.result_types != types:
        raise UserError("'scf.for' op types mismatch between iter operands and defined values")
    if [a.type for a in loop.iter_args] != types:
        raise UserError("'scf.for' op types mismatch between iter operands and region arguments")
    if [value.type for value in loop.yields] != types:
        raise UserError("'scf.for' op types mismatch between yielded values and defined values")


define(
    "scf.for",
    "lower upper step inits*",
    "results*",
    regions="body",
    traits=(Trait.RECURSIVE_EFFECTS, Trait.LOOP),
    format=(_parse_for, _show_for),
    verify=_verify_for,
)


def _parse_while(parser: Parser, draft: Draft) -> None:
    names: list[tuple[str, int]] = []
    inits = []
    if parser.accept("("):
        while not parser.accept(")"):
            names.append((parser.value, parser.start))
            parser.take("value", "a name of an argument")
            parser.expect("=")
            inits.append(parser.value_name())
            parser.accept(",")
    parser.expect(":")
    type = parser.function_type()
    if len(type.inputs) != len(inits):
        raise parser.error(f"expected {len(inits)} types, not {len(type.inputs)}")
    draft.values = [parser.resolve(*pair) for pair in zip(inits, type.inputs, strict=True)]
    draft.all_result_types = list(type.results)
    pairs = zip(names, type.inputs, strict=True)
    draft.regions.append(parser.region([(name, t, at) for (name, at), t in pairs]))
    parser.expect("do")
    draft.regions.append(parser.region())
    _end_with_yield(parser, draft.regions[1])
    if parser.accept("attributes"):
        draft.attributes.update(parser.attribute_dictionary())


def _show_while(writer: OpWriter, op: Operation) -> None:
    before = op.regions[0].blocks[0]
    if op.operands:
        pairs = zip(before.arguments, op.operands, strict=True)
        writer.item(f"({', '.join(f'{writer.value(a)} = {writer.value(b)}' for a, b in pairs)})")
    inputs = ", ".join(writer.type(value.type) for value in op.operands)
    writer.item(f": ({inputs}) -> {writer.style.results(op.result_types)}")
    writer.region(op.regions[0])
    writer.item("do")
    writer.region(op.regions[1], header=True)
    text = writer.dictionary(op.attributes)
    if text:
        writer.item(f"attributes {text}")


define(
    "scf.while",
    "inits*",
    "results*",
    regions="before after",
    traits=(Trait.RECURSIVE_EFFECTS, Trait.LOOP),
    format=(_parse_while, _show_while),
)
define(
    "scf.condition",
    "condition args*",
    traits=(Trait.TERMINATOR, Trait.PURE),
    format="`(` $condition `)` attr-dict ($args^ `:` type($args))?",
)


# Branches.


def _parse_if(parser: Parser, draft: Draft) -> None:
    draft.values = [parser.resolve(parser.value_name(), I1)]
    draft.all_result_types = parser.result_type_list() if parser.accept("->") else []
    needed = bool(draft.all_result_types)
    draft.regions.append(parser.region())
    _end_with_yield(parser, draft.regions[0], needed)
    if parser.accept("else"):
        draft.regions.append(parser.region())
        _end_with_yield(parser, draft.regions[1], needed)
    else:
        draft.regions.append(Region())
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())


def _show_if(writer: OpWriter, op: Operation) -> None:
    writer.item(writer.value(op.operands[0]))
    if op.results:
        writer.item(f"-> ({', '.join(map(writer.type, op.result_types))})")
    writer.region(op.regions[0], terminator=bool(op.results))
    if op.regions[1].blocks:
        writer.item("else")
        writer.region(op.regions[1], terminator=bool(op.results))
    writer.item(writer.dictionary(op.attributes))


def _verify_if(op: Operation) -> None:
    if op.results and not op.regions[1].blocks:
        raise UserError("'scf.if' op must have an else block if defining values")
    for region in op.regions:
        for block in region.blocks:
            if [value.type for value in block.terminator.operands] != op.result_types:
                raise UserError("'scf.if' op yields values of other types than its results")


class IfBranches:
    """`scf.if`, by the names of its parts."""

    __slots__ = ("op",)

    def __init__(self, op: Operation) -> None:
        if op.name != "scf.if":
            raise UserError(f"{op.name} is not scf.if")
        self.op = op

    @property
    def condition(self) -> Value:
        """What decides."""
        return self.op.operands[0]

    @property
    def then_block(self) -> Block:
        """What runs if the condition holds."""
        return self.op.regions[0].blocks[0]

    @property
    def else_block(self) -> Block | None:
        """What runs if it does not, or None."""
        return self.op.regions[1].entry

    def yields(self, taken: bool) -> Sequence[Value]:
        """What a branch yields."""
        block = self.then_block if taken else self.else_block
        return block.terminator.operands if block is not None else ()


def make_if(condition: Value, types: Sequence[Type], with_else: bool = True) -> Operation:
    """A branch with empty blocks, that have no terminators."""
    regions = [Region([Block()]), Region([Block()] if with_else else [])]
    return Operation(definition_of("scf.if"), (condition,), types, None, regions)


define(
    "scf.if",
    "condition",
    "results*",
    regions="then_region else_region",
    traits=(Trait.RECURSIVE_EFFECTS,),
    format=(_parse_if, _show_if),
    verify=_verify_if,
)
define(
    "scf.yield",
    "values*",
    traits=(Trait.TERMINATOR, Trait.PURE),
    format="attr-dict ($values^ `:` type($values))?",
)


def add_if_results(
    op: Operation, taken: Sequence[Value], otherwise: Sequence[Value]
) -> Sequence[OpResult]:
    """Lets the branches also yield the values given for them; gives the results for them."""
    for region, values in zip(op.regions, (taken, otherwise), strict=True):
        if not region.blocks:
            region.append(Block()).append(make_yield())
        last = region.blocks[0].terminator
        last.set_operands([*last.operands, *values])
    return op.add_results([value.type for value in taken])
