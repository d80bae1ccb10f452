"""The schedule: a program, the steps taken on it, and a method for each primitive."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..base.errors import InternalError, UserError
from ..expr import Expr, IndexMap, IntImm, Var, const, free_vars, simplify, substitute
from ..tir import (
    COORDINATES,
    Block,
    Buffer,
    IRModule,
    PrimFunc,
    SparseIteration,
    SpIterVar,
    sparse_level,
)
from . import primitives
from .analysis.debug import verify_analyses
from .errors import LEVELS, ScheduleError, name_of, refuse
from .instruction import (
    REFERENCE_ROLES,
    Arguments,
    Instruction,
    InstructionKind,
    Parameter,
    Sampled,
    can,
    kinds,
)
from .methods import PrimitiveMethods
from .rv import RV, BlockRV, LoopRV, SparseIterationRV, is_rv, new_rv
from .sizes import in_sizes_of
from .sref import REFERABLE, StmtSRef
from .state import ScheduleState
from .text import to_python
from .trace import Trace
from .verify import Report, verify_program

_DEBUG = {"none": 0, "all": 3}
_PLACES = (BlockRV, LoopRV, SparseIterationRV)
#: For the roles of references, which variables they may have, in words, too.
_WANTED: Mapping[str, tuple[tuple[type, ...], str]] = {
    "block": ((BlockRV,), "a block"),
    "loop": ((LoopRV,), "a loop"),
    "place": ((BlockRV, LoopRV), "a block or a loop"),
    "iteration": ((SparseIterationRV,), "a sparse iteration"),
    "any": (_PLACES, "a block, a loop or a sparse iteration"),
}
_LOWER_FIRST = "lower_sparse_iter first: it makes loops and blocks of sparse iterations"
_VERIFY_REFERENCES, _VERIFY_ANALYSES = 1, 2


class Schedule(PrimitiveMethods):
    """A program that is transformed step by step, each step checked, none changing what it means.

    The methods have the names and the meaning that they have in TVM's `tir.Schedule`; see
    `tileloom.schedule.primitives` for the steps. Blocks may be named by strings.

    Args:
        mod: what to schedule: a module, or a function, which is called "main" then.
        seed: of the sampling steps, from 1 to 2**31 - 1; None takes one at random.
        debug_mask: "all" derives everything anew after every step and compares; "none" does not.
        error_render_level: how much refusals show: "detail", "fast" or "none".
        enable_check: False skips checks of what blocks start with, read and write, TVM's and our
            own: for steps that are checked before or after, as a search does.
        trace: False records no steps.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
        trace: bool = True,
    ) -> None:
        if error_render_level not in LEVELS:
            raise UserError(f"error_render_level is one of {', '.join(LEVELS)}")
        if isinstance(debug_mask, str) and debug_mask not in _DEBUG:
            raise UserError(f"debug_mask is a number or one of {', '.join(_DEBUG)}")
        if isinstance(mod, PrimFunc):
            mod = IRModule({"main": mod})
        if not isinstance(mod, IRModule):
            raise UserError(f"cannot schedule {type(mod).__name__}: pass an IRModule or PrimFunc")
        mask = _DEBUG[debug_mask] if isinstance(debug_mask, str) else debug_mask
        self._state = ScheduleState(
            mod, debug_mask=mask, enable_check=enable_check, seed=-1 if seed is None else seed
        )
        if len(mod.functions) == 1:
            self._state.func_working_on = next(iter(mod.functions))
        elif "main" in mod.functions:
            self._state.func_working_on = "main"
        self._level = error_render_level
        self._original = mod
        self._values: dict[RV, StmtSRef | int] = {}
        self._trace: Trace | None = Trace() if trace else None
        self._layouts: dict[tuple[str, int], IndexMap] = {}  # of buffer parameters, since the start
        functions = self._state.mod.functions.items()
        self._over_coordinates = {name for name, f in functions if sparse_level(f) == COORDINATES}

    # ------------------------------------------------------------------ looking

    @property
    def mod(self) -> IRModule:
        """The program as it is now."""
        return self._state.mod

    @property
    def state(self) -> ScheduleState:
        """The program with its references."""
        return self._state

    @property
    def trace(self) -> Trace | None:
        """The steps taken so far."""
        return self._trace

    @property
    def func_working_on(self) -> str | None:
        """The function in which names of blocks are looked up."""
        return self._state.func_working_on

    def work_on(self, func_name: str) -> None:
        """Look names of blocks up in this function from now on."""
        if func_name not in self.mod.functions:
            known = ", ".join(self.mod.functions)
            raise UserError(f"no function is called {func_name!r}", hint=f"there are {known}")
        self._state.func_working_on = func_name

    def get(self, rv_or_sref: Any) -> Any:
        """What a variable or a reference stands for: a block, loop, sparse iteration or number."""
        if isinstance(rv_or_sref, StmtSRef):
            return rv_or_sref.stmt
        if isinstance(rv_or_sref, _PLACES):
            sref = self.get_sref(rv_or_sref)
            return sref if sref.stmt is None else sref.stmt
        return self._number(rv_or_sref)

    def get_sref(self, rv_or_stmt: Any) -> StmtSRef:
        """The reference to what a variable stands for, or to a place of the program."""
        if isinstance(rv_or_stmt, REFERABLE):
            if rv_or_stmt not in self._state.sref_of:
                raise UserError(
                    f"the {name_of(rv_or_stmt)} is not part of the program as it is now",
                    hint="steps replace blocks and loops; look it up again after them",
                )
            return self._state.sref(rv_or_stmt)
        return self._place(rv_or_stmt, "any")

    def get_sp_iters(self, iteration: SparseIterationRV | StmtSRef | str) -> list[SpIterVar]:
        """The variables of a sparse iteration, outermost first; no step of the trace."""
        given = self.get_sparse_iteration(iteration) if isinstance(iteration, str) else iteration
        sref = given if isinstance(given, StmtSRef) else self._place(given, "iteration")
        return list(sref.iteration.sp_iter_vars)

    def remove_rv(self, rv: RV) -> None:
        """Forget a variable."""
        if self._values.pop(rv, None) is None:
            raise UserError("the variable is not one of this schedule")

    def show(self, *_style: Any, **_looks: Any) -> None:
        """Print the program and the steps."""
        self.mod.show()
        if self._trace is not None:
            self._trace.show()

    def __str__(self) -> str:
        return str(self.mod) if self._trace is None else f"{self.mod}\n\n{self._trace}"

    def verify(self, func_name: str | None = None) -> Report:
        """What can be proven about a function, by itself and next to what it was at the start.

        This is exact integer arithmetic through isl, independent of the checks of the primitives;
        see `tileloom.schedule.verify`. It needs the extra `poly`.

        Args:
            func_name: the function; by default the one that is worked on.
        """
        name = self.func_working_on if func_name is None else func_name
        if name is None or name not in self.mod.functions:
            known = ", ".join(self.mod.functions)
            raise UserError("name the function to verify", hint=f"there are {known}")
        layouts = {k: layout for (func, k), layout in self._layouts.items() if func == name}
        original = self._original.functions.get(name)
        return verify_program(self.mod[name], original=original, layouts=layouts)

    # ------------------------------------------------------------------ forks

    def copy(self) -> Schedule:
        """A schedule that goes its own way from here; the variables hold in both."""
        other = object.__new__(type(self))
        other._state, twins = self._state.copy()
        other._level = self._level
        other._original = self._original
        other._layouts = dict(self._layouts)
        other._over_coordinates = self._over_coordinates
        other._values = {
            rv: twins.get(value, value) if isinstance(value, StmtSRef) else value
            for rv, value in self._values.items()
        }
        other._trace = None if self._trace is None else self._trace.copy()
        return other

    def seed(self, seed: int) -> None:
        """Start a new stream of random numbers."""
        self._state.random.seed(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule."""
        return self._state.random.fork_seed()

    # ------------------------------------------------------------------ steps

    def perform(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[RV | None]:
        """Take the step of a trace and return the variables it defines; None for what is open."""
        inputs, attrs = map(self._in_own_sizes, (inputs, attrs))
        arguments = kind.unpack(inputs, attrs)
        if decision is not None:
            arguments["decision"] = decision
        result = self._step(kind, arguments)
        return [] if result is None else result if isinstance(result, list) else [result]

    def can_decompose_padding(self, block: Any, loop: Any) -> bool:
        """Whether `decompose_padding` would accept a block and a loop."""
        places = self._place(self._by_name(block, "block"), "block"), self._place(loop, "loop")
        return can(self._state, "DecomposePadding", *places)

    def _call(self, kind: InstructionKind, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The method of a primitive."""
        given = kind.bind(args, kwargs)
        for p in kind.front_parameters:
            if p.role in REFERENCE_ROLES and p.role != "loop":
                given[p.name] = self._by_name(given[p.name], p.role)
        if kind.front is None:
            return self._step(kind, given)
        try:
            actual = self._resolved(kind, kind.front_parameters, given)
            changed = kind.front(self._state, **actual)
        except ScheduleError as error:
            self._complete(error, kind, given)
            raise
        names = [p.name for p in kind.parameters]
        whole = {k: v for k, v in {**given, **changed}.items() if k in names}
        for p in kind.parameters:
            if not p.is_input and p.name in whole:  # attributes hold no variables
                whole[p.name] = self._with_numbers(whole[p.name])
        return self._step(kind, whole)

    def _in_own_sizes(self, values: Sequence[Any]) -> list[Any]:
        """Inputs or attributes of a step with index maps over the sizes of this program."""
        return [
            in_sizes_of(self.mod, value, but=self._values) if isinstance(value, IndexMap) else value
            for value in values
        ]

    def _by_name(self, value: Any, role: str) -> Any:
        if isinstance(value, str):
            return self._named(value, role)
        if isinstance(value, (list, tuple)):
            return [self._by_name(item, role) for item in value]
        return value

    def _named(self, name: str, role: str) -> BlockRV | SparseIterationRV:
        iterations = (stmt for stmt in self._state.sref_of if isinstance(stmt, SparseIteration))
        if role == "iteration" or (role == "any" and any(s.name == name for s in iterations)):
            return self.get_sparse_iteration(name)
        return self.get_block(name)

    def _step(self, kind: InstructionKind, arguments: Arguments) -> Any:
        before = self.mod
        try:
            actual = self._resolved(kind, kind.parameters, arguments)
            for p in kind.parameters:
                if p.role in ("read_index", "write_index"):
                    arguments[p.name] = actual[p.name]
            if kind.parameters and kind.parameters[0].variadic:
                first = kind.parameters[0].name
                result = kind.func(self._state, *actual.pop(first), **actual)
            else:
                result = kind.func(self._state, **actual)
        except ScheduleError as error:
            self._complete(error, kind, arguments)
            raise
        if kind.name == "TransformLayout":
            self._remember_layout(before, actual["index_map"])
        decision = None
        if isinstance(result, Sampled):
            result, decision = result
        outputs = self._defined(kind, result)
        if self._trace is not None:
            inputs, attrs = kind.pack(arguments)
            # Lists are copied: who took the step may change the one that it gave.
            defined = (
                [*outputs] if isinstance(outputs, list) else [] if outputs is None else [outputs]
            )
            self._trace.append(Instruction(kind, inputs, attrs, defined), decision)
        self._debug()
        return outputs

    def _remember_layout(self, before: IRModule, layout: IndexMap) -> None:
        """Note which buffer parameter the last step has put into another layout."""
        for name, func in before.functions.items():
            for k, (old, new) in enumerate(zip(func.buffers, self.mod[name].buffers)):
                if new is not old:
                    known = self._layouts.get((name, k))
                    if known is not None:
                        indices = layout.map_indices(known.final_indices)
                        self._layouts[name, k] = IndexMap(known.initial_indices, indices)
                    else:
                        self._layouts[name, k] = layout

    def _defined(self, kind: InstructionKind, result: Any) -> Any:
        """New variables for what a primitive returns."""
        if kind.returns is None:
            return None
        role, listed = kind.returns
        if listed:
            return [self._define(role, value) for value in result]
        return self._define(role, result)

    def _define(self, role: str, value: Any) -> RV | None:
        if value is None:  # a factor that is left open
            return None
        rv = new_rv(role)
        self._values[rv] = value
        return rv

    def _debug(self) -> None:
        mask = self._state.debug_mask
        if mask & _VERIFY_REFERENCES:
            self._state.verify_references()
        if mask & _VERIFY_ANALYSES:
            verify_analyses(self._state)

    def _complete(self, error: ScheduleError, kind: InstructionKind, arguments: Arguments) -> None:
        if error.mod is not None:
            return
        number = 1 + (len(self._trace.insts) if self._trace is not None else 0)
        parts = [f"{name}={self._shown(value)}" for name, value in arguments.items()]
        step = f"step {number}: {kind.method}({', '.join(parts)})"
        error.complete(self.mod, kind.method, step, self._level)

    def _shown(self, value: Any) -> str:
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(self._shown, value)) + "]"
        if is_rv(value):
            found = self._values.get(value)
            if isinstance(found, StmtSRef) and found.stmt is not None:
                return name_of(found)
            return "<gone>" if found is None or isinstance(found, StmtSRef) else str(found)
        return to_python(value, {})

    # ------------------------------------------------------------------ arguments

    def _resolved(
        self, kind: InstructionKind, parameters: Sequence[Parameter], given: Arguments
    ) -> Arguments:
        """The arguments as the primitive wants them: references and numbers for variables."""
        actual = dict(given)
        for p in parameters:
            value = actual.get(p.name)
            if value is None or p.role in ("attr", "decision"):
                continue
            if p.role in ("read_index", "write_index"):
                actual[p.name] = _buffer_index(actual["block"].block, p.role, value)
            elif p.listed or p.variadic or (p.role == "place" and isinstance(value, (list, tuple))):
                actual[p.name] = [self._one(item, p.role) for item in value]
            else:
                actual[p.name] = self._one(value, p.role)
            if self._over_coordinates and not kind.coordinates and p.role in REFERENCE_ROLES:
                self._check_level(kind, actual[p.name])
        return actual

    def _check_level(self, kind: InstructionKind, places: StmtSRef | list[StmtSRef]) -> None:
        """Refuse a step on loops and blocks in a function that has none of its own yet."""
        for sref in places if isinstance(places, list) else [places]:
            name = None if sref.stmt is None else self._state.function_of(sref)
            if name in self._over_coordinates:
                raise refuse(
                    f"{kind.method} is for loops and blocks, and the function {name!r} still "
                    "iterates over coordinates (sparse_tir_level 2)",
                    at=[sref],
                    hint=_LOWER_FIRST,
                )

    def _one(self, value: Any, role: str) -> Any:
        if role == "int":
            return None if value is None else self._number(value)
        if role == "value":
            return self._value(value)
        return self._place(value, role)

    def _place(self, rv: Any, role: str) -> StmtSRef:
        classes, wanted = _WANTED[role]
        if not isinstance(rv, classes):
            hint = _LOWER_FIRST if isinstance(rv, SparseIterationRV) else None
            shown = self._shown(rv) if is_rv(rv) else repr(rv)
            raise refuse(f"{wanted} is needed, got {shown} ({type(rv).__name__})", hint=hint)
        found = self._values.get(cast(RV, rv))
        if not isinstance(found, StmtSRef):
            raise refuse("the block, loop or iteration is not one of this schedule")
        if found.stmt is None and type(found) is StmtSRef:
            raise refuse(
                "the loop or block is no longer in the program: a step before has replaced it",
                hint="look it up again with get_block or get_loops",
                fast="the loop or block is no longer in the program",
            )
        return found

    def _number(self, value: Any) -> int | Expr:
        if isinstance(value, Expr):
            used = free_vars(value)
            known = {v: const(self._values[v]) for v in used if v in self._values}
            value = simplify(substitute(value, known)) if known else value
            return value.value if isinstance(value, IntImm) else value
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise refuse(f"a number is needed, got {value!r}")
        return int(value)

    def _with_numbers(self, value: Any) -> Any:
        """An index map with numbers for the number variables that it was made of."""
        if not isinstance(value, IndexMap):
            return value
        used = {v for index in value.final_indices for v in free_vars(index) if v in self._values}
        if not used:
            return value
        known: dict[Var, Expr] = {v: const(self._values[v], v.dtype) for v in used}
        finals = [simplify(substitute(index, known)) for index in value.final_indices]
        return IndexMap(value.initial_indices, finals, value.inverse_index_map)

    def _value(self, value: Any) -> Any:
        """Data with numbers for the number variables in it."""
        if isinstance(value, IndexMap):
            return self._with_numbers(value)
        if isinstance(value, Var) and value in self._values:
            return self._values[value]
        if isinstance(value, Expr):
            return self._number(value) if value.dtype.is_int else value
        if isinstance(value, Mapping):
            return {key: self._value(item) for key, item in value.items()}
        return [self._value(v) for v in value] if isinstance(value, (list, tuple)) else value


def _buffer_index(block: Block, role: str, value: Any) -> int:
    """The index of a buffer among the reads or writes, given by index, name or buffer."""
    word = "reads" if role == "read_index" else "writes"
    regions = block.reads if role == "read_index" else block.writes
    if isinstance(value, (str, Buffer)):
        for i, region in enumerate(regions):
            if value is region.buffer or value == region.buffer.name:
                return i
        name = value if isinstance(value, str) else value.name
        known = ", ".join(repr(r.buffer.name) for r in regions) or "nothing"
        raise refuse(
            f"the block {block.name_hint!r} {word} no buffer {name!r}",
            at=[block],
            hint=f"it {word} {known}",
        )
    if not 0 <= int(value) < len(regions):
        raise refuse(
            f"the block {block.name_hint!r} has {len(regions)} buffers that it {word}, "
            f"so there is no index {value}",
            at=[block],
        )
    return int(value)


def _method(kind: InstructionKind) -> Callable[..., Any]:
    def method(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        return self._call(kind, args, kwargs)

    shown = kind.front or kind.func
    functools.update_wrapper(method, kind.func)
    method.__doc__ = kind.func.__doc__ or shown.__doc__
    method.__signature__ = kind.signature  # type: ignore[attr-defined]
    method.__name__ = kind.method
    return method


def _add_methods() -> None:
    if not primitives.LOADED:
        raise InternalError("no schedule primitives were found")
    for name, kind in kinds().items():
        if hasattr(Schedule, name):
            raise InternalError(f"Schedule has a method {name} already")
        setattr(Schedule, name, _method(kind))


_add_methods()
