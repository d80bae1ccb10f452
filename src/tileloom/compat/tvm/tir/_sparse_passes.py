"""The passes of SparseTIR under its names; `transform` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....lower.blocks import lower_atomic
from ....lower.gpu import horizontal_fusion
from ....sparse.format_rule import FormatRewriteRule
from ....sparse.preprocess import extract_preprocess, remove_preprocess
from ....sparse.unused_args import remove_unused_args
from .. import sparse
from ..ir.module import as_module
from ..ir.transform import Pass, PassInfo


def _pass(name: str, step: Callable[[Any], Any]) -> Pass:
    return Pass(lambda mod, _context: as_module(step(mod)), PassInfo(0, f"tir.{name}"))


def SparseFormatDecompose(
    composable_formats: Sequence[FormatRewriteRule], include_format_rewrite_blks: bool = True
) -> Pass:
    """A pass that turns programs over tensors into programs over their parts."""
    return _pass(
        "SparseFormatDecompose",
        lambda mod: sparse.format_decompose(mod, composable_formats, include_format_rewrite_blks),
    )


def LowerSparseIter(check_invalid_binary_search: bool = False) -> Pass:
    """A pass that makes loops and blocks of iterations over sparse axes."""
    return _pass(
        "LowerSparseIter", lambda mod: sparse.lower_sparse_iter(mod, check_invalid_binary_search)
    )


def LowerSparseBuffer() -> Pass:
    """A pass that makes plain buffers of sparse ones."""
    return _pass("LowerSparseBuffer", sparse.lower_sparse_buffer)


def SpecializeBuffer(buf_name: str, idx_map: Any) -> Pass:
    """A pass that puts a closed form in place of what is loaded from a buffer."""
    return _pass("SpecializeBuffer", lambda mod: sparse.specialize_buffer(mod, buf_name, idx_map))


def ExtractPreprocess() -> Pass:
    """A pass that keeps what is annotated `preprocess`."""
    return _pass("ExtractPreprocess", extract_preprocess)


def RemovePreprocess() -> Pass:
    """A pass that leaves out what is annotated `preprocess`."""
    return _pass("RemovePreprocess", remove_preprocess)


def RemoveUnusedArgs() -> Pass:
    """A pass that leaves out the parameters that are not used."""
    return _pass("RemoveUnusedArgs", remove_unused_args)


def _of_functions(name: str, step: Callable[[Any], Any]) -> Pass:
    def run(mod: Any) -> Any:
        return mod.replace(functions={key: step(func) for key, func in mod.functions.items()})

    return _pass(name, run)


def HorizontalFusion() -> Pass:
    """A pass that makes one launch of the kernels of functions marked `horizontal_fuse`."""
    return _of_functions("HorizontalFusion", horizontal_fusion)


def LowerAtomic() -> Pass:
    """A pass that adds atomically what blocks marked `atomic` store."""
    return _of_functions("LowerAtomic", lower_atomic)


__all__ = [
    "ExtractPreprocess", "HorizontalFusion", "LowerAtomic", "LowerSparseBuffer",
    "LowerSparseIter", "RemovePreprocess", "RemoveUnusedArgs", "SparseFormatDecompose",
    "SpecializeBuffer",
]  # fmt: skip
