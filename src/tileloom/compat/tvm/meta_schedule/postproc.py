"""`tvm.meta_schedule.postproc`: our postprocessors by TVM's names, and those of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ....base.errors import UnsupportedError
from ....schedule import Schedule as OurSchedule
from ....tuner import context as tuner
from ....tuner.postprocs import (
    disallow_async_strided_mem_copy,
    disallow_dynamic_loop,
    rewrite_cooperative_fetch,
    rewrite_layout,
    rewrite_parallel_vectorize_unroll,
    rewrite_reduction_block,
    rewrite_tensorize,
    rewrite_unbound_block,
    verify_gpu_code,
)
from ....tuner.postprocs.defaults import default_postprocs
from .._names import missing
from .schedule_rule import known_kind
from .tune_context import TuneContext
from .utils import NotOverriddenError, Overridable, checked


class Postproc(Overridable):
    """A step after all sampling steps; `postproc` is ours."""

    postproc: Any = None
    context: TuneContext | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self.context = context

    def apply(self, sch: OurSchedule) -> bool:
        """Take it; whether the schedule is still a candidate."""
        context = self.context or TuneContext(sch.mod)
        return bool(self.postproc.apply(sch, context.of(sch.mod)))

    def clone(self) -> Postproc:
        """The postprocessor for another context."""
        return wrapped(self.postproc)

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """Those of a kind of machine: "llvm", "cuda", "cuda-tensorcore", ..."""
        return [wrapped(postproc) for postproc in default_postprocs(known_kind(kind))]


_CLASSES: dict[type, type[Postproc]] = {}


def wrapped(postproc: Any) -> Postproc:
    """Our postprocessor as an object of TVM's class."""
    made = object.__new__(_CLASSES[type(postproc)])
    made.postproc = postproc
    return made


class _BuiltIn(Postproc):
    """A postprocessor of ours."""

    ours: ClassVar[type]

    def __init_subclass__(cls) -> None:
        _CLASSES[cls.ours] = cls

    def __init__(self) -> None:
        self.postproc = self.ours()


class PyPostproc(Postproc):
    """A postprocessor of the user's: `apply(sch)` says whether the candidate is one."""

    def apply(self, sch: OurSchedule) -> bool:
        """To be defined."""
        raise NotOverriddenError.of("PyPostproc", "Apply", "apply")

    def clone(self) -> Postproc:
        """The postprocessor itself, unless it says otherwise."""
        return self


@dataclass(frozen=True, slots=True)
class TunerPostproc:
    """A postprocessor of TVM's kind as the tuner applies it."""

    postproc: Postproc

    def apply(self, sch: OurSchedule, context: tuner.TuneContext) -> bool:
        """Take it; whether the schedule is still a candidate."""
        return bool(self.postproc.apply(sch))


def tuner_postprocs(postprocs: Sequence[Any]) -> tuple[TunerPostproc, ...]:
    """Postprocessors as the tuner takes them."""
    return tuple(map(TunerPostproc, checked(postprocs, Postproc, "postprocessors")))


class DisallowDynamicLoop(_BuiltIn):
    """No loops whose extent is not a constant."""

    ours = disallow_dynamic_loop.DisallowDynamicLoop


class DisallowAsyncStridedMemCopy(_BuiltIn):
    """No asynchronous copies with gaps."""

    ours = disallow_async_strided_mem_copy.DisallowAsyncStridedMemCopy


class RewriteCooperativeFetch(_BuiltIn):
    """Copies into shared memory that the threads of a block share."""

    ours = rewrite_cooperative_fetch.RewriteCooperativeFetch


class RewriteLayout(_BuiltIn):
    """Parameters in the layout in which they are read."""

    ours = rewrite_layout.RewriteLayout


class RewriteParallelVectorizeUnroll(_BuiltIn):
    """Parallel, vectorized and unrolled loops."""

    ours = rewrite_parallel_vectorize_unroll.RewriteParallelVectorizeUnroll


class RewriteReductionBlock(_BuiltIn):
    """The start of a reduction before its loops."""

    ours = rewrite_reduction_block.RewriteReductionBlock


class RewriteTensorize(_BuiltIn):
    """Blocks become intrinsics."""

    ours = rewrite_tensorize.RewriteTensorize

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.postproc = self.ours(vectorize_init_loop)


class RewriteUnboundBlock(_BuiltIn):
    """Blocks that have no threads get some."""

    ours = rewrite_unbound_block.RewriteUnboundBlock

    def __init__(self, max_threadblocks: int = 256) -> None:
        self.postproc = self.ours(max_threadblocks)


class VerifyGPUCode(_BuiltIn):
    """No kernels that a GPU does not take."""

    ours = verify_gpu_code.VerifyGPUCode


class VerifyVTCMLimit(Postproc):
    """Refused: the memory that it is about is Hexagon's."""

    def __init__(self) -> None:
        raise UnsupportedError("VerifyVTCMLimit is for Hexagon, which Tileloom has no code for")


__getattr__ = missing(__name__)
