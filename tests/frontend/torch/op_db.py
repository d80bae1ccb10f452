"""PyTorch's own operator database through the backend: how much is right, how much is compiled.

    PYTHONPATH=src python tests/frontend/torch/op_db.py --samples 4 --out results.jsonl [names...]

Needs `expecttest`, which PyTorch's testing modules import. Each operator runs in a worker process
that is replaced when it dies; results are appended, and operators already there are left out.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Results that nobody can foresee: uninitialised, or random through another generator.
RANDOM = frozenset({
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential",
    "geometric", "log_normal", "multinomial", "new_empty", "new_empty_strided",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.scaled_dot_product_attention",
    "normal", "normal.in_place", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "uniform", "svd_lowrank", "pca_lowrank", "resize_", "resize_as_",
})  # fmt: skip
SECONDS = 120


def entries() -> dict[str, Any]:
    """The database's entries that take float32, by name."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for op in op_db:
        if torch.float32 in op.supported_dtypes("cpu"):
            name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
            found[name] = op
    return found


def samples(op: Any, most: int) -> Iterator[Any]:
    """Some of an entry's samples, spread over all of them."""
    import torch

    torch.manual_seed(0)
    everything = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    step = max(1, -(-len(everything) // most))
    return iter(everything[::step])


def check(name: str, op: Any, most: int) -> dict[str, Any]:
    """Run an entry's samples; what happened."""
    import torch
    from torch._dynamo.utils import counters

    from tileloom.frontend.torch import report, tileloom

    result: dict[str, Any] = {"name": name, "right": True, "whole": True, "why": [], "count": 0}
    for sample in samples(op, most):
        result["count"] += 1
        torch._dynamo.reset()
        counters.clear()
        report().clear()
        expected = _outcome(op, sample, None)
        got = _outcome(op, sample, tileloom)
        problem = _difference(expected, got, name in RANDOM)
        if problem:
            result["right"] = False
            result["why"].append(f"WRONG {problem[:300]}")
        left = [f"{o}: {reason}" for o, reason in report().fallbacks]
        left += [f"break: {text[:100]}" for text in counters["graph_break"]]
        if not report().graphs and not left:
            left = ["nothing was traced"]
        if left:
            result["whole"] = False
            result["why"] += left
    result["why"] = sorted(set(result["why"]))
    return result


def _outcome(op: Any, sample: Any, backend: Any) -> Any:
    import torch

    def function(x: Any, args: Any, kwargs: Any) -> Any:
        return op.op(x, *args, **kwargs)

    def copied(value: Any) -> Any:
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, value)

    run = function if backend is None else torch.compile(function, backend=backend)
    torch.manual_seed(1)
    try:
        return run(copied(sample.input), copied(sample.args), copied(sample.kwargs))
    except Exception as error:
        return error


def _difference(expected: Any, got: Any, random: bool) -> str | None:
    import torch

    if isinstance(expected, Exception):
        return None if isinstance(got, Exception) else "no error where PyTorch has one"
    if isinstance(got, Exception):
        return f"{type(got).__name__}: {got}"
    flat = [torch.utils._pytree.tree_leaves(value) for value in (expected, got)]
    if len(flat[0]) != len(flat[1]):
        return "another number of results"
    for a, b in zip(*flat, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and random:
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}"
            continue
        try:
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4, equal_nan=True)
        except (AssertionError, ValueError, RuntimeError) as error:
            return str(error)
    return None


# ---------------------------------------------------------------------------- processes


def work(names: list[str], most: int) -> None:
    """Check entries one after another; a line of JSON for each begun and each done."""
    warnings.simplefilter("ignore")
    known = entries()

    def late(*about: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    for name in names:
        print(json.dumps({"begun": name}), flush=True)
        signal.alarm(SECONDS)
        try:
            found = check(name, known[name], most)
        except Exception as error:
            why = [f"WRONG {type(error).__name__}: {error}"]
            found = {"name": name, "right": False, "whole": False, "why": why, "count": 0}
        signal.alarm(0)
        print(json.dumps(found), flush=True)


def run_all(names: list[str], most: int, out: Path) -> None:
    """All entries, in worker processes, as long as there are some left."""
    done = {row["name"] for row in rows(out)} if out.exists() else set()
    left = [name for name in names if name not in done]
    while left:
        command = [sys.executable, __file__, "--worker", "--samples", str(most), *left]
        begun = None
        with (
            out.open("a") as file,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker,
        ):
            for line in worker.stdout or ():
                if not line.startswith("{"):
                    continue
                row = json.loads(line)
                if "begun" in row:
                    begun = row["begun"]
                    continue
                file.write(line)
                file.flush()
                left.remove(row["name"])
                begun = None
            if begun is not None:
                why = ["WRONG the process died"]
                row = {"name": begun, "right": False, "whole": False, "why": why, "count": 0}
                file.write(json.dumps(row) + "\n")
                left.remove(begun)


def rows(path: Path) -> list[dict[str, Any]]:
    """What was found."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(found: list[dict[str, Any]]) -> str:
    """The numbers, and what stands most often in the way."""
    right = sum(row["right"] for row in found)
    whole = sum(row["right"] and row["whole"] for row in found)
    reasons = Counter(text for row in found for text in row["why"] if not text.startswith("WRONG"))
    lines = [
        f"{len(found)} entries: {right} right ({right / len(found):.1%}), "
        f"{whole} wholly compiled ({whole / len(found):.1%})",
        *(f"  wrong: {row['name']}: {row['why'][0]}" for row in found if not row["right"]),
        *(f"  {count} x {text}" for text, count in reasons.most_common(150)),
    ]
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("op_db.jsonl"))
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        work(options.names, options.samples)
        return
    run_all(options.names or sorted(entries()), options.samples, options.out)
    print(summary(rows(options.out)))


if __name__ == "__main__":
    main()
