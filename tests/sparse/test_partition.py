"""Whether arrays are parts of a tensor, and the arrays that rules make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparse_programs
from sparse_inputs import KINDS, case
from sparse_rules import (
    Array,
    bsr_rule,
    csc_rule,
    dcsr_rule,
    dia_rule,
    ell_rule,
    hyb_parts,
    padded_rule,
    renamed,
    whole_by_rule,
)
from tileloom.base.errors import ArgumentError, ShapeError, UserError
from tileloom.sparse import convert
from tileloom.sparse.format_rule import FormatRewriteRule
from tileloom.sparse.partition import check_partition
from tileloom.sparse.rule_arrays import RuleArrays, convert_by_rule

# A matrix of 4 x 5 with 6 elements, its second row empty.
INDPTR = np.array([0, 2, 2, 5, 6], np.int32)
INDICES = np.array([0, 3, 1, 2, 4, 0], np.int32)
ROWS = np.array([0, 0, 2, 2, 2, 3])
SHAPE = (4, 5)
MATRIX = (INDPTR, INDICES, SHAPE)


def part(rule: FormatRewriteRule, which: Any = slice(None), values: Any = None) -> RuleArrays:
    return convert_by_rule(rule, [ROWS[which], INDICES[which]], values, shape=SHAPE)


def test_parts() -> None:
    check_partition([bsr_rule(2)], MATRIX, [part(bsr_rule(2))])
    upper, lower = slice(0, 2), slice(2, 6)
    rules = [csc_rule(), ell_rule(3)]
    check_partition(rules, MATRIX, [part(rules[0], upper), part(rules[1], lower)])
    check_partition(rules, ([ROWS, INDICES], SHAPE), [part(rules[0], upper), part(rules[1], lower)])
    check_partition([], (np.zeros(5, np.int32), INDICES[:0], SHAPE), [])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([0, 1, 3, 4, 5], [], r"no part has the element at \(2, 1\)"),
        ([0, 1, 2, 3], [3, 4, 5], r"at \(2, 2\) is in two places: parts 'csc' and 'dcsr' have it"),
        ([], [], r"no part has the element at \(0, 0\)"),
    ],
)
def test_parts_that_are_none(first: list[int], second: list[int], message: str) -> None:
    rules = [csc_rule(), dcsr_rule()]
    with pytest.raises(UserError, match=message):
        parts = [part(rules[0], np.array(first, int)), part(rules[1], np.array(second, int))]
        check_partition(rules, MATRIX, parts)


def test_elements_that_the_tensor_does_not_have() -> None:
    """Without a mask the padding of a block is an element."""
    made = part(bsr_rule(2))
    with pytest.raises(UserError, match=r"part '2' has an element at \(0, 1\), where the tensor"):
        check_partition([bsr_rule(2)], MATRIX, [made.arguments])
    other = {**part(dcsr_rule()).arguments}
    other["indices_j"] = other["indices_j"].copy()
    other["indices_j"][2] = 0
    with pytest.raises(UserError, match=r"part 'dcsr' has an element at \(2, 0\), where"):
        check_partition([dcsr_rule()], MATRIX, [other])
    other["indices_j"][2] = 2
    with pytest.raises(UserError, match=r"no part has the element at \(2, 1\)"):
        check_partition([dcsr_rule()], MATRIX, [other])
    other["indices_j"][2:4] = 1
    with pytest.raises(UserError, match=r"at \(2, 1\) is in two places: part 'dcsr' has it"):
        check_partition([dcsr_rule()], MATRIX, [other])


def test_arrays_that_do_not_fit() -> None:
    rule = dcsr_rule()
    good = dict(part(rule).arguments)
    for change, kind, message in (
        (
            {"indptr_j": good["indptr_j"][:-1]},
            ShapeError,
            "indptr of axis 'J' .* 3 elements; 4",
        ),
        ({"indices_j": good["indices_j"][:-1]}, ShapeError, "indices of axis 'J' .* 5 .*; 6 are"),
        ({"mask": [1, 0]}, ShapeError, "the mask of part 'dcsr' has 2 elements; the part 6"),
        ({"other": 1}, ArgumentError, "part 'dcsr' has 'other', but the description has a, ind"),
    ):
        with pytest.raises(kind, match=message):
            check_partition([rule], MATRIX, [{**good, **change}])
    del good["indptr_j"]
    with pytest.raises(ArgumentError, match="part 'dcsr' has no array 'indptr_j'"):
        check_partition([rule], MATRIX, [good])
    with pytest.raises(ArgumentError, match="there are 1 rules, but 2 parts"):
        check_partition([rule], MATRIX, [good, good])
    with pytest.raises(UserError, match=r"the tensor has two elements at \(0, 3\)"):
        check_partition([rule], ([ROWS * 0, INDICES * 0 + 3], SHAPE), [part(rule)])
    with pytest.raises(ShapeError, match="rule 'dcsr' is about 2 axes, the tensor has 1"):
        check_partition([rule], ([ROWS[1:3]], (4,)), [part(rule)])


def test_sizes_may_be_left_out() -> None:
    """Arrays tell them."""
    for rule in (csc_rule(), ell_rule(3), dcsr_rule()):
        made = part(rule).given
        arrays = {name: value for name, value in made.items() if isinstance(value, np.ndarray)}
        check_partition([rule], MATRIX, [arrays])
    with pytest.raises(ArgumentError, match="part 'dia' does not tell the size n"):
        made = part(dia_rule(4)).given
        check_partition([dia_rule(4)], MATRIX, [{k: v for k, v in made.items() if k != "n"}])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("column_parts", "widths"), [(1, [1, 2, 4]), (3, [2])])
def test_an_element_more_or_less(kind: str, column_parts: int, widths: list[int]) -> None:
    """Every element that one part of many loses, or has twice, is found."""
    matrix, _ = case("csrmm", kind)
    rules, parts = hyb_parts(matrix, column_parts, widths)
    structure = (matrix["indptr"], matrix["indices"], (matrix["m"], matrix["n"]))
    check_partition(rules, structure, list(parts.values()))
    rows = np.repeat(np.arange(matrix["m"]), np.diff(matrix["indptr"]))
    for made in parts.values():
        for slot in np.flatnonzero(made["mask"]):
            made["mask"].reshape(-1)[slot] = False
            row = np.repeat(made["indices_i"], made["indices_j"].shape[1])[slot]
            column = made["indices_j"].reshape(-1)[slot]
            with pytest.raises(UserError, match=rf"no part has the element at \({row}, {column}\)"):
                check_partition(rules, structure, list(parts.values()))
            made["mask"].reshape(-1)[slot] = True
    for lost in range(len(rows)):
        kept = np.arange(len(rows)) != lost
        smaller = ([rows[kept], matrix["indices"][kept]], (matrix["m"], matrix["n"]))
        point = rf"at \({rows[lost]}, {matrix['indices'][lost]}\), where the tensor has none"
        with pytest.raises(UserError, match=point):
            check_partition(rules, smaller, list(parts.values()))


# ---------------------------------------------------------------------------- arrays of rules


def matrices() -> list[tuple[Array, Array, Array, tuple[int, int]]]:
    found = []
    for kind in KINDS:
        matrix, _ = case("csrmm", kind)
        if kind != "unsorted":
            shape = (matrix["m"], matrix["n"])
            found.append((matrix["indptr"], matrix["indices"], matrix["a"], shape))
    return found


@pytest.mark.parametrize("number", range(len(KINDS) - 1))
def test_as_the_conversions_by_hand(number: int) -> None:
    """BSR, ELL, pieces and DCSR are those of `sparse.convert`."""
    indptr, indices, values, shape = matrices()[number]
    rows = convert.row_of_each(indptr)

    def by_rule(rule: FormatRewriteRule) -> dict[str, Any]:
        return dict(convert_by_rule(rule, [rows, indices], values, shape=shape).arguments)

    blocks = convert.bsr(indptr, indices, shape, (4, 4))
    found = by_rule(bsr_rule(4))
    np.testing.assert_array_equal(found["indptr"], blocks.indptr)
    np.testing.assert_array_equal(found["indices"], blocks.indices)
    np.testing.assert_array_equal(found["a"], blocks.values(values))
    sizes = (-(-shape[0] // 4), -(-shape[1] // 4), len(blocks.indices))
    assert (found["m"], found["n"], found["nnz"]) == sizes

    pieces = convert.padded_csr(indptr, indices, 2)
    found = by_rule(padded_rule(2))
    np.testing.assert_array_equal(found["indptr"], pieces.indptr)
    np.testing.assert_array_equal(found["indices"], pieces.indices)
    np.testing.assert_array_equal(found["a"], pieces.values(values))
    assert found["nnz_chunks"] == len(pieces.indices)

    padded = convert.ell(indptr, indices, 6, np.flatnonzero(np.diff(indptr)))
    found = by_rule(ell_rule(6))
    np.testing.assert_array_equal(found["indices_i"], padded.rows)
    np.testing.assert_array_equal(found["indices_j"], padded.indices)
    np.testing.assert_array_equal(found["a"], padded.values(values))
    assert found["num_rows"] == len(padded.rows)

    filled = convert.dcsr(indptr, indices)
    found = by_rule(dcsr_rule())
    np.testing.assert_array_equal(found["indices_i"], filled.rows)
    np.testing.assert_array_equal(found["indptr_j"], filled.indptr)


def test_widths_follow_from_the_elements() -> None:
    rule = ell_rule(0, "any", sparse_programs.ell)
    made = part(rule, values=np.arange(6.0))
    assert made.arguments["nnz_cols"] == 3
    assert made.arguments["indices_j"].tolist() == [[0, 3, 0], [1, 2, 4], [0, 0, 0]]
    assert made.arguments["a"].tolist() == [[0, 1, 0], [2, 3, 4], [5, 0, 0]]
    wider = convert_by_rule(rule, [ROWS, INDICES], shape=SHAPE, sizes={"nnz_cols": 5})
    assert wider.arguments["indices_j"].shape == (3, 5)
    none = convert_by_rule(rule, [[], []], shape=SHAPE)
    assert none.arguments["nnz_cols"] == 0
    assert none.arguments["num_rows"] == 0


def test_groups_of_rows_in_three_dimensions() -> None:
    """ELL-3D: groups of 2 rows of 3 elements below each relation."""
    desc = sparse_programs.ell3d
    fixed = desc.specialize({desc.params[-1]: 3, desc.params[-2]: 2})
    rule = FormatRewriteRule(
        "g",
        fixed,
        ["A"],
        ["R", "I", "J"],
        ["R", "IO", "II", "J"],
        {"R": ["R"], "I": ["IO", "II"], "J": ["J"]},
        lambda r, i, j: (r, 0, i, j),
        lambda r, io, ii, j: (r, ii, j),
    )
    random = np.random.default_rng(1)
    places = np.unique(random.integers(0, [3, 7, 9], (30, 3)), axis=0)
    keep = np.ones(len(places), bool)
    for place in {tuple(place[:2]) for place in places}:
        keep[np.flatnonzero((places[:, :2] == place).all(1))[3:]] = False
    places = places[keep]
    coordinates, shape = list(places.T), (3, 7, 9)
    made = convert_by_rule(rule, coordinates, np.arange(1, len(places) + 1), shape=shape)
    check_partition([rule], (coordinates, shape), [made])
    rows = [len({tuple(p[:2]) for p in places if p[0] == r}) for r in range(3)]
    groups = np.cumsum([0, *(-(-count // 2) for count in rows)])
    assert made.arguments["indptr_io"].tolist() == groups.tolist()
    assert made.arguments["a"].shape == (groups[-1], 2, 3)
    assert made.arguments["d1"] == max(np.diff(groups))
    assert made.arguments["d2"] == 9
    assert made.slots.scatter(made.arguments["a"]).tolist() == list(range(1, len(places) + 1))


def test_types_and_defaults() -> None:
    made = whole_by_rule(bsr_rule(4), case("csrmm", "random")[0])
    assert made.arguments["a"].dtype == np.float32
    assert made.arguments["indptr"].dtype == made.arguments["indices"].dtype == np.int32
    text = str(sparse_programs.bsr.specialize({sparse_programs.bsr.params[-1]: 2}))
    text = text.replace('"int32"', '"int64"').replace('"float32")', '"float32", default_value=7.0)')
    other = part(bsr_rule(2, desc=renamed(text)), values=np.ones(6, int))
    assert other.arguments["indices"].dtype == np.int64
    assert set(other.arguments["a"].reshape(-1).tolist()) == {1.0, 7.0}


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"coordinates": [ROWS]}, ShapeError, "about the axes I, J; coordinates is for 1"),
        ({"shape": (4,)}, ShapeError, "about the axes I, J; the shape is for 1"),
        ({"coordinates": [ROWS, INDICES[:2]]}, ShapeError, "2 coordinates on axis 'J', 6 on 'I'"),
        ({"shape": (4, 4)}, UserError, "element 4 is at 4 on axis 'J' of length 4"),
        ({"coordinates": [-ROWS, INDICES]}, UserError, "element 2 is at -2 on axis 'I'"),
        ({"values": np.ones(5)}, ShapeError, r"values of 'A' have shape \(5,\); the part has 6"),
        ({"values": {"B": np.ones(6)}}, ArgumentError, "rule '3' rewrites A, not 'B'"),
        ({"sizes": {"a": 3}}, ArgumentError, "rule '3' has no size 'a'"),
        ({"sizes": {"num_rows": 9}}, UserError, "size 'num_rows' of rule '3' is 9, but 3 is need"),
        ({"sizes": {"n": 4}}, UserError, "size 'n' of rule '3' is 4, but 5 is needed"),
        (
            {"rule": ell_rule(2)},
            UserError,
            "width of axis 'J' of rule '2' is 2, but there are 3",
        ),
    ],
)
def test_refusals(given: dict[str, Any], kind: type[UserError], message: str) -> None:
    usual: dict[str, Any] = {"coordinates": [ROWS, INDICES], "shape": SHAPE}
    with pytest.raises(kind, match=message):
        convert_by_rule(**{"rule": ell_rule(3), **usual, **given})
