"""Passes by their names, and pipelines written as text.

pipeline ::= pass (, pass)*         tritongpu-coalesce,cse
pass     ::= name [{ options }]     tritongpu-pipeline{num-stages=3}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from time import perf_counter
from typing import Any

from ...base.errors import UserError, VerifyError
from ..ir.core import Operation
from ..ir.verify import verify

PassFunction = Callable[..., Any]


@dataclass(frozen=True)
class TilePass:
    """A pass: a function of a module, with options."""

    name: str
    function: PassFunction
    options: Mapping[str, Any] = field(default_factory=dict)  # names and defaults

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.function.__doc__ or "").strip().splitlines()[0]


PASSES: dict[str, TilePass] = {}


def tile_pass(name: str, *others: str, **options: Any) -> Callable[[PassFunction], PassFunction]:
    """Registers a pass under the names that Triton, or MLIR, has for it.

    Args:
        options: the options and their defaults; `num_stages` is `num-stages` in text.
    """

    def register(function: PassFunction) -> PassFunction:
        for each in (name, *others):
            PASSES[each] = TilePass(each, function, options)
        return function

    return register


@cache
def load() -> None:
    """Imports all passes."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{package}.{module.name}")


def find_pass(name: str) -> TilePass:
    """The pass of a name.

    Raises:
        UserError: if there is none; says which there are.
    """
    load()
    found = PASSES.get(name)
    if found is None:
        raise UserError(f"there is no pass {name!r}", hint=f"one of {', '.join(sorted(PASSES))}")
    return found


@dataclass(frozen=True)
class PassStep:
    """A pass with its options."""

    tile_pass: TilePass
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, module: Operation) -> Any:
        """Runs the pass on a module."""
        return self.tile_pass.function(module, **{**self.tile_pass.options, **self.options})


def step(name: str, **options: Any) -> PassStep:
    """A pass with options, by its name."""
    found = find_pass(name)
    unknown = sorted(set(options) - set(found.options))
    if unknown:
        known = ", ".join(found.options) or "none"
        raise UserError(f"pass {name} has no option {unknown[0]!r}", hint=f"options: {known}")
    return PassStep(found, options)


_PASS = re.compile(r"\s*([\w.-]+)\s*(?:\{([^{}]*)\})?\s*(?:,|$)")


def parse_pipeline(text: str) -> list[PassStep]:
    """The passes of a pipeline in text.

    >>> [step.tile_pass.name for step in parse_pipeline("cse,canonicalize")]
    ['cse', 'canonicalize']
    """
    steps = []
    at = 0
    while at < len(text):
        match = _PASS.match(text, at)
        if match is None:
            raise UserError(f"not a pipeline: {text!r}, at {text[at:]!r}")
        name, options = match.groups()
        steps.append(step(name, **parse_options(find_pass(name), options or "")))
        at = match.end()
    return steps


def parse_options(found: TilePass, text: str) -> dict[str, Any]:
    """The options of a pass: `num-stages=3 target=cuda:80`."""
    made: dict[str, Any] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        key = name.replace("-", "_")
        if key not in found.options:
            known = ", ".join(found.options) or "none"
            raise UserError(f"pass {found.name} has no option {name!r}", hint=f"options: {known}")
        made[key] = option_value(found.options[key], value, name)
    return made


def option_value(default: Any, text: str, name: str) -> Any:
    """The value of an option of the type of its default."""
    if isinstance(default, bool):
        if text not in ("", "true", "false", "0", "1"):
            raise UserError(f"option {name} is true or false, not {text!r}")
        return text in ("", "true", "1")
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise UserError(f"option {name} is an integer, not {text!r}") from None
    return text


@dataclass(frozen=True)
class PassReport:
    """What a pass did: its name and the seconds it took."""

    name: str
    seconds: float


def run_passes(
    module: Operation,
    steps: Sequence[PassStep | str],
    *,
    check: bool = False,
    after: Callable[[str, Operation], None] | None = None,
) -> list[PassReport]:
    """Runs passes over a module, in place.

    Args:
        steps: passes, or pipelines in text.
        check: verifies the module after each pass.
        after: is called with the name of each pass that ran, and the module.
    """
    load()
    reports = []
    for item in steps:
        for each in parse_pipeline(item) if isinstance(item, str) else (item,):
            start = perf_counter()
            each.run(module)
            reports.append(PassReport(each.tile_pass.name, perf_counter() - start))
            if check:
                check_after(each.tile_pass.name, module)
            if after is not None:
                after(each.tile_pass.name, module)
    return reports


def check_after(name: str, module: Operation) -> None:
    """Verifies a module, and names the pass that broke it."""
    try:
        verify(module)
    except VerifyError as error:
        raise VerifyError(f"after {name}: {error.message}", span=error.span) from None
