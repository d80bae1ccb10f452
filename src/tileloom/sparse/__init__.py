"""Sparse tensors: formats, programs over sparse axes, operators on arrays people already have."""

from __future__ import annotations

from ..base.late import room

# Type checkers read `__init__.pyi`.
room(
    __name__,
    **{
        "arrays": "",
        "convert": "",
        "tileloom.frontend.sparse": "ConvolutionMap Relations add auto_schedule compile"
        " convolution_map explain_sddmm explain_spmm graph_attention multiply relations rgms sddmm"
        " segment_reduce segment_softmax sparse_conv spgemm spmm spmv subtract",
        "tileloom.frontend.sparse.tuning": "tune_sddmm tune_spmm",
        "tileloom.sparse.convert": "column_part_hyb condense csf_to_ell3d",
        "closed_form": "specialize_buffer",
        "decompose": "format_decompose",
        "format_rule": "FormatRewriteRule",
        "lower_buffer": "lower_sparse_buffer",
        "lower_iter": "lower_sparse_iter",
        "partition": "check_partition",
        "preprocess": "ExtractPreprocess RemovePreprocess extract_preprocess remove_preprocess",
        "rule_arrays": "RuleArrays convert_by_rule",
        "run": "run",
        "spec": "check_arguments verify",
        "unused_args": "RemoveUnusedArgs remove_unused_args",
    },
)
