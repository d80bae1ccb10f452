"""One program for many sizes on a GPU: compiled once, right for all, on the checking emulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from gpu import ARCHS, assemble, spills
from sampling import sampled
from tileloom import numpy as tnp
from tileloom import te
from tileloom.base.errors import ShapeError, UnsupportedError
from tileloom.driver import compile_polymorphic, plan_cuda
from tileloom.expr import Var
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.schedule import Schedule

BATCH, SEQ = tl.Dim("batch", max=1 << 14), tl.Dim("seq", max=1 << 16)
#: Around warps and blocks, of both kinds of rows: many short ones, and few long ones.
SHAPES = [(1, 1), (2, 1), (1, 2), (31, 33), (33, 31), (32, 32), (7, 127), (5, 521), (3, 2053),
          (2, 9001), (3, 132), (2, 136), (1031, 140), (2, 2052), (3, 8192), (1031, 3),
          (1, 40009), (17, 16411), (2053, 7), (4099, 40)]  # fmt: skip

Function = Callable[..., Any]


def on_gpu(function: Function, dims: dict[int, tl.Dim] | None = None) -> Any:
    shapes = {"x": {0: BATCH, 1: SEQ} if dims is None else dims}
    return tl.jit(function, dynamic_shapes=shapes, target="cuda -arch=sm_80", device="emulator")


def check(run: Any, reference: Function, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")
    found, wanted = run(x), reference(x.astype("float64"))
    assert found.shape == wanted.shape
    # Sums of many numbers around zero are right relative to what was added up.
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * max(100, x.size))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(xp: Any) -> Function:
    def run(x: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    return run


def cross_entropy(xp: Any, log_sum: Function) -> Function:
    return lambda x: xp.mean(log_sum(x) - x[:, 0])


def log_sum_exp(x: Any) -> Any:
    top = tnp.max(x, axis=1)
    return tnp.log(tnp.sum(tnp.exp(x - tnp.expand_dims(top, axis=1)), axis=1)) + top


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "formula": (lambda x: tnp.tanh(x) * 2.0 + x, lambda x: np.tanh(x) * 2 + x),
    "softmax": (tnp.softmax, softmax),
    "layer_norm": (layer_norm(tnp), layer_norm(np)),
    "cross_entropy": (
        cross_entropy(tnp, log_sum_exp),
        cross_entropy(np, lambda x: np.log(np.exp(x).sum(1))),
    ),
    "sum_of_rows": (lambda x: tnp.sum(x, axis=1), lambda x: x.sum(1)),
    "sum_of_columns": (lambda x: tnp.sum(x, axis=0), lambda x: x.sum(0)),
    "columns_used_again": (
        lambda x: x / tnp.sum(abs(x), axis=0),
        lambda x: x / np.abs(x).sum(0),
    ),
    "sum": (tnp.sum, np.sum),
    "largest": (lambda x: tnp.argmax(x, axis=1), lambda x: x.argmax(1)),
    "transpose": (lambda x: tnp.matrix_transpose(x) + 1.0, lambda x: x.T + 1),
    "of_columns": (
        lambda x: x - tnp.expand_dims(tnp.mean(x, axis=1), axis=1) + tnp.mean(x, axis=0),
        lambda x: x - x.mean(1, keepdims=True) + x.mean(0),
    ),
}


GRAPHS: dict[str, Function] = {
    "softmax": ops.softmax,
    "columns_used_again": lambda x: ops.div(x, ops.sum(ops.abs(x), axis=0, keepdims=True)),
    "largest": lambda x: ops.argmax(x, axis=1),
}


@pytest.mark.parametrize("name", sampled(FUNCTIONS, 4))
def test_one_compilation(name: str) -> None:
    function, reference = FUNCTIONS[name]
    run = on_gpu(function)
    for shape in SHAPES:
        check(run, reference, shape)
    assert run.compilations == 1
    about = run.explain(np.ones((3, 5), "float32"))
    assert "each size" not in about and "right where" not in about.replace("2147483647", "")


SLOW = [
    *(("product", arch) for arch in ARCHS[1:]),
    *((name, arch) for name in ("softmax", "columns_used_again", "largest") for arch in ARCHS),
]


@pytest.mark.slow
def test_rows_of_whole_vectors_are_read_by_vectors() -> None:
    """Where a row's length is a multiple of 16 bytes, which a predicate says, and it pays."""
    run = on_gpu(tnp.softmax)
    assert "in_vectors" not in str(run.explain(np.ones((3, 5), "float32")))
    [(program, _)] = next(iter(run._programs.values()))
    for columns, is_read in ((128, False), (132, False), (133, False), (136, True), (8192, True),
                             (8191, False), (8196, False)):  # fmt: skip
        [kernel] = program.kernels({"batch": 2, "seq": columns}).values()
        func = program.code.find(kernel, {}).func
        assert ("in_vectors" in func.attrs) == is_read
        if is_read:
            assert "ld.global.nc.v4" in tl.assembly(func, "cuda -arch=sm_80")


def test_formulas_number_elements_without_divisions() -> None:
    run = on_gpu(lambda x: tnp.tanh(x) * x)
    run.explain(np.ones((3, 5), "float32"))
    [(program, _)] = next(iter(run._programs.values()))
    texts = []
    for sizes in (
        {"batch": 3, "seq": 5},
        {"batch": 4096, "seq": 4096},
        {"batch": 4097, "seq": 4097},
    ):
        [kernel] = program.kernels(sizes).values()
        texts.append(tl.assembly(program.code.find(kernel, sizes).func, "cuda -arch=sm_80"))
        assert "div." not in texts[-1].replace("div.rn.f32", "").replace("div.full.f32", "")
    assert [".v4." in text for text in texts] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        pytest.param("product", ARCHS[0], marks=pytest.mark.slow),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW),
    ],
)
def test_the_assembler_takes_all_buckets(name: str, arch: str, tmp_path: Path) -> None:
    space = Space()
    rows, columns = symbol(space, "rows", 1, 1 << 14, 5), symbol(space, "columns", 1, 1 << 16, 33)
    if name == "product":
        x = Tensor(tensor_type((rows, 64), "float16"), "x")
        weight = Tensor(tensor_type((64, 96), "float16"), "weight")
        graph = Graph([x, weight], [ops.matmul(x, weight)])
    else:
        x = Tensor(tensor_type((rows, columns), "float32"), "x")
        graph = Graph([x], [GRAPHS[name](x)])
    program: Any = compile_polymorphic(graph, f"cuda -arch={arch}", "emulator")
    assert not program.code.each_size
    for kernel in program.serialized.numbers:
        func = program.code.find(kernel, {}).func
        assert not spills(assemble(tl.assembly(func, f"cuda -arch={arch}"), arch, tmp_path)), kernel


# ---------------------------------------------------------------------------- products


@pytest.mark.parametrize("kind", sampled(["float32", "float16"], 2))
def test_product_with_any_number_of_rows(kind: str) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((64, 48)).astype(kind)
    bias = rng.standard_normal(48).astype(kind)
    run = tl.jit(
        lambda x, w, b: tnp.maximum(x @ w + b, 0.0),
        dynamic_shapes={"x": {0: BATCH, 1: SEQ}},
        target="cuda -arch=sm_80",
        device="emulator",
    )
    for shape in ((1, 1), (1, 2), (5, 3), (1, 16), (31, 1), (11, 7), (2, 67), (1, 520)):
        x = rng.standard_normal((*shape, 64)).astype(kind)
        wanted = np.maximum(x.astype("f8") @ weight.astype("f8") + bias.astype("f8"), 0)
        np.testing.assert_allclose(run(x, weight, bias), wanted, 1e-2, 1e-2 * (kind == "float16"))
    assert run.compilations == 1
    assert "each size" not in run.explain(x, weight, bias)


@pytest.mark.slow
def test_attention() -> None:
    def attend(xp: Any, soft: Function) -> Function:
        def run(x: Any, w: Any) -> Any:
            key = x @ w
            return soft(x @ xp.swapaxes(key, -1, -2)) @ key

        return run

    class Named:
        swapaxes = staticmethod(lambda x, *_: tnp.matrix_transpose(x))

    run = tl.jit(
        attend(Named, tnp.softmax),
        dynamic_shapes={"x": {0: tl.Dim("few", max=8), 1: tl.Dim("short", max=100)}},
        target="cuda -arch=sm_80",
        device="emulator",
    )
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 32)).astype("float32") / 8
    for shape in ((1, 1, 32), (2, 3, 32), (3, 17, 32), (1, 65, 32)):
        x = rng.standard_normal(shape).astype("float32")
        wanted = attend(np, softmax)(x.astype("f8"), w.astype("f8"))
        np.testing.assert_allclose(run(x, w), wanted, 1e-3, 1e-4)
    assert run.compilations == 1


# ---------------------------------------------------------------------------- what is not


def test_steps_on_the_host() -> None:
    run = on_gpu(lambda x: tnp.sort(x, axis=1) * 2.0)
    for shape in ((1, 1), (3, 33), (31, 5)):
        check(run, lambda x: np.sort(x, 1) * 2, shape)
    assert run.compilations == 1


def test_a_group_without_a_schedule_is_made_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def refusing(mod: Any, target: Any) -> Any:
        made.append(mod)
        raise UnsupportedError("there is no such schedule")

    run = on_gpu(lambda x: tnp.sum(x * x, axis=1))
    with monkeypatch.context() as patched:
        patched.setattr(plan_cuda, "plan_kernel", refusing)
        check(run, lambda x: (x * x).sum(1), (3, 5))
    check(run, lambda x: (x * x).sum(1), (7, 33))
    check(run, lambda x: (x * x).sum(1), (3, 5))
    assert run.compilations == 1 and made
    text = run.explain(np.ones((3, 5), "float32"))
    assert "is compiled for each size: there is no such schedule" in text


def test_kernels_that_take_more_than_there_is_are_made_for_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(mod: Any, target: Any) -> Any:
        raise UnsupportedError("it takes 1048576 bytes of local memory")

    run = on_gpu(lambda x: tnp.max(x + x, axis=1))
    monkeypatch.setattr(plan_cuda, "check_launches", refusing)
    check(run, lambda x: (x + x).max(1), (3, 5))
    check(run, lambda x: (x + x).max(1), (7, 33))
    assert run.compilations == 1
    assert "bytes of local memory" in run.explain(np.ones((3, 5), "float32"))


def test_a_size_that_is_needed_as_a_number_is_no_reason_to_compile_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Schedules that take sizes for numbers are refused, not made a guard of the program."""
    schedule = plan_cuda.plan_kernel

    def taking(mod: Any, target: Any) -> Any:
        for block in mod.buffers:
            for extent in block.shape:
                int(extent.memo.get("extent", 0))
        return schedule(mod, target)

    monkeypatch.setattr(plan_cuda, "plan_kernel", taking)
    run = on_gpu(lambda x: x + 1.0)
    for shape in ((1, 1), (3, 33), (31, 5)):
        check(run, lambda x: x + 1, shape)
    assert run.compilations == 1
    assert "would have to be a number" in run.explain(np.ones((3, 5), "float32"))


def test_registers_of_unknown_size_are_refused() -> None:
    n = Var("n")
    A = te.placeholder((n,), name="A")
    sch = Schedule(te.create_prim_func([A, te.compute((n,), lambda i: A[i] + 1.0, name="B")]))
    copy = sch.cache_read("B", 0, "local")
    (loop,) = sch.get_loops("B")
    unit = sch.add_unit_loop(loop)
    sch.compute_at(copy, unit)
    sch.bind(unit, "threadIdx.x")
    with pytest.raises(UnsupportedError, match=r"would be n elements for each thread"):
        tl.build(sch.mod["main"], "cuda -arch=sm_80", "emulator")


def test_sizes_out_of_bounds() -> None:
    few = tl.Dim("few", max=4)
    run = on_gpu(lambda x: x + 1.0, {0: few})
    check(run, lambda x: x + 1, (4, 3))
    with pytest.raises(ShapeError, match="few"):
        run(np.ones((5, 3), "float32"))
