"""The runtime's native helpers come from the code generator, as the driver would connect them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from tileloom.codegen import jit, launch_stub, parallel_stub, pyentry
from tileloom.runtime import LoadedObject, load_object, native
from tileloom.target import Target


@cache
def compiled(text: str) -> bytes:
    return jit.compile_ir(text, Target.host())


def load_native(name: str, symbols: Mapping[str, int]) -> LoadedObject:
    sources = {
        "parallel": lambda: parallel_stub.source(Target.host().arch),
        "entry": pyentry.source,
        "launch": launch_stub.source,
    }
    return load_object(jit.compile_ir(sources[name](), Target.host(), 0), symbols)


native.connect(load_native)


@pytest.fixture
def assemble() -> Callable[..., LoadedObject]:
    """LLVM IR text to loaded code."""

    def run(text: str, symbols: Mapping[str, int] | None = None) -> LoadedObject:
        return load_object(compiled(text), symbols)

    return run
