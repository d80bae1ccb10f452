"""NumPy programs that Tileloom compiles as they are, for the demo and for `tileloom bench`.

Each is an ordinary function of NumPy arrays: run as it stands on float64 arrays it is the
reference for what `tileloom.jit` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tileloom

from ..base.errors import UserError
from ..graph.nodes import Graph

Maker = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class TrialProgram:
    """A NumPy function, arguments to try it on, and the same in PyTorch.

    Attributes:
        sizes: the extents that the arguments are made of.
        sized: makes arguments of such extents.
        torch: from the torch module to a function of tensors; None if there is no equal.
        rtol: the largest error, in parts of the largest number of the result.
    """

    name: str
    function: Callable[..., Any]
    sizes: tuple[int, ...]
    sized: Callable[..., Maker]
    torch: Callable[[Any], Callable[..., Any]]
    rtol: float = 1e-5

    @property
    def shape(self) -> str:
        """The sizes as one writes them.

        >>> PROGRAMS[0].shape
        '2048x2048'
        """
        return "x".join(map(str, self.sizes))

    def arguments(self, rng: np.random.Generator, shape: str | None = None) -> tuple[Any, ...]:
        """What the program is tried on: its usual arguments, or some of another shape.

        Raises:
            UserError: the shape is none that the program can have.
        """
        sizes = self.sizes if shape is None else self._parsed(shape)
        return self.sized(*sizes)(rng)

    def _parsed(self, shape: str) -> tuple[int, ...]:
        words = shape.split("x")
        if len(words) != len(self.sizes) or not all(w.isascii() and w.isdigit() for w in words):
            raise UserError(
                f"{self.name!r} cannot take an argument of shape {shape!r}",
                hint=f"{len(self.sizes)} extents, as {self.shape}",
            )
        return tuple(map(int, words))


def softmax(x: Any) -> Any:
    """exp(x) in parts of its sum, along the last axis."""
    exponentials = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exponentials / np.sum(exponentials, axis=-1, keepdims=True)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Rows with mean 0 and variance 1, scaled and shifted."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * scale + shift


def gelu(x: Any) -> Any:
    """x times the chance that a normal variable is smaller, by its usual approximation."""
    return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def bias_gelu(x: Any, bias: Any) -> Any:
    """What follows the first product of a transformer's feed-forward part."""
    return gelu(x + bias)


def chain(x: Any, y: Any) -> Any:
    """Eight elementwise operations."""
    return np.tanh(np.abs(x * y + x) - 0.5) * np.exp(-(y * y))


def column_sums(x: Any) -> Any:
    """The sum of each column."""
    return np.sum(x, axis=0)


def dense(x: Any, weight: Any, bias: Any) -> Any:
    """A product with bias and rectifier."""
    return np.maximum(x @ weight + bias, 0.0)


def attention(x: Any, layer: dict[str, Any], heads: int) -> Any:
    """Self-attention of [tokens, width] with several heads."""
    tokens, width = x.shape
    projected = x @ layer["qkv"] + layer["qkv_bias"]
    parts = np.reshape(projected, (tokens, 3, heads, width // heads))
    queries, keys, values = (np.transpose(parts[:, k], (1, 0, 2)) for k in range(3))
    scores = queries @ np.swapaxes(keys, -1, -2) * (width // heads) ** -0.5
    mixed = np.transpose(softmax(scores) @ values, (1, 0, 2))
    return np.reshape(mixed, (tokens, width)) @ layer["out"] + layer["out_bias"]


def encoder(x: Any, layers: list[dict[str, Any]], heads: int) -> Any:
    """A transformer encoder, normalising first, of [tokens, width]."""
    for layer in layers:
        x = x + attention(layer_norm(x, layer["scale1"], layer["shift1"]), layer, heads)
        hidden = layer_norm(x, layer["scale2"], layer["shift2"]) @ layer["up"] + layer["up_bias"]
        x = x + gelu(hidden) @ layer["down"] + layer["down_bias"]
    return x


def encoder_layer(rng: np.random.Generator, width: int, hidden: int) -> dict[str, Any]:
    """Random weights of one layer."""

    def matrix(rows: int, columns: int) -> Any:
        return (rng.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)

    def vector(size: int, mean: float = 0.0) -> Any:
        return (mean + 0.1 * rng.standard_normal(size)).astype(np.float32)

    return {
        "qkv": matrix(width, 3 * width), "qkv_bias": vector(3 * width),
        "out": matrix(width, width), "out_bias": vector(width),
        "scale1": vector(width, 1.0), "shift1": vector(width),
        "scale2": vector(width, 1.0), "shift2": vector(width),
        "up": matrix(width, hidden), "up_bias": vector(hidden),
        "down": matrix(hidden, width), "down_bias": vector(width),
    }  # fmt: skip


def _torch_encoder(torch: Any) -> Callable[..., Any]:
    functional = torch.nn.functional

    def run(x: Any, layers: list[dict[str, Any]], heads: int) -> Any:
        tokens, width = x.shape
        for p in layers:
            y = functional.layer_norm(x, (width,), p["scale1"], p["shift1"])
            parts = torch.addmm(p["qkv_bias"], y, p["qkv"]).reshape(tokens, 3, heads, -1)
            q, k, v = (parts[:, n].transpose(0, 1) for n in range(3))
            mixed = functional.scaled_dot_product_attention(q, k, v)
            mixed = mixed.transpose(0, 1).reshape(tokens, width)
            x = x + torch.addmm(p["out_bias"], mixed, p["out"])
            y = functional.layer_norm(x, (width,), p["scale2"], p["shift2"])
            y = functional.gelu(torch.addmm(p["up_bias"], y, p["up"]), approximate="tanh")
            x = x + torch.addmm(p["down_bias"], y, p["down"])
        return x

    return run


def _normal(*shapes: tuple[int, ...]) -> Maker:
    return lambda rng: tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


def _encoder_arguments(layers: int, tokens: int, width: int) -> Maker:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = rng.standard_normal((tokens, width)).astype(np.float32)
        return x, [encoder_layer(rng, width, 4 * width) for _ in range(layers)], max(1, width // 64)

    return make


PROGRAMS = (
    TrialProgram(
        "softmax", softmax, (2048, 2048), lambda rows, columns: _normal((rows, columns)),
        lambda torch: lambda x: torch.softmax(x, -1),
    ),
    TrialProgram(
        "layer_norm", layer_norm, (8192, 768),
        lambda rows, columns: _normal((rows, columns), (columns,), (columns,)),
        lambda torch: lambda x, g, b: torch.nn.functional.layer_norm(x, g.shape, g, b),
    ),
    TrialProgram(
        "bias_gelu", bias_gelu, (2048, 3072),
        lambda rows, columns: _normal((rows, columns), (columns,)),
        lambda torch: lambda x, b: torch.nn.functional.gelu(x + b, approximate="tanh"),
    ),
    TrialProgram(
        "chain", chain, (1 << 22,), lambda size: _normal((size,), (size,)),
        lambda torch: lambda x, y: torch.tanh(torch.abs(x * y + x) - 0.5) * torch.exp(-(y * y)),
    ),
    TrialProgram(
        "col_sums", column_sums, (4096, 2048), lambda rows, columns: _normal((rows, columns)),
        lambda torch: lambda x: torch.sum(x, 0), rtol=1e-4,
    ),
    TrialProgram(
        "dense", dense, (512, 768, 768),
        lambda rows, depth, columns: _normal((rows, depth), (depth, columns), (columns,)),
        lambda torch: lambda x, w, b: torch.relu(torch.addmm(b, x, w)),
    ),
    TrialProgram(
        "encoder", encoder, (4, 128, 512), _encoder_arguments, _torch_encoder, rtol=1e-4,
    ),
)  # fmt: skip


def find_program(name: str) -> TrialProgram:
    """The built-in program of a name.

    Raises:
        UserError: there is none.
    """
    known = {program.name: program for program in PROGRAMS}
    if name not in known:
        hint = f"a file, or one of {', '.join(known)}"
        raise UserError(f"there is no file and no built-in program {name!r}", hint=hint)
    return known[name]


def program_graph(name: str, seed: int, shape: str | None = None) -> Graph:
    """The graph of a built-in program for its usual arguments, or for some of this shape."""
    program = find_program(name)
    arguments = program.arguments(np.random.default_rng(seed), shape)
    function: Any = tileloom.jit(program.function)
    graph: Graph = function.graph(*arguments)
    return graph


def convert(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same nest with `leaf` applied to its arrays."""
    if isinstance(value, np.ndarray):
        return leaf(value)
    if isinstance(value, dict):
        return {key: convert(part, leaf) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(convert(part, leaf) for part in value)
    return value
