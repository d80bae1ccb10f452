"""Outputs written into the inputs that they replace: where that is safe, and that it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.inplace import write_in_place
from tileloom.graph.nodes import Graph, Node, Tensor, tensor_type
from tileloom.graph.op import Op
from tileloom.graph.run import run
from tileloom.target import Target


def tensor(name: Any, shape: Any = (64, 48), kind: str = "float32") -> Any:
    return Tensor(tensor_type(shape, kind), name)


def direct(graph: Any, replaced: Any) -> Any:
    """Which outputs are written in place, and what the program still gives and takes."""
    program = plan_graph(graph, Target.host())
    return write_in_place(program, replaced), program


def check(graph: Any, replaced: Any, rng: np.random.Generator, copies: int = 0) -> None:
    """Run in place; compare with the interpreter. So many outputs need a copy."""
    assert len(replaced) - len(direct(graph, replaced)[0]) == copies
    given = [np.asarray(rng.standard_normal(t.shape)).astype(t.dtype.numpy) for t in graph.inputs]
    wanted = run(graph, [array.copy() for array in given])
    kept = [array.copy() for array in given]
    results = compile_graph(graph, replaced=replaced)(*given)
    for result, value in zip(results, wanted, strict=True):
        assert np.allclose(result, value, rtol=1e-4, atol=1e-4)
    for k, array in enumerate(given):
        if k in replaced.values():
            output = next(o for o, parameter in replaced.items() if parameter == k)
            assert results[output] is array
        else:
            assert np.array_equal(array, kept[k])


def test_a_formula_of_the_input(rng: np.random.Generator) -> None:
    x, y = tensor("x"), tensor("y")
    check(Graph([x, y], [ops.add(x, y)]), {0: 0}, rng)
    check(Graph([x, y], [ops.sub(x, ops.mul(x, x))]), {0: 0}, rng)
    check(Graph([x], [ops.reshape(ops.exp(ops.reshape(x, (48, 64))), (64, 48))]), {0: 0}, rng)


def test_the_kernel_has_one_parameter_for_both() -> None:
    x, y = tensor("x"), tensor("y")
    done, program = direct(Graph([x, y], [ops.add(x, y)]), {0: 0})
    (segment,) = program.segments
    assert done == {0}
    assert segment.reads == (y,)
    assert segment.writes == (x,)
    (call,) = segment.calls
    assert len(program.module.functions[call.kernel].params) == 2
    assert len(program.module.functions[segment.name].params) == 3  # with the scratch memory
    assert set(program.module.functions) == {call.kernel, segment.name}


def test_an_input_that_is_not_read(rng: np.random.Generator) -> None:
    x, y = tensor("x", (48,)), tensor("y")
    graph = Graph([x, y], [ops.sum(y, 0)])
    check(graph, {0: 0}, rng)
    _, program = direct(graph, {0: 0})
    assert program.segments[0].writes == (x,)


def test_several_at_once(rng: np.random.Generator) -> None:
    p, m, g = tensor("p"), tensor("m"), tensor("g")
    new = ops.add(ops.mul(m, 0.9), g)
    check(Graph([p, m, g], [ops.sub(p, ops.mul(new, 0.1)), new]), {0: 0, 1: 1}, rng)
    check(Graph([p, m, g], [new, ops.sub(p, ops.mul(new, 0.1))]), {1: 0, 0: 1}, rng)


def test_large_arrays_in_parallel(rng: np.random.Generator) -> None:
    shape = (1000, 1013)
    p, m, g = (tensor(name, shape) for name in "pmg")
    new = ops.add(ops.mul(m, 0.9), g)
    graph = Graph([p, m, g], [ops.sub(p, ops.mul(new, 0.1)), new])
    check(graph, {0: 0, 1: 1}, rng)


def test_updates_side_by_side(rng: np.random.Generator) -> None:
    """In one kernel, whose parallel loop is shared out over them."""
    inputs, outputs = [], []
    for k, shape in enumerate([(300, 1000), (64,), (37, 11), (1000, 3)]):
        p, g = tensor(f"p{k}", shape), tensor(f"g{k}", shape)
        inputs += [p, g]
        outputs.append(ops.sub(p, ops.mul(g, 0.1)))
    graph, replaced = Graph(inputs, outputs), {k: 2 * k for k in range(4)}
    assert plan_graph(graph, Target.host()).kernel_count == 1
    check(graph, replaced, rng)


def test_two_that_need_each_other(rng: np.random.Generator) -> None:
    x, y = tensor("x"), tensor("y")
    graph = Graph([x, y], [ops.sub(x, y), ops.add(x, y)])
    program = plan_graph(graph, Target.host())
    done = write_in_place(program, {0: 0, 1: 1})
    check(graph, {0: 0, 1: 1}, rng, copies=2 - len(done))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: ops.add(x, ops.transpose(x)),
        lambda x: ops.flip(x, 0),
        lambda x: ops.sub(x, ops.sum(x, 1, keepdims=True)),
        lambda x: ops.matmul(x, x),
        lambda x: ops.softmax(x, 0),
    ],
)
def test_where_more_of_the_input_is_read(make: Any, rng: np.random.Generator) -> None:
    x = tensor("x", (48, 48))
    graph = Graph([x], [make(x)])
    done, _ = direct(graph, {0: 0})
    check(graph, {0: 0}, rng, copies=1 - len(done))


@pytest.mark.parametrize("shape", [(37,), (7, 11), (1,), (0,), (1, 1031), (64, 3, 37), (8, 1)])
def test_rows_that_do_not_fill_registers(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """They end in a register that reaches back, over elements that have been written."""
    x, y, g = (tensor(name, shape) for name in "xyg")
    check(Graph([x], [ops.add(ops.mul(x, 2.0), 1.0)]), {0: 0}, rng)
    new = ops.add(ops.mul(x, 0.9), g)
    graph = Graph([x, y, g], [new, ops.sub(y, ops.mul(new, 0.1)), ops.mul(new, new)])
    check(graph, {0: 0, 1: 1}, rng)
    row = tensor("row", shape[-1:])
    graph = Graph([x, row], [ops.mul(x, row)])
    done, _ = direct(graph, {0: 0})
    check(graph, {0: 0}, rng, copies=1 - len(done))


def test_an_output_that_is_the_old_value(rng: np.random.Generator) -> None:
    x = tensor("x")
    check(Graph([x], [ops.add(x, 1.0), x]), {0: 0}, rng, copies=1)


def test_inputs_and_constants_are_copied(rng: np.random.Generator) -> None:
    x, y = tensor("x"), tensor("y")
    check(Graph([x, y], [y]), {0: 0}, rng, copies=1)
    check(Graph([x, y], [y, x]), {0: 0, 1: 1}, rng, copies=2)
    numbers = ops.constant(rng.standard_normal((64, 48)), "float32")
    check(Graph([x], [numbers]), {0: 0}, rng, copies=1)


#: An op that no kernel computes: it runs in NumPy, on the host.
HOST = Op(
    "test_inplace_roll", "opaque", lambda types, attrs: [types[0]],
    lambda arrays, attrs, types: [np.roll(arrays[0], 1, 0)],
)  # fmt: skip


def on_host(*tensors: Any) -> Any:
    return Node(HOST, tensors, {}, [tensors[0].type]).outputs[0]


def test_a_step_on_the_host(rng: np.random.Generator) -> None:
    x, y = tensor("x"), tensor("y")
    check(Graph([x, y], [on_host(y)]), {0: 0}, rng, copies=1)
    # The host reads the input before the kernel writes it.
    check(Graph([x], [ops.add(on_host(x), 1.0)]), {0: 0}, rng)
    check(Graph([x], [ops.add(x, 1.0), on_host(x)]), {0: 0}, rng)
    # And here after it.
    new = ops.add(x, 1.0)
    check(Graph([x], [new, on_host(x, new)]), {0: 0}, rng, copies=1)


def test_results_that_others_read(rng: np.random.Generator) -> None:
    x, y = tensor("x", (48, 48)), tensor("y", (48, 48))
    new = ops.add(x, y)
    check(Graph([x, y], [new, ops.matmul(new, y)]), {0: 0}, rng)
    check(Graph([x, y], [ops.matmul(x, y), ops.add(x, y)]), {1: 0}, rng)
    check(Graph([x, y], [new, ops.reshape(new, (2304,))]), {0: 0}, rng)


def test_both_are_kept_in_the_cache(rng: np.random.Generator, tmp_path: Path) -> None:
    from tileloom.base.settings import override

    x = tensor("x")
    graph = Graph([x], [ops.add(x, 1.0)], name="cached")
    with override(cache_dir=tmp_path):
        for _ in range(2):
            array = np.zeros((64, 48), "float32")
            assert compile_graph(graph, replaced={0: 0})(array)[0] is array
            assert (array == 1).all()
            array = np.zeros((64, 48), "float32")
            compile_graph(graph)(array)
            assert (array == 0).all()
