"""Rules, and what decomposition refuses: a line for each reason."""

from __future__ import annotations

from typing import Any

import pytest

import sparse_programs
from sparse_rules import bsr_rule, csc_rule, dcsr, dcsr_rule, ell_rule, padded_rule, renamed
from tileloom.base.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    UnsupportedError,
    UserError,
)
from tileloom.expr import IndexMap
from tileloom.sparse.decompose import format_decompose
from tileloom.sparse.format_rule import FormatRewriteRule
from tileloom.sparse.lower_iter import lower_sparse_iter
from tileloom.tir import PrimFunc, assert_structural_equal

csrmm = sparse_programs.csrmm
ELL = sparse_programs.ell.specialize({sparse_programs.ell.params[-1]: 4})


def rule(**given: Any) -> FormatRewriteRule:
    """A rule for ELL, but for what is given."""
    usual: dict[str, Any] = {
        "name": "r",
        "new_format_desc": ELL,
        "buffers_to_rewrite": ["A"],
        "axes_before_rewrite": ["I", "J"],
        "axes_after_rewrite": ["O", "I", "J"],
        "axis_map": {"I": ["O", "I"], "J": ["J"]},
        "idx_map": lambda i, j: (0, i, j),
        "inv_idx_map": lambda o, i, j: (i, j),
    }
    return FormatRewriteRule(**{**usual, **given})


def test_maps_are_functions_or_index_maps() -> None:
    forth = IndexMap.from_func(lambda i, j: (0, i, j))
    back = IndexMap.from_func(lambda *new: new[1:], 3)
    one = format_decompose(csrmm, [rule(idx_map=forth, inv_idx_map=back)])
    other = format_decompose(csrmm, [rule(inv_idx_map=lambda *new: new[1:])])
    assert_structural_equal(one, other)


def test_what_it_is() -> None:
    assert repr(rule()) == "FormatRewriteRule('r': A(I, J) -> A_r(O_r, I_r, J_r))"


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"name": "a b"}, ArgumentError, "part of names in scripts, got 'a b'"),
        ({"new_format_desc": 3}, UnsupportedError, "format of rule 'r' is no function of level 2"),
        ({"axes_after_rewrite": ["P", "I", "J"]}, ArgumentError, "no axis 'P'; there are O, I, J"),
        ({"buffers_to_rewrite": ["B"]}, ArgumentError, "no buffer 'B'; there are A"),
        ({"buffers_to_rewrite": []}, UserError, "rewrites no buffer"),
        (
            {"axes_after_rewrite": ["I", "J"], "axis_map": {"I": ["I"], "J": ["J"]}},
            ShapeError,
            "axis 'O' of buffer 'A' is not among the axes after rule 'r': I, J",
        ),
        ({"axes_before_rewrite": ["I", "I"]}, ShapeError, "axes_before_rewrite .* an axis twice"),
        (
            {"axis_map": {"I": ["O", "I"]}},
            ShapeError,
            "axis_map of rule 'r' must have each of the axes before once, I, J; it has I",
        ),
        (
            {"axis_map": {"I": ["I"], "J": ["J"]}},
            ShapeError,
            "must have each of the axes after once, O, I, J; it has I, J",
        ),
        (
            {"axis_map": {"I": ["O", "I"], "J": ["J", "O"]}},
            ShapeError,
            "must have each of the axes after once",
        ),
        (
            {"idx_map": lambda i, j: (i, j)},
            ShapeError,
            r"idx_map of rule 'r' is from 2 to 2 coordinates; it must be from \(I, J\) to \(O, I",
        ),
        ({"inv_idx_map": lambda i, j: (i, j)}, ShapeError, "inv_idx_map .* is from 2 to 2"),
    ],
)
def test_rules_that_are_none(given: dict[str, Any], kind: type[UserError], message: str) -> None:
    with pytest.raises(kind, match=message):
        rule(**given)


def changed(func: PrimFunc, *changes: tuple[str, str]) -> PrimFunc:
    """A function with other text in places."""
    text = str(func)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return renamed(text)


STORE = "C[i, k] = C[i, k] + A[i, j] * B[j, k]"
INIT = "        with T.init():\n            C[i, k] = T.float32(0.0)\n"
TWO_STORES = changed(
    csrmm,
    ("c: T.handle", "c: T.handle, d: T.handle"),
    (f"        {STORE}", f"        {STORE}\n        D[i, k] = C[i, k]"),
    ("    # with", '    D = T.match_sparse_buffer(d, [I, K], "float32")\n    # with'),
)
# Programs in which a part would not do what the whole does, and why not.
UNSOUND: dict[str, tuple[PrimFunc, list[FormatRewriteRule], str]] = {
    "other coordinates, parts": (
        changed(csrmm, ("A[i, j] *", "A[j, i] *")),
        [csc_rule("a"), csc_rule("b")],
        "accesses 'A' at other coordinates than those it runs over; the element may be in any",
    ),
    "other coordinates, pieces": (
        changed(csrmm, ("A[i, j] *", "A[j, i] *")),
        [padded_rule(2)],
        "and padding is not in the order that a search needs",
    ),
    "other coordinates, two places": (
        changed(csrmm, ("A[i, j] *", "A[j, i] *")),
        [rule(new_format_desc=changed(dcsr, ("O = T.dense_fixed(1", "O = T.dense_fixed(2")))],
        "which idx_map does not tell: it is not the inverse",
    ),
    "other coordinates, rows twice": (
        sparse_programs.csrmm_dense_iter,
        [dcsr_rule()],
        "and may run over a coordinate twice",
    ),
    "padding and a product": (
        changed(csrmm, (STORE, "C[i, k] = C[i, k] * A[i, j]")),
        [ell_rule(4)],
        r"padding would change 'C': C\[i_4, k\] = C\[i_4, k\] \* A_4",
    ),
    "padding and a maximum": (
        changed(csrmm, (STORE, "C[i, k] = T.max(C[i, k], A[i, j] * B[j, k])")),
        [bsr_rule(4)],
        "padding would change 'C'",
    ),
    "padding and what is no update": (
        sparse_programs.csr_element_wise,
        [bsr_rule(4)],
        "padding would be stored to 'B'",
    ),
    "an order": (
        changed(csrmm, (STORE, "C[i, k] = C[i, k] * T.float32(2) + A[i, j]")),
        [csc_rule()],
        "'C' is read while it is computed",
    ),
    "the last wins": (
        changed(csrmm, (STORE, "C[i, k] = A[i, j]")),
        [csc_rule()],
        "an element of 'C' may be stored to twice",
    ),
    "sums so far": (TWO_STORES, [csc_rule()], "'C' is read while it is computed"),
    "a condition": (
        changed(csrmm, (f"        {STORE}", f"        if C[i, k] < B[j, k]:\n            {STORE}")),
        [csc_rule()],
        "'C' is read while it is computed",
    ),
    "iterations inside, parts": (
        sparse_programs.sparse_softmax,
        [dcsr_rule("a"), dcsr_rule("b")],
        "has iterations inside, which would not be done part after part",
    ),
    "iterations inside, rows twice": (
        sparse_programs.sparse_softmax,
        [dcsr_rule()],
        "may run over a coordinate of the outer ones twice",
    ),
    "an effect": (
        changed(csrmm, (STORE, f'{STORE}\n        T.call_extern("void", "f", A[i, j])')),
        [csc_rule()],
        "has an effect that is no store",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOUND)
def test_what_parts_would_do_wrong(name: str) -> None:
    func, rules, message = UNSOUND[name]
    with pytest.raises(UnsupportedError, match=message):
        format_decompose(func, rules)


@pytest.mark.parametrize(
    ("store", "rules"),
    [
        ("C[i, k] = C[i, k] - B[j, k] * A[i, j]", [bsr_rule(4)]),
        ("C[i, k] = (C[i, k] + A[i, j]) - A[i, j] / B[j, k]", [ell_rule(4)]),
        ("C[i, k] = C[i, k] * A[i, j]", [csc_rule(), dcsr_rule()]),
        ("C[i, k] = T.max(A[i, j] * B[j, k], C[i, k])", [csc_rule(), dcsr_rule()]),
        ("C[i, k] = T.if_then_else(B[j, k] < 1.0, C[i, k] + A[i, j], C[i, k])", [bsr_rule(4)]),
        ("if B[j, k] < 1.0:\n            C[i, k] = C[i, k] + A[i, j]", [bsr_rule(4)]),
        (
            'x: T.float32 = A[i, j] * B[j, k]\n        C[i, k] = C[i, k] + x',
            [bsr_rule(4), ell_rule(2)],
        ),
        ("for x in range(3):\n            C[i, k] = C[i, k] + A[i, j]", [bsr_rule(4), ell_rule(2)]),
        ("C[i, 0] = C[i, 0] + A[i, j]\n        C[i, 1] = C[i, 1] + B[j, k]", [csc_rule()]),
    ],
)  # fmt: skip
def test_what_parts_may_do(store: str, rules: list[FormatRewriteRule]) -> None:
    func = format_decompose(changed(csrmm, (STORE, store)), rules)
    assert_structural_equal(renamed(str(func)), func)


def test_programs() -> None:
    with pytest.raises(UserError, match="at least one rule"):
        format_decompose(csrmm, [])
    with pytest.raises(UserError, match="2 rules have the name '4'"):
        format_decompose(csrmm, [ell_rule(4), ell_rule(4)])
    with pytest.raises(ArgumentError, match="a function or a module of functions is needed"):
        format_decompose(3, [ell_rule(4)])  # type: ignore[type-var]
    with pytest.raises(UnsupportedError, match="function 'main' is at level 1; formats are decom"):
        format_decompose(lower_sparse_iter(csrmm), [ell_rule(4)])
    with pytest.raises(ArgumentError, match="no sparse buffer parameter 'A'; there are X, Y"):
        format_decompose(sparse_programs.hyper_gnn, [ell_rule(4)])
    with pytest.raises(ArgumentError, match="function 'main' has no axis 'J'; there are I, L, J"):
        format_decompose(NO_J, [rule()])
    with pytest.raises(UserError, match="two parameters would have the name 'a_r'"):
        format_decompose(changed(csrmm, ("feat", "a_r")), [rule()])
    once = format_decompose(csrmm, [rule()])
    with pytest.raises(UserError, match="two parameters would have the name 'a_r'"):
        format_decompose(once, [rule()])


def test_functions_and_rules_that_do_not_fit() -> None:
    half = changed(ELL, ("float32", "float16"))
    with pytest.raises(DTypeError, match="buffer 'A' is float32, in rule 'r' float16"):
        format_decompose(csrmm, [rule(new_format_desc=half)])
    with pytest.raises(ShapeError, match="axis 'BI' of buffer 'A' is not among the axes before"):
        format_decompose(sparse_programs.bsrmm, [rule()])
    with pytest.raises(UnsupportedError, match="runs over 'fused_IJ_I', which depends on the axis"):
        of_output = bsr_rule(4, names=("C", "I", "J"), desc=C_BSR)
        format_decompose(sparse_programs.fused_sddmm, [of_output])
    with pytest.raises(UnsupportedError, match="'K', which depends on the axis 'I' that rule 'r'"):
        format_decompose(CSF, [rule()])
    with pytest.raises(UnsupportedError, match="rules '4' and 'b' rewrite other buffers of iter"):
        format_decompose(csrmm, [bsr_rule(4), B_RULE])


NO_J = changed(csrmm, ("J = ", "L = "), ("J, K", "L, K"), ("I, J]", "I, L]"))
C_BSR = changed(
    sparse_programs.bsr.specialize({sparse_programs.bsr.params[-1]: 4}), ("    A = ", "    C = ")
)
CSF = changed(
    sparse_programs.square_sum,
    ("b: T.handle,", "b: T.handle, e: T.handle,"),
    ("    A = ", "    E = "),
    ("    B = ", '    A = T.match_sparse_buffer(e, [I, J], "float32")\n    B = '),
    ("A[i, j, k] * A[i, j, k]", "E[i, j, k] * A[i, j]"),
)
B_RULE = FormatRewriteRule(
    "b",
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


@pytest.mark.parametrize(
    ("idx_map", "inv_idx_map", "message"),
    [
        (lambda i, j: (0, j, i), lambda o, i, j: (i, j), r"\(0, 1\) comes back as \(1, 0\)"),
        (lambda i, j: (0, i, j), lambda o, i, j: (i, j + 1), r"\(0, 0\) comes back as \(0, 1\)"),
        (lambda i, j: (0, i // 32, j), lambda o, i, j: (i, j), r"\(1, 0\) comes back as \(0, 0\)"),
        (lambda i, j: (0, i, j % 32), lambda o, i, j: (i, j), r"\(0, 32\) comes back as \(0, 0\)"),
    ],
)
def test_maps_that_do_not_lead_back(idx_map: Any, inv_idx_map: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"inv_idx_map of rule 'r' is not the inverse.*{message}"):
        format_decompose(csrmm, [rule(idx_map=idx_map, inv_idx_map=inv_idx_map)])


def test_maps_need_lead_back_in_the_tensor_only() -> None:
    """A part of 16 columns: coordinates beyond them are none."""
    func = csrmm.specialize({csrmm.params[6]: 16})
    found = rule(idx_map=lambda i, j: (0, i, j % 16))
    assert format_decompose(func, [found])
    with pytest.raises(UserError, match=r"\(0, 16\) comes back as \(0, 0\)"):
        format_decompose(csrmm, [found])


def test_sizes_in_maps() -> None:
    """Blocks of a size that a parameter of the description says."""
    desc = sparse_programs.bsr
    size = desc.params[-1]

    def blocks(more: int) -> FormatRewriteRule:
        return FormatRewriteRule(
            "b",
            desc,
            ["A"],
            ["I", "J"],
            ["IO", "JO", "II", "JI"],
            {"I": ["IO", "II"], "J": ["JO", "JI"]},
            lambda i, j: (i // size, j // size, i % size, j % size),
            lambda io, jo, ii, ji: (io * size + ii, jo * size + ji + more),
        )

    made = format_decompose(csrmm, [blocks(0)])
    assert "C[block_size_b * io_b + ii_b, k]" in str(made)
    with pytest.raises(UserError, match=r"\(i, j\) comes back as \(i, j \+ 1\)"):
        format_decompose(csrmm, [blocks(1)])
