"""Resampling: by hand, through formulas, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, graph_of, values
from tileloom.base.errors import DTypeError, ShapeError, UserError
from tileloom.graph import ops
from tileloom.graph.expand import expand

LINE = np.array([1.0, 2, 4], "float32")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
@pytest.mark.parametrize("sizes", [(6, 8), (2, 3), (1, 1), (4, 4), (3, 9)])
def test_formulas(
    sizes: tuple[int, ...], coordinates: str, mode: str, rng: np.random.Generator
) -> None:
    x = rng.random((3, 4), "float32")
    found = check(lambda t: ops.resize(t, sizes, mode, coordinates), x)
    assert found.shape == sizes


def test_by_hand() -> None:
    def line(n: Any, *args: Any, **more: Any) -> Any:
        return check(lambda t: ops.resize(t, [n], *args, **more), LINE).tolist()

    assert line(6) == [1, 1, 2, 2, 4, 4]
    assert line(5, "linear", "align_corners") == [1, 1.5, 2, 3, 4]
    assert line(6, "linear") == [1, 1.25, 1.75, 2.5, 3.5, 4]
    assert line(6, "nearest", "asymmetric", nearest="ceil") == [1, 2, 2, 4, 4, 4]
    crop = {"roi": [0.5, 1.5], "extrapolation": 9.0}
    assert line(3, "linear", "tf_crop_and_resize", **crop) == [2, 4, 9]


def test_antialias_averages_when_shrinking() -> None:
    x = np.arange(8, dtype="float32")
    found = check(lambda t: ops.resize(t, [2], "linear", antialias=True), x)
    np.testing.assert_allclose(found.sum(), 7, rtol=1e-6)
    assert found[0] > values(lambda t: ops.resize(t, [4], "linear"), x)[0]


def test_whole_factors_need_no_table() -> None:
    nodes = expand(graph_of(lambda t: ops.resize(t, (2, 6, 8)), np.zeros((2, 3, 4)))).nodes
    assert not {"gather", "constant"} & {node.op.name for node in nodes}


def test_half_precision_and_integers() -> None:
    check(lambda t: ops.resize(t, [5], "cubic"), LINE.astype("float16"))
    assert check(lambda t: ops.resize(t, [5]), LINE.astype("int8")).tolist() == [1, 1, 2, 4, 4]


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="resize: unknown mode 'area'"):
        values(lambda t: ops.resize(t, [4], "area"), LINE)
    with pytest.raises(ShapeError, match="resize: needs one size for each"):
        values(lambda t: ops.resize(t, [4, 4]), LINE)
    with pytest.raises(DTypeError, match="resize: the operand must have a floating-point"):
        values(lambda t: ops.resize(t, [4], "linear"), LINE.astype("int32"))
    with pytest.raises(ShapeError, match=r"axis 0 .* has no elements"):
        values(lambda t: ops.resize(t, [4]), LINE[:0])
