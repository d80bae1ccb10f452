"""Features as text, so that a record can hold them next to the trace that they are of."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode

import numpy as np
from numpy.typing import NDArray

from .names import feature_names

#: Changes whenever features of one program do: others must not be learnt from together.
FORMAT = "1"
_MOST_BYTES = 1 << 22


def pack(features: NDArray[np.floating]) -> str:
    """The rows as text, in single precision, as cost models read them.

    >>> unpack(pack(np.ones((2, 164)))).shape
    (2, 164)
    """
    data = np.ascontiguousarray(features, dtype="<f4").tobytes()
    return f"{FORMAT}:{b64encode(zlib.compress(data)).decode()}"


def unpack(text: object) -> NDArray[np.float64] | None:
    """The rows of a text; None where it holds none, or those of another version.

    >>> unpack("0:AAAA") is None
    True
    """
    if not isinstance(text, str) or not text.startswith(f"{FORMAT}:"):
        return None
    try:
        packed = b64decode(text[len(FORMAT) + 1 :], validate=True)
        data = zlib.decompressobj().decompress(packed, _MOST_BYTES)
        rows = np.frombuffer(data, dtype="<f4").reshape(-1, len(feature_names()))
    except (ValueError, zlib.error):
        return None
    return rows.astype(np.float64)
