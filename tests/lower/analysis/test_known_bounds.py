"""What conditions say of numbers, how lanes are divided, and in what type rows are indexed."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.expr import And, Not, Or, Ramp, Var, cast, const, intrin
from tileloom.expr.bounds import BoundAnalyzer, ConstIntBound
from tileloom.lower.analysis.known_bounds import under
from tileloom.lower.analysis.lanes import floor_divide, floor_remainder
from tileloom.lower.analysis.row_major import index_type
from tileloom.tir import BufferLoad, make_buffer

I, J, P = Var("i"), Var("j"), Var("p", "bool")
KNOWN = BoundAnalyzer({I: ConstIntBound(0, 99), J: ConstIntBound(0, 7)})
LOADED = BufferLoad(make_buffer((4,), "int32", "A"), [const(0)])


@pytest.mark.parametrize(
    ("guard", "bound"),
    [
        (I < 10, (0, 9)), (I <= 10, (0, 10)), (I > 10, (11, 99)), (I >= 10, (10, 99)),
        (const(10) > I, (0, 9)), (const(10) >= I, (0, 10)), (const(10) < I, (11, 99)),
        (const(10) <= I, (10, 99)), (I == 10, (10, 10)), (I != 10, (0, 99)),
        (I < J, (0, 6)), (I <= J, (0, 7)), (J > I, (0, 6)), (J >= I, (0, 7)), (I > J, (1, 99)),
        (I == J, (0, 7)),
        (I + 3 < 10, (0, 6)), (I - 3 < 10, (0, 12)), (I * 4 < 10, (0, 2)), (I * 4 > 10, (3, 99)),
        (I * 4 + 2 >= 10, (2, 99)), (I * -4 > -10, (0, 99)), (cast("int64", I) < const(5, "int64"),
                                                             (0, 4)),
        (Not(I < 10), (10, 99)), (Not(I >= 10), (0, 9)), (Not(I > 10), (0, 10)),
        (Not(I <= 10), (11, 99)), (Not(I == 10), (0, 99)), (Not(I != 10), (10, 10)),
        (Not(Not(I < 10)), (0, 9)), (Not(Or(I < 10, I > 20)), (10, 20)),
        (And(I > 3, I < 10), (4, 9)), (Or(I > 3, I < 10), (0, 99)), (P, (0, 99)),
        (intrin.likely(I < 10), (0, 9)), (Not(intrin.likely(I < 10)), (10, 99)),
        (I < LOADED, (0, 99)), (const(True), (0, 99)),
        (I < 0, None), (I > 99, None), (And(I < 5, I > 5), None), (const(False), None),
    ],
)  # fmt: skip
def test_bounds_under_a_guard(guard: Any, bound: Any) -> None:
    known = under(KNOWN, (guard,))
    found = None if known is None else (known.of(I)[0], known.of(I)[1])
    assert found == bound


@pytest.mark.parametrize(
    ("ramp", "by", "quotient", "remainder"),
    [
        (Ramp(I * 8, const(8), 4), 4, "T.Ramp(i * 8 // 4, 2, 4)", None),
        (Ramp(I * 8, const(1), 4), 4, "T.Broadcast(i * 2, 4)", "T.Ramp(0, 1, 4)"),
        (Ramp(I * 8 + 4, const(1), 4), 8, "T.Broadcast(i, 4)", "T.Ramp(4, 1, 4)"),
        (Ramp(I * 8 + 7, const(-1), 8), 8, "T.Broadcast(i, 8)", "T.Ramp(7, -1, 8)"),
        (Ramp(I * 8 + 6, const(-1), 8), 8, "across", "across"),
        (Ramp(I * 8 + 5, const(1), 4), 8, "across", "across"),
        (Ramp(I, const(1), 4), 8, "across", "across"),
        (Ramp(I * 8, const(1), 9), 8, "across", "across"),
    ],
)
def test_lanes_divided(ramp: Ramp, by: int, quotient: str, remainder: str | None) -> None:
    values = {"across": f"{ramp} // T.Broadcast({by}, {ramp.lanes})"}
    whole = floor_divide(ramp, const(by))
    shown = str(whole) if whole.dtype.lanes > 1 else f"T.Broadcast({whole}, {ramp.lanes})"
    assert shown == values.get(quotient, quotient)
    if remainder is not None:
        rest = str(floor_remainder(ramp, const(by)))
        assert rest == values.get(remainder, remainder).replace("//", "%")


@pytest.mark.parametrize(
    ("shape", "fields", "kind"),
    [
        ((1 << 16, 1 << 15), {}, "int64"), ((1 << 16, (1 << 15) - 1), {}, "int32"),
        ((4, 4), {"strides": (1 << 29, 1)}, "int64"), ((4, 4), {"strides": (1 << 28, 1)}, "int32"),
        ((4, 4), {"elem_offset": const((1 << 31) - 8)}, "int64"),
        ((4, 4), {"elem_offset": const(1 << 20)}, "int32"),
        ((4, 4), {"elem_offset": I}, "int64"), ((4, I), {}, "int64"), ((I,), {}, "int32"),
        ((4,), {"strides": (I,)}, "int64"), ((0, 1 << 40), {}, "int64"), ((), {}, "int32"),
        ((Var("l", "int64"),), {}, "int64"),
    ],
)  # fmt: skip
def test_types_of_flat_indices(shape: Any, fields: dict[str, Any], kind: str) -> None:
    assert index_type(make_buffer(shape, "float32", "A", **fields)) == kind
