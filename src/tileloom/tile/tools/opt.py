"""Passes over MLIR text, as `triton-opt` runs them: pieces of a file one by one, messages with
places, and checks of the messages that a file expects."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from ...base.errors import UserError, VerifyError
from ..ir.core import Operation
from ..ir.parser import parse
from ..ir.show import show
from ..ir.verify import faults
from ..passes.registry import PassReport, run_passes
from .diagnostics import Diagnostic, diagnostic_of, differences, expectations, handled_by
from .flags import OptSettings, parse_flags

_MLIR = re.compile(
    r"""(?:\s+|//[^\n]*)*(?:module\b|[#!][\w$.]+\s*=\s*(?:[#!\[]|affine_map|tensor|loc)"""
    r"""|(?:tt|func)\.func\b|"[\w.]+"\s*\()"""
)
SUFFIXES = (".mlir", ".ttir", ".ttgir")


def is_mlir(path: str, text: str) -> bool:
    """Whether a file is MLIR text, by its name or by how it begins.

    >>> is_mlir("-", "// a test\\n#blocked = #ttg.blocked<{}>"), is_mlir("a.py", "# a comment")
    (True, False)
    """
    return path.endswith(SUFFIXES) or _MLIR.match(text) is not None


@dataclass(frozen=True)
class ToolOutput:
    """What a program gave: its exit status and what it wrote."""

    status: int
    out: str = ""
    err: str = ""


def run_opt(arguments: Sequence[str], text: str | None = None) -> ToolOutput:
    """Runs `opt`; an unknown argument or a missing file is an error in its output.

    Args:
        arguments: as on the command line.
        text: what standard input has, or what the file has if it has been read.

    >>> run_opt(["-cse"], "tt.func @f() { tt.return }").out.splitlines()[1]
    '  tt.func @f() {'
    """
    try:
        settings = parse_flags(arguments)
        source = _read(settings.path) if text is None else text
    except UserError as error:
        return ToolOutput(1, "", diagnostic_of(error).render() + "\n")
    except OSError as error:
        return ToolOutput(1, "", f"error: {error.filename}: {error.strerror}\n")
    made = opt_text(settings, source)
    if settings.output != "-" and made.status == 0:
        Path(settings.output).write_text(made.out)
        return ToolOutput(0, "", made.err)
    return made


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text") from None


def opt_text(settings: OptSettings, text: str) -> ToolOutput:
    """Runs the passes over a text; the pieces of one that is split do not know of each other."""
    name = "<stdin>" if settings.path == "-" else settings.path
    runs = [_OptRun(settings, name, *piece).run() for piece in pieces(text, settings.marker)]
    out = "// -----\n".join(run.out for run in runs)
    err = "".join(run.err for run in runs)
    failed = any(run.failed for run in runs)
    if settings.timing:
        err += timing_table([report for run in runs for report in run.reports])
    return ToolOutput(int(failed), out, err)


def pieces(text: str, marker: str | None) -> Iterator[tuple[str, int]]:
    """The pieces of a text between the lines that begin with the marker, and their first lines.

    >>> list(pieces("a\\n// -----\\nb\\n", "// -----"))
    [('a\\n', 1), ('b\\n', 3)]
    """
    if marker is None:
        yield text, 1
        return
    at = 0
    for match in re.finditer(rf"^[ \t]*{re.escape(marker)}.*(?:\n|\Z)", text, re.MULTILINE):
        yield text[at : match.start()], text.count("\n", 0, at) + 1
        at = match.end()
    yield text[at:], text.count("\n", 0, at) + 1


@dataclass
class _OptRun:
    """The passes over one piece, and what came of it."""

    settings: OptSettings
    filename: str
    text: str
    first_line: int
    out: str = ""
    err: str = ""
    failed: bool = False
    diagnostics: list[Diagnostic] = field(default_factory=list)
    reports: list[PassReport] = field(default_factory=list)
    before: str = ""

    def run(self) -> _OptRun:
        with handled_by(self.diagnostics.append):
            try:
                self.transform()
            except UserError as error:
                self.diagnostics.append(diagnostic_of(error))
        if self.settings.verify_diagnostics:
            expected = expectations(self.text, self.filename, self.first_line)
            self.diagnostics = list(differences(expected, self.diagnostics))
        self.failed = any(found.severity == "error" for found in self.diagnostics)
        self.err += "".join(f"{found.render()}\n" for found in self.diagnostics)
        if self.failed:
            self.out = ""
        return self

    def transform(self) -> None:
        """Reads, checks, runs the passes and writes."""
        module = parse(self.text, self.filename, self.first_line)
        self.check(module)
        if self.diagnostics:
            return
        settings = self.settings
        if settings.show_between:
            self.before = self.show(module)
        for step in settings.steps:
            said = StringIO()  # what a pass shows, rather than changes
            try:
                with redirect_stderr(said):
                    self.reports += run_passes(module, [step], check=settings.verify_each)
            finally:
                self.err += said.getvalue()
            if settings.show_between:
                self.show_change(step.tile_pass.name, module)
        self.out = self.show(module) + "\n"

    def check(self, module: Operation) -> None:
        """Finds what is wrong with the program: the first fault of each function."""
        if not self.settings.allow_unregistered:
            for op in module.walk():
                if not op.definition.registered:
                    raise VerifyError(_UNREGISTERED.format(op.name), span=op.describe_span())
        seen: set[tuple[int, int]] = set()
        functions = [function_span(op) for op in module.walk() if op.name.endswith(".func")]
        for fault in faults(module):
            line = fault.span.line if fault.span is not None else 0
            around = next(((a, b) for a, b in functions if a <= line <= b), (0, 0))
            if around not in seen:
                seen.add(around)
                self.diagnostics.append(diagnostic_of(fault))

    def show(self, module: Operation) -> str:
        """The module as text."""
        settings = self.settings
        return show(
            module,
            spelling=settings.spelling,
            generic=settings.generic,
            aliases=not settings.local_scope,
        )

    def show_change(self, name: str, module: Operation) -> None:
        """Writes the module after a pass, or how it differs from before."""
        after = self.show(module)
        if after == self.before:
            self.err += f"// -----// After {name}: no change //----- //\n"
        elif self.settings.show_difference:
            lines = difflib.unified_diff(
                self.before.splitlines(), after.splitlines(), "before", f"after {name}", lineterm=""
            )
            self.err += "\n".join(lines) + "\n"
        else:
            self.err += f"// -----// After {name} //----- //\n{after}\n\n"
        self.before = after


_UNREGISTERED = (
    "operation '{}' is of no dialect that is known here; with -allow-unregistered-dialect it is "
    "taken as it is"
)


def function_span(op: Operation) -> tuple[int, int]:
    """The first and the last line of an operation."""
    span = op.describe_span()
    return (span.line, span.end_line) if span is not None else (0, 0)


def timing_table(reports: Sequence[PassReport]) -> str:
    """How long passes took, each in all.

    >>> print(timing_table([PassReport("cse", 0.001), PassReport("cse", 0.003)]), end="")
    // pass times: 4.000 ms in all
    //      4.000 ms  100.0%     2 x cse
    """
    total = sum(report.seconds for report in reports)
    lines = [f"// pass times: {total * 1e3:.3f} ms in all"]
    for name in dict.fromkeys(report.name for report in reports):
        times = [report.seconds for report in reports if report.name == name]
        share = 100 * sum(times) / total if total else 0.0
        lines.append(f"// {sum(times) * 1e3:10.3f} ms {share:6.1f}% {len(times):5d} x {name}")
    return "\n".join(lines) + "\n"
