"""`tileloom demo`: NumPy programs, a transformer encoder among them, compiled and compared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import click

import tileloom

from ..graph.show import show_groups
from ..runtime import get_num_threads
from ..target import Target
from .console import err, milliseconds, out, table
from .programs import PROGRAMS
from .trial import Trial, attempt


@click.command("demo")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=3.0,
    show_default=True,
    help="To measure each program.",
)
@click.option("--only", multiple=True, type=click.Choice([p.name for p in PROGRAMS]))
@click.option("--show", is_flag=True, help="Also list the calls of the last program's kernels.")
def command(seconds: float, only: Sequence[str], show: bool) -> None:
    """Compile NumPy programs as they are, check them in float64, time them against peers."""
    trials = []
    chosen = [p for p in PROGRAMS if not only or p.name in only]
    with err.status("") as status:
        for program in chosen:
            status.update(f"{program.name} {program.shape}")
            trials.append(attempt(program, seconds))
    out.print(report(trials))
    out.print(fused(trials[-1]))
    if show:
        text = show_groups(trials[-1].plan)
        out.print(text, markup=False, highlight=False, soft_wrap=True)
    wrong = [trial.program.name for trial in trials if not trial.is_right]
    if wrong:
        out.print(f"[red]wrong: {', '.join(wrong)}[/]")
        raise SystemExit(1)


def report(trials: Sequence[Trial]) -> object:
    """One table."""
    peers = list(dict.fromkeys(name for trial in trials for name in trial.seconds))[1:]
    columns = ["program", "ops", "kernels", "error", "compile ms", "ms"]
    columns += [f"x {peer}" for peer in peers]
    host = Target.host()
    about = f"tileloom {tileloom.__version__}, {get_num_threads()} threads, {host.vector_bits}-bit"
    rows = table(f"{about} vectors. x: times as fast as a peer", columns)
    for trial in trials:
        error = f"{trial.error:.1e}"
        rows.add_row(
            f"{trial.program.name} {trial.program.shape}",
            str(trial.nodes),
            str(trial.plan.kernel_count),
            error if trial.is_right else f"[red]{error}[/]",
            milliseconds(trial.compile_seconds),
            milliseconds(trial.seconds["tileloom"]) if trial.seconds else "-",
            *(_speed(trial, peer) for peer in peers),
        )
    return rows


def fused(trial: Trial) -> str:
    """Which operations went into which kernels."""
    calls = [call.kernel for segment in trial.plan.segments for call in segment.calls]
    names = [kernel.partition("_")[2].replace("_", " ") for kernel in calls]
    counts = Counter(names)
    inner = "; ".join(f"{count}x \\[{name}]" for name, count in counts.items())
    return (
        f"{trial.program.name} was fused into {len(calls)} kernel{'s' * (len(calls) != 1)}: {inner}"
    )


def _speed(trial: Trial, peer: str) -> str:
    speed = trial.speed(peer) if trial.seconds else math.nan
    if math.isnan(speed):
        return "-"
    return f"[green]{speed:.2f}[/]" if speed >= 1 else f"{speed:.2f}"
