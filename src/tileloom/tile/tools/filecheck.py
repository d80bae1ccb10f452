"""FileCheck: whether a text has the lines that comments of a file ask for, in their order.

The patterns of directives are those of the package `filecheck`, which is imported here alone; what
its syntax lacks (numbers, sums of them, line numbers) is rewritten for it. The order in which
directives are matched follows LLVM's documentation of FileCheck, in `matching.py`.

    [[#N:]], [[#%x,N:]], [[#N+1]]   numbers, and sums of them
    [[@LINE+1]], [[#@LINE+1]]       the number of the directive's line
    --implicit-check-not=text       a CHECK-NOT between all others
    --enable-var-scope              variables without `$` end at a CHECK-LABEL
    --allow-unused-prefixes         or else each prefix that is given must be used
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...base.errors import UnsupportedError, UserError
from .matching import CheckDirective, MatchError, match_all
from .opt import ToolOutput


def load_filecheck() -> Any:
    """The package `filecheck`, or an error that names the extra to install."""
    try:
        import filecheck.finput
        import filecheck.matcher
        import filecheck.options
        import filecheck.parser
    except ImportError as error:
        raise UnsupportedError(
            "FileCheck needs the package filecheck, which is not installed",
            hint='install it with: pip install "tileloom[lit]"',
        ) from error
    return filecheck


@dataclass
class CheckSettings:
    """What FileCheck is asked for."""

    check_file: str = ""
    input_file: str = "-"
    prefixes: list[str] = field(default_factory=list)
    implicit_nots: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    var_scope: bool = False
    full_lines: bool = False
    strict_whitespace: bool = False
    allow_empty: bool = False
    allow_unused: bool = False


_SWITCHES = {
    "enable-var-scope": "var_scope",
    "match-full-lines": "full_lines",
    "strict-whitespace": "strict_whitespace",
    "allow-empty": "allow_empty",
    "allow-unused-prefixes": "allow_unused",
}
_IGNORED = ("dump-input", "dump-input-context", "dump-input-filter", "comment-prefixes")


def parse_check_flags(arguments: Sequence[str]) -> CheckSettings:
    """What FileCheck's arguments ask for.

    >>> parse_check_flags(["a.mlir", "--check-prefixes=A,B", "--dump-input-context=20"]).prefixes
    ['A', 'B']
    """
    settings = CheckSettings()
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            settings.check_file = word
        elif word.startswith("-D"):
            name, _, value = word[2:].lstrip("#").partition("=")
            settings.variables[name] = value
        else:
            _set_check_flag(settings, word.lstrip("-"), words)
    if not settings.check_file:
        raise UserError("FileCheck needs the file that has the directives")
    return settings


def _set_check_flag(settings: CheckSettings, word: str, words: Iterator[str]) -> None:
    name, equals, value = word.partition("=")
    if name in _SWITCHES:
        setattr(settings, _SWITCHES[name], value != "false")
        return
    if name in ("v", "vv", "color"):
        return
    if not equals:
        value = next(words, "")
    match name:
        case "check-prefix" | "check-prefixes":
            settings.prefixes += value.split(",")
        case "implicit-check-not":
            settings.implicit_nots.append(value)
        case "input-file":
            settings.input_file = value
        case _ if name not in _IGNORED:
            raise UserError(f"FileCheck's option --{name} is not supported here")


def run_filecheck(arguments: Sequence[str], text: str) -> ToolOutput:
    """Checks a text; where it fails, the output says at which directive.

    Args:
        arguments: as on the command line of FileCheck.
        text: what standard input has.
    """
    settings = parse_check_flags(arguments)
    if settings.input_file != "-":
        text = Path(settings.input_file).read_text()
    directives = Path(settings.check_file).read_text()
    if not text.strip() and not settings.allow_empty:
        return ToolOutput(2, "", f"{settings.check_file}: FileCheck error: the input is empty\n")
    unused = unused_prefixes(settings, directives)
    if unused:
        return ToolOutput(2, "", f"error: no check strings found with prefix '{unused[0]}:'\n")
    return match(settings, directives, text)


def unused_prefixes(settings: CheckSettings, directives: str) -> list[str]:
    """The prefixes that were given and that no directive has."""
    given = settings.prefixes or ["CHECK"]
    missing = [name for name in given if not re.search(_directive((name,)), directives, re.M)]
    return [] if settings.allow_unused and len(missing) < len(given) else missing


def _directive(prefixes: Sequence[str]) -> str:
    names = "|".join(map(re.escape, prefixes))
    return (
        rf"(?<![\w-])(?P<prefix>{names})"
        rf"(?P<kind>-(?:NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-\d+))?(?P<literal>\{{LITERAL\}})?:"
    )


def match(settings: CheckSettings, directives: str, text: str) -> ToolOutput:
    """Matches the directives of a text with another."""
    package = load_filecheck()
    options = package.options.Options(
        match_filename=settings.check_file,
        check_prefixes=settings.prefixes or ["CHECK"],
        strict_whitespace=settings.strict_whitespace,
        match_full_lines=settings.full_lines,
        allow_empty=settings.allow_empty,
    )
    variables = Variables(settings.variables)
    known = known_directives(settings, directives, variables)
    nots = [f"{options.check_prefixes[0]}-NOT: {each}" for each in settings.implicit_nots]
    try:
        checks = read_checks(package, options, known, variables)
        implicit = read_checks(package, options, "\n".join(nots), variables)
        match_all(_with_nots(checks, implicit), text.replace("\r\n", "\n"), settings.var_scope)
    except MatchError as error:
        return _failure(settings, directives, error.check.number, str(error), error.described())
    except package.error.ParseError as error:
        return _failure(settings, directives, error.line_no, error.message)
    except package.error.CheckError as error:
        return _failure(settings, directives, error.op.source_line, error.message)
    return ToolOutput(0)


def _failure(
    settings: CheckSettings, directives: str, number: int, message: str, note: str = ""
) -> ToolOutput:
    """A message about a directive, with its line."""
    lines = directives.splitlines()
    line = f"{lines[number - 1]}\n" if 0 < number <= len(lines) else ""
    return ToolOutput(1, "", f"{settings.check_file}:{number}: error: {message}\n{line}{note}")


def read_checks(
    package: Any, options: Any, text: str, variables: Variables
) -> list[CheckDirective]:
    """The directives in a text, with patterns that the package compiles when the values of their
    variables are known."""
    patterns = package.parser.pattern_for_opts(options)
    made = []
    for parsed in package.parser.Parser(options, io.StringIO(text), *patterns):
        kind = parsed.name
        # A CHECK-NEXT is searched like any other; only then its place is looked at.
        plain = package.ops.CheckOp(
            parsed.prefix,
            "EMPTY" if kind == "EMPTY" else "CHECK",
            *(parsed.arg, parsed.source_line, parsed.uops),
        )
        made.append(
            CheckDirective(
                kind,
                f"{parsed.prefix}{'' if kind == 'CHECK' else '-' + kind}",
                parsed.source_line,
                variables,
                partial(package.compiler.compile_uops, plain, variables, options),
                getattr(parsed, "count", 1),
            )
        )
    return made


# Directives that the package knows.

_CAPTURE = re.compile(r"\[\[#\s*(?:%(?:\.(\d+))?([udxX])\s*,)?\s*(\$?\w+)\s*:\s*\]\]")
_LINE = re.compile(r"\[\[#?\s*@LINE\s*(?:([+-])\s*(\d+))?\s*\]\]")
_EXPRESSION = re.compile(r"\[\[#\s*([\w$+*() -]+?)\s*\]\]")
_NUMBERS = {"u": "[0-9]", "d": "-?[0-9]", "x": "[0-9a-f]", "X": "[0-9A-F]"}


def known_directives(settings: CheckSettings, directives: str, variables: Variables) -> str:
    """The directives as the package takes them, line by line."""
    pattern = re.compile(_directive(settings.prefixes or ["CHECK"]))
    made = []
    for number, line in enumerate(directives.split("\n"), 1):
        found = pattern.search(line)
        if found is None or re.search(r"\b(?:RUN|COM):", line[: found.start()]):
            made.append("")
            continue
        head, body = line[found.start() : found.end()], line[found.end() :]
        if found["literal"] is None:
            body = _known_patterns(body, number, variables)
        made.append(head + body)
    return "\n".join(made)


def _known_patterns(text: str, number: int, variables: Variables) -> str:
    """Numeric variables as variables of words, sums as variables, line numbers as numbers.

    >>> _known_patterns("[[#N:]] [[#N+1]] [[#@LINE-1]] [[#N]]", 7, Variables())
    '[[N:[0-9]+]] [[sum_1]] 6 [[N]]'
    """

    def line(found: re.Match[str]) -> str:
        return str(number + int((found[1] or "") + (found[2] or "0")))

    def capture(found: re.Match[str]) -> str:
        count = f"{{{found[1]}}}" if found[1] else "+"
        return f"[[{found[3]}:{_NUMBERS[found[2] or 'u']}{count}]]"

    def expression(found: re.Match[str]) -> str:
        if re.fullmatch(r"\$?[A-Za-z_]\w*", found[1]):
            return f"[[{found[1]}]]"
        return f"[[{variables.name_of_sum(found[1])}]]"

    return _EXPRESSION.sub(expression, _CAPTURE.sub(capture, _LINE.sub(line, text)))


class Variables(dict[str, Any]):
    """Variables by their names, and sums of them by names of their own.

    >>> variables = Variables(N="7")
    >>> variables[variables.name_of_sum("N + 1")], "M" in variables
    (8, False)
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self.sums: dict[str, str] = {}

    def name_of_sum(self, text: str) -> str:
        """A name for a sum or difference such as `N+1`."""
        if not re.fullmatch(r"[\w$]+(?:\s*[+-]\s*[\w$]+)*", text):
            raise UnsupportedError(f"FileCheck's expression [[#{text}]] is not supported here")
        name = f"sum_{len(self.sums) + 1}"
        self.sums[name] = text
        return name

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._value(str(key)) is not None

    def __missing__(self, key: str) -> int:
        value = self._value(key)
        if value is None:
            raise KeyError(key)
        return value

    def _value(self, name: str) -> int | None:
        total = 0
        for sign, word in re.findall(r"([+-]?)\s*([\w$]+)", self.sums.get(name, "")):
            known = word if word.isdigit() else self.get(word)
            if known is None or not str(known).lstrip("-").isdigit():
                return None
            total += -int(known) if sign == "-" else int(known)
        return total if name in self.sums else None

    def forget_local(self) -> None:
        """Removes the variables whose names do not begin with `$`."""
        for name in [name for name in self if not name.startswith("$")]:
            del self[name]


def _with_nots(
    checks: Sequence[CheckDirective], nots: Sequence[CheckDirective]
) -> list[CheckDirective]:
    """The checks with those of `--implicit-check-not` before each, and after the last."""
    made: list[CheckDirective] = []
    for check in checks:
        if not (check.kind == "DAG" and made and made[-1].kind == "DAG"):
            made += nots
        made.append(check)
    return [*made, *nots]
