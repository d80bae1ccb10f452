"""Well-known architectures with random weights, from the packages people take them from."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Case:
    """A model: how it is made, and arrays to feed it by name; symbolic dimensions by input name."""

    make: Callable[[], Any]
    feeds: dict[str, np.ndarray]
    dynamic: dict[str, dict[int, str]] | None = None


def _image(size: int, batch: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {"image": generator.standard_normal((batch, 3, size, size), np.float32)}


def _timm(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        timm = pytest.importorskip("timm")
        return timm.create_model(name, pretrained=False, **options)

    return make


def _bert() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        num_hidden_layers=4, vocab_size=2000, attn_implementation="eager", return_dict=False
    )
    return _by_keyword(transformers.BertModel(config), "input_ids", "attention_mask")


def _by_keyword(model: Any, *names: str) -> Any:
    """The model with its inputs passed by keyword: tracing would pass them by position."""
    torch = pytest.importorskip("torch")

    class Wrapper(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            return self.model(**dict(zip(names, values, strict=True)))

    return Wrapper()


def _whisper_encoder() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536,
        decoder_layers=1, attn_implementation="eager", return_dict=False,
    )  # fmt: skip
    return transformers.WhisperModel(config).get_encoder()


def _tokens(length: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {
        "input_ids": generator.integers(0, 2000, (2, length)),
        "attention_mask": (np.arange(length) < np.array([[length], [length // 2]])).astype(
            np.int64
        ),
    }


def _sound() -> dict[str, np.ndarray]:
    return {"features": np.random.default_rng(2).standard_normal((1, 80, 3000), np.float32)}


CASES: dict[str, Case] = {
    "resnet18": Case(_timm("resnet18"), _image(224), {"image": {0: "batch"}}),
    "mobilenetv3_small": Case(_timm("mobilenetv3_small_100"), _image(224)),
    "vit_small": Case(_timm("vit_small_patch16_224"), _image(224)),
    "bert": Case(
        _bert,
        _tokens(64),
        {name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")},
    ),
    "whisper_tiny_encoder": Case(_whisper_encoder, _sound()),
}


def randomize(model: Any) -> None:
    """Weights and statistics that keep signals alive; some start as zeros in these models."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if not value.is_floating_point():
                continue
            if name.endswith("running_var"):
                value.uniform_(0.5, 1.5, generator=generator)
            elif value.ndim <= 1:
                base = 1.0 if name.endswith("weight") else 0.0
                value.copy_(base + 0.1 * torch.randn(value.shape, generator=generator))
            else:
                fan = value[0].numel()
                value.copy_(torch.randn(value.shape, generator=generator) / fan**0.5)


def export(case: Case, opset: int = 17) -> bytes:
    """The model as the bytes of an ONNX file, by the exporter that traces."""
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _ready(case),
            tuple(torch.from_numpy(array) for array in case.feeds.values()),
            file,
            input_names=list(case.feeds),
            dynamic_axes=case.dynamic,
            opset_version=opset,
            dynamo=False,
        )
    return file.getvalue()


def export_by_dynamo(case: Case) -> bytes:
    """The same by the exporter that is PyTorch's default, in the opset that it likes best."""
    pytest.importorskip("onnxscript")
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _ready(case),
            tuple(torch.from_numpy(array) for array in case.feeds.values()),
            input_names=list(case.feeds),
            dynamo=True,
            verbose=False,
        )
    data: bytes = program.model_proto.SerializeToString()
    return data


def _ready(case: Case) -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = case.make().eval()
    randomize(model)
    return model
