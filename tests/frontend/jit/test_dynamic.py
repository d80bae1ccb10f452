"""Functions compiled once for many sizes: results, one compilation, guards, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from sampling import sampled
from tileloom import numpy as tnp
from tileloom.base.errors import ArgumentError, ShapeError
from tileloom.runtime.cache import object_cache

RNG = np.random.default_rng(7)
BATCH, SEQ = tl.Dim("batch", max=4096), tl.Dim("seq", max=4096)
ROWS = {"x": {0: BATCH, 1: SEQ}}
WIDTH = 24
WEIGHT = RNG.standard_normal((WIDTH, 40)).astype("float32")
SCALE = RNG.standard_normal(WIDTH).astype("float32")
TABLE = RNG.standard_normal((50, WIDTH)).astype("float32")


def some_sizes(count: int, elements: int) -> list[tuple[int, int]]:
    """Random sizes in 1...4096, with few elements so that the tests are quick; and the corners."""
    rng = np.random.default_rng(3)
    found = [(1, 1), (1, 16), (16, 1), (3, 37)]
    while len(found) < count:
        batch, seq = (int(n) for n in rng.integers(1, 4097, 2))
        first = bool(rng.integers(2))
        batch, seq = (max(1, elements // seq), seq) if first else (batch, max(1, elements // batch))
        found.append((min(batch, 4096), min(seq, 4096)))
    return found


def softmax(x: Any) -> Any:
    return tnp.softmax(x * 2.0)


def layer_norm(x: Any) -> Any:
    return tnp.layer_norm(x)


def rms_norm(x: Any) -> Any:
    return tnp.rms_norm(x, SCALE)


def columns(x: Any) -> Any:
    return tnp.mean(x, axis=0), tnp.max(x, axis=0)


def softmax_of_columns(x: Any) -> Any:
    return tnp.softmax(x, axis=0)


def everything(x: Any) -> Any:
    return tnp.sum(x), tnp.max(x)


def mlp(x: Any) -> Any:
    return tnp.gelu(tnp.matmul(x, WEIGHT) + 1.0)


def turned(x: Any) -> Any:
    return x.T + 1.0


def cross_entropy(x: Any) -> Any:
    return tnp.cross_entropy(x, tnp.argmin(x, axis=1))


def heads(x: Any) -> Any:
    batch, seq, _ = x.shape
    q = tnp.transpose(tnp.reshape(x, (batch, seq, 3, 8)), (0, 2, 1, 3))
    weights = tnp.softmax(tnp.matmul(q, tnp.matrix_transpose(q)) * 0.3)
    return tnp.reshape(tnp.transpose(tnp.matmul(weights, q), (0, 2, 1, 3)), x.shape)


def rearranged(x: Any) -> Any:
    both = tnp.concat([x, x[:, ::-1] * 2.0], axis=1)
    return both[:, 1:] - both[:, :-1], tnp.reshape(x, (-1, WIDTH))[-1]


def running(x: Any) -> Any:
    return tnp.cumulative_sum(x, axis=1)


def matrix(batch: int, seq: int) -> Any:
    return RNG.standard_normal((batch, seq)).astype("float32")


def tokens(batch: int, seq: int) -> Any:
    return RNG.standard_normal((batch, seq, WIDTH)).astype("float32")


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def agree(got: Any, want: Any) -> None:
    for one, other in zip(as_tuple(got), as_tuple(want), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


# ---------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("function", "make", "elements"),
    sampled(
        [
            (softmax, matrix, 20000),
            (layer_norm, matrix, 20000),
            (columns, matrix, 20000),
            (softmax_of_columns, matrix, 20000),
            (everything, matrix, 150000),
            (turned, matrix, 20000),
            (cross_entropy, matrix, 20000),
            (rms_norm, tokens, 3000),
            (rearranged, tokens, 1000),
            (running, tokens, 1000),
            (mlp, tokens, 3000),
        ],
        8,
        several=True,
    ),
)
def test_twenty_sizes_through_one_program(
    function: Callable[..., Any], make: Any, elements: int
) -> None:
    compiled = tl.jit(function, dynamic_shapes=ROWS)
    # What is compiled for one size alone is tested elsewhere; here it says what is right.
    for batch, seq in some_sizes(20, elements):
        x = make(batch, seq)
        agree(compiled(x), in_numpy(function, x))
    assert compiled.compilations == 1


def in_numpy(function: Callable[..., Any], x: Any) -> Any:
    """The function's result by the NumPy meaning of its ops."""
    from tileloom.frontend.jit.tree import unflatten
    from tileloom.graph.run import run

    traced = tl.jit(function)
    leaves, tree, arrays = traced._arguments((x,), {})
    graph, outcome = traced._trace(tree, leaves)
    return unflatten(outcome.structure, iter(run(graph, arrays)))


@pytest.mark.slow
def test_attention_through_one_program() -> None:
    compiled = tl.jit(heads, dynamic_shapes=ROWS)
    for batch, seq in [(1, 1), (2, 16), (1, 97), (5, 31), (3, 130), (1, 13), (40, 2)]:
        x = tokens(batch, seq)
        agree(compiled(x), in_numpy(heads, x))
    assert compiled.compilations == 1


def test_indices_of_many_sizes() -> None:
    compiled = tl.jit(lambda x: tnp.take(TABLE, x, axis=0) * 2.0, dynamic_shapes=ROWS)
    for batch, seq in some_sizes(8, 300):
        x = RNG.integers(0, 50, (batch, seq))
        np.testing.assert_array_equal(compiled(x), TABLE[x] * np.float32(2))
    assert compiled.compilations == 1


def test_sizes_are_values_too() -> None:
    @tl.jit(dynamic_shapes=ROWS)
    def scaled(x: Any) -> Any:
        return x / x.shape[1] + x.shape[0] * 2, x.shape[0] * x.shape[1]

    for batch, seq in [(3, 5), (1, 1), (40, 700)]:
        x = matrix(batch, seq)
        y, size = scaled(x)
        np.testing.assert_allclose(y, x / np.float32(seq) + 2 * batch, rtol=1e-5)
        assert size == batch * seq
    assert scaled.compilations == 1


def test_operands_that_share_a_dimension_and_one_that_does_not() -> None:
    n = tl.Dim("n")

    @tl.jit(dynamic_shapes={"x": {0: BATCH, 1: n}, "y": {0: n}, "z": {0: BATCH}})
    def combine(x: Any, y: Any, z: Any, w: Any) -> Any:
        return (x * y + w) * z[:, None]

    for batch, size in [(4, 7), (1, 1), (300, 33)]:
        x, y, z, w = matrix(batch, size), matrix(1, size)[0], matrix(1, batch)[0], np.float32(3)
        agree(combine(x, y, z, w), (x * y + w) * z[:, None])
    assert combine.compilations == 1


def test_arrays_in_a_nest_and_by_position() -> None:
    @tl.jit(dynamic_shapes=({"a": {0: BATCH}, "b": [None, {0: BATCH, -1: SEQ}]}, (BATCH, SEQ)))
    def combine(nest: Any, x: Any) -> Any:
        first, second = nest["b"]
        return nest["a"][:, None] + second * first + x

    for batch, seq in [(4, 7), (1, 1), (30, 33)]:
        a, x, first = matrix(1, batch)[0], matrix(batch, seq), np.float32(2)
        agree(combine({"a": a, "b": [first, x]}, x), a[:, None] + x * 2 + x)
    assert combine.compilations == 1


def test_arrays_that_are_not_compact() -> None:
    compiled = tl.jit(softmax, dynamic_shapes=ROWS)
    x = matrix(40, 30)
    agree(compiled(x.T), compiled(np.ascontiguousarray(x.T)))
    agree(compiled(x[::2, 3:]), compiled(x[::2, 3:].copy()))
    agree(compiled(x[::-1]), compiled(x[::-1].copy()))
    assert compiled.compilations == 1


def test_other_types_are_other_programs() -> None:
    compiled = tl.jit(softmax, dynamic_shapes=ROWS)
    for kind in ("float32", "float64", "float32"):
        assert compiled(matrix(3, 5).astype(kind)).dtype == kind
    assert compiled.compilations == 2


def test_steps_of_the_host() -> None:
    compiled = tl.jit(lambda x: tnp.sort(x * 2.0, axis=1) + 1.0, dynamic_shapes=ROWS)
    for batch, seq in [(3, 5), (1, 1), (40, 70)]:
        x = matrix(batch, seq)
        agree(compiled(x), np.sort(x * 2, axis=1) + 1)
    assert compiled.compilations == 1


def test_special_values() -> None:
    compiled = tl.jit(softmax, dynamic_shapes=ROWS)
    x = matrix(5, 19)
    x[0, 3], x[1, 18], x[2, :] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        want = in_numpy(softmax, x)
    np.testing.assert_allclose(compiled(x), want, rtol=1e-4, atol=1e-6)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    compiled = tl.jit(softmax, dynamic_shapes=ROWS)
    for shape in ((3, 5), (8, 40)):
        x = torch.randn(*shape)
        torch.testing.assert_close(compiled(x), torch.softmax(2 * x, -1))


def test_methods() -> None:
    class Model:
        @tl.jit(dynamic_shapes={"x": {0: BATCH}})
        def run(self, x: Any) -> Any:
            return x + 1.0

    model = Model()
    assert model.run(np.zeros((3, 2), "float32")).shape == (3, 2)
    assert model.run(np.zeros((9, 2), "float32")).shape == (9, 2)


# ---------------------------------------------------------------------------- programs


def test_sizes_of_zero() -> None:
    empty = tl.Dim("empty", min=0, max=100)
    compiled = tl.jit(lambda x: (x + 1.0, tnp.sum(x, axis=0)), dynamic_shapes={"x": {0: empty}})
    for batch in (0, 4, 0, 9):
        y, total = compiled(np.ones((batch, 3), "float32"))
        assert y.shape == (batch, 3)
        assert total.tolist() == [batch] * 3
    assert compiled.compilations == 2


def test_differences_of_few() -> None:
    """As in NumPy none of one element, and none of none."""
    compiled = tl.jit(lambda x: tnp.diff(x, axis=1, n=2) * 2.0, dynamic_shapes=ROWS)
    for seq in (5, 1, 2, 3):
        x = matrix(2, seq)
        agree(compiled(x), np.diff(x, n=2) * 2)
        agree(tl.jit(lambda x: tnp.diff(x, axis=1, n=2))(x), np.diff(x, n=2))
    assert compiled.compilations == 1


def test_flow_that_depends_on_a_size_becomes_a_guard() -> None:
    @tl.jit(dynamic_shapes=ROWS)
    def choose(x: Any) -> Any:
        return x + 1.0 if x.shape[0] > 16 else x - 1.0

    for batch in (3, 16, 17, 40, 5):
        assert choose(np.zeros((batch, 2), "float32"))[0, 0] == (1 if batch > 16 else -1)
    assert choose.compilations == 2


def test_a_value_that_is_used_is_compiled_for_and_the_number_of_programs_is_bounded() -> None:
    @tl.jit(dynamic_shapes=ROWS)
    def loop(x: Any) -> Any:
        total = x
        for _ in range(x.shape[0]):
            total = total + 1.0
        return total

    for batch in range(1, 13):
        assert loop(np.zeros((batch, 3), "float32"))[0, 0] == batch
    assert loop.compilations == 12
    assert loop(np.zeros((5, 4), "float32"))[0, 0] == 5
    assert loop.compilations == 12


def test_every_dimension() -> None:
    compiled = tl.jit(lambda x, y: x * 2.0 + y, dynamic=True)
    for shape in ((3, 4), (7, 5), (9, 30)):
        x = matrix(*shape)
        agree(compiled(x, x), x * 2 + x)
    assert compiled.compilations == 1
    x, row = matrix(6, 1), matrix(1, 6)
    agree(compiled(x, row), x * 2 + row)  # ones are repeated: another program
    assert compiled.compilations == 2


def test_programs_are_found_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {"x": {0: tl.Dim("stored", max=77)}}
    first = tl.jit(lambda x: tnp.exp(x) - 3.25, dynamic_shapes=shapes)
    again = tl.jit(lambda x: tnp.exp(x) - 3.25, dynamic_shapes=shapes)
    x, y = matrix(5, 8), matrix(70, 8)
    want = first(x), first(y)
    monkeypatch.setattr(object_cache(), "put", lambda *_: pytest.fail("it was made anew"))
    agree((again(y), again(x)), want[::-1])


def test_explain() -> None:
    compiled = tl.jit(lambda x: tnp.sum(x, axis=0), dynamic_shapes=ROWS)
    texts = [compiled.explain(np.ones(shape, "float32")) for shape in ((10, 3), (10, 3000))]
    taken = [[line for line in text.splitlines() if "->" in line] for text in texts]
    assert [len(lines) for lines in taken] == [1, 1]
    assert taken[0] != taken[1]
    assert "batch = 10, seq = 3" in texts[0]
    assert compiled.compilations == 1


# ---------------------------------------------------------------------------- errors


def test_sizes_that_disagree() -> None:
    compiled = tl.jit(lambda x, y: x + y, dynamic_shapes={"x": (BATCH, SEQ), "y": (BATCH, SEQ)})
    with pytest.raises(ShapeError, match="'seq' is 4 by axis 1 of 'x', and 5 by axis 1 of 'y'"):
        compiled(np.zeros((3, 4)), np.zeros((3, 5)))


def test_sizes_out_of_bounds() -> None:
    small = tl.Dim("small", min=2, max=8)
    compiled = tl.jit(lambda x: x + 1, dynamic_shapes={"x": {0: small}})
    compiled(np.zeros(2))
    for size in (1, 9):
        with pytest.raises(ShapeError, match=f"axis 0 of 'x' has size {size}, .*from 2 to 8"):
            compiled(np.zeros(size))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": {0: BATCH}}, "names 'y', which is no parameter"),
        ({"x": {2: BATCH}}, "no axis 2 of 'x': it has 2 dimensions"),
        ({"x": {0: "batch"}}, "0: 'batch' for the array 'x'"),
        ({"x": {0: BATCH, 1: tl.Dim("batch")}}, "two dimensions are called 'batch'"),
        ((None, None), "2 entries for 1 parameters"),
    ],
)
def test_wrong_declarations(shapes: Any, message: str) -> None:
    compiled = tl.jit(lambda x: x + 1, dynamic_shapes=shapes)
    with pytest.raises(ArgumentError, match=message):
        compiled(np.zeros((2, 3)))


@pytest.mark.parametrize("bounds", [(-1, 3), (4, 3), (0, 1 << 40)])
def test_wrong_bounds(bounds: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match="go from"):
        tl.Dim("n", *bounds)
    with pytest.raises(ArgumentError, match="identifier"):
        tl.Dim("not a name")


def test_dimensions_that_do_not_broadcast() -> None:
    compiled = tl.jit(lambda x, y: x + y, dynamic_shapes={"x": {0: BATCH}, "y": {0: SEQ}})
    with pytest.raises(ShapeError, match="do not broadcast"):
        compiled(np.zeros(4), np.zeros(4))
