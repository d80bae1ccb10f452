"""Gather and Scatter operators refuse indices out of range, as ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.onnx.helpers import f32, model, one_node
from tileloom.base.errors import IndexingError, UserError
from tileloom.frontend.onnx import load

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
UPDATE = f32(50, 60).reshape(1, 2)


def _index(*rows: Any, kind: str = "int64") -> Any:
    return np.array(rows, kind)


CASES = [
    ("Gather", (_index(0, -3, 2),), {}),
    ("Gather", (_index(0, 3),), {}),
    ("Gather", (_index(-4),), {}),
    ("Gather", (_index(3, -4, kind="int32"),), {"axis": 1}),
    ("Gather", (_index(4, kind="int32"),), {"axis": 1}),
    ("GatherElements", (_index([-4, 3]),), {"axis": 1}),
    ("GatherElements", (_index([0, 4]),), {"axis": 1}),
    ("GatherElements", (_index([3, 0]),), {}),
    ("GatherND", (_index([2, 3], [-3, -4]),), {}),
    ("GatherND", (_index([0, 0], [3, 3]),), {}),
    ("GatherND", (_index([0, -5]),), {}),
    ("GatherND", (_index([3], [-4], [0]),), {"batch_dims": 1}),
    ("GatherND", (_index([3], [-4], [4]),), {"batch_dims": 1}),
    ("ScatterElements", (_index([3, -4]), UPDATE), {"axis": 1}),
    ("ScatterElements", (_index([0, 7]), UPDATE), {"axis": 1}),
    ("ScatterElements", (_index([0, -4]), UPDATE), {}),
    ("ScatterND", (_index([2, -1]), f32(5)), {}),
    ("ScatterND", (_index([3]), f32(5, 6, 7, 8).reshape(1, 4)), {}),
    ("ScatterND", (_index([0, -5]), f32(5)), {}),
]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(("op", "others", "attrs"), CASES)
def test_as_onnx_runtime(op: Any, others: Any, attrs: Any, target: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    arrays = (DATA, *others)
    proto = one_node(op, arrays, opset=18, **attrs)
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = load(proto, target=target)
    try:
        (wanted,) = runtime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)
    except Exception:
        with pytest.raises(IndexingError, match=f"{op}: an index is out of range"):
            session.run(None, feeds)
    else:
        np.testing.assert_array_equal(session.run(None, feeds)[0], wanted)


def test_one_program_for_many_sizes_knows_the_range_of_each() -> None:
    session = load(model("g (float[n, 4] x, int64[k] i) => (float[k, 4] y) { y = Gather(x, i) }"))
    for n in (3, 5):
        x = np.ones((n, 4), np.float32)
        assert session(x, _index(n - 1, -n))[0].shape == (2, 4)
        for wrong in (n, -n - 1):
            with pytest.raises(IndexError, match="Gather") as raised:
                session(x, _index(0, wrong))
            assert "'y'" in str(raised.value)
    assert session.compilations == 1


def test_known_indices_are_refused_as_soon_as_the_range_is_known() -> None:
    text = "g (float[{}] x) => (float[m] y) <int64[2] i = {{0, 3}}> {{ y = Gather(x, i) }}"
    with pytest.raises(UserError, match="out of range"):
        load(model(text.format(3)))
    session = load(model(text.format("n")))
    with pytest.raises(IndexError):
        session(np.ones(3, np.float32))
    assert session(np.arange(4, dtype=np.float32))[0].tolist() == [0, 3]


def test_what_never_runs_is_not_looked_at() -> None:
    proto = model("""g (float[3] x, int64[1] i) => (float[3] y, float[k, 1] z) {
        none = Constant<value = int64 {0}>()
        on = Constant<value = bool {1}>()
        y, z = Loop<body = b (int64 step, bool going, float[3] s)
            => (bool more, float[3] next, float[1] row) {
            more = Identity(going) next = Identity(s) row = Gather(s, i)
        }>(none, on, x)
    }""")
    y, z = load(proto)(f32(1, 2, 3), _index(9))
    assert y.tolist() == [1, 2, 3] and z.shape == (0, 1)
