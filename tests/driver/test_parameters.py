"""What functions take, as the runtime checks it, and what backends make of odd programs."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.driver import compile_graph
from tileloom.driver.cpu import CpuBackend
from tileloom.driver.cuda import CudaBackend
from tileloom.driver.parameters import parameters, with_symbols
from tileloom.driver.plan import plan_graph
from tileloom.driver.plan_cuda import plan_gpu
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.runtime.params import ParamSpec
from tileloom.script import from_source
from tileloom.target import Target, target

HEAD = """
@T.prim_func
def main({arguments}):
    {declared}
    for i in range(8):
        {body}
"""


def function(arguments: str, declared: str, body: str) -> Any:
    return from_source(HEAD.format(arguments=arguments, declared=declared, body=body))


def test_shapes_strides_and_symbols() -> None:
    func = function(
        'a: T.handle, c: T.handle, n: T.int32, B: T.Buffer((8,), "int8")',
        'm, s = T.int32(), T.int64()\n    A = T.match_buffer(a, (m, n * 2), "float32")\n'
        '    C = T.match_buffer(c, (n, 4), "float16", strides=(s, 1))',
        'B[i] = T.cast(A[0, i] + T.cast(C[0, 0], "float32"), "int8")',
    )
    closed = with_symbols(func)
    assert [p.name for p in closed.params] == ["a", "c", "n", "B_handle", "m", "s"]
    kind = {p.name: p.dtype for p in closed.params}
    found = {spec.name: spec for spec in parameters(closed, 4)}
    assert list(found) == ["A", "C", "n", "B", "m", "s"]
    f32, f16, i8 = (tensor_type((1,), k).dtype for k in ("float32", "float16", "int8"))
    assert found["A"] == ParamSpec("A", "buffer", f32, ("m", "n * 2"))
    assert found["C"] == ParamSpec("C", "buffer", f16, ("n", 4), ("s", 1))
    assert found["B"] == ParamSpec("B", "buffer", i8, (8,), access="rw")
    assert found["n"] == ParamSpec("n", "scalar", kind["n"])
    assert found["m"] == ParamSpec("m", "scalar", kind["m"], implicit=True)
    assert found["s"] == ParamSpec("s", "scalar", kind["s"], implicit=True)
    assert with_symbols(closed) is closed
    assert [spec.implicit for spec in parameters(closed, 5)] == [False] * 5 + [True]


@pytest.mark.parametrize(("shape", "said"), [("(n + m,)", None), ("(m * 2,)", "m * 2"),
                                             ("(n * k,)", "n * k")])  # fmt: skip
def test_extents_of_what_is_passed(shape: str, said: str | None) -> None:
    passed = "n: T.int32, m: T.int32" if said is None else "n: T.int32"
    func = function(
        f"a: T.handle, {passed}",
        ("" if said is None else "m, k = T.int32(), T.int32()\n    ")
        + f'A = T.match_buffer(a, {shape}, "float32")',
        "A[i] = A[i] + 1.0",
    )
    if said is None:
        # All that is passed is in the extent.
        assert parameters(func.replace(params=func.params), 3)[0].shape == ("n + m",)
        return
    with pytest.raises(UserError, match=r"is neither a number nor a variable") as caught:
        parameters(func, 2)
    assert f"the extent {said} of" in str(caught.value)


def test_access_of_kernels_for_gpus() -> None:
    backend: Any = object.__new__(CudaBackend)  # no GPU is needed to make code
    backend.target = target("cuda -arch=sm_80")
    func = function(
        'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")',
        'x = T.launch_thread("threadIdx.x", 32)',
        "C[i] = A[i]",
    )
    params, code, outline = backend.compile_kernel(func)
    assert [(spec[0], spec[5]) for spec in params] == [("A", "r"), ("B", "r"), ("C", "rw")]
    assert ".entry" in code and '"threadIdx.x"' in outline and "C[" not in outline


# ---------------------------------------------------------------------------- graphs


def t(*shape: int, kind: str = "float32") -> Tensor:
    return Tensor(tensor_type(shape, kind), "x")


def test_a_program_without_kernels_has_no_code() -> None:
    x = t(4)
    program = plan_graph(Graph([x], [x]), Target.host())
    assert CpuBackend("cpu").compile(program).data == b""
    with_one = plan_graph(Graph([x], [ops.exp(x)]), Target.host())
    assert CpuBackend("cpu").compile(with_one).data


def test_what_is_planned_for_a_gpu_and_what_the_host_does() -> None:
    x = t(8, 8)
    graph = Graph([x], [ops.exp(x), ops.sort(x, 0), ops.cumsum(x, 0)])
    program = plan_gpu(graph, target("cuda -arch=sm_80"))
    calls = [call.kernel for segment in program.segments for call in segment.calls]
    on_host = [s.node.op.name for s in program.segments if s.node is not None and not s.calls]
    assert on_host == ["sort"]
    assert sorted(name.split("_", 1)[1] for name in calls) == ["cumsum", "exp"]
    # The library's kernels are not scheduled.
    assert sorted(program.planned) == sorted(name for name in calls if "cumsum" not in name)


def test_graphs_of_open_sizes_are_compiled_by_another_function() -> None:
    n = symbol(Space(), "n", 1, 100, 7)
    x = Tensor(TensorType((n, 4), t(1).dtype), "x")
    with pytest.raises(UserError, match="the graph has symbolic extents") as caught:
        compile_graph(Graph([x], [ops.exp(x)]))
    assert "compile_polymorphic" in str(caught.value)
