"""`tileloom bench`: a model or a built-in program against its peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..base.errors import UserError
from . import models
from .console import err, out
from .demo_command import report
from .programs import PROGRAMS
from .run_command import difference, model_calls, show_times
from .trial import attempt


@click.command("bench")
@click.argument("what", metavar="MODEL|PROGRAM")
@models.model_options
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="To measure each.",
)
def command(
    what: str, inputs: Sequence[str], dims: Sequence[str], seed: int, seconds: float
) -> None:
    """Time a model against ONNX Runtime, or a built-in program against NumPy and PyTorch.

    MODEL is an ONNX file (.onnx) or an AKG graph (.info, .json), which is timed against NumPy.
    PROGRAM `list` prints the names of the built-in programs.
    """
    known = {program.name: program for program in PROGRAMS}
    if what == "list":
        for program in PROGRAMS:
            click.echo(f"{program.name:12} {program.shape}")
    elif what in known:
        with err.status(what):
            trial = attempt(known[what], seconds, seed)
        out.print(report([trial]))
        if not trial.is_right:
            raise SystemExit(1)
    elif Path(what).is_file():
        bench_model(what, inputs, dims, seed)
    else:
        hint = f"a file, or one of {', '.join(known)}"
        raise UserError(f"there is no file and no built-in program {what!r}", hint=hint)


def bench_model(path: str, inputs: Sequence[str], dims: Sequence[str], seed: int) -> None:
    """Check a model against its peer, then time both."""
    extents = models.parse_dims(dims)
    with err.status("compiling"):
        model = models.load(path, extents)
        arrays = models.make_inputs(model.get_inputs(), inputs, extents, seed)
        calls = model_calls(model, path, arrays)
        ours, theirs = (call() for call in calls.values())
    good, error, scale = difference(ours, theirs, 1e-3)
    if not good:
        raise UserError(f"the results differ by {error:.3g} where the largest is {scale:.3g}")
    show_times(calls)
