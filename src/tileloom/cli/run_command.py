"""`tileloom run`: a model, compiled and run once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

import tileloom

from . import models
from .console import err, milliseconds, out, table
from .timing import interleaved_times


@click.command("run")
@click.argument("path", metavar="MODEL", type=click.Path(exists=True, dir_okay=False))
@models.model_options
@click.option(
    "--compare",
    "--check",
    is_flag=True,
    help="Compare with ONNX Runtime (else ONNX's reference); an AKG graph with NumPy.",
)
@click.option("--rtol", default=1e-4, show_default=True, help="Tolerance of the comparison.")
@click.option("--time", "timed", is_flag=True, help="Measure; side by side with --compare.")
@click.option("--save", type=click.Path(), help="Write the outputs to an .npz file.")
def command(
    path: str, inputs: Sequence[str], dims: Sequence[str], seed: int, compare: bool, rtol: float,
    timed: bool, save: str | None,
) -> None:  # fmt: skip
    """Run a model on all cores and describe what comes out.

    MODEL is an ONNX file (.onnx) or an AKG graph (.info, .json).
    """
    extents = models.parse_dims(dims)
    start = time.perf_counter()
    with err.status("compiling"):
        model = models.load(path, extents)
        arrays = models.make_inputs(model.get_inputs(), inputs, extents, seed)
        results = models.call(model, arrays)
    err.print(f"compiled and run in {time.perf_counter() - start:.2f} s")
    names = [info.name for info in model.get_outputs()]
    show_outputs(names, results)
    if save:
        np.savez(save, **dict(zip(names, results, strict=True)))
    calls = {"tileloom": lambda: models.call(model, arrays)}
    fine = True
    if compare:
        peer, call = reference(path, arrays)
        fine = show_errors(names, results, call(), peer, rtol)
        calls[peer] = call
    if timed:
        show_times(calls)
    if not fine:
        raise SystemExit(1)


def show_outputs(names: Sequence[str], results: Sequence[Any]) -> None:
    """A table of what came out."""
    rows = table("outputs", ["name", "type", "shape", "min", "mean", "max"], left=3)
    for name, result in zip(names, results, strict=True):
        if not isinstance(result, np.ndarray):
            rows.add_row(name, type(result).__name__, "", "", "", "")
            continue
        numbers = [""] * 3
        if result.size and result.dtype.kind in "biuf":
            wide = result.astype(np.float64)
            numbers = [f"{f(wide):.6g}" for f in (np.min, np.mean, np.max)]
        rows.add_row(name, str(result.dtype), str(list(result.shape)), *numbers)
    out.print(rows)


def reference(path: str, arrays: Mapping[str, Any]) -> tuple[str, Any]:
    """Another way to run the model: its name and a call."""
    if models.is_akg(path):
        interpreted = tileloom.akg.load(path, target="reference")
        return "numpy", lambda: models.call(interpreted, dict(arrays))
    try:
        import onnxruntime
    except ModuleNotFoundError:
        import onnx.reference

        evaluator = onnx.reference.ReferenceEvaluator(path)
        return "onnx reference", lambda: evaluator.run(None, dict(arrays))
    from ..runtime import get_num_threads

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return "onnxruntime", lambda: session.run(None, dict(arrays))


def show_errors(
    names: Sequence[str], results: Sequence[Any], expected: Sequence[Any], peer: str, rtol: float
) -> bool:
    """A table of the differences; whether all are within the tolerance."""
    rows = table(f"against {peer}", ["name", "verdict", "largest error", "of largest"], left=2)
    fine = True
    for name, ours, theirs in zip(names, results, expected, strict=True):
        good, error, scale = difference(ours, theirs, rtol)
        fine &= good
        verdict = "[green]equal[/]" if good else "[red]different[/]"
        rows.add_row(name, verdict, f"{error:.3g}", f"{scale:.3g}")
    out.print(rows)
    return fine


def difference(ours: Any, theirs: Any, rtol: float) -> tuple[bool, float, float]:
    """Whether two results agree, their largest difference, the largest number.

    >>> difference(np.float32([1, 2]), np.float32([1, 2.5]), 0.1)
    (False, 0.5, 2.5)
    """
    if isinstance(ours, (list, tuple)):
        parts = [difference(a, b, rtol) for a, b in zip(ours, theirs, strict=True)]
        return (
            len(ours) == len(theirs) and all(good for good, _, _ in parts),
            max((error for _, error, _ in parts), default=0.0),
            max((scale for _, _, scale in parts), default=0.0),
        )
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False, float("inf"), float("nan")
    if a.dtype.kind not in "biuf":
        return bool((a == b).all()), 0.0, 0.0
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(wide_a - wide_b))
    finite = np.abs(wide_b[np.isfinite(wide_b)])
    scale = float(finite.max(initial=0.0))
    error = float(np.max(gap, initial=0.0))
    return bool(error <= rtol * max(scale, 1e-30)) or error == 0.0, error, scale


def show_times(calls: Mapping[str, Any]) -> None:
    """A table of medians."""
    times = interleaved_times(calls)
    rows = table("time", ["by", "ms", "against tileloom"])
    for name, seconds in times.items():
        rows.add_row(name, milliseconds(seconds), f"{seconds / times['tileloom']:.2f}x")
    out.print(rows)


def model_calls(model: models.Model, path: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Tileloom and whoever else can run this file."""
    peer, call = reference(path, arrays)
    return {"tileloom": lambda: models.call(model, arrays), peer: call}
