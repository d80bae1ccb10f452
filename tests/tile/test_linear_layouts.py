"""Linear layouts: laws of their algebra, and the layouts of encodings, by closed form and by
Triton's own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.layout_oracle import LayoutOracle, layout_oracle, vectors
from tile.random_layouts import (
    sample_any,
    sample_blocked,
    sample_distributed,
    sample_shared,
    some_blocked,
)
from tileloom.base.errors import InternalError, UserError
from tileloom.tile.layouts.encodings import (
    BlockedEncoding,
    DotOperandEncoding,
    LinearEncoding,
    NvidiaMmaEncoding,
    SharedEncoding,
)
from tileloom.tile.layouts.linear_layout import LinearLayout
from tileloom.tile.layouts.properties import elements_by_dimension
from tileloom.tile.layouts.to_linear import to_linear_layout

# Laws.


@st.composite
def layouts(draw: st.DrawFn, in_bits: int = 5, out_bits: int = 5) -> LinearLayout:
    """Any linear layout of two inputs and two outputs."""
    bases = draw(st.lists(st.integers(0, (1 << out_bits) - 1), min_size=in_bits, max_size=in_bits))
    cut, out_cut = draw(st.integers(0, in_bits)), draw(st.integers(0, out_bits))
    outs = {"x": out_cut, "y": out_bits - out_cut}
    return LinearLayout({"a": bases[:cut], "b": bases[cut:]}, outs)


@st.composite
def invertible(draw: st.DrawFn) -> LinearLayout:
    """A layout with an inverse: a permutation of bits, and some added to others."""
    bases = draw(st.permutations([1 << k for k in range(5)]))
    for source, target in draw(st.lists(st.tuples(*[st.integers(0, 4)] * 2), max_size=8)):
        if source != target:
            bases[target] ^= bases[source]
    cut = draw(st.integers(0, 5))
    return LinearLayout({"a": bases[:cut], "b": bases[cut:]}, {"x": 2, "y": 3})


def packed(layout: LinearLayout) -> list[int]:
    return [layout.apply_packed(index) for index in range(1 << layout.in_bits)]


few = settings(max_examples=30)


@few
@given(layouts())
def test_a_layout_is_linear_and_has_a_table(layout: LinearLayout) -> None:
    values = packed(layout)
    assert layout.table().ravel().tolist() == values
    assert all(values[i ^ j] == values[i] ^ values[j] for i, j in product(range(32), range(32)))
    assert layout.is_injective() == (len(set(values)) == 32)
    assert layout.is_surjective() == (set(values) == set(range(32)))
    assert 1 << layout.rank() == len(set(values))


@few
@given(layouts(), layouts())
def test_composition_applies_one_after_the_other(f: LinearLayout, g: LinearLayout) -> None:
    g = g.reshape_ins(f.out_sizes)
    inner, outer, both = packed(f), packed(g), packed(f.compose(g))
    assert both == [outer[value] for value in inner]


@few
@given(invertible())
def test_an_inverse_undoes(layout: LinearLayout) -> None:
    assert layout.is_invertible()
    inverse = layout.invert()
    assert packed(layout.compose(inverse)) == packed(inverse.compose(layout)) == list(range(32))
    assert inverse.invert() == layout


@few
@given(invertible(), invertible(), invertible())
def test_composition_is_associative(f: LinearLayout, g: LinearLayout, h: LinearLayout) -> None:
    g, h = g.reshape_ins(f.out_sizes), h.reshape_ins(g.out_sizes)
    assert f.compose(g).compose(h) == f.compose(g.compose(h))
    assert f.compose(g).invert() == g.invert().compose(f.invert())


@few
@given(layouts(7, 5), layouts(4, 5))
def test_what_a_layout_has_is_found_in_another(source: LinearLayout, mine: LinearLayout) -> None:
    source = source.reshape_outs(mine.out_sizes)
    if set(packed(mine)) <= set(packed(source)):
        found = mine.invert_and_compose(source)
        assert packed(found.compose(source)) == packed(mine)
    else:
        with pytest.raises(InternalError):
            mine.invert_and_compose(source)
    if source.is_surjective():
        assert packed(source.pseudoinvert().compose(source)) == list(range(32))


@few
@given(layouts(3, 4), layouts(2, 3))
def test_division_undoes_a_product(divisor: LinearLayout, quotient: LinearLayout) -> None:
    whole = divisor * quotient
    assert whole.divide_left(divisor) == quotient
    assert whole.in_bits == 5 and whole.out_bits == 7


def test_products_of_identities() -> None:
    lanes = LinearLayout.identity1d(4, "lane", "x")
    assert lanes * LinearLayout.zeros1d(2, "lane", "x") == LinearLayout(
        {"lane": (1, 2, 0)}, {"x": 2}
    )
    strided = LinearLayout.strided1d(4, 2, "lane", "x")
    assert [strided.apply(lane=i)["x"] for i in range(4)] == [0, 2, 4, 6]
    assert lanes.divide_left(strided) is None


def test_dimensions_that_stay_are_divided_away() -> None:
    bases = {"register": [1, 2], "lane": [4, 8], "warp": [16]}
    identity = LinearLayout(bases, {"register": 2, "lane": 2, "warp": 1})
    rest = identity.quotient(("warp", "lane"))
    assert rest == LinearLayout({"register": [1, 2]}, {"register": 2})
    mixed = LinearLayout({**bases, "register": [1, 4]}, identity.outs)
    assert mixed.quotient(("lane",)) is None and mixed.quotient(("warp",)) is not None


def test_sizes_are_powers_of_two() -> None:
    with pytest.raises(UserError, match="powers of two, not 6"):
        to_linear_layout((6,), BlockedEncoding((1,), (32,), (1,), (0,)))


# Layouts of encodings.


def closed_form(shape: tuple[int, ...], e: BlockedEncoding) -> np.ndarray:
    """Where each register of each lane of each warp is, by division and remainder."""
    rank = len(shape)
    tile = [s * t * w for s, t, w in zip(e.size_per_thread, e.threads_per_warp, e.warps_per_cta)]
    reps = [max(1, n // t) for n, t in zip(shape, tile)]

    def parts(index: int, sizes: tuple[int, ...] | list[int]) -> list[int]:
        made = [0] * rank
        for d in e.order:
            index, made[d] = divmod(index, sizes[d])
        return made

    counts = prod(e.warps_per_cta), prod(e.threads_per_warp), prod(reps) * prod(e.size_per_thread)
    table = np.zeros(counts, np.int64)
    for warp, lane, register in product(*map(range, counts)):
        rep, own = divmod(register, prod(e.size_per_thread))
        r, s = parts(rep, reps), parts(own, e.size_per_thread)
        w, t = parts(warp, e.warps_per_cta), parts(lane, e.threads_per_warp)
        flat = 0
        for d in range(rank):
            place = (w[d] * e.threads_per_warp[d] + t[d]) * e.size_per_thread[d] + s[d]
            flat = flat * shape[d] + (r[d] * tile[d] + place) % shape[d]
        table[warp, lane, register] = flat
    return table


@pytest.mark.parametrize("seed", range(8))
def test_blocked_layouts_have_a_closed_form(seed: int) -> None:
    random = Random(seed)
    shape, encoding, _ = sample_blocked(random, warps=1)
    while prod(shape) > 512:
        shape, encoding, _ = sample_blocked(random, warps=1)
    if not isinstance(encoding, BlockedEncoding):
        pytest.fail(f"{encoding} is not blocked")
    table = to_linear_layout(shape, encoding).table()[0]
    assert np.array_equal(table, closed_form(shape, encoding))


def test_accumulators_and_operands_of_an_instruction() -> None:
    mma = NvidiaMmaEncoding(2, 0, (1, 1))
    for lane in range(32):
        g, t = divmod(lane, 4)
        result = to_linear_layout((16, 8), mma).table()[0, 0, lane]
        assert [divmod(int(v), 8) for v in result] == [
            *((row, 2 * t + c) for row in (g, g + 8) for c in (0, 1))
        ]
        a = to_linear_layout((16, 16), DotOperandEncoding(0, mma, 2)).table()[0, 0, lane]
        assert [divmod(int(v), 16) for v in a] == [
            (row, 2 * t + k + c) for k in (0, 8) for row in (g, g + 8) for c in (0, 1)
        ]
        b = to_linear_layout((16, 8), DotOperandEncoding(1, mma, 2)).table()[0, 0, lane]
        assert [divmod(int(v), 8) for v in b] == [
            (2 * t + k + c, g) for k in (0, 8) for c in (0, 1)
        ]


def test_swizzled_rows() -> None:
    layout = to_linear_layout((8, 16), SharedEncoding(4, 2, 2, (1, 0)))
    place = {int(v): offset for offset, v in enumerate(layout.table().ravel())}
    for row, column in product(range(8), range(16)):
        moved = (column // 4 ^ row // 2 % 2) * 4 + column % 4
        assert place[row * 16 + column] == row * 16 + moved


def test_buffers_lie_one_after_the_other() -> None:
    shared = SharedEncoding(4, 1, 4, (1, 0))
    one = to_linear_layout((8, 16), shared).table().ravel()
    three = to_linear_layout((4, 8, 16), shared)
    assert list(three.outs) == ["dim2", "dim1", "dim0"]
    assert three.table().ravel().tolist() == [v + k * 128 for k in range(4) for v in one]


def test_layouts_by_bases_are_what_they_say() -> None:
    encoding = LinearEncoding(((0, 1), (8, 0)), ((0, 2), (1, 0)), ((2, 0), (4, 0)), ())
    layout = to_linear_layout((16, 4), encoding)
    assert layout.apply(register=3, lane=2, warp=1) == {"dim1": 1, "dim0": 11}
    assert to_linear_layout((32, 4), encoding).apply(register=4) == {"dim1": 0, "dim0": 16}


@pytest.mark.parametrize("seed", range(60))
def test_every_element_is_somewhere(seed: int) -> None:
    random = Random(seed)
    shape, encoding, bits = sample_distributed(random) if seed % 4 else sample_shared(random)
    layout = to_linear_layout(shape, encoding, bits)
    assert layout.is_surjective() and 1 << layout.out_bits == prod(shape)
    if "register" in layout.bases:
        assert layout.in_sizes["register"] == prod(elements_by_dimension(shape, encoding))


def assert_as_triton(oracle: LayoutOracle, random: Random) -> None:
    shape, encoding, bits = sample_any(random)
    layout = to_linear_layout(shape, encoding, bits)
    layout = layout.transpose_outs([f"dim{d}" for d in range(len(shape))])
    # Triton 3.9 keeps registers with the same elements in operands and results of products only.
    if "register" in layout.bases and not isinstance(
        encoding, NvidiaMmaEncoding | DotOperandEncoding
    ):
        layout = layout.without_zeros("register")
    ours = vectors(layout)
    theirs = oracle.bases(shape, encoding, bits)
    if "reg" in theirs:
        theirs["register"] = theirs.pop("reg")
    assert ours == theirs, (shape, str(encoding))


@pytest.fixture
def oracle() -> Iterator[LayoutOracle]:
    """Triton's layouts."""
    with layout_oracle() as found:
        if found is None:
            pytest.skip("needs triton 3.9 (TILELOOM_GLUON_PYTHON names an interpreter with it)")
        yield found


@pytest.mark.slow
def test_layouts_are_those_of_triton(oracle: LayoutOracle) -> None:
    random = Random(39)
    for _ in range(10_000):
        assert_as_triton(oracle, random)


@pytest.mark.slow
def test_the_algebra_is_that_of_triton(oracle: LayoutOracle) -> None:
    random = Random(93)
    for _ in range(3_000):
        shape, encoding, _ = sample_distributed(random)
        target = to_linear_layout(shape, encoding)
        source = to_linear_layout(shape, some_blocked(random, shape, 2, 0))
        found = target.invert_and_compose(source), source.pseudoinvert()
        assert list(map(vectors, found)) == oracle.algebra(target, source), (target, source)
