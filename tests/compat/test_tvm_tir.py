"""Nodes built, taken apart, rewritten and analysed by scripts for TVM."""

from __future__ import annotations

from typing import Any

import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import IRModule, ir, tir
from tileloom.compat.tvm.ir import assert_structural_equal
from tileloom.compat.tvm.ir.transform import PassContext
from tileloom.compat.tvm.script import tir as T
from tileloom.compat.tvm.tir.stmt_functor import (
    ir_transform,
    post_order_visit,
    pre_order_visit,
    substitute,
)


@T.prim_func(private=True)
def reversed_copy(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in T.serial(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.exp(A[15 - vi])


def built_by_hand() -> Any:
    """`reversed_copy`, from constructors alone."""
    a = tir.decl_buffer((16,), "float32", name="A")
    b = tir.decl_buffer((16,), name="B", dtype="float32")
    i, vi = tir.Var("i", "int32"), tir.Var("vi", "int32")
    load = tir.BufferLoad(a, [15 - vi])
    value = tir.Call("float32", tvm.ir.Op.get("tir.exp"), [load])
    one = ir.Range.from_min_extent
    block = tir.Block(
        [tir.IterVar(ir.Range(0, 16), vi, tir.IterVar.DataPar)],
        [tir.BufferRegion(a, [one(15 - vi, 1)])],
        [tir.BufferRegion(b, [one(vi, 1)])],
        "B",
        tir.BufferStore(b, value, [vi]),
    )
    loop = tir.For(i, 0, 16, tir.ForKind.SERIAL, tir.BlockRealize([i], True, block))
    root = tir.BlockRealize([], True, tir.Block([], [], [], "root", loop))
    return tir.PrimFunc([a, b], root)


def test_constructors_make_what_scripts_say() -> None:
    assert_structural_equal(built_by_hand(), reversed_copy)
    assert tir.analysis.verify_well_formed(built_by_hand())


def test_binary_nodes_take_numbers() -> None:
    x = tir.Var("x", "int32")
    for make, symbol in [
        (tir.Add, "+"), (tir.Sub, "-"), (tir.Mul, "*"), (tir.FloorDiv, "//"), (tir.FloorMod, "%"),
        (tir.LT, "<"), (tir.GE, ">="), (tir.EQ, "=="), (tir.NE, "!="),
    ]:  # fmt: skip
        node = make(x, 3)
        assert isinstance(node, make)
        assert not isinstance(node, tir.Select)
        assert str(node) == f"x {symbol} 3"
        assert node.a.same_as(x)
        assert node.b == 3
        assert node.b.value == 3
    assert tir.Max(x, 1).dtype == "int32"
    with pytest.raises(tvm.TVMError):
        tir.Add(x, tir.Var("y", "float32"))


def test_types_of_nodes_compare() -> None:
    x = tir.Var("x", "int32")
    assert type(x + 1) == tir.Add  # noqa: E721
    assert type(x + 1) != tir.Sub  # noqa: E721
    assert tir.Add != tir.Sub
    assert {tir.Add: "sum"}[type(x + 1)] == "sum"
    match x * 2:
        case tir.Mul(a=left):
            assert left is x
        case _:
            pytest.fail("a product")


def test_other_expressions() -> None:
    x = tir.Var("x", "int32")
    f = tir.Var("f", "float32")
    assert tir.Cast("float32", x).value is x
    assert tir.Ramp(x, 1, 4).dtype == "int32x4"
    assert tir.Broadcast(f, 8).dtype == "float32x8"
    assert tir.Let(x, 1, x + 1).var is x
    select = tir.Select(x > 0, f, 0.0)
    assert select.true_value is f
    assert isinstance(select, tir.PrimExpr)
    assert tir.Shuffle([tir.Ramp(x, 1, 4)], [0, 2]).dtype == "int32x2"
    assert tir.StringImm("text").value == "text"
    assert tir.FloatImm("float16", 1.5).dtype == "float16"
    pointer = tir.Var("p", ir.PointerType(ir.PrimType("float16"), "shared"))
    assert pointer.dtype == "handle"
    buffer = tir.decl_buffer([4], "float16", data=pointer)
    assert buffer.scope() == "shared"
    assert buffer.scope == "shared"


def test_operations_have_names() -> None:
    call = tir.exp(tir.Var("f", "float32"))
    assert isinstance(call, tir.Call)
    assert call.op.name == "tir.exp"
    assert call.op == ir.Op.get("tir.exp")
    assert call.op.same_as(ir.Op.get("tir.exp"))
    assert isinstance(call.op, ir.Op)
    assert len(call.args) == 1
    with pytest.raises(ValueError):
        ir.Op.get("tir.no_such_operation")
    assert tir.call_intrin("float32", "tir.sqrt", 2.0).op.name == "tir.sqrt"
    assert tir.call_extern("int32", "f", 1).args[0].value == "f"
    assert tir.tvm_storage_sync("shared").op.name == "tir.tvm_storage_sync"


def test_functions_of_numbers_fold() -> None:
    assert tir.floordiv(-7, 2) == -4
    assert tir.truncdiv(tir.const(-7), 2) == -3
    assert tir.ceildiv(7, 2) == 4
    assert tir.max_value("int8") == 127
    assert tir.const(1, "float16").dtype == "float16"
    assert tir.all(tir.const(True), tir.const(False)) == 0
    assert isinstance(tir.div(tir.Var("x"), 2), tir.Div)


def test_loops_and_their_kinds() -> None:
    i = tir.Var("i", "int32")
    body = tir.Evaluate(0)
    for kind in tir.ForKind:
        loop = tir.For(i, 0, 4, kind, body)
        assert loop.kind == kind
        assert tir.ForKind(loop.kind) is kind
    assert tir.For(i, 0, 4, 1, body).kind == tir.ForKind.PARALLEL
    assert tir.For(i, 0, 4, 0, body, annotations={"k": 1}).annotations["k"] == 1


def test_statements() -> None:
    x = tir.Var("x", "int32")
    buffer = tir.decl_buffer((4,), "int32", "A")
    store = tir.BufferStore(buffer, 1, [x])
    assert store.buffer.same_as(buffer)
    branch = tir.IfThenElse(x > 0, store)
    assert branch.else_case is None
    let = tir.LetStmt(x, 3, branch)
    assert let.body.same_as(branch)
    assert isinstance(tir.SeqStmt([store, let]), tir.Stmt)
    assert tir.AttrStmt(x, "pragma", 1, store).attr_key == "pragma"
    assert tir.AssertStmt(x > 0, tir.StringImm("positive"), store).message == "positive"
    assert [type(s).__name__ for s in tir.stmt_list(tir.stmt_seq(store, let))] == [
        "BufferStore",
        "LetStmt",
    ]
    allocate = tir.Allocate(buffer.data, "int32", [4], True, store)
    assert allocate.extents[0] == 4
    assert "A" in let.script()


def test_iter_var() -> None:
    axis = tir.IterVar((0, 8), "v", tir.IterVar.CommReduce)
    assert axis.dom.extent == 8
    assert axis.iter_type == 2
    assert axis.var.name == "v"
    assert isinstance(axis, tir.IterVar)


def test_post_order_visit_comes_from_below() -> None:
    order = []
    post_order_visit(reversed_copy.body, lambda node: order.append(type(node).__name__))
    for inner, outer in [("Var", "Sub"), ("BufferLoad", "Call"), ("Call", "BufferStore"),
                         ("BufferStore", "Block"), ("BlockRealize", "For")]:  # fmt: skip
        assert order.index(inner) < order.index(outer)
    assert order[-1] == "BlockRealize"
    loads = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad):
            loads.append(node.buffer.name)

    post_order_visit(reversed_copy.body, visit)
    assert "A" in loads


def test_pre_order_visit_can_stop() -> None:
    seen = []

    def visit(node: Any) -> bool:
        seen.append(node)
        return not isinstance(node, tir.Block) or node.name_hint == "root"

    pre_order_visit(reversed_copy.body, visit)
    assert not any(isinstance(node, tir.BufferStore) for node in seen)
    assert any(isinstance(node, tir.For) for node in seen)


def test_ir_transform_rewrites_what_it_is_told() -> None:
    def postorder(node: Any) -> Any:
        if isinstance(node, tir.For):
            return tir.For(node.loop_var, node.min, node.extent, tir.ForKind.PARALLEL, node.body)
        if isinstance(node, tir.Call) and node.op.name == "tir.exp":
            return tir.sqrt(node.args[0])
        return None

    body = ir_transform(reversed_copy.body, None, postorder, ["tir.For", "tir.Call"])
    text = reversed_copy.with_body(body).script()
    assert "T.parallel(16)" in text
    assert "T.sqrt" in text
    assert "T.exp" not in text
    only_loops = ir_transform(reversed_copy.body, None, postorder, ["tir.For"])
    assert "T.exp" in reversed_copy.with_body(only_loops).script()


def test_ir_transform_before_what_is_below() -> None:
    x = tir.Var("x", "int32")
    expr = (x + 1) * (x + 2)
    stop = ir_transform(
        expr, lambda node: tir.const(5) if isinstance(node, tir.Add) else None, None
    )
    assert_structural_equal(stop, tir.const(25))


def test_substitute() -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert_structural_equal(substitute(x + y, {x: y * 2}), y * 3)
    loop = reversed_copy.body.block.body
    changed = substitute(loop.body, {loop.loop_var: 3})
    assert changed.iter_values[0] == 3
    assert substitute(ir.Range(x, x + 4), {x: 1}).min == 1


def test_undefined_vars_and_regions() -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    assert tir.analysis.undefined_vars(x + y, [x]) == [y]
    loop = reversed_copy.body.block.body
    assert loop.loop_var in tir.analysis.undefined_vars(loop.body)
    block = loop.body.block
    buffers = {b.data: b for b in reversed_copy.buffer_map.values()}
    reads, writes, opaque = tir.analysis.get_block_access_region(block, buffers)
    assert [region.buffer.name for region in reads] == ["A"]
    assert [region.buffer.name for region in writes] == ["B"]
    assert opaque == []


def test_not_well_formed_is_a_value_error() -> None:
    x = tir.Var("x", "int32")
    func = tir.PrimFunc([], tir.Evaluate(x + 1))
    assert not tir.analysis.verify_well_formed(func, assert_mode=False)
    with pytest.raises(ValueError):
        tir.analysis.verify_well_formed(func)


def test_passes_take_and_give_modules() -> None:
    mod = tvm.IRModule({"main": reversed_copy.with_attr("global_symbol", "main")})
    passes = tvm.transform.Sequential(
        [
            tir.transform.LowerInitBlock(),
            tir.transform.PlanAndUpdateBufferAllocationLocation(),
            tir.transform.ConvertBlocksToOpaque(),
            tir.transform.CompactBufferAllocation(is_strict=True),
            tir.transform.LowerMatchBuffer(),
            tir.transform.LowerOpaqueBlock(),
            tir.transform.Simplify(),
        ]
    )
    with pytest.warns(UserWarning, match="without effect"):
        options = tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True})
    with options as context:
        lowered = passes(mod)
        assert tvm.transform.PassContext.current() is context
    assert isinstance(lowered, tvm.IRModule)
    assert isinstance(lowered["main"].body, tir.For)
    assert isinstance(lowered["main"].body.body, tir.BufferStore)
    with pytest.raises(tvm.TVMError):
        tir.transform.Simplify()(reversed_copy)


def test_passes_of_the_user() -> None:
    @tir.transform.prim_func_pass(opt_level=0)
    def note(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_attr("noted", len(mod.functions))

    @tvm.transform.module_pass(opt_level=1, name="rename")
    class Rename:
        def __init__(self, name: str) -> None:
            self.name = name

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            (func,) = mod.functions.values()
            return tvm.IRModule({self.name: func})

    mod = tvm.IRModule({"main": reversed_copy})
    result: Any = tvm.transform.Sequential([note, Rename("other")])(mod)  # type: ignore[list-item]
    assert result["other"].attrs["noted"] == 1
    assert Rename("x").info.name == "rename"
    kept = tir.transform.Filter(lambda func: False)(mod)
    assert len(kept.get_global_vars()) == 0
    applied = tir.transform.Apply(lambda func: func.with_attr("k", 2))(mod)
    assert applied["main"].attrs["k"] == 2


def test_passes_in_the_order_of_tvm_make_kernels() -> None:
    @T.prim_func
    def main(A: T.Buffer((16, 64), "float32"), B: T.Buffer((16,), "float32")) -> None:
        for i in T.thread_binding(16, thread="blockIdx.x"):
            for k in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    names = [
        "LowerCrossThreadReduction", "LowerInitBlock", "PlanAndUpdateBufferAllocationLocation",
        "ConvertBlocksToOpaque", "UnifyThreadBinding", "CompactBufferAllocation",
        "LowerMatchBuffer", "LowerOpaqueBlock", "FlattenBuffer", "Simplify", "StorageRewrite",
        "UnrollLoop", "RemoveNoOp", "LowerThreadAllreduce", "SplitHostDevice",
    ]  # fmt: skip
    mod = tvm.IRModule({"main": main})
    for name in names:
        mod = getattr(tir.transform, name)()(mod)
    assert sorted(str(gv) for gv in mod.get_global_vars()) == ["main", "main_kernel"]
    kernel = mod["main_kernel"]
    assert "shuffle" in kernel.script()
    limits = {"max_threads_per_block": 64, "max_shared_memory_per_block": 1024}
    assert tir.analysis.verify_gpu_code(kernel, limits)
    assert not tir.analysis.verify_gpu_code(kernel, {"max_threads_per_block": 32})


def test_index_map() -> None:
    index_map = tir.IndexMap.from_func(lambda i, j: [i // 4, j, i % 4], index_dtype="int32")
    shape = index_map.map_shape([16, 8])
    assert [int(extent) for extent in shape] == [4, 8, 4]
    inverse = index_map.inverse([16, 8])
    assert inverse.is_equivalent(
        tir.IndexMap.from_func(lambda a, b, c: [a * 4 + c, b], index_dtype="int32")
    )
    assert isinstance(index_map, tir.IndexMap)
    assert index_map.initial_indices[0].dtype == "int32"
    wide = tir.IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    assert [int(index) for index in wide.map_indices([9, tir.const(2)])] == [2, 2, 1]
    assert wide.map_indices([9, 2])[0].dtype == "int64"
    back, padding = wide.non_surjective_inverse([14, 8])
    assert len(back.final_indices) == 2
    assert not isinstance(padding, tir.IntImm)
    assert wide.is_equivalent_to(wide)
    _, separators = tir.IndexMap.from_func_with_separators(
        lambda i, j: [i, tir.IndexMap.AXIS_SEPARATOR, j]
    )
    assert separators == [1]


def test_block_dependences() -> None:
    @T.prim_func
    def chain(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")) -> None:
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] * 2.0

    info = tir.BlockDependenceInfo(chain)
    root = info.mod["chain"].body.block
    first, second = (stmt.body.block for stmt in root.body.seq)
    scope = info.get_block_scope(info.get_sref(root))
    (edge,) = scope.get_deps_by_src(info.get_sref(first))
    assert edge.dst.stmt is second
    assert edge.kind == tir.schedule.DepKind.RAW
    assert scope.get_deps_by_dst(info.get_sref(first)) == []


def test_what_is_missing_is_named() -> None:
    with pytest.raises(AttributeError, match=r"tvm\.tir\.no_such_thing of TVM is not provided"):
        _ = tir.no_such_thing
    with pytest.raises(AttributeError, match=r"tvm\.tir\.transform\.MakePackedAPI"):
        _ = tir.transform.MakePackedAPI
