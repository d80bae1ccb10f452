"""Which loops are written out, by their kind, their lengths and the notes around them."""

from __future__ import annotations

import pytest

from lower.pass_texts import SAME, check_text

NOTE = '{"pragma_auto_unroll_max_step": %d}'
A0 = "A[0] = T.float32(1.0)"


def noted(steps: int, extent: int, *more: str) -> str:
    extra = "".join(f", {part}" for part in more)
    notes = (NOTE % steps).replace("}", extra + "}")
    return f"for i in T.serial({extent}, annotations={notes}):"


CASES = [
    (noted(1, 1) + "\n    A[i] = 1.0", A0),
    (noted(4, 0) + "\n    A[i] = 1.0", "for i in range(0):\n    A[i] = T.float32(1.0)"),
    (noted(0, 1) + "\n    A[i] = 1.0", "for i in range(1):\n    A[i] = T.float32(1.0)"),
    (noted(2, 1) + "\n    A[i] = 1.0\n    A[i + 1] = 1.0", A0 + "\nA[1] = T.float32(1.0)"),
    (noted(1, 1) + "\n    A[i] = 1.0\n    A[i + 1] = 1.0",
     "for i in range(1):\n    A[i] = T.float32(1.0)\n    A[i + 1] = T.float32(1.0)"),
    (noted(2, 3, '"pragma_unroll_explicit": 0') + "\n    A[i] = 1.0",
     "for i in range(3):\n    A[i] = T.float32(1.0)"),
    (noted(3, 3, '"pragma_unroll_explicit": 0') + "\n    A[i] = 1.0",
     "for i in T.unroll(3):\n    A[i] = T.float32(1.0)"),
    # Vectorized and parallel loops stay; so does one of unknown length.
    ("for i in T.parallel(2, annotations=%s):\n    A[i] = 1.0" % (NOTE % 9),
     "for i in T.parallel(2):\n    A[i] = T.float32(1.0)"),
    ("for i in T.serial(n, annotations=%s):\n    A[i] = 1.0" % (NOTE % 9),
     "for i in range(n):\n    A[i] = T.float32(1.0)"),
    ("for i in T.unroll(0):\n    A[i] = 1.0\nA[0] = 1.0", A0),
    ("for i in range(2):\n    A[i] = 1.0", SAME),
    ("for i in T.unroll(4097):\n    A[i] = 1.0", SAME),
    ("for i in T.unroll(2):\n    for j in range(2049):\n        A[j] = 1.0", SAME),
    # What is said around a loop holds inside, and no further.
    ('with T.attr(0, "pragma_auto_unroll_max_step", 1):\n'
     "    for i in range(1):\n        A[i] = 1.0\nfor i in range(1):\n    A[i + 2] = 1.0",
     A0 + "\nfor i in range(1):\n    A[i + 2] = T.float32(1.0)"),
    ('with T.attr(0, "pragma_unroll_explicit", 0):\n    ' + noted(1, 1) + "\n        A[i] = 1.0\n"
     + noted(1, 1) + "\n    A[i] = 1.0",
     "for i in T.unroll(1):\n    A[i] = T.float32(1.0)\n" + A0),
    (noted(1, 2) + "\n    for j in range(1):\n        A[j] = 1.0",
     f"for i in range(2):\n    {A0}"),
    (noted(2, 2) + "\n    for j in range(1):\n        A[j] = 1.0\n"
     "for j in range(1):\n    A[j] = 2.0",
     f"{A0}\n{A0}\nfor j in range(1):\n    A[j] = T.float32(2.0)"),
    ('with T.attr(0, "other", 3):\n    for i in T.unroll(1, 2):\n        A[i] = 1.0',
     'T.attr(0, "other", 3)\nA[1] = T.float32(1.0)'),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES)
def test_unroll_loops(before: str, after: str) -> None:
    check_text("unroll_loops", before, after)
