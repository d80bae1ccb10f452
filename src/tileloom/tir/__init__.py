"""The waist: tensor IR, functions of loops and blocks over buffers."""

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
    is_no_op,
    make_buffer,
    seq,
)
from .run import run
from .spec import verify, verify_blocks, verify_flat, verify_loops
from .structural import (
    StructureError,
    assert_structural_equal,
    register_structure,
    structural_equal,
    structural_hash,
)
from .walk import (
    StmtRewriter,
    collect,
    map_exprs,
    pre_order,
    stmt_children,
    stmt_exprs,
    substitute_stmt,
)

__all__ = [
    "Allocate", "AllocateConst", "AssertStmt", "AttrStmt", "Block", "BlockRealize", "Buffer",
    "BufferLoad", "BufferRegion", "BufferStore", "DeclBuffer", "Evaluate", "FOR_KINDS", "For",
    "IRModule", "IfThenElse", "LetStmt", "MatchBufferRegion", "PARALLEL", "PrimFunc", "SERIAL",
    "SeqStmt", "Stmt", "StmtRewriter", "StructureError", "THREAD_BINDING", "UNROLLED", "VECTORIZED",
    "While", "assert_structural_equal", "collect", "is_no_op", "make_buffer", "map_exprs",
    "pre_order", "register_structure", "run", "seq", "stmt_children", "stmt_exprs",
    "structural_equal", "structural_hash", "substitute_stmt", "verify", "verify_blocks",
    "verify_flat", "verify_loops",
]  # fmt: skip
