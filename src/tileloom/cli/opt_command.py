"""`tileloom opt`: TVMScript text through passes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..base.errors import UserError
from ..lower.pipeline import PIPELINE, STAGES, name_of, passes_until, run_passes
from ..tir import IRModule, PrimFunc


@click.command("opt")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--pass", "names", multiple=True, metavar="NAME", help="Run a pass; in this order.")
@click.option("--until", metavar="STAGE", help="Run the pipeline up to a stage or a pass.")
@click.option("--print-all", is_flag=True, help="Print the program after each pass.")
@click.option("--verify", is_flag=True, help="Check the program between the passes.")
def command(
    path: str, names: Sequence[str], until: str | None, print_all: bool, verify: bool
) -> None:
    """Run passes over tensor IR in TVMScript (- reads standard input) and print the result.

    FILE `list` prints the names of passes and stages.
    """
    if path == "list":
        click.echo("stages: " + ", ".join(STAGES))
        click.echo("passes: " + ", ".join(dict.fromkeys(map(name_of, PIPELINE))))
        return
    program = read_script(path)
    passes = [find_pass(name) for name in names]
    if until:
        passes += passes_until(until)
    functions = program.functions if isinstance(program, IRModule) else {program.name: program}

    def report(step: str, func: PrimFunc) -> None:
        if print_all:
            click.echo(f"# ---- {step}\n{show(func)}\n")

    made = {name: run_passes(f, passes, report, verify) for name, f in functions.items()}
    if not print_all:
        whole = isinstance(program, IRModule)
        click.echo(show(program.replace(functions=made) if whole else next(iter(made.values()))))


def show(program: Any) -> str:
    """TVMScript text."""
    from ..script.show import show as show_script

    return show_script(program)


def find_pass(name: str) -> Any:
    """The pass of this name."""
    known = {name_of(step): step for step in PIPELINE}
    if name not in known:
        raise UserError(f"there is no pass {name!r}", hint=f"one of {', '.join(known)}")
    return known[name]


def read_script(path: str) -> Any:
    """The function or module in a TVMScript file."""
    from ..script.parse import parse

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text") from None
    return parse(text, filename=path)
