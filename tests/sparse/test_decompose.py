"""Programs over parts of tensors: how they look, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparse_programs
from sparse_inputs import KINDS, case
from sparse_rules import (
    bsr_rule,
    csc_rule,
    dcsr_rule,
    dia_rule,
    ell_rule,
    hyb_parts,
    padded_rule,
    renamed,
    whole_by_rule,
    with_parts,
)
from tileloom import tir
from tileloom.base.errors import UserError
from tileloom.expr import Var
from tileloom.schedule import Schedule
from tileloom.script import parse
from tileloom.sparse.decompose import format_decompose
from tileloom.sparse.format_rule import FormatRewriteRule, sparse_buffers
from tileloom.sparse.lower_buffer import lower_sparse_buffer
from tileloom.sparse.lower_iter import lower_sparse_iter
from tileloom.sparse.partition import check_partition
from tileloom.sparse.preprocess import (
    RemovePreprocess,
    extract_preprocess,
    remove_preprocess,
)
from tileloom.sparse.rule_arrays import convert_by_rule
from tileloom.sparse.run import run
from tileloom.sparse.spec import verify
from tileloom.sparse.unused_args import RemoveUnusedArgs
from tileloom.tir import IRModule, PrimFunc, SparseIteration, assert_structural_equal, collect

csrmm = sparse_programs.csrmm
csr_element_wise = sparse_programs.csr_element_wise


def shows(func: PrimFunc, expected: str) -> None:
    """The function is what a text says, names of axes included, and is read back from its own."""
    wanted = renamed(expected)
    assert_structural_equal(func, wanted)
    assert str(func) == str(wanted)
    assert_structural_equal(parse(str(func)), func)
    verify(func)


def iterations(func: PrimFunc) -> list[str]:
    return [stmt.name for stmt in collect(func.body, SparseIteration)]


# ---------------------------------------------------------------------------- looks

HEAD = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, indptr: T.handle, indices: T.handle, m: T.int32,
         n: T.int32, feat: T.int32, nnz: T.int32{params}):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2{attrs}}})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    {axes}
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, K], "float32")
    {buffers}
"""
INIT = """
    with T.sp_iter([I, K], "SS", "csrmm_init") as [i, k]:
        C[i, k] = 0.0
"""


def head(params: Sequence[str], axes: str, buffers: str, attrs: str = "") -> str:
    handles = ("a", "indptr", "indices")
    typed = [f"{p}: T.{'handle' if p.startswith(handles) else 'int32'}" for p in params]
    return HEAD.format(
        params="".join(f", {param}" for param in typed), axes=axes, buffers=buffers, attrs=attrs
    )


@pytest.mark.parametrize("b", [4, 16, 32])
def test_bsr(b: int) -> None:
    made = format_decompose(csrmm, [bsr_rule(b)])
    params = [f"{name}_{b}" for name in ("a", "indptr", "indices", "m", "n", "nnz")]
    axes = f"""IO_{b} = T.dense_fixed(m_{b}, "int32")
    JO_{b} = T.sparse_variable(IO_{b}, (n_{b}, nnz_{b}), (indptr_{b}, indices_{b}), "int32")
    II_{b} = T.dense_fixed({b}, "int32")
    JI_{b} = T.dense_fixed({b}, "int32")"""
    buffers = f'A_{b} = T.match_sparse_buffer(a_{b}, [IO_{b}, JO_{b}, II_{b}, JI_{b}], "float32")'
    text = f"""
    with T.sp_iter([IO_{b}, JO_{b}, II_{b}, JI_{b}], "SSSS", "rewrite_A_{b}") as [
        io_{b}, jo_{b}, ii_{b}, ji_{b}
    ]:
        T.sp_iter_attr({{"preprocess": True}})
        A_{b}[io_{b}, jo_{b}, ii_{b}, ji_{b}] = A[io_{b} * {b} + ii_{b}, jo_{b} * {b} + ji_{b}]
    with T.sp_iter([IO_{b}, II_{b}, JO_{b}, JI_{b}, K], "SSRRS", "csrmm_{b}") as [
        io_{b}, ii_{b}, jo_{b}, ji_{b}, k
    ]:
        with T.init():
            C[io_{b} * {b} + ii_{b}, k] = 0.0
        C[io_{b} * {b} + ii_{b}, k] = (
            C[io_{b} * {b} + ii_{b}, k]
            + A_{b}[io_{b}, jo_{b}, ii_{b}, ji_{b}] * B[jo_{b} * {b} + ji_{b}, k]
        )
"""
    shows(made, head(params, axes, buffers) + text)


ELL = ("a", "indptr_i", "indices_i", "indices_j", "m", "n", "num_rows")


def ell_part(name: str, width: int) -> tuple[list[str], str, str, str, str]:
    """Parameters, axes, buffer and iterations of a part in ELL."""
    axes = f"""
    O_{name} = T.dense_fixed(1, "int32")
    I_{name} = T.sparse_variable(
        O_{name}, (m_{name}, num_rows_{name}), (indptr_i_{name}, indices_i_{name}), "int32"
    )
    J_{name} = T.sparse_fixed(I_{name}, (n_{name}, {width}), indices_j_{name}, "int32")"""
    buffers = f"""
    A_{name} = T.match_sparse_buffer(a_{name}, [O_{name}, I_{name}, J_{name}], "float32")"""
    copy = f"""
    with T.sp_iter([O_{name}, I_{name}, J_{name}], "SSS", "rewrite_A_{name}") as [
        o_{name}, i_{name}, j_{name}
    ]:
        T.sp_iter_attr({{"preprocess": True}})
        A_{name}[o_{name}, i_{name}, j_{name}] = A[i_{name}, j_{name}]
"""
    compute = f"""
    with T.sp_iter([O_{name}, I_{name}, J_{name}, K], "SSRS", "csrmm_{name}") as [
        o_{name}, i_{name}, j_{name}, k
    ]:
        T.sp_iter_attr({{"initialized_by": "csrmm_init"}})
        with T.init():
            C[i_{name}, k] = 0.0
        C[i_{name}, k] = C[i_{name}, k] + A_{name}[o_{name}, i_{name}, j_{name}] * B[j_{name}, k]
"""
    return [f"{param}_{name}" for param in ELL], axes, buffers, copy, compute


@pytest.mark.parametrize("width", [4, 8, 16, 32, 64, 128, 512])
def test_ell(width: int) -> None:
    """Rows that a part lacks, and those that it has twice, are started once all the same."""
    made = format_decompose(csrmm, [ell_rule(width)])
    params, axes, buffers, copy, compute = ell_part(str(width), width)
    shows(made, head(params, axes, buffers) + copy + INIT + compute)


def test_padded() -> None:
    made = format_decompose(csrmm, [padded_rule(32)])
    params = [f"{name}_32" for name in ("a", "indptr", "indices", "m", "n", "nnz_chunks")]
    axes = """I_32 = T.dense_fixed(m_32, "int32")
    JO_32 = T.dense_variable(
        I_32, ((n_32 + 32 - 1) // 32, nnz_chunks_32), indptr_32, "int32"
    )
    JI_32 = T.sparse_fixed(JO_32, (n_32, 32), indices_32, "int32")"""
    buffers = 'A_32 = T.match_sparse_buffer(a_32, [I_32, JO_32, JI_32], "float32")'
    text = """
    with T.sp_iter([I_32, JO_32, JI_32], "SSS", "rewrite_A_32") as [i_32, jo_32, ji_32]:
        T.sp_iter_attr({"preprocess": True})
        A_32[i_32, jo_32, ji_32] = A[i_32, ji_32]
    with T.sp_iter([I_32, JO_32, JI_32, K], "SRRS", "csrmm_32") as [i_32, jo_32, ji_32, k]:
        with T.init():
            C[i_32, k] = 0.0
        C[i_32, k] = C[i_32, k] + A_32[i_32, jo_32, ji_32] * B[ji_32, k]
"""
    shows(made, head(params, axes, buffers) + text)


@pytest.mark.parametrize("with_copies", [True, False])
def test_hyb(with_copies: bool) -> None:
    """Two parts of the columns in two buckets each; the order is that of the rules."""
    widths = {"0_0": 1, "0_1": 4, "1_0": 1, "1_1": 4}
    rules = [ell_rule(width, name) for name, width in widths.items()]
    parts = [ell_part(name, width) for name, width in widths.items()]
    made = format_decompose(csrmm, rules, include_format_rewrite_blks=with_copies)
    params = [param for names, *_ in parts for param in names]
    axes = "".join(part[1] for part in parts)
    buffers = "".join(part[2] for part in parts)
    copies = "".join(part[3] for part in parts)
    computes = "".join(part[4] for part in parts)
    attrs = ', "composable": 1'
    expected = head(params, axes, buffers, attrs) + (copies if with_copies else "")
    shows(made, expected + INIT + computes)
    if with_copies:
        each = remove_preprocess(made)
        assert_structural_equal(each, format_decompose(csrmm, rules, False))
        assert iterations(extract_preprocess(made)) == [f"rewrite_A_{name}" for name in widths]


def test_modules_and_other_iterations() -> None:
    """What accesses no rewritten buffer stays, at its place, and so do functions after others."""
    func = renamed(TWO)
    made = format_decompose(IRModule({"main": func}), [ell_rule(2, "x"), ell_rule(4, "y")], False)
    names = iterations(made["main"])
    assert names == ["scale", "sums_init", "sums_x", "sums_y", "twice"]
    scale, twice = (collect(made["main"].body, SparseIteration)[k] for k in (0, 4))
    old = collect(func.body, SparseIteration)
    assert (scale, twice) == (old[0], old[2])


TWO = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, indptr: T.handle, indices: T.handle, m: T.int32,
         n: T.int32, nnz: T.int32):
    T.func_attr({"global_symbol": "main", "sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices))
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [I], "float32")
    C = T.match_sparse_buffer(c, [I], "float32")
    with T.sp_iter([I], "S", "scale") as [i]:
        C[i] = B[i] * 2.0
    with T.sp_iter([I, J], "SR", "sums") as [i, j]:
        T.sp_iter_attr({"mine": 1})
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[i, j] * C[i]
    with T.sp_iter([I], "S", "twice") as [i]:
        B[i] = B[i] * 2.0
"""


def test_annotations_stay() -> None:
    made = format_decompose(renamed(TWO), [ell_rule(2)], False)
    part = collect(made.body, SparseIteration)[2]
    assert dict(part.annotations) == {"mine": 1, "initialized_by": "sums_init"}


def test_what_axes_and_buffers_say_stays() -> None:
    """Sorted or not, types of indices, default values, extra storage, what is known of values."""
    desc = renamed("""
@T.prim_func
def desc(a: T.handle, x: T.handle, indptr: T.handle, indices: T.handle, n: T.int32, m: T.int64):
    T.func_attr({"sparse_tir_level": 2})
    I = T.dense_fixed(m, "int64")
    JO = T.dense_variable(I, m, indptr, "int64")
    J = T.sparse_fixed(JO, (m, 4), indices, "int64", sorted=False)
    X = T.match_sparse_buffer(x, [I], "int32", extra_storage=1)
    A = T.match_sparse_buffer(a, [I, JO, J], "float32", default_value=7.0)
    T.assume_buffer_domain(X, [0, n])
    T.evaluate(0)
""")
    rule = FormatRewriteRule(
        "r",
        desc,
        ["A"],
        ["I", "J"],
        ["I", "JO", "J"],
        {"I": ["I"], "J": ["JO", "J"]},
        lambda i, j: (i, 0, j),
        lambda i, jo, j: (i, j),
    )
    func = renamed(TWO.replace("A[i, j] * C[i]", "0.0 * A[i, j]"))
    made = format_decompose(func, [rule], False)
    axes = {axis.name: axis for axis in made.sp_axes}
    assert not axes["J_r"].sorted
    assert axes["J"].sorted
    assert axes["J_r"].idtype == "int64"
    assert isinstance(axes["JO_r"].nnz, Var)
    assert axes["JO_r"].nnz.name == "JO_r_nnz"
    buffers = sparse_buffers(made)
    assert str(buffers["A_r"].default_value) == "T.float32(7.0)"
    assert str(buffers["X_r"].extra_storage) == "1"
    (domain,) = made.buffer_domains
    assert domain.buffer is buffers["X_r"]
    assert domain.high is made.params[-2]
    assert_structural_equal(parse(str(made)), made)
    with pytest.raises(UserError, match=r"padding of 'A_r' is T.float32\(7.0\), but"):
        format_decompose(func, [rule])


# ---------------------------------------------------------------------------- numbers


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def product(
    rules: Sequence[FormatRewriteRule], parts: Any, kind: str, is_lowered: bool = False
) -> None:
    """The product of a matrix and another over parts is that over the whole."""
    matrix, expected = case("csrmm", kind)
    func = format_decompose(csrmm, rules, include_format_rewrite_blks=False)
    verify(func)
    arguments = with_parts(func, {**matrix, "c": matrix["c"].copy()}, parts)
    result = arguments[2]
    assert np.isnan(result).all()
    if is_lowered:
        made = lower_sparse_buffer(lower_sparse_iter(func))["main"]
        flat = [part.reshape(-1) if isinstance(part, np.ndarray) else part for part in arguments]
        tir.run(made, *flat)
    else:
        run(func, *arguments)
    close(result, expected["c"])


RULES: dict[str, Callable[[], FormatRewriteRule]] = {
    "bsr": lambda: bsr_rule(4),
    "bsr1": lambda: bsr_rule(1),
    "ell": lambda: ell_rule(6),
    "padded": lambda: padded_rule(2),
    "csc": csc_rule,
    "dcsr": dcsr_rule,
}


@pytest.mark.parametrize("is_lowered", [False, True], ids=["coordinates", "lowered"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RULES)
def test_one_format(name: str, kind: str, is_lowered: bool) -> None:
    rule = RULES[name]()
    matrix, _ = case("csrmm", kind)
    if name == "ell" and np.diff(matrix["indptr"]).max(initial=0) > 6:
        pytest.skip("longer rows")
    made = whole_by_rule(rule, matrix)
    check_partition([rule], (matrix["indptr"], matrix["indices"], (matrix["m"], 11)), [made])
    product([rule], {rule.name: made.arguments}, kind, is_lowered)


@pytest.mark.parametrize("kind", ["random", "empty_rows", "power_law"])
def test_diagonals(kind: str) -> None:
    """Coordinates of the format are before the matrix, and behind it."""
    matrix, _ = case("csrmm", kind)
    rule = dia_rule(matrix["m"])
    made = whole_by_rule(rule, matrix)
    check_partition([rule], (matrix["indptr"], matrix["indices"], (matrix["m"], 11)), [made])
    product([rule], {rule.name: made.arguments}, kind)
    product([rule], {rule.name: made.arguments}, kind, is_lowered=True)


@pytest.mark.parametrize("is_lowered", [False, True], ids=["coordinates", "lowered"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("column_parts", "widths"), [(1, [1, 2]), (2, [1, 2, 4]), (3, [2])])
def test_hyb_products(kind: str, is_lowered: bool, column_parts: int, widths: list[int]) -> None:
    """Rows are in several parts, several times in one, or nowhere."""
    matrix, _ = case("csrmm", kind)
    rules, parts = hyb_parts(matrix, column_parts, widths)
    structure = (matrix["indptr"], matrix["indices"], (matrix["m"], matrix["n"]))
    check_partition(rules, structure, list(parts.values()))
    product(rules, parts, kind, is_lowered)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_in_several_formats(kind: str) -> None:
    """The dense corner in blocks, what is left of it in columns and rows."""
    matrix, _ = case("csrmm", kind)
    m, n = matrix["m"], matrix["n"]
    rows = np.repeat(np.arange(m), np.diff(matrix["indptr"]))
    columns = matrix["indices"]
    corner = (rows < 8) & (columns < 4)
    left = ~corner & (columns < 4)
    which = {"4": corner, "left": left, "rest": ~corner & ~left}
    rules = [bsr_rule(4), csc_rule("left"), dcsr_rule("rest")]
    made = [
        convert_by_rule(
            rule,
            [rows[which[rule.name]], columns[which[rule.name]]],
            matrix["a"][which[rule.name]],
            shape=(m, n),
        )
        for rule in rules
    ]
    check_partition(rules, (matrix["indptr"], columns, (m, n)), made)
    parts = {rule.name: part.arguments for rule, part in zip(rules, made, strict=True)}
    product(rules, parts, kind)
    product(rules, parts, kind, is_lowered=True)


def test_without_the_one_start_parts_erase_each_other() -> None:
    """What the annotation is for."""
    matrix, expected = case("csrmm", "random")
    rules, parts = hyb_parts(matrix, 2, [1, 2])
    func = format_decompose(csrmm, rules, include_format_rewrite_blks=False)

    class Careless(tir.StmtRewriter):
        def visit_SparseIteration(self, stmt: SparseIteration) -> tir.Stmt:
            return stmt.replace(annotations={})

    careless = func.with_body(Careless().visit(func.body))
    arguments = with_parts(func, matrix, parts)
    run(careless, *arguments)
    assert not np.allclose(arguments[2], expected["c"], equal_nan=True)


@pytest.mark.parametrize("name", ["bsr", "csc", "dcsr"])
@pytest.mark.parametrize("kind", ["random", "empty_rows", "empty_matrix", "one_row"])
def test_copies_fill_the_parts(name: str, kind: str) -> None:
    rule = RULES[name]()
    matrix, expected = case("csrmm", kind)
    made = whole_by_rule(rule, matrix)
    func = format_decompose(csrmm, [rule])
    values = np.full_like(made.arguments["a"], np.nan)
    arguments = with_parts(func, matrix, {rule.name: {**made.arguments, "a": values}})
    run(func, *arguments)
    close(values, made.arguments["a"])
    close(arguments[2], expected["c"])


def test_copies_apart() -> None:
    """Once the copies are done, a second function does the rest as often as is wanted."""
    rule = bsr_rule(4)
    matrix, expected = case("csrmm", "random")
    made = whole_by_rule(rule, matrix)
    func = format_decompose(csrmm, [rule])
    once, each = extract_preprocess(func), remove_preprocess(func)
    values = np.full_like(made.arguments["a"], np.nan)
    arguments = with_parts(func, matrix, {rule.name: {**made.arguments, "a": values}})
    run(once, *arguments)
    assert np.isnan(arguments[2]).all()
    matrix["a"][:] = 0  # no longer of use
    run(each, *arguments)
    close(arguments[2], expected["c"])


PLAIN = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, indptr: T.handle, indices: T.handle, m: T.int32,
         n: T.int32, feat: T.int32, nnz: T.int32):
    T.func_attr({"global_symbol": "main", "sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices))
    K = T.dense_fixed(feat)
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_buffer(b, (n, feat), "float32")
    C = T.match_buffer(c, (m, feat), "float32")
    with T.sp_iter([I, J, K], "SRS", "csrmm") as [i, j, k]:
        with T.init():
            C[i, k] = 0.0
        C[i, k] = C[i, k] + A[i, j] * B[j, k]
"""


def test_plain_buffers_need_coordinates_that_they_have() -> None:
    """Sparse buffers know what they have. Others are accessed where blocks are in the matrix."""
    func = renamed(PLAIN)
    made = format_decompose(func, [bsr_rule(4)])
    assert "if io_4 * 4 + ii_4 < m and jo_4 * 4 + ji_4 < n:" in str(made)
    assert "if io_4 * 4 + ii_4 < m:" in str(made)
    matrix, expected = case("csrmm", "random")
    part = whole_by_rule(bsr_rule(4), matrix)
    arguments = with_parts(made, matrix, {"4": part.arguments})
    run(remove_preprocess(made), *arguments)
    close(arguments[2], expected["c"])


def test_blocks_that_fit_need_no_condition() -> None:
    func = renamed(PLAIN)
    desc = sparse_programs.bsr
    for rows, guard in ((12, False), (13, True)):
        sizes = dict(zip(desc.params[3:], (-(-rows // 4), 2, 5, 4), strict=True))
        made = format_decompose(
            func.specialize({func.params[5]: rows, func.params[6]: 8}),
            [bsr_rule(4, desc=desc.specialize(sizes))],
        )
        assert (f"if io_4 * 4 + ii_4 < {rows}:" in str(made)) == guard
        assert "< 8" not in str(made)


# ---------------------------------------------------------------------------- other programs


def test_elements_of_both_matrices() -> None:
    """An output in parts: each part has its elements, and the old one is not written."""
    matrix, expected = case("csr_element_wise", "random")
    m, n = matrix["m"], matrix["n"]
    text = str(sparse_programs.bsr.specialize({sparse_programs.bsr.params[-1]: 4}))
    text = text.replace("def main(a: T.handle,", "def main(a: T.handle, b: T.handle,")
    text = text.replace(
        "    T.evaluate(0)",
        '    B = T.match_sparse_buffer(b, [IO, JO, II, JI], "float32")\n    T.evaluate(0)',
    )
    desc = renamed(text)
    base = bsr_rule(4)
    rows = np.repeat(np.arange(m), np.diff(matrix["indptr"]))
    rules, made = [], []
    for name, which in (("upper", rows < 8), ("lower", rows >= 8)):
        rule = FormatRewriteRule(
            name,
            desc,
            ["A", "B"],
            base.axes_before_rewrite,
            base.axes_after_rewrite,
            base.axis_map,
            base.idx_map,
            base.inv_idx_map,
        )
        at = [rows[which], matrix["indices"][which]]
        rules.append(rule)
        made.append(convert_by_rule(rule, at, {"A": matrix["a"][which]}, shape=(m, n)))
    func = format_decompose(csr_element_wise, rules, False)
    assert iterations(func) == ["csr_element_wise_upper", "csr_element_wise_lower"]
    parts = {rule.name: part.arguments for rule, part in zip(rules, made, strict=True)}
    arguments = with_parts(func, matrix, parts)
    run(func, *arguments)
    found = np.zeros(len(rows), "float32")
    for which, part in zip((rows < 8, rows >= 8), made, strict=True):
        found[which] = part.slots.scatter(part.arguments["b"])
    close(found, expected["b"])
    assert np.isnan(matrix["b"]).all()


def sampled_rule(name: str, width: int) -> FormatRewriteRule:
    """Rows in ELL, of the output of `sddmm`."""
    text = str(sparse_programs.ell.specialize({sparse_programs.ell.params[-1]: width}))
    text = text.replace("    A = ", "    C = ")
    base = ell_rule(width)
    return FormatRewriteRule(
        name,
        renamed(text),
        ["C"],
        base.axes_before_rewrite,
        base.axes_after_rewrite,
        base.axis_map,
        base.idx_map,
        base.inv_idx_map,
    )


def test_sampled_products() -> None:
    """An output in parts that is started: each part starts its own."""
    matrix, expected = case("sddmm", "random")
    m, n = matrix["m"], matrix["n"]
    rows = np.repeat(np.arange(m), np.diff(matrix["indptr"]))
    even = rows % 2 == 0
    rules = [sampled_rule("even", 6), sampled_rule("odd", 6)]
    made = [
        convert_by_rule(rule, [rows[which], matrix["indices"][which]], shape=(m, n))
        for rule, which in zip(rules, (even, ~even), strict=True)
    ]
    func = format_decompose(sparse_programs.sddmm, rules, False)
    assert iterations(func) == ["sddmm_even", "sddmm_odd"]
    assert "initialized_by" not in str(func)
    parts = {
        rule.name: {**part.arguments, "a": np.full_like(part.arguments["a"], np.nan)}
        for rule, part in zip(rules, made, strict=True)
    }
    run(func, *with_parts(func, matrix, parts))
    found = np.zeros(len(rows), "float32")
    for which, part, name in zip((even, ~even), made, parts, strict=True):
        found[which] = part.slots.scatter(parts[name]["a"])
    close(found, expected["c"])


def test_lookups_in_one_part() -> None:
    """Columns that the matrix need not have are looked up in blocks."""
    matrix, expected = case("csrmm_dense_iter", "random")
    rule = bsr_rule(4)
    made = whole_by_rule(rule, matrix)
    func = format_decompose(sparse_programs.csrmm_dense_iter, [rule], False)
    arguments = with_parts(func, matrix, {rule.name: made.arguments})
    run(func, *arguments)
    close(arguments[2], expected["c"])


@pytest.mark.parametrize("kind", ["random", "power_law", "empty_rows"])
def test_softmax_in_one_part(kind: str) -> None:
    """Iterations inside, in a format whose padding is least."""
    matrix, _ = case("sparse_softmax", kind)
    text = str(sparse_programs.padding.specialize({sparse_programs.padding.params[-1]: 4}))
    text = text.replace(
        '    A = T.match_sparse_buffer(a, [I, JO, JI], "float32")',
        '    A = T.match_sparse_buffer(a, [I, JO, JI], "float32", '
        'default_value=T.float32("-inf"))\n'
        '    B = T.match_sparse_buffer(b, [I, JO, JI], "float32")',
    ).replace("def main(a: T.handle,", "def main(a: T.handle, b: T.handle,")
    base = padded_rule(4)
    rule = FormatRewriteRule(
        "4",
        renamed(text),
        ["A", "B"],
        base.axes_before_rewrite,
        base.axes_after_rewrite,
        base.axis_map,
        base.idx_map,
        base.inv_idx_map,
    )
    func = format_decompose(sparse_programs.sparse_softmax, [rule], False)
    assert iterations(func) == [f"softmax{end}_4" for end in ("", "_max", "_sum", "_quotient")]
    made = whole_by_rule(rule, {**matrix, "a": matrix["a"]})
    run(func, *with_parts(func, matrix, {"4": made.arguments}))
    indptr = matrix["indptr"]
    expected = np.zeros(len(matrix["a"]))
    for start, end in pairwise(indptr):
        row = matrix["a"][start:end].astype(float)
        powers = np.exp(row - row.max(initial=-np.inf))
        expected[start:end] = powers / powers.sum()
    close(made.slots.scatter(made.arguments["b"]), expected)


def test_decomposed_twice() -> None:
    """Parts of parts are started by the iteration that started the whole."""
    rules, parts = hyb_parts(case("csrmm", "random")[0], 1, [1, 2])
    func = format_decompose(csrmm, rules, False)
    assert parts.keys() == {"0_0", "0_1"}
    rule = FormatRewriteRule(
        "t",
        renamed("""
@T.prim_func
def desc(b: T.handle, n: T.int32, k: T.int32):
    T.func_attr({"sparse_tir_level": 2})
    N = T.dense_fixed(n)
    K = T.dense_fixed(k)
    B = T.match_sparse_buffer(b, [K, N], "float32")
    T.evaluate(0)
"""),
        ["B"],
        ["J_detach", "K"],
        ["N", "K"],
        {"J_detach": ["N"], "K": ["K"]},
        lambda j, k: (j, k),
        lambda n, k: (n, k),
    )
    made = format_decompose(func, [rule], False)
    names = iterations(made)
    assert names == ["csrmm_init", "csrmm_0_0_t", "csrmm_0_1_t"]
    marks = [stmt.annotations.get("initialized_by") for stmt in collect(made.body, SparseIteration)]
    assert marks == [None, "csrmm_init", "csrmm_init"]


# ---------------------------------------------------------------------------- all the way


@pytest.mark.parametrize("kind", ["random", "power_law", "empty_rows"])
def test_hyb_from_the_rules_to_a_plain_function(kind: str) -> None:
    """The steps of SparseTIR's own example: two parts of the columns in two buckets each."""
    matrix, expected = case("csrmm", kind)
    widths = [1, 3]
    rules, parts = hyb_parts(matrix, 2, widths)
    mod = format_decompose(IRModule({"main": csrmm}), rules)
    mod = RemovePreprocess()(mod)
    params = mod["main"].params
    sizes = {params[5]: 13, params[6]: 11, params[7]: 5, params[8]: matrix["nnz"]}
    for number, part in enumerate(parts.values()):
        first = 9 + 7 * number
        sizes |= {params[first + 4]: 13, params[first + 5]: 11}
        sizes[params[first + 6]] = part["num_rows"]
    sch = Schedule(IRModule({"main": mod["main"].specialize(sizes)}))
    for rule in rules:
        iteration = sch.get_sparse_iteration(f"csrmm_{rule.name}")
        sch.sparse_fuse(iteration, sch.get_sp_iters(iteration)[:2])
    made = RemoveUnusedArgs()(lower_sparse_buffer(lower_sparse_iter(sch.mod)))["main"]
    kept = [f"{name}_{part}" for part in parts for name in ("a", "indices_i", "indices_j")]
    assert [param.name for param in made.params] == ["b", "c", *kept]
    arguments = with_parts(made, matrix, parts)
    shapes = [buffer.static_shape for buffer in made.buffers]
    assert None not in shapes
    arguments = [part.reshape(shape) for part, shape in zip(arguments, shapes, strict=True)]
    tir.run(made, *arguments)
    close(arguments[1], expected["c"])


FORMATS: dict[str, Callable[[str], FormatRewriteRule]] = {
    "bsr": lambda name: bsr_rule(3, name),
    "csc": csc_rule,
    "dcsr": dcsr_rule,
    "ell": lambda name: ell_rule(9, name),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_parts_of_any_matrix(data: st.DataObject) -> None:
    """Elements go to parts as they please, parts have formats as they please."""
    m, n = data.draw(st.integers(0, 9), "rows"), data.draw(st.integers(1, 9), "columns")
    formats = data.draw(st.lists(st.sampled_from(sorted(FORMATS)), min_size=1, max_size=4))
    part_of = st.integers(-1, len(formats) - 1)
    drawn = data.draw(st.lists(part_of, min_size=m * n, max_size=m * n), "parts")
    owner = np.array(drawn, int).reshape(m, n)
    rows, columns = np.nonzero(owner >= 0)
    random = np.random.default_rng(len(rows))
    values = random.standard_normal(len(rows)).astype("float32")
    b = random.standard_normal((n, 2)).astype("float32")
    rules = [FORMATS[name](str(number)) for number, name in enumerate(formats)]
    parts = {}
    for number, rule in enumerate(rules):
        which = owner[rows, columns] == number
        at = [rows[which], columns[which]]
        parts[rule.name] = convert_by_rule(rule, at, values[which], shape=(m, n))
    check_partition(rules, ([rows, columns], (m, n)), list(parts.values()))
    func = format_decompose(csrmm, rules, False)
    assert_structural_equal(parse(str(func)), func)
    matrix: dict[str, Any] = {
        "a": values,
        "b": b,
        "c": np.full((m, 2), np.nan, "float32"),
        "indptr": np.searchsorted(rows, np.arange(m + 1)).astype("int32"),
        "indices": columns.astype("int32"),
        "m": m,
        "n": n,
        "feat": 2,
        "nnz": len(rows),
    }
    run(func, *with_parts(func, matrix, {name: part.arguments for name, part in parts.items()}))
    dense = np.zeros((m, n))
    dense[rows, columns] = values
    close(matrix["c"], dense @ b.astype(float))
