"""Random layouts and shapes to go with them."""

from __future__ import annotations

from random import Random

from tileloom.tile.layouts.blocked import blocked_encoding
from tileloom.tile.layouts.encodings import (
    BlockedEncoding,
    CTALayout,
    DotOperandEncoding,
    Encoding,
    NvidiaMmaEncoding,
    SharedEncoding,
    SliceEncoding,
)

Sample = tuple[tuple[int, ...], Encoding, int]  # a shape, a layout, the width of an element


def powers(random: Random, total: int, rank: int) -> tuple[int, ...]:
    """Powers of two whose product is `1 << total`."""
    made = [1] * rank
    for _ in range(total):
        made[random.randrange(rank)] *= 2
    return tuple(made)


def some_order(random: Random, rank: int) -> tuple[int, ...]:
    """A permutation."""
    return tuple(random.sample(range(rank), rank))


def some_cta(random: Random, rank: int, ctas: int) -> CTALayout:
    """How `1 << ctas` thread blocks share a tensor."""
    if not ctas:
        return CTALayout.one(rank)
    per_cga = powers(random, ctas, rank)
    split = tuple(random.choice((1, n)) for n in per_cga)
    return CTALayout(per_cga, split, some_order(random, rank))


def some_blocked(random: Random, shape: tuple[int, ...], warps: int, ctas: int) -> BlockedEncoding:
    """A blocked layout: of the builder, or any."""
    rank, cta = len(shape), some_cta(random, len(shape), ctas)
    size, order = powers(random, random.randrange(5), rank), some_order(random, rank)
    if random.random() < 0.5:
        return blocked_encoding(shape, size, order, 1 << warps, 32, cta)
    lanes, parts = powers(random, 5, rank), powers(random, warps, rank)
    return BlockedEncoding(size, lanes, parts, order, cta)


def sample_blocked(random: Random, warps: int = 2, ctas: int = 0) -> Sample:
    """A blocked layout."""
    shape = powers(random, random.randrange(3, 12), random.randrange(1, 4))
    return shape, some_blocked(random, shape, warps, ctas), 16


def sample_slice(random: Random, warps: int = 2, ctas: int = 0) -> Sample:
    """A slice of a blocked layout, of one of mma, or of a slice."""
    if random.random() < 0.3:
        shape, parent, bits = sample_mma(random, 2)
    elif random.random() < 0.3:
        shape, parent, bits = sample_slice(random, warps, ctas)
    else:
        shape, parent, bits = sample_blocked(random, warps, ctas)
    if len(shape) == 1:
        shape, parent, bits = sample_blocked(random, warps, ctas)
        shape = (*shape, 4) if len(shape) == 1 else shape
        parent = some_blocked(random, shape, warps, ctas)
    dim = random.randrange(len(shape))
    return shape[:dim] + shape[dim + 1 :], SliceEncoding(dim, parent), bits


def sample_mma(random: Random, version: int, warps: int = 2) -> Sample:
    """Accumulators of tensor cores."""
    if version == 3:
        m, n = 1 << random.randrange(6, 9), 1 << random.randrange(3, 9)
        columns = 1 << random.randrange(3, n.bit_length())
        parts = random.choice(((4, 1), (4, 2), (8, 1)))
        return (m, n), NvidiaMmaEncoding(3, 0, parts, None, (16, columns, 16)), 16
    rank = 3 if random.random() < 0.2 else 2
    shape = powers(random, random.randrange(6, 13), rank)
    instruction = (1,) * (rank - 2) + (16, 8)
    return shape, NvidiaMmaEncoding(2, 0, powers(random, warps, rank), None, instruction), 16


def sample_operand(random: Random, warps: int = 2) -> Sample:
    """An operand of a product, with tensor cores or without."""
    index = random.randrange(2)
    if random.random() < 0.3:
        shape = powers(random, random.randrange(4, 12), 2)
        parent: Encoding = some_blocked(random, shape, warps, 0)
        return shape, DotOperandEncoding(index, parent), 16
    width = random.choice((1, 2, 4))
    shape, parent, _ = sample_mma(random, random.choice((2, 2, 3)))
    index = index if isinstance(parent, NvidiaMmaEncoding) and parent.version == 2 else 0
    return shape, DotOperandEncoding(index, parent, width), 32 // width


def sample_shared(random: Random, ctas: int = 0) -> Sample:
    """A layout of shared memory."""
    if random.random() < 0.3:
        bits = random.choice((8, 16, 32))
        width = random.choice((32, 64, 128))
        hopper = {32: (4, 2), 64: (2, 4), 128: (1, 8)}[width]
        matrix = (1 << random.randrange(3, 8), 8 * width // bits << random.randrange(2))
        along = random.choice(((1, 0), (0, 1)))
        place = matrix if along == (1, 0) else (matrix[1], matrix[0])
        return place, SharedEncoding(128 // bits, *hopper, along, None, True), bits
    rank = random.randrange(1, 4)
    shape = powers(random, random.randrange(3, 12), rank)
    phases = tuple(1 << random.randrange(4) for _ in range(3))
    order, cta = some_order(random, rank), some_cta(random, rank, ctas)
    return shape, SharedEncoding(*(phases if rank > 1 else (1, 1, 1)), order, cta), 16


def sample_distributed(random: Random) -> Sample:
    """Any layout over threads of one block."""
    kind = random.randrange(4)
    if kind == 0:
        return sample_blocked(random)
    if kind == 1:
        return sample_slice(random)
    return sample_mma(random, random.choice((2, 3))) if kind == 2 else sample_operand(random)


def sample_any(random: Random) -> Sample:
    """Any layout, of one thread block or of several."""
    ctas = random.choice((0, 0, 1, 2))
    kind = random.randrange(6)
    if kind == 0:
        return sample_blocked(random, ctas=ctas)
    if kind == 1:
        return sample_slice(random, ctas=ctas)
    return sample_shared(random, ctas) if kind == 2 else sample_distributed(random)
