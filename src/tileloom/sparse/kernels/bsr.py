"""Products of a matrix of dense blocks with a dense matrix.

A tile of the result, some rows of a strip of blocks by some vectors, is summed in registers over
all blocks of the strip: each vector of the dense matrix that is read serves all rows of the tile.
All tiles of a strip of blocks follow each other, so that its blocks stay in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...tir import PrimFunc
from .rows import csr_parameters, divide_rows, match_csr
from .text import KernelText, ramp, spread, vectors

Columns = tuple[tuple[int, int], ...]

#: Multiplications that are written out one after the other: so much of a block's width.
_UNROLLED = 128
_LINE = 64  # bytes that are fetched at once


class BsrCase(NamedTuple):
    """What a kernel is made for.

    Attributes:
        features: columns of the dense matrix.
        height: rows of a block.
        width: columns of a block.
        dtype: of values, dense matrix and result.
        idtype: of the index arrays.
        lanes: of a vector.
        rows: of a tile of the result that is summed in registers; at most `height`.
        vectors: of a tile.
        fetches: whether rows of the dense matrix are fetched while those before are multiplied.
        checked: whether it is found out if any result is infinite or no number.
    """

    features: int
    height: int
    width: int
    dtype: str
    idtype: str
    lanes: int
    rows: int
    vectors: int
    fetches: bool = False
    checked: bool = False

    @property
    def item(self) -> int:
        """The bytes of an element."""
        return int("".join(c for c in self.dtype if c.isdigit())) // 8

    @property
    def panels(self) -> int:
        """How many times a tile's columns are among those of the dense matrix."""
        return self.features // (self.lanes * self.vectors)


def spmm_blocks(case: BsrCase) -> PrimFunc:
    """`out[i] = sum over the blocks (i, j) of values @ x[j]`, tile by tile.

    Parameters: values[nnz, height, width], x[n * width, features], out[m * height, features],
    indptr, indices, m and n in blocks, nnz, `units`, into how many parts of about the same work the
    strips of blocks are divided, and `cuts`, into how many parts their columns. A case that is
    checked has one more, before `indptr`: finite[units * cuts, lanes], zeros, which stay zeros
    where all results are finite.
    """
    t = KernelText()
    scalars = csr_parameters("units", "cuts")
    check = "f: T.handle, " if case.checked else ""
    t("@T.prim_func")
    with t.inside(f"def spmm(a: T.handle, b: T.handle, c: T.handle, {check}{scalars}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"A = T.match_buffer(a, (nnz, {case.height}, {case.width}), '{case.dtype}')",
            f"B = T.match_buffer(b, (n * {case.width}, {case.features}), '{case.dtype}')",
            f"C = T.match_buffer(c, (m * {case.height}, {case.features}), '{case.dtype}')",
        )
        if case.checked:
            t(f"F = T.match_buffer(f, (units * cuts, {case.lanes}), '{case.dtype}')")
        match_csr(t, case.idtype)
        with t.inside("for task in T.parallel(units * cuts, annotations={'schedule': 'dynamic'}):"):
            t("u: T.int64 = task // cuts", "cut: T.int64 = task % cuts")
            divide_rows(t, cost=1)
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                _panels(t, case)
    return t.parsed()


def _panels(t: KernelText, case: BsrCase) -> None:
    """A strip in the columns of a cut: in panels of a tile's width, the last may be narrower."""
    wide = case.lanes * case.vectors
    if case.panels:
        begin = f"cut * T.int64({case.panels}) // cuts"
        t(f"begin: T.int64 = {begin}")
        end = begin.replace("cut ", "(cut + T.int64(1)) ", 1)
        with t.inside(f"for panel in range({end} - begin):"):
            t(f"first: T.int64 = (begin + panel) * T.int64({wide})")
            _strip(t, case, "first", tuple(vectors(wide, case.lanes)))
    rest = tuple(vectors(case.features - case.panels * wide, case.lanes))
    if rest:
        with t.inside("if cut == cuts - T.int64(1):"):
            _strip(t, case, str(case.panels * wide), rest)


def _strip(t: KernelText, case: BsrCase, base: str, columns: Columns) -> None:
    """Strip `i` of the result in some columns."""
    tiles, rest = divmod(case.height, case.rows)
    if tiles > 1:
        with t.inside(f"for tile in range({tiles}):"):
            _tile(t, case, f"tile * {case.rows}", case.rows, base, columns)
    else:
        _tile(t, case, "0", case.rows, base, columns)
    if rest:
        _tile(t, case, str(tiles * case.rows), rest, base, columns)


def _tile(t: KernelText, case: BsrCase, top: str, rows: int, base: str, columns: Columns) -> None:
    """Sum a tile over the blocks of strip `i`, from the row `top` of the blocks on."""
    name = f"S{rows}_{len(columns)}_{columns[-1][1]}"
    size = rows * len(columns) * case.lanes
    t(
        f"{name}_ = T.allocate([{size}], '{case.dtype}', 'local')",
        f"{name} = T.Buffer(({size},), '{case.dtype}', data={name}_, scope='local')",
    )
    sums = [
        [f"{name}[{ramp('0', (row * len(columns) + at) * case.lanes, lanes)}]" for at, (_, lanes) in
         enumerate(columns)]
        for row in range(rows)
    ]  # fmt: skip
    for row in sums:
        for (_, lanes), place in zip(columns, row, strict=True):
            t(f"{place} = {spread(f'T.{case.dtype}(0)', lanes)}")
    with t.inside("for p in range(P[i], P[i + T.int64(1)]):"):
        t(f"j: T.int64 = T.Cast('int64', X[p]) * T.int64({case.width})")
        fetches = case.fetches and top in ("0", f"tile * {rows}")
        if fetches:
            after = f"T.min(p + 1, T.Cast('{case.idtype}', nnz) - 1)"
            t(f"next: T.int64 = T.Cast('int64', X[{after}]) * T.int64({case.width})")
        for step, at in _steps(t, case, rows * len(columns)):
            if fetches:
                with t.inside(f"if {top} == 0:"):
                    _fetch(t, case, at, base, columns)
            _multiply(t, case, (step, at), top, base, columns, sums)
    for k, row in enumerate(sums):
        at = f"i * T.int64({case.height}) + {_plus(top, k)}"
        for (first, lanes), place in zip(columns, row, strict=True):
            t(f"C[{at}, {ramp(base, first, lanes)}] = {place}")
            if case.checked:  # zero but for what is infinite or no number
                t(f"F[task, {ramp('0', 0, lanes)}] += {place} - {place}")


def _fetch(t: KernelText, case: BsrCase, at: str, base: str, columns: Columns) -> None:
    """Fetch what a column of the next block is multiplied with."""
    end = columns[-1][0] + columns[-1][1]
    for first in range(0, end, _LINE // case.item):
        where = ramp(base, first, 1)
        t(f"T.evaluate(T.prefetch(T.address_of(B[next + {at}, {where}]), 0, 3, 1))")


def _multiply(
    t: KernelText, case: BsrCase, step: tuple[int, str], top: str, base: str, columns: Columns,
    sums: list[list[str]],
) -> None:  # fmt: skip
    """Add a column of the block times a row of the dense matrix."""
    k, at = step
    for number, (first, lanes) in enumerate(columns):
        kind = case.dtype if lanes == 1 else f"{case.dtype}x{lanes}"
        t(f"x{k}_{number}: T.{kind} = B[j + {at}, {ramp(base, first, lanes)}]")
    for r, row in enumerate(sums):
        t(f"v{k}_{r}: T.{case.dtype} = A[p, {_plus(top, r)}, {at}]")
        for number, ((_, lanes), place) in enumerate(zip(columns, row, strict=True)):
            t(f"{place} = {place} + {spread(f'v{k}_{r}', lanes)} * x{k}_{number}")


def _steps(t: KernelText, case: BsrCase, work: int) -> Iterator[tuple[int, str]]:
    """The columns of a block, in a loop of which some iterations are written out.

    Yields:
        The number of the column among those, and which it is.
    """
    most = min(case.width, max(1, _UNROLLED // work))
    most = next(count for count in range(most, 0, -1) if case.width % count == 0)
    if most == case.width:
        yield from ((k, str(k)) for k in range(most))
    else:
        with t.inside(f"for k in range({case.width // most}):"):
            yield from ((k, _plus(f"k * {most}", k)) for k in range(most))


def _plus(base: str, more: int) -> str:
    if base == "0":
        return str(more)
    return f"{base} + {more}" if more else base
