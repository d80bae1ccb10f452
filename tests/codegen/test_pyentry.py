"""The native entry and the runtime that writes its descriptors speak of the same layout."""

from __future__ import annotations

import re

from tileloom.base.dtype import dtype
from tileloom.codegen import pyentry
from tileloom.runtime import ParamSpec, entry

HEADER_WORDS, RECORD_WORDS = 5, 9


def test_both_sides_name_the_same_kinds_and_symbols() -> None:
    names = ("COMPACT", "STRIDED", "INTEGER", "FLOAT32", "FLOAT64", "IMPLICIT", "SLOW")
    assert [getattr(pyentry, name) for name in names] == [getattr(entry, name) for name in names]
    called = re.findall(r"^declare \w+ @(\w+)\(", pyentry.source(), re.MULTILINE)
    assert called == list(entry._PYTHON_SYMBOLS)


def test_descriptor_layout() -> None:
    params = (
        ParamSpec("a", "buffer", dtype("float32"), (2, "n"), access="w", alignment=64),
        ParamSpec("b", "buffer", dtype("int8"), (3, 4), strides=(8, 1)),
        ParamSpec("n", "scalar", dtype("int32")),
        ParamSpec("m", "scalar", dtype("float64")),
    )
    data = entry.describe(0x1234, params)
    words = [
        int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)
    ]
    header, rest = words[:HEADER_WORDS], words[HEADER_WORDS:]
    assert header[:4] == [0x1234, 4, 4, 1]
    records = []
    while rest:
        records.append(rest[: rest[1]])
        rest = rest[rest[1] :]
    a, b, n, m = records
    size = RECORD_WORDS
    assert (a[0], a[3], a[4], a[7], a[8]) == (pyentry.COMPACT, 63, 2, 4, 1)
    assert a[5] == id(dtype("float32").numpy) and a[size:] == [2, -1]
    assert (b[0], b[8]) == (pyentry.STRIDED, 0) and b[size:] == [3, 4, 8, 1]
    assert (n[0], n[2], n[5], n[6]) == (pyentry.INTEGER, 1, -(2**31), 2**31 - 1)
    assert (m[0], m[2], len(m)) == (pyentry.FLOAT64, 0, size)
