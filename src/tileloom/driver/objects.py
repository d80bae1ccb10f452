"""Machine code of modules: lowered, emitted, compiled, kept on disk, and loaded."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..base.compiling import compiling
from ..base.settings import settings
from ..runtime import LoadedObject, load_object, native, parallel
from ..runtime.cache import cache_key, object_cache
from ..runtime.elf import checked_object
from ..target import Target
from ..tir import IRModule
from .keys import stamp

if TYPE_CHECKING:
    from ..codegen import EmittedModule

_PARALLEL_RUNTIME = "tileloom_parallel"


def _native_helper(name: str, symbols: Mapping[str, int]) -> LoadedObject:
    host = Target.host()

    def make() -> bytes:
        from ..codegen import jit, launch_stub, parallel_stub, pyentry

        sources = {
            "parallel": lambda: parallel_stub.source(host.arch),
            "entry": pyentry.source,
            "launch": launch_stub.source,
        }
        return jit.compile_ir(sources[name](), host, opt_level=0 if name != "launch" else 2)

    key = cache_key("helper", name, host.key, stamp(), sys.version)
    return load_object(object_cache().get_or_make(key, make, checked_object), symbols)


native.connect(_native_helper)


@compiling
def object_code(
    module: IRModule,
    target: Target,
    checked: bool | None = None,
    entries: Collection[str] | None = None,
) -> tuple[bytes, EmittedModule]:
    """Machine code for a module at any stage; the part after emission may come from the cache.

    Args:
        checked: whether code checks its indices; by default as the settings say.
        entries: the functions that are called from outside; by default all.
    """
    from ..codegen import emit_module, jit
    from ..lower import lower

    wanted = settings().check if checked is None else checked
    emitted = emit_module(lower(module, target, checked=wanted), target.features, entries)
    key = cache_key(emitted.ir_text, target.key, stamp())
    made = object_cache().get_or_make(
        key, lambda: jit.compile_ir(emitted.ir_text, target), checked_object
    )
    return made, emitted


def compile_module(
    module: IRModule,
    target: Target,
    symbols: Mapping[str, int] | None = None,
    checked: bool | None = None,
) -> tuple[LoadedObject, EmittedModule]:
    """Lower, compile and load a module for this process.

    Args:
        checked: whether code checks its indices; by default as the settings say.
    """
    data, emitted = object_code(module, target, checked)
    return linked(data, symbols or {}, needs_threads(emitted.ir_text)), emitted


def needs_threads(ir_text: str) -> bool:
    """Whether code calls the runtime of parallel loops."""
    return _PARALLEL_RUNTIME in ir_text


def linked(data: bytes, symbols: Mapping[str, int], threads: bool) -> LoadedObject:
    """Machine code loaded into this process.

    Args:
        symbols: addresses by the names under which the code finds them.
        threads: whether it runs parallel loops.
    """
    known = dict(symbols)
    if threads:
        known[_PARALLEL_RUNTIME] = parallel.address()
    return load_object(data, known)


def ptx(ir_text: str, target: Target) -> str:
    """PTX for LLVM IR, from the cache on disk where that has it."""

    def make() -> bytes:
        from ..codegen import jit

        return jit.assembly(ir_text, target).encode()

    key = cache_key("ptx", ir_text, target.key, stamp())
    return object_cache().get_or_make(key, make).decode()
