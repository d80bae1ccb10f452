"""Calls replaced by what they call."""

from __future__ import annotations

from collections.abc import Iterator

from ..dialects.functions import callee_of, symbol_name
from ..ir.attributes import integer_value
from ..ir.core import Block, Operation, Region, Value
from ..ir.definitions import definition_of
from ..ir.dominance import region_of
from .canonicalize import canonicalize
from .registry import tile_pass
from .symbol_dce import is_private, references

FUNCTIONS = ("tt.func", "func.func")
CALLS = ("tt.call", "func.call")
RETURNS = ("tt.return", "func.return")


@tile_pass("inline", "inliner")
def inline(module: Operation) -> None:
    """Replaces calls by the bodies of the functions, unless these are `noinline` or call
    themselves. A body of several blocks goes only where several blocks may stand: not into a
    loop or a branch of `scf`. Functions are brought to canonical form; private ones that nobody
    calls any more are removed."""
    functions = {
        symbol_name(op): op for op in module.body if op.name in FUNCTIONS and op.regions[0].blocks
    }
    for name in callees_first(functions):
        function = functions[name]
        for call in [op for op in function.walk() if op.name in CALLS]:
            called = functions.get(callee_of(call))
            if called is not None and called is not function and may_inline(call, called):
                inline_call(call, called)
    _remove_uncalled(module)
    canonicalize(module)


def callees_first(functions: dict[str, Operation]) -> Iterator[str]:
    """The names of functions, those that are called before those that call."""
    done: set[str] = set()
    for start in functions:
        stack = [(start, False)]
        while stack:
            name, finished = stack.pop()
            if finished:
                yield name
            elif name not in done and name in functions:
                done.add(name)
                stack.append((name, True))
                stack.extend((each, False) for each in sorted(references(functions[name])))


def may_inline(call: Operation, called: Operation) -> bool:
    """Whether a call may be replaced by the body of a function."""
    if integer_value(called.attributes.get("noinline")):
        return False
    if symbol_name(called) in references(called):
        return False
    parent = call.parent
    return len(called.regions[0].blocks) == 1 or (parent is not None and parent.name in FUNCTIONS)


def inline_call(call: Operation, called: Operation) -> None:
    """Replaces a call by a copy of the body of the function."""
    copy = Region()
    mapping: dict[Value, Value] = {}
    called.regions[0].clone_into(copy, mapping, {})
    entry = copy.blocks[0]
    for argument, value in zip(entry.arguments, call.operands, strict=True):
        argument.replace_uses(value)
    if len(copy.blocks) == 1:
        _inline_block(call, entry)
    else:
        _inline_blocks(call, copy)


def _inline_block(call: Operation, entry: Block) -> None:
    for op in list(entry.before_terminator()):
        op.move_before(call)
    last = entry.terminator
    for result, value in zip(call.results, list(last.operands), strict=True):
        result.replace_uses(value)
    last.erase()
    call.erase()


def _inline_blocks(call: Operation, copy: Region) -> None:
    """The block is cut at the call: what comes after it is a block whose arguments are what the
    function returns."""
    block = call.block_of()
    region = region_of(block)
    after = Block([result.type for result in call.results])
    following = call.next
    while following is not None:
        op, following = following, following.next
        after.append(op.detach())
    for result, argument in zip(call.results, after.arguments, strict=True):
        result.replace_uses(argument)
    call.erase()
    entry, *others = copy.blocks
    for op in list(entry):
        block.append(op.detach())
    place = region.blocks.index(block) + 1
    for inner in (*others, after):
        inner.region = region
    region.blocks[place:place] = [*others, after]
    for inner in (block, *others):
        last = inner.terminator
        if last.name in RETURNS:
            branch = Operation(
                definition_of("cf.br"), last.operands, successors=[after], span=last.span
            )
            last.erase()
            inner.append(branch)


def _remove_uncalled(module: Operation) -> None:
    while True:
        used = references(module)
        gone = [
            op
            for op in module.body
            if op.name in FUNCTIONS and is_private(op) and symbol_name(op) not in used
        ]
        if not gone:
            return
        for op in gone:
            op.erase()
