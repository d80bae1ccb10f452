"""Values of steps as JSON and as Python text."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import UserError
from tileloom.expr import FloatImm, StringImm, Var, const
from tileloom.schedule.instruction import Text, find_kind
from tileloom.schedule.rv import BlockRV, LoopRV, expr_rv
from tileloom.schedule.text import (
    attrs_from_json,
    attrs_to_json,
    call_text,
    define,
    input_from_json,
    input_to_json,
    plain,
    to_python,
)

BLOCK, LOOP, NUMBER = BlockRV(), LoopRV(), expr_rv()
NAMES: dict[Any, Any] = {BLOCK: "b0", LOOP: "l1", NUMBER: "v2"}


def test_names_count_on() -> None:
    names: dict[Any, str] = {}
    made = [define(names, rv) for rv in (BLOCK, None, LOOP, None, NUMBER)]
    assert made == ["b0", "_", "l2", "_", "v3"]  # the open one counts once


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (const(True), True),
        (const(3), 3),
        (FloatImm("float32", 0.5), 0.5),
        (StringImm("x"), "x"),
        (7, 7),
        (None, None),
    ],
)
def test_numbers_of_expressions(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected and type(found) is type(expected)


#: A value, as JSON, as Python text.
VALUES: list[tuple[Any, Any, str]] = [
    (None, "None", "None"),
    (True, True, "True"),
    (12, 12, "12"),
    (-3, -3, "-3"),
    (0.25, 0.25, "0.25"),
    (2.0, 2.0, "2.0"),
    (0.1, 0.1, "0.10000000000000001"),
    (1e30, 1e30, "1e+30"),
    ("local", '"local"', '"local"'),
    ("", '""', '""'),
    (BLOCK, "b0", "b0"),
    (LOOP, "l1", "l1"),
    (NUMBER, "v2", "v2"),
    ([LOOP, None, 4], ["l1", "None", 4], "[l1, None, 4]"),
    ({"a": [NUMBER], "b": "x"}, {"a": ["v2"], "b": '"x"'}, '{"a": [v2], "b": "x"}'),
]


@pytest.mark.parametrize(("value", "json", "python"), VALUES, ids=lambda value: str(value)[:20])
def test_values(value: Any, json: Any, python: str) -> None:
    assert input_to_json(value, NAMES) == json
    assert to_python(value, NAMES) == python
    assert input_from_json(json, {name: rv for rv, name in NAMES.items()}) == value


def test_infinite_and_no_numbers() -> None:
    assert to_python(float("inf"), {}) == "inf"
    assert to_python(float("nan"), {}) == "nan"


def test_tuples_are_lists() -> None:
    assert input_to_json((LOOP, 2), NAMES) == ["l1", 2]
    assert to_python((LOOP, (2, "a")), NAMES) == '[l1, [2, "a"]]'


def test_expressions_of_numbers() -> None:
    assert to_python(NUMBER * 2 + 1, NAMES) == "v2 * 2 + 1"
    assert to_python(Text("lambda i: (i,)"), {}) == "lambda i: (i,)"
    with pytest.raises(UserError, match="cannot be written into a trace as JSON"):
        input_to_json(NUMBER + 1, NAMES)


def test_variables_that_nobody_defines() -> None:
    match = "a step uses a variable that no step before it defines"
    with pytest.raises(UserError, match=match):
        to_python(LoopRV(), NAMES)
    with pytest.raises(UserError, match=match):
        input_to_json([LoopRV()], NAMES)
    with pytest.raises(UserError, match=match):
        to_python(Var("n") + NUMBER, NAMES)
    with pytest.raises(UserError, match="a step uses 'l9', which no step before it defines"):
        input_from_json("l9", {})


@pytest.mark.parametrize("text", ['"', '"x', 'x"'])
def test_quotes_come_in_pairs(text: str) -> None:
    with pytest.raises(UserError, match="which no step before it defines"):
        input_from_json(text, {})


@pytest.mark.parametrize(
    ("name", "attrs", "json"),
    [
        ("Split", [True, False], [True, False]),
        ("Fuse", [True], [1]),  # truth values are numbers in some steps
        ("Fuse", [False], [0]),
        ("GetBlock", ["C", None], ["C", None]),
        ("ComputeAt", [False, -1], [0, -1]),
        ("StorageAlign", [0, -2, 32, 8], [0, -2, 32, 8]),
        ("SampleCategorical", [[1, 2], (0.5, const(0.5, "float32"))], [[1, 2], [0.5, 0.5]]),
    ],
)
def test_attributes(name: str, attrs: list[Any], json: list[Any]) -> None:
    found = attrs_to_json(find_kind(name), attrs)
    assert found == json and [type(v) for v in found] == [type(v) for v in json]
    assert [*map(str, attrs_from_json(find_kind(name), json))] == [*map(str, json)]


def test_attributes_that_are_missing() -> None:
    with pytest.raises(UserError, match="ComputeAt has the attributes preserve_unit_loops, index"):
        attrs_from_json(find_kind("ComputeAt"), [True])


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "outputs", "decision", "line"),
    [
        ("GetLoops", [BLOCK], [], [LOOP], None, "l1, = sch.get_loops(block=b0)"),
        ("GetLoops", [BLOCK], [], [], None, "sch.get_loops(block=b0)"),
        ("GetBlock", [], ["C", "main"], [LOOP], None,
         'l1 = sch.get_block(name="C", func_name="main")'),
        ("Reorder", [LOOP, LOOP], [], [], None, "sch.reorder(l1, l1)"),
        ("Unroll", [LOOP], [], [], None, "sch.unroll(loop=l1)"),
        ("SampleCategorical", [], [[1, 2], [0.5, 0.5]], [LOOP], 1,
         "l1 = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5], decision=1)"),
        ("SampleCategorical", [], [[1, 2], [0.5, 0.5]], [LOOP], None,
         "l1 = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5])"),
        ("SamplePerfectTile", [LOOP], [2, 16], [LOOP, None], [4, 8],
         "l1, _ = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, "
         "decision=[4, 8])"),
    ],
)  # fmt: skip
def test_lines(
    name: str,
    inputs: Any,
    attrs: list[Any],
    outputs: Any,
    decision: int | list[int] | None,
    line: str,
) -> None:
    names: dict[Any, Any] = {BLOCK: "b0", LOOP: "l1"}
    # What is defined again gets a name of its own; here it is as many as there are.
    found = call_text(find_kind(name), inputs, attrs, outputs, names, decision)
    assert found.replace("l2", "l1") == line
