"""Whether a GPU has the instructions that a function calls."""

from __future__ import annotations

from ...base.errors import UnsupportedError
from ...expr import Call, StringImm
from ...expr.warp_ops import WARP_ARCHS
from ...target import Target
from ...target.instructions import BARRIER_SCOPES, INSTRUCTIONS, check_arch
from ...target.matrix_units import find_mma
from ...tir import PrimFunc, collect_exprs
from ..analysis.pointers import MMA
from ..analysis.threads import SYNC


def check_instructions(func: PrimFunc, target: Target) -> None:
    """Refuse a function with instructions that a GPU does not have.

    Raises:
        UnsupportedError: names the first of them, and the GPU that has it.
    """
    for call in collect_exprs(func.body, Call):
        if call.op in INSTRUCTIONS:
            _check(call, target)
        elif call.op == SYNC:
            _check_barrier(call)
        elif call.op in WARP_ARCHS:
            check_arch(call.op.removeprefix("tir."), WARP_ARCHS[call.op], target)


def _check_barrier(call: Call) -> None:
    scope = call.args[0]
    if not isinstance(scope, StringImm) or scope.value not in BARRIER_SCOPES:
        raise UnsupportedError(
            f"no barrier orders {scope} memory within a kernel",
            hint="blocks hand things over by atomic calls and T.memory_fence, or in two kernels",
        )


def _check(call: Call, target: Target) -> None:
    INSTRUCTIONS[call.op].check(target)
    if call.op == MMA:
        shape, _, _, *kinds = (a.value for a in call.args[:6] if isinstance(a, StringImm))
        if len(kinds) == 3:
            product = find_mma(shape, *kinds)
            check_arch(product.instruction(), f"sm_{product.sm}", target)
