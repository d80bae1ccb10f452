"""The questions asked of one program: bounds, cover, instances of blocks, unordered loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...expr import REDUCE, IterVar, Var, free_vars
from .flow import Flow, Update, made_by, reducing_lanes, values_of
from .in_place import goes_round, started
from .model import INIT, Access, Instance, LoopDim, Memory, Model
from .report import Findings
from .splits import split_variables


def check_bounds(model: Model, findings: Findings) -> None:
    """No access is out of bounds."""
    for access in model.accesses:
        if access.outside.is_empty():
            continue
        what = f"{'load from' if access.is_read else 'store to'} {access.memory.name!r}"
        if access.sure:
            message = f"a {what} in block {access.block!r} is out of bounds"
            findings.add("out-of-bounds", message, (access, access.outside))
        else:
            model.doubt(f"a {what} in block {access.block!r} may be out of bounds")


def check_domains(model: Model, findings: Findings) -> None:
    """No block runs outside the domains of its iteration variables."""
    dims = {place: _dims_of(model, place) for place in model.places}
    for place in model.places:
        for axis, value in zip(place.block.iter_vars, place.values, strict=True):
            number = place.space.number(value)
            within = None
            if number is not None:
                within = place.space.between(axis.domain.min, number, axis.domain.extent)
            if within is None:
                model.doubt(f"{axis.var.name!r} of block {place.name!r} is not affine", True)
                continue
            beyond = place.domain.subtract(within)
            if beyond.is_empty():
                continue
            if not place.exact:
                model.doubt(f"block {place.name!r} may run outside of its domain", True)
                continue
            message = f"block {place.name!r} runs outside the domain of {axis.var.name!r}"
            findings.at_place("over-run", message, place, beyond, dims[place])


def _dims_of(model: Model, place: Instance) -> tuple[LoopDim, ...]:
    for access in model.accesses:
        if access.place is not None and place in access.place.chain():
            return access.dims[: place.depth]
    return ()


# ---------------------------------------------------------------------------- cover


def check_cover(flow: Flow, findings: Findings) -> None:
    """What is read has been written before, unless it was given to the function."""
    model = flow.model
    for memory in model.memories:
        reads = memory.reads
        sure = all(access.exact for access in memory.writes)
        if not reads:
            continue
        unwritten = flow.sources(memory).unwritten
        for read in reads:
            if memory.param is not None and not _initialised(read, flow):
                continue
            bare = unwritten.intersect(read.domain.subtract(read.outside).to_union_set())
            if bare.is_empty():
                continue
            what = f"{memory.name!r} is read in block {read.block!r} before it is written"
            if read.exact and sure:
                findings.add("uncovered", what, (read, bare.get_set_list().get_at(0)))
            else:
                model.doubt(what.replace("is read", "may be read"), True)


def _initialised(read: Access, flow: Flow) -> bool:
    """Whether a load is that of an accumulator that its own block initialises."""
    return (
        read.place is not None
        and read.place.block.init is not None
        and any(update.read is read for update in flow.updates.values())
    )


# ---------------------------------------------------------------------------- instances


def check_instances(flow: Flow, findings: Findings) -> None:
    """Blocks run for all they must, reductions once, others as often as it makes no difference."""
    outputs: set[Instance] = set()
    for write in flow.model.writes():
        if write.role == INIT:
            continue
        if write.iters is None or not write.sure:
            what = f"it is not known exactly when block {write.block!r} runs"
            flow.model.doubt(what, True)
            continue
        if write in flow.updates:
            update = started(flow, flow.updates[write])
            _check_once(findings, update)
            _check_all(flow, findings, update)
        else:
            if any(write.reduces) and not _is_the_same_again(write):
                what = f"block {write.block!r} reduces into {write.memory.name!r}"
                flow.model.doubt(f"{what}, but does not accumulate element by element", True)
            _check_repetition(flow, findings, write)
        if (
            write.place is not None
            and write.memory.param is not None
            and write.place not in outputs
        ):
            outputs.add(write.place)
            _check_outputs(flow, findings, write)


def _is_the_same_again(write: Access) -> bool:
    """Whether a store leaves the same in every step of a reduction: it loads and counts nothing."""
    places = write.place.chain() if write.place is not None else ()
    steps = {a.var for place in places for a in place.block.iter_vars if a.iter_type == REDUCE}
    return not write.loads and write.value is not None and not free_vars(write.value) & steps


def declared_domain(model: Model, place: Instance) -> Any | None:
    """The domain of all iteration variables of a block and those around it."""
    axes: list[IterVar] = [axis for _, _, axis, _ in place.axes()]
    variables: list[Var] = [axis.var for axis in axes]
    space = model.integers.space(variables)
    result = space.universe
    for axis in axes:
        within = space.between(axis.domain.min, space.number(axis.var), axis.domain.extent)
        if within is None:
            model.doubt(f"the domain of {axis.var.name!r} in block {place.name!r} is not affine")
            return None
        result = result.intersect(within)
    return result.intersect_params(model.parameters.params())


def executed(access: Access) -> Any:
    """The values of the iteration variables for which an access runs."""
    return access.iters.intersect_domain(access.domain).range()


def _check_outputs(flow: Flow, findings: Findings, write: Access) -> None:
    if write.place is None:
        return
    domain = declared_domain(flow.model, write.place)
    if domain is None:
        return
    runs = _run_for(write.place).reset_tuple_id()
    update = flow.updates.get(write)
    if update is not None and update.is_reduction:  # what it reduces, `_check_all` looks after
        runs = _expected(flow.model, runs, 0, domain, write)
    left = domain.subtract(runs)
    if not left.is_empty():
        message = f"block {write.block!r} does not run for all of its domain"
        findings.leaves_out(message, write, left)


def _run_for(place: Instance) -> Any:
    values = [value for _, _, _, value in place.axes()]
    runs = place.space.map([place.space.number(value) for value in values])
    runs = runs.intersect_domain(place.domain)
    return split_variables(place.space.integers, runs, place.space.variables, values).range()


def _check_once(findings: Findings, update: Update) -> None:
    write, read = update.write, update.read
    iters = read.iters.intersect_domain(read.domain).to_union_map()
    for runs in (update.base.range_product(iters), iters.intersect_domain(update.fresh)):
        if runs.is_injective():
            continue
        same = runs.apply_range(runs.reverse())
        twice = same.subtract(same.domain().identity())
        message = f"block {write.block!r} adds the same iteration to {write.memory.name!r} twice"
        pair = twice.get_map_list().get_at(0)
        findings.add("repeated", message, (read, pair), read)


def _is_new_inside(update: Update, innermost: Instance) -> bool:
    """Whether the memory is allocated anew in each iteration of a reduction around it."""
    reduces = False
    for place in innermost.chain():
        reduces = reduces or any(a.iter_type == REDUCE for a in place.block.iter_vars)
        if update.write.memory.buffer in place.block.alloc_buffers:
            return reduces
    return False


def _check_all(flow: Flow, findings: Findings, update: Update) -> None:
    """Every accumulation runs over all of the reduction's domain."""
    write, read, model = update.write, update.read, flow.model
    if not update.is_reduction or write.place is None or _is_new_inside(update, write.place):
        return
    domain = declared_domain(model, write.place)
    if domain is None:
        return
    domain = domain.add_dims(model.integers.set_dim, len(write.inner))
    iters = read.iters.intersect_domain(read.domain)
    starts = update.base.get_map_list()
    groups = [iters.intersect_domain(part) for part in _sets(update.fresh)]
    wholes = [(group.range(), 0) for group in groups]
    # What another accumulation leaves may be a part of the same one.
    others, by_turns = {other.name for other in flow.updates}, False
    for k in range(starts.n_map()):
        start = starts.get_at(k)
        size = start.dim(model.integers.out_dim)
        by_turns = by_turns or start.get_tuple_name(model.integers.out_dim) in others
        wholes.append((start.range_product(iters).range().flatten(), size))
    ever = executed(write).reset_tuple_id()
    never: tuple[Any, int] | None = None
    for runs, skip in wholes:
        plain = runs.reset_tuple_id()
        left = _expected(model, plain, skip, domain, write).subtract(plain)
        if left.is_empty():
            continue
        run = ever.insert_dims(model.integers.set_dim, 0, skip)
        if not by_turns and not left.intersect(run).is_empty():
            message = f"the reduction in block {write.block!r} leaves iterations out"
            findings.at_iters("missing", message, write, left, skip)
            return
        never = never or (left, skip)
    if never is not None:
        message = f"the reduction in block {write.block!r} leaves iterations out"
        findings.leaves_out(message, write, *never)
    _check_init_used(findings, update)


def _sets(union: Any) -> Iterator[Any]:
    parts = union.get_set_list()
    for k in range(parts.n_set()):
        yield parts.get_at(k)


def _expected(model: Model, runs: Any, skip: int, domain: Any, write: Access) -> Any:
    """The runs with the reduction variables over all of their domain."""
    kind, result = model.integers.set_dim, runs
    for k, reduces in enumerate(write.reduces):
        if reduces:
            result = result.project_out(kind, skip + k, 1).insert_dims(kind, skip + k, 1)
    return result.intersect(domain.insert_dims(kind, 0, skip))


def _check_init_used(findings: Findings, update: Update) -> None:
    """No init comes after the accumulation that it should start.

    One that starts nothing is harmless: the padding of a result may be stored as it is.
    """
    started = update.base.range()
    for init in update.write.memory.accesses:
        if init.is_write and init.role == INIT and init.place is update.write.place:
            left = init.cell.domain().to_union_set().subtract(started)
            left = _after(init, left, update.write)
            if not left.is_empty():
                message = f"block {init.block!r} initialises {init.memory.name!r} too late"
                findings.add("late-init", message, (init, left.get_set_list().get_at(0)))


def _after(late: Access, among: Any, early: Access) -> Any:
    """The instances of an access, out of a set, that come after another access to their element."""
    both = late.cell.to_union_map().intersect_domain(among)
    pairs = both.apply_range(early.cell.to_union_map().reverse())
    times = late.time.to_union_map(), early.time.to_union_map()
    return pairs.intersect(times[0].lex_gt_union_map(times[1])).domain()


def _check_repetition(flow: Flow, findings: Findings, write: Access) -> None:
    """A block that runs again for the same iteration computes the same value again."""
    iters = write.iters.intersect_domain(write.domain)
    if iters.is_injective():
        return
    for read in flow.model.reads():
        if read.place is not write.place or read.role != write.role:
            continue
        if read.iters is None or not read.exact:
            flow.model.doubt(
                f"block {write.block!r} runs repeatedly, perhaps on other values", True
            )
            continue
        back = read.iters.intersect_domain(read.domain).reverse().to_union_map()
        values = values_of(flow, read, lambda store: made_by(flow, store, store.name))
        if back.apply_range(values).is_single_valued():
            continue
        same = read.iters.apply_range(read.iters.reverse()).to_union_map()
        alike = values.apply_range(values.reverse())
        differ = same.intersect_domain(read.domain.to_union_set())
        differ = differ.intersect_range(read.domain.to_union_set()).subtract(alike)
        if differ.is_empty():
            flow.model.doubt(
                f"block {write.block!r} runs repeatedly, perhaps on other values", True
            )
            continue
        if goes_round(flow, write):
            flow.model.doubt(f"block {write.block!r} copies a sum in each of its steps", True)
            continue
        message = f"block {write.block!r} runs again, and reads another value then"
        findings.add("repeated", message, (read, differ.get_map_list().get_at(0)), read)


# ---------------------------------------------------------------------------- reductions


def check_reductions(flow: Flow, findings: Findings) -> None:
    """Nobody looks at a reduction before it is finished, and no init erases it."""
    for memory in flow.model.memories:
        updates = [
            update
            for update in flow.updates.values()
            if update.write.memory is memory and update.is_reduction
        ]
        if updates:
            _check_finished(flow, findings, memory, updates)
            if memory.param is not None:
                _check_not_erased(flow, findings, memory, updates)


def _check_finished(flow: Flow, findings: Findings, memory: Memory, updates: list[Update]) -> None:
    places = {update.write.place for update in updates}
    reads = [a for a in memory.reads if a.place not in places]
    if not reads:
        return
    writes = memory.writes
    following = flow.last_before([(r.cell, r.time) for r in reads], writes, backwards=True).last
    for update in updates:
        late = following.intersect_range(update.write.domain.to_union_set())
        for read in reads:
            pairs = late.intersect_domain(read.domain.to_union_set())
            if pairs.is_empty():
                continue
            message = (
                f"block {read.block!r} reads {memory.name!r} before the reduction in block "
                f"{update.write.block!r} is finished"
            )
            if read.exact:
                pair = pairs.get_map_list().get_at(0)
                findings.add("unfinished", message, (read, pair), update.write)
            else:
                flow.model.doubt(message.replace("reads", "may read"), True)


def _check_not_erased(
    flow: Flow, findings: Findings, memory: Memory, updates: list[Update]
) -> None:
    """What is there at the end is not what a store left that knew nothing of the reduction."""
    last = flow.final(memory)
    readers = {access.place for access in memory.reads}
    for write in memory.writes:
        if write in flow.updates or write.place in readers:
            continue
        final = last.intersect_range(write.domain.to_union_set()).range()
        for update in updates:
            cells = update.write.cell.range().to_union_set()
            erased = write.cell.to_union_map().intersect_range(cells).domain().intersect(final)
            if not erased.is_empty():
                message = (
                    f"block {write.block!r} overwrites the result of the reduction in block "
                    f"{update.write.block!r}"
                )
                found = erased.get_set_list().get_at(0)
                if write.exact:
                    findings.add("late-init", message, (write, found))
                else:
                    flow.model.doubt(message.replace("overwrites", "may overwrite"), True)


# ---------------------------------------------------------------------------- unordered loops


def check_races(model: Model, findings: Findings, flow: Flow) -> None:
    """Iterations of unordered loops do not conflict."""
    for memory in model.memories:
        dims = {dim: None for access in memory.accesses for dim in access.dims}
        for dim in dims:
            if dim.is_unordered:
                under = [access for access in memory.accesses if dim in access.dims]
                _check_loop(model, findings, dim, under)
        if any(dim.is_lane for dim in dims):
            model.note("threads wait for each other between statements that share memory")
            _check_lanes(flow, findings, memory)


def _check_loop(model: Model, findings: Findings, dim: LoopDim, under: list[Access]) -> None:
    for k, first in enumerate(under):
        for second in under[k:]:
            if not (first.is_write or second.is_write):
                continue
            depth = first.dims.index(dim)
            outer = [k for k in range(depth) if not first.dims[k].is_lane]
            conflict = _conflict(model, first, second, outer, [depth])
            _report_race(model, findings, (first, second), conflict, _loop_title(dim))


def _loop_title(dim: LoopDim) -> str:
    kind = f"{dim.tag!r}" if dim.tag else dim.loop.kind
    return f"iterations of the {kind} loop {dim.name!r}"


def _conflict(
    model: Model, first: Access, second: Access, equal: list[int], differ: list[int]
) -> Any:
    """Pairs of instances on one cell, equal in some loops and not in all of the others."""
    a = ",".join(f"a{k}" for k in range(len(first.dims)))
    b = ",".join(f"b{k}" for k in range(len(second.dims)))
    parts = [f"a{k} = b{k}" for k in equal]
    parts.append("(" + " or ".join(f"a{k} < b{k} or a{k} > b{k}" for k in differ) + ")")
    text = f"{{ {first.name}[{a}] -> {second.name}[{b}] : {' and '.join(parts)} }}"
    return first.cell.apply_range(second.cell.reverse()).intersect(model.integers.map(text))


def _report_race(
    model: Model, findings: Findings, pair: tuple[Access, Access], conflict: Any, title: str
) -> None:
    if conflict.is_empty():
        return
    first, second = pair
    name = first.memory.name
    if first.exact and second.exact:
        verbs = {(True, True): "both write", (True, False): "write and read"}
        verb = verbs.get((first.is_write, second.is_write), "read and write")
        message = f"{title} {verb} the same element of {name!r}"
        findings.add("race", message, (first, conflict), second)
    else:
        model.doubt(f"{title} may meet in {name!r}")


def _check_lanes(flow: Flow, findings: Findings, memory: Memory) -> None:
    """Threads that run one statement together conflict only to reduce or to write the same."""
    for write in memory.writes:
        shared = {dim for dim in reducing_lanes(write) if write in flow.updates}
        lanes = [k for k, d in enumerate(write.dims) if d.is_lane and d not in shared]
        ordered = [k for k, d in enumerate(write.dims) if not d.is_lane]
        if not lanes:
            continue
        for other in memory.accesses:
            if other.statement != write.statement or other.dims != write.dims:
                continue
            conflict = _conflict(flow.model, write, other, ordered, lanes)
            if other is write and write.iters is not None and write not in flow.updates:
                conflict = conflict.subtract(write.iters.apply_range(write.iters.reverse()))
            title = "threads that run one statement together"
            _report_race(flow.model, findings, (write, other), conflict, title)
