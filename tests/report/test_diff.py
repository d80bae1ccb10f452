"""What two texts have in common, line by line."""

from __future__ import annotations

from tileloom.report.diff import compare


def test_lines_that_come_often_are_found_again() -> None:
    old = ["x = x + 1"] * 300
    new = [*old[:150], "y = 2", *old[150:]]
    lines = compare(old, new)
    assert [line.text for line in lines if line.kind == "added"] == ["y = 2"]
    assert not [line for line in lines if line.kind == "gone"]
