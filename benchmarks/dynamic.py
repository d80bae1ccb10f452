"""One function for all sizes against one compiled for each: `python -m benchmarks.dynamic`.

Batch and sequence length are random in 1...4096, cut down where the arrays would be large. For each
size the function under `jit(dynamic_shapes=...)` and the same under plain `jit` are checked against
each other, then timed in turn, some hundred short samples each. The ratio of the medians is what it
costs not to know the sizes. The function for one size takes part twice: its ratio to itself is what
the machine adds to the others by chance.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tileloom as tl
from tileloom import numpy as tnp

Array = np.ndarray[Any, Any]
Measure = Callable[[Sequence[float]], float]
BATCH, SEQ = tl.Dim("batch", max=4096), tl.Dim("seq", max=4096)
WIDTH = 256
LIMIT = 1.2
SAMPLE_SECONDS, LEAST_SAMPLES = 5e-4, 9
_RNG = np.random.default_rng(0)
_WEIGHT = _RNG.standard_normal((WIDTH, 4 * WIDTH)).astype("float32") / 16
_SCALE = _RNG.standard_normal(WIDTH).astype("float32")


@dataclass(frozen=True)
class Case:
    """A function of an array [batch, seq, ...].

    Attributes:
        inner: the extents after batch and seq.
        elements: the most that the array has.
        squared: whether there is an intermediate of seq times seq.
    """

    name: str
    function: Callable[[Any], Any]
    inner: tuple[int, ...] = ()
    elements: int = 1 << 22
    squared: bool = False

    def inputs(self, batch: int, seq: int) -> tuple[Array]:
        """An array of these sizes."""
        return (_RNG.standard_normal((batch, seq, *self.inner)).astype("float32"),)

    def sizes(self, count: int, seed: int) -> Iterator[tuple[int, int]]:
        """Random ones."""
        rng = np.random.default_rng(seed)
        most = self.elements // math.prod(self.inner)
        for _ in range(count):
            batch, seq = (int(n) for n in rng.integers(1, 4097, 2))
            if self.squared:
                seq = min(seq, 1024)
            limit = max(1, most // (seq * seq if self.squared else seq))
            yield min(batch, limit), seq


def _heads(x: Any) -> Any:
    batch, seq, _ = x.shape
    q = tnp.transpose(tnp.reshape(x, (batch, seq, 4, WIDTH // 4)), (0, 2, 1, 3))
    weights = tnp.softmax(tnp.matmul(q, tnp.matrix_transpose(q)) * 0.125)
    return tnp.reshape(tnp.transpose(tnp.matmul(weights, q), (0, 2, 1, 3)), x.shape)


TOKENS = (WIDTH,)
CASES = (
    Case("exp", lambda x: tnp.exp(x)),
    Case("softmax", lambda x: tnp.softmax(x)),
    Case("log_softmax of columns", lambda x: tnp.log_softmax(x, axis=0)),
    Case("layer_norm", lambda x: tnp.layer_norm(x)),
    Case("mean of columns", lambda x: tnp.mean(x, axis=0)),
    Case("sum", lambda x: tnp.sum(x)),
    Case("transpose", lambda x: x.T + 1.0),
    Case("cross_entropy", lambda x: tnp.cross_entropy(x, tnp.argmin(x, axis=1))),
    Case("rms_norm of tokens", lambda x: tnp.rms_norm(x, _SCALE), TOKENS),
    Case("mlp", lambda x: tnp.gelu(tnp.matmul(x, _WEIGHT) + 1.0), TOKENS, 1 << 19),
    Case("attention", _heads, TOKENS, 1 << 20, squared=True),
)


@dataclass(frozen=True)
class Ratios:
    """Of times at one size: for any size over that for one size, and for one over itself."""

    cost: float
    chance: float


def ratios(case: Case, count: int, seed: int, seconds: float, measure: Measure) -> list[Ratios]:
    """The ratios for each size."""
    dynamic = tl.jit(case.function, dynamic_shapes=[(BATCH, SEQ, *(None for _ in case.inner))])
    found = []
    for batch, seq in case.sizes(count, seed):
        inputs = case.inputs(batch, seq)
        static, again = tl.jit(case.function), tl.jit(case.function)
        np.testing.assert_allclose(dynamic(*inputs), static(*inputs), rtol=1e-3, atol=1e-3)
        samples = interleave((dynamic, static, again), inputs, seconds)
        for_all, for_one, repeated = map(measure, samples)
        found.append(Ratios(for_all / for_one, repeated / for_one))
        print(f"  {case.name} [{batch}, {seq}]: {for_one * 1e6:.1f} us for one size, "
              f"{for_all * 1e6:.1f} us for all: {found[-1].cost:.2f} "
              f"(by chance {found[-1].chance:.2f})", flush=True)  # fmt: skip
    if dynamic.compilations != 1:
        raise AssertionError(f"{case.name} was compiled {dynamic.compilations} times")
    return found


def interleave(
    functions: Sequence[Callable[..., Any]], inputs: Sequence[Array], seconds: float
) -> list[list[float]]:
    """Seconds of a call of each function in samples of half a millisecond or one call.

    The order is random, so that slow drift of the machine hits all alike.
    """
    for function in functions:
        function(*inputs)
    begin = time.perf_counter()
    functions[0](*inputs)
    repeats = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - begin)))
    samples: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[0]) < LEAST_SAMPLES:
        for k in random.sample(range(len(functions)), len(functions)):
            function = functions[k]
            function(*inputs)
            begin = time.perf_counter()
            for _ in range(repeats):
                function(*inputs)
            samples[k].append((time.perf_counter() - begin) / repeats)
    return samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, default=20, help="random sizes for each function")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--seconds", type=float, default=0.6, help="for each function and size")
    parser.add_argument("--only", default="", help="functions whose names have this in them")
    parser.add_argument("--minima", action="store_true", help="not medians: on a busy machine")
    chosen = parser.parse_args(arguments)
    measure = min if chosen.minima else statistics.median
    if chosen.threads:
        tl.set_num_threads(chosen.threads)
    table = {
        case.name: ratios(case, chosen.sizes, chosen.seed, chosen.seconds, measure)
        for case in CASES
        if chosen.only in case.name
    }
    print("\n| function | geometric mean | median | worst | above 1.2 | above 1.2 by chance |")
    print("|---|---|---|---|---|---|")
    everything = [ratio for found in table.values() for ratio in found]
    for name, found in {**table, "all": everything}.items():
        costs = [ratio.cost for ratio in found]
        print(f"| {name} | {statistics.geometric_mean(costs):.3f} | {statistics.median(costs):.3f} "
              f"| {max(costs):.2f} | {sum(cost > LIMIT for cost in costs)} of {len(costs)} "
              f"| {sum(ratio.chance > LIMIT for ratio in found)} |")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
