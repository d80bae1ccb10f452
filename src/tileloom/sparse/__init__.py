"""Sparse tensors: formats, programs over sparse axes, operators on arrays people already have."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, load

if TYPE_CHECKING:
    from typing import Any

_OPERATORS = (
    *("ConvolutionMap", "Relations", "convolution_map", "explain_spmm", "relations", "rgms"),
    *("sparse_conv", "spmm"),
)
#: Public names by the module that holds them; `__init__.pyi` tells type checkers of them. Operators
#: stand at a door above this room, which is opened when one of them is asked for.
_HOMES = {
    **dict.fromkeys(
        (
            "ConvolutionMap",
            "Relations",
            "convolution_map",
            "explain_spmm",
            "relations",
            "rgms",
            "sparse_conv",
        ),
        "frontend.sparse",
    ),
    "spmm": "frontend.sparse",
    "lower_sparse_buffer": "sparse.lower_buffer",
    "lower_sparse_iter": "sparse.lower_iter",
    "FormatRewriteRule": "sparse.format_rule",
    "RuleArrays": "sparse.rule_arrays",
    "check_partition": "sparse.partition",
    "convert_by_rule": "sparse.rule_arrays",
    "format_decompose": "sparse.decompose",
    "ExtractPreprocess": "sparse.preprocess",
    "RemovePreprocess": "sparse.preprocess",
    "extract_preprocess": "sparse.preprocess",
    "remove_preprocess": "sparse.preprocess",
    "RemoveUnusedArgs": "sparse.unused_args",
    "remove_unused_args": "sparse.unused_args",
    "specialize_buffer": "sparse.closed_form",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(load(f"tileloom.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
