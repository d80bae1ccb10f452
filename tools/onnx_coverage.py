"""Which of ONNX's own node tests pass, and why the others do not: docs/onnx-operators.md.

python tools/onnx_coverage.py            # runs all cases
python tools/onnx_coverage.py conv lstm  # those whose names hold one of these
python tools/onnx_coverage.py --write    # all of them, and writes the page
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from tileloom.base.errors import UnsupportedError, UserError
from tileloom.frontend.onnx.backend import BackendRep, datum
from tileloom.frontend.onnx.registry import NEWEST, OLDEST, operators
from tileloom.frontend.onnx.session import load

#: "close" is right but for rounding, beyond what the suite allows; "refused" is a UserError.
Status = Literal["pass", "close", "unsupported", "refused", "wrong", "error"]


@dataclass(frozen=True)
class CaseOutcome:
    """How a test case went."""

    name: str
    operator: str
    status: Status
    reason: str = ""


def node_cases() -> list[Any]:
    """ONNX's node tests, as the installed package makes them (before 1.18 they are files)."""
    return list(_cases().values())


@cache
def _cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in load_model_tests(kind="node") if case.model is not None]
    return {case.name: case for case in sorted(cases, key=lambda case: str(case.name))}


def run_case(case: Any, target: str = "cpu", device: str | None = None) -> CaseOutcome:
    """Run one case through the backend."""
    operator = operator_of(case)
    try:
        model = BackendRep(load(case.model, target=target, device=device))
        status: Status = "pass"
        for inputs, expected in case.data_sets:
            results = model.run([datum(item) for item in inputs])
            wanted = [datum(item) for item in expected]
            if not compare(wanted, list(results), case.rtol, case.atol):
                status = "close"
    except UnsupportedError as error:
        return CaseOutcome(case.name, operator, "unsupported", error.message)
    except UserError as error:
        return CaseOutcome(case.name, operator, "refused", error.message)
    except AssertionError as error:
        return CaseOutcome(case.name, operator, "wrong", " ".join(str(error).split())[:300])
    except Exception as error:  # whatever it is, the table must say so
        return CaseOutcome(case.name, operator, "error", f"{type(error).__name__}: {error}"[:300])
    reason = "differs from ONNX's own result by rounding only" if status == "close" else ""
    return CaseOutcome(case.name, operator, status, reason)


def compare(expected: Any, found: Any, rtol: float, atol: float) -> bool:
    """Whether a result is within the suite's tolerance; False if it is off by rounding alone.

    Rounding means a few units in the last place of the largest element: some expected values are
    the noise of ONNX's reference (an inverse Fourier transform whose exact imaginary part is 0).

    Raises:
        AssertionError: the result is wrong.
    """
    if expected is None or isinstance(expected, list):
        same = type(expected) is type(found)
        np.testing.assert_(same, f"{type(found).__name__}, not {type(expected).__name__}")
        if expected is None:
            return True
        np.testing.assert_equal(len(found), len(expected))
        verdicts = [compare(e, f, rtol, atol) for e, f in zip(expected, found)]
        return all(verdicts)
    expected = np.asarray(expected)
    np.testing.assert_equal(found.shape, expected.shape)
    if expected.dtype.kind in "OU":
        np.testing.assert_array_equal(found, expected)
        return True
    np.testing.assert_equal(found.dtype, expected.dtype)
    if expected.dtype.kind == "V":
        rtol = max(rtol, 2**-6) if expected.dtype.name == "bfloat16" else rtol
        expected, found = expected.astype(np.float32), found.astype(np.float32)
    if np.allclose(found, expected, rtol, atol, equal_nan=True):
        return True
    if expected.dtype.kind == "f":
        unit = float(np.finfo(expected.dtype).eps)
        most = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
        if np.allclose(found, expected, max(rtol, 2 * unit), 4 * unit * most, equal_nan=True):
            return False
    np.testing.assert_allclose(found, expected, rtol, atol)
    return True


_EXPANDED = re.compile(r"_expanded(_ver\d+)?$")


def operator_of(case: Any) -> str:
    """The operator under test; a case that expands it stands under its name all the same."""
    plain = _EXPANDED.sub("", case.name)
    node = (case if plain == case.name else _cases().get(plain, case)).model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def run_all(
    words: Sequence[str] = (), target: str = "cpu", device: str | None = None
) -> list[CaseOutcome]:
    """Run all cases whose names hold one of the words (all, if there are none)."""
    result = []
    for case in node_cases():
        if not words or any(word in case.name for word in words):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result.append(run_case(case, target, device))
    return result


# ---------------------------------------------------------------------------- the page

PAGE = Path("docs/onnx-operators.md")
_HEAD = """# ONNX operators

Generated by `python tools/onnx_coverage.py --write`; do not edit.

Opsets {oldest} to {newest} of ONNX's own domain are read. The node tests of `onnx.backend.test` in
onnx {version}, run compiled through `tileloom.frontend.onnx`: **{passed} of {total} cases pass**;
{close} more differ from the expected values by rounding alone, beyond what the suite allows.
None ends in an internal error.

Values that decide the structure of a program (the shape of a Reshape, the condition of an If, the
trip count of a Loop, strings) need not be constants: they are computed first, and the rest is
specialised to them. Randomness, and the decoding of compressed images, are not supported.

## Cases that do not pass

| case | operator | why |
|---|---|---|
"""
_ROW = re.compile(r"^\| (test_\w+) \| ([\w.]+) \| (.*) \|$", re.MULTILINE)
_ROUNDING = "differs from the expected values by rounding alone"


def page(outcomes: Sequence[CaseOutcome]) -> str:
    """The documentation page."""
    counts = Counter(outcome.status for outcome in outcomes)
    text = _HEAD.format(
        oldest=OLDEST,
        newest=NEWEST,
        version=onnx.__version__,
        passed=counts["pass"],
        total=len(outcomes),
        close=counts["close"],
    )
    rows = [f"| {o.name} | {o.operator} | {_why(o)} |" for o in outcomes if o.status != "pass"]
    return text + "\n".join(rows) + "\n\n" + _operators(outcomes)


def _why(outcome: CaseOutcome) -> str:
    reason = _ROUNDING if outcome.status == "close" else outcome.reason
    return reason.replace("|", "\\|").replace("\n", " ")


def _operators(outcomes: Sequence[CaseOutcome]) -> str:
    """Every operator with its number of passing cases; some have no case of their own."""
    passed = Counter(o.operator for o in outcomes if o.status == "pass")
    total = Counter(o.operator for o in outcomes)
    names = {f"{domain}.{name}" if domain else name for domain, name in operators()}
    lines = ["## Operators", "", "| operator | cases that pass |", "|---|---|"]
    for name in sorted(names | total.keys(), key=lambda name: (name.count("."), name)):
        found = f"{passed[name]} of {total[name]}" if name in total else "no case of its own"
        lines.append(f"| {name} | {found} |")
    return "\n".join(lines) + "\n"


def read_page(text: str) -> tuple[str, dict[str, str]]:
    """The version of onnx that a page is about, and its cases that do not pass, with the reason."""
    version = re.search(r"onnx (\d[\w.]*), run", text)
    rows = {name: why for name, _, why in _ROW.findall(text)}
    return version.group(1) if version else "", rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the outcomes of cases; with --write, make the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names of cases; all if there are none")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--device", help='"emulator" for the target "cuda"')
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    outcomes = run_all(options.words, options.target, options.device)
    for outcome in outcomes:
        if outcome.status != "pass":
            print(f"{outcome.status:12} {outcome.name}: {outcome.reason}"[:400])
    print(dict(Counter(outcome.status for outcome in outcomes)), end=" ")
    print(f"of {len(outcomes)} in {time.perf_counter() - start:.1f} s (onnx {onnx.__version__})")
    if options.write:
        if options.words:
            raise UserError("a page is about all cases", hint="leave out the words")
        PAGE.write_text(page(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
