"""Products of words whose sizes are not known: one program, exact for every size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product as every
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sampling import sampled
from tileloom.base import dtype
from tileloom.base.settings import override
from tileloom.driver import compile_polymorphic
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType
from tileloom.graph.space import Space
from tileloom.graph.symbols import is_symbolic, symbol
from tileloom.target import Target, target

NO_TILES = "-amx-bf16,-amx-int8,-amx-tile"
#: Targets, and what the host must have for code for them to run.
TARGETS = {
    "tiles": ("cpu", ("amx-int8", "amx-bf16")),
    "dots": (f"cpu -mattr={NO_TILES}", ("avx512vnni", "avx512bf16")),
    "narrow dots": (f"cpu -mattr={NO_TILES},-avx512f,-avx512bf16,-avx512vnni", ("avxvnni",)),
}
KINDS = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("bfloat16", "bfloat16")]

Shape = tuple[Any, ...]
#: Of the operands, given two sizes, whether the right one is a constant, and how they are read.
CASES: dict[str, Callable[[Any, Any], tuple[Shape, Shape, bool, dict[str, bool]]]] = {
    "rows": lambda b, s: ((b, 67), (67, 100), True, {}),
    "rows of whole tiles": lambda b, s: ((b, 128), (96, 128), True, {"transpose_b": True}),
    "rows of several dimensions": lambda b, s: ((b, s, 70), (70, 50), True, {}),
    "rows, no constant": lambda b, s: ((b, 64), (64, 40), False, {}),
    "columns of the left one": lambda b, s: ((70, b), (70, 33), False, {"transpose_a": True}),
    "batch": lambda b, s: ((b, 5, 33), (b, 33, 40), False, {}),
    "columns": lambda b, s: ((30, 67), (67, s), False, {}),
    "both": lambda b, s: ((2, s, 64), (2, s, 64), False, {"transpose_b": True}),
    "depth": lambda b, s: ((40, s), (s, 64), False, {}),
    "depth and rows": lambda b, s: ((2, s, s), (2, s, 40), False, {}),
}
EVERY = sampled(every(CASES, KINDS, TARGETS), 23, several=True)
SIZES = ((1, 1), (2, 3), (5, 7), (17, 33), (33, 2), (64, 17), (3, 65))


def on(name: str) -> Target:
    text, needed = TARGETS[name]
    if not all(map(Target.host().has, needed)):
        pytest.skip(f"the machine lacks {needed}")
    return target(text)


def numbers(rng: np.random.Generator, shape: Sequence[int], kind: str) -> np.ndarray[Any, Any]:
    """Any bytes, with many of the least and of the greatest; small whole numbers of bfloat16."""
    if kind == "bfloat16":
        return rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return rng.choice([low, high, *rng.integers(low, high, 3)], shape).astype(kind)


def known(shape: Shape, sizes: dict[str, int]) -> list[int]:
    return [n.polynomial.value(sizes) if is_symbolic(n) else n for n in shape]


@pytest.fixture
def anew() -> Iterator[None]:
    """Kernels are made, not found in the cache."""
    with override(cache=False):
        yield


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize(("case", "kinds", "name"), EVERY)
def test_every_size_is_exact(case: str, kinds: tuple[str, str], name: str) -> None:
    where, rng, space = on(name), np.random.default_rng(0), Space()
    least = 0 if "rows" in case else 1
    b, s = symbol(space, "b", least, 1000, 20), symbol(space, "s", 1, 1000, 20)
    left, right, constant, how = CASES[case](b, s)
    x, y = (Tensor(TensorType(n, dtype(k)), "x") for n, k in zip((left, right), kinds))
    matrix = numbers(rng, right, kinds[1]) if constant else None
    factor = y if matrix is None else ops.constant(matrix)
    out = "float32" if kinds[0] == "bfloat16" else "int32"
    inputs = [x] if constant else [x, y]
    family = compile_polymorphic(
        Graph(inputs, [ops.matmul(x, factor, out_dtype=out, **how)]), where
    )
    for sizes in (*SIZES, *([(0, 3)] if least == 0 else [])):
        named = dict(zip("bs", sizes, strict=True))
        args = [numbers(rng, known(t.shape, named), k) for t, k in zip(inputs, kinds)]
        [got] = family.at(dict(named))(*args)
        first, second = (
            v.astype("int64") for v in (args[0], args[-1] if matrix is None else matrix)
        )
        if how.get("transpose_a"):
            first = first.swapaxes(-1, -2)
        if how.get("transpose_b"):
            second = second.swapaxes(-1, -2)
        assert np.array_equal(got, (first @ second).astype(got.dtype)), (case, sizes)
