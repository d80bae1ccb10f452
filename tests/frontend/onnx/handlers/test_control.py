"""Loops and scans with all that their attributes say, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from frontend.onnx.helpers import model, run
from tileloom.base.errors import UserError

RANDOM = np.random.default_rng(12)
BODY = "body (float[{inner}] s, float[{inner}] e) => (float[{inner}] t, float[{inner}] o) { t = Add(s, e)\n o = Mul(t, e) }"  # noqa: E501


def scan(shape: tuple[int, ...], axis: int, out_axis: int, back: int, turned: int) -> str:
    dims = ", ".join(map(str, shape))
    inner = ", ".join(str(n) for k, n in enumerate(shape) if k != axis % len(shape))
    body = BODY.replace("{inner}", inner)
    return f"""agraph (float[{inner}] s, float[{dims}] x) => (t, o) {{
        t, o = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}],
            scan_input_directions = [{back}], scan_output_axes = [{out_axis}],
            scan_output_directions = [{turned}], body = {body}> (s, x)
    }}"""


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize(("back", "turned"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_scans_along_any_axis(axis: int, out_axis: int, back: int, turned: int) -> None:
    x = RANDOM.standard_normal((2, 3, 4)).astype("float32")
    rows = list(np.moveaxis(x, axis, 0))[:: -1 if back else 1]
    state = start = RANDOM.standard_normal(rows[0].shape).astype("float32")
    line = []
    for row in rows:
        state = state + row
        line.append(state * row)
    wanted = np.moveaxis(np.stack(line[:: -1 if turned else 1]), 0, out_axis)
    last, found = run(model(scan(x.shape, axis, out_axis, back, turned)), start, x)
    np.testing.assert_allclose(last, state, rtol=1e-6)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("axis", [2, -3])
def test_axes_of_scans_are_in_range(axis: int) -> None:
    text = scan((2, 3), 0, 0, 0, 0).replace("scan_input_axes = [0]", f"scan_input_axes = [{axis}]")
    with pytest.raises(UserError, match=f"scan axis {axis} is out of range"):
        run(model(text), np.zeros(3, "float32"), np.zeros((2, 3), "float32"))


LOOP = """agraph (int64 m, bool c, float[2] x) => (z, s) {
    z, s = Loop <body = body (int64 i, bool d, float[2] y) => (bool e, float[2] w, float[2] s) {
        one = Constant <value_int = 1> ()
        w = Add(y, y)
        s = Identity(w)
        limit = Constant <value_int = LIMIT> ()
        j = Add(i, one)
        e = Less(j, limit)
    }> (m, c, x)
}"""


@pytest.mark.parametrize("trips", [1, 2, 3])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_loops_end_by_their_count_or_their_condition(trips: int, limit: int) -> None:
    x = np.array([1, 3], "float32")
    text = LOOP.replace("LIMIT", str(limit))
    given = {"m": np.array(trips), "c": np.array(True)}
    last, line = run(model(_fixed(text, given)), x)
    count = min(trips, limit)
    np.testing.assert_array_equal(last, x * 2**count)
    np.testing.assert_array_equal(line, [x * 2**k for k in range(1, count + 1)])


@pytest.mark.parametrize(("trips", "going"), [(0, True), (3, False)])
def test_loops_that_never_run(trips: int, going: bool) -> None:
    x = np.array([1, 3], "float32")
    given = {"m": np.array(trips), "c": np.array(going)}
    last, line = run(model(_fixed(LOOP.replace("LIMIT", "9"), given)), x)
    np.testing.assert_array_equal(last, x)
    assert line.shape == (0, 2) and line.dtype == "float32"


def _fixed(text: str, given: dict[str, np.ndarray]) -> str:
    """The count and the condition as constants of the model."""
    number, going = int(given["m"]), int(given["c"])
    head = f"""agraph (float[2] x) => (z, s) {{
    m = Constant <value_int = {number}> ()
    k = Constant <value_int = {going}> ()
    c = Cast <to = 9> (k)"""
    return text.replace("agraph (int64 m, bool c, float[2] x) => (z, s) {", head)
