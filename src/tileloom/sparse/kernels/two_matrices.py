"""What the kernels over two matrices in compressed rows share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .text import KernelText


@contextmanager
def two_matrices(t: KernelText, left: str, right: str, *more: str) -> Iterator[None]:
    """The function, with the index arrays of both matrices.

    Its parameters are these, further arrays, the scalars m, rows (of the second), na and nb (the
    elements of both), and further scalars.

    Args:
        left, right: the types of the index arrays.
        more: further parameters.
    """
    handles = ", ".join(f"{name}: T.handle" for name in ("pa", "xa", "pb", "xb"))
    scalars = ", ".join(f"{name}: T.int64" for name in ("m", "rows", "na", "nb"))
    arrays = [name for name in more if name.endswith("handle")]
    numbers = [name for name in more if name not in arrays]
    t("@T.prim_func")
    with t.inside(f"def kernel({', '.join([handles, *arrays, scalars, *numbers])}):"):
        t(
            "T.func_attr({'tir.noalias': True})",
            f"PA = T.match_buffer(pa, (m + T.int64(1),), '{left}')",
            f"XA = T.match_buffer(xa, (na,), '{left}')",
            f"PB = T.match_buffer(pb, (rows + T.int64(1),), '{right}')",
            f"XB = T.match_buffer(xb, (nb,), '{right}')",
        )
        yield


def scalar(t: KernelText, name: str, dtype: str) -> None:
    """A variable: an array of one element."""
    t(f"{name}_ = T.allocate([1], '{dtype}', 'local')")
    t(f"{name} = T.Buffer((1,), '{dtype}', data={name}_, scope='local')")
