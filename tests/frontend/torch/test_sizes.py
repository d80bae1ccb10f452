"""Graphs compiled once for many sizes: results, how many programs, and what needs numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import sympy  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._sympy import functions  # noqa: E402

from tileloom.base.errors import UnsupportedError  # noqa: E402
from tileloom.frontend.torch import report, specialize  # noqa: E402
from tileloom.frontend.torch.size_expressions import extent_of  # noqa: E402
from tileloom.graph.space import Space  # noqa: E402
from tileloom.graph.symbols import at_sizes, symbol  # noqa: E402

from .helpers import assert_same, compiled, fresh  # noqa: E402

Make = Callable[..., tuple[Any, ...]]


def check_sizes(
    function: Any, make: Make, sizes: Sequence[tuple[int, ...]], programs: int, **options: Any
) -> None:
    """The results are PyTorch's for all sizes, and this many programs are compiled for them."""
    run = compiled(function, **{"dynamic": True, **options})
    with torch.no_grad():
        for each in sizes:
            args = make(*each)
            assert_same(run(*fresh(args)), function(*fresh(args)), 2e-5, strides=False)
    assert report().graphs == programs, f"{report()}\n{dict(report().specialized)}"
    assert not report().fallbacks, str(report())


def check_training(
    function: Any, make: Make, sizes: Sequence[tuple[int, ...]], programs: int = 2
) -> None:
    """The same for gradients by arguments and parameters."""
    run = compiled(function, dynamic=True)
    weights = list(function.parameters()) if isinstance(function, nn.Module) else []
    for each in sizes:
        args, results = make(*each), []
        for f in (function, run):
            given = [v.requires_grad_() if v.is_floating_point() else v for v in fresh(args)]
            out = f(*given)
            (out * torch.arange(out.numel()).reshape(out.shape).cos()).sum().backward()
            wanted = [v for v in (*given, *weights) if v.requires_grad]
            results.append([out, *[v.grad for v in wanted]])
            for weight in weights:
                weight.grad = None
        assert_same(results[1], results[0], 1e-4, strides=False)
    assert report().graphs == programs, f"{report()}\n{dict(report().specialized)}"
    assert not report().fallbacks, str(report())


def random_sizes(count: int, dims: int, most: int) -> list[tuple[int, ...]]:
    """Different sizes from 2 on, the first ones odd and prime."""
    generator = random.Random(5)
    found: list[tuple[int, ...]] = [(3, 7, 11)[:dims]]
    while len(found) < count:
        each = tuple(generator.randint(2, most) for _ in range(dims))
        if len(set(each)) == dims and each not in found:
            found.append(each)
    return found


PAIRS = [(3, 7), (7, 2), (2, 16), (13, 33), (5, 128)]
#: Not so small that halves of them are 1, for which PyTorch makes graphs of their own.
LARGER = [(5, 7), (7, 4), (4, 16), (13, 33), (5, 128)]


def pairs(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, length),)


# ---------------------------------------------------------------------------- one program


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(9, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 5))


def test_an_mlp_compiles_once() -> None:
    sizes = random_sizes(10, 1, 300)
    check_sizes(mlp(), lambda batch: (torch.randn(batch, 9),), sizes, 1)


def test_an_mlp_trains_with_two_programs() -> None:
    check_training(mlp(), lambda batch: (torch.randn(batch, 9),), random_sizes(5, 1, 100))


def normalized(x: Any) -> Any:
    middle = x.mean(1, keepdim=True)
    return (x - middle) / torch.sqrt(x.var(1, keepdim=True) + 1e-5)


@pytest.mark.slow
def test_a_norm_by_mean_and_variance_compiles_once() -> None:
    make = lambda batch, length: (torch.randn(batch, length, 5),)  # noqa: E731
    check_sizes(normalized, make, random_sizes(10, 2, 60), 1)


@pytest.mark.slow
def test_gradients_of_a_norm() -> None:
    make = lambda batch, length: (torch.randn(batch, length, 5),)  # noqa: E731
    check_training(normalized, make, PAIRS)


def attention(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


@pytest.mark.slow
def test_attention_compiles_once() -> None:
    def make(batch: int, length: int) -> tuple[Any, ...]:
        return tuple(torch.randn(batch, length, 8) for _ in range(3))

    check_sizes(attention, make, random_sizes(10, 2, 50), 1)


@pytest.mark.slow
def test_a_layer_of_a_transformer_compiles_once() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
    make = lambda batch, length: (torch.randn(batch, length, 16),)  # noqa: E731
    check_sizes(layer, make, random_sizes(10, 2, 50), 1)
    check_training(layer, make, PAIRS)


def test_sizes_become_symbols_after_the_second() -> None:
    sizes = [(batch,) for batch in (4, 9, 30, 1, 17, 4)]
    function = lambda x: torch.tanh(x @ x.t()).sum(1)  # noqa: E731
    check_sizes(function, lambda batch: (torch.randn(batch, 6),), sizes, 3, dynamic=None)


def test_known_sizes_find_their_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    function: Any = lambda x: torch.relu(x) * x.shape[0]  # noqa: E731
    run = compiled(function, dynamic=True)
    first, second = torch.randn(5, 3), torch.randn(6, 3)
    run(first), run(second)
    monkeypatch.setattr(specialize._Programs, "find", None)
    assert_same([run(first), run(second)], [function(first), function(second)])


# ---------------------------------------------------------------------------- what is in a graph


def shapes(x: Any) -> Any:
    n, m = x.shape
    return (
        x.reshape(n * m), x.sum() / n, n * 2 + m, x * n, x.new_full((m, n), n), n,
        (x + 1).t().reshape(-1), x[:, None].expand(n, 3, m), (x * 2).view(1, n, m)[0],
    )  # fmt: skip


def slices(x: Any) -> Any:
    m = x.shape[1]
    return (
        torch.cat([x, x * 2], 0)[1:], torch.cat([x, x.exp()], 1), (x * 2)[:, :-1], (x * 3)[::2],
        (x + 1)[:, m // 2 :], torch.stack([x, -x], 1), F.pad(x, (1, 2)), (x - 1)[-1], x.flip(0),
    )  # fmt: skip


def counters(x: Any) -> Any:
    n, m = x.shape
    return (
        torch.arange(n), torch.arange(1, n + 1) * 2, torch.arange(m, dtype=torch.float32) * 0.5,
        torch.arange(0, 2 * n, 2), torch.arange(n)[:, None] * m + torch.arange(m),
    )  # fmt: skip


def masks(x: Any) -> Any:
    n, m = x.shape
    causal = torch.ones(m, m, dtype=torch.bool).tril()
    lengths = torch.arange(m) < torch.arange(n)[:, None]
    scores = torch.where(causal, x[:, :, None] * x[:, None], -math.inf)
    return scores.amax(-1), x.masked_fill(lengths, 0.0), lengths.any(1)


def numbers(x: Any) -> Any:
    n, m = x.shape
    return x / math.sqrt(m), x * (n / 3), torch.full((m,), n * 0.5), x * m**-0.5, x + (n - 1) // 2


@pytest.mark.parametrize("function", [shapes, slices, counters, masks, numbers])
def test_sizes_in_shapes_slices_and_numbers(function: Any) -> None:
    check_sizes(function, pairs, LARGER, 1)


@pytest.mark.slow
def test_gradients_of_slices_and_views() -> None:
    def function(x: Any) -> Any:
        n, m = x.shape
        both = torch.cat([x[: n // 2] * 2, x[n // 2 :].exp()]).reshape(n * m)[1:]
        return both * m + x[:, None].expand(n, 2, m).sum() / n

    check_training(function, pairs, LARGER[:3])


def test_views_that_divide_sizes() -> None:
    def function(x: Any) -> Any:
        batch, length, width = x.shape
        windows = (x * 2).view(batch, length // 4, 4, width).amax(2)
        return windows, (x + 1).view(batch, -1, 2, width).sum(2)

    make = lambda batch, length: (torch.randn(batch, length, 5),)  # noqa: E731
    check_sizes(function, make, [(3, 8), (2, 12), (7, 64), (6, 20)], 1)


def test_numbers_that_are_arguments() -> None:
    function = lambda x, k: (x * k, x[:, :k] + k, k * 2)  # noqa: E731
    make = lambda n, k: (torch.randn(n, k + 5), k)  # noqa: E731
    check_sizes(function, make, [(3, 7), (4, 2), (9, 6)], 1)


def test_arguments_in_any_layout() -> None:
    function: Any = lambda x: x.exp() * x.shape[1]  # noqa: E731
    run = compiled(function, dynamic=True)
    for n, m in PAIRS:
        wide = torch.randn(m, 2 * n, 3)
        for x in (wide.permute(1, 0, 2)[::2], wide[:, ::2].transpose(0, 1).contiguous()):
            assert_same(run(x), function(x), strides=False)


def test_random_numbers_are_those_of_pytorch() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU())
    results: list[list[Any]] = []
    for backend in ("aot_eager_decomp_partition", None):
        options = {"dynamic": True}
        run = torch.compile(model, backend=backend, **options) if backend else compiled(
            model, **options
        )  # fmt: skip
        results.append([])
        for batch in (5, 9, 2):
            torch.manual_seed(batch)
            x = torch.randn(batch, 8, requires_grad=True)
            run(x).square().sum().backward()
            results[-1].append(x.grad)
    assert_same(results[1], results[0])
    assert (report().graphs, report().parts) == (2, 2)
    assert {name for name, _ in report().fallbacks} == {"aten.rand.default"}


def test_operators_of_pytorch_between_parts() -> None:
    def function(x: Any) -> Any:
        values, places = torch.sort(x * 2, 0)
        return (values[: x.shape[0] // 2] + 1).exp(), places, x.shape[0] * x.shape[1]

    run = compiled(function, dynamic=True)
    for n, m in ((5, 7), (4, 2), (13, 33), (2, 3)):
        x = torch.randn(n, m)
        assert_same(run(x), function(x), strides=False)
    assert report().graphs == 2  # 2 // 2 is 1, for which PyTorch has a graph of its own
    assert {name for name, _ in report().fallbacks} == {"aten.sort.default"}


@pytest.mark.parametrize(
    "sizes", [(7, 0, 2), pytest.param((7, 3, 2, 1, 0, 40, 2), marks=pytest.mark.slow)]
)
def test_dimensions_of_nothing_and_of_one(sizes: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        return (x * 2)[: n - 2].sum(), torch.softmax(x[: n // 2] + 1, -1), x.new_ones(n // 3)

    run = compiled(function, dynamic=True)
    for n in sizes:
        x = torch.randn(n, 3)
        assert_same(run(x), function(x))


# ---------------------------------------------------------------------------- what needs numbers


def test_rows_of_running_sums_have_one_length() -> None:
    check_sizes(lambda x: x.cumsum(1) * 2, pairs, [(3, 7), (5, 7), (9, 7), (3, 8), (4, 8)], 2)
    assert report().specialized


def test_images_have_one_size_and_batches_many() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2)).eval()
    make = lambda batch, size: (torch.randn(batch, 3, size, size),)  # noqa: E731
    check_sizes(model, make, [(2, 9), (5, 9), (7, 9), (4, 12)], 2)


def test_programs_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many sizes that need programs of their own, those beyond are compiled by themselves."""
    monkeypatch.setattr(specialize, "MOST_PROGRAMS", 2)
    check_sizes(lambda x: x.cumsum(1) * 2, pairs, [(3, n) for n in (7, 5, 9, 7, 5, 9)], 3)


def test_what_cannot_be_compiled_for_all_sizes_is_compiled_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any) -> Any:
        raise UnsupportedError("not today")

    monkeypatch.setattr(specialize, "_compiled_for_many", refuse)
    check_sizes(torch.relu, pairs, [(3, 7), (4, 9), (3, 7)], 2)
    assert dict(report().specialized) == {"not today": 1}


# ---------------------------------------------------------------------------- formulas

N, M = sympy.symbols("n m", integer=True, positive=True)
FORMULAS = [
    N * M + 3, N**2 - 1, functions.FloorDiv(N + M, 2), functions.Mod(N, 4),
    functions.PythonMod(-N, 5), functions.CeilDiv(N, 3), sympy.Max(N, M), functions.Min(N, 7),
    functions.ModularIndexing(N, 2, 3), N * sympy.Rational(1, 2) + M / 2 - (N + M) / 2 + N,
    functions.PowByNatural(N, 2), functions.FloorDiv(N * M, N),
]  # fmt: skip


@pytest.mark.parametrize("expression", FORMULAS, ids=str)
def test_formulas(expression: Any) -> None:
    space = Space()
    known = {N: symbol(space, "n", 1, 1000, 6), M: symbol(space, "m", 1, 1000, 4)}
    found = extent_of(expression, known)
    for n, m in ((1, 1), (2, 7), (13, 4), (1000, 999)):
        assert at_sizes(found, {"n": n, "m": m}) == int(expression.subs({N: n, M: m}))


@pytest.mark.parametrize(
    "expression",
    [sympy.Symbol("u0", integer=True) + 1, functions.FloorDiv(N, M - 1), N**5, sympy.sqrt(N)],
    ids=str,
)
def test_formulas_that_are_refused(expression: Any) -> None:
    space = Space()
    known = {N: symbol(space, "n", 1, 9, 6), M: symbol(space, "m", 1, 9, 4)}
    with pytest.raises(UnsupportedError):
        extent_of(expression, known)
