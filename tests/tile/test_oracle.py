"""The oracle and the comparison of modules that other tests rest on."""

from __future__ import annotations

import pytest

from tile.isomorphic import assert_isomorphic, find_difference
from tile.oracle import OracleError, needs_oracle, triton_passes
from tileloom.tile import parse, run_passes

TEXT = """tt.func public @f(%a: i32, %p: !tt.ptr<i32>) {
  %0 = arith.addi %a, %a : i32
  %1 = arith.muli %a, %a : i32
  %2 = arith.addi %0, %1 : i32
  tt.store %p, %2 : !tt.ptr<i32>
  tt.store %p, %1 : !tt.ptr<i32>
  tt.return
}"""


def test_order_of_pure_operations_does_not_count() -> None:
    lines = TEXT.splitlines()
    swapped = "\n".join([lines[0], lines[2].replace("%1", "%x"), lines[1], *lines[3:]])
    swapped = swapped.replace("%1", "%x")
    assert_isomorphic(parse(TEXT), parse(swapped))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("muli %a, %a", "subi %a, %a"),
        ("addi %0, %1", "addi %1, %0"),
        ("addi %0, %1", "addi %0, %0"),
        ("%p, %2", "%p, %1"),
        ("  tt.return", "  %3 = arith.addi %a, %a : i32\n  tt.return"),
    ],
)
def test_differences_are_found(old: str, new: str) -> None:
    assert find_difference(parse(TEXT), parse(TEXT.replace(old, new))) is not None


def test_order_of_effects_counts() -> None:
    lines = TEXT.splitlines()
    swapped = "\n".join([*lines[:4], lines[5], lines[4], *lines[6:]])
    assert find_difference(parse(TEXT), parse(swapped)) is not None


@needs_oracle
def test_oracle_agrees_on_cse() -> None:
    doubled = TEXT.replace("tt.store %p, %1", "%4 = arith.muli %a, %a : i32\n  tt.store %p, %4")
    module = parse(doubled)
    expected = triton_passes(module, "common.add_cse")
    run_passes(module, ["cse"])
    assert_isomorphic(module, expected)


@needs_oracle
def test_oracle_survives_refusals() -> None:
    with pytest.raises(OracleError):
        triton_passes(TEXT, "common.add_no_such_pass")
    assert_isomorphic(triton_passes(TEXT), parse(TEXT))
