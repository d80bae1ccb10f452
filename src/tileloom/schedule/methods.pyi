"""The methods that primitives add to `Schedule`, for type checkers and editors.

Written by `tools/schedule_methods.py` from the primitives themselves; do not edit.
"""

from collections.abc import Sequence
from typing import Any

from ..expr import Expr, Var
from ..tir import Buffer
from .rv import BlockRV, LoopRV, SparseIterationRV

class PrimitiveMethods:
    """A base of `Schedule` that says what its methods take and give."""

    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: Any,
        index_map: Any,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Store a buffer in another order of elements: every access is rewritten."""

    def reindex(self, block: BlockRV | str, buffer: Any) -> BlockRV:
        """Let a block access a buffer by its iteration variables, through a copy; answer
        the copy.
        """

    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV | str) -> LoopRV:
        """Put a loop `u` of one iteration around a block or loop."""

    def annotate(
        self, block_or_loop: BlockRV | LoopRV | SparseIterationRV | str, ann_key: str, ann_val: Any
    ) -> None:
        """Attach a note to a loop, block or sparse iteration; one that has the key keeps
        what it has.
        """

    def unannotate(
        self, block_or_loop: BlockRV | LoopRV | SparseIterationRV | str, ann_key: str
    ) -> None:
        """Take a note away."""

    def annotate_buffer_access(
        self, block: BlockRV | str, buffer_index: int, buf_type: str, gen_new_ranges: Any
    ) -> None:
        """Declare a region that a block reads or writes (unsafe: analyses trust it)."""

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Run a loop along a thread axis: blockIdx.x/y/z, threadIdx.x/y/z, vthread or
        vthread.x/y/z.
        """

    def blockize(
        self,
        target: BlockRV | LoopRV | str | Sequence[BlockRV | str],
        preserve_unit_iters: bool = True,
    ) -> BlockRV:
        """Put the loops around a block into a new block `<name>_o`."""

    def cache_index(
        self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        """Compute what a block's indices are made of in blocks of their own; answer these."""

    def cache_inplace(
        self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Copy what a block reads and writes before it, and back after it; answer both copies."""

    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Copy a buffer that a block reads into a buffer of another storage scope; answer
        the copy.
        """

    def cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Let a block write a buffer of another storage scope, and copy that back; answer
        the copy.
        """

    def compute_inline(self, block: BlockRV | str) -> None:
        """Put what a block computes into all blocks that read it."""

    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Put what a block computes into the one block that makes its input."""

    def compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a block under a loop that holds all its consumers, to make there what they need."""

    def reverse_compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a block under a loop that holds all its producers, to use there what they
        have made.
        """

    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Fill a buffer with the padding before a loop, so that the block copies what is
        inside only.
        """

    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Move the `T.init()` of a reduction into a block that runs before a loop."""

    def enter_postproc(self) -> None:
        """Mark where the post-processing of a tuner starts; the program does not change."""

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | Expr | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into several, the first one outermost."""

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse loops, each the only thing inside the one before, into one."""

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block with a name, in a function of the module."""

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV | str) -> list[BlockRV]:
        """The blocks directly inside a block or below a loop, in program order."""

    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the scope that read what a block writes after it, in program order."""

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block inside of its scope, outermost first."""

    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks inside a block, nested ones too, that write a buffer their scope does
        not own.
        """

    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the scope that write what a block reads before it, in program order."""

    def get_sparse_iteration(self, name: str, func_name: str | None = None) -> SparseIterationRV:
        """The sparse iteration with a name, in a function over coordinates; nested ones
        are found too.
        """

    def unsafe_hide_buffer_access(
        self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Take regions out of a block's declared reads or writes (unsafe: analyses trust them)."""

    def hide_buffer_access(
        self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """`unsafe_hide_buffer_access`, as SparseTIR calls it."""

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one chain into a new order, outermost first; other loops stay where
        they are.
        """

    def lift_loop(self, loop: LoopRV) -> None:
        """Move a data-parallel loop out of its block, around it; the block gets a variable
        for it.
        """

    def loop_partition(
        self, loop: LoopRV, factors: Sequence[int | Expr | None], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut the range of a loop into consecutive pieces, each a loop over a copy of the body."""

    def match_to_alloc(self, block: BlockRV | str, buffer_index: int | str | Buffer) -> None:
        """Write to memory of the function's own instead of to a parameter; callers no
        longer see it.
        """

    def merge(self, *loops: LoopRV) -> LoopRV:
        """Run loop nests that follow each other in one nest, their bodies one after another."""

    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Round the domains of a sum of products up, and pad what it reads with zeros."""

    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop on several cores."""

    def read_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Copy what the blocks in a loop read of a buffer, before the first that reads it."""

    def write_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Let the blocks in a loop write a copy of a buffer, and copy that back after the last."""

    def reduce_online(self, block: BlockRV | str, later: BlockRV | str) -> BlockRV:
        """Reduce what two blocks reduce in one pass over the data."""

    def reindex_cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        index_map: Any,
    ) -> BlockRV:
        """Copy what a block reads into a buffer with a layout of its own; answer the copy."""

    def reindex_cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
        index_map: Any,
    ) -> BlockRV:
        """Let a block write a buffer with a layout of its own, and copy that back; answer
        the copy.
        """

    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Put the iteration variables of a block in another order; the loops stay."""

    def reverse_cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        dim_order: Sequence[int] | None = None,
    ) -> BlockRV:
        """Gather what a block reads into a buffer indexed by its iteration variables;
        answer the copy.
        """

    def reverse_cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
        dim_order: Sequence[int] | None = None,
    ) -> BlockRV:
        """Let a block write a buffer indexed by its iteration variables, and write that
        back; answer the block that does.
        """

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Reduce each iteration of a loop by itself, then combine the iterations."""

    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int | str | Buffer) -> None:
        """Compute each element of tiles that overlap once, and keep it as long as tiles need it."""

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """One of the candidates, drawn with these probabilities; the decision is its index."""

    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """A loop of the consumers under which `compute_at` may move a block."""

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """`n` factors of a loop's extent; for an unknown one the first is None and the others 1."""

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """`n` factors of a loop's extent; a factor divides the product of those from a
        position on.
        """

    def set_axis_separator(
        self, block: BlockRV | str, buffer: Any, axis_separators: Sequence[int] | None
    ) -> None:
        """Say where the axes of a buffer split into physical dimensions."""

    def set_scope(
        self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str
    ) -> None:
        """Put a buffer that a block writes into another storage scope."""

    def sparse_fuse(self, sparse_iteration: SparseIterationRV | str, iters: Sequence[Any]) -> None:
        """Iterate over an axis, its child, and so on in one loop over the positions of the last."""

    def sparse_reorder(
        self, sparse_iteration: SparseIterationRV | str, new_order: Sequence[Any]
    ) -> None:
        """Put the variables of a sparse iteration into a new order, that of the loops to come."""

    def storage_align(
        self,
        block: BlockRV | str,
        buffer_index: int | str | Buffer,
        axis: int,
        factor: int,
        offset: int,
    ) -> None:
        """Make the stride of an axis equal to `offset` modulo `factor`, in elements."""

    def tensorize(
        self,
        block_or_loop: BlockRV | LoopRV | str,
        tensor_intrin: str,
        preserve_unit_iters: bool = True,
    ) -> None:
        """Compute the part of a program inside of a block or loop by a tensor intrinsic."""

    def transform_block_layout(self, block: BlockRV | str, index_map: Any) -> None:
        """Give a block new iteration variables and loops, functions of the old ones."""

    def unroll(self, loop: LoopRV) -> None:
        """Write the iterations of a loop out one after another when it is lowered."""

    def unsafe_set_dtype(
        self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str
    ) -> None:
        """Keep an intermediate buffer in another type, converting on every access (unsafe:
        it rounds).
        """

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as the lanes of vectors."""
