"""Attention along the elements of a sparse matrix: scores, softmax and sums in one pass over it.

The elements of a row are taken by blocks. The scores of a block stay in a small buffer; what was
summed before is scaled down where a block has a greater score than all before it, so that no
exponential overflows. Source: online softmax (Milakov and Gimelshein, 2018), as in FlashAttention.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...tir import PrimFunc
from .dots import DenseRows, RowDots
from .rows import csr_parameters, divide_rows, match_csr
from .text import KernelText, ramp, spread, tiles

# What has an exponential that is a normal number.
_LEAST = {"float32": -87, "float64": -708}

#: Elements of a row whose scores are held at once.
BLOCK = 128


class AttentionCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        features: columns of queries and keys, at least one.
        width: columns of values and result.
        dtype: of all of them.
        idtype: of the index arrays.
        lanes: of a vector, more than one.
        values: what becomes of the values of the sparse matrix: they "multiply" the scores, one
            is to "add" them, or to "ignore" them.
        tile: vectors of a result that are summed at once, in registers.
        ahead: elements of the sparse matrix by which rows of keys and of values are fetched early;
            0 for not at all.
        lines: how many cache lines of each are fetched.
        aligned: the result's rows start at multiples of so many bytes and are written past the
            caches; 0 where they are not.
    """

    features: int
    width: int
    dtype: str
    idtype: str
    lanes: int
    values: str = "ignore"
    tile: int = 8
    ahead: tuple[int, int] = (0, 0)
    lines: int = 8
    aligned: int = 0

    def zero(self, lanes: int) -> str:
        """A vector of zeros."""
        return spread(f"T.{self.dtype}(0)", lanes)

    @property
    def least(self) -> str:
        """A vector of what is less than every score."""
        return spread(f"T.{self.dtype}('-inf')", self.lanes)


def attention_rows(case: AttentionCase) -> PrimFunc:
    """`out[i] = sum over the elements (i, j) of p * v[j]`, `p = softmax(scale * (q[i] . k[j]))`.

    Parameters: values[nnz] of the sparse matrix unless they are ignored, q[m, features],
    k[n, features], v[n, width], out[m, width], indptr, indices, m, n, nnz, `units`, into how many
    parts of about the same work the rows are divided, and `scale`.
    """
    t = KernelText()
    dots = dots_of(case)
    with function(t, case), units(t, case, dots), t.inside("for r in range(hi - lo):"):
        t("i: T.int64 = lo + r")
        row(t, case, dots)
    return t.parsed()


def dots_of(case: AttentionCase) -> RowDots:
    """The products of queries and keys."""
    q, k = (DenseRows(name, case.features, case.dtype, case.lanes) for name in ("Q", "K"))
    return RowDots(q, k, case.ahead[0], case.lines)


@contextmanager
def function(t: KernelText, case: AttentionCase, *more: str) -> Iterator[None]:
    """The function, with the buffers that all kernels have.

    Args:
        more: scalar parameters between `units` and `scale`.
    """
    weighs = case.values != "ignore"
    arrays = ", ".join(f"{name}: T.handle" for name in ("aqkvc" if weighs else "qkvc"))
    scalars = f"{csr_parameters('units', *more)}, scale: T.{case.dtype}"
    t("@T.prim_func")
    with t.inside(f"def attention({arrays}, {scalars}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"Q = T.match_buffer(q, (m, {case.features}), '{case.dtype}')",
            f"K = T.match_buffer(k, (n, {case.features}), '{case.dtype}')",
            f"V = T.match_buffer(v, (n, {case.width}), '{case.dtype}')",
            f"C = T.match_buffer(c, (m, {case.width}), '{case.dtype}')",
        )
        if weighs:
            t(f"A = T.match_buffer(a, (nnz,), '{case.dtype}')")
        match_csr(t, case.idtype)
        yield


@contextmanager
def units(t: KernelText, case: AttentionCase, dots: RowDots) -> Iterator[None]:
    """The rows of each unit, with memory for a row: scores, sums, and for each lane of vectors the
    greatest score, the sum of the powers, and by what sums are scaled."""
    count = len(tiles(case.width, case.lanes, case.tile))
    tile = case.lanes * case.tile
    sizes = {"W": BLOCK, "N": tile, "M": case.lanes, "L": case.lanes, "F": case.lanes}
    with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
        divide_rows(t)
        dots.allocate(t)
        dots.clear(t)
        for name, size in sizes.items():
            _allocate(t, name, size, case.dtype, "local")
        _allocate(t, "S", case.width, case.dtype, "local" if count == 1 else "global")
        if case.aligned:
            t(f"T.attr(C.data, 'pragma_nontemporal', {case.aligned})")
        yield


def _allocate(t: KernelText, name: str, size: int, dtype: str, scope: str) -> None:
    t(f"{name}_ = T.allocate([{size}], '{dtype}', '{scope}')")
    t(f"{name} = T.Buffer(({size},), '{dtype}', data={name}_, scope='{scope}')")


def row(t: KernelText, case: AttentionCase, dots: RowDots) -> None:
    """All of row `i`."""
    t("begin: T.int64 = T.Cast('int64', P[i])")
    t("end: T.int64 = T.Cast('int64', P[i + T.int64(1)])")
    start(t, case)
    blocks(t, case, dots, "b > T.int64(0)")
    finish(t, case)


def start(t: KernelText, case: AttentionCase) -> None:
    """Let nothing be summed so far."""
    all_lanes = ramp("0", 0, case.lanes)
    t(f"L[{all_lanes}] = {case.zero(case.lanes)}", f"M[{all_lanes}] = {case.least}")
    for base, tile in each_tile(t, case):
        for first, count in tile:
            t(f"S[{ramp(base, first, count)}] = {case.zero(count)}")


def blocks(t: KernelText, case: AttentionCase, dots: RowDots, goes_on: str) -> None:
    """Add the elements of row `i` from `begin` to `end` to what is summed so far.

    Args:
        goes_on: the condition that something may be, by the block `b`.
    """
    with t.inside(f"for b in range((end - begin + T.int64({BLOCK - 1})) // T.int64({BLOCK})):"):
        t(f"base: T.int64 = begin + b * {BLOCK}")
        t(f"size: T.int64 = T.min(end - base, T.int64({BLOCK}))")
        t(f"before: T.{case.dtype}x{case.lanes} = M[{ramp('0', 0, case.lanes)}]")
        _scores(t, case, dots)
        _exponentials(t, case, goes_on)
        for at, tile in each_tile(t, case):
            _sums(t, case, at, tile, goes_on)


def finish(t: KernelText, case: AttentionCase) -> None:
    """Store row `i` of the result; 0 where there is no element."""
    all_lanes = ramp("0", 0, case.lanes)
    t(f"F[{all_lanes}] = {_over_lanes(t, case, f'L[{all_lanes}]', 'total', '{} + {}')}")
    is_empty = "P[i] == P[i + T.int64(1)]"
    t(f"share: T.{case.dtype} = T.if_then_else({is_empty}, T.{case.dtype}(0), 1 / F[0])")
    for at, tile in each_tile(t, case):
        for first, count in tile:
            place = ramp(at, first, count)
            t(f"C[i, {place}] = S[{place}] * {spread('share', count)}")


def each_tile(t: KernelText, case: AttentionCase) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """The tiles of a row of the result: where each begins, and its vectors from there on.

    What is added to the script for the first stands in a loop where there are several whole ones.
    """
    each = tiles(case.width, case.lanes, case.tile)
    width = case.lanes * case.tile
    whole = case.width // width
    if whole > 1:
        with t.inside(f"for kt in range({whole}):"):
            yield f"kt * {width}", list(each[0])
        each = each[whole:]
    for tile in each:
        base = tile[0][0]
        yield str(base), [(first - base, lanes) for first, lanes in tile]


def _scores(t: KernelText, case: AttentionCase, dots: RowDots) -> None:
    """The scores of a block, and the greatest of the row so far."""
    lanes = case.lanes
    with t.inside(f"for g in range(size // T.int64({lanes})):"):
        t(f"p: T.int64 = base + g * {lanes}")
        _score(t, case, dots.group(t, "p"), "p", f"g * {lanes}")
    t(f"rest: T.int64 = size % T.int64({lanes})")
    with t.inside("if rest > T.int64(0):"):
        t("p: T.int64 = base + size - rest")
        held = dots.hold(t, "i")
        with t.inside("for e in range(rest):"):
            _fetch(t, case, dots.y, "p + e", case.ahead[0])
            dots.one(t, "p", "e", held)
        _score(t, case, dots.of_kept(t), "p", "size - rest", "rest")
    greatest = _over_lanes(
        t, case, f"M[{ramp('0', 0, lanes)}]", "greatest", "T.Select({0} > {1}, {0}, {1})"
    )
    t(f"M[{ramp('0', 0, lanes)}] = {greatest}")


def _fetch(t: KernelText, case: AttentionCase, rows: DenseRows, place: str, ahead: int) -> None:
    if ahead:
        t(f"f: T.int64 = T.Cast('int64', X[T.min({place} + {ahead}, nnz - T.int64(1))])")
        rows.fetch(t, "f", case.lines)


def _score(
    t: KernelText, case: AttentionCase, dots: str, place: str, slot: str, count: str = ""
) -> None:
    """Keep the scores of elements from `place` on; the lanes from `count` on have none."""
    lanes = case.lanes
    there = f"T.Ramp(T.int64(0), T.int64(1), {lanes}) < T.Broadcast({count}, {lanes})"
    mask = f", predicate={there}" if count else ""
    value = f"A.vload([{ramp(place, 0, lanes)}]{mask})"
    score = f"{spread('scale', lanes)} * ({dots})"
    score = {"multiply": f"{value} * ({score})", "add": f"{value} + {score}", "ignore": score}[
        case.values
    ]
    if count:
        score = f"T.Select({there}, {score}, {case.least})"
    t(f"score: T.{case.dtype}x{lanes} = {score}")
    t(f"W[{ramp(slot, 0, lanes)}] = score")
    greatest = f"M[{ramp('0', 0, lanes)}]"
    t(f"{greatest} = T.Select({greatest} > score, {greatest}, score)")


def _over_lanes(t: KernelText, case: AttentionCase, vector: str, name: str, both: str) -> str:
    """A vector with what an operation gives over all lanes in each lane."""
    kind = f"T.{case.dtype}x{case.lanes}"
    t(f"{name}{case.lanes}: {kind} = {vector}")
    step = case.lanes
    while step > 1:
        half = step // 2
        own = f"{name}{step}"
        swapped = [lane ^ half for lane in range(case.lanes)]
        t(f"{name}{half}: {kind} = {both.format(own, f'T.Shuffle([{own}], {swapped})')}")
        step = half
    return f"{name}1"


def _exponentials(t: KernelText, case: AttentionCase, goes_on: str) -> None:
    """Powers of the scores, their sum, and how much is left of what was summed before.

    Where no score is greater than negative infinity so far all powers are 0, and so is their sum,
    which makes the row of the result NaN if that is how it ends.
    """
    lanes = case.lanes
    all_lanes = ramp("0", 0, lanes)
    kind, total = f"T.{case.dtype}x{lanes}", f"L[{all_lanes}]"
    greatest = f"M[{all_lanes}]"
    t(f"most: {kind} = T.Select({greatest} == {case.least}, {case.zero(lanes)}, {greatest})")
    with t.inside(f"if {goes_on}:"):
        t(f"decay: {kind} = before - most", f"F[{all_lanes}] = {_power(case, 'decay')}")
        t(f"{total} = {total} * F[{all_lanes}]")
    with t.inside(f"for g in range((size + T.int64({lanes - 1})) // T.int64({lanes})):"):
        slot = f"W[{ramp(f'g * {lanes}', 0, lanes)}]"
        t(f"below: {kind} = {slot} - most", f"power: {kind} = {_power(case, 'below')}")
        t(f"{slot} = power", f"{total} = {total} + power")


def _power(case: AttentionCase, exponent: str) -> str:
    """A vector of exponentials of at most 1; 0 for those that would be subnormal.

    Processors take a hundred cycles and more for a subnormal number, and each row has some where it
    is no multiple of a vector.
    """
    least = spread(f"T.{case.dtype}({_LEAST[case.dtype]})", case.lanes)
    is_less = f"{exponent} < {least}"
    exponential = f"T.exp(T.Select({is_less}, {least}, {exponent}))"
    return f"T.Select({is_less}, {case.zero(case.lanes)}, {exponential})"


def _sums(
    t: KernelText, case: AttentionCase, base: str, tile: list[tuple[int, int]], goes_on: str
) -> None:
    """Add a block to some columns of the sums."""

    def total(first: int, lanes: int) -> str:
        return f"N[{ramp('0', first, lanes)}]"

    with t.inside(f"if {goes_on}:"):
        for first, lanes in tile:
            t(f"{total(first, lanes)} = S[{ramp(base, first, lanes)}] * {spread('F[0]', lanes)}")
    with t.inside("else:"):
        for first, lanes in tile:
            t(f"{total(first, lanes)} = {case.zero(lanes)}")
    v = DenseRows("V", tile[-1][0] + tile[-1][1], case.dtype, case.lanes, base=base)
    with t.inside("for e in range(size):"):
        t("j: T.int64 = T.Cast('int64', X[base + e])", f"w: T.{case.dtype} = W[e]")
        _fetch(t, case, v, "base + e", case.ahead[1])
        for first, lanes in tile:
            x = f"V[j, {ramp(base, first, lanes)}]"
            t(f"{total(first, lanes)} = {total(first, lanes)} + {spread('w', lanes)} * {x}")
    for first, lanes in tile:
        t(f"S[{ramp(base, first, lanes)}] = {total(first, lanes)}")
