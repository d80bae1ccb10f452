"""Layers that are one operator of PyTorch, wholly compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tileloom.frontend.torch import report  # noqa: E402

from .helpers import assert_same, compiled  # noqa: E402


@pytest.fixture(autouse=True)
def _recurrent_layers_in_graphs() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def wholly(module: nn.Module, *args: Any, tolerance: float = 1e-5, **options: Any) -> None:
    """In inference, with nothing left to PyTorch."""
    with torch.no_grad():
        expected = module(*args)
        assert_same(compiled(module, **options)(*args), expected, tolerance, strides=False)
    assert report().graphs
    assert not report().fallbacks, str(report())


RECURRENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "two directions": (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    "batch first": (nn.LSTM, {"batch_first": True}),
    "no bias": (nn.LSTM, {"bias": False}),
    "projected": (nn.LSTM, {"proj_size": 3}),
    "gru": (nn.GRU, {"bidirectional": True}),
    "gru batch first": (nn.GRU, {"batch_first": True, "num_layers": 2}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
}


def slow_unless(case: Any, *fast: Any) -> Any:
    return pytest.param(*case, marks=() if case in fast else pytest.mark.slow)


FAST = [("two directions",), ("batch first",), ("projected",), ("gru",), ("tanh",), ("relu",)]


@pytest.mark.parametrize("case", [slow_unless((name,), *FAST) for name in RECURRENT])
def test_recurrent_layers(case: str) -> None:
    kind, options = RECURRENT[case]
    wholly(kind(7, 5, **options).eval(), torch.randn(4, 3, 7))


def test_initial_states_and_steps_of_one() -> None:
    layer = nn.LSTM(7, 5).eval()
    wholly(layer, torch.randn(1, 3, 7), (torch.randn(1, 3, 5), torch.randn(1, 3, 5)))
    wholly(layer, torch.randn(3, 7))


TRAINED = [(kind, of_input) for kind in (nn.LSTM, nn.GRU, nn.RNN) for of_input in (False, True)]


@pytest.mark.parametrize(
    ("kind", "of_input"), [slow_unless(each, (nn.GRU, True), (nn.RNN, False)) for each in TRAINED]
)
def test_recurrent_layers_train(kind: Any, of_input: bool) -> None:
    layer = kind(7, 5, bidirectional=True)
    x = torch.randn(3, 2, 7, requires_grad=of_input)
    found = []
    for run in (layer, compiled(layer)):
        layer.zero_grad()
        x.grad = None
        out = run(x)[0]
        out.square().sum().backward()
        found.append([out, *(p.grad.clone() for p in layer.parameters()), x.grad])
    assert_same(found[1], found[0], 2e-5, strides=False)
    assert not report().fallbacks, str(report())


ENCODERS = [(name, first) for name in ("relu", "gelu") for first in (False, True)]


@pytest.mark.parametrize(
    ("activation", "norm_first"),
    [slow_unless(each, ("relu", False), ("gelu", True)) for each in ENCODERS],
)
def test_encoder_layer(activation: str, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(
        12, 4, 20, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    wholly(layer, torch.randn(2, 5, 12))
    assert report().compiled["aten.mm.default"] + report().compiled["aten.addmm.default"] == 6


def test_encoder_masks() -> None:
    layer = nn.TransformerEncoderLayer(12, 4, 20, batch_first=True).eval()
    x = torch.randn(2, 5, 12)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    wholly(layer, x, nn.Transformer.generate_square_subsequent_mask(5))
    wholly(layer, x, later, padding)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    wholly(encoder, x, None, padding)


def test_attention_in_evaluation() -> None:
    layer = nn.MultiheadAttention(12, 4, batch_first=True).eval()
    x, padding = torch.randn(2, 5, 12), torch.tensor([[False] * 5, [True] + [False] * 4])
    for average in (True, False):

        def run(x: Any, average: bool = average) -> Any:
            return layer(x, x, x, key_padding_mask=padding, average_attn_weights=average)

        wholly(run, x)
    wholly(lambda x: layer(x, x, x, need_weights=False)[0], x)


def test_an_operator_by_itself() -> None:
    """A mask with numbers hides what is not zero; a row that is hidden is no number."""
    q = torch.randn(2, 4, 6)
    weights = [torch.randn(18, 6), torch.randn(18), torch.randn(6, 6), torch.randn(6)]
    masks = [
        (torch.rand(4, 4) > 0.5, 0),
        (torch.rand(2, 4) > 0.5, 1),
        (torch.rand(2, 2, 4, 4) > 0.5, 2),
        (torch.ones(4, 4, dtype=torch.bool), 0),
        (None, None),
    ]
    for mask, kind in masks:

        def run(q: Any, mask: Any = mask, kind: Any = kind) -> Any:
            return torch._native_multi_head_attention(
                q, q, q, 6, 2, *weights, mask, True, True, kind
            )

        wholly(run, q)
