"""Programs as data: written and read again, laid out for sizes, and dispatched by them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tileloom.base.dtype import dtype
from tileloom.base.panels import pack_panels
from tileloom.base.polynomial import Polynomial
from tileloom.runtime import serialized
from tileloom.runtime.device import HOST
from tileloom.runtime.executable import HostStep, Operand, Value
from tileloom.runtime.polymorphic import PolymorphicExecutable
from tileloom.runtime.serialized import (
    Panels,
    SerializedCall,
    SerializedExecutable,
    Step,
    digest,
    parameter,
)

N: Any
M: Any
N, M = Polynomial.symbol("n"), Polynomial.symbol("m")
FLOAT, BYTE = dtype("float32"), dtype("uint8")
MATRIX = np.arange(15, dtype=np.float32).reshape(1, 3, 5)
PACKED = pack_panels(MATRIX[0], False, 4)
OWN = np.arange(6, dtype=np.int16).reshape(2, 3)


def program(**others: object) -> SerializedExecutable:
    operands = (
        Operand("value", 0, (N, 4), FLOAT),
        Operand("workspace", 1, (M,), BYTE),
        Operand("constant", 1, (3,), FLOAT),
    )
    step = Step(
        "run",
        (Value(0, (N, 4), FLOAT),),
        (Value(1, (N * 2,), FLOAT),),
        sizes=("m", "n"),
        arena=((N * 4, 0, 1), (M, 1, 2), (64, 2, 3)),
        calls=(SerializedCall("k", operands), SerializedCall("plain", operands[:1])),
    )
    fields: dict[str, Any] = {
        "constants": {3: OWN, 4: MATRIX, 5: PACKED},
        "symbols": {"own": OWN[:1], "given": MATRIX},
        "panels": [Panels(PACKED, MATRIX, (False, 4, 1, 1))],
        "replaced": {0: 0},
        "guards": (N - 2, M - N),
        "buckets": {"k": [("k_large", [N - 8, M - 9]), ("k_any", [])], "one": [("same", [])]},
        "numbers": {"k_large": (N + M, 7), "plain": (N,)},
    }
    inputs = (("", Value(0, (N, 4), FLOAT)), ("y", Value(2, (3,), FLOAT)))
    return SerializedExecutable(
        "f", inputs, (Value(1, (N * 2,), FLOAT),), (step,), **{**fields, **others}
    )


def test_programs_are_read_as_they_were_written() -> None:
    before = program()
    data: Any = before.to_bytes({id(MATRIX): "d"}, b"code\nof it")
    after, code = SerializedExecutable.from_bytes(data, {"d": MATRIX})
    assert code == b"code\nof it"
    for name in ("name", "inputs", "outputs", "steps", "replaced", "guards", "buckets", "numbers"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.constants[4] is MATRIX is after.symbols["given"]
    for found, wanted in [
        (after.constants[3], OWN), (after.symbols["own"], OWN[:1]), (after.constants[5], PACKED),
    ]:  # fmt: skip
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
        assert found.ctypes.data % 64 == 0 and found.flags.writeable


def test_what_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = program(panels=[], constants={3: OWN}, symbols={})
    for most, kept in ((11, False), (12, True)):
        monkeypatch.setattr(serialized, "MOST_CONSTANT_BYTES", most)
        assert (plain.to_bytes({}, b"") is not None) is kept
    # What the reader has, and panels of that, cost nothing.
    given = program(constants={4: MATRIX, 5: PACKED}, symbols={})
    assert given.to_bytes({id(MATRIX): "d"}, b"") is not None
    assert given.to_bytes({}, b"") is None
    host = Step("h", (), (), host=lambda sizes: None)
    one = SerializedExecutable("f", (), (), (host,))
    assert one.to_bytes({}, b"") is None


@pytest.mark.parametrize(
    ("n", "m", "kernel", "numbers", "holds"),
    [(8, 9, "k_large", (17, 7), True), (7, 9, "k_any", (), True), (8, 8, "k_any", (), True),
     (2, 2, "k_any", (), True), (1, 2, "k_any", (), False), (3, 2, "k_any", (), False)],
)  # fmt: skip
def test_programs_at_sizes(
    n: int, m: int, kernel: str, numbers: tuple[int, ...], holds: bool
) -> None:
    sizes = {"n": n, "m": m}
    at = program().at(sizes)
    assert [v.shape for _, v in at.inputs] == [(n, 4), (3,)] and at.outputs[0].shape == (2 * n,)
    (step,) = at.steps
    assert step.reads[0].shape == (n, 4) and step.writes[0].shape == (2 * n,)
    # Of these three only neighbours are alive together.
    first, second, third, total = step.numbers[2:]
    assert step.numbers[:2] == (m, n) and total == step.arena_bytes == 128
    assert first == third != second and {first, second} == {0, 64}
    chosen, plain = step.calls
    assert (chosen.kernel, chosen.numbers) == (kernel, numbers)
    assert (plain.kernel, plain.numbers) == ("plain", (n,))
    assert [(o.place, o.shape) for o in chosen.operands] == [(0, (n, 4)), (second, (m,)), (1, (3,))]
    code = SimpleNamespace(each_size={"k_any": "it is small"})
    polymorphic = PolymorphicExecutable(program(), code)
    assert polymorphic.holds(sizes) is holds
    assert polymorphic.kernels(sizes) == {"k": kernel, "one": "same"}


def test_explanations() -> None:
    twice = {"k": [("large", [N - 8, M - 9]), ("any", [N - 4]), ("any", [])], "one": [("it", [])]}
    code = SimpleNamespace(each_size={"k": "why"})
    polymorphic = PolymorphicExecutable(program(buckets=twice), code)
    lines = {
        (8, 9): ["  -> large where n - 8 >= 0 and m - 9 >= 0", "     any where n - 4 >= 0",
                 "     any where always"],
        (8, 8): ["     large where n - 8 >= 0 and m - 9 >= 0", "  -> any where n - 4 >= 0",
                 "     any where always"],
        (3, 8): ["     large where n - 8 >= 0 and m - 9 >= 0", "     any where n - 4 >= 0",
                 "  -> any where always"],
    }  # fmt: skip
    for (n, m), wanted in lines.items():
        assert polymorphic.explain({"n": n, "m": m}).splitlines() == [
            f"n = {n}, m = {m}", "right where n - 2 >= 0", "right where m - n >= 0", "k: 3 buckets",
            *wanted, "one: 1 bucket", "  -> it where always", "k is compiled for each size: why",
        ]  # fmt: skip


def test_steps_that_know_their_sizes_are_kept() -> None:
    native = Step("run", (Value(0, (2,), FLOAT),), (), 128)
    host = Step("h", (), (Value(1, (N,), FLOAT),), host=lambda sizes: lambda read: sizes["n"])
    assert native.at(program(), {"n": 3}) is native
    sized = Step("run", (Value(0, (N,), FLOAT),), (), sizes=("n",), arena=((N, 0, 0),))
    at = sized.at(program(), {"n": 65})
    assert (at.numbers, at.arena_bytes, at.reads[0].shape) == ((65, 0, 128), 128, (65,))
    at = host.at(program(), {"n": 3})
    assert at.host([]) == 3 and at.writes[0].shape == (3,)
    code = SimpleNamespace(constants={}, device=HOST, ready=lambda k, step, sizes: (k, step, sizes))
    two = SerializedExecutable("f", (("", Value(0, (2,), FLOAT)),), (), (at, at))
    steps = two.executable(code, {}).steps
    assert [type(step) for step in steps] == [HostStep, HostStep]
    assert two.names == ["argument0"] and program().names == ["argument0", "y"]


def test_digests_differ() -> None:
    arrays: list[Any] = [
        OWN, OWN.reshape(3, 2), OWN.astype(np.int32), OWN + 1, OWN.T, OWN.view(np.uint16),
        np.zeros((), np.int16), np.zeros((0,), np.int16), np.zeros((0, 2), np.int16),
    ]  # fmt: skip
    assert len({digest(each) for each in arrays}) == len(arrays)
    assert digest(np.asfortranarray(OWN)) == digest(OWN.copy())


def test_parameters_have_formulas_as_text() -> None:
    param = parameter("x", Value(0, (N * 2, 3), FLOAT), "rw")
    assert (param.shape, param.access, param.dtype) == (("2*n", 3), "rw", FLOAT)
