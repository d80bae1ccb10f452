"""Rare cases put out of the way: a branch around a call that works lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from .lanes import Lanes, Val, mangle


def any_lane(k: Lanes, mask: Val) -> ir.Value:
    """Whether a mask is set anywhere, as an `i1`."""
    if k.count is None:
        return mask.value
    word = ir.IntType(k.count)
    return k.builder.icmp_unsigned("!=", k.builder.bitcast(mask.value, word), word(0))


def otherwise(k: Lanes, mask: Val, usual: list[Val], rare: Callable[[], list[Val]]) -> list[Val]:
    """`usual`, but `rare()` in the lanes of `mask`; it is computed only if there are any."""
    b = k.builder
    before = b.block
    with b.if_then(any_lane(k, mask), likely=False):
        mixed = [k.select(mask, r, u) for r, u in zip(rare(), usual, strict=True)]
        inside = b.block
    results = []
    for yes, no in zip(mixed, usual, strict=True):
        phi = b.phi(no.value.type)
        phi.add_incoming(no.value, before)
        phi.add_incoming(yes.value, inside)
        results.append(k.wrap(phi))
    return results


def internal(
    k: Lanes, name: str, result: ir.Type, args: list[ir.Type], body: Callable[[ir.IRBuilder], None]
) -> ir.Function:
    """A function of the module that is made when first asked for and never inlined."""
    module = k.builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, args), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("nounwind")
        body(ir.IRBuilder(function.append_basic_block()))
    return function


def _scratch(k: Lanes, typ: ir.Type) -> ir.Value:
    """Room for a vector in the frame of the function, aligned to a cache line."""
    entry = k.builder.function.entry_basic_block
    b = ir.IRBuilder(entry)
    b.position_at_start(entry)
    place = b.alloca(typ)
    place.align = 64
    return place


def each_lane(
    k: Lanes, name: str, args: list[Val], scalar: Callable[[Lanes], ir.Function], outputs: int
) -> list[Val]:
    """Calls the scalar function that returns `outputs` values of its own types in each lane.

    The results come back through memory. That makes the caller align its stack, or else LLVM may
    spill a register of 512 bits across two cache lines, by luck on every turn of the usual path.
    """
    function = scalar(Lanes(k.builder, k.bits, None))
    if k.count is None:
        packed = k.builder.call(function, [x.value for x in args])
        return [k.wrap(k.builder.extract_value(packed, i)) for i in range(outputs)]
    parts = function.function_type.return_type.elements
    vectors = [ir.VectorType(part, k.count) for part in parts]
    types = [x.value.type for x in args]

    def body(b: ir.IRBuilder) -> None:
        _unrolled(b, function, vectors, len(args))

    pointers = [ir.PointerType()] * outputs
    full = f"tileloom.{name}.{mangle(types[0])}"
    whole = internal(k, full, ir.VoidType(), [*types, *pointers], body)
    places = [_scratch(k, vector) for vector in vectors]
    k.builder.call(whole, [x.value for x in args] + places)
    pairs = zip(places, vectors, strict=True)
    return [k.wrap(k.builder.load(place, typ=vector, align=64)) for place, vector in pairs]


def _unrolled(b: ir.IRBuilder, function: ir.Function, vectors: list[ir.Type], arity: int) -> None:
    results = [ir.Constant(vector, ir.Undefined) for vector in vectors]
    inputs, places = b.function.args[:arity], b.function.args[arity:]
    for lane in range(vectors[0].count):
        index = ir.IntType(32)(lane)
        packed = b.call(function, [b.extract_element(x, index) for x in inputs])
        for i, result in enumerate(results):
            results[i] = b.insert_element(result, b.extract_value(packed, i), index)
    for result, place in zip(results, places, strict=True):
        b.store(result, place, align=64)
    b.ret_void()
