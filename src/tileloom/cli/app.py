"""The command group: loads a subcommand when it is asked for, and shows errors."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

import tileloom

from ..base.errors import InternalError, UserError
from ..base.settings import settings

_COMMANDS = (
    *("run", "compile", "bench", "opt", "lit", "layout", "trace", "tune", "doctor", "demo"),
    "sample",
)
USER_ERROR, OUR_ERROR = 2, 3


class Commands(click.Group):
    """Subcommands that live in a module each."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the documentation."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"{__package__}.{cmd_name}_command").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; say what is wrong in a line or two instead of a traceback."""
        try:
            return super().invoke(ctx)
        except (UserError, OSError, ModuleNotFoundError) as error:
            if settings().full_traceback:
                raise
            click.echo(f"error: {error}", err=True)
            sys.exit(USER_ERROR)
        except InternalError as error:
            if settings().full_traceback:
                raise
            hint = "TILELOOM_FULL_TRACEBACK=1 shows where it comes from"
            click.echo(f"internal error: {error}\n  hint: {hint}", err=True)
            sys.exit(OUR_ERROR)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tileloom.__version__, prog_name="tileloom")
def cli() -> None:
    """Tileloom compiles tensor programs: ONNX models, NumPy-style functions, TVMScript."""
