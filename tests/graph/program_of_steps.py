"""Functions of arrays as steps, to be run by tileloom and by NumPy, and sizes to run them for.

A step is a function of a namespace (tileloom's, or NumPy's in double precision) and of the values
so far.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import tileloom as tl
from graph.in_numpy import NUMPY

Step = Callable[[Any, list[Any]], Any]
#: Some for each of three dimensions.
PROBES = [(37, 53, 71), (94, 82, 68)]
SIZES = [0, 1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 68, 97, 100, 127, 128, 211,
         257, 512, 1000, 1021, 2048, 4001]  # fmt: skip
#: Elements of all values where a program is run.
MOST = 3_000_000
RNG = np.random.default_rng(1)


@dataclass
class Program:
    """A function of arrays: `inputs` has the extents of each, by dimension or as numbers."""

    kind: str
    dims: list[tl.Dim]
    inputs: list[tuple[int | tl.Dim, ...]]
    steps: list[Step] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __call__(self, xp: Any, arrays: Sequence[Any]) -> list[Any]:
        values = self.values(xp, arrays)
        return [values[k] for k in self.outputs]

    def values(self, xp: Any, arrays: Sequence[Any]) -> list[Any]:
        values = list(arrays)
        for step in self.steps:
            values.append(step(xp, values))
        return values

    def shapes(self, sizes: Sequence[int]) -> list[tuple[int, ...]]:
        named = dict(zip([d.name for d in self.dims], sizes, strict=True))
        return [
            tuple(named[n.name] if isinstance(n, tl.Dim) else n for n in shape)
            for shape in self.inputs
        ]

    def arrays(self, sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
        """Multiples of 1/8, so that many functions are exact and elements are often equal."""
        return [some_array(rng, shape, self.kind) for shape in self.shapes(sizes)]

    def dynamic_shapes(self) -> list[dict[int, tl.Dim]]:
        return [
            {k: n for k, n in enumerate(shape) if isinstance(n, tl.Dim)} for shape in self.inputs
        ]

    def __str__(self) -> str:
        names = [f"v{k}: {self.kind}{list(shape)}" for k, shape in enumerate(self.inputs)]
        lines = [f"v{k} = {t}" for k, t in enumerate(self.texts, len(self.inputs))]
        return "\n".join([*names, *lines, f"return {self.outputs}"])


def some_array(rng: np.random.Generator, shape: Sequence[int], kind: str) -> np.ndarray:
    if kind.startswith("int"):
        return rng.integers(-9, 10, shape).astype(kind)
    return (np.round(rng.standard_normal(shape) * 8).clip(-32, 32) / 8).astype(kind)


def in_doubles(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [a.astype("float64") if a.dtype.kind == "f" else a for a in arrays]


def in_numpy(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The results in double precision; None if NumPy refuses, as with the largest of nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return [np.asarray(a) for a in program(NUMPY, in_doubles(arrays))]
    except (ValueError, IndexError, RuntimeWarning):
        return None


def probes(count: int) -> list[tuple[int, ...]]:
    """Sizes for so many dimensions: some, others, and the first ones with each of them doubled."""
    first, second = (p[:count] for p in PROBES)
    return [first, second, *((*first[:k], 2 * n, *first[k + 1 :]) for k, n in enumerate(first))]


def growth(program: Program) -> list[tuple[float, list[float]]]:
    """The elements of each value for the first probing sizes, and the powers that they grow by."""
    first, _, *doubled = probes(len(program.dims))
    counts = [
        [v.size for v in program.values(NUMPY, in_doubles(program.arrays(sizes, RNG)))]
        for sizes in (first, *doubled)
    ]
    return [
        (first, [math.log2(max(1, more) / max(1, first)) for more in rest])
        for first, *rest in zip(*counts, strict=True)
    ]


def random_sizes(program: Program, count: int, seed: int) -> list[tuple[int, ...]]:
    """Combinations of sizes within the bounds, small ones, and large ones of few elements."""
    random = Random(seed)
    choices = [[n for n in SIZES if d.min <= n <= d.max] for d in program.dims]
    values = growth(program)
    found: list[tuple[int, ...]] = []
    for _ in range(50 * count):
        sizes = tuple(random.choice(some) for some in choices)
        scale = [n / p for n, p in zip(sizes, PROBES[0], strict=False)]
        total = sum(
            first * math.prod(s**power for s, power in zip(scale, powers, strict=True))
            for first, powers in values
        )
        if sizes not in found and total < MOST:
            found.append(sizes)
        if len(found) == count:
            break
    return found
