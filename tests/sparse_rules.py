"""Rules that store a matrix in other formats, and arguments for programs over its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import sparse_programs
from tileloom.expr import ExprLike
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.sparse.convert import csr_to_coo, hyb
from tileloom.sparse.format_rule import FormatRewriteRule
from tileloom.sparse.rule_arrays import RuleArrays, convert_by_rule
from tileloom.tir import PrimFunc

# Descriptions declare what they do not use.
# ruff: noqa: F841

Array = np.ndarray[Any, Any]
Arguments = Mapping[str, Any]
MATRIX = ("A", "I", "J")


@T.prim_func
def csc(
    a: T.handle, indptr: T.handle, indices: T.handle, m: T.int32, n: T.int32, nnz: T.int32
) -> None:
    """Columns of rows."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    J = T.dense_fixed(n, "int32")
    I = T.sparse_variable(J, (m, nnz), (indptr, indices), "int32")
    A = T.match_sparse_buffer(a, [J, I], "float32")
    T.evaluate(0)


@T.prim_func
def dcsr(
    a: T.handle,
    indptr_i: T.handle,
    indices_i: T.handle,
    indptr_j: T.handle,
    indices_j: T.handle,
    m: T.int32,
    n: T.int32,
    num_rows: T.int32,
    nnz: T.int32,
) -> None:
    """Rows that are not empty."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    O = T.dense_fixed(1, "int32")
    I = T.sparse_variable(O, (m, num_rows), (indptr_i, indices_i), "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr_j, indices_j), "int32")
    A = T.match_sparse_buffer(a, [O, I, J], "float32")
    T.evaluate(0)


@T.prim_func
def dia(a: T.handle, indptr: T.handle, indices: T.handle, n: T.int32, nnz: T.int32) -> None:
    """Diagonals that are not empty, each in full; diagonal 0 is that of the last row."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    O = T.dense_fixed(1, "int32")
    D = T.sparse_variable(O, (64, nnz), (indptr, indices), "int32")
    J = T.dense_fixed(n, "int32")
    A = T.match_sparse_buffer(a, [O, D, J], "float32")
    T.evaluate(0)


def _fixed(func: PrimFunc, size: int) -> PrimFunc:
    """A description with a number for its last parameter."""
    return func.specialize({func.params[-1]: size})


def bsr_rule(
    size: int,
    name: str = "",
    names: Sequence[str] = MATRIX,
    desc: PrimFunc | None = None,
) -> FormatRewriteRule:
    """Blocks of `size` rows and columns."""
    buffer, i, j = names

    def forth(i: Any, j: Any) -> list[ExprLike]:
        return [i // size, j // size, i % size, j % size]

    def back(io: Any, jo: Any, ii: Any, ji: Any) -> list[ExprLike]:
        return [io * size + ii, jo * size + ji]

    return FormatRewriteRule(
        name or str(size),
        desc or _fixed(sparse_programs.bsr, size),
        [buffer],
        [i, j],
        ["IO", "JO", "II", "JI"],
        {i: ["IO", "II"], j: ["JO", "JI"]},
        forth,
        back,
    )


def ell_rule(width: int, name: str = "", desc: PrimFunc | None = None) -> FormatRewriteRule:
    """Some rows, padded to `width` elements."""
    return FormatRewriteRule(
        name or str(width),
        desc or _fixed(sparse_programs.ell, width),
        ["A"],
        ["I", "J"],
        ["O", "I", "J"],
        {"I": ["O", "I"], "J": ["J"]},
        lambda i, j: (0, i, j),
        lambda o, i, j: (i, j),
    )


def padded_rule(width: int) -> FormatRewriteRule:
    """Rows in pieces of `width` elements."""
    return FormatRewriteRule(
        str(width),
        _fixed(sparse_programs.padding, width),
        ["A"],
        ["I", "J"],
        ["I", "JO", "JI"],
        {"I": ["I"], "J": ["JO", "JI"]},
        lambda i, j: (i, 0, j),
        lambda i, jo, ji: (i, ji),
    )


def csc_rule(name: str = "csc") -> FormatRewriteRule:
    """Columns."""
    return FormatRewriteRule(
        name,
        csc,
        ["A"],
        ["I", "J"],
        ["J", "I"],
        {"I": ["I"], "J": ["J"]},
        lambda i, j: (j, i),
        lambda j, i: (i, j),
    )


def dcsr_rule(name: str = "dcsr") -> FormatRewriteRule:
    """Rows that are not empty."""
    return FormatRewriteRule(
        name,
        dcsr,
        ["A"],
        ["I", "J"],
        ["O", "I", "J"],
        {"I": ["O", "I"], "J": ["J"]},
        lambda i, j: (0, i, j),
        lambda o, i, j: (i, j),
    )


def dia_rule(rows: int) -> FormatRewriteRule:
    """Diagonals, of which parts lie beyond a matrix of so many rows."""
    return FormatRewriteRule(
        "dia",
        dia,
        ["A"],
        ["I", "J"],
        ["O", "D", "J"],
        {"I": ["O", "D"], "J": ["J"]},
        lambda i, j: (0, j - i + (rows - 1), j),
        lambda o, d, j: (j - d + (rows - 1), j),
    )


def renamed(text: str) -> PrimFunc:
    """The function of a text."""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


# ---------------------------------------------------------------------------- arguments


def with_parts(func: PrimFunc, arguments: Arguments, parts: Mapping[str, Arguments]) -> list[Any]:
    """Arguments of a decomposed function: its own, and those of each part by the rule's name."""
    named = dict(arguments)
    for name, part in parts.items():
        named |= {f"{param}_{name}": value for param, value in part.items()}
    return [named[param.name] for param in func.params]


def whole_by_rule(rule: FormatRewriteRule, matrix: Arguments) -> RuleArrays:
    """All of a matrix in CSR in the format of a rule."""
    rows, columns = csr_to_coo(matrix["indptr"], matrix["indices"])
    shape = (matrix["m"], matrix["n"])
    return convert_by_rule(rule, [rows, columns], matrix["a"], shape=shape)


def hyb_parts(
    matrix: Arguments, column_parts: int, widths: Sequence[int]
) -> tuple[list[FormatRewriteRule], dict[str, dict[str, Any]]]:
    """Rules of the parts of hyb, and the arrays of each by the rule's name, with a mask."""
    m, n = matrix["m"], matrix["n"]
    made = hyb(
        matrix["indptr"],
        matrix["indices"],
        (m, n),
        num_col_parts=column_parts,
        widths=widths,
    )
    rules, parts = [], {}
    for number, column_part in enumerate(made.parts):
        for bucket, part in enumerate(column_part):
            name = f"{number}_{bucket}"
            rules.append(ell_rule(widths[bucket], name))
            kind = matrix["indptr"].dtype
            parts[name] = {
                "a": part.values(matrix["a"]),
                "indptr_i": np.array([0, len(part.rows)], kind),
                "indices_i": part.rows.astype(kind),
                "indices_j": part.indices.astype(kind),
                "m": m,
                "n": n,
                "num_rows": len(part.rows),
                "mask": part.mask,
            }
    return rules, parts
