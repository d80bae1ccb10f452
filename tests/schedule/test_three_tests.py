"""Every primitive is tested in three ways: what it does, its trace, what it refuses."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from schedule.test_before_after import STEPS
from tileloom.schedule.instruction import kinds

#: Programs before and after; traces there and back; refusals. `file.test`, without "test_".
#: `before_after.before_and_after` has a program for each step that it names.
TABLE = {
    "add_unit_loop": (
        "before_after.before_and_after",
        "split_fuse_reorder.add_unit_loop",
        "split_fuse_reorder.add_unit_loop",
    ),
    "annotate": (
        "before_after.before_and_after",
        "marks.annotate",
        "before_after.what_is_refused",
    ),
    "annotate_buffer_access": (
        "annotate_buffer_access.reads_and_writes",
        "annotate_buffer_access.reads_and_writes",
        "annotate_buffer_access.refusals",
    ),
    "bind": (
        "before_after.before_and_after",
        "marks.bind",
        "marks.reduction_loops",
    ),
    "blockize": (
        "blockize.everything_goes_inside",
        "blockize.tiles_of_a_matmul",
        "blockize.refusals",
    ),
    "cache_index": (
        "before_after.cache_index",
        "before_after.cache_index",
        "before_after.what_is_refused",
    ),
    "cache_inplace": (
        "cache_read_write.cache_inplace",
        "cache_read_write.cache_inplace",
        "cache_read_write.refusals",
    ),
    "cache_read": (
        "cache_read_write.cache_read_of_an_input",
        "cache_read_write.cache_read_of_an_input",
        "cache_read_write.refusals",
    ),
    "cache_write": (
        "cache_read_write.cache_write_of_an_output",
        "cache_read_write.cache_write_of_an_output",
        "cache_read_write.refusals",
    ),
    "compute_at": (
        "compute_at.compute_at_makes_what_is_needed",
        "compute_at.compute_at_makes_what_is_needed",
        "compute_at.refusals",
    ),
    "compute_inline": (
        "compute_inline.indices_are_solved_for",
        "compute_inline.both_directions",
        "compute_inline.refusals",
    ),
    "decompose_padding": (
        "decompose_padding.before_the_outermost_loop",
        "decompose_padding.before_the_outermost_loop",
        "decompose_padding.refusals",
    ),
    "decompose_reduction": (
        "decompose_reduction.before_the_reduction_loop",
        "decompose_reduction.before_the_reduction_loop",
        "decompose_reduction.refusals",
    ),
    "enter_postproc": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "-",
    ),
    "fuse": (
        "split_fuse_reorder.fuse",
        "split_fuse_reorder.fuse",
        "split_fuse_reorder.fuse_refuses",
    ),
    "get_block": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "lookups.block_names",
    ),
    "get_child_blocks": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "before_after.what_is_refused",
    ),
    "get_consumers": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "before_after.what_is_refused",
    ),
    "get_loops": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "lookups.a_loop_is_no_block",
    ),
    "get_output_blocks": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "before_after.what_is_refused",
    ),
    "get_producers": (
        "before_after.steps_that_leave_the_program_alone",
        "before_after.steps_that_leave_the_program_alone",
        "before_after.what_is_refused",
    ),
    "get_sparse_iteration": (
        "sparse_iterations.annotations",
        "sparse_iterations.all_are_found_and_stay_the_very_objects",
        "sparse_iterations.loops_blocks_and_names_are_no_iterations",
    ),
    "hide_buffer_access": (
        "sparse_lift_loop.hide_buffer_access",
        "sparse_lift_loop.hide_buffer_access",
        "sparse_lift_loop.hide_buffer_access",
    ),
    "lift_loop": (
        "sparse_lift_loop.lift_loop",
        "sparse_lift_loop.lift_loop",
        "sparse_lift_loop.what_is_not_lifted",
    ),
    "loop_partition": (
        "loop_partition.pieces",
        "loop_partition.a_length_is_inferred",
        "loop_partition.refusals",
    ),
    "match_to_alloc": (
        "sparse_lift_loop.match_to_alloc",
        "sparse_lift_loop.match_to_alloc",
        "sparse_lift_loop.what_callers_have_put_there_is_not_lost",
    ),
    "merge": (
        "merge.merge_all_loops",
        "merge.merge_all_loops",
        "merge.merge_refusals",
    ),
    "pad_einsum": (
        "pad_einsum.all_sides",
        "pad_einsum.all_sides",
        "pad_einsum.refusals",
    ),
    "parallel": (
        "before_after.before_and_after",
        "marks.kinds",
        "marks.reduction_loops",
    ),
    "read_at": (
        "read_at.read_at",
        "read_at.read_at",
        "read_at.refusals",
    ),
    "reduce_online": (
        "reduce_online.the_pair_becomes_one_reduction",
        "reduce_online.reduce_online_trace",
        "reduce_online.reduce_online_refuses_other_shapes",
    ),
    "reindex": (
        "reindex.reindex_of_what_is_read",
        "reindex.reindex_of_what_is_read",
        "reindex.units_and_refusals",
    ),
    "reindex_cache_read": (
        "before_after.before_and_after",
        "reindex.reindex_cache_read",
        "reindex.reindex_cache_refusals",
    ),
    "reindex_cache_write": (
        "before_after.before_and_after",
        "reindex.reindex_cache_write",
        "before_after.what_is_refused",
    ),
    "reorder": (
        "before_after.before_and_after",
        "split_fuse_reorder.reorder",
        "split_fuse_reorder.reorder_refuses",
    ),
    "reorder_block_iter_var": (
        "before_after.before_and_after",
        "set_scope.reorder_block_iter_var",
        "set_scope.reorder_block_iter_var_refusals",
    ),
    "reverse_cache_read": (
        "sparse_reverse_cache.gathered_rows",
        "sparse_reverse_cache.gathered_rows",
        "sparse_reverse_cache.refusals",
    ),
    "reverse_cache_write": (
        "sparse_reverse_cache.results_are_copied_to_their_places",
        "sparse_reverse_cache.results_are_copied_to_their_places",
        "sparse_reverse_cache.refusals",
    ),
    "reverse_compute_at": (
        "compute_at.reverse_compute_at_follows_what_is_made",
        "compute_at.reverse_compute_at_follows_what_is_made",
        "compute_at.refusals",
    ),
    "reverse_compute_inline": (
        "compute_inline.reverse_through_a_regrouping",
        "compute_inline.both_directions",
        "compute_inline.refusals",
    ),
    "rfactor": (
        "rfactor.outer_part",
        "rfactor.other_combiners",
        "rfactor.refusals",
    ),
    "rolling_buffer": (
        "before_after.rolling_buffer",
        "before_after.rolling_buffer",
        "rolling_buffer.refusals",
    ),
    "sample_categorical": (
        "before_after.steps_that_leave_the_program_alone",
        "sampling.categorical",
        "sampling.categorical",
    ),
    "sample_compute_location": (
        "before_after.steps_that_leave_the_program_alone",
        "compute_at.sampled_places",
        "before_after.what_is_refused",
    ),
    "sample_partitioned_tile": (
        "before_after.steps_that_leave_the_program_alone",
        "sampling.partitioned_tile",
        "sampling.partitioned_tile",
    ),
    "sample_perfect_tile": (
        "before_after.steps_that_leave_the_program_alone",
        "sampling.perfect_tile",
        "sampling.perfect_tile",
    ),
    "set_axis_separator": (
        "before_after.before_and_after",
        "transform_layout.axis_separator",
        "transform_layout.axis_separator",
    ),
    "set_scope": (
        "before_after.before_and_after",
        "set_scope.set_scope_everywhere",
        "set_scope.set_scope_refusals",
    ),
    "sparse_fuse": (
        "sparse_fuse.before_and_after",
        "sparse_fuse.chains_from_a_root",
        "sparse_fuse.refusals",
    ),
    "sparse_reorder": (
        "sparse_reorder.before_and_after",
        "sparse_reorder.before_and_after",
        "sparse_reorder.what_is_no_order",
    ),
    "split": (
        "split_fuse_reorder.split_exactly",
        "split_fuse_reorder.split_exactly",
        "split_fuse_reorder.split_refuses",
    ),
    "storage_align": (
        "before_after.before_and_after",
        "set_scope.storage_align",
        "set_scope.storage_align_refusals",
    ),
    "tensorize": (
        "tensorize.views_of_tiles",
        "tensorize.views_of_tiles",
        "tensorize.a_tail_is_refused",
    ),
    "transform_block_layout": (
        "before_after.before_and_after",
        "transform_layout.block_layout",
        "transform_layout.block_layout_refusals",
    ),
    "transform_layout": (
        "before_after.before_and_after",
        "transform_layout.intermediate_buffer",
        "transform_layout.refusals",
    ),
    "unannotate": (
        "before_after.before_and_after",
        "marks.annotate",
        "marks.annotate",
    ),
    "unroll": (
        "before_after.before_and_after",
        "marks.kinds",
        "lookups.a_loop_is_no_block",
    ),
    "unsafe_hide_buffer_access": (
        "before_after.before_and_after",
        "merge.hide_access",
        "merge.hide_access",
    ),
    "unsafe_set_dtype": (
        "before_after.before_and_after",
        "merge.set_dtype_converts_both_ways",
        "merge.set_dtype_converts_both_ways",
    ),
    "vectorize": (
        "before_after.before_and_after",
        "marks.kinds",
        "marks.reduction_loops",
    ),
    "write_at": (
        "before_after.before_and_after",
        "read_at.both_in_a_product",
        "read_at.refusals",
    ),
}

#: What a test of each sort calls.
MARKS = (
    ("same_text", "str(sch.mod)", "sch.mod is before"),
    ("check_trace",),
    ("refused", "pytest.raises"),
)


@cache
def source_of(test: str) -> str:
    """The text of a test, with its decorators."""
    file, name = test.split(".")
    path = Path(__file__).with_name(f"test_{file}.py")
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == f"test_{name}":
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            lines = path.read_text().splitlines()
            return "\n".join(lines[first - 1 : node.end_lineno])
    raise LookupError(f"{path.name} has no test_{name}")


def test_the_table_has_all() -> None:
    assert sorted(TABLE) == sorted(kinds())


@pytest.mark.parametrize("primitive", TABLE)
def test_there_is_a_test_of_each_sort(primitive: str) -> None:
    for test, marks in zip(TABLE[primitive], MARKS, strict=True):
        if test == "-":
            continue  # it takes no arguments and refuses nothing
        source = source_of(test)
        assert any(mark in source for mark in marks), test
        if test == "before_after.before_and_after":
            assert any(step.split()[0] == primitive for step in STEPS)
        else:
            assert primitive in source, test
