"""`tileloom trace`: what the compiler made of a program, step by step, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..base.errors import UserError
from ..base.settings import override, settings
from ..plan import write_traces
from ..report import KERNEL_STAGES, ProgramTrace, to_html, to_text, trace_graph, trace_script
from ..target import target as parse_target
from . import models
from .console import err
from .opt_command import read_script
from .programs import PROGRAMS, program_graph

SAVED = "Write the schedules of the kernels; TILELOOM_TRACES takes the file."


@click.command("trace")
@click.argument("what", metavar="MODEL|PROGRAM")
@models.model_options
@click.option("--target", default="cpu", show_default=True, help='As "cpu -mcpu=x86-64-v3".')
@click.option("--optimize", metavar="WORDS", help="Rules, as TILELOOM_OPTIMIZE takes them.")
@click.option("--changes", is_flag=True, help="Show what each step did to the program.")
@click.option("--stage", metavar="NAME", help="Show only the program at this stage.")
@click.option("--kernel", metavar="NAME", help="Show only this kernel; --stage says how.")
@click.option("--steps", is_flag=True, help="Show the kernel from blocks through every pass.")
@click.option("--tactics", is_flag=True, help="With --steps: schedule it by CINN's tactics.")
@click.option("--shape", metavar="64x128", help="Of the argument of a built-in program.")
@click.option("--save-traces", metavar="FILE", type=click.Path(dir_okay=False), help=SAVED)
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="Write a page.")
def command(
    what: str, inputs: Sequence[str], dims: Sequence[str], seed: int, target: str,
    optimize: str | None, changes: bool, stage: str | None, kernel: str | None, steps: bool,
    tactics: bool, shape: str | None, html: str | None, save_traces: str | None,
) -> None:  # fmt: skip
    """Show how a program becomes kernels: graph, rules that fired, fusion and its refusals, code.

    MODEL is an ONNX file, an AKG graph (.info, .json), or TVMScript text (.py, .txt). PROGRAM is a
    built-in program; `list` prints their names. Stages of graphs: imported, expanded, optimized,
    laid out, packed; of kernels: blocks, trace, tir, loops, lowered, llvm, asm; of scripts: the
    passes.
    """
    if what == "list":
        for program in PROGRAMS:
            click.echo(f"{program.name:12} {program.shape}")
        return
    words = settings().optimize if optimize is None else tuple(optimize.split(","))
    with override(optimize=words), err.status("tracing"):
        trace = make_trace(what, inputs, dims, seed, target, shape)
        if steps or tactics:
            trace, kernel = trace.kernel_steps(kernel or _only_kernel(trace), tactics), None
        text = shown(trace, stage, kernel, changes)
        if save_traces is not None:
            write_traces(Path(save_traces), trace.records)
        if html is not None:
            stages = [stage] if stage in KERNEL_STAGES else ["tir"]
            Path(html).write_text(to_html(trace, stages), encoding="utf-8")
    for written in filter(None, (html, save_traces)):
        err.print(f"wrote {written}")
    if html is None or stage is not None or kernel is not None:
        click.echo(text)


def make_trace(
    what: str,
    inputs: Sequence[str],
    dims: Sequence[str],
    seed: int,
    target: str,
    shape: str | None = None,
) -> ProgramTrace:
    """The trace of a file or of a built-in program."""
    wanted = parse_target(target)
    if Path(what).is_file():
        if not models.is_model(what):
            return trace_script(read_script(what), wanted)
        extents = models.parse_dims(dims)
        model = models.load(what, extents)
        feeds = models.make_inputs(model.get_inputs(), inputs, extents, seed)
        return trace_graph(models.graph_of(model, feeds), wanted)
    return trace_graph(program_graph(what, seed, shape), wanted)


def _only_kernel(trace: ProgramTrace) -> str:
    names = [kernel.name for kernel in trace.kernels if not kernel.host]
    if len(names) != 1:
        raise UserError("--steps shows one kernel", hint=f"--kernel with one of {', '.join(names)}")
    return names[0]


def shown(trace: ProgramTrace, stage: str | None, kernel: str | None, changes: bool) -> str:
    """What the options ask for."""
    if kernel is not None:
        return trace.kernel_text(kernel, stage or "tir")
    if stage is not None and (stage not in KERNEL_STAGES or not trace.kernels):
        return "\n".join(trace.stage(stage).lines)
    if stage is not None and trace.module is not None:
        return trace.kernels_text(stage)
    return to_text(trace, changes)
