"""Programs for the checks of `tileloom.schedule.verify`, right ones and broken ones, as text."""

from __future__ import annotations

import textwrap

from tileloom.script import parse
from tileloom.tir import PrimFunc


def program(signature: str, body: str) -> PrimFunc:
    """A function with these parameters: `A: 4, 5; B: 5` stands for two float buffers."""
    params = []
    for part in signature.split(";"):
        name, shape = part.split(":")
        kind = "float32"
        if "int32" in shape:
            shape, kind = shape.replace("int32", ""), "int32"
        params.append(f'{name.strip()}: T.Buffer(({shape.strip()},), "{kind}")')
    head = f"@T.prim_func\ndef main({', '.join(params)}):\n"
    text = "from tileloom.script import tir as T\n\n" + head
    found = parse(text + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n")
    assert isinstance(found, PrimFunc)
    return found


MATMUL = program(
    "A: 6, 5; B: 5, 7; C: 6, 7",
    """
    for i, j, k in T.grid(6, 7, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    """,
)

TILED = """
for i0, j0 in T.grid(2, {j_tiles}):
    for k0 in range(2):
        for i1, j1, k1 in T.grid(3, 4, 3):
            with T.block("C"):
                vi = T.axis.spatial(6, i0 * 3 + i1)
                vj = T.axis.spatial(7, j0 * 4 + j1)
                vk = T.axis.reduce(5, k0 * 3 + k1)
                {where}
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
WHERE = "T.where(j0 * 4 + j1 < 7 and k0 * 3 + k1 < 5)"


def matmul(body: str) -> PrimFunc:
    return program("A: 6, 5; B: 5, 7; C: 6, 7", body)


def update(
    vi: str, vj: str, vk: str, kind: str = "init", name: str = "C", target: str = "C"
) -> str:
    """A block of a matrix product, for text that is indented by hand."""
    init = (
        f"with T.init():\n        {target}[vi, vj] = T.float32(0)\n    " if kind == "init" else ""
    )
    return (
        f'with T.block("{name}"):\n'
        f"    vi = T.axis.spatial(6, {vi})\n    vj = T.axis.spatial(7, {vj})\n"
        f"    vk = T.axis.reduce(5, {vk})\n    {init}"
        f"{target}[vi, vj] = {target}[vi, vj] + A[vi, vk] * B[vk, vj]\n"
    )


def start(vi: str, vj: str, name: str = "C_init", target: str = "C") -> str:
    """The init of a matrix product as a block of its own."""
    return (
        f'with T.block("{name}"):\n'
        f"    vi = T.axis.spatial(6, {vi})\n    vj = T.axis.spatial(7, {vj})\n"
        f"    {target}[vi, vj] = T.float32(0)\n"
    )


def nest(loops: str, *bodies: str) -> str:
    """Text under loop heads, given as `i:6, j:7:parallel`."""
    body = "".join(bodies)
    for part in reversed([p.strip() for p in loops.split(",")]):
        name, extent, *kind = part.split(":")
        maker = f"T.{kind[0]}" if kind else "range"
        body = f"for {name} in {maker}({extent}):\n" + textwrap.indent(body, "    ")
    return body


STAGES = "A: 8; D: 6"
# B[v] = A[v] + 1; D[v] = B[v] + B[v + 1] + B[v + 2]
ORIGINAL_STAGES = program(
    STAGES,
    """
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + T.float32(1)
    for i in range(6):
        with T.block("D"):
            v = T.axis.spatial(6, i)
            D[v] = B[v] * (B[v + 1] - B[v + 2])
    """,
)


def stages(
    extent: int = 4, start: str = "i0 * 2", kind: str = "range", extra: str = ""
) -> PrimFunc:
    """The producer computed at tiles of two of the consumer, over a region that is given."""
    return program(
        STAGES,
        f"""
        B = T.alloc_buffer((8,))
        for i0 in {kind}(3):
            for ax in range({extent}):
                with T.block("B"):
                    v = T.axis.spatial(8, {start} + ax)
                    {extra or "T.where(True)"}
                    B[v] = A[v] + T.float32(1)
            for i1 in range(2):
                with T.block("D"):
                    v = T.axis.spatial(6, i0 * 2 + i1)
                    D[v] = B[v] * (B[v + 1] - B[v + 2])
        """,
    )
