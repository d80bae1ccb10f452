"""Command lines of tests: pipes, redirections and `&&` between programs that run in process."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import format_exc

from ...base.errors import UnsupportedError, UserError
from .filecheck import run_filecheck
from .opt import ToolOutput, run_opt

CRASHED = 134  # as of a process that was aborted
Program = Callable[[Sequence[str], str], ToolOutput]


@dataclass
class ShellStage:
    """A program of a pipe, with its arguments and redirections."""

    words: list[str] = field(default_factory=list)
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    merge: bool = False  # 2>&1


def run_line(line: str) -> ToolOutput:
    """Runs a command line; its output is that of the last program that ran, its messages those of
    all.

    Raises:
        UnsupportedError: if it has a program that is none of ours.

    >>> run_line("echo a b | count 1").status
    0
    """
    said = ""
    made = ToolOutput(0)
    for pipe in split_commands(line):
        made = run_pipe(pipe)
        said += made.err
        if made.status:
            break
    return replace(made, err=said)


def run_pipe(stages: Sequence[ShellStage]) -> ToolOutput:
    """Runs programs one after another, each with the output of the one before; it fails if any
    does."""
    text, said, status = "", "", 0
    for stage in stages:
        if stage.stdin is not None:
            text = Path(stage.stdin).read_text()
        made = run_program(stage.words, text)
        text, errors = made.out, made.err
        if stage.merge:
            text, errors = errors + text, ""
        if stage.stderr is not None:
            _write(stage.stderr, errors)
            errors = ""
        if stage.stdout is not None:
            _write(stage.stdout, text)
            text = ""
        said += errors
        status = status or made.status
    return ToolOutput(status, text, said)


def _write(path: str, text: str) -> None:
    if path != "/dev/null":
        Path(path).write_text(text)


def split_commands(line: str) -> list[list[ShellStage]]:
    """The pipes of a line, each a list of programs.

    >>> [[stage.words for stage in pipe] for pipe in split_commands("a -x | b 2>&1 && c")]
    [[['a', '-x'], ['b']], [['c']]]
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    pipes = [[ShellStage()]]
    words = iter(lexer)
    for word in words:
        stage = pipes[-1][-1]
        if word == "|":
            pipes[-1].append(ShellStage())
        elif word in ("&&", ";"):
            pipes.append([ShellStage()])
        elif word in (">", "<", ">&", "&>", ">>"):
            _redirect(stage, word, next(words, ""))
        elif set(word) <= set("|&;<>"):
            raise UnsupportedError(f"a RUN line with {word!r} is not supported")
        else:
            stage.words.append(word)
    return [pipe for pipe in pipes if pipe[0].words]


def _redirect(stage: ShellStage, sign: str, target: str) -> None:
    """Notes a redirection; the number before the sign has been read as a word."""
    of_errors = bool(stage.words) and stage.words[-1] == "2" and sign != "<"
    if of_errors:
        stage.words.pop()
    match sign:
        case "<":
            stage.stdin = target
        case ">&" if of_errors and target == "1":
            stage.merge = True
        case ">" if of_errors:
            stage.stderr = target
        case ">":
            stage.stdout = target
        case "&>":
            stage.merge, stage.stdout = True, target
        case _:
            raise UnsupportedError(f"a RUN line with '{sign}{target}' is not supported")


def run_program(words: Sequence[str], text: str) -> ToolOutput:
    """Runs one of the programs that tests may call."""
    if not words:
        raise UserError("a RUN line has an empty command")
    name = Path(words[0]).name
    program = PROGRAMS.get(name)
    if program is None:
        known = ", ".join(PROGRAMS)
        raise UnsupportedError(f"there is no program '{name}' here", hint=f"one of {known}")
    try:
        return program(words[1:], text)
    except UnsupportedError:
        raise
    except (UserError, OSError) as error:
        return ToolOutput(2, "", f"{name}: error: {error}\n")
    except Exception:  # a defect of ours is a failure of the test, and the others go on
        return ToolOutput(CRASHED, "", format_exc())


def _opt(arguments: Sequence[str], text: str) -> ToolOutput:
    reads_file = any(not word.startswith("-") for word in arguments)
    return run_opt(arguments, None if reads_file else text)


def _not(arguments: Sequence[str], text: str) -> ToolOutput:
    """`not`: fails if the program does not."""
    words = list(arguments)
    if words and words[0] == "--crash":
        words.pop(0)
    made = run_program(words, text)
    return replace(made, status=int(not made.status))


def _count(arguments: Sequence[str], text: str) -> ToolOutput:
    """`count N`: fails if the input has another number of lines."""
    wanted, found = int(arguments[0]), len(text.splitlines())
    said = f"Expected {wanted} lines, got {found}.\n"
    return ToolOutput(0) if wanted == found else ToolOutput(1, "", said)


def _cat(arguments: Sequence[str], text: str) -> ToolOutput:
    files = [path for path in arguments if path != "-"]
    return ToolOutput(0, "".join(Path(path).read_text() for path in files) if files else text)


def _env(arguments: Sequence[str], text: str) -> ToolOutput:
    """`env A=B program`: the settings are of programs that are not here, and are left out."""
    rest = list(arguments)
    while rest and "=" in rest[0]:
        rest.pop(0)
    return run_program(rest, text)


PROGRAMS: Mapping[str, Program] = {
    **dict.fromkeys(("triton-opt", "tileloom-opt", "mlir-opt"), _opt),
    **dict.fromkeys(("FileCheck", "filecheck"), run_filecheck),
    "not": _not,
    "count": _count,
    "cat": _cat,
    "env": _env,
    "echo": lambda arguments, text: ToolOutput(0, " ".join(arguments) + "\n"),
    "true": lambda arguments, text: ToolOutput(0),
    "false": lambda arguments, text: ToolOutput(1),
}
