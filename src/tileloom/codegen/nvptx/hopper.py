"""Barriers in memory, copies in bulk and by maps of tensors: what sm_90 brought.

A map of a tensor (`CUtensorMap`, 128 bytes) is a parameter of the kernel, passed by value: a
variable `T.handle("uint8", "grid_constant")`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import Call, Expr, IntImm, Var
from ...target.instructions import MAP_SCOPE, PATTERN_BYTES, PATTERNED, check_arch
from ...tir import Stmt, collect_exprs
from ..types import I8, I32, I64
from .pointers import global_address, instruction, pointer, shared_address

if TYPE_CHECKING:
    from .kernels import KernelEmitter

Handler = Callable[["KernelEmitter", tuple[Expr, ...]], None]
_VOID = ir.VoidType()
_MOST_AXES, _MAP_BYTES, _MAP_ALIGNMENT = 5, 128, 64
_MOST_IN_CLUSTER = 8
#: The type of a map as a parameter.
MAP = ir.PointerType(ir.ArrayType(I8, _MAP_BYTES))


def is_map(param: Var) -> bool:
    """Whether a parameter is a map of a tensor, which is passed by value."""
    return param.pointee is not None and param.pointee[1] == MAP_SCOPE


def pass_by_value(function: ir.Function, param: ir.Argument) -> None:
    """Say of a parameter that it is a map, which no thread writes to."""
    param.add_attribute("byval")
    param.attributes.align = _MAP_ALIGNMENT
    module = function.module
    numbers = module.add_metadata([I32(function.args.index(param) + 1)])
    facts = [function, ir.MetaDataString(module, "grid_constant"), numbers]
    module.add_named_metadata("nvvm.annotations", facts)


def set_cluster(e: KernelEmitter, sizes: Any) -> None:
    """Launch so many blocks along x, y and z together, on one part of the GPU.

    Raises:
        UnsupportedError: they are no three numbers, more than 8 blocks, or the GPU has no clusters.
    """
    if sizes is None:
        return
    check_arch("a cluster of blocks", "sm_90", e.target)
    counts = [int(getattr(size, "value", size)) for size in sizes]
    if len(counts) != 3 or min(counts) < 1 or prod(counts) > _MOST_IN_CLUSTER:
        raise UnsupportedError(
            f"a cluster is three numbers of blocks, {_MOST_IN_CLUSTER} in all, not {counts}"
        )
    module = e.builder.module
    for axis, count in zip("xyz", counts, strict=True):
        facts = [e.function, ir.MetaDataString(module, f"cluster_dim_{axis}"), I32(count)]
        module.add_named_metadata("nvvm.annotations", facts)


def shared_alignment(body: Stmt, least: int) -> int:
    """Of what multiple of bytes arrays in shared memory begin."""
    uses_patterns = any(call.op in PATTERNED for call in collect_exprs(body, Call))
    return PATTERN_BYTES if uses_patterns else least


def _barrier(e: KernelEmitter, arg: Expr) -> ir.Value:
    return shared_address(e, arg)


def _number(e: KernelEmitter, arg: Expr) -> ir.Value:
    value = e.value(arg)
    if value.type == I32:
        return value
    widen = e.builder.zext if value.type.width < 32 else e.builder.trunc
    return widen(value, I32)


def _effect(e: KernelEmitter, text: str, letters: str, args: list[ir.Value]) -> None:
    constraint = ",".join([*letters, "~{memory}"])
    instruction(e, text, constraint, _VOID, args)


def plain(text: str) -> Handler:
    """An instruction without operands."""
    return lambda e, _: _effect(e, text, "", [])


def counted(text: str) -> Handler:
    """An instruction with a constant in its text."""

    def emit(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
        (count,) = args[:1]
        if not isinstance(count, IntImm) or count.value < 0:
            raise UnsupportedError(f"{text.split('.')[0]} takes a constant number, not {count}")
        _effect(e, text.format(count.value), "", [])

    return emit


# ---------------------------------------------------------------------------- barriers


def _on_barrier(text: str) -> Handler:
    """An instruction on a barrier and a number."""

    def emit(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
        numbers = [_number(e, arg) for arg in args[1:2]]
        _effect(e, text, "r" * (1 + len(numbers)), [_barrier(e, args[0]), *numbers])

    return emit


# Names in braces are their own: the text may stand in a kernel several times.
_WAIT = (
    "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
    "@done bra DONE; bra AGAIN; DONE: }"
)


# ---------------------------------------------------------------------------- bulk copies


def _bulk(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_cp_async_bulk(shared, index, global, index, bytes, barrier)`."""
    to = shared_address(e, args[0], args[1])
    source = global_address(e, pointer(e, args[2], args[3]))
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    _effect(e, text, "rlrr", [to, source, _number(e, args[4]), _barrier(e, args[5])])


def _bulk_store(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_cp_async_bulk_store(global, index, shared, index, bytes)`."""
    to = global_address(e, pointer(e, args[0], args[1]))
    source = shared_address(e, args[2], args[3])
    text = "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;"
    _effect(e, text, "lrr", [to, source, _number(e, args[4])])


def _map(e: KernelEmitter, arg: Expr) -> ir.Value:
    if not isinstance(arg, Var) or not is_map(arg):
        raise UnsupportedError(
            f"{arg} is no map of a tensor",
            hint=f'declare the parameter as T.handle("uint8", "{MAP_SCOPE}")',
        )
    return e.builder.ptrtoint(e.value(arg), I64)


def _coordinates(
    e: KernelEmitter, args: tuple[Expr, ...], first: int
) -> tuple[list[ir.Value], str]:
    """The values of coordinates, and the vector of them in the text, from an operand on."""
    if not 1 <= len(args) <= _MOST_AXES:
        raise UnsupportedError(f"a map has 1 to {_MOST_AXES} axes, not {len(args)}")
    names = ", ".join(f"${first + k}" for k in range(len(args)))
    return [_number(e, arg) for arg in args], "{" + names + "}"


def _tensor(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_cp_async_bulk_tensor(shared, index, map, barrier, coordinates...)`."""
    to = shared_address(e, args[0], args[1])
    at, vector = _coordinates(e, args[4:], 3)
    text = (
        f"cp.async.bulk.tensor.{len(at)}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[$0], [$1, {vector}], [$2];"
    )
    operands = [to, _map(e, args[2]), _barrier(e, args[3]), *at]
    _effect(e, text, "rlr" + "r" * len(at), operands)


def _tensor_store(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_cp_async_bulk_tensor_store(map, shared, index, coordinates...)`."""
    source = shared_address(e, args[1], args[2])
    at, vector = _coordinates(e, args[3:], 2)
    text = f"cp.async.bulk.tensor.{len(at)}d.global.shared::cta.bulk_group [$0, {vector}], [$1];"
    _effect(e, text, "lr" + "r" * len(at), [_map(e, args[0]), source, *at])


def _prefetch(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    _effect(e, "prefetch.tensormap [$0];", "l", [_map(e, args[0])])


def _registers(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_setmaxnreg(registers, whether more)`."""
    count, more = (arg.value if isinstance(arg, IntImm) else None for arg in args)
    if count is None or more is None or not 24 <= count <= 256 or count % 8:
        raise UnsupportedError(f"setmaxnreg takes 24 to 256 registers by eights, not {args[0]}")
    _effect(e, f"setmaxnreg.{'inc' if more else 'dec'}.sync.aligned.u32 {count};", "", [])


HANDLERS: dict[str, Handler] = {
    "tir.ptx_mbarrier_init": _on_barrier("mbarrier.init.shared::cta.b64 [$0], $1;"),
    "tir.ptx_mbarrier_arrive": _on_barrier("mbarrier.arrive.shared::cta.b64 _, [$0];"),
    "tir.ptx_mbarrier_arrive_expect_tx": _on_barrier(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    ),
    "tir.ptx_mbarrier_expect_tx": _on_barrier(
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;"
    ),
    "tir.ptx_mbarrier_wait": _on_barrier(_WAIT),
    "tir.ptx_fence_mbarrier_init": plain("fence.mbarrier_init.release.cluster;"),
    "tir.ptx_fence_proxy_async": plain("fence.proxy.async.shared::cta;"),
    "tir.ptx_cp_async_bulk": _bulk,
    "tir.ptx_cp_async_bulk_store": _bulk_store,
    "tir.ptx_cp_async_bulk_tensor": _tensor,
    "tir.ptx_cp_async_bulk_tensor_store": _tensor_store,
    "tir.ptx_prefetch_tensormap": _prefetch,
    "tir.ptx_cp_async_bulk_commit_group": plain("cp.async.bulk.commit_group;"),
    "tir.ptx_cp_async_bulk_wait_group": counted("cp.async.bulk.wait_group {};"),
    "tir.ptx_cp_async_bulk_wait_group_read": counted("cp.async.bulk.wait_group.read {};"),
    "tir.ptx_setmaxnreg": _registers,
}
