"""Which postprocessors a machine gets, in which order."""

from __future__ import annotations

from ..context import Postproc
from ..kinds import RuleKind
from .disallow_dynamic_loop import DisallowDynamicLoop
from .rewrite_cooperative_fetch import RewriteCooperativeFetch
from .rewrite_layout import RewriteLayout
from .rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from .rewrite_reduction_block import RewriteReductionBlock
from .rewrite_tensorize import RewriteTensorize
from .rewrite_unbound_block import RewriteUnboundBlock
from .verify_gpu_code import VerifyGPUCode


def default_postprocs(kind: RuleKind) -> tuple[Postproc, ...]:
    """The postprocessors for a kind of machine, in the order in which they are applied.

    >>> [type(postproc).__name__ for postproc in default_postprocs("llvm")][-2:]
    ['RewriteReductionBlock', 'RewriteLayout']
    """
    loops = (RewriteParallelVectorizeUnroll(), RewriteReductionBlock())
    if kind == "llvm":
        return (DisallowDynamicLoop(), *loops, RewriteLayout())
    if not kind.startswith("cuda"):
        tensorize = RewriteTensorize(vectorize_init_loop=True)
        return (DisallowDynamicLoop(), *loops, tensorize, RewriteLayout())
    threads = (RewriteCooperativeFetch(), RewriteUnboundBlock())
    common = (DisallowDynamicLoop(), *threads, *loops, VerifyGPUCode())
    # Intrinsics last: they take long to match, and change nothing that is verified.
    return (*common, RewriteTensorize()) if kind == "cuda-tensorcore" else common
