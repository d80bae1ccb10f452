"""From one sparse format to another, on arrays of NumPy.

Each function takes the arrays of a format, and gives those of another as a record. What was
padded or reordered knows its `source`: for each slot the position of its element in the input,
by which `values` carries weights, numbers of edges and features over, and `scatter` back.
"""

from __future__ import annotations

from .attention_masks import BlockMask, band, butterfly
from .bsr import BsrStructure, DbsrStructure, bsr, dbsr
from .check import check_csr, has_duplicates, has_sorted_indices
from .column_parts import ColumnPartition, column_partition
from .condense import SrBcrsStructure, condense
from .coo import coo_to_csr, csr_to_coo
from .csf import CsfStructure, csf
from .csr import CsrStructure, SummedCsr, row_lengths, row_of_each, sort_indices, sum_duplicates
from .dcsr import DcsrStructure, dcsr
from .ell import EllStructure, ell
from .ell3d import Ell3dStructure, csf_to_ell3d
from .hyb import HybStructure, column_part_hyb, hyb
from .padded_csr import PaddedCsrStructure, padded_csr
from .ragged import RaggedMatrices, ragged, ragged_matrices
from .slots import Slots
from .store import AxisArrays, FormatAxis, StoredStructure, store
from .transpose import transpose

__all__ = [
    "AxisArrays",
    "BlockMask",
    "BsrStructure",
    "ColumnPartition",
    "CsfStructure",
    "CsrStructure",
    "DbsrStructure",
    "DcsrStructure",
    "EllStructure",
    "Ell3dStructure",
    "FormatAxis",
    "HybStructure",
    "PaddedCsrStructure",
    "RaggedMatrices",
    "Slots",
    "SrBcrsStructure",
    "StoredStructure",
    "SummedCsr",
    "band",
    "bsr",
    "butterfly",
    "check_csr",
    "column_part_hyb",
    "column_partition",
    "condense",
    "coo_to_csr",
    "csf",
    "csf_to_ell3d",
    "csr_to_coo",
    "dbsr",
    "dcsr",
    "ell",
    "has_duplicates",
    "has_sorted_indices",
    "hyb",
    "padded_csr",
    "ragged",
    "ragged_matrices",
    "row_lengths",
    "row_of_each",
    "sort_indices",
    "store",
    "sum_duplicates",
    "transpose",
]
