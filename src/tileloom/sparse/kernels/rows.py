"""What the kernels over compressed rows share: their parameters, and how rows are divided."""

from __future__ import annotations

from .text import KernelText

#: What a row costs beyond its elements, in elements.
ROW_COST = 4


def csr_parameters(*more: str) -> str:
    """The parameters of a kernel over a CSR matrix of m rows, n columns and nnz elements."""
    scalars = [f"{name}: T.int64" for name in ("m", "n", "nnz", *more)]
    return ", ".join(["ip: T.handle", "ix: T.handle", *scalars])


def match_csr(t: KernelText, idtype: str) -> None:
    """The buffers of the index arrays: `P` starts rows, `X` holds columns."""
    t(
        f"P = T.match_buffer(ip, (m + T.int64(1),), '{idtype}')",
        f"X = T.match_buffer(ix, (nnz,), '{idtype}')",
    )


def divide_rows(t: KernelText, cost: int = ROW_COST) -> None:
    """Let `lo` and `hi` be the first row and the end of unit `u` of `units`.

    A row counts as its elements and `cost` more, for what it costs in itself; as that ascends, the
    bounds are found by binary search.
    """
    t("bound_ = T.allocate([4], 'int64', 'local')")
    t("bound = T.Buffer((4,), 'int64', data=bound_, scope='local')")
    for slot, unit in ((0, "u"), (1, "u + T.int64(1)")):
        t("bound[2] = T.int64(0)", "bound[3] = m")
        with t.inside("while bound[2] < bound[3]:"):
            half = "(bound[2] + bound[3]) // T.int64(2)"
            weight = f"T.Cast('int64', P[{half}]) + {half} * T.int64({cost})"
            share = f"(nnz + m * T.int64({cost})) * ({unit}) // units"
            with t.inside(f"if {weight} < {share}:"):
                t(f"bound[2] = {half} + T.int64(1)")
            with t.inside("else:"):
                t(f"bound[3] = {half}")
        t(f"bound[{slot}] = bound[2]")
    t("lo: T.int64 = bound[0]", "hi: T.int64 = bound[1]")
