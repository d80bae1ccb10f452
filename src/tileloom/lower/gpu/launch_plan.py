"""The host's part of a split function as a list of launches, once its scalars have values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from ...base.cached import cached_property
from ...base.errors import UnsupportedError
from ...base.launches import Argument, Launch, Launches
from ...expr import Call, Expr, Var, const, free_vars
from ...expr.evaluate import evaluate
from ...tir import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    collect,
)
from .split_host_device import DYNAMIC_BYTES, LAUNCH, LAUNCH_PARAMS, TAGS

_NOTHING = 0  # an empty kernel is Evaluate(0)


class HostPlan:
    """The host's part of `split_host_device`, to be carried out for values of its scalars.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> from tileloom.lower import lower
    >>> from tileloom.lower.gpu.split_host_device import split_host_device
    >>> from tileloom.schedule import Schedule
    >>> A = te.placeholder((96,), name="A")
    >>> sch = Schedule(te.create_prim_func([A, te.compute((96,), lambda i: A[i] + 1, name="B")]))
    >>> block, thread = sch.split(sch.get_loops("B")[0], [None, 32])
    >>> sch.bind(block, "blockIdx.x"), sch.bind(thread, "threadIdx.x")
    (None, None)
    >>> module = split_host_device(lower(sch.mod["main"], target("cuda -arch=sm_80")))
    >>> host, *kernels = module.functions.values()
    >>> [launch] = HostPlan(host, {k.attrs["global_symbol"]: k for k in kernels}).launches({})[1]
    >>> launch.kernel, launch.grid, launch.block
    ('main_kernel', (3, 1, 1), (32, 1, 1))
    """

    def __init__(self, host: PrimFunc, kernels: Mapping[str, PrimFunc]) -> None:
        self.host = host
        self.kernels = kernels
        self._places: dict[Var, Argument] = {}
        for position, param in enumerate(host.params):
            buffer = host.buffer_map.get(param)
            name = param if buffer is None else buffer.data
            self._places[name] = Argument("param", position)

    @staticmethod
    def of(outline: IRModule) -> HostPlan:
        """The plan of which this is the outline."""
        functions = dict(outline.functions)
        (name,) = (name for name, func in functions.items() if LAUNCH_PARAMS not in func.attrs)
        return HostPlan(functions.pop(name), functions)

    @property
    def outline(self) -> IRModule:
        """The host's part and kernels without bodies: all that launching them takes."""
        kept = (LAUNCH_PARAMS, DYNAMIC_BYTES)
        nothing = Evaluate(const(_NOTHING))
        kernels = {
            name: PrimFunc((), nothing, {}, {key: func.attrs[key] for key in kept})
            for name, func in self.kernels.items()
        }
        return IRModule({self.host.name: self.host, **kernels})

    @cached_property
    def steering(self) -> frozenset[int]:
        """Positions of the scalar parameters that decide about sizes."""
        found = {var for expr in self._deciding() for var in free_vars(expr)}
        return frozenset(self._places[var].position for var in found if var in self._places)

    @cached_property
    def written(self) -> frozenset[int]:
        """Positions of the parameters that kernels write to, by whatever instruction."""
        found = set()
        for step in collect(self.host.body, Evaluate):
            if not _is_launch(step.value):
                continue
            name, arguments, _ = self._split(step.value)
            kernel = self.kernels[name]
            for param, argument in zip(kernel.params, arguments, strict=True):
                place = self._places.get(argument) if isinstance(argument, Var) else None
                if place is not None and param.name in kernel.attrs["tir.written"]:
                    found.add(place.position)
        return frozenset(found)

    def _deciding(self) -> Iterator[Expr]:
        """Every expression that the host itself evaluates."""
        body = self.host.body
        for node in collect(body, Allocate):
            yield from node.extents
        for let in collect(body, LetStmt):
            yield let.value
        for loop in collect(body, For):
            yield from (loop.min, loop.extent)
        for choice in collect(body, IfThenElse):
            yield choice.condition
        for step in collect(body, Evaluate):
            if _is_launch(step.value):
                yield from self._split(step.value)[2]

    def _split(self, call: Any) -> tuple[str, tuple[Expr, ...], tuple[Expr, ...]]:
        """The kernel's name, its arguments and its extents."""
        name, *rest = call.args
        count = len(rest) - len(self.kernels[name.value].attrs[LAUNCH_PARAMS])
        return name.value, tuple(rest[:count]), tuple(rest[count:])

    def launches(self, values: Mapping[int, int | float]) -> Launches:
        """The launches for the values of the steering parameters, by position.

        Raises:
            UnsupportedError: the host does something other than launching.
        """
        env = {
            param: param.dtype.numpy.type(values[position])
            for position, param in enumerate(self.host.params)
            if position in values
        }
        run = _Run(self._split, self.kernels, dict(self._places), env)
        run.stmt(self.host.body)
        return Launches(tuple(run.temporaries), tuple(run.launches))


class _Run:
    """One walk over the host's statements."""

    def __init__(
        self,
        split: Callable[[Any], tuple[str, tuple[Expr, ...], tuple[Expr, ...]]],
        kernels: Mapping[str, PrimFunc],
        places: dict[Var, Argument],
        env: dict[Var, Any],
    ) -> None:
        self.split, self.kernels, self.places, self.env = split, kernels, places, env
        self.temporaries: list[int] = []
        self.launches: list[Launch] = []

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.stmt(part)
            case Allocate() if stmt.annotations.get("zeroed"):
                raise UnsupportedError(
                    f"{stmt.buffer_var.name!r} needs memory that is zero before a call, which"
                    " launches do not provide"
                )
            case Allocate():
                count = prod(self.number(extent) for extent in stmt.extents)
                self.places[stmt.buffer_var] = Argument("temporary", len(self.temporaries))
                self.temporaries.append(count * stmt.dtype.bytes)
                self.stmt(stmt.body)
            case LetStmt():
                self.env[stmt.var] = evaluate(stmt.value, self.env)
                self.stmt(stmt.body)
            case For():
                low = self.number(stmt.min)
                for k in range(self.number(stmt.extent)):
                    self.env[stmt.loop_var] = stmt.loop_var.dtype.numpy.type(low + k)
                    self.stmt(stmt.body)
            case IfThenElse():
                taken = stmt.then_case if self.number(stmt.condition) else stmt.else_case
                if taken is not None:
                    self.stmt(taken)
            case AttrStmt() | DeclBuffer():
                self.stmt(stmt.body)
            case Evaluate() if _is_launch(stmt.value):
                self.launch(stmt.value)
            case Evaluate() if getattr(stmt.value, "value", None) == _NOTHING:
                pass
            case _:
                raise UnsupportedError(
                    f"the host of a GPU only launches kernels; here it has a {type(stmt).__name__} "
                    "of its own",
                    hint="bind the loops around it to threads",
                )

    def number(self, expr: Expr) -> int:
        return int(evaluate(expr, self.env))

    def launch(self, call: Any) -> None:
        name, arguments, extents = self.split(call)
        kernel = self.kernels[name]
        sizes = dict(zip(kernel.attrs[LAUNCH_PARAMS], map(self.number, extents), strict=True))
        x, y, z, *block = (sizes.get(tag, 1) for tag in TAGS)
        given = tuple(self.argument(argument) for argument in arguments)
        dynamic = int(kernel.attrs[DYNAMIC_BYTES])
        threads = (block[0], block[1], block[2])
        self.launches.append(Launch(name, given, (x, y, z), threads, dynamic))

    def argument(self, expr: Expr) -> Argument:
        if isinstance(expr, Var) and expr in self.places:
            return self.places[expr]
        value = evaluate(expr, self.env)
        number = float(value) if expr.dtype.is_float else int(value)
        return Argument("number", value=number, number_type=expr.dtype)


def _is_launch(value: Any) -> bool:
    return isinstance(value, Call) and value.op == LAUNCH
