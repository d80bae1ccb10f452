"""Features of the stores of a program, as TVM's cost models use them.

The numbers are those of `PerStoreFeature` of Apache TVM (`per_store_feature.cc`), which goes back
to Ansor (Zheng et al., OSDI 2020), appendix B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...target import Target
from ...tir import Block, Buffer, IRModule, PrimFunc, pre_order
from .allocations import PlacedBuffer, allocated, memory_of
from .index import add_arithmetic
from .names import WORKLOADS, feature_names
from .program import GatheredProgram, Store
from .regions import READ, READ_WRITE, WRITE, BufferUse, Numbers, Work, find_regions
from .reuse import reuses_of
from .rows import FeatureOptions, matrix
from .thread_reductions import without_thread_reductions
from .walk import walk


def per_store_features(
    mod: IRModule,
    target: Target,
    *,
    buffers_per_store: int = 5,
    arith_intensity_curve_num_samples: int = 10,
    cache_line_bytes: int = 64,
    extract_workload: bool = False,
    original: IRModule | None = None,
) -> Numbers:
    """A row of numbers for each buffer that is written, in the order of their first stores.

    Args:
        mod: functions of blocks.
        target: the machine.
        buffers_per_store: for how many buffers of a store a row has columns.
        arith_intensity_curve_num_samples: points of the curve of arithmetic intensity.
        cache_line_bytes: of the machine.
        extract_workload: whether to add eight columns that tell the kind of the program by the
            names of its blocks.
        original: the program before schedules, whose blocks those are; `mod` if not given.

    Returns:
        `(rows, 164)` numbers of type float64, or as many columns as the options make. Most are
        `log2(1 + x)`; see `FEATURE_NAMES`. Stores of constants make no row.

    >>> from tileloom.script import parse
    >>> from tileloom.target import target
    >>> from tileloom.tuner.features import FEATURE_NAMES
    >>> func = parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in T.parallel(8):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(8, i)
    ...             B[vi] = A[vi] * 2.0
    ... ''')
    >>> rows = per_store_features(IRModule({"main": func}), target("llvm"))
    >>> rows.shape, float(rows[0, FEATURE_NAMES.index("parallel_len")])
    ((1, 164), 3.169925001442312)
    """
    options = FeatureOptions(
        buffers_per_store,
        arith_intensity_curve_num_samples,
        cache_line_bytes,
        target.sm > 0,
    )
    width = len(feature_names(buffers_per_store, arith_intensity_curve_num_samples))
    parts = [_features(func, options) for func in mod.functions.values()]
    result = np.concatenate([np.zeros((0, width)), *(part for part in parts if len(part))])
    if not extract_workload:
        return result
    kinds = workload_kinds(original or mod)
    return np.hstack([result, np.tile(kinds, (len(result), 1))])


def _features(func: PrimFunc, options: FeatureOptions) -> Numbers:
    func, names = without_thread_reductions(func)
    program = walk(func)
    if not program.stores:
        return np.zeros((0, 0))
    works = _works(program, func, names)
    find_regions(works)
    found = zip(works, reuses_of(works), strict=True)
    # The last store into a buffer speaks for it.
    last = {work.uses[0].memory.buffer: (work, reuses) for work, reuses in found}
    rows = list(last.values())
    return matrix([work for work, _ in rows], [reuses for _, reuses in rows], options)


def _works(program: GatheredProgram, func: PrimFunc, names: Mapping[Buffer, str]) -> list[Work]:
    places = allocated(program)
    for buffer, name in names.items():
        places[buffer].name = name
    for buffer in func.buffer_map.values():
        places[buffer] = memory_of(buffer, ())
    return [_work(store, places) for store in program.stores]


def _work(store: Store, places: dict[Buffer, PlacedBuffer]) -> Work:
    uses: dict[Buffer, BufferUse] = {}
    counts = list(store.counts)
    for access in store.accesses():
        memory = places.get(access.buffer)
        if memory is None:
            memory = places[access.buffer] = memory_of(access.buffer)
        indices = memory.indices(access)
        if uses:
            for form in indices:
                add_arithmetic(form, counts)
        use = uses.get(access.buffer)
        if use is None:
            kind = READ if uses else WRITE
            uses[access.buffer] = BufferUse(memory, [indices], kind)
        elif use.kind == READ:
            use.indices.append(indices)
        else:
            use.kind = READ_WRITE
    return Work(store.nest, counts, list(uses.values()))


def workload_kinds(mod: IRModule) -> Sequence[float]:
    """Which kinds of work the names of blocks tell of: a one for each of `WORKLOADS`."""
    found = set()
    for func in mod.functions.values():
        for stmt in pre_order(func.body):
            if isinstance(stmt, Block):
                found.add(_kind_of(stmt.name_hint.lower()))
    return [float(kind in found) for kind in WORKLOADS]


def _kind_of(name: str) -> str | None:
    for kind in WORKLOADS:
        if any(part in name for part in kind.split("_or_")):
            return kind
    return None
