"""Barriers in memory by number, as TVM writes them, become barriers by address."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import UserError
from ...expr import Call, Expr, IntImm, const
from ...tir import (
    Buffer,
    BufferLoad,
    Evaluate,
    PrimFunc,
    Stmt,
    StmtRewriter,
    collect,
    make_buffer,
    seq,
)
from ..analysis.pointers import BULK
from ..analysis.threads import KernelBody
from ..blocks import allocate
from ..common import ADDRESS_OF
from .kernels import inside_threads, on_kernels

_CREATE, _WAIT = "tir.create_barriers", "tir.ptx_wait_barrier"
#: What a call on a barrier's number becomes.
_BY_NUMBER = {
    "tir.ptx_init_barrier_thread_count": "tir.ptx_mbarrier_init",
    "tir.ptx_arrive_barrier": "tir.ptx_mbarrier_arrive",
    "tir.ptx_arrive_barrier_expect_tx": "tir.ptx_mbarrier_arrive_expect_tx",
    _WAIT: "tir.ptx_mbarrier_wait",
}


def lower_numbered_barriers(func: PrimFunc) -> PrimFunc:
    """`create_barriers(n)` becomes n words of shared memory, and calls name them by address.

    `ptx_wait_barrier(k)` waits for the first phase of barrier k, as TVM has it.

    Needs: thread loops that are attributes.
    Ensures: no call names a barrier by its number.

    Raises:
        UserError: barriers are named that nobody creates, or are created twice or in no number.
    """
    calls = [node.value for node in collect(func.body, Evaluate)]
    if not any(isinstance(call, Call) and call.op in (_CREATE, *_BY_NUMBER) for call in calls):
        return func
    return on_kernels(func, _with_names)


def _with_names(kernel: KernelBody) -> Stmt:
    calls = [node.value for node in collect(kernel.root, Evaluate)]
    made = [call for call in calls if isinstance(call, Call) and call.op == _CREATE]
    if len(made) != 1 or not isinstance(made[0].args[0], IntImm):
        raise UserError(
            f"a kernel with numbered barriers calls create_barriers once, with their number, "
            f"not {len(made)} times"
        )
    buffer = make_buffer((made[0].args[0].value,), "uint64", "barriers", scope="shared")

    return inside_threads(_Name(buffer).visit(kernel.root), lambda body: allocate(buffer, body))


class _Name(StmtRewriter):
    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        call = stmt.value
        if not isinstance(call, Call):
            return stmt
        if call.op == _CREATE:
            return seq()
        if call.op in _BY_NUMBER:
            args: Sequence[Expr] = (self._address(call.args[0]), *call.args[1:])
            if call.op == _WAIT:
                args = (args[0], const(0))
            return stmt.replace(value=Call(call.dtype, _BY_NUMBER[call.op], args))
        if call.op == BULK and call.args[5].dtype.is_int:
            last = self._address(call.args[5])
            return stmt.replace(value=Call(call.dtype, call.op, (*call.args[:5], last)))
        return stmt

    def _address(self, number: Expr) -> Expr:
        return Call("handle", ADDRESS_OF, (BufferLoad(self.buffer, (number,)),))
