"""Operators that are known, but not supported, with the reason."""

from __future__ import annotations

from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler


@handler(
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
)  # fmt: skip
def random(call: Call) -> Tensor:
    return call.unsupported("randomness")


@handler("ImageDecoder")
def image_decoder(call: Call) -> Tensor:
    return call.unsupported("decoding of compressed images")
