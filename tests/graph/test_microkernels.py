"""Products of narrow operands by every micro-kernel that this machine has, for awkward sizes."""

from __future__ import annotations

from itertools import product as every
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileloom as tl
from sampling import sampled
from tileloom import Schedule
from tileloom.base import dtype
from tileloom.base.settings import override
from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.schedule.trace import Trace
from tileloom.target import Target, target
from tileloom.tir import structural_equal

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
NO_TILES = "-amx-bf16,-amx-int8,-amx-tile"
NO_DOTS = f"{NO_TILES},-avx512vnni,-avxvnni,-avx512bf16"
#: Targets, and what the host must have for code for them to run and to be worth a test.
TARGETS = {
    "tiles": ("cpu", ("amx-int8", "amx-bf16")),
    "dots": (f"cpu -mattr={NO_TILES}", ("avx512vnni", "avx512bf16")),
    "narrow dots": (f"cpu -mattr={NO_TILES},-avx512f,-avx512bf16,-avx512vnni", ("avxvnni",)),
    "plain": (f"cpu -mattr={NO_DOTS}", ()),
}
CALLS = {"tiles": "amx_dot_", "dots": "dot_", "narrow dots": "dot_", "plain": ""}
#: Rows, depth and columns: whole and broken tiles, strips, panels, words and vectors.
SIZES = ((5, 7, 33), (33, 67, 47), (64, 128, 96))
MORE_SIZES = ((3, 2, 8), (12, 4, 32), (16, 64, 16), (37, 1, 40), (50, 130, 100), (97, 31, 129))
SETS = [SIZES, pytest.param(MORE_SIZES, marks=pytest.mark.slow)]
BYTES = ("int8", "uint8")


def on(name: str) -> Target:
    text, needed = TARGETS[name]
    if not all(map(Target.host().has, needed)):
        pytest.skip(f"the machine lacks {needed}")
    return target(text)


def bytes_of(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    """Random bytes, with many of the least and of the greatest."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    found = rng.integers(low, high, shape, kind, endpoint=True)
    edge = rng.random(shape)
    return np.where(
        edge < 0.2, np.array(low, kind), np.where(edge > 0.8, np.array(high, kind), found)
    )


def matmul_graph(
    a: Array, b: Array, *, constant: bool = False, out: str | None = None, **turned: bool
) -> tuple[Graph, list[Array]]:
    x = Tensor(tensor_type(a.shape, str(a.dtype)), "a")
    y = ops.constant(b) if constant else Tensor(tensor_type(b.shape, str(b.dtype)), "b")
    result = ops.matmul(x, y, out_dtype=out, **turned)
    return (Graph([x], [result]), [a]) if constant else (Graph([x, y], [result]), [a, b])


@pytest.mark.parametrize("sizes", SETS)
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("left", "right"), sampled(every(BYTES, BYTES), 9, several=True))
def test_products_of_bytes_are_exact(left: str, right: str, name: str, sizes: Any) -> None:
    where, rng = on(name), np.random.default_rng(0)
    for number, (m, k, n) in enumerate(sizes):
        a, b = bytes_of(rng, (m, k), left), bytes_of(rng, (k, n), right)
        exact = a.astype("int64") @ b.astype("int64")
        turned = {"transpose_a": number % 3 == 2, "transpose_b": number % 2 == 1}
        given = a.T.copy() if turned["transpose_a"] else a
        other = b.T.copy() if turned["transpose_b"] else b
        constant = number % 2 == 0
        graph, args = matmul_graph(given, other, constant=constant, out="int32", **turned)
        if m == 64:
            assert CALLS[name] in str(plan_graph(graph, where).module)
        [got] = compile_graph(graph, where)(*args)
        assert np.array_equal(got, exact), (m, k, n, turned, constant)


@pytest.mark.parametrize("name", TARGETS)
def test_the_largest_sums_of_bytes_wrap_around(name: str) -> None:
    where, depth = on(name), 70_000
    for left, right, a, b in (
        ("uint8", "uint8", 255, 255), ("int8", "int8", -128, -128), ("uint8", "int8", 255, -128),
        ("int8", "uint8", -128, 255),
    ):  # fmt: skip
        graph, args = matmul_graph(
            np.full((3, depth), a, left), np.full((depth, 8), b, right), out="int32"
        )
        [got] = compile_graph(graph, where)(*args)
        assert np.array_equal(got, np.full((3, 8), a * b * depth).astype("int32"))


@pytest.mark.parametrize("sizes", SETS)
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("out", [None, "float32"])
def test_products_of_bfloat16_are_summed_in_float32(out: str | None, name: str, sizes: Any) -> None:
    where, rng = on(name), np.random.default_rng(0)
    for number, (m, k, n) in enumerate(sizes):
        a, b = (rng.standard_normal(s).astype(BF16) for s in ((m, k), (k, n)))
        exact = a.astype("float64") @ b.astype("float64")
        turned = {"transpose_a": number % 3 == 2, "transpose_b": number % 2 == 1}
        given = a.T.copy() if turned["transpose_a"] else a
        other = b.T.copy() if turned["transpose_b"] else b
        near = 1e-6 * (np.abs(a.astype("float64")) @ np.abs(b.astype("float64")))
        unit = 2.0**-8 * np.abs(exact) * 1.01 if out is None else 0.0
        graph, args = matmul_graph(given, other, constant=number % 2 == 0, out=out, **turned)
        [got] = compile_graph(graph, where)(*args)
        assert got.dtype == (BF16 if out is None else np.float32)
        assert (np.abs(got.astype("float64") - exact) <= near + unit).all(), (m, k, n)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", sampled(["bfloat16", "int8", "uint8"], 3))
def test_right_operands_that_are_packed_row_by_row(kind: str, name: str) -> None:
    where, rng = on(name), np.random.default_rng(0)
    for m, k, n in ((2, 9, 100), (3, 2, 8), (33, 67, 97), (2, 130, 64), (17, 64, 353)):
        if kind == "bfloat16":  # whole numbers, so that every order of sums is exact
            a, b = (rng.integers(-8, 9, s).astype(BF16) for s in ((m, k), (k, n)))
        else:
            a, b = (bytes_of(rng, s, kind) for s in ((m, k), (k, n)))
        out = "float32" if kind == "bfloat16" else "int32"
        graph, args = matmul_graph(a, b, out=out)
        [got] = compile_graph(graph, where)(*args)
        assert np.array_equal(got, a.astype("float64") @ b.astype("float64")), (m, k, n)


@pytest.mark.parametrize("name", ["tiles", "dots"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("kind", "sizes"), [("bfloat16", (33, 67, 47)), ("u8s8", (64, 128, 97))])
def test_products_of_words_have_traces(
    kind: str, sizes: tuple[int, int, int], constant: bool, name: str
) -> None:
    where, (m, k, n) = on(name), sizes
    left, right = ("uint8", "int8") if kind == "u8s8" else (kind, kind)
    a, b = np.ones((m, k), dtype(left).numpy), np.ones((k, n), dtype(right).numpy)
    out = "int32" if kind == "u8s8" else None
    graph, _ = matmul_graph(a, b, constant=constant, out=out, transpose_b=False)
    program = plan_graph(graph, where)
    (planned,) = program.planned.values()
    again = Schedule(planned.blocks)
    Trace.apply_json_to_schedule(planned.trace.as_json(), again)
    assert structural_equal(again.mod["main"], planned.func)
    steps = {step[0] for step in planned.trace.as_json()[0]}
    assert ("Tensorize" in steps) == (name == "tiles")


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("left", "right"), sampled([("uint8", "int8"), ("int8", "int8")], 2, several=True)
)
def test_convolutions_of_bytes_are_exact(left: str, right: str, name: str) -> None:
    where, rng = on(name), np.random.default_rng(0)
    for shape, kernel, pad in (
        ((1, 5, 9, 11), (7, 5, 3, 3), 1),
        ((2, 17, 6, 6), (33, 17, 1, 1), 0),
        ((1, 16, 13, 8), (16, 16, 3, 3), 1),
    ):
        x, w = bytes_of(rng, shape, left), bytes_of(rng, kernel, right)
        image = Tensor(tensor_type(shape, left), "x")
        result = ops.conv(image, ops.constant(w), pads=pad, out_dtype="int32", pad_value=77)
        [got] = compile_graph(Graph([image], [result]), where)(x)
        edges = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        wide = np.pad(x.astype("int64"), edges, constant_values=77)
        views = np.lib.stride_tricks.sliding_window_view(wide, kernel[2:], (2, 3))
        want = np.einsum("nchwij,ocij->nohw", views, w.astype("int64"))
        assert np.array_equal(got, want), (shape, kernel)


@pytest.mark.parametrize("name", TARGETS)
def test_sums_are_rounded_to_the_nearest_bfloat16(name: str) -> None:
    where = on(name)
    # Halfway between neighbours, beside it, large enough to become infinite, tiny, and neither.
    ends = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-15, 3.3962e38, -3.3e38, 2**-126, 0, np.nan]
    high = np.array(ends, "float32").astype(BF16)
    low = (np.array(ends, "float32") - high.astype("float32")).astype(BF16)
    a = np.tile(np.stack([high, low], 1), (3, 1))
    b = np.ones((2, 40), BF16)
    graph, args = matmul_graph(a, b)
    [got] = compile_graph(graph, where)(*args)
    with np.errstate(all="ignore"):
        want = np.repeat((a.astype("float32") @ b.astype("float32")).astype(BF16)[:, :1], 40, 1)
    assert np.array_equal(got.astype("float32"), want.astype("float32"), equal_nan=True)


@pytest.mark.parametrize("name", TARGETS)
def test_nan_and_infinity_stay_in_their_rows_and_columns(name: str) -> None:
    where, rng = on(name), np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(BF16) for s in ((35, 37), (37, 41)))
    a[3, 36], a[33, 0], b[36, 40], b[0, 7] = np.nan, np.inf, -np.inf, np.nan
    graph, args = matmul_graph(a, b, out="float32")
    [got] = compile_graph(graph, where)(*args)
    with np.errstate(invalid="ignore"):
        exact = a.astype("float32") @ b.astype("float32")
    for check in (np.isnan, np.isposinf, np.isneginf):
        assert np.array_equal(check(got), check(exact))


@pytest.mark.parametrize("name", sampled(TARGETS, 3))
def test_batches_broadcast_and_end_in_formulas(name: str) -> None:
    where, rng = on(name), np.random.default_rng(0)
    for left, right in (
        ((2, 3, 17, 40), (1, 3, 40, 35)),
        ((5, 18, 33), (33, 64)),
        ((1, 9, 8), (4, 8, 8)),
    ):
        a, b = (rng.standard_normal(s).astype(BF16) for s in (left, right))
        bias = rng.standard_normal(right[-1]).astype(BF16)
        x, y, z = (
            Tensor(tensor_type(v.shape, "bfloat16"), n)
            for v, n in ((a, "a"), (b, "b"), (bias, "c"))
        )
        graph = Graph([x, y, z], [ops.relu(ops.add(ops.matmul(x, y), z))])
        [got] = compile_graph(graph, where)(a, b, bias)
        product = (a.astype("float64") @ b.astype("float64")).astype(BF16)
        want = np.maximum(product.astype("float64") + bias.astype("float64"), 0)
        np.testing.assert_allclose(got.astype("float64"), want, 2e-2, 2e-2)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_and_narrow_results(name: str) -> None:
    where = on(name)
    for m, k, n in ((0, 5, 8), (5, 0, 8), (5, 8, 0)):
        for kind, out in (("int8", "int32"), ("bfloat16", None)):
            graph, args = matmul_graph(np.ones((m, k), kind), np.ones((k, n), kind), out=out)
            [got] = compile_graph(graph, where)(*args)
            assert got.shape == (m, n)
            assert not got.astype("float32").any()
    rng = np.random.default_rng(0)
    a, b = bytes_of(rng, (9, 77), "int8"), bytes_of(rng, (77, 20), "int8")
    graph, args = matmul_graph(a, b)
    [got] = compile_graph(graph, where)(*args)
    assert np.array_equal(got, a @ b)


def test_narrow_floats_of_depths_beyond_a_stretch() -> None:
    rng = np.random.default_rng(0)
    for name in TARGETS:
        text, needed = TARGETS[name]
        if not all(map(Target.host().has, needed)):
            continue
        a, b = (rng.standard_normal(s).astype(BF16) for s in ((13, 2051), (2051, 70)))
        graph, args = matmul_graph(a, b, out="float32")
        [got] = compile_graph(graph, target(text))(*args)
        np.testing.assert_allclose(got, a.astype("float64") @ b.astype("float64"), 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["tiles", "dots"])
def test_any_number_of_rows(name: str) -> None:
    on(name)
    rng = np.random.default_rng(0)
    weight = bytes_of(rng, (67, 41), "int8")
    rows = {"x": {0: tl.Dim("n", min=1, max=500)}}

    def product(x: Any) -> Any:
        return x.astype("int32") @ weight.astype("int32") + 1

    compiled = tl.jit(product, target=TARGETS[name][0], dynamic_shapes=rows)
    for count in (1, 3, 9, 12, 13, 31, 32, 33, 70):
        x = bytes_of(rng, (count, 67), "uint8")
        assert np.array_equal(compiled(x), x.astype("int64") @ weight + 1), count


@pytest.mark.parametrize("name", ["tiles", "dots"])
def test_between_passes_and_with_checked_indices(name: str) -> None:
    where, rng = on(name), np.random.default_rng(0)
    a, b = bytes_of(rng, (37, 70), "int8"), bytes_of(rng, (70, 50), "int8")
    graph, args = matmul_graph(a, b, out="int32")
    with override(verify=True, check=True):
        [got] = compile_graph(graph, where)(*args)
    assert np.array_equal(got, a.astype("int64") @ b)
