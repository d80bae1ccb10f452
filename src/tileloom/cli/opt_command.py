"""`tileloom opt`: TVMScript text, or Triton's MLIR text, through passes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..base.errors import UserError
from ..lower.pipeline import PIPELINE, STAGES, name_of, passes_until, run_passes
from ..tile.passes import registry as tile_registry
from ..tile.tools import opt as tile_opt
from ..tir import IRModule, PrimFunc

ARGUMENTS = "tileloom.arguments"  # all arguments, as tile IR reads them
FLAGS = "tileloom.flags"  # those of tile IR alone
_ONLY_SCRIPT = ("--until",)


class OptCommand(click.Command):
    """A command that also takes Triton's flags: words after one dash or two, which are passes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Sets apart what only tile IR knows."""
        options = [option for option in self.params if isinstance(option, click.Option)]
        takes_value = {name: not option.is_flag for option in options for name in option.opts}
        takes_value |= dict.fromkeys(self.get_help_option_names(ctx), False)
        doubled = [f"-{word}" if _is_flag(word) else word for word in args]
        known = []
        for word in doubled:
            name, equals, _ = word.partition("=")
            plain = not word.startswith("-") or word in ("-", "--")
            if plain or takes_value.get(name, False) or (name in takes_value and not equals):
                known.append(word)
            else:
                ctx.meta.setdefault(FLAGS, []).append(word)
        ctx.meta[ARGUMENTS] = doubled
        return super().parse_args(ctx, known)


def _is_flag(word: str) -> bool:
    return len(word) > 2 and word.startswith("-") and not word.startswith("--")


@click.command("opt", cls=OptCommand)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--pass", "names", multiple=True, metavar="NAME", help="Run a pass; in this order.")
@click.option("--until", metavar="STAGE", help="Run the pipeline up to a stage or a pass.")
@click.option("--print-all", is_flag=True, help="Print the program after each pass.")
@click.option("--verify", is_flag=True, help="Check the program between the passes.")
@click.option("--passes", metavar="PIPELINE", help="MLIR: 'cse,tritongpu-pipeline{num-stages=3}'.")
@click.option("--split-input-file", is_flag=True, help="MLIR: take pieces between `// -----`.")
@click.option("--verify-diagnostics", is_flag=True, help="MLIR: check `// expected-error {{}}`.")
@click.option("--allow-unregistered-dialect", is_flag=True, help="MLIR: take any operation.")
@click.option("--print-between-passes", is_flag=True, help="MLIR: print the changes of each pass.")
@click.option("--print-diff", is_flag=True, help="MLIR: ... as differences.")
@click.option("--mlir-print-op-generic", is_flag=True, help="MLIR: print the generic syntax.")
@click.option("--mlir-print-local-scope", is_flag=True, help="MLIR: print no aliases.")
@click.option("--timing", is_flag=True, help="MLIR: how long the passes took.")
@click.option("--spelling", metavar="NAME", help="MLIR: print as Triton 3.2, era or 3.3 does.")
@click.option("-o", "output", metavar="FILE", help="MLIR: write the result into a file.")
@click.option("--debug-only", hidden=True)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: str,
    names: Sequence[str],
    until: str | None,
    print_all: bool,
    verify: bool,
    **_of_mlir: Any,
) -> None:
    """Run passes over a program (- reads standard input) and print the result.

    FILE is tensor IR in TVMScript, or MLIR text of Triton's dialects (.mlir, .ttir, .ttgir), to
    which passes are also given as flags: -tritongpu-coalesce -tritongpu-pipeline=num-stages=3.
    FILE `list` prints the names of passes and stages.
    """
    if path == "list":
        list_passes()
        return
    text = read_text(path)
    if tile_opt.is_mlir(path, text):
        run_tile_opt(ctx.meta[ARGUMENTS], text)
        return
    refuse_flags(ctx)
    program = parse_script(path, text)
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


def list_passes() -> None:
    """Prints what passes there are."""
    tile_registry.load()
    click.echo("stages: " + ", ".join(STAGES))
    click.echo("passes: " + ", ".join(dict.fromkeys(map(name_of, PIPELINE))))
    click.echo("passes over MLIR text: " + ", ".join(sorted(tile_registry.PASSES)))


def run_tile_opt(arguments: Sequence[str], text: str) -> None:
    """Runs passes over MLIR text, and exits with 1 if something is wrong."""
    refused = next((word for word in arguments if word.split("=")[0] in _ONLY_SCRIPT), None)
    if refused is not None:
        raise UserError(f"option {refused} is for TVMScript; this file is MLIR text")
    made = tile_opt.run_opt(arguments, text)
    click.echo(made.out, nl=False)
    click.echo(made.err, nl=False, err=True)
    if made.status:
        sys.exit(made.status)


def refuse_flags(ctx: click.Context) -> None:
    """Refuses what a TVMScript file has no use for."""
    of_script = ("path", "names", "until", "print_all", "verify")
    for name, value in ctx.params.items():
        if value and name not in of_script:
            flag = "-o" if name == "output" else f"--{name.replace('_', '-')}"
            raise UserError(f"option {flag} is for MLIR text; this file is TVMScript")
    flags = ctx.meta.get(FLAGS)
    if flags:
        raise UserError(f"there is no option {flags[0]} for TVMScript")


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


def read_text(path: str) -> str:
    """The text of a file, or of standard input."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text") from None


def read_script(path: str) -> Any:
    """The function or module in a TVMScript file."""
    return parse_script(path, read_text(path))


def parse_script(path: str, text: str) -> Any:
    """The function or module in TVMScript text."""
    from ..script.parse import parse

    return parse(text, filename=path)
