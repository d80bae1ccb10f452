"""What callers vary between calls: batches, strides, types, gradients, aliases."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tileloom import driver  # noqa: E402
from tileloom.frontend.torch import report, tileloom, watching  # noqa: E402
from tileloom.target import Target  # noqa: E402

from .helpers import assert_same, check, compiled  # noqa: E402


class Block(nn.Module):
    """Attention and a feed-forward layer over [batch, length, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.feed = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))

    def forward(self, x: Any) -> Any:
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.feed(self.norm(x))


class Image(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
            nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.layers(x)


#: Symbols at once; and, which compiles twice, when a size has changed.
DYNAMIC = [True, pytest.param(None, marks=pytest.mark.slow)]


def test_batches() -> None:
    torch.manual_seed(0)
    model = Block().eval()
    run = compiled(model)
    with torch.no_grad():
        for batch in (2, 3):
            x = torch.randn(batch, 5, 16)
            torch._dynamo.mark_dynamic(x, 0)
            assert_same(run(x), model(x))
    assert report().graphs == 1
    assert not report().fallbacks, str(report())


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
def test_batches_and_lengths(dynamic: bool | None) -> None:
    torch.manual_seed(0)
    model = Block().eval()
    run = compiled(model, dynamic=dynamic)
    with torch.no_grad():
        for shape in ((2, 5), (3, 5), (1, 5), (3, 7), (2, 5)):
            x = torch.randn(*shape, 16)
            assert_same(run(x), model(x))
    assert not report().fallbacks, str(report())


IMAGES = [(2, 12), (5, 12), (1, 13), (2, 12)]


@pytest.mark.parametrize(
    ("dynamic", "shapes"),
    [
        (False, IMAGES[:1]),
        pytest.param(None, IMAGES, marks=pytest.mark.slow),
        pytest.param(True, IMAGES, marks=pytest.mark.slow),
    ],
)
def test_batches_of_images(dynamic: bool | None, shapes: Any) -> None:
    torch.manual_seed(0)
    model = Image().eval()
    run = compiled(model, dynamic=dynamic)
    with torch.no_grad():
        for batch, size in shapes:
            x = torch.randn(batch, 3, size, size)
            assert_same(run(x), model(x))
            x = x.to(memory_format=torch.channels_last)
            assert_same(run(x), model(x), strides=False)
    assert not report().fallbacks, str(report())


@pytest.mark.parametrize("dynamic", DYNAMIC)
def test_a_batch_of_nothing(dynamic: Any) -> None:
    model = nn.Sequential(nn.Linear(16, 8), nn.Softmax(0)).eval()
    run = compiled(model, dynamic=dynamic)
    with torch.no_grad():
        for batch in (0, 2, 0):
            x = torch.randn(batch, 3, 16)
            assert_same(run(x), model(x))


def test_a_graph_is_compiled_again_for_another_type() -> None:
    run = compiled(lambda x: torch.softmax(x * 2, 0))
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x = torch.randn(9).to(kind)
        assert_same(run(x), torch.softmax(x * 2, 0), 1e-2 if kind.itemsize < 4 else 1e-5)
    assert report().graphs == 4


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast(kind: Any) -> None:
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 5, 16)
    with torch.no_grad(), torch.autocast("cpu", kind):
        expected, got = model(x), compiled(model)(x)
    assert got.dtype == expected.dtype
    assert_same(got, expected, 3e-2)
    assert not report().fallbacks, str(report())


def test_autocast_in_training() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)), torch.randn(5, 8)
    gradients = []
    for run in (model, compiled(model)):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = run(x).float().square().mean()
        loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert_same(gradients[1], gradients[0], 3e-2)


STRIDED = {
    "sliced": lambda: torch.randn(6, 10)[::2, 1:9:2],
    "transposed": lambda: torch.randn(4, 3).t(),
    "repeated": lambda: torch.randn(1, 4).expand(3, 4),
    "offset": lambda: torch.randn(13)[1:].view(3, 4),
    "permuted": lambda: torch.randn(4, 1, 3).permute(2, 1, 0)[:, 0],
}


GAPS = [
    pytest.param(name, dynamic, marks=pytest.mark.slow if dynamic and name != "sliced" else ())
    for name in STRIDED
    for dynamic in (None, True)
]


@pytest.mark.parametrize(("name", "dynamic"), GAPS)
@pytest.mark.parametrize("product", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_inputs_with_gaps(name: Any, dynamic: Any, product: bool) -> None:
    def function(x: Any) -> Any:
        return x.exp(), x.sum(0), x @ x.t() if product else x.t() + 1

    x = STRIDED[name]()
    run = compiled(function, dynamic=dynamic)
    for given in (x, x.contiguous(), x):
        assert_same(run(given), function(x), strides=False)


def test_inputs_that_share_memory() -> None:
    whole = torch.randn(8)

    def function(a: Any, b: Any) -> Any:
        a.mul_(2)
        return a + b

    def results(run: Any) -> Any:
        base = whole.clone()
        out = run(base[:6], base[2:])
        return out, base

    assert_same(results(compiled(function)), results(function))


def test_results_that_are_views_of_arguments() -> None:
    def function(x: Any) -> Any:
        return x, x[1:], x.t(), x * 2

    x = torch.randn(3, 4)
    same, rest, turned, twice = compiled(function)(x)
    assert same.data_ptr() == turned.data_ptr() == x.data_ptr()
    assert rest.data_ptr() == x[1:].data_ptr()
    assert_same(twice, x * 2)


def test_results_that_are_views_of_each_other() -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        return y, y.view(-1), y[0], y.view(-1)

    x = torch.randn(3, 4)
    got, expected = compiled(function)(x), function(x)
    assert_same(got, expected)
    assert got[0].data_ptr() == got[1].data_ptr()
    got[0].zero_()
    assert not got[1].any() and not got[2].any()


def test_results_that_are_equal_are_apart() -> None:
    """Two computations of one value, which the compiler shares, are still two tensors."""

    def function(x: Any) -> Any:
        return x * 2, x * 2, (x * 2).reshape(-1), x + 0

    x = torch.randn(3, 4)
    got = compiled(function)(x)
    assert_same(got, function(x))
    assert len({value.data_ptr() for value in (*got, x)}) == 5
    got[0].zero_()
    assert_same(got[1], x * 2)


def test_mutation_of_buffers_and_arguments() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Any, out: Any) -> Any:
            self.total += x.sum(0)
            out.copy_(x.cumsum(0))
            return self.total * 2

    ours, theirs = Counter(), Counter()
    run = compiled(ours)
    for _ in range(3):
        x, a, b = torch.randn(4, 3), torch.empty(4, 3), torch.empty(4, 3)
        assert_same(run(x, a), theirs(x, b))
        assert_same((a, ours.total), (b, theirs.total))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_arguments_that_want_gradients(mode: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        return torch.tanh(x @ w), x[0]

    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    with mode():
        got, expected = compiled(function)(x, w), function(x, w)
        assert [t.requires_grad for t in got] == [t.requires_grad for t in expected]
    assert_same([t.detach() for t in got], [t.detach() for t in expected])


def test_gradients_are_asked_for_later() -> None:
    run = compiled(lambda x: (x.sin() * x).sum())
    x = torch.randn(4)
    for wanted in (False, True, False):
        given = x.clone().requires_grad_(wanted)
        result = run(given)
        assert_same(result.detach(), (x.sin() * x).sum())
        if wanted:
            result.backward()
            assert_same(given.grad, x.sin() + x * x.cos())


def test_complex_numbers_run_in_pytorch() -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.view_as_real(torch.complex(x, y) * 2j), x + y

    check(function, torch.randn(3, 4), torch.randn(3, 4), left=None)
    assert report().fallbacks and report().compiled["aten.add.Tensor"]


def test_conjugates_and_negations_are_taken_as_they_are() -> None:
    z = torch.randn(4, dtype=torch.complex64)
    function = torch.compile(lambda a: a * 2, backend=tileloom)
    assert_same(function(z.conj().imag), z.conj().imag * 2)


def test_numbers_that_change() -> None:
    run = compiled(lambda x, k, s: x * k + s)
    x = torch.randn(5)
    for k, s in ((2, 0.5), (3, 1.5), (4, float("inf")), (2, 0.5)):
        assert_same(run(x, k, s), x * k + s)


def test_equal_layers_share_their_kernels() -> None:
    """More layers of one kind make more calls, not more code."""

    def program(layers: Any) -> Any:
        model = nn.Sequential(*(Block() for _ in range(layers))).eval()
        with torch.no_grad(), watching() as graphs:
            compiled(model)(torch.randn(2, 5, 16))
        return driver.plan_graph(graphs[0], Target.host())

    few, many = program(2), program(3)
    assert len(many.module.functions) == len(few.module.functions)
    assert many.kernel_count > few.kernel_count
