"""Graphs to which rules written as functions apply, and some to which they must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.op import apply, apply1

KINDS = ("float32", "int32", "float16", "bool")
NUMBERS = ("float32", "int32", "float64")


@dataclass(frozen=True)
class Example:
    """A graph for an element type; whether the rule fires; the ops that are left."""

    build: Callable[..., Tensor | list[Tensor]]
    shapes: tuple[tuple[int, ...], ...] = ((2, 3, 4),)
    fires: bool = True
    after: str | None = None
    kinds: tuple[str, ...] = KINDS

    def graph(self, kind: str) -> Graph:
        inputs = [Tensor(tensor_type(s, kind), f"x{k}") for k, s in enumerate(self.shapes)]
        outputs = self.build(*inputs)
        return Graph(inputs, outputs if isinstance(outputs, list) else [outputs])


def reshape(x: Tensor, *shape: int) -> Tensor:
    return apply1("reshape", (x,), shape=shape)


def transpose(x: Tensor, *perm: int) -> Tensor:
    return apply1("transpose", (x,), perm=perm)


def cast(x: Tensor, kind: str) -> Tensor:
    return apply1("cast", (x,), dtype=ops.constant(0, kind).dtype)


def repeat(x: Tensor, *shape: int) -> Tensor:
    return apply1("broadcast_to", (x,), shape=shape)


def part(
    x: Tensor, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...] = ()
) -> Any:
    return apply1("slice", (x,), starts=starts, sizes=sizes, steps=steps or (1,) * x.ndim)


def reduce(name: str, x: Tensor, axis: object, keepdims: bool = False) -> Tensor:
    return apply1(f"reduce_{name}", (x,), axis=axis, keepdims=keepdims)


def one(*examples: Example) -> tuple[Example, ...]:
    return examples


def twice(name: str, kinds: tuple[str, ...] = NUMBERS) -> tuple[Example, ...]:
    def make(inner: tuple[int, ...], outer: tuple[int, ...], keep: bool, keep_outer: bool) -> Any:
        return lambda x: reduce(name, reduce(name, x, inner, keep), outer, keep_outer)

    shapes = ((2, 3, 4, 5),)
    both = f"reduce_{name}"
    return (
        Example(make((1,), (1,), False, False), shapes, after=both, kinds=kinds),
        Example(make((0, 3), (1,), False, False), shapes, after=both, kinds=kinds),
        Example(make((1,), (1, 3), True, True), shapes, after=both, kinds=kinds),
        Example(make((1,), (0,), True, False), shapes, fires=False, kinds=kinds),
        Example(lambda x: [inner := reduce(name, x, (0,)), reduce(name, inner, (0,))], shapes,
                fires=False, kinds=kinds),
    )  # fmt: skip


def pick(places: object, axis: int) -> Callable[[Tensor], Tensor]:
    return lambda x: ops.gather(x, ops.constant(places, "int64"), axis)


def scaled(op: str, value: object, flip: bool = False) -> Callable[[Tensor], Tensor]:
    def make(x: Tensor) -> Tensor:
        c = ops.constant(value, x.dtype)
        return reduce("sum", apply1(op, (c, x) if flip else (x, c)), (0, 2))

    return make


def pool(read: bool) -> Callable[[Tensor], list[Tensor]]:
    attrs = {"kernel": (2, 2), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1),
             "ceil_mode": False}  # fmt: skip

    def make(x: Tensor) -> list[Tensor]:
        best, places = apply("max_pool_with_indices", (x,), **attrs)
        return [best, places] if read else [best]

    return make


def matmul(a: Tensor, b: Tensor, ta: bool = False, tb: bool = False) -> Tensor:
    return apply1("matmul", (a, b), transpose_a=ta, transpose_b=tb, out_dtype=None)


FLOAT, HALF = ("float32",), ("float16", "bfloat16")
ROW, ALL = (3, 4), (2, 3, 4)
EXAMPLES: dict[str, tuple[Example, ...]] = {
    # -------------------------------------------------------------------- reshapes
    "reshape-to-same": one(
        Example(lambda x: reshape(x, 2, 3, 4), after=""),
        Example(lambda x: reshape(x, 6, 4), fires=False),
        Example(lambda x: reshape(x, 0, 3), ((0, 3),), after=""),
    ),
    "reshape-of-reshape": one(
        Example(lambda x: reshape(reshape(x, 24), 4, 6), after="reshape"),
        Example(lambda x: reshape(reshape(x, 24), 2, 3, 4), after=""),
    ),
    "transpose-to-same": one(
        Example(lambda x: transpose(x, 0, 1, 2), after=""),
        Example(lambda x: transpose(x, 0, 2, 1), fires=False),
    ),
    "transpose-of-transpose": one(
        Example(lambda x: transpose(transpose(x, 1, 2, 0), 0, 2, 1), after="transpose"),
        Example(lambda x: transpose(transpose(x, 1, 2, 0), 1, 2, 0), after="transpose"),
        Example(lambda x: transpose(transpose(x, 1, 2, 0), 2, 0, 1), after=""),
    ),
    "transpose-of-unit-axes": one(
        Example(lambda x: transpose(x, 1, 0, 2), ((3, 1, 4),), after="reshape"),
        Example(lambda x: transpose(x, 1, 0), ((1, 1),), after=""),
        Example(lambda x: transpose(x, 2, 1, 0), ((3, 1, 4),), fires=False),
        Example(lambda x: transpose(x, 1, 0), ((0, 3),), fires=False),
    ),
    "transpose-of-reshape": one(
        Example(lambda x: transpose(reshape(transpose(x, 0, 2, 1), 2, 1, 4, 3), 0, 1, 3, 2)),
        Example(lambda x: transpose(reshape(transpose(x, 1, 0), 4, 3), 1, 0), ((3, 4),)),
        Example(lambda x: transpose(reshape(transpose(x, 2, 0, 1, 3), 3, 2, 4), 1, 0, 2),
                ((2, 1, 3, 4),)),
        Example(lambda x: transpose(reshape(x, 2, 1, 3, 4), 0, 1, 3, 2), fires=False),
        Example(lambda x: transpose(reshape(transpose(x, 0, 2, 1), 8, 3), 1, 0), fires=False),
        Example(lambda x: transpose(reshape(ops.relu(x), 2, 1, 3, 4), 0, 1, 3, 2), fires=False,
                kinds=("float32",)),
        Example(lambda x: transpose(reshape(transpose(x, 0, 2, 1), 3, 4, 2), 0, 2, 1),
                fires=False),
    ),
    # -------------------------------------------------------------------- broadcasts
    "drop-broadcast": one(
        Example(lambda x, y: ops.maximum(repeat(x, 2, 3, 4), y), (ROW, ALL), after="maximum"),
        Example(lambda x, y: ops.minimum(y, repeat(x, 2, 3, 4)), (ROW, ALL), after="minimum"),
        Example(lambda x, y: ops.maximum(repeat(x, 3, 4), repeat(y, 3, 4)), ((1, 4), (3, 1)),
                after="maximum"),
        Example(lambda x, y: ops.where(ops.equal(y, y), repeat(x, 2, 3, 4), y), (ROW, ALL),
                after="equal where"),
        Example(lambda x, y: ops.where(ops.equal(y, y), y, repeat(x, 2, 3, 4)), (ROW, ALL),
                after="equal where"),
        Example(lambda x, y: ops.maximum(repeat(x, 2, 3, 4), y), (ROW, (2, 1, 1))),
        Example(lambda x, y: ops.maximum(repeat(x, 2, 3, 4), y), (ROW, (1, 1, 1)), fires=False),
        Example(lambda x, y: ops.maximum(repeat(x, 0, 3), y), ((1, 3), (1, 3)), fires=False),
        Example(lambda x, y: ops.maximum(repeat(x, 3, 0), y), ((3, 1), (1, 0)), after="maximum"),
    ),
    "sink-broadcast": one(
        Example(lambda x: ops.neg(repeat(x, 5, 3, 4)), (ROW,), after="neg broadcast_to",
                kinds=NUMBERS),
        Example(lambda x, y: ops.maximum(repeat(x, 3, 4), y), ((1, 4), (1, 4)),
                after="maximum broadcast_to"),
        Example(lambda x: cast(repeat(x, 5, 3), "float64"), ((3,),), after="cast broadcast_to"),
        Example(lambda x: ops.maximum(repeat(x, 5, 3), ops.constant(1, x.dtype)), ((3,),),
                after="constant maximum broadcast_to"),
        Example(lambda x, y: ops.maximum(repeat(x, 2, 3), y), ((1, 3), (2, 1)), fires=False),
        Example(lambda x: ops.neg(repeat(x, 0, 3)), ((1, 3),), kinds=NUMBERS),
    ),
    "one-value": one(
        Example(lambda x: ops.add(x, ops.constant(np.full((3, 4), 3), x.dtype)), (ALL,),
                kinds=NUMBERS),
        Example(lambda x: ops.mul(ops.constant([[2]], x.dtype), x), (ROW,), kinds=NUMBERS),
        Example(lambda x: ops.add(x, ops.constant(np.full((3, 4), 3), x.dtype)), ((1, 1),),
                fires=False, kinds=NUMBERS),
        Example(lambda x: ops.add(x, ops.constant([0.0, -0.0, 0.0], x.dtype)), ((3,),),
                fires=False, kinds=FLOAT),
        Example(lambda x: ops.add(x, ops.constant([1, 2, 1], x.dtype)), ((3,),), fires=False,
                kinds=NUMBERS),
        Example(lambda x: ops.add(x, ops.constant([np.nan] * 3, x.dtype)), ((3,),), fires=False,
                kinds=FLOAT),
    ),
    "broadcast-to-same": one(
        Example(lambda x: repeat(x, 2, 3, 4), after=""),
        Example(lambda x: repeat(x, 1, 1, 2, 3, 4), after="reshape"),
        Example(lambda x: repeat(x, 2, 2, 3, 4), fires=False),
    ),
    "broadcast-of-broadcast": one(
        Example(lambda x: repeat(repeat(x, 3, 4), 2, 3, 4), ((1, 4),), after="broadcast_to"),
    ),
    "broadcast-of-reshape": one(
        Example(lambda x: repeat(reshape(x, 1, 1, 4), 2, 3, 4), ((4,),), after="broadcast_to"),
        Example(lambda x: repeat(reshape(x, 4, 1), 4, 5), ((4,),), fires=False),
        Example(lambda x: repeat(reshape(x, 1, 4), 3, 4), ((2, 2),), fires=False),
    ),
    # -------------------------------------------------------------------- casts
    "cast-to-same": one(
        Example(lambda x: apply1("cast", (x,), dtype=x.dtype), after=""),
        Example(lambda x: cast(x, "float64"), fires=False),
    ),
    "cast-of-cast": one(
        Example(lambda x: cast(cast(x, "float32"), "float64"), after="cast",
                kinds=("float16", "bfloat16", "int16", "uint8", "bool")),
        Example(lambda x: cast(cast(x, "float32"), "bfloat16"), after="cast", kinds=("float16",)),
        Example(lambda x: cast(cast(x, "float64"), "float32"), after="", kinds=FLOAT),
        Example(lambda x: cast(cast(x, "int64"), "int32"), after="", kinds=("int32",)),
        Example(lambda x: cast(cast(x, "int32"), "int8"), after="cast", kinds=("int64",)),
        Example(lambda x: cast(cast(x, "uint32"), "int32"), after="", kinds=("int32",)),
        Example(lambda x: cast(cast(x, "int8"), "int32"), fires=False, kinds=("int32",)),
        Example(lambda x: cast(cast(x, "float32"), "int32"), fires=False, kinds=("int32",)),
        Example(lambda x: cast(cast(x, "float16"), "float32"), fires=False,
                kinds=("float32", "bfloat16")),
        Example(lambda x: cast(cast(x, "bool"), "int32"), fires=False, kinds=("int32", "float32")),
        Example(lambda x: cast(cast(x, "int64"), "bool"), after="cast", kinds=("int32",)),
        Example(lambda x: cast(cast(x, "int32"), "bool"), fires=False, kinds=("float32", "int64")),
    ),
    "move-before-widening": one(
        Example(lambda x: transpose(cast(x, "float64"), 2, 0, 1), after="transpose cast"),
        Example(lambda x: part(cast(x, "float64"), (0, 0, 1), (1, 3, 2)), after="slice cast"),
        Example(lambda x: transpose(cast(x, "int8"), 2, 0, 1), fires=False, kinds=NUMBERS),
        Example(lambda x: [wide := cast(x, "float64"), transpose(wide, 2, 0, 1)], fires=False),
    ),
    "narrow-before-move": one(
        Example(lambda x: cast(transpose(x, 2, 0, 1), "bfloat16"), after="cast transpose",
                kinds=NUMBERS),
        Example(lambda x: cast(part(x, (2,), (3,), (-1,)), "int8"), ((3,),), after="cast slice",
                kinds=NUMBERS),
        Example(lambda x: cast(part(x, (0,), (2,)), "int8"), ((3,),), fires=False, kinds=NUMBERS),
        Example(lambda x: cast(transpose(x, 2, 0, 1), "float64"), fires=False, kinds=FLOAT),
        Example(lambda x: [y := transpose(x, 2, 0, 1), cast(y, "int8")], fires=False,
                kinds=NUMBERS),
    ),
    "widen-after-op": one(
        Example(lambda x: ops.neg(cast(x, "float32")), after="neg cast", kinds=HALF),
        Example(lambda x, y: ops.maximum(cast(x, "float32"), cast(y, "float32")), (ALL, ROW),
                after="maximum cast", kinds=HALF),
        Example(lambda x, y: ops.where(ops.equal(x, y), cast(x, "float32"), cast(y, "float32")),
                (ALL, ROW), after="equal where cast", kinds=HALF),
        Example(lambda x: ops.maximum(cast(x, "float32"), 1.0), fires=False, kinds=HALF),
        Example(lambda x: ops.neg(cast(x, "float64")), fires=False, kinds=("int32",)),
    ),
    "sum-in-float32": one(
        Example(lambda x: cast(ops.sum(x, 1), "float32"), after="cast reduce_sum", kinds=HALF),
        Example(lambda x: cast(ops.sum(x, 1), "float64"), fires=False, kinds=HALF),
        Example(lambda x: cast(ops.sum(x, 1), "float64"), fires=False, kinds=FLOAT),
    ),
    "product-in-float32": one(
        Example(lambda x, y: cast(matmul(x, y), "float32"), (ROW, (4, 5)), after="matmul",
                kinds=HALF),
        Example(lambda x, y: [z := matmul(x, y), cast(z, "float32")], (ROW, (4, 5)), fires=False,
                kinds=HALF),
    ),
    # -------------------------------------------------------------------- slices
    "slice-of-all": one(
        Example(lambda x: part(x, (0, 0, 0), (2, 3, 4)), after=""),
        Example(lambda x: part(x, (0, 0), (1, 3), (-1, 1)), ((1, 3),), after=""),
        Example(lambda x: part(x, (2, 0), (3, 1), (-1, 1)), ((3, 1),), fires=False),
        Example(lambda x: part(x, (0, 0), (0, 3)), ((0, 3),), after=""),
    ),
    "slice-of-slice": one(
        Example(lambda x: part(part(x, (1,), (5,), (2,)), (3,), (3,), (-1,)), ((11,),),
                after="slice"),
        Example(lambda x: part(part(x, (6,), (7,), (-1,)), (6,), (7,), (-1,)), ((7,),), after=""),
        Example(lambda x: part(part(x, (1,), (5,)), (0,), (0,)), ((7,),), after="slice"),
    ),
    "slice-of-concat": one(
        Example(lambda x, y: part(ops.concat([x, y], 1), (0, 3), (2, 2)), ((2, 3), (2, 2)),
                after=""),
        Example(lambda x, y: part(ops.concat([x, y], 1), (0, 1), (2, 2)), ((2, 3), (2, 2)),
                after="slice"),
        Example(lambda x, y: part(ops.concat([x, y], 1), (0, 2), (2, 2)), ((2, 3), (2, 2)),
                fires=False),
        Example(lambda x, y: part(ops.concat([x, y, x], 0), (4, 0), (3, 3), (-1, 1)),
                ((2, 3), (3, 3)), after="slice"),
        Example(lambda x, y: part(ops.concat([x, y, x], 0), (4, 0), (2, 3)), ((2, 3), (3, 3)),
                after="concat slice"),
        Example(lambda x, y: part(ops.concat([x, y], 0), (0, 0), (0, 3)), ((2, 3), (3, 3)),
                fires=False),
        Example(lambda x, y: part(ops.concat([x, y], 0), (0, 0), (1, 3)), ((0, 3), (3, 3)),
                after="slice"),
    ),
    "slice-of-broadcast": one(
        Example(lambda x: part(repeat(x, 5, 3, 4), (1, 0, 1), (2, 2, 3)), ((3, 1),),
                after="slice broadcast_to"),
        Example(lambda x: part(repeat(x, 5, 3), (2, 1), (1, 2)), ((1, 3),), after="slice"),
        Example(lambda x: part(repeat(x, 5, 3), (4, 0), (5, 3), (-1, 1)), ((1, 3),),
                after="broadcast_to"),
        Example(lambda x: part(repeat(x, 5, 3), (0, 0), (0, 3)), ((1, 3),), fires=False),
    ),
    "slice-before-transpose": one(
        Example(lambda x: part(transpose(x, 2, 0, 1), (1, 0, 2), (2, 1, 1)),
                after="slice transpose"),
        Example(lambda x: [y := transpose(x, 2, 0, 1), part(y, (1, 0, 2), (2, 1, 1))],
                fires=False),
    ),
    "concat-of-one": one(
        Example(lambda x: apply1("concat", (x,), axis=1), after=""),
        Example(lambda x, y: ops.concat([x, y], 0), ((0, 3), (2, 3)), after=""),
        Example(lambda x, y: ops.concat([x, y, y], 0), ((0, 3), (2, 3)), after="concat"),
        Example(lambda x, y: ops.concat([x, x], 0), ((0, 3), (2, 3)), after=""),
        Example(lambda x, y: ops.concat([x, y], 0), ((1, 3), (2, 3)), fires=False),
    ),
    "concat-of-concat": one(
        Example(lambda x, y: ops.concat([y, ops.concat([x, y], 0), x], 0), (ROW, ROW),
                after="concat"),
        Example(lambda x, y: ops.concat([ops.concat([x, y], 1), ops.concat([y, x], 1)], 0),
                (ROW, ROW), fires=False),
        Example(lambda x, y: [z := ops.concat([x, y], 0), ops.concat([z, x], 0)], (ROW, ROW),
                fires=False),
    ),
    "concat-of-slices": one(
        Example(lambda x: ops.concat(ops.split(x, 3, 1), 1), ((2, 6),), after=""),
        Example(lambda x: ops.concat(ops.split(x, 3, 1)[1:], 1), ((2, 6),), after="slice"),
        Example(lambda x: ops.concat([*ops.split(x, 3, 1), x], 1), ((2, 6),), after="concat"),
        Example(lambda x: ops.concat(ops.split(x, 3, 1)[::-1], 1), ((2, 6),), fires=False),
        Example(lambda x: ops.concat(ops.split(x, 2, 1), 0), ((2, 6),), fires=False),
        Example(lambda x, y: ops.concat([part(x, (0,), (2,)), part(y, (2,), (2,))], 0),
                ((4,), (4,)), fires=False),
        Example(lambda x: ops.concat([part(x, (5,), (2,), (-1,)), part(x, (3,), (2,), (-1,))], 0),
                ((6,),), after="slice"),
    ),
    "gather-of-run": one(
        Example(pick(1, 1), after="slice reshape"),
        Example(pick([1, 2], 1), after="slice"),
        Example(pick([-1, -3], 2), after="slice"),
        Example(pick([[0, 2]], 2), after="slice reshape"),
        Example(pick([0, 1, 2], 1), after=""),
        Example(pick([7], 0), after="slice"),
        Example(pick([0, 1, 1], 1), fires=False),
        Example(pick([1, 1], 1), fires=False),
        Example(pick([0, 1, 3], 2), fires=False),
        Example(pick([], 2), fires=False),
    ),
    # -------------------------------------------------------------------- reductions
    "sort-axes": one(
        Example(lambda x: reduce("max", x, (-1, 0)), after="reduce_max"),
        Example(lambda x: reduce("max", x, None), after="reduce_max"),
        Example(lambda x: reduce("max", x, 1), after="reduce_max"),
        Example(lambda x: reduce("max", x, (0, 1)), fires=False),
    ),
    "reduce-unit-axes": one(
        Example(lambda x: reduce("sum", x, (0, 2)), ((1, 3, 1),), after="reshape", kinds=NUMBERS),
        Example(lambda x: reduce("max", x, (0,), True), ((1, 3),), after=""),
        Example(lambda x: reduce("max", x, ()), after=""),
        Example(lambda x: reduce("max", x, (-1,)), ((3, 1),), after="reshape"),
        Example(lambda x: reduce("sum", x, (0, 1)), ((1, 3, 1),), fires=False, kinds=NUMBERS),
        Example(lambda x: reduce("sum", x, (0,)), ((0, 3),), fires=False, kinds=NUMBERS),
    ),
    "sum-of-sum": twice("sum"),
    "prod-of-prod": twice("prod"),
    "min-of-min": twice("min", KINDS),
    "max-of-max": twice("max", KINDS),
    "any-of-any": twice("any", ("bool",)),
    "all-of-all": twice("all", ("bool",)),
    "sum-of-transpose": one(
        Example(lambda x: reduce("sum", transpose(x, 2, 0, 1), (1,)),
                after="reduce_sum transpose", kinds=NUMBERS),
        Example(lambda x: reduce("prod", transpose(x, 2, 0, 1), (0,), True),
                after="reduce_prod reshape", kinds=NUMBERS),
    ),
    "extreme-of-transpose": one(
        Example(lambda x: reduce("max", transpose(x, 3, 1, 0, 2), (1,)), ((2, 3, 4, 5),),
                after="reduce_max transpose"),
        Example(lambda x: reduce("max", transpose(x, 3, 1, 0, 2), (-1, 0), True), ((2, 3, 4, 5),),
                after="reduce_max transpose reshape"),
        Example(lambda x: reduce("max", transpose(x, 2, 0, 1), (1,)),
                after="reduce_max transpose"),
        Example(lambda x: reduce("min", transpose(x, 1, 0, 2), (1, 2))),
        Example(lambda x: reduce("min", transpose(x, 1, 2, 0), (0, 1, 2), True),
                after="reduce_min reshape"),
    ),
    "sum-of-broadcast": one(
        Example(lambda x: reduce("sum", repeat(x, 5, 3, 4), (0, 2)), ((3, 1),), kinds=NUMBERS),
        Example(lambda x: reduce("sum", repeat(x, 5, 3, 4), (1,), True), ((3, 4),),
                after="reshape reduce_sum broadcast_to", kinds=NUMBERS),
        Example(lambda x: reduce("sum", repeat(x, 300, 3), (0,)), ((3,),), kinds=("int8",)),
        Example(lambda x: reduce("sum", repeat(x, 70000, 2), (0,)), ((2,),), fires=False,
                kinds=("float16",)),
        Example(lambda x: reduce("sum", repeat(x, 0, 3), (0,)), ((3,),), fires=False,
                kinds=NUMBERS),
    ),
    "extreme-of-broadcast": one(
        Example(lambda x: reduce("max", repeat(x, 5, 3, 4), (0, 2)), ((3, 1),)),
        Example(lambda x: reduce("min", repeat(x, 5, 3, 4), (1,)), ((3, 4),)),
        Example(lambda x: reduce("min", repeat(x, 5, 3, 4), (0, 1, 2), True), ((4,),),
                after="reshape reduce_min"),
        Example(lambda x: reduce("max", repeat(x, 3, 0), (0,)), ((1,),), fires=False),
        Example(lambda x: reduce("any", repeat(x, 5, 3), (0,)), ((3,),), kinds=("bool",)),
    ),
    "sum-of-neg": one(
        Example(lambda x: reduce("sum", ops.neg(x), (0, 2)), after="reduce_sum neg",
                kinds=NUMBERS),
    ),
    "sum-of-quotient": one(
        Example(scaled("div", 3), after="constant reduce_sum div", kinds=FLOAT),
        Example(scaled("div", [1, 2, 3, 4]), fires=False, kinds=FLOAT),
        Example(scaled("div", 3, flip=True), fires=False, kinds=FLOAT),
    ),
    "sum-of-product": one(
        Example(scaled("mul", 3), after="constant reduce_sum mul", kinds=NUMBERS),
        Example(scaled("mul", [[3]], flip=True), kinds=NUMBERS),
        Example(scaled("mul", [1, 2, 3, 4]), fires=False, kinds=NUMBERS),
        Example(lambda x: reduce("sum", ops.mul(x, ops.constant([[[3]]], x.dtype)), (0,)),
                ((3,),), fires=False, kinds=NUMBERS),
        Example(lambda x: [y := ops.mul(x, ops.constant(3, x.dtype)), reduce("sum", y, (0,))],
                fires=False, kinds=NUMBERS),
    ),
    # -------------------------------------------------------------------- products
    "product-of-transposed": one(
        Example(lambda x, y: matmul(transpose(x, 1, 0), y), ((4, 3), (4, 5)), after="matmul",
                kinds=NUMBERS),
        Example(lambda x, y: matmul(x, transpose(y, 0, 2, 1), tb=True), ((2, 3, 4), (2, 4, 5)),
                after="matmul", kinds=NUMBERS),
        Example(lambda x, y: matmul(transpose(x, 1, 0), transpose(y, 1, 0)), ((4, 3), (5, 4)),
                after="matmul", kinds=NUMBERS),
        Example(lambda x, y: matmul(x, transpose(y, 1, 2, 0)), ((3, 2, 4), (5, 3, 4)),
                after="transpose matmul", kinds=NUMBERS),
        Example(lambda x, y: matmul(transpose(x, 1, 0, 2), y), ((3, 2, 4), (4, 5)), fires=False,
                kinds=NUMBERS),
        Example(lambda x, y: matmul(reshape(transpose(x, 1, 0), 6, 2), y), ((4, 3), (2, 5)),
                fires=False, kinds=NUMBERS),
        Example(lambda x, y: matmul(reshape(x, 3, 4), y), ((12,), (4, 5)), fires=False,
                kinds=NUMBERS),
        Example(lambda x, y: matmul(reshape(ops.neg(x), 3, 4), y), ((1, 3, 4), (4, 5)),
                fires=False, kinds=NUMBERS),
        Example(lambda x, y: matmul(x, reshape(transpose(y, 0, 1, 3, 2), 6, 4, 5)),
                ((6, 3, 4), (2, 3, 5, 4)), after="reshape matmul", kinds=NUMBERS),
        Example(lambda x, y: matmul(reshape(transpose(x, 0, 2, 3, 1), 6, 4, 5), y),
                ((2, 5, 3, 4), (5, 2)), after="transpose reshape matmul", kinds=NUMBERS),
        Example(lambda x, y: matmul(x, reshape(transpose(y, 1, 0), 2, 3, 4)),
                ((2, 5, 3), (4, 6)), fires=False, kinds=NUMBERS),
        Example(lambda x, y: matmul(x, reshape(transpose(y, 0, 2, 1), 2, 3, 4)),
                ((2, 5, 3), (2, 3, 4)), fires=False, kinds=NUMBERS),
    ),
    "transposed-product": one(
        Example(lambda x, y: transpose(matmul(x, y), 1, 0), ((3, 4), (4, 5)), after="matmul",
                kinds=NUMBERS),
        Example(lambda x, y: transpose(matmul(x, y, tb=True), 0, 2, 1), ((2, 3, 4), (5, 4)),
                after="matmul", kinds=NUMBERS),
        Example(lambda x, y: [z := matmul(x, y), transpose(z, 1, 0)], ((3, 4), (4, 5)),
                fires=False, kinds=NUMBERS),
    ),
    "product-of-widened-bytes": one(
        Example(lambda x, y: matmul(cast(x, "int32"), cast(y, "int32")), ((3, 4), (4, 5)),
                after="matmul", kinds=("int8", "uint8")),
        Example(lambda x, y: matmul(cast(x, "int64"), cast(y, "int64")), ((3, 4), (4, 5)),
                fires=False, kinds=("int8", "uint8")),
        Example(lambda x, y: matmul(cast(x, "int32"), cast(y, "int32")), ((3, 4), (4, 5)),
                fires=False, kinds=("int16",)),
    ),
    "unread-indices": one(
        Example(pool(False), ((1, 2, 5, 6),), after="max_pool", kinds=FLOAT),
        Example(pool(True), ((1, 2, 5, 6),), fires=False, kinds=FLOAT),
    ),
}  # fmt: skip
