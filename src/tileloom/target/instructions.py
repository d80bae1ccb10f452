"""The calls that stand for one instruction of an NVIDIA GPU: what they are called, who has them.

Code generation and the emulator refuse by this table, and docs/gpu-instructions.md shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.errors import UnsupportedError
from . import Target


@dataclass(frozen=True)
class GPUInstruction:
    """A call.

    Attributes:
        name: in `T`; the operation is `tir.` and that.
        ptx: the instruction.
        arguments: of the call, in order.
        sm: the least compute capability; `exact` if only that very one has it (`sm_90a`).
        result: the type of its value; empty where it has none.
    """

    name: str
    ptx: str
    arguments: str
    sm: int
    exact: bool = False
    result: str = ""

    @property
    def op(self) -> str:
        """As in `Call.op`."""
        return f"tir.{self.name}"

    @property
    def arch(self) -> str:
        """The least architecture, as a target names it.

        >>> INSTRUCTIONS["tir.ptx_wgmma"].arch, INSTRUCTIONS["tir.ptx_ldmatrix"].arch
        ('sm_90a', 'sm_75')
        """
        return f"sm_{self.sm}{'a' if self.exact else ''}"

    def check(self, target: Target) -> None:
        """Refuse a GPU that has no such instruction.

        Raises:
            UnsupportedError: it has none.
        """
        check_arch(self.name, self.arch, target)


def check_arch(what: str, arch: str, target: Target) -> None:
    """Refuse a GPU that is older than an architecture, or another one where it ends in "a".

    Raises:
        UnsupportedError: it is.
    """
    needed = int("".join(filter(str.isdigit, arch)))
    if arch.endswith("a"):
        if target.arch != arch:
            raise UnsupportedError(
                f"{what} is an instruction of {arch}, which {target.arch} does not have",
                hint=f'compile for "cuda -arch={arch}"',
            )
    elif target.sm < needed:
        raise UnsupportedError(
            f"{what} needs {arch} or newer, and the target is {target.arch}",
            hint=f'compile for "cuda -arch={arch}"',
        )


_TABLE = (
    # Matrices in shared memory and registers.
    GPUInstruction(
        "ptx_ldmatrix", "ldmatrix.sync.aligned.m8n8.x{1,2,4}{.trans}.shared.b16",
        'trans, number, ".b16", registers, index, shared, index', 75,
    ),
    GPUInstruction(
        "ptx_mma", "mma.sync.aligned.{shape}.row.col{.satfinite}.{types}",
        'shape, "row", "col", A type, B type, C type, A, index, B, index, C, index, saturate', 75,
    ),
    GPUInstruction("mma_fill", "mov (of zeros)", "number, registers, index", 70),
    GPUInstruction("mma_store", "st (16 by 16)", "16, 16, pointer, registers, index, stride", 70),
    # Copies that threads do not wait for.
    GPUInstruction(
        "ptx_cp_async", "cp.async.{ca,cg}.shared.global",
        "shared, index, global, index, bytes[, condition or bytes to read]", 80,
    ),
    GPUInstruction("ptx_commit_group", "cp.async.commit_group", "", 80),
    GPUInstruction("ptx_wait_group", "cp.async.wait_group", "groups that may be under way", 80),
    # Barriers in memory.
    GPUInstruction("ptx_mbarrier_init", "mbarrier.init.shared::cta.b64", "barrier, arrivals", 90),
    GPUInstruction("ptx_mbarrier_arrive", "mbarrier.arrive.shared::cta.b64", "barrier", 90),
    GPUInstruction(
        "ptx_mbarrier_arrive_expect_tx", "mbarrier.arrive.expect_tx.shared::cta.b64",
        "barrier, bytes", 90,
    ),
    GPUInstruction(
        "ptx_mbarrier_expect_tx", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
        "barrier, bytes", 90,
    ),
    GPUInstruction(
        "ptx_mbarrier_wait", "mbarrier.try_wait.parity.shared::cta.b64 (until it holds)",
        "barrier, parity", 90,
    ),
    GPUInstruction("ptx_fence_mbarrier_init", "fence.mbarrier_init.release.cluster", "", 90),
    GPUInstruction("ptx_fence_proxy_async", "fence.proxy.async.shared::cta", "", 90),
    # Copies in bulk.
    GPUInstruction(
        "ptx_cp_async_bulk",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "shared, index, global, index, bytes, barrier", 90,
    ),
    GPUInstruction(
        "ptx_cp_async_bulk_store", "cp.async.bulk.global.shared::cta.bulk_group",
        "global, index, shared, index, bytes", 90,
    ),
    GPUInstruction(
        "ptx_cp_async_bulk_tensor",
        "cp.async.bulk.tensor.{1-5}d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "shared, index, map, barrier, coordinates (innermost first)", 90,
    ),
    GPUInstruction(
        "ptx_cp_async_bulk_tensor_store",
        "cp.async.bulk.tensor.{1-5}d.global.shared::cta.bulk_group",
        "map, shared, index, coordinates (innermost first)", 90,
    ),
    GPUInstruction("ptx_prefetch_tensormap", "prefetch.tensormap", "map", 90),
    GPUInstruction("ptx_cp_async_bulk_commit_group", "cp.async.bulk.commit_group", "", 90),
    GPUInstruction(
        "ptx_cp_async_bulk_wait_group", "cp.async.bulk.wait_group",
        "groups that may be under way", 90,
    ),
    GPUInstruction(
        "ptx_cp_async_bulk_wait_group_read", "cp.async.bulk.wait_group.read",
        "groups that may still be read", 90,
    ),
    # Matrices multiplied by four warps.
    GPUInstruction(
        "ptx_wgmma_descriptor", "(64 bits that describe a tile)",
        "shared pointer, leading bytes, stride bytes, swizzle (0, 32, 64, 128)", 90, True, "uint64",
    ),
    GPUInstruction(
        "ptx_wgmma", "wgmma.mma_async.sync.aligned.m64n{8-256}k{8,16,32}.{types}",
        "shape, A type, B type, C type, A (descriptor or registers), index, B descriptor, C, "
        "index, accumulate[, A by columns, B by rows]", 90, True,
    ),
    GPUInstruction("ptx_wgmma_fence", "wgmma.fence.sync.aligned", "", 90, True),
    GPUInstruction("ptx_wgmma_commit_group", "wgmma.commit_group.sync.aligned", "", 90, True),
    GPUInstruction(
        "ptx_wgmma_wait_group", "wgmma.wait_group.sync.aligned", "groups that may be under way",
        90, True,
    ),
    GPUInstruction(
        "ptx_setmaxnreg", "setmaxnreg.{inc,dec}.sync.aligned.u32", "registers, whether more", 90,
        True,
    ),
)  # fmt: skip

#: By op.
INSTRUCTIONS: dict[str, GPUInstruction] = {entry.op: entry for entry in _TABLE}
#: Those whose order with others their own barriers and fences tell: none is set for them.
SELF_ORDERED = frozenset(
    op for op in INSTRUCTIONS if "mbarrier" in op or "bulk" in op or "wgmma" in op
) | {"tir.ptx_fence_proxy_async", "tir.ptx_prefetch_tensormap", "tir.ptx_setmaxnreg"}

#: Those that see shared memory in a pattern which repeats after so many bytes, from address 0 on.
PATTERNED = frozenset(
    {
        "tir.ptx_wgmma_descriptor",
        "tir.ptx_cp_async_bulk_tensor",
        "tir.ptx_cp_async_bulk_tensor_store",
    }
)
PATTERN_BYTES = 1024
#: The scope that a parameter points into which is a map of a tensor, passed by value.
#: Memory that a barrier within a kernel orders; none orders all blocks.
BARRIER_SCOPES = ("warp", "shared", "shared.dyn")
MAP_SCOPE = "grid_constant"
