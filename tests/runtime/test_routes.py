"""Which way a program takes through its steps, and what it makes of its arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tileloom.base.dtype import dtype
from tileloom.base.errors import ArgumentError
from tileloom.runtime import ParamSpec
from tileloom.runtime.device import HOST
from tileloom.runtime.executable import (
    BoundLaunch,
    Executable,
    HostStep,
    LaunchStep,
    NativeStep,
    Operand,
    Value,
)

FLOAT = dtype("float32")
SHAPE = (2, 3)


def value(slot: int, shape: tuple[int, ...] = SHAPE) -> Value:
    return Value(slot, shape, FLOAT)


def values(slots: Sequence[int]) -> tuple[Value, ...]:
    return tuple(value(slot) for slot in slots)


def number(name: str, implicit: bool = False) -> ParamSpec:
    return ParamSpec(name, "scalar", dtype("int64"), implicit=implicit)


class Python:
    """A kernel in Python: what it writes first is `sum of (place + 1) * read`, next that plus 1."""

    def __init__(self, reads: int, writes: int, arena: int = 0, extra: Sequence[Any] = ()) -> None:
        names = [f"a{k}" for k in range(reads + writes)]
        self.params = [
            *(ParamSpec(name, "buffer", FLOAT, SHAPE) for name in names),
            ParamSpec("arena", "buffer", dtype("uint8"), (arena,)),
            *extra,
        ]
        self.reads, self.count = reads, reads + writes
        self.how: list[str] = []
        self.others: list[Any] = []
        self.places: list[int] = []

    def __call__(self, *args: Any) -> None:
        arrays = args[: self.count]
        self.how.append("called")
        if not all(isinstance(each, np.ndarray) for each in args[: self.count + 1]):
            raise ArgumentError("not an array")
        if len(args) != len([p for p in self.params if not p.implicit]):
            raise ArgumentError("not so many")
        for k, each in enumerate(arrays):
            written = k >= self.reads
            shared = written and any(np.may_share_memory(each, o) for o in arrays[:k])
            if each.shape != SHAPE or not each.flags.c_contiguous or shared:
                raise ArgumentError("not as it must be")
            if written and not each.flags.writeable:
                raise ArgumentError("read-only")
        self.others = [args[self.count].nbytes, *args[self.count + 1 :]]
        self._compute(arrays)

    def launch(self, address: int) -> None:
        self.how.append("launched")
        pointers: Any = (ctypes.c_void_p * len(self.params)).from_address(address)
        self.places = pointers[: self.count]
        kind = ctypes.POINTER(ctypes.c_float)
        self._compute(
            [
                np.ctypeslib.as_array(ctypes.cast(pointer, kind), SHAPE)
                for pointer in pointers[: self.count]
            ]
        )
        self.others = [
            ctypes.c_int64.from_address(pointer).value for pointer in pointers[self.count + 1 :]
        ]

    def _compute(self, arrays: Sequence[Any]) -> None:
        total = sum((k + 1) * each for k, each in enumerate(arrays[: self.reads]))
        for k, each in enumerate(arrays[self.reads :]):
            each[...] = total + k


def program(
    inputs: int,
    reads: Sequence[int],
    writes: Sequence[int],
    outputs: Sequence[Value],
    replaced: Mapping[int, int] | None = None,
) -> tuple[Executable, Python]:
    kernel = Python(len(reads), len(writes))
    step = NativeStep(kernel, values(reads), values(writes), 0)  # type: ignore[arg-type]
    params = [ParamSpec(f"x{k}", "buffer", FLOAT, SHAPE) for k in range(inputs)]
    return Executable("f", params, outputs, [step], {}, replaced), kernel


def arrays(count: int) -> list[np.ndarray]:
    return [np.arange(6, dtype=np.float32).reshape(SHAPE) * (k + 1) for k in range(count)]


@pytest.mark.parametrize(
    ("inputs", "reads", "writes", "outputs", "replaced", "how"),
    [
        (2, (0, 1), (2,), (2,), {}, "called"),
        (2, (1, 0), (2,), (2,), {}, "called"),
        (2, (0, 1), (2, 3), (2, 3), {}, "called"),
        (2, (0, 1), (2, 3), (3, 2), {}, "called"),
        (2, (0, 1), (2, 3), (3,), {}, "called"),
        (1, (0,), (1,), (1,), {}, "called"),
        (2, (1,), (0,), (0,), {0: 0}, "called"),
        (2, (0,), (1, 2), (2, 1), {1: 1}, "called"),
        # Inputs that the step does not check, or checks twice.
        (2, (0,), (2,), (2,), {}, "launched"),
        (2, (0, 0), (2,), (2,), {}, "launched"),
        (1, (0, 0), (1,), (1,), {}, "launched"),
        # Outputs that it does not make, or makes once for two.
        (1, (0,), (1,), (0,), {}, "launched"),
        (1, (0,), (1,), (1, 1), {}, "launched"),
        (1, (0,), (1,), (1, 0), {}, "launched"),
        # An input gets a new value that the step writes elsewhere.
        (2, (0, 1), (2,), (2,), {0: 1}, "launched"),
    ],
)
def test_routes(
    inputs: int,
    reads: Any,
    writes: tuple[int, ...],
    outputs: tuple[int, ...],
    replaced: dict[int, int],
    how: str,
) -> None:
    function, kernel = program(inputs, reads, writes, values(outputs), replaced)
    given = arrays(inputs)
    slots = dict(enumerate(arrays(inputs)))
    total: Any = sum((k + 1) * slots[slot] for k, slot in enumerate(reads))
    slots |= {slot: total + k for k, slot in enumerate(writes)}
    before = arrays(inputs)
    results = function(*given)
    assert kernel.how == [how]
    for k, (slot, result) in enumerate(zip(outputs, results, strict=True)):
        assert np.array_equal(result, slots[slot])
        if k in replaced:
            assert result is given[replaced[k]]
        else:
            assert not any(np.shares_memory(result, other) for other in (*given, *results[:k]))
    for k in set(range(inputs)) - set(replaced.values()):
        assert np.array_equal(given[k], before[k])
    alone, _ = program(inputs, reads, writes, values(outputs), replaced)
    assert np.array_equal(alone.single(*arrays(inputs)), slots[outputs[0]])


@pytest.mark.parametrize(
    ("writes", "outputs", "how"),
    [((1,), ((1, (6,)),), "called"), ((1, 2), ((2, (3, 2)), (1, SHAPE)), "called"),
     ((1, 2), ((1, SHAPE), (2, (6, 1))), "called")],
)  # fmt: skip
def test_outputs_in_shapes_of_their_own(
    writes: tuple[int, ...], outputs: tuple[tuple[int, tuple[int, ...]], ...], how: str
) -> None:
    function, kernel = program(1, (0,), writes, [value(*each) for each in outputs])
    results = function(*arrays(1))
    assert kernel.how == [how] and [r.shape for r in results] == [s for _, s in outputs]
    for (slot, _), result in zip(outputs, results, strict=True):
        assert np.array_equal(result.ravel(), arrays(1)[0].ravel() + (slot - 1))
    assert function.single(*arrays(1)).shape == outputs[0][1]


def test_an_input_that_is_written_in_another_shape_is_not_handed_to_the_step() -> None:
    function, kernel = program(2, (1,), (0,), [value(0, (6,))], {0: 0})
    given = arrays(2)
    (result,) = function(*given)
    assert kernel.how == ["launched"] and np.array_equal(given[0], arrays(2)[1])
    assert result is given[0]
    # What nothing else reads need not be copied.
    assert kernel.places == [given[1].ctypes.data, given[0].ctypes.data]


@pytest.mark.parametrize("reads", [(0, 1), (1, 0)])
def test_arguments_that_the_step_refuses_are_made_compact(reads: tuple[int, int]) -> None:
    function, kernel = program(2, reads, (2,), [value(2)])
    x, y = arrays(2)
    wanted = sum((k + 1) * (x, y)[slot] for k, slot in enumerate(reads))
    assert np.array_equal(function(np.asfortranarray(x), y)[0], wanted)
    assert kernel.how[0] == "called" and len(kernel.how) == 2
    assert np.array_equal(function.single(np.asfortranarray(x), y), wanted)
    for count in (1, 3):
        with pytest.raises(ArgumentError, match=rf"takes 2 arguments \(x0, x1\), got {count}"):
            function(*arrays(count))


def test_numbers_follow_the_scratch_memory() -> None:
    extra = [number("n"), number("m", implicit=True), number("k")]
    kernel = Python(1, 1, 32, extra)
    step = NativeStep(kernel, values((0,)), values((1,)), 32, (5, 6, 7))  # type: ignore[arg-type]
    assert step.numbers_passed == (5, 7)
    param = ParamSpec("x", "buffer", FLOAT, SHAPE)
    quick: Any = Executable("f", [param], values((1,)), [step], {})
    for call in (lambda x: quick(x)[0], quick.single):
        assert np.array_equal(call(arrays(1)[0]), arrays(1)[0])
        assert kernel.others == [32, 5, 7]
    Executable("f", [param], values((0, 1)), [step], {})(*arrays(1))
    assert kernel.how[-1] == "launched" and kernel.others == [5, 6, 7]


def test_what_is_replaced() -> None:
    function, kernel = program(2, (1,), (0,), values((0,)), {0: 0})
    x, y = arrays(2)
    x.flags.writeable = False
    with pytest.raises(ArgumentError, match="f: 'x0' is written, and read-only"):
        function(x, y)
    assert kernel.how == ["called"]
    # Where the new value would be written over what is read, it is made elsewhere first.
    block = np.arange(9, dtype=np.float32)
    target, source = block[:6].reshape(SHAPE), block[3:].reshape(SHAPE)
    wanted = source.copy()
    (result,) = function(target, source)
    assert result is target and np.array_equal(target, wanted)


def chain(*steps: tuple[Sequence[int], Sequence[int]]) -> list[HostStep]:
    return [
        HostStep(lambda read: list(read), values(reads), values(writes)) for reads, writes in steps
    ]


@pytest.mark.parametrize(
    ("steps", "outputs", "dead"),
    [
        ([((0,), (1,)), ((1,), (2,)), ((2,), (3,))], (3,), [[0], [1], [2]]),
        ([((0,), (1,)), ((0,), (2,)), ((1, 2), (3, 4))], (3, 1), [[], [0], [2, 4]]),
        ([((0,), (1,)), ((9,), (2,))], (2,), [[0, 1], []]),
    ],
)
def test_intermediates_die_after_their_last_use(
    steps: Any, outputs: tuple[int, ...], dead: list[list[int]]
) -> None:
    param = ParamSpec("x", "buffer", FLOAT, SHAPE)
    constants = {9: arrays(2)[1]}
    function = Executable("f", [param], values(outputs), chain(*steps), constants)
    assert function._dead == dead


@pytest.mark.parametrize(
    ("made", "own"),
    [(lambda x: [x, x], (True, True)), (lambda x: [x.T, x], (True, True)),
     (lambda x: [x + 1, x], (False, True)), (lambda x: [x.copy()] * 2, (False, True))],
)  # fmt: skip
def test_what_steps_on_the_host_return_is_laid_out_and_copied(
    made: Callable[[Any], list[Any]], own: tuple[bool, bool]
) -> None:
    returned: list[Any] = []

    def step(read: Sequence[Any]) -> list[Any]:
        returned[:] = made(read[0])
        return returned

    host = HostStep(step, values((0,)), values((1, 2)))
    function = Executable("f", [ParamSpec("x", "buffer", FLOAT, SHAPE)], values((1, 2)), [host], {})
    x = arrays(1)[0]
    results: Any = function(x)
    assert not np.shares_memory(*results)
    for copied, result, source in zip(own, results, returned, strict=True):
        assert np.array_equal(result.ravel(), source.ravel()) and result.flags.c_contiguous
        assert np.shares_memory(result, source) is not copied and not np.shares_memory(result, x)


def test_operands_of_launches() -> None:
    constant, x = arrays(2)
    workspace = np.zeros(64, np.uint8)
    seen: list[np.ndarray] = []
    operands = (
        Operand("value", 0, SHAPE, FLOAT), Operand("value", 0, (6,), FLOAT),
        Operand("constant", 0, SHAPE, FLOAT), Operand("workspace", 8, (2,), FLOAT),
    )  # fmt: skip
    launch = BoundLaunch(lambda *given: seen.extend(given), operands, (3, 4))
    LaunchStep((launch,), (), (), 64, [constant], HOST).launch([x, workspace])
    given, flat, kept, part, *numbers = seen
    assert given is x and flat.shape == (6,) and np.shares_memory(flat, x) and kept is constant
    assert part.ctypes.data == workspace.ctypes.data + 8 and part.shape == (2,)
    assert numbers == [3, 4]


# ---------------------------------------------------------------------------- memory of the host


def test_arrays_of_the_host() -> None:
    x = arrays(1)[0]
    bytes_ = np.zeros(25, np.uint8)
    crooked = bytes_[1:].view(np.float32).reshape(SHAPE)
    assert HOST.take(x) is x and HOST.borrow(x) is x and HOST.to_host(x) is x
    for other in (np.asfortranarray(x), crooked, x[:, ::-1]):
        taken = HOST.take(other)
        assert taken.flags.c_contiguous and taken.flags.aligned
        assert np.array_equal(taken, other) and not np.shares_memory(taken, other)
    copy = HOST.copy(x)
    assert np.array_equal(copy, x) and not np.shares_memory(copy, x)
    assert HOST.overlap(x, x[1:]) and not HOST.overlap(x[:1], x[1:])
    assert HOST.keeps_results([x]) and not HOST.holds(x) and HOST.is_writable(x)
    x.flags.writeable = False
    assert not HOST.is_writable(x)
    part = HOST.part(np.arange(64, dtype=np.uint8), 8, (2, 3), dtype("int16"))
    assert np.array_equal(part, np.arange(8, 20, dtype=np.uint8).view(np.int16).reshape(2, 3))
