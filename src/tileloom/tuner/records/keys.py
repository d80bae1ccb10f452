"""Keys: under which names programs and machines are found again, in every process."""

from __future__ import annotations

from ...target import Target
from ...tir import IRModule, PrimFunc, structural_hash

_VERSION = 1  # of the structural hash: another one finds no records of this one


def workload_key(mod: IRModule | PrimFunc) -> str:
    """A name that structurally equal programs share: names of variables do not count.

    >>> from tileloom.script import from_source
    >>> text = "@T.prim_func\\ndef main(A: T.Buffer((4,))):\\n  for i in range(4):\\n    A[i] = 1.0"
    >>> one, other = from_source(text), from_source(text.replace("A", "B"))
    >>> workload_key(one) == workload_key(other) == workload_key(IRModule({"main": one}))
    True
    """
    whole = mod if isinstance(mod, IRModule) else IRModule({"main": mod})
    return f"{_VERSION}-{structural_hash(whole):016x}"


def target_key(target: Target) -> str:
    """A name for machines on which the same schedule takes the same time.

    More than `Target.key`, which leaves out what does not change machine code: cores and caches.

    >>> from tileloom.target import target
    >>> machine = target("cuda -arch=sm_80")
    >>> target_key(machine).startswith(machine.key)
    True
    """
    sizes = (target.cores, target.l1 >> 10, target.l2 >> 10, target.l3 >> 10, target.processors)
    return "-".join((target.key, *map(str, sizes)))
