"""Arguments and expected results for the programs of `sparse_programs`.

Expected results are computed in float64 by NumPy on dense arrays, or element by element. Where a
program initializes an output, the array given for it holds NaN before; where it does not, 0 or 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import sparse_programs
from tileloom.tir import PrimFunc

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]
Expected = dict[str, Array]

KINDS = (*("random", "empty_rows", "empty_matrix", "no_rows", "one_row", "power_law", "unsorted"),)
# What else than axes in order these programs cannot do without: they look coordinates up.
LOOKED_UP = frozenset(
    (
        *("csrmm_dense_iter", "csr2bsr", "square_sum_two_K"),
        *("csr_add", "csr_multiply", "csr_row_dots"),
    )
)
# Nothing is stored in these that could be out of order.
RAGGED = frozenset(("segment_reduce", "bmm", "fused_reduction_4d_2d", "fused_reduction_4d_3d"))
UNTOUCHED = 7.0


def case(
    name: str, kind: str, seed: int = 0, index_dtype: str = "int32"
) -> tuple[Arguments, Expected]:
    """Arguments of a program by the names of its parameters, and its outputs."""
    return CASES[name](_Draw(kind, seed, index_dtype))


def program(name: str, kind: str = "random", index_dtype: str = "int32") -> PrimFunc:
    """The program that takes the arguments of `case`."""
    return sparse_programs.variant(name, index_dtype, sorted=kind != "unsorted")


def kinds(name: str) -> tuple[str, ...]:
    """Which kinds of arguments there are for a program."""
    in_order = name in LOOKED_UP or name in RAGGED
    return tuple(kind for kind in KINDS if kind != "unsorted" or not in_order)


# ---------------------------------------------------------------------------- structures


@dataclass(frozen=True)
class Rows:
    """Coordinates below each of several positions."""

    indptr: Array
    indices: Array
    length: int

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def count(self) -> int:
        return len(self.indptr) - 1

    def named(self, suffix: str = "") -> Arguments:
        """The arrays as arguments."""
        return {f"indptr{suffix}": self.indptr, f"indices{suffix}": self.indices}

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Parent position and coordinate of each stored element."""
        return [
            (row, int(column))
            for row in range(self.count)
            for column in self.indices[self.indptr[row] : self.indptr[row + 1]]
        ]

    def dense(self, values: Array) -> Array:
        """The matrix of some values, in float64."""
        found = np.zeros((self.count, self.length))
        for (row, column), value in zip(self.pairs, values, strict=True):
            found[row, column] += value
        return found


class _Draw:
    """Sizes, structures and values of one kind."""

    def __init__(self, kind: str, seed: int, index_dtype: str) -> None:
        assert kind in KINDS
        self.kind = kind
        self.random = np.random.default_rng([KINDS.index(kind), seed])
        self.index_dtype = np.dtype(index_dtype)

    def rows(self, usual: int) -> int:
        return {"no_rows": 0, "one_row": 1}.get(self.kind, usual)

    def index(self, numbers: Any) -> Array:
        return np.asarray(numbers, self.index_dtype)

    def values(self, *shape: int) -> Array:
        return self.random.standard_normal(shape).astype("float32")

    def lengths(self, rows: int, most: int) -> Array:
        """How many elements each row has."""
        if self.kind == "empty_matrix":
            return np.zeros(rows, int)
        if self.kind == "power_law":
            return np.minimum(self.random.zipf(1.6, rows), most)
        found = self.random.integers(0, most + 1, rows)
        if self.kind == "empty_rows":
            found[::2] = 0
            found[-1:] = 0
        return found

    def ragged(self, rows: int, most: int) -> Array:
        """The indptr of rows of some lengths."""
        return self.starts(self.lengths(rows, most))

    def starts(self, lengths: Any) -> Array:
        return self.index(np.concatenate([[0], np.cumsum(lengths)]))

    def structure(self, rows: int, columns: int) -> Rows:
        """Some columns for each row."""
        lengths = self.lengths(rows, max(1, columns // 2) if columns else 0)
        drawn = [self.random.permutation(columns)[:length] for length in lengths]
        if self.kind != "unsorted":
            drawn = [np.sort(columns_of_row) for columns_of_row in drawn]
        indices = np.concatenate([np.zeros(0, int), *drawn])
        return Rows(self.starts(lengths), self.index(indices), columns)

    def output(self, *shape: int, fill: float = np.nan) -> Array:
        return np.full(shape, fill, "float32")


def _arguments(**given: Any) -> Arguments:
    return given


# ---------------------------------------------------------------------------- matrix products


def _csrmm(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n, feat = draw.rows(13), 11, 5
    rows = draw.structure(m, n)
    a, b = draw.values(rows.nnz), draw.values(n, feat)
    arguments = _arguments(
        a=a,
        b=b,
        c=draw.output(m, feat),
        **rows.named(),
        m=m,
        n=n,
        feat=feat,
        nnz=rows.nnz,
    )
    return arguments, {"c": rows.dense(a) @ b.astype(float)}


def _bsrmm(draw: _Draw) -> tuple[Arguments, Expected]:
    mb, nb, blk, feat = draw.rows(7), 5, 3, 4
    rows = draw.structure(mb, nb)
    a, b = draw.values(rows.nnz, blk, blk), draw.values(nb, blk, feat)
    arguments = _arguments(
        a=a.reshape(-1),
        b=b,
        c=draw.output(mb, blk, feat),
        **rows.named(),
        mb=mb,
        nb=nb,
        nnzb=rows.nnz,
        blk=blk,
        feat=feat,
    )
    return arguments, {"c": _blocks_times(rows.pairs, a, b, mb)}


def _ellmm(draw: _Draw) -> tuple[Arguments, Expected]:
    mb, nb, blk, feat = draw.rows(7), 5, 3, 4
    width = 0 if draw.kind == "empty_matrix" else 2
    columns = np.array([draw.random.permutation(nb)[:width] for _ in range(mb)], int)
    columns = columns.reshape(mb, width)
    if draw.kind != "unsorted":
        columns = np.sort(columns, axis=1)
    a, b = draw.values(mb * width, blk, blk), draw.values(nb, blk, feat)
    pairs = [(row, int(columns[row, k])) for row in range(mb) for k in range(width)]
    arguments = _arguments(
        a=a.reshape(-1),
        b=b,
        c=draw.output(mb, blk, feat),
        indices=draw.index(columns.reshape(-1)),
        mb=mb,
        nb=nb,
        feat=feat,
        width=width,
        blk=blk,
    )
    return arguments, {"c": _blocks_times(pairs, a, b, mb)}


def _blocks_times(pairs: list[tuple[int, int]], a: Array, b: Array, rows: int) -> Array:
    found = np.zeros((rows, *b.shape[1:]))
    for (row, column), block in zip(pairs, a, strict=True):
        found[row] += block.astype(float) @ b[column].astype(float)
    return found


def _bmm(draw: _Draw) -> tuple[Arguments, Expected]:
    batch = draw.rows(5)
    i, j, k = (draw.lengths(batch, most) for most in (4, 3, 5))
    x, y, z = [], [], []
    for b in range(batch):
        x.append(draw.values(i[b], j[b]))
        y.append(draw.values(j[b], k[b]))
        z.append(x[b].astype(float) @ y[b].astype(float))
    none = np.zeros(0, "float32")
    flat = [np.concatenate([none, *(part.reshape(-1) for part in parts)]) for parts in (x, y, z)]
    arguments = _arguments(
        x=flat[0],
        y=flat[1],
        z=draw.output(len(flat[2])),
        indptr_i=draw.starts(i),
        indptr_j=draw.starts(j),
        indptr_k=draw.starts(k),
        indptr_ij=draw.starts(np.repeat(j, i)),
        indptr_jk=draw.starts(np.repeat(k, j)),
        indptr_ik=draw.starts(np.repeat(k, i)),
        batch=batch,
        max_i=4,
        max_j=3,
        max_k=5,
        nnz_i=int(i.sum()),
        nnz_j=int(j.sum()),
        nnz_k=int(k.sum()),
        nnz_ij=len(flat[0]),
        nnz_jk=len(flat[1]),
        nnz_ik=len(flat[2]),
    )
    return arguments, {"z": flat[2]}


def _sddmm(draw: _Draw, weighted: bool = False) -> tuple[Arguments, Expected]:
    m, n, feat = draw.rows(13), 11, 5
    rows = draw.structure(m, n)
    a, b, x = draw.values(m, feat), draw.values(n, feat), draw.values(rows.nnz)
    product = a.astype(float) @ b.astype(float).T
    c = np.array([product[pair] for pair in rows.pairs])
    arguments = _arguments(
        a=a,
        b=b,
        c=draw.output(rows.nnz),
        **rows.named(),
        m=m,
        n=n,
        feat=feat,
        nnz=rows.nnz,
    )
    if not weighted:
        return arguments, {"c": c}
    return {"x": x, **arguments}, {"c": c * x}


# ---------------------------------------------------------------------------- sums


def _segment_reduce(draw: _Draw) -> tuple[Arguments, Expected]:
    n, longest = draw.rows(17), 6
    indptr = draw.ragged(n, longest)
    a = draw.values(indptr[-1])
    arguments = _arguments(
        a=a,
        b=draw.output(n),
        indptr=indptr,
        n=n,
        longest=longest,
        nnz=len(a),
    )
    return arguments, {"b": _sums(indptr, a)}


def _sums(indptr: Array, values: Array) -> Array:
    parts = [values[start:end] for start, end in pairwise(indptr)]
    return np.array([part.astype(float).sum() for part in parts])


def _csr_reduce(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n = draw.rows(13), 11
    rows = draw.structure(m, n)
    a = draw.values(rows.nnz)
    arguments = _arguments(
        a=a,
        b=draw.output(m),
        **rows.named(),
        m=m,
        n=n,
        nnz=rows.nnz,
    )
    return arguments, {"b": rows.dense(a).sum(1)}


def _square_sum(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n1, n2 = draw.rows(7), 5, 11
    j = draw.structure(m, n1)
    k = draw.structure(j.nnz, n2)
    a = draw.values(k.nnz)
    squares = (k.dense(a) ** 2).sum(1)
    arguments = _arguments(
        a=a,
        b=draw.output(m),
        **j.named("_j"),
        **k.named("_k"),
        m=m,
        n1=n1,
        n2=n2,
        nnz_j=j.nnz,
        nnz_k=k.nnz,
    )
    return arguments, {"b": _sums(j.indptr, squares)}


def _square_sum_two_k(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n1, n2 = draw.rows(7), 5, 11
    j = draw.structure(m, n1)
    k0, k1 = draw.structure(j.nnz, n2), draw.structure(j.nnz, n2)
    a = draw.values(k0.nnz)
    squares = (k0.dense(a) ** 2 * k1.dense(np.ones(k1.nnz))).sum(1)
    arguments = _arguments(
        a=a,
        b=draw.output(m),
        **j.named("_j"),
        **k0.named("_k0"),
        **k1.named("_k1"),
        m=m,
        n1=n1,
        n2=n2,
        nnz_j=j.nnz,
        nnz_k0=k0.nnz,
        nnz_k1=k1.nnz,
    )
    return arguments, {"b": _sums(j.indptr, squares)}


def _reduction(draw: _Draw, kept: int) -> tuple[Arguments, Expected]:
    n = draw.rows(5)
    j = draw.ragged(n, 3)
    k = draw.ragged(int(j[-1]), 4)
    l = draw.ragged(int(k[-1]), 3)
    x = draw.values(l[-1])
    sums = _sums(l, x)
    if kept == 2:
        sums = _sums(k, sums)
    arguments = _arguments(
        x=x,
        y=draw.output(len(sums)),
        indptr_j=j,
        indptr_k=k,
        indptr_l=l,
        n=n,
        max_j=3,
        max_k=4,
        max_l=3,
        nnz_j=int(j[-1]),
        nnz_k=int(k[-1]),
        nnz_l=int(l[-1]),
    )
    return arguments, {"y": sums}


# ---------------------------------------------------------------------------- elements


def _csr_element_wise(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n = draw.rows(13), 11
    rows = draw.structure(m, n)
    a = draw.values(rows.nnz)
    arguments = _arguments(
        a=a,
        b=draw.output(rows.nnz),
        **rows.named(),
        m=m,
        n=n,
        nnz=rows.nnz,
    )
    return arguments, {"b": a.astype(float) * 2.5}


def _sparse_softmax(draw: _Draw) -> tuple[Arguments, Expected]:
    arguments, _ = _csr_element_wise(draw)
    b = np.zeros(arguments["nnz"])
    arguments["a"] *= 30  # exp of which is no float32
    for start, end in pairwise(arguments["indptr"]):
        row = arguments["a"][start:end].astype(float)
        if len(row):
            powers = np.exp(row - row.max())
            b[start:end] = powers / powers.sum()
    return arguments, {"b": b}


def _csr2bsr(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n, blk = draw.rows(13), 11, 3
    mb, nb = -(-m // blk), -(-n // blk)
    rows = draw.structure(m, n)
    a = draw.values(rows.nnz)
    # Some blocks are not stored, though they have elements; and some are that have none.
    wanted = {(i // blk, j // blk) for i, j in rows.pairs if (i // blk + j // blk) % 4 != 3}
    if draw.kind == "random":
        wanted.add((mb - 1, 0))
    blocks = sorted(wanted)
    lengths = [sum(row == i for i, _ in blocks) for row in range(mb)]
    b = np.zeros((len(blocks), blk, blk))
    for (i, j), value in zip(rows.pairs, a, strict=True):
        if (i // blk, j // blk) in wanted:
            b[blocks.index((i // blk, j // blk)), i % blk, j % blk] = value
    arguments = _arguments(
        a=a,
        b=draw.output(b.size, fill=0.0),
        **rows.named("_in"),
        indptr_out=draw.starts(lengths),
        indices_out=draw.index([j for _, j in blocks]),
        m=m,
        n=n,
        mb=mb,
        nb=nb,
        nnz=rows.nnz,
        nnzb=len(blocks),
        blk=blk,
    )
    return arguments, {"b": b.reshape(-1)}


# ---------------------------------------------------------------------------- graphs


def _hyper_gnn(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n, feat = draw.rows(7), 5, 3
    rows = draw.structure(m, n)
    below: list[list[int]] = [[] for _ in range(n)]
    for row, column in rows.pairs:
        below[column].append(row)
    if draw.kind == "unsorted":
        below = [column[::-1] for column in below]
    x = draw.values(m, feat)
    incidence = rows.dense(np.ones(rows.nnz))
    arguments = _arguments(
        x=x,
        y=draw.output(m, feat),
        **rows.named(),
        indptr_t=draw.starts([len(column) for column in below]),
        indices_t=draw.index([row for column in below for row in column]),
        m=m,
        n=n,
        nnz=rows.nnz,
        feat=feat,
    )
    return arguments, {"y": incidence @ incidence.T @ x}


def _rgcn_homo(draw: _Draw) -> tuple[Arguments, Expected]:
    n, relations, feat_in, feat_out = draw.rows(11), 3, 5, 2
    rows = draw.structure(n, n)
    kind_of_edge = draw.random.integers(0, relations, rows.nnz)
    w, x = draw.values(relations, feat_out, feat_in), draw.values(n, feat_in)
    y = np.zeros((n, feat_out))
    for (i, j), relation in zip(rows.pairs, kind_of_edge, strict=True):
        y[i] += w[relation].astype(float) @ x[j]
    arguments = _arguments(
        etype=draw.index(kind_of_edge),
        w=w,
        x=x,
        y=draw.output(n, feat_out),
        **rows.named(),
        n=n,
        relations=relations,
        feat_in=feat_in,
        feat_out=feat_out,
        nnz=rows.nnz,
    )
    return arguments, {"y": y}


def _rgcn_hetero(draw: _Draw) -> tuple[Arguments, Expected]:
    n, feat_in, feat_out = 11, 5, 2
    relations = draw.rows(3)
    i = draw.structure(relations, n)
    j = draw.structure(i.nnz, n)
    w, x = draw.values(relations, feat_out, feat_in), draw.values(n, feat_in)
    y = np.full((n, feat_out), UNTOUCHED)
    y[i.indices] = 0
    for place, column in j.pairs:
        relation, row = i.pairs[place]
        y[row] += w[relation].astype(float) @ x[column]
    arguments = _arguments(
        w=w,
        x=x,
        y=draw.output(n, feat_out, fill=UNTOUCHED),
        **i.named("_i"),
        **j.named("_j"),
        n=n,
        relations=relations,
        feat_in=feat_in,
        feat_out=feat_out,
        nnz_i=i.nnz,
        nnz_j=j.nnz,
    )
    return arguments, {"y": y}


# ---------------------------------------------------------------------------- merged axes


def _merged(draw: _Draw, union: bool) -> tuple[Arguments, Expected]:
    m, n = draw.rows(13), 11
    a_rows, b_rows, c_rows = (draw.structure(m, n) for _ in range(3))
    a, b = draw.values(a_rows.nnz), draw.values(b_rows.nnz)
    a_there, b_there = set(a_rows.pairs), set(b_rows.pairs)
    there = a_there | b_there if union else a_there & b_there
    a_dense, b_dense = a_rows.dense(a), b_rows.dense(b)
    whole = a_dense + b_dense if union else a_dense * b_dense
    c = np.array([whole[pair] if pair in there else UNTOUCHED for pair in c_rows.pairs])
    arguments = _arguments(
        a=a,
        b=b,
        c=draw.output(c_rows.nnz, fill=UNTOUCHED),
        **a_rows.named("_a"),
        **b_rows.named("_b"),
        **c_rows.named("_c"),
        m=m,
        n=n,
        nnz_a=a_rows.nnz,
        nnz_b=b_rows.nnz,
        nnz_c=c_rows.nnz,
    )
    return arguments, {"c": c}


def _csr_row_dots(draw: _Draw) -> tuple[Arguments, Expected]:
    m, n = draw.rows(13), 11
    a_rows, b_rows = draw.structure(m, n), draw.structure(m, n)
    a, b = draw.values(a_rows.nnz), draw.values(b_rows.nnz)
    arguments = _arguments(
        a=a,
        b=b,
        c=draw.output(m),
        **a_rows.named("_a"),
        **b_rows.named("_b"),
        m=m,
        n=n,
        nnz_a=a_rows.nnz,
        nnz_b=b_rows.nnz,
    )
    return arguments, {"c": (a_rows.dense(a) * b_rows.dense(b)).sum(1)}


CASES: dict[str, Callable[[_Draw], tuple[Arguments, Expected]]] = {
    "csrmm": _csrmm,
    "csrmm_dense_iter": _csrmm,
    "segment_reduce": _segment_reduce,
    "csr_reduce": _csr_reduce,
    "bsrmm": _bsrmm,
    "ellmm": _ellmm,
    "csr_element_wise": _csr_element_wise,
    "hyper_gnn": _hyper_gnn,
    "bmm": _bmm,
    "sddmm": _sddmm,
    "sddmm_values": lambda draw: _sddmm(draw, weighted=True),
    "fused_sddmm": _sddmm,
    "square_sum": _square_sum,
    "square_sum_two_K": _square_sum_two_k,
    "fused_reduction_4d_2d": lambda draw: _reduction(draw, 2),
    "fused_reduction_4d_3d": lambda draw: _reduction(draw, 3),
    "rgcn_homo_forward": _rgcn_homo,
    "rgcn_hetero_forward": _rgcn_hetero,
    "sparse_softmax": _sparse_softmax,
    "csr2bsr": _csr2bsr,
    "csr_add": lambda draw: _merged(draw, union=True),
    "csr_multiply": lambda draw: _merged(draw, union=False),
    "csr_row_dots": _csr_row_dots,
}
