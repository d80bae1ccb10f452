"""Atomic calls and fences, for CPUs and GPUs.

What LLVM has an instruction for is one `atomicrmw`; the rest (minima and maxima of floats, which
take a NaN as `T.min` does; sums of bfloat16 on CPUs) is a loop around a compare-and-swap, which
ends early when there is nothing to change. Comparisons of `atomic_cas` are of bits.

LLVM's back end for NVIDIA GPUs makes the instruction of PTX without the order that is asked for
(relaxed, which is what they have unless told), so orders are fences around it there.
"""

from __future__ import annotations

import llvmlite.ir as ir
from llvmlite.ir.instructions import StoreAtomicInstr

from ..base import DType
from ..base.errors import UnsupportedError
from ..expr import Add, Call, Max, Min, StringImm
from ..expr import Expr as Node
from ..tir.atomics import AtomicPlace, atomic_order, atomic_place, atomic_values
from . import arith
from .emitter import Emitter
from .types import BF16, I8, I16, I32, PTR, element_bytes, memory_type

_SCOPES = {"block": "block", "gpu": "device", "system": ""}
_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_BITS = {"tir.atomic_and": "and", "tir.atomic_or": "or", "tir.atomic_xor": "xor"}
_COMBINE: dict[str, type[Node]] = {
    "tir.atomic_add": Add,
    "tir.atomic_min": Min,
    "tir.atomic_max": Max,
}


class _Atomics:
    """Emits atomic instructions for one kind of machine.

    Args:
        scope: LLVM's name of those that take part; empty for all.
        fenced: whether orders are fences around a relaxed instruction.
    """

    def __init__(self, scope: str, fenced: bool) -> None:
        self.scope = scope
        self.fenced = fenced

    def emit(self, e: Emitter, call: Call) -> ir.Value:
        """The value of an atomic call: what was in memory before."""
        place, order = atomic_place(call), atomic_order(call)
        pointer = address(e, call, place)
        values = [_to_bits(e.builder, place.dtype, e.value(v)) for v in atomic_values(call)]
        if call.op == "tir.atomic_load":
            bits = _bits_type(place.dtype)
            return _from_bits(e.builder, place.dtype, self._load(e.builder, pointer, bits, order))
        if call.op == "tir.atomic_store":
            self._store(e.builder, pointer, values[0], order)
            return I32(0)
        if self.fenced and order in ("release", "acq_rel"):
            e.builder.fence("release", self.scope)
        result = self._one(e.builder, call.op, place.dtype, pointer, values, order)
        if self.fenced and order in ("acquire", "acq_rel"):
            e.builder.fence("acquire", self.scope)
        return result

    def fence(self, e: Emitter, call: Call) -> ir.Value:
        """A fence for those that its argument names."""
        (scope,) = call.args
        if not isinstance(scope, StringImm) or scope.value not in _SCOPES:
            raise UnsupportedError(f"a fence is for one of {', '.join(_SCOPES)}: {call}")
        e.builder.fence("acq_rel", (_SCOPES[scope.value] or None) if self.fenced else None)
        return I32(0)

    def _one(
        self, b: ir.IRBuilder, op: str, kind: DType, at: ir.Value, values: list[ir.Value], how: str
    ) -> ir.Value:
        order = "monotonic" if self.fenced else _ORDERS[how]
        if op == "tir.atomic_cas":
            old = b.extract_value(self._swap(b, at, values[0], values[1], order), 0)
            return _from_bits(b, kind, old)
        if op == "tir.atomic_exchange" or op in _BITS:
            word = _BITS.get(op, "xchg")
            return _from_bits(b, kind, self._change(b, word, at, values[0], order))
        combine = _COMBINE[op]
        direct = self._direct(b, combine, kind, at, values[0], order)
        return self._loop(b, combine, kind, at, values[0], order) if direct is None else direct

    def _direct(
        self,
        b: ir.IRBuilder,
        combine: type[Node],
        kind: DType,
        at: ir.Value,
        value: ir.Value,
        order: str,
    ) -> ir.Value | None:
        """One instruction, where there is one with this meaning."""
        if kind.is_float and combine is Add:
            if kind.code == "bfloat" and not self.fenced:
                return None
            # Of bfloat16 the instruction sees a type that the rest of the code does not use.
            own = BF16 if kind.code == "bfloat" else memory_type(kind)
            old = self._change(b, "fadd", at, b.bitcast(value, own), order)
            return _from_bits(b, kind, b.bitcast(old, _bits_type(kind)))
        if kind.is_float or kind.is_bool:
            return None
        word = {Add: "add", Min: "min", Max: "max"}[combine]  # type: ignore[index]
        word = f"u{word}" if kind.is_unsigned and combine is not Add else word
        return self._change(b, word, at, value, order)

    def _loop(
        self,
        b: ir.IRBuilder,
        combine: type[Node],
        kind: DType,
        at: ir.Value,
        value: ir.Value,
        order: str,
    ) -> ir.Value:
        """Compare and swap until nobody has come between."""
        bits, operand = _bits_type(kind), _from_bits(b, kind, value)
        first, before = self._load(b, at, bits, "relaxed"), b.block
        again, change, after = (b.append_basic_block(n) for n in ("atomic", "change", "changed"))
        b.branch(again)
        b.position_at_end(again)
        old = b.phi(bits)
        old.add_incoming(first, before)
        if kind.is_bool:
            new = _to_bits(b, kind, _on_bools(b, combine, _from_bits(b, kind, old), operand))
        else:
            sides = _from_bits(b, kind, old), operand
            new = _to_bits(b, kind, arith.binary(b, combine, kind, *sides))
        b.cbranch(b.icmp_unsigned("==", new, old), after, change)
        early = b.block
        b.position_at_end(change)
        pair = self._swap(b, at, old, new, order)
        seen, done = b.extract_value(pair, 0), b.extract_value(pair, 1)
        old.add_incoming(seen, change)
        b.cbranch(done, after, again)
        b.position_at_end(after)
        result = b.phi(bits)
        result.add_incoming(old, early)
        result.add_incoming(old, change)
        return _from_bits(b, kind, result)

    # ------------------------------------------------------------------ instructions

    def _change(
        self, b: ir.IRBuilder, word: str, at: ir.Value, value: ir.Value, order: str
    ) -> ir.Value:
        return b.atomic_rmw(word, at, value, self._scoped(order))

    def _swap(
        self, b: ir.IRBuilder, at: ir.Value, old: ir.Value, new: ir.Value, order: str
    ) -> ir.Value:
        # The scope stands before the first order; the second is that of a failure.
        return b.cmpxchg(at, old, new, self._scoped(order), "monotonic")

    def _load(self, b: ir.IRBuilder, at: ir.Value, bits: ir.Type, order: str) -> ir.Value:
        return b.load_atomic(at, self._scoped(_ORDERS[order]), bits.width // 8, typ=bits)

    def _store(self, b: ir.IRBuilder, at: ir.Value, value: ir.Value, order: str) -> None:
        # The builder's own method wants a pointer that says what it points to.
        size = value.type.width // 8
        store = StoreAtomicInstr(b.block, value, at, self._scoped(_ORDERS[order]), size)
        b._insert(store)

    def _scoped(self, order: str) -> str:
        """llvmlite writes the order as it is given, and knows no scopes."""
        return f'syncscope("{self.scope}") {order}' if self.scope else order


def address(e: Emitter, call: Call, place: AtomicPlace) -> ir.Value:
    """The address of what an atomic call touches."""
    if place.index is None:
        raise UnsupportedError(f"an atomic call needs an element of a flat buffer: {call}")
    base = e.lookup(place.data)
    offset = e.index(place.index)
    result = e.builder.gep(base, [offset], source_etype=memory_type(place.dtype))
    result.type = PTR
    return result


def _on_bools(b: ir.IRBuilder, combine: type[Node], x: ir.Value, y: ir.Value) -> ir.Value:
    return b.and_(x, y) if combine is Min else b.or_(x, y)


def _bits_type(kind: DType) -> ir.IntType:
    """The integer of an element's size."""
    return ir.IntType(8 * element_bytes(kind))


def _to_bits(b: ir.IRBuilder, kind: DType, value: ir.Value) -> ir.Value:
    if kind.is_bool:
        return b.zext(value, I8)
    if kind.code == "bfloat":
        return value if value.type == I16 else b.bitcast(value, I16)
    return b.bitcast(value, _bits_type(kind)) if kind.is_float else value


def _from_bits(b: ir.IRBuilder, kind: DType, bits: ir.Value) -> ir.Value:
    if kind.is_bool:
        return b.icmp_unsigned("!=", bits, I8(0))
    if kind.code == "bfloat" or not kind.is_float:
        return bits
    return b.bitcast(bits, memory_type(kind))


CPU, GPU = _Atomics("", False), _Atomics("device", True)
