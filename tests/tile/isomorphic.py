"""Structural equality of modules: the same operations on the same values, in the same blocks.

Names of values, aliases and places in the source do not count, nor does the order of operations
without effects in a block. How often each stands in a block does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from tileloom.tile import show
from tileloom.tile.ir.core import Block, Operation, Region, Value
from tileloom.tile.ir.definitions import Trait
from tileloom.tile.ir.rewriter import has_no_effects
from tileloom.tile.ir.show import SPELLING


def assert_isomorphic(
    found: Operation, expected: Operation, *, ignore: Collection[str] = (), commute: bool = False
) -> None:
    """Fails, and shows both modules, if they are not structurally equal.

    Args:
        ignore: attributes that do not count.
        commute: the order of the operands of commutative operations does not count.
    """
    difference = find_difference(found, expected, ignore=ignore, commute=commute)
    if difference is not None:
        raise AssertionError(f"{difference}\n\nfound:\n{show(found)}\nexpected:\n{show(expected)}")


def find_difference(
    first: Operation, second: Operation, *, ignore: Collection[str] = (), commute: bool = False
) -> str | None:
    """The first difference between two modules or functions in words, or None."""
    numbering = _Numbering(ignore, commute)
    pair = [numbering.operation(op, {}, 0) for op in (first, second)]
    return numbering.compare(*pair)


class _Numbering:
    """Numbers what operations compute: equal ones have the same number."""

    def __init__(self, ignore: Collection[str], commute: bool) -> None:
        self.ignore = frozenset([*ignore, SPELLING])
        self.commute = commute
        self.numbers: dict[Any, int] = {}
        self.keys: list[Any] = []

    def number(self, key: Any) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.keys)
            self.keys.append(key)
        return self.numbers[key]

    def operation(self, op: Operation, values: dict[Value, int], depth: int) -> int:
        operands = [values.get(operand, -1) for operand in op.operands]
        if self.commute and Trait.COMMUTATIVE in op.definition.traits:
            operands.sort()
        attributes = frozenset(i for i in op.attributes.items() if i[0] not in self.ignore)
        regions = tuple(self.region(region, values, depth) for region in op.regions)
        types = tuple(op.result_types)
        return self.number(("op", op.name, tuple(operands), types, attributes, regions))

    def region(self, region: Region, outer: dict[Value, int], depth: int) -> int:
        blocks = _in_order(region)
        places = {block: i for i, block in enumerate(blocks)}
        values = dict(outer)
        parts = tuple(self.block(block, places, values, depth + 1) for block in blocks)
        return self.number(("region", parts))

    def block(
        self, block: Block, places: dict[Block, int], values: dict[Value, int], depth: int
    ) -> int:
        place = places[block]
        for argument in block.arguments:
            values[argument] = self.number(("argument", depth, place, argument.index))
        ordered: list[int] = []
        free: Counter[int] = Counter()
        for op in block:
            made = self.operation(op, values, depth)
            if has_no_effects(op) and not op.definition.is_terminator:
                free[made] += 1
                results: Any = made
            else:
                results = ("ordered", depth, place, len(ordered))
                ordered.append(made)
            for result in op.results:
                values[result] = self.number(("value", results, result.index))
        to = tuple(places[successor] for successor in block.successors)
        types = tuple(argument.type for argument in block.arguments)
        return self.number(("block", types, tuple(ordered), frozenset(free.items()), to))

    def compare(self, first: int, second: int) -> str | None:
        """What is different in what two numbers stand for."""
        if first == second:
            return None
        a, b = self.keys[first], self.keys[second]
        if a[0] == "op" and a[:5] == b[:5]:
            return self.compare_all(a[5], b[5], f"regions of {a[1]}")
        if a[0] == "region":
            return self.compare_all(a[1], b[1], "blocks")
        if a[0] == "block":
            return self.compare_blocks(a, b)
        return f"{self.describe(first)}\n  is not\n{self.describe(second)}"

    def compare_all(self, first: Sequence[int], second: Sequence[int], what: str) -> str | None:
        if len(first) != len(second):
            return f"{len(first)} {what}, not {len(second)}"
        pairs = zip(first, second, strict=True)
        return next((self.compare(a, b) for a, b in pairs if a != b), None)

    def compare_blocks(self, a: Any, b: Any) -> str | None:
        if a[1] != b[1] or a[4] != b[4]:
            return f"blocks have arguments {a[1]} and {b[1]}, and go to {a[4]} and {b[4]}"
        more, fewer = Counter(dict(a[3])), Counter(dict(b[3]))
        lines = [f"more than expected: {self.describe(n)}" for n in (more - fewer).elements()]
        lines += [f"missing: {self.describe(n)}" for n in (fewer - more).elements()]
        ordered = self.compare_all(a[2], b[2], "operations with effects") or ""
        return "\n".join([*lines, ordered])

    def describe(self, number: int, depth: int = 3) -> str:
        """What a number stands for, to a depth."""
        if number < 0:
            return "?"
        key = self.keys[number]
        if key[0] == "value":
            inner = key[1]
            return self.describe(inner, depth) if isinstance(inner, int) else f"%{inner[1:]}"
        if key[0] != "op":
            return f"%{key}"
        operands = ", ".join(self.describe(n, depth - 1) if depth else "..." for n in key[2])
        attributes = ", ".join(sorted(f"{k} = {v}" for k, v in key[4]))
        types = ", ".join(map(str, key[3]))
        return f"{key[1]}({operands}){{{attributes}}} : {types}"


def _in_order(region: Region) -> list[Block]:
    """The blocks in the order in which a walk from the entry finds them; others come last."""
    found: dict[Block, None] = {}
    stack = region.blocks[:1]
    while stack:
        block = stack.pop()
        if block not in found:
            found[block] = None
            stack.extend(reversed(block.successors))
    return [*found, *(block for block in region.blocks if block not in found)]
