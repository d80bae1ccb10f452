"""Programs over sparse axes, scheduled by rule and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ... import target as targets
from ...base.errors import ArgumentError, UnsupportedError
from ...driver import build
from ...sparse.lower_buffer import lower_sparse_buffer
from ...sparse.schedule_rules import over_positions, schedule_cpu, schedule_cuda

#: What each kind of target has as rules: they schedule a function of a module.
RULES: Mapping[str, Callable[[Any, str, targets.Target], None]] = {
    "cpu": lambda sch, name, target: schedule_cpu(sch, name, target.vector_bits),
    "cuda": lambda sch, name, target: schedule_cuda(sch, name),
}


def auto_schedule(program: Any, target: Any = "cpu") -> Any:
    """The schedule that `compile` gives a program over sparse axes.

    Its `mod` is the program over positions, of which `lower_sparse_buffer` makes plain tensor IR;
    its `trace` is what was decided. Before that a dense axis that results have last becomes the
    innermost one of its iteration.

    Args:
        program: a function, or a module of them, at any level.
        target: "cpu", "cuda", or a `Target`.

    Raises:
        UnsupportedError: there are no rules for such a target.
        VerifyError: the program is not legal.
    """
    chosen = targets.target(target)
    rules = RULES.get(chosen.kind)
    if rules is None:
        raise UnsupportedError(f"sparse programs have no automatic schedule for {chosen.kind}")
    sch = over_positions(program)
    for name in sch.mod.functions:
        rules(sch, name, chosen)
    return sch


def compile(program: Any, target: Any = "cpu", device: str | None = None) -> Any:
    """Machine code for a program over sparse axes, scheduled by rule.

    Args:
        program: a function, or a module of one function, at any level.
        target: "cpu", "cuda", or a `Target`.
        device: as `tileloom.build` has it: "emulator" runs code for a GPU on the CPU.

    Returns:
        A kernel with the program's arguments.

    Raises:
        ArgumentError: the module has several functions.
        UnsupportedError: there are no rules for such a target.
        VerifyError: the program is not legal.
    """
    functions = list(lower_sparse_buffer(auto_schedule(program, target).mod).functions.values())
    if len(functions) != 1:
        raise ArgumentError(f"one function is compiled, the module has {len(functions)}")
    return build(functions[0], target, device)
