"""Relations in simple form: found with little work, and the same as before."""

from __future__ import annotations

import pytest

from tileloom import Schedule, te
from tileloom.schedule.integer_sets import Integers
from tileloom.schedule.verify import verify_program
from tileloom.schedule.verify.tidy import tidy_map

pytest.importorskip("islpy")


def test_transposed_tensors_are_compared_with_little_work() -> None:
    """To prove a side of the relation to be a box takes millions of operations here."""
    a = te.placeholder((48, 3, 3, 16), "float16", name="A")
    b = te.compute((48, 16, 3, 3), lambda i, j, k, m: a[i, k, m, j], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    flat = lambda i, j, k, m: (((i * 16 + j) * 3 + k) * 3 + m,)  # noqa: E731
    sch.transform_block_layout("B", flat)
    (loop,) = sch.get_loops("B")
    block, thread = sch.split(loop, [None, 256])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    origin = te.create_prim_func([a, b])
    report = verify_program(sch.mod["main"], original=origin, max_operations=100_000)
    assert report.ok, report


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("{ [i] -> [i] : exists a, b : i = 4a + b and 0 <= a < 3 and 0 <= b < 4 }",
         "{ [i] -> [i] : 0 <= i < 12 }"),
        # Neither side is a box, nor one polyhedron.
        ("{ [i] -> [2i] : 0 <= i < 3 or i = 7 }", "{ [i] -> [2i] : 0 <= i < 3 or i = 7 }"),
        # Both sides are boxes; which goes with which is more than equations say.
        ("{ [i, j] -> [k] : 0 <= i, j, k < 4 and k <= i + j }",
         "{ [i, j] -> [k] : 0 <= i, j, k < 4 and k <= i + j }"),
        # A triangle is one polyhedron.
        ("{ [i, j] -> [i] : exists a, b : i = 4a + b "
         "and 0 <= a < 3 and 0 <= b < 4 and 0 <= j <= i }",
         "{ [i, j] -> [i] : 0 <= j <= i < 12 }"),
    ],
)  # fmt: skip
def test_the_same_map(text: str, simple: str) -> None:
    integers = Integers()
    made, wanted = (integers.map(form) for form in (text, simple))
    found = tidy_map(integers, made)
    assert found.is_equal(made) and found.is_equal(wanted)
    assert not found.wrap().involves_locals()


def test_sides_without_an_end_are_in_no_box() -> None:
    integers = Integers()
    made = integers.map("{ [i, j] -> [i] : exists a : i = 3a and j >= i and i >= 0 }")
    assert tidy_map(integers, made).is_equal(made)
