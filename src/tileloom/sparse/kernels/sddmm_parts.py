"""Products at the elements of a sparse matrix, where rows of a dense one are read many times.

As in `spmm_parts.py`, the second dense matrix is cut into parts of consecutive rows that stay in
the second-level cache until all long rows of a unit have taken what they have in them.
"""

from __future__ import annotations

from ...tir import PrimFunc
from .dots import DenseRows, RowDots
from .rows import divide_rows, match_csr
from .sddmm import SddmmCase, elements, function, store
from .text import KernelText, ramp, vectors


def sddmm_parts(case: SddmmCase, tile: int) -> PrimFunc:
    """`out[p] = values[p] * (x[i] . y[j])` for element p, at (i, j), part by part of `y`.

    Parameters: values[nnz] unless they are ignored, x[m, features], y[n, features], out[nnz],
    indptr, indices, m, n, nnz, `units`, into how many parts of about the same work the rows are
    divided, `long`, from how many elements on a row is long, and `width`, the rows of a part.
    Columns ascend in each row.

    Args:
        tile: as many vectors of a row are multiplied at once. Where rows are longer, those of a
            part are copied, as rows that are far apart would share few of a cache's sets.
    """
    t = KernelText()
    size = tile * case.lanes
    packs = size < case.features
    x, y = (DenseRows(name, case.features, case.dtype, case.lanes) for name in ("B", "C"))
    short = RowDots(x, y, case.ahead, case.lines)
    with function(t, case, "ip: T.handle, ix: T.handle", ("units", "long", "width")):
        match_csr(t, case.idtype)
        with t.inside("for u in T.parallel(units, annotations={'schedule': 'dynamic'}):"):
            divide_rows(t)
            short.allocate(t)
            t("count_ = T.allocate([1], 'int64', 'local')")
            t("count = T.Buffer((1,), 'int64', data=count_, scope='local')")
            for name, kind in (("rows", "int64"), ("place", case.idtype)):
                t(f"{name}_ = T.allocate([hi - lo], '{kind}', 'global')")
                t(f"{name} = T.Buffer((hi - lo,), '{kind}', data={name}_)")
            if packs:
                t(f"packed_ = T.allocate([width * {size}], '{case.dtype}', 'global')")
                t(f"K = T.Buffer((width, {size}), '{case.dtype}', data=packed_)")
            short.clear(t)
            t("count[0] = T.int64(0)")
            with t.inside("for r in range(hi - lo):"):
                t("i: T.int64 = lo + r")
                with t.inside("if P[i + T.int64(1)] - P[i] < long:"):
                    _short_row(t, case, short)
                with t.inside("else:"):
                    t("rows[count[0]] = i", "count[0] = count[0] + T.int64(1)")
            if packs:
                tiles = case.features // size
                x = DenseRows("B", size, case.dtype, case.lanes, base=f"kt * {size}")
                y = DenseRows("K", size, case.dtype, case.lanes)
                with t.inside(f"for kt in range({tiles}):"):
                    _parts(t, case, RowDots(x, y, origin="first"), tiles)
            else:
                _parts(t, case, RowDots(x, y), 1)
    return t.parsed()


def _short_row(t: KernelText, case: SddmmCase, dots: RowDots) -> None:
    """All of row `i`."""
    lanes = case.lanes
    t("begin: T.int64 = T.Cast('int64', P[i])")
    t("size: T.int64 = T.Cast('int64', P[i + T.int64(1)]) - begin")
    with t.inside(f"for g in range(size // T.int64({lanes})):"):
        t(f"p: T.int64 = begin + g * {lanes}")
        store(t, case, dots.group(t, "p"), "p")
    t(f"rest: T.int64 = size % T.int64({lanes})")
    with t.inside("if rest > T.int64(0):"):
        t("q: T.int64 = begin + size - rest")
        store(t, case, dots.some(t, "q", "rest"), "q", "rest")


def _parts(t: KernelText, case: SddmmCase, dots: RowDots, tiles: int) -> None:
    """Some features of all long rows of the unit."""
    with t.inside("for h in range(count[0]):"):
        t("place[h] = P[rows[h]]")
    with t.inside("for part in range((n + width - T.int64(1)) // width):"):
        t("first: T.int64 = part * width", "end: T.int64 = T.min(first + width, n)")
        if tiles > 1:
            size = dots.x.features
            with t.inside("for j in range(end - first):"):
                for at, lanes in vectors(size, case.lanes):
                    source = f"C[first + j, {ramp(dots.x.base, at, lanes)}]"
                    t(f"K[j, {ramp('0', at, lanes)}] = {source}")
        with t.inside("for h in range(count[0]):"):
            t("i: T.int64 = rows[h]")
            _segment(t, case, dots, tiles)


def _segment(t: KernelText, case: SddmmCase, dots: RowDots, tiles: int) -> None:
    """What row `i` has in a part."""
    lanes = case.lanes
    for name in ("at", "some"):
        t(f"{name}_ = T.allocate([1], 'int64', 'local')")
        t(f"{name} = T.Buffer((1,), 'int64', data={name}_, scope='local')")
    t("stop: T.int64 = T.Cast('int64', P[i + T.int64(1)])")
    t("at[0] = T.Cast('int64', place[h])", "some[0] = T.int64(0)")
    with t.inside(f"while {_inside(case, f'at[0] + {lanes - 1}')}:"):
        t("p: T.int64 = at[0]")
        _store(t, case, dots.group(t, "p"), "p", "", tiles)
        t(f"at[0] = at[0] + T.int64({lanes})")
    t("q: T.int64 = at[0]")
    held = dots.hold(t, "i")
    with t.inside(f"while {_inside(case, 'q + some[0]')}:"):
        t("e: T.int64 = some[0]")
        dots.one(t, "q", "e", held)
        t("some[0] = e + T.int64(1)")
    with t.inside("if some[0] > T.int64(0):"):
        _store(t, case, dots.of_kept(t), "q", "some[0]", tiles)
    t(f"place[h] = T.Cast('{case.idtype}', q + some[0])")


def _inside(case: SddmmCase, place: str) -> str:
    """Whether the row has an element at a place, and that is in the part."""
    bound = f"X[{place}] < T.Cast('{case.idtype}', end)"
    return f"T.if_then_else({place} < stop, {bound}, T.bool(False))"


def _store(t: KernelText, case: SddmmCase, dots: str, place: str, count: str, tiles: int) -> None:
    """Store what some features give, which all but the first add to what is there."""
    if tiles == 1:
        store(t, case, dots, place, count)
        return
    t(f"dots: T.{case.dtype}x{case.lanes} = {dots}")
    each, mask = elements(case, place, count)
    total = f"(O.vload({each}{mask}) + dots)"
    plain = case._replace(values="ignore")
    with t.inside("if kt == 0:"):
        store(t, plain, "dots", place, count)
    with t.inside(f"elif kt == {tiles - 1}:"):
        store(t, case, total, place, count)
    with t.inside("else:"):
        store(t, plain, total, place, count)
