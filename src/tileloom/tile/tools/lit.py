"""Tests in the way of LLVM's `lit`: files whose comments say how they are run.

    // RUN: triton-opt %s -split-input-file -tritongpu-coalesce | FileCheck %s
    // REQUIRES: feature && !other      // UNSUPPORTED: feature      // XFAIL: *

The programs run in this process: `triton-opt` is `opt`, `FileCheck` that of the package.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from ...base.errors import UnsupportedError, UserError
from .opt import SUFFIXES
from .shell import run_line

FEATURES = ("tileloom",)
PASSED, EXPECTED_FAILURE, SKIPPED = "PASS", "XFAIL", "UNSUPPORTED"
FAILED, UNEXPECTED_PASS, UNRESOLVED = "FAIL", "XPASS", "UNRESOLVED"
GOOD = (PASSED, EXPECTED_FAILURE, SKIPPED)


@dataclass(frozen=True)
class LitResult:
    """What came of a file: `PASS`, `FAIL`, `XFAIL`, `XPASS`, `UNSUPPORTED` or `UNRESOLVED` (it
    cannot be run here), and what was said."""

    path: Path
    code: str
    output: str = ""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether this is no failure."""
        return self.code in GOOD


@dataclass(frozen=True)
class LitFile:
    """What the comments of a file ask for."""

    path: Path
    runs: tuple[str, ...]
    requires: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    expected_failures: tuple[str, ...] = ()


_COMMENT = re.compile(r"\b(RUN|REQUIRES|UNSUPPORTED|XFAIL):[ \t]*(.*)")


def read_test(path: Path) -> LitFile:
    """The comments of a file; a RUN line that ends with a backslash goes on in the next."""
    found: dict[str, list[str]] = {"RUN": [], "REQUIRES": [], "UNSUPPORTED": [], "XFAIL": []}
    open_line = False
    for kind, rest in _COMMENT.findall(path.read_text()):
        text = rest.rstrip()
        if kind != "RUN":
            found[kind] += [part.strip() for part in text.split(",")]
            continue
        if open_line:
            found["RUN"][-1] += " " + text.removesuffix("\\").strip()
        else:
            found["RUN"].append(text.removesuffix("\\").strip())
        open_line = text.endswith("\\")
    return LitFile(
        path,
        *(tuple(found[kind]) for kind in ("RUN", "REQUIRES", "UNSUPPORTED", "XFAIL")),
    )


def find_tests(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, and those in folders that have a RUN line."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for inner in sorted(path.rglob("*")):
            if inner.suffix in SUFFIXES and "RUN:" in inner.read_text():
                yield inner


def run_test(path: Path, features: Collection[str] = FEATURES) -> LitResult:
    """Runs a file.

    Args:
        features: what `REQUIRES`, `UNSUPPORTED` and `XFAIL` may ask for.

    Raises:
        UserError: if the file is not there, or is no text.
    """
    try:
        test = read_test(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    start = perf_counter()
    try:
        code, output = _verdict(test, features)
    except UnsupportedError as error:
        code, output = UNRESOLVED, f"{error}\n"
    return LitResult(path, code, output, perf_counter() - start)


def _verdict(test: LitFile, features: Collection[str]) -> tuple[str, str]:
    if not test.runs:
        return UNRESOLVED, "the file has no RUN line\n"
    missing = [text for text in test.requires if not holds(text, features)]
    if missing:
        return SKIPPED, f"requires {', '.join(missing)}\n"
    if any(holds(text, features) for text in test.unsupported):
        return SKIPPED, ""
    status, output = _run_lines(test)
    if any(holds(text, features) for text in test.expected_failures):
        return (EXPECTED_FAILURE, "") if status else (UNEXPECTED_PASS, "expected to fail\n")
    return (FAILED, output) if status else (PASSED, "")


def _run_lines(test: LitFile) -> tuple[int, str]:
    """Runs the RUN lines up to the first that fails."""
    with TemporaryDirectory() as folder:
        for number, line in enumerate(test.runs, 1):
            made = run_line(substituted(line, test.path, Path(folder)))
            if made.status:
                said = made.err or made.out
                return made.status, f"RUN line {number}: {line}\n{said}"
    return 0, ""


def substituted(line: str, path: Path, folder: Path) -> str:
    """A RUN line with `%s` (the file), `%S` (its folder), `%t` (a file to write), `%T` (a folder).

    >>> substituted("opt %s -o %t", Path("a.mlir"), Path("/tmp"))
    'opt a.mlir -o /tmp/a.mlir.tmp'
    """
    values = {
        "%": "%",
        "s": str(path),
        "S": str(path.parent),
        "p": str(path.parent),
        "t": str(folder / f"{path.name}.tmp"),
        "T": str(folder),
        "basename_t": path.name,
    }
    return re.sub(r"%(%|basename_t\b|[sSptT](?![A-Za-z_]))", lambda found: values[found[1]], line)


def holds(expression: str, features: Collection[str]) -> bool:
    """Whether an expression over features holds: names, `&&`, `||`, `!`, parentheses, `*`.

    >>> holds("a && (!b || c)", {"a"}), holds("*", ()), holds("b", {"a"})
    (True, True, False)
    """
    tokens = re.findall(r"&&|\|\||[!()*]|[\w.+={}-]+", expression)
    value, rest = _either(tokens, features)
    if rest:
        raise UserError(f"not an expression over features: {expression!r}")
    return value


def _either(tokens: list[str], features: Collection[str]) -> tuple[bool, list[str]]:
    value, rest = _both(tokens, features)
    while rest and rest[0] == "||":
        other, rest = _both(rest[1:], features)
        value = value or other
    return value, rest


def _both(tokens: list[str], features: Collection[str]) -> tuple[bool, list[str]]:
    value, rest = _single(tokens, features)
    while rest and rest[0] == "&&":
        other, rest = _single(rest[1:], features)
        value = value and other
    return value, rest


def _single(tokens: list[str], features: Collection[str]) -> tuple[bool, list[str]]:
    if not tokens:
        raise UserError("an expression over features ends too early")
    first, rest = tokens[0], tokens[1:]
    if first == "!":
        value, rest = _single(rest, features)
        return not value, rest
    if first == "(":
        value, rest = _either(rest, features)
        return value, rest[1:]
    return first in ("*", "true") or first in features, rest
