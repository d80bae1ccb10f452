"""Results written straight into the memory of the inputs that they replace.

An output of a graph may be the new value of an input: a parameter after a step of an optimiser, a
running mean. It is written where the input is, with no memory of its own and no copy, if all that
is read of the input is read before:

- by kernels that run before the one that makes the result;
- by that kernel, of each element only before it stores that very element (`plan.in_place`).

The kernel that reads and writes the memory has one parameter for it, so that nothing is promised
of two that would be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..tir import IRModule
from .entry import connect_calls
from .nodes import Tensor
from .program import KernelCall, Program, Segment


def write_in_place(program: Program, replaced: Mapping[int, int]) -> frozenset[int]:
    """Change a program so that outputs are written into inputs where that is safe.

    Args:
        replaced: the input whose new value an output is, by their positions.

    Returns:
        the outputs that are; the others must be copied when everything has run.
    """
    done: set[int] = set()
    graph = program.graph
    for output, parameter in replaced.items():
        source, target = graph.outputs[output], graph.inputs[parameter]
        result = program.storage.get(source, source)
        if _may_replace(program, result, target) and _redirect(program, result, target):
            done.add(output)
    _drop_unused(program)
    return frozenset(done)


def _drop_unused(program: Program) -> None:
    """Leave out the kernels that others stand for now."""
    used = {call.kernel for segment in program.segments for call in segment.calls}
    used |= {segment.name for segment in program.segments}
    kept = {name: func for name, func in program.module.functions.items() if name in used}
    program.module = IRModule(kept, program.module.attrs)
    program.planned = {name: made for name, made in program.planned.items() if name in kept}


# ---------------------------------------------------------------------------- segments


def _may_replace(program: Program, result: Tensor, target: Tensor) -> bool:
    """Whether the result is made by the program, fits, and the input is not an output as it was."""
    if result.node is None or result.value is not None or result.type.size != target.type.size:
        return False
    returned = {program.home(tensor) for tensor in program.graph.outputs}
    return result.dtype == target.dtype and target not in returned


def _redirect(program: Program, result: Tensor, target: Tensor) -> bool:
    makers = [k for k, segment in enumerate(program.segments) if result in segment.writes]
    if len(makers) != 1 or program.segments[makers[0]].node is not None:
        return False
    for segment in program.segments[makers[0] + 1 :]:
        if target in {program.home(tensor) for tensor in segment.reads}:
            return False
    if not _redirect_segment(program, program.segments[makers[0]], result, target):
        return False
    for tensor, home in list(program.storage.items()):
        if home is result:
            program.storage[tensor] = target
    program.storage[result] = target
    connect_calls(program, program.segments[makers[0]])
    return True


def _redirect_segment(program: Program, segment: Segment, result: Tensor, target: Tensor) -> bool:
    """Let a segment write the result into the input's memory, if that is safe."""
    homes = [[program.home(tensor) for tensor in call.tensors] for call in segment.calls]
    maker = next(k for k, tensors in enumerate(homes) if result in tensors)
    if any(target in tensors for tensors in homes[maker + 1 :]):
        return False
    if target in homes[maker]:
        merged = _merge_kernel(program, segment.calls[maker], homes[maker], result, target)
        if merged is None:
            return False
        name, kept = merged
        tensors = tuple(segment.calls[maker].tensors[k] for k in kept)
        segment.calls[maker] = KernelCall(name, tensors)
    segment.reads = tuple(tensor for tensor in segment.reads if tensor is not target)
    segment.writes = tuple(target if tensor is result else tensor for tensor in segment.writes)
    return True


# ---------------------------------------------------------------------------- kernels


def _merge_kernel(
    program: Program, call: KernelCall, homes: Sequence[Tensor], result: Tensor, target: Tensor
) -> tuple[str, list[int]] | None:
    """A kernel that reads the input through the result's parameter: its name, what it is passed."""
    made = program.planned.get(call.kernel)  # None: written as a whole, or chosen by sizes
    if made is None or homes.count(target) != 1 or homes.count(result) != 1:
        return None
    gone, kept = homes.index(target), homes.index(result)
    stem = call.kernel.partition("_in_place")[0]
    name = f"{stem}_in_place{len(program.module.functions)}"
    planned = program.plan_in_place(made.blocks.with_attr("global_symbol", name), gone, kept)
    if planned is None:
        return None
    program.planned[name] = planned
    program.put(name, planned.func)
    return name, [k for k in range(len(homes)) if k != gone]
