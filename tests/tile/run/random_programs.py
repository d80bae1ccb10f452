"""Random programs on integers, with a reference in Python's own; and random layouts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tileloom.tile.layouts.encodings import (
    BlockedEncoding,
    DistributedEncoding,
    SharedEncoding,
    SliceEncoding,
)

BITS = 32
Numbers = list[int]


def wrap(value: int, bits: int = BITS) -> int:
    """The number in the range of signed integers."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int) -> int:
    """The number of the same bits without a sign."""
    return value & ((1 << BITS) - 1)


def quotient(a: int, b: int) -> int:
    """Toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(a, b, key=unsigned),
    "minui": lambda a, b: min(a, b, key=unsigned),
}
# The second operand is made odd, or less than the width, first.
GUARDED: dict[str, Callable[[int, int], int]] = {
    "divsi": quotient,
    "remsi": lambda a, b: a - quotient(a, b) * b,
    "divui": lambda a, b: unsigned(a) // unsigned(b),
    "remui": lambda a, b: unsigned(a) % unsigned(b),
    "ceildivsi": lambda a, b: -(-a // b),
    "floordivsi": lambda a, b: a // b,
    "shli": lambda a, b: a << b,
    "shrsi": lambda a, b: a >> b,
    "shrui": lambda a, b: unsigned(a) >> b,
}
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: unsigned(a) < unsigned(b),
    "uge": lambda a, b: unsigned(a) >= unsigned(b),
}


class RandomProgram:
    """A function of two tensors of integers; lines of its text and the values of its names."""

    def __init__(self, seed: int, a: Numbers, b: Numbers, length: int = 12) -> None:
        self.random = random.Random(seed)
        self.values: dict[str, Numbers] = {"%a": a, "%b": b}
        self.lines: list[str] = []
        self.truths: dict[str, list[bool]] = {}
        ones, thirty_one = [1] * len(a), [BITS - 1] * len(a)
        self.type = f"tensor<{len(a)}xi32>"
        for name, numbers in (("%one", ones), ("%most", thirty_one)):
            self.lines.append(f"{name} = arith.constant dense<{numbers[0]}> : {self.type}")
            self.values[name] = numbers
        for _ in range(length):
            self.random.choice((self.binary, self.binary, self.guarded, self.select, self.cast))()
        self.result = self.last

    @property
    def last(self) -> str:
        """The name of the latest value."""
        return next(reversed(self.values))

    def text(self) -> str:
        """The function, `@f`."""
        body = "\n  ".join(self.lines)
        return (
            f"tt.func public @f(%a: {self.type}, %b: {self.type}) -> {self.type} {{\n  {body}\n"
            f"  tt.return {self.result} : {self.type}\n}}"
        )

    def add(self, op: str, names: Sequence[str], numbers: Numbers) -> str:
        """Adds an operation whose operands and result are of one type."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {op} {', '.join(names)} : {self.type}")
        self.values[name] = [wrap(number) for number in numbers]
        return name

    def pick(self) -> str:
        """Any value; a late one more often."""
        names = list(self.values)
        return self.random.choice(names[-4:] if self.random.random() < 0.5 else names)

    def apply(self, op: str, function: Callable[[int, int], int], a: str, b: str) -> str:
        """Adds an operation of two operands."""
        pairs = zip(self.values[a], self.values[b], strict=True)
        return self.add(f"arith.{op}", (a, b), [function(*pair) for pair in pairs])

    def binary(self) -> None:
        """A sum, a product, an extreme ..."""
        op = self.random.choice(list(BINARY))
        self.apply(op, BINARY[op], self.pick(), self.pick())

    def guarded(self) -> None:
        """A quotient or a shift, defined for all elements."""
        op = self.random.choice(list(GUARDED))
        guard = ("andi", "%most") if op.startswith("sh") else ("ori", "%one")
        second = self.apply(guard[0], BINARY[guard[0]], self.pick(), guard[1])
        first = self.pick()
        if min(self.values[first]) == -(1 << BITS - 1):  # by -1 it overflows
            first = "%b"
        self.apply(op, GUARDED[op], first, second)

    def select(self) -> None:
        """A comparison that chooses."""
        predicate = self.random.choice(list(PREDICATES))
        a, b, x, y = (self.pick() for _ in range(4))
        truth = f"%t{len(self.lines)}"
        self.lines.append(f"{truth} = arith.cmpi {predicate}, {a}, {b} : {self.type}")
        holds = map(PREDICATES[predicate], self.values[a], self.values[b])
        rows = zip(holds, self.values[x], self.values[y], strict=True)
        name = f"%v{len(self.lines)}"
        truths = self.type.replace("i32", "i1")
        self.lines.append(f"{name} = arith.select {truth}, {x}, {y} : {truths}, {self.type}")
        self.values[name] = [one if hold else other for hold, one, other in rows]

    def cast(self) -> None:
        """Fewer bits and back again, with or without the sign."""
        bits, sign = self.random.choice((8, 16)), self.random.random() < 0.5
        source, narrow = self.pick(), self.type.replace("i32", "")
        short = f"{narrow[:-1]}i{bits}>"
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name}n = arith.trunci {source} : {self.type} to {short}")
        extend = "extsi" if sign else "extui"
        self.lines.append(f"{name} = arith.{extend} {name}n : {short} to {self.type}")
        kept = [number & ((1 << bits) - 1) for number in self.values[source]]
        self.values[name] = [wrap(number, bits) if sign else number for number in kept]


def random_blocked(generator: random.Random, rank: int, warps: int = 4) -> BlockedEncoding:
    """A layout of 32 lanes and some warps."""
    order = list(range(rank))
    generator.shuffle(order)
    sizes = [generator.choice((1, 1, 2, 4)) for _ in range(rank)]
    return BlockedEncoding(
        sizes, factors(generator, 32, rank), factors(generator, warps, rank), order
    )


def random_layout(generator: random.Random, rank: int, warps: int = 4) -> DistributedEncoding:
    """A blocked layout, or a slice of one."""
    if generator.random() < 0.6:
        return random_blocked(generator, rank, warps)
    parent = random_blocked(generator, rank + 1, warps)
    return SliceEncoding(generator.randrange(rank + 1), parent)


def random_shared(generator: random.Random) -> SharedEncoding:
    """A layout of shared memory for matrices, swizzled or not."""
    order = generator.choice(((0, 1), (1, 0)))
    return SharedEncoding(*(generator.choice((1, 2, 4)) for _ in range(3)), order)


def factors(generator: random.Random, product: int, count: int) -> list[int]:
    """Powers of two with a product."""
    made = [1] * count
    while product > 1:
        made[generator.randrange(count)] *= 2
        product //= 2
    return made
