"""Models of timm and transformers through the backend of torch.compile, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from corpus.models import randomize

torch = pytest.importorskip("torch")


def _timm(name: str) -> Callable[[], Any]:
    def make() -> Any:
        timm = pytest.importorskip("timm")
        image = torch.randn(1, 3, 224, 224)
        return timm.create_model(name, pretrained=False), (image,), {}

    return make


def _words(length: int, vocabulary: int = 1000) -> Any:
    return torch.randint(0, vocabulary, (2, length))


def _language(kind: str, config: dict[str, Any], length: int = 24) -> Callable[[], Any]:
    """A model of transformers by the names of its class and its configuration's."""

    def make() -> Any:
        transformers = pytest.importorskip("transformers")
        name = kind.removesuffix("Model").removesuffix("ForCausalLM").removesuffix("LMHead")
        settings = getattr(transformers, f"{name}Config")(**config)
        options = {} if "Bert" in kind else {"use_cache": False}
        return getattr(transformers, kind)(settings), (_words(length),), options

    return make


def _t5() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config()  # the defaults are those of T5-small
    words = {"input_ids": _words(16), "decoder_input_ids": _words(12), "use_cache": False}
    return transformers.T5ForConditionalGeneration(config), (), words


def _whisper() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    words = {"decoder_input_ids": _words(8)[:1], "use_cache": False}
    return transformers.WhisperForConditionalGeneration(config), (torch.randn(1, 80, 3000),), words


TWO_LAYERS = {
    "vocab_size": 2000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 4,
}  # fmt: skip
CASES: dict[str, Callable[[], Any]] = {
    "resnet50": _timm("resnet50"),
    "mobilenetv3": _timm("mobilenetv3_large_100"),
    "efficientnet_b0": _timm("efficientnet_b0"),
    "convnext_tiny": _timm("convnext_tiny"),
    "vit_small": _timm("vit_small_patch16_224"),
    "swin_tiny": _timm("swin_tiny_patch4_window7_224"),
    "bert_base": _language("BertModel", {}),
    "gpt2": _language("GPT2LMHeadModel", {}),
    "t5_small": _t5,
    "llama": _language("LlamaForCausalLM", TWO_LAYERS),
    "qwen": _language("Qwen2ForCausalLM", TWO_LAYERS),
    "whisper_tiny": _whisper,
}


@pytest.mark.parametrize("name", list(CASES))
def test_matches_eager(name: Any, torchvision_operators: Any) -> None:
    from tileloom.frontend.torch import report, tileloom

    torch.manual_seed(0)
    model, args, kwargs = CASES[name]()
    model.eval()
    randomize(model)
    torch._dynamo.reset()
    report().clear()
    with torch.no_grad():
        expected = _first(model(*args, **kwargs))
        got = _first(torch.compile(model, backend=tileloom)(*args, **kwargs))
    assert expected.isfinite().all() and expected.std() > 0.01, "the model is dead"
    assert (got - expected).abs().max() <= 1e-4 * max(1.0, expected.abs().max().item())
    assert not report().fallbacks, str(report())
    assert report().graphs == report().parts, "more than one part in a graph"


def _first(result: Any) -> Any:
    return result if isinstance(result, torch.Tensor) else result[0]
