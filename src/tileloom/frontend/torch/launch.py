"""Programs of one native step as functions of PyTorch tensors: pointers in, new tensors out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

import torch

from ...base import DType, dtype
from ...runtime.executable import Executable, NativeStep, Value
from ...runtime.pool import pool

#: Types that NumPy does not have, and as which of its types it carries them.
CARRIERS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
Make = Callable[[], torch.Tensor]
Run = Callable[..., list[torch.Tensor]]
#: Shape and strides in elements of a result; None where the tensor is what is wanted.
View = tuple[tuple[int, ...], tuple[int, ...]] | None


def maker(shape: Sequence[int], kind: DType) -> Make:
    """What gives uninitialised tensors in pooled memory."""
    if 0 in shape:  # NumPy would give strides of 0
        return partial(torch.empty, tuple(shape), dtype=getattr(torch, kind))
    carrier = CARRIERS.get(kind)
    allocate, wrap = pool.allocator(tuple(shape), dtype(carrier or kind)), torch.from_numpy
    if carrier is None:
        return lambda: wrap(allocate())
    exact = getattr(torch, kind)
    return lambda: wrap(allocate()).view(exact)


def _nothing() -> torch.Tensor:
    return _EMPTY


_EMPTY = torch.empty(0, dtype=torch.uint8)


def direct(executable: Executable, views: Sequence[View]) -> Run | None:
    """The program as one launch on pointers; None if it is more than a native step."""
    if len(executable.steps) != 1 or not isinstance(executable.steps[0], NativeStep):
        return None
    step, count = executable.steps[0], len(executable.inputs)
    made_at = {value.slot: k for k, value in enumerate(step.writes)}
    if any(value.slot >= count for value in step.reads) or min(made_at, default=count) < count:
        return None
    if any(value.slot not in made_at and value.slot >= count for value in executable.outputs):
        return None
    reads = [value.slot for value in step.reads]
    chosen = reads if reads != list(range(count)) else None
    makers = [maker(value.shape, value.dtype) for value in step.writes]
    scratch = maker((step.arena_bytes,), dtype("uint8")) if step.arena_bytes else _nothing
    numbers = step.numbers_in_memory  # those that the kernel takes after its scratch memory
    tail = [numbers.ctypes.data + 8 * k for k in range(len(numbers))]
    table = ctypes.c_void_p * (len(reads) + len(makers) + 1 + len(tail))
    launch, address = step.kernel.launch, ctypes.addressof
    finish = _finish(executable.outputs, views, step.writes, made_at)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = [t if t.is_contiguous() else t.contiguous() for t in tensors]
        made = [make() for make in makers]
        read = given if chosen is None else [given[slot] for slot in chosen]
        held = [*read, *made, scratch()]
        pointers = table(*[t.data_ptr() for t in held], *tail)
        launch(address(pointers))
        return made if finish is None else finish(given, made)

    run.numbers = numbers  # type: ignore[attr-defined]  # their addresses alone keep no memory
    return run


def _finish(
    outputs: Sequence[Value],
    views: Sequence[View],
    writes: Sequence[Value],
    made_at: dict[int, int],
) -> Callable[[list[torch.Tensor], list[torch.Tensor]], list[torch.Tensor]] | None:
    """From inputs and written tensors to results; None where the written ones are the results.

    A result that is an input, or another result, is copied: nobody expects them to share memory.
    """
    if tuple(outputs) == tuple(writes) and not any(views):
        return None
    plan, seen = [], set()
    for value, view in zip(outputs, views, strict=True):
        place, fresh = made_at.get(value.slot), value.slot not in seen
        seen.add(value.slot)
        copied = place is None or not fresh
        shape = value.shape if place is None or writes[place].shape != value.shape else None
        plan.append((place, value.slot, copied, shape, view))

    def finish(given: list[torch.Tensor], made: list[torch.Tensor]) -> list[torch.Tensor]:
        results = []
        for place, slot, copied, shape, view in plan:
            tensor = given[slot] if place is None else made[place]
            if copied:
                tensor = tensor.detach().clone()
            if view is not None:
                tensor = tensor.as_strided(*view)
            elif shape is not None:
                tensor = tensor.view(shape)
            results.append(tensor)
        return results

    return finish
