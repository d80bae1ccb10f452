"""Exact checks of programs through isl: an independent judge of every schedule step.

`verify_program` looks at nothing but the text of the program: which instances of which statement
touch which memory, and in which order. It shares no analysis with the primitives.

What is proven for a function in blocks form (see `Violation.kind` for what is reported):

* each variable has a value where it is used;
* no access is out of bounds, no block runs outside the domain of its iteration variables;
* whatever is read has been written before, or was given to the function;
* a block that writes a result runs for its whole domain; one that accumulates runs once for each
  iteration, over all of the reduction, after its init and before anybody reads the result; any
  other may run repeatedly if it computes the same value again;
* iterations of parallel, vectorized and thread-bound loops do not conflict in memory, except that
  threads reduce together. A buffer that is used within such a loop alone has a copy for each
  iteration, as lowering makes them;
* with the original at hand: each element of each result is the same term over the elements of the
  arguments as there (see `compare`), sums and the like in any order of their terms.

Index arithmetic is exact over quasi-affine expressions, also with symbolic sizes. Indices that are
data may be anything, but are the same thing in both programs. Whatever cannot be shown makes the
verdict "unknown", never "ok"; nor "wrong": iterations that never run, for example, are no defect
where the results are proven to be the same, and only a doubt where that is not decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import UserError
from ...expr import IndexMap
from ...tir import Buffer, PrimFunc
from ..integer_sets import Integers, TooHardError
from .checks import (
    check_bounds,
    check_cover,
    check_domains,
    check_instances,
    check_races,
    check_reductions,
)
from .compare import compare
from .extract import extract, symbolic_params
from .flow import Flow, complete
from .names import check_names
from .report import Findings, Report
from .threads import name_threads
from .unfuse import unfuse
from .views import check_views

# Some seconds of isl's work; programs that are decided at all take a fraction of one, mostly.
MAX_OPERATIONS = 10_000_000


def verify_program(
    func: PrimFunc,
    *,
    original: PrimFunc | None = None,
    layouts: Mapping[int, IndexMap] | None = None,
    max_operations: int = MAX_OPERATIONS,
) -> Report:
    """What can be proven about a function in blocks form.

    Args:
        func: the function.
        original: a function that it must agree with, as the one that was scheduled.
        layouts: for buffer parameters, by number, that are in another layout than those of the
            original: from indices there to indices here. What lies between is never looked at.
        max_operations: how long isl may think before the verdict is "unknown"; 0 sets no limit.

    Raises:
        UnsupportedError: when the package `islpy` is missing (extra `poly`).

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def shift(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    ...     for i in T.parallel(8):
    ...         with T.block("Y"):
    ...             v = T.axis.spatial(8, i)
    ...             Y[v] = X[v + 1]
    >>> print(verify_program(shift))
    wrong
    out-of-bounds: a load from 'X' in block 'Y' is out of bounds
      for example block 'Y' at X[8] (v=7) (i=7)
    """
    if not isinstance(func, PrimFunc):
        raise UserError(f"verify_program needs a PrimFunc, got {type(func).__name__}")
    integers = Integers(symbolic_params(func), max_operations)
    findings: Findings | None = None
    try:
        with integers.limited():
            findings = Findings(extract(unfuse(name_threads(func)), integers))
            flow = _check(findings)
            if original is not None:
                _compare(findings, flow, original, layouts or {})
    except TooHardError as error:
        if findings is None:
            return Report(unknown=(str(error),))
        findings.model.doubt(str(error))
        if original is not None:
            findings.compared(same=False)
    model = findings.model
    return Report(
        tuple(findings.violations), (*model.unknown, *model.unknown_values), tuple(model.notes)
    )


def _check(findings: Findings) -> Flow:
    model = findings.model
    complete(model)
    flow = Flow(model)
    check_names(model, findings)
    check_views(model, findings)
    check_bounds(model, findings)
    check_domains(model, findings)
    check_cover(flow, findings)
    check_instances(flow, findings)
    check_reductions(flow, findings)
    check_races(model, findings, flow)
    return flow


def _compare(
    findings: Findings, flow: Flow, original: PrimFunc, layouts: Mapping[int, IndexMap]
) -> None:
    model, params = findings.model, symbolic_params(original)
    if len(params) != len(model.integers.params):
        model.doubt("not comparable with the original: the parameters differ")
        return
    origin = extract(unfuse(name_threads(original)), model.integers.renamed(params))
    complete(origin)
    maps = {
        k: _layout(model.integers, layout, original.buffers[k]) for k, layout in layouts.items()
    }
    findings.compared(compare(flow, Flow(origin), findings, maps))


def _layout(integers: Integers, layout: IndexMap, buffer: Buffer) -> Any:
    """From indices into a parameter of the original to those into the parameter as it is now."""
    space = integers.space(layout.initial_indices)
    numbers = [space.number(index) for index in layout.final_indices]
    if any(number is None for number in numbers):
        raise UserError(f"the layout {layout} is not affine")
    inside = integers.box(buffer.shape)
    found = space.map(numbers)
    return found if inside is None else found.intersect_domain(inside)
