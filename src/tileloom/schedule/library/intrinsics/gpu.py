"""Matrix units and packed dot products of GPUs, under the names that TVM's traces use.

Their implementations call what only the hardware can do, so they replay structurally; what they
compute is what their descriptions say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ....tir import PrimFunc
from ._text import Pair, pair, parsed

_NAMES = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}
_SIDE = 16


def _tile(name: str, kind: str, scope: str, strides: str = "") -> str:
    rest = f", strides=[{strides}]" if strides else ""
    return (
        f'{name} = T.match_buffer({name.lower()}, ({_SIDE}, {_SIDE}), "{kind}", align=64, '
        f'offset_factor={_SIDE}, scope="{scope}"{rest})'
    )


def _fragment(name: str, stride: str) -> str:
    """Which fragment of its buffer a tile is."""
    offset = f"{name}.elem_offset"
    row = f"{offset} // {stride} // {_SIDE} * ({stride} // {_SIDE})"
    return f"{row} + {offset} % {stride} // {_SIDE}"


def _variables(*names: str) -> str:
    return "\n".join(f"    {name} = T.int32()" for name in names)


_ALL = f"[0:{_SIDE}, 0:{_SIDE}]"


def wmma_sync(kind: str, total: str, transposed: bool) -> Pair:
    """`C += A @ B` (or B transposed) of fragments."""

    def cast(load: str) -> str:
        return load if kind == total else f'T.cast({load}, "{total}")'

    scopes = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")
    kinds = (kind, kind, total)
    plain = [_tile(n, k, s) for n, k, s in zip("ABC", kinds, scopes, strict=True)]
    strided = [
        _tile(n, k, s, f"{n.lower()}1, {n.lower()}0")
        for n, k, s in zip("ABC", kinds, scopes, strict=True)
    ]
    right = "B[vj, vk]" if transposed else "B[vk, vj]"
    region = f"""
    with T.block("root"):
        T.reads(C{_ALL}, A{_ALL}, B{_ALL})
        T.writes(C{_ALL})"""
    desc = f"""
    {plain[0]}
    {plain[1]}
    {plain[2]}{region}
        for i, j, k in T.grid({_SIDE}, {_SIDE}, {_SIDE}):
            with T.block(""):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + {cast("A[vi, vk]")} * {cast(right)}"""
    a, b, c = (_fragment(n, f"{n.lower()}1") for n in "ABC")
    impl = f"""
{_variables("a1", "a0", "b1", "b0", "c1", "c0")}
    {strided[0]}
    {strided[1]}
    {strided[2]}{region}
        T.evaluate(T.tvm_mma_sync(
            C.data, {c}, A.data, {a}, B.data, {b}, C.data, {c}, dtype="handle"
        ))"""
    return pair("abc", desc, impl)


def wmma_load(kind: str, memory: str, fragment: str, transposed: bool) -> Pair:
    """A fragment from shared memory; a transposed one is stored by columns."""
    copy = _copy(kind, memory, f"wmma.{fragment}")
    layout = "col_major" if transposed else "row_major"
    impl = f"""
{_variables("s1", "s0", "d1", "d0")}
    {_tile("A", kind, memory, "s1, s0")}
    {_tile("C", kind, f"wmma.{fragment}", "d1, d0")}
    with T.block("root"):
        T.reads(A{_ALL})
        T.writes(C{_ALL})
        T.evaluate(T.tvm_load_matrix_sync(
            C.data, {_SIDE}, {_SIDE}, {_SIDE}, {_fragment("C", "d1")},
            A.access_ptr("r"), s1, "{layout}", dtype="handle"
        ))"""
    return copy, parsed("impl", "ac", impl)


def wmma_store(kind: str, memory: str) -> Pair:
    """An accumulator into memory."""
    copy = _copy(kind, "wmma.accumulator", memory)
    impl = f"""
{_variables("s1", "s0", "d1", "d0")}
    {_tile("A", kind, "wmma.accumulator", "d1, d0")}
    {_tile("C", kind, memory, "s1, s0")}
    with T.block("root"):
        T.reads(A{_ALL})
        T.writes(C{_ALL})
        T.evaluate(T.tvm_store_matrix_sync(
            A.data, {_SIDE}, {_SIDE}, {_SIDE}, {_fragment("A", "d1")},
            C.access_ptr("w"), s1, "row_major", dtype="handle"
        ))"""
    return copy, parsed("impl", "ac", impl)


def _copy(kind: str, source: str, target: str) -> PrimFunc:
    body = f"""
    {_tile("A", kind, source)}
    {_tile("C", kind, target)}
    with T.block("root"):
        T.reads(A{_ALL})
        T.writes(C{_ALL})
        for i, j in T.grid({_SIDE}, {_SIDE}):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]"""
    return parsed("desc", "ac", body)


def wmma_fill(kind: str) -> Pair:
    """An accumulator of zeros."""
    desc = f"""
    {_tile("C", kind, "wmma.accumulator")}
    with T.block("root"):
        T.reads()
        T.writes(C{_ALL})
        for i, j in T.grid({_SIDE}, {_SIDE}):
            with T.block("init"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.{kind}(0)"""
    impl = f"""
{_variables("d1", "d0")}
    {_tile("C", kind, "wmma.accumulator", "d1, d0")}
    with T.block("root"):
        T.reads()
        T.writes(C{_ALL})
        T.evaluate(T.tvm_fill_fragment(
            C.data, {_SIDE}, {_SIDE}, {_SIDE}, {_fragment("C", "d1")}, T.float32(0),
            dtype="handle"
        ))"""
    return pair("c", desc, impl)


def dp4a(left: str, right: str, total: str) -> Pair:
    """`C[0] += sum(A[k] * B[k])` of four bytes packed into a word."""

    views = "\n    ".join(
        f'{n} = T.match_buffer({n.lower()}, ({size},), "{kind}", offset_factor=1, align=4, '
        f'scope="{scope}")'
        for n, size, kind, scope in (
            ("A", 4, left, "shared"),
            ("B", 4, right, "shared"),
            ("C", 1, total, "local"),
        )
    )
    head = f"""
    {views}
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])"""
    desc = f"""{head}
        for i in range(4):
            with T.block("update"):
                vi = T.axis.reduce(4, i)
                C[0] = C[0] + T.cast(A[vi], "{total}") * T.cast(B[vi], "{total}")"""
    left4, right4 = f"{left}x4", f"{right}x4"
    impl = f"""{head}
        C[0] += T.call_pure_extern(
            "{total}", "__dp4a",
            A.vload([0], "{left4}"), B.vload([0], "{right4}"), T.{total}(0)
        )"""
    return pair("abc", desc, impl)


def _wmma() -> Iterator[tuple[str, Callable[[], Pair]]]:
    side = f"{_SIDE}x{_SIDE}x{_SIDE}"
    for kind, total in (("float16", "float32"), ("float16", "float16"), ("int8", "int32")):
        for transposed in (False, True):
            tail = "_trans" if transposed else ""
            short = _NAMES[kind]
            name = f"wmma_sync_{side}_{short}{short}{_NAMES[total]}{tail}"
            yield name, partial(wmma_sync, kind, total, transposed)
    for memory in ("shared", "shared.dyn"):
        place = memory.replace(".", "_")
        for kind in ("float16", "int8"):
            for letter in "ab":
                for transposed in (False, True):
                    tail = "_trans" if transposed else ""
                    name = f"wmma_load_{side}_{_NAMES[kind]}_{letter}{tail}_{place}"
                    yield name, partial(wmma_load, kind, memory, f"matrix_{letter}", transposed)
    for kind in ("float32", "float16", "int32"):
        yield f"wmma_fill_{side}_{_NAMES[kind]}", partial(wmma_fill, kind)
        for memory in ("global", "shared", "shared.dyn"):
            name = f"wmma_store_{side}_{_NAMES[kind]}_{memory.replace('.', '_')}"
            yield name, partial(wmma_store, kind, memory)


DEFINITIONS: dict[str, Callable[[], Pair]] = {
    **dict(_wmma()),
    "dp4a_s8s8s32": partial(dp4a, "int8", "int8", "int32"),
    "sdot4": partial(dp4a, "int8", "int8", "int32"),  # as TVM calls it for GPUs of AMD
    "dp4a_u8u8u32": partial(dp4a, "uint8", "uint8", "uint32"),
    "dp4a_s8u8s32": partial(dp4a, "int8", "uint8", "int32"),
    "dp4a_u8s8s32": partial(dp4a, "uint8", "int8", "int32"),
}
