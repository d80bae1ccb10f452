"""LLVM IR text to machine code: optimise, emit an ELF object or assembly.

LLVM state is not safe to share between threads, so one lock guards it all. Forks wait for it, and
for llvmlite's own, which other users of LLVM in this process hold: a child finds LLVM at rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ..base.errors import InternalError
from ..base.forking import ForkLock, waits_for
from ..target import Target
from .host import check_names, llvm_cpu

_lock = ForkLock()
waits_for(_lock)
waits_for(ffi.lib._lock)


@cache
def _initialise(arch: str) -> None:
    if arch == llvm.get_default_triple().split("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # for inline assembly
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@cache
def _machine(target: Target, opt_level: int) -> Any:
    _initialise(target.arch)
    check_names(target)
    cpu, features = llvm_cpu(target)
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=cpu, features=features, opt=max(1, opt_level), reloc="pic", codemodel="small", jit=False
    )


def llvm_version() -> str:
    """The version of LLVM, such as "22.1.0"; part of what compiled code depends on."""
    return ".".join(map(str, llvm.llvm_version_info))


def _parse(ir_text: str, target: Target, machine: Any, context: Any) -> Any:
    module = None
    try:
        module = llvm.parse_assembly(ir_text, context)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        if module is not None:
            module.close()  # before its context
        raise InternalError(
            f"LLVM refuses our IR: {error}", _excerpt(ir_text, str(error))
        ) from None
    return module


def _excerpt(ir_text: str, message: str, around: int = 3) -> str:
    """The lines of IR that a parse error speaks of; all of it if it names no line."""
    place = re.search(r"<string>:(\d+):", message)
    lines = ir_text.splitlines()
    if place is None:
        return ir_text
    line = int(place.group(1)) - 1
    first = max(0, line - around)
    last = min(len(lines), line + around + 1)
    return "\n".join(f"{n + 1:5} {lines[n]}" for n in range(first, last))


def _optimise(module: Any, target: Target, opt_level: int) -> None:
    if opt_level == 0:
        return
    with _tuning(opt_level) as options, _pass_builder(target, opt_level, options) as builder:
        passes = builder.getModulePassManager()  # each of them can run once
        try:
            passes.run(module, builder)
        finally:
            # `close` does nothing to this kind of object, which would leave 100 KB behind.
            ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
            passes.detach()


def _tuning(opt_level: int) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=opt_level)
    options.loop_vectorization = opt_level > 1
    # Generated code is in vectors already where that pays, so there is little left to pair up.
    options.slp_vectorization = opt_level > 2
    return options


def _pass_builder(target: Target, opt_level: int, options: Any) -> Any:
    """A builder of passes for one module.

    Each run hangs callbacks on its builder, for objects that are gone when the run ends; whatever
    runs with that builder afterwards calls all of them, at each pass over each function.
    """
    return llvm.create_pass_builder(_machine(target, opt_level), options)


@contextmanager
def _optimised(ir_text: str, target: Target, opt_level: int) -> Iterator[tuple[Any, Any]]:
    """An optimised module and the machine it is for; what LLVM made for it is freed after use."""
    with _lock, llvm.create_context() as context:
        machine = _machine(target, opt_level)
        with _parse(ir_text, target, machine, context) as module:
            _optimise(module, target, opt_level)
            yield module, machine


def compile_ir(ir_text: str, target: Target, opt_level: int = 2) -> bytes:
    """An ELF object file made from LLVM IR text.

    Args:
        ir_text: the module.
        target: whose triple and data layout replace those in the text.
        opt_level: 1 to 3 as for LLVM's `opt`; 0 runs no pass over the IR but still selects and
            schedules instructions well, a quarter of the time for IR that is good as it stands.

    Raises:
        InternalError: when LLVM does not accept the text.
    """
    with _optimised(ir_text, target, opt_level) as (module, machine):
        return bytes(machine.emit_object(module))


def assembly(ir_text: str, target: Target, opt_level: int = 2) -> str:
    """The assembly text of optimised LLVM IR."""
    with _optimised(ir_text, target, opt_level) as (module, machine):
        return str(machine.emit_assembly(module))


def optimised_ir(ir_text: str, target: Target, opt_level: int = 2) -> str:
    """LLVM IR after optimisation."""
    with _optimised(ir_text, target, opt_level) as (module, _):
        return str(module)
