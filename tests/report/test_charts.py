"""Charts: where things stand, and that the pictures are well-formed."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tileloom.report.charts import Chart, Diagonal, Dots, Layer, Level, Marks, PlotAxis, Steps


@pytest.mark.parametrize(
    ("axis", "value", "place"),
    [
        (PlotAxis(0, 10, ""), 2.5, 0.25),
        (PlotAxis(1, 100, "", is_log=True), 10.0, 0.5),
        (PlotAxis(1, 100, "", is_log=True), 0.0, 0.0),  # what is outside stands at the ends
        (PlotAxis(0, 10, ""), 11.0, 1.0),
        (PlotAxis(3, 3, ""), 3.0, 0.5),
    ],
)
def test_places(axis: PlotAxis, value: float, place: float) -> None:
    assert axis.place(value) == pytest.approx(place)


@pytest.mark.parametrize(
    ("axis", "ticks"),  # those of few powers of ten are linear
    [
        (PlotAxis(0, 1.03, ""), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (PlotAxis(0, 3, "", is_whole=True), [0, 1, 2, 3]),
        (PlotAxis(1.1, 1.4, "", is_log=True), [1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4]),
        (PlotAxis(9, 700, "", is_log=True), [10, 30, 100, 300]),
        (PlotAxis(1e-3, 1e6, "", is_log=True), [1e-3, 0.1, 10, 1000, 1e5]),
        (PlotAxis(5, 5, ""), [5]),
    ],
)
def test_ticks(axis: PlotAxis, ticks: list[float]) -> None:
    assert axis.ticks() == ticks


def test_all_layers() -> None:
    layers: list[Layer] = [
        Diagonal(),
        Dots([(1, 2), (3, 4)]),
        Marks([2]),
        Level(3.0, "a < b"),
        Steps([(0, 4), (2, 1)], ["first", "second & last"]),
        Steps([]),
    ]
    svg = Chart(PlotAxis(0, 4, "x"), PlotAxis(0, 4, "y > 0"), layers, 'a "chart"').svg()
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == 'a "chart"'
    assert {"a < b", "x", "y > 0"} <= {element.text for element in root.iter("text")}
    assert [element.text for element in root.iter("title")] == ["first", "second & last"]
    (dots,) = (group for group in root.iter("g") if group.get("class") == "dots")
    at = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in dots]
    assert at[0][0] < at[1][0] and at[0][1] > at[1][1]  # what is greater is further up
    (steps,) = (path for path in root.iter("path") if path.get("class") == "steps")
    assert steps.get("d", "").count("V") == 1
