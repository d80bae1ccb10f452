"""The waist: tensor IR, functions of loops and blocks over buffers."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING, room
from .nodes import (
    FOR_KINDS,
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    UNROLLED,
    VECTORIZED,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    first_line,
    is_no_op,
    loop_nest,
    make_buffer,
    parts_of,
    seq,
    stores,
    stores_at_once,
    under_loops,
    under_names,
)
from .sparse import (
    COORDINATES,
    PLAIN,
    POSITIONS,
    Axis,
    BufferDomain,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    sparse_level,
)
from .walk import (
    BufferRewriter,
    StmtRewriter,
    all_exprs,
    buffer_exprs,
    collect,
    collect_exprs,
    map_exprs,
    pre_order,
    stmt_children,
    stmt_exprs,
    substitute_stmt,
)

if TYPE_CHECKING:
    from .analysis import (
        access_regions,
        allocated_buffers,
        buffer_accesses,
        detect_buffer_lca,
        infer_block_access,
        undefined_vars,
        union_regions,
        used_buffers,
    )
    from .renew import renewed
    from .run import run
    from .spec import verify
    from .specialize import specialize
    from .structural import (
        StructureError,
        assert_structural_equal,
        register_structure,
        structural_equal,
        structural_hash,
    )

room(
    __name__,
    analysis="access_regions allocated_buffers buffer_accesses detect_buffer_lca "
    "infer_block_access undefined_vars union_regions used_buffers",
    renew="renewed",
    run="run",
    spec="verify",
    specialize="specialize",
    structural="StructureError assert_structural_equal "
    "register_structure structural_equal structural_hash",
)

__all__ = [
    "Allocate", "AllocateConst", "AssertStmt", "AttrStmt", "Axis", "Block", "BlockRealize",
    "Buffer", "BufferDomain", "BufferLoad", "BufferRegion", "BufferRewriter", "BufferStore",
    "COORDINATES", "DeclBuffer", "Evaluate", "FOR_KINDS", "For", "IRModule", "IfThenElse",
    "LetStmt", "MatchBufferRegion", "PARALLEL", "PLAIN", "POSITIONS", "PrimFunc", "SERIAL",
    "SeqStmt", "SpIterVar", "SparseBuffer", "SparseIteration", "Stmt", "StmtRewriter",
    "StructureError", "THREAD_BINDING", "UNROLLED", "VECTORIZED", "While",
    "access_regions", "all_exprs", "allocated_buffers",
    "assert_structural_equal", "buffer_accesses", "buffer_exprs", "collect", "collect_exprs",
    "detect_buffer_lca", "first_line", "infer_block_access", "is_no_op", "loop_nest",
    "make_buffer", "map_exprs", "parts_of", "pre_order", "register_structure", "renewed", "run",
    "seq", "sparse_level", "specialize", "stmt_children", "stmt_exprs", "stores", "stores_at_once",
    "structural_equal", "structural_hash", "substitute_stmt", "undefined_vars", "under_loops",
    "under_names", "union_regions", "used_buffers", "verify",
]  # fmt: skip
