"""Triton's own linear layouts, of triton 3.9, in a process of its own: C++ may end it.

A request is a line of JSON, [shape, layout], as are the answers: {input: bases}; or [None, A, B],
which asks for where in B is what A has, and for the pseudoinverse of B. Run with
an interpreter that has that triton: this one, or the one that TILELOOM_GLUON_PYTHON names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tileloom.tile.layouts.encodings import (
    BlockedEncoding,
    CTALayout,
    DotOperandEncoding,
    Encoding,
    NvidiaMmaEncoding,
    SharedEncoding,
    SliceEncoding,
)
from tileloom.tile.layouts.linear_layout import LinearLayout

SERVER = """
import json, sys
from triton._C.libtriton import gluon_ir, ir, linear_layout
from triton.experimental.gluon.language import _layouts as L

context = ir.context()
ir.load_dialects(context)
builder = gluon_ir.GluonOpBuilder(context)

def make(kind, *fields):
    return getattr(L, kind)(*(make(*f) if f and isinstance(f, list) and isinstance(f[0], str)
                              else f for f in fields))

def linear(bases, names, sizes):
    return linear_layout.LinearLayout.from_bases(bases, names, sizes, False)

print("ready", flush=True)
for line in sys.stdin:
    shape, layout, *other = json.loads(line)
    if other:
        a, b = linear(*layout), linear(*other[0])
        found = a.invert_and_compose(b).bases, b.pseudoinvert().bases
        print(json.dumps(list(map(dict, found))), flush=True)
        continue
    made = builder.to_linear_layout(make(*layout)._to_ir(builder), shape)
    names = [n for n in ("reg", "lane", "warp", "block", "offset") if hasattr(made, n + "_bases")]
    print(json.dumps({n: getattr(made, n + "_bases") for n in names}), flush=True)
"""


def block_bases(cta: CTALayout) -> list[list[int]]:
    """The bases of thread blocks."""
    bases = []
    for d in cta.order:
        steps = [1 << k for k in range(cta.split[d].bit_length() - 1)]
        copies = (cta.per_cga[d] // cta.split[d]).bit_length() - 1
        bases += [[step if e == d else 0 for e in range(cta.rank)] for step in steps]
        bases += [[0] * cta.rank] * copies
    return bases


def described(encoding: Encoding, bits: int = 16) -> list[Any]:
    """An encoding of one thread block, as the class of Gluon and its arguments."""
    match encoding:
        case BlockedEncoding():
            fields = encoding.size_per_thread, encoding.threads_per_warp, encoding.warps_per_cta
            order, blocks = list(encoding.order), block_bases(encoding.cta)
            return ["BlockedLayout", *map(list, fields), order, blocks]
        case SliceEncoding():
            return ["SliceLayout", encoding.dim, described(encoding.parent)]
        case NvidiaMmaEncoding():
            version = [encoding.version, encoding.minor]
            warps, instruction = list(encoding.warps_per_cta), list(encoding.instr_shape)
            blocks = block_bases(encoding.cta)
            return ["NVMMADistributedLayout", version, warps, instruction, blocks]
        case DotOperandEncoding():
            parent = described(encoding.parent)
            return ["DotOperandLayout", encoding.op_idx, parent, encoding.k_width]
        case SharedEncoding(leading_offset=True):
            transposed = encoding.order[0] == 0
            return ["NVMMASharedLayout", encoding.swizzle_bytes, bits, encoding.rank, transposed]
        case SharedEncoding():
            phases = encoding.vec, encoding.per_phase, encoding.max_phase
            order, blocks = list(encoding.order), block_bases(encoding.cta)
            return ["SwizzledSharedLayout", *phases, order, blocks]
    raise ValueError(encoding)


def vectors(layout: LinearLayout) -> dict[str, list[list[int]]]:
    """The bases of a layout, as lists."""
    return {dim: list(map(list, layout.basis_vectors(dim))) for dim in layout.bases}


def plain(layout: LinearLayout) -> list[Any]:
    """A linear layout as the arguments of the oracle's."""
    return [list(vectors(layout).items()), list(layout.outs), list(layout.out_sizes.values())]


class LayoutOracle:
    """A running process that answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def bases(self, shape: Sequence[int], encoding: Encoding, bits: int = 16) -> Any:
        """The bases of a layout, by input dimension, registers without zeros."""
        return self.ask(list(shape), described(encoding, bits))

    def algebra(self, a: LinearLayout, b: LinearLayout) -> Any:
        """The bases of `a.invert_and_compose(b)`, and those of `b.pseudoinvert()`."""
        return self.ask(None, plain(a), plain(b))

    def ask(self, *request: Any) -> Any:
        """The answer to a request."""
        if self.process.stdin is None or self.process.stdout is None:
            raise ValueError("the process has no pipes")
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def layout_oracle() -> Iterator[LayoutOracle | None]:
    """The oracle, or None if there is no interpreter with a triton that can answer."""
    python = os.environ.get("TILELOOM_GLUON_PYTHON", sys.executable)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [python, "-c", SERVER]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True, **pipes) as process:
        ready = process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield LayoutOracle(process) if ready else None
        finally:
            process.kill()
