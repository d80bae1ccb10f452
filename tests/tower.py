"""The tower: one program run at every floor, naming the first floor that disagrees.

    check_tower(func, inputs, expected, [("tiled", scheduled), ("flat", flat), ("kernel", kernel)])
    check_lowering(func, inputs, expected)        # a floor after each pass of the pipeline
    check_compiled(func, inputs, expected)        # and the machine code above them

The ground floor is the program itself under the reference interpreter. Each further floor is a
program, which is interpreted too, or a compiled kernel, which is called with the arrays in place.
All arrays are compared, those that should only be read as well: a stray write shows.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tileloom.base import dtype
from tileloom.driver import build
from tileloom.expr import Var, free_vars
from tileloom.expr.evaluate import evaluate
from tileloom.lower.pipeline import ENSURES, PIPELINE, name_of
from tileloom.tir import BlockRealize, IRModule, PrimFunc, collect, verify
from tileloom.tir.run import match_arguments, run

Program = PrimFunc | IRModule
Kernel = Callable[..., Any]
Floors = Sequence[tuple[str, Program | Kernel] | tuple[str, Program, str | None]]
Expected = Sequence[Any] | Mapping[str, Any] | Callable[..., Any] | None

# Relative errors allowed to kernels and against NumPy: other orders of summation, fused
# multiply-add and vector math. Interpreted floors must agree to the bit.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}
_LONGEST_DIFF = 60


class TowerError(AssertionError):
    """The floor that fails, the last one that did not, and how."""

    def __init__(self, floor: str, below: str | None, problem: str) -> None:
        self.floor = floor
        self.below = below
        good = f"the floor below, {below!r}, is right" if below else "it is the ground floor"
        super().__init__(f"floor {floor!r} fails ({good}): {problem}")


def check_tower(
    func: PrimFunc,
    inputs: Sequence[Any],
    expected: Expected = None,
    stages: Floors = (),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    strict: bool = True,
    verified: bool = True,
) -> list[Any]:
    """Run all floors and compare; the arguments after the run of the ground floor.

    Args:
        func: the program at the stage of blocks (or any other).
        inputs: an array or number for each parameter; never changed.
        expected: the arrays after the run: one for each parameter, None where it does not matter;
            or by name of the buffer; or a function of the inputs that gives what the *last* buffer
            parameters hold (an array or a tuple).
        stages: (name, program or kernel), in the order of compilation. A third part says which
            stage a program is at, None that it is between two; else its blocks tell.
        rtol, atol: of kernels and of `expected`, in place of those of the type; times the largest
            magnitude for `atol`.
        strict: the ground floor must not read memory that it has not written.
        verified: check that each program is legal at its stage.
    """
    sizes = _sizes(func, inputs)
    tolerance = (rtol, atol)
    ground_stage = _stage(func) if verified else None
    ground = _run("blocks", None, func, inputs, sizes, strict, ground_stage)
    for position, wanted in _expectations(func, inputs, expected):
        _compare("blocks", None, func, position, wanted, ground[position], tolerance)
    below, previous = "blocks", func
    for name, floor, *given in stages:
        stage = (given[0] if given else _stage(floor)) if verified else None
        result = _run(name, below, floor, inputs, sizes, False, stage)
        exact = isinstance(floor, (PrimFunc, IRModule))
        for position, (wanted, found) in enumerate(zip(ground, result, strict=True)):
            if isinstance(wanted, np.ndarray):
                try:
                    allowed = (0.0, 0.0) if exact else tolerance
                    _compare(name, below, func, position, wanted, found, allowed)
                except TowerError as error:
                    error.args = (f"{error}{_difference(previous, floor)}",)
                    raise
        below, previous = name, floor if exact else previous  # type: ignore[assignment]
    return ground


def check_lowering(
    func: PrimFunc,
    inputs: Sequence[Any],
    expected: Expected = None,
    kernels: Floors = (),
    **options: Any,
) -> list[Any]:
    """`check_tower` with a floor after each pass of the lowering pipeline."""
    floors: list[tuple[str, Program, str | None]] = []
    stage: str | None = "blocks"
    result = func
    for number, step in enumerate(PIPELINE, 1):
        stage, result = ENSURES.get(step, stage), step(result)
        floors.append((f"{number} {name_of(step)}", result, stage))
    return check_tower(func, inputs, expected, [*floors, *kernels], **options)


def check_compiled(
    func: PrimFunc, inputs: Sequence[Any], expected: Expected = None, **options: Any
) -> list[Any]:
    """`check_lowering` with the machine code for this processor on top."""
    return check_lowering(func, inputs, expected, [("machine code", build(func))], **options)


def random_inputs(
    func: PrimFunc, rng: np.random.Generator, sizes: Mapping[str, int] | None = None
) -> list[Any]:
    """Arrays and numbers for the parameters of `func`; symbolic sizes by the variable's name."""
    named = dict(sizes or {})
    arguments: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            arguments.append(named.get(param.name, 3))
            continue
        shape = tuple(
            evaluate(extent, {v: named[v.name] for v in free_vars(extent)})
            for extent in buffer.shape
        )
        lanes = () if buffer.dtype.lanes == 1 else (buffer.dtype.lanes,)
        arguments.append(random_array((*shape, *lanes), buffer.dtype, rng))
    return arguments


def random_array(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Values of every magnitude that matters: small floats, integers of both signs, bools."""
    element = dtype(kind).element
    if element.is_float:
        return rng.standard_normal(shape).astype(element.numpy)
    low = 0 if element.is_unsigned or element.is_bool else -8
    return rng.integers(low, 2 if element.is_bool else 8, shape).astype(element.numpy)


# ---------------------------------------------------------------------------- floors


def _sizes(func: PrimFunc, inputs: Sequence[Any]) -> dict[Var, int]:
    """The values of symbolic sizes, which flat programs cannot tell from their arguments."""
    given = match_arguments(func, tuple(inputs), {})
    return {key: value for key, value in given.items() if isinstance(key, Var) and _number(value)}


def _number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def _run(
    name: str,
    below: str | None,
    floor: Program | Kernel,
    inputs: Sequence[Any],
    sizes: Mapping[Var, int],
    strict: bool,
    stage: str | None,
) -> list[Any]:
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in inputs]
    try:
        if isinstance(floor, (PrimFunc, IRModule)):
            if stage is not None:
                verify(floor, stage)
            run(floor, *arguments, strict=strict, values=sizes)
        else:
            floor(*arguments)
    except Exception as error:
        raise TowerError(name, below, f"{type(error).__name__}: {error}") from error
    return arguments


def _stage(floor: Program | Kernel) -> str | None:
    """The stage that a program looks to be at."""
    if not isinstance(floor, (PrimFunc, IRModule)):
        return None
    functions = floor.functions.values() if isinstance(floor, IRModule) else (floor,)
    return "blocks" if any(collect(f.body, BlockRealize) for f in functions) else "loops"


# ---------------------------------------------------------------------------- comparison


def _expectations(
    func: PrimFunc, inputs: Sequence[Any], expected: Expected
) -> list[tuple[int, Any]]:
    """Positions of parameters and the arrays that they should hold."""
    if expected is None:
        return []
    buffers = [i for i, param in enumerate(func.params) if param in func.buffer_map]
    if isinstance(expected, Mapping):
        names = {func.buffer_map[func.params[i]].name: i for i in buffers}
        return [(names[name], wanted) for name, wanted in expected.items()]
    if callable(expected):
        result = expected(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in inputs))
        results = result if isinstance(result, tuple) else (result,)
        return list(zip(buffers[-len(results) :], results, strict=True))
    return [(i, wanted) for i, wanted in enumerate(expected) if wanted is not None]


def _compare(
    floor: str,
    below: str | None,
    func: PrimFunc,
    position: int,
    wanted: Any,
    found: Any,
    tolerance: tuple[float | None, float | None],
) -> None:
    name = func.buffer_map[func.params[position]].name
    wanted = np.asarray(wanted)
    if wanted.shape != found.shape:
        raise TowerError(floor, below, f"{name} has shape {found.shape}, not {wanted.shape}")
    bad = _mismatches(wanted, found, tolerance)
    if not bad.any():
        return
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    lines = [
        f"{name} is wrong at {int(bad.sum())} of {bad.size} elements, first at {list(where)}:",
        f"  expected {wanted[where]}, got {found[where]}",
    ]
    if dtype(found.dtype).is_float:
        with np.errstate(all="ignore"):
            errors = np.abs(wanted.astype("f8") - found.astype("f8"))
        lines.append(f"  largest absolute error {np.nanmax(errors, initial=0.0):.3g}")
    raise TowerError(floor, below, "\n".join(lines))


def _mismatches(
    wanted: np.ndarray, found: np.ndarray, tolerance: tuple[float | None, float | None]
) -> Any:
    kind = dtype(found.dtype)
    if not kind.is_float:
        return np.asarray(wanted != found)
    default = TOLERANCE.get(kind, 0.1)
    rtol, atol = (default if given is None else given for given in tolerance)
    a, b = wanted.astype("f8"), found.astype("f8")
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max(initial=0.0))
    with np.errstate(all="ignore"):
        close = np.isclose(b, a, rtol=rtol, atol=atol * scale, equal_nan=True)
    return ~close


def _difference(previous: Any, floor: Any) -> str:
    """What the floor changed in the program's text."""
    if not isinstance(floor, (PrimFunc, IRModule)):
        return f"\n{previous}"
    try:
        texts: Any = [str(program).splitlines() for program in (previous, floor)]
    except Exception as error:  # the text is a help, not the point
        return f"\n(no text: {error})"
    lines = list(difflib.unified_diff(*texts, "below", "here", lineterm=""))  # type: ignore[call-arg, misc]
    more = [f"... {len(lines) - _LONGEST_DIFF} lines more"] if len(lines) > _LONGEST_DIFF else []
    return "\n" + "\n".join([*lines[:_LONGEST_DIFF], *more])
