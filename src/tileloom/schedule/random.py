"""TVM's random numbers, draw for draw: a decision sampled from a seed is the one TVM samples.

The generator is minstd (`x * 48271 mod 2**31 - 1`) with an advertised range from 0; the
distributions follow libstdc++.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

from ..base.errors import UserError

_MODULUS = (1 << 31) - 1
_MULTIPLIER = 48271


class Random:
    """A stream of random numbers.

    Args:
        seed: from 1 to 2**31 - 2; -1 takes one from the operating system.

    >>> Random(42).next(), Random(42).fork_seed()
    (2027382, 431226885)
    """

    __slots__ = ("state",)

    def __init__(self, seed: int = -1) -> None:
        self.state = 0
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start a new stream."""
        if seed == -1:
            seed = secrets.randbelow(_MODULUS - 1) + 1
        if not 1 <= seed <= _MODULUS:
            raise UserError(f"a seed is -1 or from 1 to {_MODULUS}, got {seed}")
        self.state = seed % _MODULUS or 1

    def copy(self) -> Random:
        """The same stream from here, to be continued on its own."""
        other = object.__new__(Random)
        other.state = self.state
        return other

    def next(self) -> int:
        """The next number of the generator."""
        self.state = self.state * _MULTIPLIER % _MODULUS
        return self.state

    def fork_seed(self) -> int:
        """A seed for another stream."""
        return self.next() * 32767 % 1999999973

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high)."""
        if high <= low:
            raise UserError(f"no integer to sample in [{low}, {high})")
        if high == low + 1:
            return low
        count = high - low
        scale = (_MODULUS - 1) // count
        while True:
            draw = self.next()
            if draw < count * scale:
                return low + draw // scale

    def uniform(self) -> float:
        """A number in [0, 1), made of two draws."""
        first, second = self.next(), self.next()
        return (first + second * float(_MODULUS)) / (float(_MODULUS) * float(_MODULUS))

    def categorical(self, weights: Sequence[float]) -> int:
        """An index, with probabilities in proportion to the weights."""
        if len(weights) < 2:
            return 0
        total = float(sum(weights))
        sums = list(accumulate(weight / total for weight in weights))
        sums[-1] = 1.0
        return bisect_left(sums, self.uniform())

    def choose(self, count: int, picks: int) -> list[int]:
        """`picks` different numbers below `count`."""
        if picks == 1:
            return [self.integer(0, count)]
        if picks == 2:
            first, second = self.integer(0, count), self.integer(0, count - 1)
            return [first, second + 1 if second >= first else second]
        order = list(range(count))
        for i in range(picks):
            j = self.integer(i, count)
            order[i], order[j] = order[j], order[i]
        return order[:picks]

    def perfect_tile(self, extent: int, n: int, max_innermost_factor: int = -1) -> list[int]:
        """Factors of an extent, the last one at most `max_innermost_factor` unless that is -1."""
        while True:
            tile = self._tile(extent, n)
            if max_innermost_factor == -1 or tile[-1] <= max_innermost_factor:
                return tile

    def partitioned_tile(
        self, extent: int, n: int, partition_pos: int, innerpart_factor: int
    ) -> list[int]:
        """Factors of an extent, those from a position on with a product divisible by a factor."""
        while True:
            tile = self._tile(extent, n)
            inner = 1
            for factor in tile[partition_pos:]:
                inner *= factor
            if inner % innerpart_factor == 0 or (partition_pos == 0 and innerpart_factor == 1):
                return tile

    def _tile(self, extent: int, n: int) -> list[int]:
        if extent < 1 or n < 1:
            raise UserError(f"cannot split an extent of {extent} into {n} factors")
        if n == 1:
            return [extent]
        tile = [1] * n
        for prime, count in factorize(extent):
            for i, power in enumerate(self._exponents(count, n)):
                tile[i] *= prime**power
        return tile

    def _exponents(self, count: int, n: int) -> list[int]:
        """Numbers that add up to `count`."""
        if n == 2:
            first = self.integer(0, count + 1)
            return [first, count - first]
        if count == 1:
            slot = self.integer(0, n)
            return [int(i == slot) for i in range(n)]
        bars = sorted(self.choose(count + n - 1, n - 1))
        ends = [-1, *bars, count + n - 1]
        return [b - a - 1 for a, b in pairwise(ends)]


def factorize(number: int) -> list[tuple[int, int]]:
    """The prime factors with their powers, in increasing order.

    >>> factorize(360)
    [(2, 3), (3, 2), (5, 1)]
    """
    found = []
    prime = 2
    while prime * prime <= number:
        count = 0
        while number % prime == 0:
            number //= prime
            count += 1
        if count:
            found.append((prime, count))
        prime += 1
    if number > 1:
        found.append((number, 1))
    return found
