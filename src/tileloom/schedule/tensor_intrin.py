"""Tensor intrinsics: what a piece of hardware computes, and how it is told to.

An intrinsic is two functions over the same buffers: the *description* says in loops what is
computed, the *implementation* computes it. `tensorize` finds the description in a program and puts
the implementation in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError, VerifyError
from ..expr import IntImm, Range, Var, const
from ..tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    For,
    MatchBufferRegion,
    PrimFunc,
    Stmt,
    infer_block_access,
    make_buffer,
    run,
    stmt_children,
    structural_equal,
)
from .library.intrinsics import DEFINITIONS, find_definition
from .library.intrinsics.elsewhere import why_missing

Array = np.ndarray[Any, Any]
_REGISTERED: dict[str, TensorIntrin] = {}


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """A description and an implementation.

    Attributes:
        desc: what is computed: a root block with loops around one block.
        impl: how it is computed: a root block.
        checked: whether both have been run on random inputs and agreed. False where the
            implementation calls what only hardware can do.
    """

    desc: PrimFunc
    impl: PrimFunc
    checked: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "desc", _with_root_block(self.desc, "description"))
        object.__setattr__(self, "impl", _with_root_block(self.impl, "implementation"))
        _check_parameters(self.desc, self.impl)

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Give an intrinsic a name for `tensorize`.

        Raises:
            UserError: when the name is taken (and `override` is not set), when the functions do
                not take the same buffers, or when they compute different things.
        """
        if not override and (name in _REGISTERED or find_definition(name) is not None):
            raise UserError(
                f"there is a tensor intrinsic called {name!r} already",
                hint="pass override=True to replace it",
            )
        intrin = TensorIntrin(desc, impl)
        object.__setattr__(intrin, "checked", check_equivalence(name, intrin.desc, intrin.impl))
        _REGISTERED[name] = intrin
        return intrin

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic with a name; None or a refusal if there is none."""
        found = _REGISTERED.get(name)
        make = find_definition(name) if found is None else None
        if make is not None:
            # The project's own ones are checked by its tests, not each time they are loaded.
            found = _REGISTERED[name] = TensorIntrin(*make())
        if found is None and not allow_missing:
            known = why_missing(name)
            if known is not None:
                raise UserError(f"the tensor intrinsic {name!r} {known[0]}", hint=known[1])
            near = get_close_matches(name, TensorIntrin.names(), 3)
            hint = f"did you mean {', '.join(near)}?" if near else None
            raise UserError(f"no tensor intrinsic is called {name!r}", hint=hint)
        return found

    @staticmethod
    def names() -> list[str]:
        """The names of all intrinsics."""
        return sorted({*_REGISTERED, *DEFINITIONS})


# ---------------------------------------------------------------------------- form


def root_block(func: PrimFunc) -> Block:
    """The root block of a description or implementation."""
    body = func.body
    if not isinstance(body, BlockRealize):
        raise UserError(f"the function {func.name!r} has no root block")
    return body.block


def _with_root_block(func: PrimFunc, what: str) -> PrimFunc:
    if not isinstance(func, PrimFunc):
        raise UserError(f"the {what} of a tensor intrinsic is a PrimFunc, got {func!r}")
    for param in func.params:
        if param not in func.buffer_map:
            raise UserError(
                f"the parameter {param.name!r} of the {what} is no buffer",
                hint="tensor intrinsics take buffers only",
            )
    body = func.body
    if isinstance(body, BlockRealize) and not body.iter_values:
        return func
    bare = Block((), (), (), "root", body)
    reads, writes = infer_block_access(bare, func.buffers)
    root = bare.replace(reads=reads, writes=writes)
    return func.replace(body=BlockRealize((), const(True), root))


def _check_parameters(desc: PrimFunc, impl: PrimFunc) -> None:
    if len(desc.params) != len(impl.params):
        raise UserError(
            f"the description takes {len(desc.params)} buffers, "
            f"the implementation {len(impl.params)}"
        )
    for ours, theirs in zip(desc.buffers, impl.buffers, strict=True):
        if ours.dtype is not theirs.dtype or ours.ndim != theirs.ndim:
            raise UserError(f"the description has {ours}, the implementation {theirs}")
        for a, b in zip(ours.shape, theirs.shape, strict=True):
            if not structural_equal(a, b, map_free_vars=True):
                raise UserError(f"the description has {ours}, the implementation {theirs}")
        if ours.scope != theirs.scope:
            raise UserError(
                f"{ours.name!r} of the description is in {ours.scope!r} memory, "
                f"{theirs.name!r} of the implementation in {theirs.scope!r}"
            )


# ---------------------------------------------------------------------------- equivalence

_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
_MOST_WORK = 1 << 20


def check_equivalence(name: str, desc: PrimFunc, impl: PrimFunc) -> bool:
    """Run both on random numbers; False if that is not possible.

    Both see parts of larger arrays, as they will in a program, so an implementation that takes its
    buffers to be compact, without saying so by its strides, is found out.

    Raises:
        UserError: when the results differ.
    """
    if any(buffer.static_shape is None for buffer in desc.buffers) or _work(desc.body) > _MOST_WORK:
        return False
    for margin in (3, 0):
        try:
            _compare(name, desc, impl, margin)
            return True
        except UnsupportedError:
            return False
        except VerifyError:
            if margin == 0:
                raise
    return False


def _work(stmt: Stmt) -> int:
    """About how many statements run."""
    inside = sum(map(_work, stmt_children(stmt))) or 1
    known = isinstance(stmt, For) and isinstance(stmt.extent, IntImm)
    return inside * max(stmt.extent.value, 1) if known else inside  # type: ignore[attr-defined]


def _compare(name: str, desc: PrimFunc, impl: PrimFunc, margin: int) -> None:
    rng = np.random.default_rng(0)
    hosts = [_host(a, b, margin) for a, b in zip(desc.buffers, impl.buffers, strict=True)]
    inputs = [_random(rng, host) for host, _ in hosts]
    results = []
    for func in (desc, impl):
        arrays = [array.copy() for array in inputs]
        run(_hosted(func, hosts), *arrays)
        results.append(arrays)
    for buffer, wanted, got in zip(desc.buffers, *results, strict=True):
        if not _close(str(buffer.dtype), wanted, got):
            raise UserError(
                f"the description and the implementation of {name!r} leave different values "
                f"in {buffer.name!r}",
                hint="tensorize would change what programs compute",
            )


def _host(desc: Buffer, impl: Buffer, margin: int) -> tuple[Buffer, tuple[int, ...]]:
    """A larger buffer, and where the intrinsic's part of it starts."""
    shape = list(desc.static_shape or ())
    first = max(1, desc.offset_factor, impl.offset_factor)
    starts = [first if k == 0 else 0 for k in range(len(shape))]
    larger = [
        size + start + (margin if k else 1) for k, (size, start) in enumerate(zip(shape, starts))
    ]
    return make_buffer(larger, str(desc.dtype), desc.name, scope=desc.scope), tuple(starts)


def _random(rng: np.random.Generator, host: Buffer) -> Array:
    shape, kind = host.static_shape or (), host.dtype
    if kind.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.is_int:
        low, high = (0, 256) if str(kind).startswith("uint") else (-128, 128)
        return rng.integers(low, high, shape).astype(kind.numpy)
    return rng.standard_normal(shape).astype(kind.numpy)


def _hosted(func: PrimFunc, hosts: Sequence[tuple[Buffer, tuple[int, ...]]]) -> PrimFunc:
    """The function on parts of larger buffers."""
    params, buffer_map, matches = [], {}, []
    for buffer, (host, starts) in zip(func.buffers, hosts, strict=True):
        param = Var(host.name, "handle")
        params.append(param)
        buffer_map[param] = host
        region = [Range(const(s), e) for s, e in zip(starts, buffer.shape, strict=True)]
        matches.append(MatchBufferRegion(buffer, BufferRegion(host, tuple(region))))
    block = root_block(func)
    whole = tuple(BufferRegion.full(host) for host, _ in hosts)
    root = block.replace(match_buffers=(*matches, *block.match_buffers), reads=whole, writes=whole)
    return PrimFunc(tuple(params), BlockRealize((), const(True), root), buffer_map)


def _close(kind: str, wanted: Array, got: Array) -> bool:
    tolerance = _TOLERANCE.get(kind)
    if tolerance is None:
        return bool(np.array_equal(wanted, got))
    a, b = wanted.astype("float64"), got.astype("float64")
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
