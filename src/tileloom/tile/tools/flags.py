"""The arguments of `opt`: Triton's and MLIR's flags, with one dash or two, in any order.

-tritongpu-coalesce                      a pass
-tritongpu-pipeline=num-stages=3         a pass with options
--convert-triton-to-tritongpu="target=cuda:80 num-warps=4"
--passes cse,tritongpu-pipeline{num-stages=3}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import UserError
from ..ir.text import SPELLINGS
from ..passes.registry import PassStep, find_pass, parse_options, parse_pipeline, step

MARKER = "// -----"


@dataclass
class OptSettings:
    """What `opt` is asked to do."""

    path: str = "-"
    steps: list[PassStep] = field(default_factory=list)
    output: str = "-"
    marker: str | None = None  # between the pieces of a file that are taken one by one
    verify_diagnostics: bool = False
    verify_each: bool = True
    allow_unregistered: bool = False
    show_between: bool = False
    show_difference: bool = False
    generic: bool = False
    local_scope: bool = False
    timing: bool = False
    spelling: str | None = None


# Flags that set a field to a truth value. A name may have `=false` after it.
_SWITCHES = {
    "verify-diagnostics": "verify_diagnostics",
    "verify-each": "verify_each",
    "verify": "verify_each",
    "allow-unregistered-dialect": "allow_unregistered",
    "print-between-passes": "show_between",
    "print-all": "show_between",
    "mlir-print-ir-after-all": "show_between",
    "print-diff": "show_difference",
    "mlir-print-op-generic": "generic",
    "mlir-print-local-scope": "local_scope",
    "mlir-timing": "timing",
    "timing": "timing",
}
# Flags of MLIR's own workings, which have no meaning here; true of those that take a value.
_IGNORED = {
    **dict.fromkeys(("debug", "mlir-disable-threading", "mlir-print-debuginfo"), False),
    **dict.fromkeys(("mlir-pretty-debuginfo", "mlir-print-assume-verified"), False),
    **dict.fromkeys(("mlir-print-stacktrace-on-diagnostic", "no-implicit-module"), False),
    **dict.fromkeys(("mlir-print-op-on-diagnostic", "mlir-print-ir-module-scope"), False),
    **dict.fromkeys(("debug-only", "mlir-timing-display", "mlir-elide-elementsattrs-if-larger"), 1),
}


def parse_flags(arguments: Sequence[str]) -> OptSettings:
    """What the arguments ask for.

    Raises:
        UserError: if one is unknown.

    >>> settings = parse_flags(["-cse", "--split-input-file", "a.mlir"])
    >>> settings.path, [s.tile_pass.name for s in settings.steps], settings.marker
    ('a.mlir', ['cse'], '// -----')
    """
    settings = OptSettings()
    paths: list[str] = []
    words = iter(arguments)
    for word in words:
        if not word.startswith("-") or word == "-":
            paths.append(word)
            continue
        name, has_value, value = word.lstrip("-").partition("=")
        _set_flag(settings, name, value if has_value else None, words)
    if len(paths) > 1:
        raise UserError(f"opt reads one file, not {len(paths)}: {', '.join(paths)}")
    settings.path = paths[0] if paths else "-"
    return settings


def _set_flag(settings: OptSettings, name: str, value: str | None, words: Iterator[str]) -> None:
    if name in _SWITCHES:
        setattr(settings, _SWITCHES[name], _truth(name, value))
    elif name == "split-input-file":
        settings.marker = _marker(value)
    elif name in _VALUES:
        given = next(words, None) if value is None else value
        if given is None:
            raise UserError(f"option --{name} needs a value")
        _VALUES[name](settings, given)
    elif name in _IGNORED:
        if _IGNORED[name] and value is None:
            next(words, None)
    else:
        settings.steps.append(_pass_of_flag(name, value or ""))


def _pass_of_flag(name: str, options: str) -> PassStep:
    """The pass of a flag that is no other; its options may be separated by blanks."""
    try:
        found = find_pass(name)
    except UserError as error:
        message = f"there is no option and no pass '{name}'"
        raise UserError(message, hint=error.hint) from None
    return step(name, **parse_options(found, options.strip("\"'")))


def _truth(name: str, value: str | None) -> bool:
    if value not in (None, "true", "false", "1", "0", "all", "only-expected"):
        raise UserError(f"option --{name} is true or false, not {value!r}")
    return value not in ("false", "0")


def _marker(value: str | None) -> str | None:
    if value in (None, "", "true"):
        return MARKER
    return None if value == "false" else value


def _add_passes(settings: OptSettings, text: str) -> None:
    settings.steps += parse_pipeline(flat_pipeline(text))


def flat_pipeline(text: str) -> str:
    """A pipeline without the operations that MLIR wants passes nested in, as every pass here is of
    a module.

    >>> flat_pipeline("builtin.module(tritongpu-coalesce,tt.func(cse),symbol-dce)")
    'tritongpu-coalesce,cse,symbol-dce'
    """
    if not re.search(r"\w\(", text):
        return text
    return re.sub(r"\b(builtin\.module|module|any|(?:tt|func)\.func)\(|\)", "", text)


def _set_spelling(settings: OptSettings, text: str) -> None:
    if text not in SPELLINGS:
        raise UserError(f"there is no spelling {text!r}", hint=f"one of {', '.join(SPELLINGS)}")
    settings.spelling = text


def _set_output(settings: OptSettings, text: str) -> None:
    settings.output = text


_VALUES: dict[str, Callable[[OptSettings, str], Any]] = {
    **dict.fromkeys(("passes", "pass", "pass-pipeline", "p"), _add_passes),
    "spelling": _set_spelling,
    **dict.fromkeys(("o", "output"), _set_output),
}
