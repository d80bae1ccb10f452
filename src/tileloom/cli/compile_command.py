"""`tileloom compile`: a program at any stage on its way to machine code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..driver import STAGES, show_stage
from ..graph.nodes import Graph
from . import models
from .console import err
from .opt_command import read_script
from .programs import program_graph


@click.command("compile")
@click.argument("what", metavar="FILE|PROGRAM")
@click.option(
    "--stage", "stages", multiple=True, type=click.Choice(STAGES), help="May be repeated."
)
@click.option("--target", default="cpu", show_default=True, help='As "cpu -mcpu=x86-64-v3".')
@click.option("-o", "--output", type=click.Path(), help="A file, or a folder for several stages.")
@click.option("--shape", metavar="64x128", help="Of the argument of a built-in program.")
@models.model_options
def command(
    what: str, stages: Sequence[str], target: str, output: str | None, shape: str | None,
    inputs: Sequence[str], dims: Sequence[str], seed: int,
) -> None:  # fmt: skip
    """Show a program at a stage: graph, groups, tir, loops, flat, llvm, asm.

    FILE is an ONNX model, an AKG graph (.info, .json), or TVMScript text (.py, .txt), which begins
    with tir. PROGRAM is a built-in program; `tileloom trace list` prints their names.
    """
    program = read_program(what, inputs, dims, seed, shape)
    chosen = stages or (("groups",) if isinstance(program, Graph) else ("flat",))
    texts = {stage: show_stage(program, stage, target) for stage in chosen}
    if output is None:
        for stage, text in texts.items():
            if len(texts) > 1:
                click.echo(f"# ---- {stage}")
            click.echo(text)
        return
    written = write(Path(output), texts)
    err.print(f"wrote {', '.join(map(str, written))}")


def read_program(
    path: str, inputs: Sequence[str], dims: Sequence[str], seed: int, shape: str | None = None
) -> Any:
    """A graph or tensor IR, of a file or of a built-in program."""
    if not Path(path).is_file():
        return program_graph(path, seed, shape)
    if not models.is_model(path):
        return read_script(path)
    extents = models.parse_dims(dims)
    model = models.load(path, extents)
    feeds = models.make_inputs(model.get_inputs(), inputs, extents, seed)
    return models.graph_of(model, feeds)


def write(place: Path, texts: dict[str, str]) -> list[Path]:
    """One stage into a file, several into a folder, a file each."""
    if len(texts) == 1:
        place.write_text(next(iter(texts.values())) + "\n")
        return [place]
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"{stage}.txt" for stage in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text + "\n")
    return paths
