"""Which axes stand for those of an intrinsic, and which layouts suit an access."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tileloom.compat.tvm import tir
from tileloom.compat.tvm.tir.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    has_block,
    is_output_block,
    suggest_index_map,
)
from tileloom.expr.evaluate import evaluate
from tileloom.script import parse

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((SIZE, SIZE), "float32"), B: T.Buffer((SIZE,), "float32"),
         C: T.Buffer((SIZE, SIZE), "KIND"), D: T.Buffer((SIZE, SIZE), "float32"), n: T.float32):
    with T.block("root"):
        T.reads(A[0:SIZE, 0:SIZE])
        T.writes(C[0:SIZE, 0:SIZE])
        for i, j in T.grid(SIZE, SIZE):
            with T.block("C"):
                x = T.axis.spatial(SIZE, i)
                y = T.axis.spatial(SIZE, j)
                STORE
"""


def program(value: str, size: int, kind: str = "float32") -> Any:
    store = value if "C[" in value else f"C[x, y] = {value}"
    text = PROGRAM.replace("SIZE", str(size)).replace("KIND", kind)
    return parse(text.replace("STORE", store.replace("\n", "\n                ")))


ONE = "A[x, y] * B[y]"


@pytest.mark.parametrize(
    ("value", "wanted", "axes"),
    [
        (ONE, ONE, "x, y"),
        ("A[y, x] * B[x]", ONE, "y, x"),
        ("D[x, y] * B[y]", ONE, "x, y"),  # whatever the names
        (f"{ONE} + A[x, y]", f"{ONE} + A[x, y]", "x, y"),
        (f"{ONE} + A[y, x]", f"{ONE} + A[x, y]", None),  # another place of one buffer
        (f"{ONE} + A[x, y]", f"{ONE} + A[y, x]", None),
        (f"{ONE} + D[x, y]", f"{ONE} + A[x, y]", None),  # another buffer
        (f"{ONE} + A[x, y]", f"{ONE} + D[x, y]", None),
        ("A[x, y] + B[y]", ONE, None),  # another operation
        (f"T.exp({ONE})", f"T.exp({ONE})", "x, y"),
        (f"T.exp({ONE})", f"T.log({ONE})", None),
        (f"{ONE} * T.float32(2)", f"{ONE} * T.float32(2)", "x, y"),
        (f"{ONE} * T.float32(2)", f"{ONE} * T.float32(3)", None),
        (f"T.pow({ONE}, T.float32(2))", f"T.pow({ONE}, T.float32(2))", "x, y"),
        (f"{ONE} + T.Cast('float32', x)", f"{ONE} + T.Cast('float32', x)", None),
        (f"{ONE} * n", f"{ONE} * n", None),
        ("A[x, y] * B[x + y]", ONE, None),  # both axes index the same buffers
        (f"if x < 2:\n    C[x, y] = {ONE}", ONE, None),
        (ONE, f"if x < 2:\n    C[x, y] = {ONE}", None),
        ("A[x, y]", "A[x, y]", None),  # axes that cannot be told apart
    ],
)
def test_axes_of_intrinsics(value: str, wanted: str, axes: str | None) -> None:
    sch = tir.Schedule(program(value, 8))
    info = get_auto_tensorize_mapping_info(sch, sch.get_block("C"), program(wanted, 4))
    if axes is None:
        assert info is None
        return
    assert info is not None
    (found,) = info.mappings
    assert ", ".join(map(str, found.final_indices)) == axes
    assert get_auto_tensorize_mapping_info(sch, "C", program(wanted, 4)) is not None


def test_types_of_intrinsics() -> None:
    sch = tir.Schedule(program(f"T.Cast('int32', {ONE})", 8, "int32"))
    assert get_auto_tensorize_mapping_info(sch, "C", program(ONE, 4)) is None
    same = program(f"T.Cast('int32', {ONE})", 4, "int32")
    assert get_auto_tensorize_mapping_info(sch, "C", same) is not None


@pytest.mark.parametrize(
    ("size", "padded", "paddings"),
    [(4, False, ()), (8, True, ()), (3, False, None), (3, True, (3, 3)), (16, True, (16, 16))],
)
def test_loops_of_intrinsics(size: int, padded: bool, paddings: Any) -> None:
    sch = tir.Schedule(program(ONE, 8))
    info = get_tensorize_loop_mapping(sch, "C", program(ONE, size), padded)
    if paddings is None:
        assert info is None
        return
    assert info is not None
    i, j = sch.get_loops(sch.get_block("C"))
    names = {sch.get_sref(loop): name for loop, name in ((i, "i"), (j, "j"))}
    assert {names[ours]: theirs.loop_var.name for ours, theirs in info.loop_map.items()} == {
        "i": "i", "j": "j",
    }  # fmt: skip
    assert sorted(info.desc_loop_indexer.values()) == [0, 1]
    assert (info.block_iter_paddings and tuple(info.block_iter_paddings)) == (paddings or None)


def test_what_schedules_have() -> None:
    text = PROGRAM.replace("T.writes(C[0:SIZE, 0:SIZE])", """T.writes(C[0:SIZE, 0:SIZE])
        S = T.alloc_buffer((4, 4), "float32")
        for i, j in T.grid(4, 4):
            with T.block("S"):
                x = T.axis.spatial(SIZE, i)
                y = T.axis.spatial(SIZE, j)
                S[x, y] = A[x, y]""")  # fmt: skip
    text = text.replace("SIZE", "4").replace("KIND", "float32")
    sch = tir.Schedule(parse(text.replace("STORE", "C[x, y] = S[x, y] * B[y]")))
    assert is_output_block(sch, "C") and not is_output_block(sch, sch.get_block("S"))
    assert has_block(sch, "S") and has_block(sch, "root") and not has_block(sch, "s")


Access = Callable[..., list[Any]]


@pytest.mark.parametrize(
    ("shape", "extents", "access"),
    [
        ((8, 6), (6, 8), lambda i, j: [j, i]),
        ((8, 6), (8, 2, 3), lambda i, j, k: [i, k * 2 + j]),
        ((8, 6), (2, 6, 4), lambda i, j, k: [k * 2 + i, j]),
        ((48,), (8, 6), lambda i, j: [j * 8 + i]),
        ((24,), (48,), lambda i: [i // 2]),
        ((24,), (48,), lambda i: [i % 24]),
        ((12,), (8, 6), lambda i, j: [(i * 6 + j) // 4]),
        ((24,), (8, 6), lambda i, j: [(i * 6 + j) // 2]),
        ((12,), (8, 6), lambda i, j: [(i * 6 + j) % 12]),
        ((4, 6), (8, 6), lambda i, j: [(i * 6 + j) // 12, (i * 6 + j) // 2 % 6]),
        ((4, 12), (8, 6), lambda i, j: [(j * 8 + i) % 4, (j * 8 + i) // 4]),
        ((6, 8), (48,), lambda i: [i % 6, i // 6]),
        ((2, 3, 4), (24,), lambda i: [i % 2, i // 8, i // 2 % 4]),
        ((4, 4), (4, 4, 3), lambda i, j, k: [j, i]),
        ((64,), (4, 4, 4), lambda i, j, k: [i + j * 16 + k * 4]),
        ((8,), (2, 3), lambda i, j: [i * 4 + j]),
    ],
)
def test_layouts_follow_the_loops(
    shape: tuple[int, ...], extents: tuple[int, ...], access: Access
) -> None:
    """No two elements come to one place, and places only grow as the loops go on."""
    loop_vars = [tir.Var(name, "int32") for name in "ijk"[: len(extents)]]
    loops = [
        tir.For(var, 0, extent, tir.ForKind.SERIAL, tir.Evaluate(0))
        for var, extent in zip(loop_vars, extents, strict=True)
    ]
    given = access(*loop_vars)
    found = suggest_index_map(tir.decl_buffer(shape, "float32", "A"), given, loops)
    if found is None:
        assert shape == (8,) or "// 4" in str(given), "elements are skipped, or digits are cut"
        return
    places, elements = [], []
    for values in itertools.product(*(range(n) for n in extents)):
        env = dict(zip(loop_vars, values, strict=True))
        element = [int(evaluate(index, env)) for index in given]
        at = dict(zip(found.initial_indices, element, strict=True))
        elements.append(tuple(element))
        places.append(tuple(int(evaluate(index, at)) for index in found.final_indices))
    assert len(set(places)) == len(set(elements)) == len(set(zip(places, elements, strict=True)))
    first = list(dict.fromkeys(places))
    assert first == sorted(first)
