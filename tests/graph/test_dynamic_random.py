"""Random programs for many sizes: one compilation, and for each size what NumPy says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom as tl
from graph.program_of_steps import Program, in_numpy, random_sizes
from graph.random_programs import random_program
from sampling import sampled
from tileloom import numpy as tnp

TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 4e-2}


class Tileloom:
    """The namespace of programs that are compiled."""

    constant = staticmethod(lambda x: x)

    def __getattr__(self, name: str) -> Any:
        return getattr(tnp, name)


def compiled(program: Program, **where: Any) -> Any:
    xp = Tileloom()
    functions: dict[Any, Any] = {
        1: lambda x: program(xp, (x,)),
        2: lambda x, y: program(xp, (x, y)),
        3: lambda x, y, z: program(xp, (x, y, z)),
    }
    shapes = program.dynamic_shapes()
    return tl.jit(functions[len(program.inputs)], dynamic_shapes=shapes, **where)


def check(seed: int, steps: int, count: int = 8, **where: Any) -> None:
    program = random_program(seed, steps)
    run = compiled(program, **where)
    rng = np.random.default_rng(seed)
    programs = set()
    for sizes in random_sizes(program, count, seed):
        arrays = [in_some_layout(a, rng) for a in program.arrays(sizes, rng)]
        want = in_numpy(program, arrays)
        if want is not None:
            agree(program, sizes, run(*arrays), want)
            # Sizes of 0 are compiled for by themselves.
            shapes = tuple(a.shape for a in arrays)
            programs.add(shapes if has_dim_of_nothing(program, shapes) else "for all others")
    assert run.compilations == len(programs), f"{run.compilations} compilations\n{program}"


def has_dim_of_nothing(program: Program, shapes: Any) -> bool:
    return any(
        isinstance(extent, tl.Dim) and size == 0
        for extents, shape in zip(program.inputs, shapes, strict=True)
        for extent, size in zip(extents, shape, strict=True)
    )


def in_some_layout(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    way = rng.integers(6)
    if way == 0:
        return np.asfortranarray(array)
    if way == 1:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return array


def agree(program: Program, sizes: Any, got: Any, want: Any) -> None:
    for k, (one, other) in enumerate(zip(got, want, strict=True)):
        where = f"output {k} for sizes {sizes} of\n{program}"
        assert one.shape == other.shape, f"{one.shape} for {other.shape}: {where}"
        if other.dtype.kind == "f":
            assert one.dtype == program.kind, where
            near = TOLERANCE[program.kind]
            np.testing.assert_allclose(one.astype("f8"), other, near, near, err_msg=where)
        else:
            assert one.dtype == other.dtype, where
            np.testing.assert_array_equal(one, other, err_msg=where)


@pytest.mark.parametrize("seed", sampled(range(12), 3))
def test_random_programs(seed: int) -> None:
    check(seed, 2 + seed % 5, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_programs(seed: int) -> None:
    check(seed, 2 + seed % 10)
