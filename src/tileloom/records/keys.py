"""Keys: under which names programs and machines are found again, in every process."""

from __future__ import annotations

from ..target import Target
from ..tir import IRModule, PrimFunc, pre_order, structural_hash
from ..tir.nodes import Block

_VERSION = 2  # of the key: another one finds no records of this one


def workload_key(mod: IRModule | PrimFunc) -> str:
    """A name that programs share if the steps of the one can be taken on the other.

    Names of variables and of the function do not count; those of blocks do, since steps find blocks
    by them.

    >>> from tileloom.script import from_source
    >>> text = "@T.prim_func\\ndef main(A: T.Buffer((4,))):\\n  for i in range(4):\\n    A[i] = 1.0"
    >>> one, other = from_source(text), from_source(text.replace("A", "B"))
    >>> workload_key(one) == workload_key(other) == workload_key(IRModule({"main": one}))
    True
    """
    functions = mod.functions if isinstance(mod, IRModule) else {"main": mod}
    nameless = IRModule({name: _nameless(func) for name, func in functions.items()})
    blocks = [
        node.name_hint
        for func in functions.values()
        for node in pre_order(func.body)
        if isinstance(node, Block)
    ]
    return f"{_VERSION}-{structural_hash(nameless):016x}:{','.join(blocks)}"


def _nameless(func: PrimFunc) -> PrimFunc:
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    return func.replace(attrs=attrs)


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
