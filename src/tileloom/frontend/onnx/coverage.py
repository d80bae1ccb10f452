"""Which of ONNX's own node tests pass, and why the others do not: docs/onnx-operators.md.

    python -m tileloom.frontend.onnx.coverage            # writes the page
    python -m tileloom.frontend.onnx.coverage conv lstm  # runs the cases whose names hold these
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnx
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from ...base.errors import UnsupportedError, UserError
from .backend import BackendRep, datum
from .session import load

Status = Literal["pass", "unsupported", "refused", "wrong", "error"]


@dataclass(frozen=True)
class Outcome:
    """How a test case went."""

    name: str
    operator: str
    status: Status
    reason: str = ""


def node_cases() -> list[Any]:
    """ONNX's node tests, as the installed package makes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda case: str(case.name))


def run_case(case: Any, target: str = "cpu") -> Outcome:
    """Run one case through the backend."""
    operator = operator_of(case)
    try:
        model = BackendRep(load(case.model, target=target))
        for inputs, expected in case.data_sets:
            results = model.run([datum(item) for item in inputs])
            wanted = [datum(item) for item in expected]
            Runner.assert_similar_outputs(wanted, results, case.rtol, case.atol)
    except UnsupportedError as error:
        return Outcome(case.name, operator, "unsupported", error.message)
    except UserError as error:
        return Outcome(case.name, operator, "refused", error.message)
    except AssertionError as error:
        return Outcome(case.name, operator, "wrong", " ".join(str(error).split())[:300])
    except Exception as error:  # whatever it is, the table must say so
        return Outcome(case.name, operator, "error", f"{type(error).__name__}: {error}"[:300])
    return Outcome(case.name, operator, "pass")


def operator_of(case: Any) -> str:
    """The operator under test; expanded cases stand under the operator that they define."""
    name = re.sub(r"_expanded(_ver\d+)?$", "", case.name)
    nodes = case.model.graph.node
    if name == case.name and len(nodes) >= 1:
        return _main_node(nodes)
    _BY_NAME.setdefault("", "")
    return _BY_NAME.get(name, _main_node(nodes))


def _main_node(nodes: Sequence[Any]) -> str:
    node = nodes[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


_BY_NAME: dict[str, str] = {}


def run_all(words: Sequence[str] = (), target: str = "cpu") -> list[Outcome]:
    """Run all cases whose names hold one of the words (all, if there are none)."""
    result = []
    for case in node_cases():
        if not words or any(word in case.name for word in words):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result.append(run_case(case, target))
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or print the outcome of some cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names of cases to run and print")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    outcomes = run_all(options.words, options.target)
    for outcome in outcomes:
        if outcome.status != "pass":
            print(f"{outcome.status:12} {outcome.name}: {outcome.reason}"[:400])
    print(dict(Counter(outcome.status for outcome in outcomes)), end=" ")
    print(f"of {len(outcomes)} in {time.perf_counter() - start:.1f} s (onnx {onnx.__version__})")
    if options.output is not None:
        options.output.write_text(page(outcomes))
    return 0


def page(outcomes: Iterable[Outcome]) -> str:
    """The documentation page."""
    return "\n".join(f"{o.name} {o.status}" for o in outcomes)


if __name__ == "__main__":
    sys.exit(main())
