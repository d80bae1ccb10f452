"""One compiled program of a model for many sizes, against ONNX Runtime; dimensions with bounds."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import tileloom
from frontend.onnx.helpers import model
from tileloom.base.errors import ArgumentError, ShapeError, UserError
from tileloom.frontend.onnx import Model, load

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(5)
#: The corners, then ten at random.
BATCHES = [1, 2, 3, 31, 64, *map(int, RNG.integers(1, 65, 10))]
PAIRS = [(1, 1), (2, 16), (1, 17), (5, 1), (3, 31)]
PAIRS += zip(RNG.integers(1, 9, 10).tolist(), RNG.integers(1, 33, 10).tolist(), strict=True)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def check(session: Model, data: bytes, many: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Compare with ONNX Runtime, and with a program for one size the first time."""
    peer = onnxruntime.InferenceSession(data)
    static = load(data, dynamic=False)
    for k, feeds in enumerate(many):
        found = session.run(None, feeds)
        others = [peer.run(None, feeds), *([static.run(None, feeds)] if k < 1 else [])]
        for other in others:
            for ours, theirs in zip(found, other, strict=True):
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


# ---------------------------------------------------------------------------- networks


def mlp() -> bytes:
    proto = model(
        """mlp (float[batch, 13] x) => (float[batch, 7] y) <float[13, 32] a, float[32] b,
        float[32, 7] c> { t = MatMul(x, a) u = Add(t, b) v = Relu(u) w = MatMul(v, c)
        y = Softmax <axis = -1> (w) }"""
    )
    return weighted(proto)


def convnet() -> bytes:
    proto = model(
        """net (float[batch, 3, 17, 20] x) => (float[batch, 5] y) <float[8, 3, 3, 3] a, float[8] b,
        float[16, 8, 3, 3] c, float[16, 5] d, int64[2] to = {0, -1}> {
        t = Conv <pads = [1, 1, 1, 1]> (x, a, b) u = Relu(t)
        v = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (u)
        w = Conv <strides = [2, 2], auto_pad = "SAME_UPPER"> (v, c)
        p = AveragePool <kernel_shape = [2, 2]> (w)
        q = GlobalAveragePool(p) r = Reshape(q, to) y = MatMul(r, d) }"""
    )
    return weighted(proto)


def weighted(proto: Any) -> bytes:
    """The model with random numbers for what has a type and no value."""
    for info in proto.graph.value_info:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        values = normal(*shape) / np.float32(np.sqrt(np.prod(shape) / max(shape)))
        proto.graph.initializer.append(numpy_helper.from_array(values, info.name))
    del proto.graph.value_info[:]
    return bytes(proto.SerializeToString())


def test_an_mlp_for_many_batches() -> None:
    data = mlp()
    session = load(data)
    check(session, data, [{"x": normal(n, 13)} for n in BATCHES])
    assert session.compilations == 1


def test_a_convolutional_network_for_many_batches() -> None:
    data = convnet()
    session = load(data)
    check(session, data, [{"x": normal(n, 3, 17, 20)} for n in BATCHES])
    assert session.compilations == 1


def test_an_mlp_on_a_gpu() -> None:
    data = mlp()
    session = load(data, target="cuda", device="emulator")
    check(session, data, [{"x": normal(n, 13)} for n in (3, 1, 33)])
    assert session.compilations == 1


def encoder() -> Any:
    """A layer of a transformer as people write them in PyTorch: sizes from shapes throughout."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int = 64, heads: int = 4) -> None:
            super().__init__()
            self.heads = heads
            self.words, self.places = nn.Embedding(50, width), nn.Embedding(64, width)
            self.register_buffer("numbers", torch.arange(64)[None])
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, ids: Any, mask: Any) -> Any:
            b, s = ids.shape
            x = self.words(ids) + self.places(self.numbers[:, :s])
            qkv = self.qkv(self.norm(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            bias = ((1.0 - mask[:, None, None, :].float()) * -1e4).expand(b, 1, s, s)
            weights = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5 + bias).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(b, s, -1))
            x = x + self.down(nn.functional.gelu(self.up(self.last(x))))
            return x, x[:, 0]

    torch.manual_seed(0)
    return Encoder().eval()


def exported(dynamo: bool) -> bytes:
    torch = pytest.importorskip("torch")
    module, ids = encoder(), torch.zeros((2, 9), dtype=torch.int64)
    inputs = (ids, torch.ones_like(ids))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if dynamo:
            pytest.importorskip("onnxscript")
            axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=64)}
            program = torch.onnx.export(
                module, inputs, input_names=["ids", "mask"], dynamo=True, verbose=False,
                dynamic_shapes=(axes, axes),
            )  # fmt: skip
            return bytes(program.model_proto.SerializeToString())
        file, names = io.BytesIO(), {0: "batch", 1: "sequence"}
        torch.onnx.export(
            module, inputs, file, input_names=["ids", "mask"], dynamo=False,
            dynamic_axes={"ids": names, "mask": names},
        )  # fmt: skip
        return file.getvalue()


def tokens(size: tuple[int, int]) -> dict[str, np.ndarray]:
    """Words, and which of them there are: from the first to one in the line."""
    mask = np.arange(size[1]) <= RNG.integers(0, size[1], (size[0], 1))
    return {"ids": RNG.integers(0, 50, size), "mask": mask.astype(np.int64)}


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
def test_a_transformer_for_many_batches_and_lengths(dynamo: bool) -> None:
    data = exported(dynamo)
    bounds = {"batch": tileloom.Dim("batch", max=64), "sequence": tileloom.Dim("sequence", max=64)}
    session = load(data, shapes=bounds)
    many = [tokens(size) for size in PAIRS]
    check(session, data, many)
    assert session.compilations == 1
    assert session.explain(many[3]).startswith("batch = 5, sequence = 1\n")


# ---------------------------------------------------------------------------- dimensions

AFFINE = model("affine (float[batch, 3] x, float[batch] y) => (float[batch, 3] z) "
               "<int64[1] one = {1}> { t = Unsqueeze(y, one) z = Add(x, t) }")  # fmt: skip


def affine(n: int, m: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    return normal(n, 3), normal(n if m is None else m)


def test_sizes_must_agree_and_both_places_are_named() -> None:
    session = load(AFFINE)
    session(*affine(4))
    with pytest.raises(ShapeError, match=r"input 'y' .*got \[5\]: 'batch' is 4 by input 'x'"):
        session(*affine(4, 5))
    assert session.compilations == 1


def test_bounds() -> None:
    session = load(AFFINE, shapes={"batch": tileloom.Dim("batch", min=2, max=8)})
    for n in (2, 5, 8):
        x, y = affine(n)
        np.testing.assert_array_equal(session(x, y)[0], x + y[:, None])
    assert session.compilations == 1
    for n in (1, 9):
        with pytest.raises(
            ShapeError, match=rf"axis 0 of input 'x' has size {n}, and 'batch' goes from 2 to 8"
        ):
            session(*affine(n))


def test_dimensions_may_be_fixed_or_named() -> None:
    assert load(AFFINE, shapes={"batch": 4}, target="reference").graph().inputs[0].shape == (4, 3)
    rows = tileloom.Dim("rows", max=9)
    session = load(AFFINE, shapes={"batch": rows})
    assert [info.shape for info in session.get_inputs()] == [("rows", 3), ("rows",)]
    proto = model("two (float[n] x, float[m] y) => (float[n] z) { z = Add(x, y) }")
    session = load(proto, shapes={"x": (rows,), "m": rows})
    with pytest.raises(ShapeError, match="'rows' is 3 by input 'x'"):
        session(normal(3), normal(4))
    session(normal(3), normal(3)), session(normal(7), normal(7)), session(normal(1), normal(1))
    assert session.compilations == 1


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"bach": tileloom.Dim("n")}, "did you mean 'batch'"),
        ({"batch": tileloom.Dim("n"), "x": (tileloom.Dim("n"), 3)}, "two dimensions are called"),
        ({"x": (tileloom.Dim("n"), 4)}, "does not fit"),
        ({"x": (None, 3)}, "natural number"),
    ],
)
def test_wrong_dimensions(shapes: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        load(AFFINE, shapes=shapes)


def test_bounds_without_symbols() -> None:
    for options in ({"dynamic": False}, {"target": "reference"}):
        session = load(AFFINE, shapes={"batch": tileloom.Dim("batch", max=4)}, **options)
        session(*affine(4)), session(*affine(3))
        assert session.compilations == 2
        with pytest.raises(ShapeError, match="goes from 1 to 4"):
            session(*affine(5))


# ---------------------------------------------------------------------------- the session


def test_outputs_that_are_asked_for_have_a_program_of_their_own() -> None:
    session = load(model("two (float[n] x) => (float[n] y, float[n] z) { y = Neg(x) z = Exp(y) }"))
    for n in (3, 4, 9):
        x = normal(n)
        np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], -x)
        z, y = session.run(["z", "y"], {"x": x})
        np.testing.assert_allclose(z, np.exp(y), rtol=1e-6)
    assert session.compilations == 2


def test_the_graph_of_sizes_is_that_of_a_program_for_them() -> None:
    session = load(AFFINE)
    x, y = affine(6)
    assert session.graph({"x": x, "y": y}).outputs[0].shape == (6, 3)
    assert session.compilations == 0


def test_sizes_that_no_memory_holds_are_refused() -> None:
    proto = model("huge (float[n] x) => (float[m, n] y) <int64[1] one = {1}> { s = Shape(x) "
                  "t = Mul(s, s) u = Concat <axis = 0> (t, s) y = Expand(x, u) }")  # fmt: skip
    session = load(proto, shapes={"n": tileloom.Dim("n", max=1000)})
    np.testing.assert_array_equal(session(normal(3))[0].shape, (9, 3))
    unbounded = load(proto)
    unbounded(normal(3))
    with pytest.raises(UserError, match="more than this machine's"):
        unbounded(np.ones(100_000, np.float32))


def test_constants_and_inputs_may_be_outputs() -> None:
    session = load(model("same (float[n] x) => (float[n] x, float[2] c, int64 m) "
                         "<float[2] c = {1, 2}> { m = Size(x) }"))  # fmt: skip
    for n in (2, 5):
        x = normal(n)
        got, constant, size = session(x)
        np.testing.assert_array_equal(got, x)
        assert (constant.tolist(), int(size)) == ([1, 2], n)
    assert session.compilations == 1


def test_threads_meet_new_sizes() -> None:
    session = load(AFFINE)
    arrays = [affine(k % 9 + 1) for k in range(60)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda a: session(*a)[0], arrays))
    for (x, y), z in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(z, x + y[:, None])
    assert session.compilations == 1
