"""Training graphs: gradients of single layers, and the loss over twenty steps."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tileloom.frontend.torch import report  # noqa: E402

from .helpers import assert_same, check_gradients, compiled  # noqa: E402


def image(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 1, 1, 1), (2, 1, 1, 2), (3, 1, 2, 1), (1, 2, 2, 4)],
)
def test_convolution(stride: int, padding: int, dilation: int, groups: int) -> None:
    about = (stride, padding, dilation, groups)
    x, w, b = image(3, 4, 13, 11), image(8, 4 // groups, 3, 2), image(8)
    check_gradients(lambda x, w, b: F.conv2d(x, w, b, *about), x, w, b)


def test_transposed_convolution() -> None:
    x, w = image(3, 8, 7, 6), image(8, 4, 3, 3)
    check_gradients(lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1), x, w)
    check_gradients(lambda x, w: F.conv_transpose1d(x, w, None, 3), x[..., 0], w[..., 0])


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil_mode"),
    [(2, None, 0, False), (3, 2, 1, False), ((2, 3), (1, 2), (1, 0), True)],
)
def test_pooling(
    kernel: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None,
    padding: int | tuple[int, ...],
    ceil_mode: bool,
) -> None:
    about: dict[str, Any] = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    x = image(2, 3, 11, 9)
    check_gradients(lambda x: F.max_pool2d(x, kernel, **about), x)
    check_gradients(lambda x: F.avg_pool2d(x, kernel, count_include_pad=False, **about), x)


def test_pooling_to_a_size() -> None:
    check_gradients(lambda x: F.adaptive_avg_pool2d(x, (3, 2)), image(2, 3, 9, 8))
    check_gradients(lambda x: F.adaptive_avg_pool2d(x, (3, 2)), image(2, 3, 10, 8), left=1)


def test_layers_of_one_dimension() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        y = F.layer_norm(x, (8,), w, b)
        y = F.gelu(y) + F.silu(y) * y.tanh() - F.elu(y) + F.leaky_relu(y) + F.softplus(y)
        return y.softmax(-1) + y.log_softmax(0) + y.cumsum(1) + y.clamp(-0.5, 0.5) + y.std()

    check_gradients(function, image(5, 8), image(8), image(8))


def test_attention() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    check_gradients(function, image(2, 3, 5, 8), image(2, 3, 5, 8), image(2, 3, 5, 8))


def test_statistics_of_batches_are_updated() -> None:
    eager = nn.BatchNorm2d(3)
    through = copy.deepcopy(eager)
    run, x = compiled(through), image(4, 3, 5, 5)
    for _ in range(2):
        assert_same(run(x), eager(x))
    assert_same(list(through.buffers()), list(eager.buffers()))
    assert through.num_batches_tracked == 2


def test_dropout_draws_the_numbers_of_pytorch_and_cuts_no_graph() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.GELU(), nn.Dropout(0.2))
    results = []
    for backend in ("aot_eager_decomp_partition", None):
        run = torch.compile(model, backend=backend) if backend else compiled(model)
        torch.manual_seed(1)
        model.zero_grad()
        loss = run(image(5, 8)).square().sum()
        loss.backward()
        results.append([loss, *[p.grad.clone() for p in model.parameters()]])
    assert_same(results[1], results[0], 1e-5, strides=False)
    assert report().parts == 2  # one forward, one backward
    assert {name for name, _ in report().fallbacks} == {"aten.rand.default"}


# ---------------------------------------------------------------------------- training


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.norm2(self.second(F.relu(self.norm1(self.first(x))))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        Block(16), Block(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(50, 32), layers, nn.Linear(32, 50))


def follow(make: Any, x: Any, y: Any, left: int, steps: int = 20) -> None:
    """Both models see the same data; their losses stay together."""
    torch.manual_seed(0)
    models = [make()]
    models.append(copy.deepcopy(models[0]))
    runs = [models[0], compiled(models[1])]
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in models]
    first = last = 0.0
    for step in range(steps):
        losses = []
        for run, optimiser in zip(runs, optimisers, strict=True):
            optimiser.zero_grad()
            out = run(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-4, abs=1e-4), step
        first, last = first or losses[1], losses[1]
    assert last < first
    assert report().fallbacks.total() == left, str(report())


def test_training_of_an_mlp() -> None:
    follow(mlp, image(16, 10), torch.arange(16) % 5, left=0)


@pytest.mark.slow
def test_training_of_a_resnet() -> None:
    follow(resnet, image(4, 3, 32, 32), torch.arange(4), left=0)


@pytest.mark.slow
def test_training_of_a_transformer() -> None:
    # PyTorch adds up the rows of the embedding's gradient.
    follow(transformer, torch.arange(36).reshape(4, 9), torch.arange(36).reshape(4, 9), left=1)
