'''The primitives of a schedule, one module each; all modules of this folder are loaded at once.

How to write one
================

Adding a primitive touches two files: `primitives/<method>.py` and `tests/schedule/test_<method>.py`
(a file may hold a pair such as `compute_at` and `reverse_compute_at`). A module whose name starts
with an underscore holds what a few primitives share. Nothing has to be listed anywhere.

    """compute_foo: one line on what it does."""

    from ..errors import refuse
    from ..instruction import BlockRef, LoopRef, primitive
    from ..state import ScheduleState

    @primitive("ComputeFoo", int_bools=True)        # the InstructionKind name of TVM's traces
    def compute_foo(
        state: ScheduleState, block: BlockRef, loop: LoopRef, preserve_unit_loops: bool = False
    ) -> BlockRef:
        """One line.

        Before and after, as a doctest.
        """
        check_...(state, block)                     # refuse first, change last
        new = ...                                   # build new statements
        state.replace(scope, new, {old_block: new_block})
        return state.sref(new_block)                # of the new statement

**Signature.** Parameter names, order and defaults are those of TVM's `Schedule` method; they become
the method, the JSON and the Python text of traces. Annotate with `BlockRef`, `LoopRef`, `PlaceRef`
(block or loop), `IntRef` (number or number variable), `ValueRef` (data with such inside), `MapRef`
(an index map with such inside) and lists of these: they are the *inputs* of the instruction, in
order. Everything else is an *attribute*, in order. In the function the references are `StmtSRef`,
numbers are `int` (or an expression).
`ReadIndex`/`WriteIndex` accept an index, a name or a Buffer and arrive as index into the reads or
writes of the parameter `block`. `*loops: LoopRef` is flattened into the inputs; `flat="factors"`
does that for the last list parameter. The result annotation (`BlockRef`, `list[LoopRef]`, `IntRef`,
None) says which variables the step defines. Options of `@primitive`: `pure` for look-ups,
`int_bools` where TVM writes 0/1 for truth values, `skip_empty` for lists that Python text leaves
out, `codecs` for attributes that are no plain data (index maps), `front` where the user's arguments
differ from the recorded ones (see `get_block`), `check` for a function with the same arguments that
refuses and changes nothing (`can(state, "ComputeAt", block, loop)` asks it). A parameter
`decision=None` makes it a sampling primitive: it returns `Sampled(outputs, decision)`.

**Legality.** `analysis.tree` (scope_root, loops_above, child_blocks, lowest_common_ancestor,
require_plain_loop, ...), `analysis.scope` (producers, consumers, block_scope), `analysis.blocks`
(check_complete, check_reduction, check_not_output, check_trivial_binding, ...), `analysis.affine`
(affine_binding), `analysis.cover` (check_stage_pipeline, check_region_cover), `analysis.regions`
(path_domains, lower_bound, upper_bound). To refuse: `raise refuse("what does not hold, with the
names of what breaks it", at=[srefs concerned], hint="what to do", fast="TVM's short text")`.
Do all checks before the first `state.replace`: a refusal must leave the program as it was.

**Building.** Statements are immutable: `stmt.replace(field=...)` makes a changed copy. Keep every
statement that does not change *as the very object*: it keeps its references and its analyses.
`rewrite.py` has `LoopVarSubstitution` (substitute loop variables above blocks),
`simplify_bindings`, `add_predicate`, `nest`; `_rebuild.rebuilt` puts statements
in place of others; `tir` has `StmtRewriter`,
`substitute_stmt`, `seq`, `infer_block_access`, `union_regions`, `make_buffer`;
`state.copy_loop(loop, body)` is quick. A copy of a block that is to run as well needs `IterVar`s
and `Var`s of its own.

**Replacing.** `state.replace(src, new, block_map)` puts `new` where `src` stands and copies the
path to the root. It moves the references: same object - kept with all below; same loop variable,
same iteration variables or `block_map[old] = new` - taken over; the rest expires.
`state.replace_realize(block, new)` puts a statement in place of the one that runs a block (other
values, a predicate, loops around it). To add buffers, replace the scope root:
`state.replace(scope, scope.block.replace(alloc_buffers=..., body=...))`. Do as much as possible in
one `replace`; read `scope.block` and `loop.loop` anew after each one. `state.update_function`
changes the parameters' buffers.

**Speed.** Replaying 40 steps takes 15 ms or less: no walks over the whole function where the
references know the place, `memoised` for what depends on statements alone, and quick ways for
numbers (`analysis.affine.linear_form`) before the analyzer is asked.

**Tests.** `tests/schedule/common.py` has programs and helpers: `schedule(func)` (in debug mode),
`check_trace(sch)` (JSON and Python round trips), `check_same(before, after)` (interpreter),
`same_text(sch, expected)` (structural equality modulo index simplification), `refused(...)`.
Test before and after, the trace, each refusal, odd and unit extents.
'''

from importlib import import_module
from pkgutil import iter_modules

#: The names of the modules loaded.
LOADED = tuple(
    info.name for info in iter_modules(__path__) if import_module(f"{__name__}.{info.name}")
)
