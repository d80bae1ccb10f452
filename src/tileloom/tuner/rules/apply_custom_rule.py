"""ApplyCustomRule: a block that says by which function of the user it is scheduled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...base.errors import UserError
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...target import Target
from ..context import TuneContext

CustomRule = Callable[[Schedule, BlockRV], Schedule | list[Schedule] | None]

#: The annotation by which a block names its rule; "None" is for no rule at all.
SCHEDULE_RULE = "schedule_rule"
_OF_ARCHITECTURES = {"aarch64": ("arm_cpu",)}
_OF_KINDS = {"cpu": ("cpu",), "cuda": ("cuda", "gpu")}
_RULES: dict[tuple[str, str], CustomRule] = {}


def schedule_rule(name: str, key: str) -> Callable[[CustomRule], CustomRule]:
    """Register a function as the rule with a name, on targets with a key.

    The function takes a schedule and a block of it and returns the schedules to go on with: a list,
    one, or nothing for the schedule that it was given. A later one takes the place of an earlier.

    Args:
        name: what a block says in its annotation `schedule_rule`.
        key: "cpu", "cuda", "gpu", or another that `target_keys` lists.

    >>> @schedule_rule("halves", "cpu")
    ... def halves(sch, block):
    ...     sch.split(sch.get_loops(block)[0], [2, None])
    """

    def register(func: CustomRule) -> CustomRule:
        _RULES[name, key] = func
        return func

    return register


def target_keys(target: Target) -> tuple[str, ...]:
    """What a target is called where things are registered for targets, the narrowest name first.

    >>> from tileloom.target import target
    >>> target_keys(target("cuda -arch=sm_80")), target_keys(target("cpu -mcpu=x86-64-v3"))
    (('cuda', 'gpu'), ('cpu',))
    """
    return *_OF_ARCHITECTURES.get(target.arch, ()), *_OF_KINDS[target.kind]


@dataclass(frozen=True, slots=True)
class ApplyCustomRule:
    """Schedule a block with the function that its annotation `schedule_rule` names.

    All other rules leave such a block alone; "None" names no function.

    Raises:
        UserError: where no function of that name is registered for the target.

    >>> from tileloom.script import from_source
    >>> from tileloom.target import target
    >>> func = from_source('''
    ... @T.prim_func
    ... def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v_i = T.axis.spatial(8, i)
    ...             T.block_attr({"schedule_rule": "by_two"})
    ...             B[v_i] = A[v_i] + 1.0
    ... ''')
    >>> @schedule_rule("by_two", "cpu")
    ... def by_two(sch, block):
    ...     sch.split(sch.get_loops(block)[0], [None, 2])
    >>> sch = Schedule(func); block = sch.get_block("B")
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> [result] = ApplyCustomRule().apply(sch, block, context)
    >>> [result.get(loop).static_extent for loop in result.get_loops(block)]
    [4, 2]
    """

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """What the function of the user makes of the schedule."""
        name = sch.get(block).annotations.get(SCHEDULE_RULE)
        if name is None or name == "None":
            return [sch]
        keys = target_keys(context.target)
        rule = next((_RULES[name, key] for key in keys if (name, key) in _RULES), None)
        if rule is None:
            known = ", ".join(f"{n!r} for {k!r}" for n, k in _RULES) or "none"
            raise UserError(
                f"no schedule rule {name!r} is registered for {' or '.join(map(repr, keys))}",
                hint=f"register it with @schedule_rule({name!r}, {keys[0]!r}); known are {known}",
            )
        result = rule(sch, block)
        if result is None:
            return [sch]
        return [result] if isinstance(result, Schedule) else list(result)
