"""The text of programs at each stage on their way to machine code."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from ..base.compiling import compiling
from ..base.errors import UserError
from ..base.settings import settings
from ..graph.nodes import Graph
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from .backend import backend_class
from .functions import as_module, llvm_ir

STAGES = ("graph", "groups", "tir", "loops", "flat", "llvm", "asm")


@compiling
def show_stage(program: Graph | PrimFunc | IRModule, stage: str, target: Any = "cpu") -> str:
    """The text of a program at a stage on its way to machine code.

    Args:
        program: a graph, or tensor IR (which has no graph and no groups).
        stage: one of `STAGES`.
        target: any target, not only this machine.

    >>> from tileloom import compute as te
    >>> A = te.placeholder((4,), name="A")
    >>> f = te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1.0, name="B")])
    >>> "fadd" in show_stage(f, "llvm"), "T.block" in show_stage(f, "flat")
    (True, False)
    """
    from ..codegen import jit
    from ..graph.show import show_groups
    from ..lower import lower
    from ..script.show import show

    wanted = parse_target(target)
    entries: Collection[str] | None = None
    if stage not in STAGES:
        raise UserError(f"there is no stage {stage!r}", hint=f"one of {', '.join(STAGES)}")
    if isinstance(program, Graph):
        if stage == "graph":
            return str(program)
        planned = backend_class(wanted).plan_graph(program, wanted)
        if stage == "groups":
            return show_groups(planned)
        module, entries = planned.module, planned.entries
    elif stage in ("graph", "groups"):
        raise UserError(f"tensor IR has no stage {stage!r}", hint="begin with tir")
    else:
        module = as_module(program)
    match stage:
        case "tir":
            return show(module)
        case "loops" | "flat":
            return show(lower(module, wanted, stage))
        case "llvm":
            return jit.optimised_ir(llvm_ir(module, wanted, entries), wanted)
        case _:
            return jit.assembly(llvm_ir(module, wanted, entries), wanted)


def print_stages(graph: Graph, target: Target) -> None:
    """Print the stages that TILELOOM_PRINT_IR names; write all to TILELOOM_DUMP_DIR."""
    wanted, folder = settings().print_ir, settings().dump_dir
    for stage in STAGES if folder else wanted:
        text = show_stage(graph, stage, target)
        if stage in wanted:
            print(f"# {graph.name}: {stage}\n{text}\n", file=sys.stderr)
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{graph.name}.{stage}.txt").write_text(text)
