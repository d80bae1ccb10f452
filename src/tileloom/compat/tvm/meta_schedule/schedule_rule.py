"""`tvm.meta_schedule.schedule_rule`: our rules with TVM's parameters, and rules of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ....base.errors import UnsupportedError
from ....schedule import BlockRV
from ....schedule import Schedule as OurSchedule
from ....tuner import context as tuner
from ....tuner.rules import (
    add_rfactor,
    apply_custom_rule,
    auto_bind,
    auto_inline,
    cross_thread_reduction,
    inline_constant_scalars,
    parallelize_vectorize_unroll,
    random_compute_location,
)
from ....tuner.rules import multi_level_tiling as tiling
from ....tuner.rules import multi_level_tiling_tensor_core as tensor_core
from ....tuner.rules import multi_level_tiling_wide_vector as wide_vector
from ....tuner.rules import multi_level_tiling_with_intrin as with_intrin
from ....tuner.rules.defaults import default_rules
from .._functions import get_global_func
from .._names import missing
from .tune_context import TuneContext
from .utils import NotOverriddenError, Overridable, checked, global_func

KINDS = ("llvm", "vnni", "avx512", "dotprod", "asimd", "cuda", "cuda-tensorcore")


class ScheduleRule(Overridable):
    """How a block can be scheduled; `rule` is ours."""

    rule: Any = None
    context: TuneContext | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self.context = context

    def apply(self, sch: OurSchedule, block: BlockRV) -> Any:
        """The schedules to go on with."""
        context = self.context or TuneContext(sch.mod)
        return self.rule.apply(sch, block, context.of(sch.mod))

    def clone(self) -> ScheduleRule:
        """The rule for another context."""
        return wrapped(self.rule)

    @staticmethod
    def create(kind: str) -> list[ScheduleRule]:
        """The rules of a kind of machine: "llvm", "cuda", "cuda-tensorcore", ..."""
        return [wrapped(rule) for rule in default_rules(known_kind(kind))]


def known_kind(kind: str) -> Any:
    """A kind of machine that there are defaults for."""
    if kind not in KINDS:
        raise UnsupportedError(f"there are no defaults for {kind!r}", hint=f"known are {KINDS}")
    return kind


_CLASSES: dict[type, type[ScheduleRule]] = {}


def wrapped(rule: Any) -> ScheduleRule:
    """Our rule as an object of TVM's class."""
    made = object.__new__(_CLASSES[type(rule)])
    made.rule = _Registered() if type(rule) is apply_custom_rule.ApplyCustomRule else rule
    return made


class _BuiltIn(ScheduleRule):
    """A rule of ours."""

    ours: ClassVar[type]

    def __init_subclass__(cls) -> None:
        if "ours" in vars(cls):
            _CLASSES[cls.ours] = cls


class PyScheduleRule(ScheduleRule):
    """A rule of the user's: `apply(sch, block)` answers the schedules to go on with."""

    def apply(self, sch: OurSchedule, block: BlockRV) -> Any:
        """To be defined."""
        raise NotOverriddenError.of("PyScheduleRule", "Apply", "apply")

    def clone(self) -> ScheduleRule:
        """The rule itself, unless it says otherwise."""
        return self


@dataclass(frozen=True, slots=True)
class TunerRule:
    """A rule of TVM's kind as the tuner applies it."""

    rule: ScheduleRule

    def apply(self, sch: OurSchedule, block: BlockRV, context: tuner.TuneContext) -> Any:
        """The schedules to go on with."""
        return list(self.rule.apply(sch, block))


def tuner_rules(rules: Sequence[Any]) -> tuple[Any, ...]:
    """Rules as the tuner takes them, which treats `ApplyCustomRule` as something of its own."""
    return tuple(
        rule.rule if isinstance(rule, ApplyCustomRule) else TunerRule(rule)
        for rule in checked(rules, ScheduleRule, "schedule rules")
    )


class _Registered(apply_custom_rule.ApplyCustomRule):
    """Our rule; functions may also be those of `register_func("meta_schedule.cpu.name")`."""

    __slots__ = ()

    def apply(
        self, sch: OurSchedule, block: BlockRV, context: tuner.TuneContext
    ) -> list[OurSchedule]:
        name = sch.get(block).annotations.get(apply_custom_rule.SCHEDULE_RULE)
        for key in apply_custom_rule.target_keys(context.target):
            rule = get_global_func(f"meta_schedule.{key}.{name}", allow_missing=True)
            if rule is not None:
                found = rule(sch, block)
                return [found] if isinstance(found, OurSchedule) else list(found or [sch])
        return super().apply(sch, block, context)


class ApplyCustomRule(_BuiltIn):
    """Blocks that name a function in their annotation "schedule_rule"."""

    ours = apply_custom_rule.ApplyCustomRule

    def __init__(self) -> None:
        self.rule = _Registered()


_CLASSES[_Registered] = ApplyCustomRule


class InlineConstantScalars(_BuiltIn):
    """Scalars that are constants become part of what reads them."""

    ours = inline_constant_scalars.InlineConstantScalars

    def __init__(self) -> None:
        self.rule = self.ours()


class AutoInline(_BuiltIn):
    """Blocks that can be inlined are."""

    ours = auto_inline.AutoInline

    def __init__(
        self,
        into_producer: bool,
        into_consumer: bool,
        inline_const_tensor: bool,
        disallow_if_then_else: bool,
        require_injective: bool,
        require_ordered: bool,
        disallow_op: Sequence[Any] | None = None,
    ) -> None:
        self.rule = self.ours(
            into_producer,
            into_consumer,
            inline_const_tensor,
            disallow_if_then_else,
            require_injective,
            require_ordered,
            tuple(str(getattr(op, "name", op)) for op in disallow_op or ()),
        )


class AddRFactor(_BuiltIn):
    """Reductions in two steps, the first of them in parallel."""

    ours = add_rfactor.AddRFactor

    def __init__(self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None):
        self.rule = self.ours(max_jobs_per_core, _factor(max_innermost_factor))


class CrossThreadReduction(_BuiltIn):
    """Reductions that threads do together."""

    ours = cross_thread_reduction.CrossThreadReduction

    def __init__(self, thread_extents: Sequence[int]) -> None:
        self.rule = self.ours(tuple(thread_extents))


class ParallelizeVectorizeUnroll(_BuiltIn):
    """Marks for parallel, vectorized and unrolled loops."""

    ours = parallelize_vectorize_unroll.ParallelizeVectorizeUnroll

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        steps = tuple(unroll_max_steps or ())
        self.rule = self.ours(max_jobs_per_core, max_vectorize_extent, steps, unroll_explicit)


class RandomComputeLocation(_BuiltIn):
    """Blocks are computed in some loop of what reads them."""

    ours = random_compute_location.RandomComputeLocation

    def __init__(self) -> None:
        self.rule = self.ours()


class AutoBind(_BuiltIn):
    """Blocks that have no threads get some."""

    ours = auto_bind.AutoBind

    def __init__(
        self,
        max_threadblocks: int = 256,
        thread_extents: Sequence[int] | None = None,
        max_threads_per_block: int = -1,
    ) -> None:
        extents = (32, 64, 128, 256, 512, 1024) if thread_extents is None else thread_extents
        self.rule = self.ours(max_threadblocks, tuple(extents), max_threads_per_block)


class ReuseType(tiling.ReuseType):
    """Where copies of tiles are kept: "no", "may" or "must", levels of tiles, and the memory."""

    __slots__ = ()

    def __init__(self, req: Any, levels: Sequence[int], scope: str) -> None:
        super().__init__(req, tuple(levels), scope)

    def as_dict(self) -> dict[str, Any]:
        """The same as a dictionary."""
        return asdict(self)


def _reuse(given: Any) -> tiling.ReuseType:
    if isinstance(given, Mapping):
        return tiling.ReuseType(given["req"], tuple(given["levels"]), given["scope"])
    return tiling.ReuseType("no") if given is None else given


def _factor(given: int | None) -> int:
    return 16 if given is None else given


def _tiling(
    structure: str,
    tile_binds: Sequence[str] | None,
    max_innermost_factor: int | None,
    vector_load_lens: Sequence[int] | None,
    reuse_read: Any,
    reuse_write: Any,
) -> dict[str, Any]:
    return {
        "structure": structure,
        "tile_binds": tuple(tile_binds or ()),
        "max_innermost_factor": _factor(max_innermost_factor),
        "vector_load_lens": tuple(vector_load_lens or ()),
        "reuse_read": _reuse(reuse_read),
        "reuse_write": _reuse(reuse_write),
    }


class MultiLevelTiling(_BuiltIn):
    """Tiles of tiles."""

    ours = tiling.MultiLevelTiling

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
        filter_fn: Callable[..., Any] | str | None = None,
    ) -> None:
        options = _tiling(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write
        )
        self.rule = self.ours(**options, filter_fn=global_func(filter_fn))


class MultiLevelTilingWithIntrin(_BuiltIn):
    """Tiles whose innermost an intrinsic computes."""

    ours = with_intrin.MultiLevelTilingWithIntrin

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
    ) -> None:
        options = _tiling(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write
        )
        self.rule = self.ours(**options, intrin_name=intrin_name)


class MultiLevelTilingTensorCore(_BuiltIn):
    """Tiles for the matrix units of GPUs."""

    ours = tensor_core.MultiLevelTilingTensorCore

    def __init__(
        self,
        intrin_groups: Sequence[Mapping[str, str]],
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
        use_software_pipeline: bool = False,
    ) -> None:
        options = _tiling(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write
        )
        groups = tuple(tensor_core.TensorCoreIntrinGroup(**group) for group in intrin_groups)
        self.rule = self.ours(
            **options, intrin_groups=groups, use_software_pipeline=use_software_pipeline
        )


class MultiLevelTilingWideVector(_BuiltIn):
    """Tiles whose innermost loop fills a vector."""

    ours = wide_vector.MultiLevelTilingWideVector

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: Any = None,
        reuse_write: Any = None,
    ) -> None:
        options = _tiling(structure, None, max_innermost_factor, None, reuse_read, reuse_write)
        self.rule = self.ours(**options, vector_length_in_bits=vector_length_in_bits)


__getattr__ = missing(__name__)
