"""The form, the bounds and the residues of expressions over bounded variables, one by one.

Random tests of the analyzer hold simplified expressions against their values; what is written here
is how far they are simplified.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.expr import (
    Analyzer,
    And,
    Broadcast,
    Div,
    Expr,
    Let,
    Max,
    Min,
    Mod,
    Not,
    Or,
    Ramp,
    Range,
    Select,
    SizeVar,
    Var,
    cast,
    const,
    evaluate,
    intrin,
    promote,
)

I, J, K, S = Var("i"), Var("j"), Var("k"), Var("s")
N, L = SizeVar("n"), Var("l", "int64")
P, Q = Var("p", "bool"), Var("q", "bool")
U, B8 = Var("u", "uint8"), Var("b", "int8")
V, X = Var("v"), Var("x", "float32")
RANGES = {
    I: (0, 99), J: (0, 63), K: (0, 7), S: (-20, 20), N: (1, 1000), U: (0, 255), B8: (-128, 127),
    L: (-1000, 1000),
}  # fmt: skip

#: An expression, its simplified form, its least and greatest value, modulus and residue.
FORMS: list[tuple[Expr, str, tuple[int, int] | None, tuple[int, int] | None]] = [
    (Div(S, const(3)), 'T.truncdiv(s, 3)', (-6, 6), (1, 0)),
    (Div(S, const(-3)), 'T.truncdiv(s, 3) * -1', (-6, 6), (1, 0)),
    (Div(I, const(-4)), 'i // 4 * -1', (-24, 0), (1, 0)),
    (Div(-I, const(4)), 'i // 4 * -1', (-24, 0), (1, 0)),
    (Div(S * 6, const(3)), 's * 2', (-40, 40), (2, 0)),
    (Div(S * 6 + 3, const(-3)), 's * -2 - 1', (-41, 39), (2, 1)),
    (Div(I * 8 + K, const(8)), 'i', (0, 99), (1, 0)),
    (Mod(S, const(3)), 'T.truncmod(s, 3)', (-2, 2), (1, 0)),
    (Mod(S, const(-3)), 'T.truncmod(s, 3)', (-2, 2), (1, 0)),
    (Mod(-I, const(4)), 'i % 4 * -1', (-3, 0), (1, 0)),
    (Mod(S * 6 + 3, const(3)), '0', (0, 0), (0, 0)),
    (Mod(I * 8 + K, const(8)), 'k', (0, 7), (1, 0)),
    (Div(const(-7), const(2)), '-3', (-3, -3), (0, -3)),
    (Mod(const(-7), const(2)), '-1', (-1, -1), (0, -1)),
    (S // 3, 's // 3', (-7, 6), (1, 0)),
    (S // -3, 's * -1 // 3', (-7, 6), (1, 0)),
    (S % 5, 's % 5', (0, 4), (1, 0)),
    (S % -5, 's * -1 % 5 * -1', (-4, 0), (1, 0)),
    ((S * 6) // 3, 's * 2', (-40, 40), (2, 0)),
    ((S * 6 + 4) // 3, 's * 2 + 1', (-39, 41), (2, 1)),
    ((S * 6 + 4) % 3, '1', (1, 1), (0, 1)),
    ((I * 8 + K) // 4, 'i * 2 + k // 4', (0, 199), (1, 0)),
    ((I * 8 + K) % 4, 'k % 4', (0, 3), (1, 0)),
    ((I * 8 + K) % 16, 'i % 2 * 8 + k', (0, 15), (1, 0)),
    ((I * 8 + K) // 16, 'i // 2', (0, 49), (1, 0)),
    ((I * 8 + K) // 16 * 16 + (I * 8 + K) % 16, 'i * 8 + k', (0, 799), (1, 0)),
    (I - I % 4, 'i // 4 * 4', (0, 96), (4, 0)),
    (I // 4 * 4 + I % 4, 'i', (0, 99), (1, 0)),
    (I // 4 // 3, 'i // 12', (0, 8), (1, 0)),
    (I // 12 * 3 + I % 12 // 4, 'i // 4', (0, 24), (1, 0)),
    (I % 12 % 4, 'i % 4', (0, 3), (1, 0)),
    (I % 4 % 12, 'i % 4', (0, 3), (1, 0)),
    ((I + 4) // 4, 'i // 4 + 1', (1, 25), (1, 0)),
    ((I + 100) // 4 - 25, 'i // 4', (0, 24), (1, 0)),
    ((I * 2) // 4, 'i // 2', (0, 49), (1, 0)),
    ((I * 4) // 6, 'i * 2 // 3', (0, 66), (1, 0)),
    ((I * 4) % 6, 'i * 2 % 3 * 2', (0, 4), (2, 0)),
    ((I * -4) % 6, 'i * -2 % 3 * 2', (0, 4), (2, 0)),
    ((64 - J) // 64, 'j * -1 // 64 + 1', (0, 1), (1, 0)),
    ((63 - J) // 64, '0', (0, 0), (0, 0)),
    ((J - 64) // 64, '-1', (-1, -1), (0, -1)),
    ((I * N) // N, 'i', (0, 99), (1, 0)),
    ((I * N + N) // N, 'i + 1', (1, 100), (1, 0)),
    ((I * N) % N, '0', (0, 0), (0, 0)),
    ((N * 4 + J) // N, 'j // n + 4', (4, 67), (1, 0)),
    ((K + N * 8) % 8, 'k', (0, 7), (1, 0)),
    (Max(I, const(0)), 'i', (0, 99), (1, 0)),
    (Min(I, const(99)), 'i', (0, 99), (1, 0)),
    (Max(I, J), 'T.max(i, j)', (0, 99), (1, 0)),
    (Min(I + 3, I + 5), 'i + 3', (3, 102), (1, 0)),
    (Max(I + 3, I + 5), 'i + 5', (5, 104), (1, 0)),
    (Min(I * 2, I * 2 + K), 'i * 2', (0, 198), (2, 0)),
    (Max(I - J, I + J), 'i + j', (0, 162), (1, 0)),
    (Min(Max(I, const(5)), const(5)), '5', (5, 5), (0, 5)),
    (Max(Min(I, const(5)), const(5)), '5', (5, 5), (0, 5)),
    (Min(Min(I, J), I), 'T.min(i, j)', (0, 63), (1, 0)),
    (Max(Max(I, J), Min(I, J)), 'T.max(i, j)', (0, 99), (1, 0)),
    (Min(I, J) + Max(I, J), 'i + j', (0, 162), (1, 0)),
    (Min(I, J) - Max(I, J), 'T.min(i, j) - T.max(i, j)', (-99, 0), (1, 0)),
    (Min(I * 4, J * 4), 'T.min(i, j) * 4', (0, 252), (4, 0)),
    (Max(I * 4 + 2, J * 4 + 2), 'T.max(i, j) * 4 + 2', (2, 398), (4, 2)),
    (Min(I + 4, J + 4) - 4, 'T.min(i, j)', (0, 63), (1, 0)),
    (Min(-I, -J), 'T.min(i * -1, j * -1)', (-99, 0), (1, 0)),
    (Max(I * -4, J * -4), 'T.max(i * -1, j * -1) * 4', (-252, 0), (4, 0)),
    (Min(I // 4, J // 4), 'T.min(i // 4, j // 4)', (0, 15), (1, 0)),
    (Min(I, N) - N, 'T.min(i - n, 0)', (-1000, 0), (1, 0)),
    (Max(S, -S), 'T.max(s * -1, s)', (-20, 20), (1, 0)),
    (Min(S, const(30)), 's', (-20, 20), (1, 0)),
    (Max(S, const(30)), '30', (30, 30), (0, 30)),
    (Min(S, const(20)), 's', (-20, 20), (1, 0)),
    (Min(S, const(19)), 'T.min(s, 19)', (-20, 19), (1, 0)),
    (Max(S, const(-20)), 's', (-20, 20), (1, 0)),
    (Max(S, const(-19)), 'T.max(s, -19)', (-19, 20), (1, 0)),
    (I < 100, 'T.bool(True)', None, None),
    (I < 99, 'i < 99', None, None),
    (I <= 99, 'T.bool(True)', None, None),
    (I <= 98, 'i < 99', None, None),
    (I > -1, 'T.bool(True)', None, None),
    (I > 0, '0 < i', None, None),
    (I >= 0, 'T.bool(True)', None, None),
    (I >= 1, '0 < i', None, None),
    (S == 21, 'T.bool(False)', None, None),
    (S != 21, 'T.bool(True)', None, None),
    (S == S, 'T.bool(True)', None, None),
    (I == J, 'i == j', None, None),
    (I * 2 == J * 2, 'i == j', None, None),
    (I * 4 + 1 == J * 4 + 3, 'T.bool(False)', None, None),
    (I * 4 == J * 6, 'i * 2 == j * 3', None, None),
    (I + 3 < J + 3, 'i < j', None, None),
    (I * 3 < J * 3, 'i < j', None, None),
    (I * 4 < 7, 'i < 2', None, None),
    (I * 4 < 8, 'i < 2', None, None),
    (I * 4 + K < 8, 'i * 4 + k < 8', None, None),
    (I * 8 + K < J * 8, 'i < j', None, None),
    (I * 8 + K >= J * 8, 'j <= i', None, None),
    (I // 4 < 3, 'i < 12', None, None),
    (I // 4 >= 3, '11 < i', None, None),
    (I // 4 == 3, 'i // 4 == 3', None, None),
    (I % 4 < 4, 'T.bool(True)', None, None),
    (I % 4 == 5, 'T.bool(False)', None, None),
    (I - J < I, '0 < j', None, None),
    (I - J <= I, 'T.bool(True)', None, None),
    ((I + J) // 8 * 8 <= I + J, 'T.bool(True)', None, None),
    (I // 8 * 8 + 7 >= I, 'T.bool(True)', None, None),
    (N > 0, 'T.bool(True)', None, None),
    (N * 2 > N, 'T.bool(True)', None, None),
    (cast("int32", P) == 1, 'p', None, None),
    (cast("int32", P) == 0, 'not p', None, None),
    (cast("int32", P) < 2, 'T.bool(True)', None, None),
    (cast("int32", P) * 3 < 3, 'not p', None, None),
    (And(P, P), 'p', None, None),
    (And(P, Not(P)), 'T.bool(False)', None, None),
    (Or(P, Not(P)), 'T.bool(True)', None, None),
    (Or(P, And(P, Q)), 'p', None, None),
    (And(P, Or(P, Q)), 'p', None, None),
    (Not(Not(P)), 'p', None, None),
    (Not(I < J), 'j <= i', None, None),
    (Not(And(I < J, P)), 'j <= i or not p', None, None),
    (Not(Or(I <= J, P)), 'j < i and not p', None, None),
    (And(I < 5, I < 7), 'i < 5', None, None),
    (Or(I < 5, I < 7), 'i < 7', None, None),
    (And(I < 5, I >= 5), 'T.bool(False)', None, None),
    (Or(I < 5, I >= 5), 'T.bool(True)', None, None),
    (And(I < 5, I >= 4), 'i < 5 and 3 < i', None, None),
    (And(I % 2 == 0, I % 2 == 1), 'T.bool(False)', None, None),
    (And(P, const(True)), 'p', None, None),
    (Or(P, const(True)), 'T.bool(True)', None, None),
    (And(P, const(False)), 'T.bool(False)', None, None),
    (Select(P, I, I), 'i', (0, 99), (1, 0)),
    (Select(P, I + 1, I), 'T.Select(p, i + 1, i)', (0, 100), (1, 0)),
    (Select(Not(P), I, J), 'T.Select(p, j, i)', (0, 99), (1, 0)),
    (Select(I < 100, I, J), 'i', (0, 99), (1, 0)),
    (Select(I < 0, I, J), 'j', (0, 63), (1, 0)),
    (Select(I < 50, Select(I < 60, K, J), J), 'T.Select(i < 50, k, j)', (0, 63), (1, 0)),
    (Select(I < 50, J, Select(I < 40, K, J)), 'j', (0, 63), (1, 0)),
    (Select(P, const(True), const(False)), 'p', None, None),
    (Select(P, const(False), const(True)), 'not p', None, None),
    (Select(P, Q, const(False)), 'T.Select(p, q, T.bool(False))', None, None),
    (Select(P, const(True), Q), 'T.Select(p, T.bool(True), q)', None, None),
    (Select(P, I, J) + Select(P, J, I), 'T.Select(p, i, j) + T.Select(p, j, i)', (0, 198), (1, 0)),
    (Select(P, I * 4, J * 4) // 4, 'T.Select(p, i * 4, j * 4) // 4', (0, 99), (1, 0)),
    (cast("int64", I) + cast("int64", J),
     'T.Cast("int64", i) + T.Cast("int64", j)', (0, 162), (1, 0)),
    (cast("int64", I * 8 + K) // cast("int64", const(8)), 'T.Cast("int64", i)', (0, 99), (1, 0)),
    (cast("int32", cast("int64", I)), 'i', (0, 99), (1, 0)),
    (cast("int8", I), 'T.Cast("int8", i)', (0, 99), (1, 0)),
    (cast("int8", cast("int32", B8)), 'T.Cast("int8", T.Cast("int32", b))', (-128, 127), (1, 0)),
    (cast("uint8", I), 'T.Cast("uint8", i)', (0, 99), (1, 0)),
    (cast("int32", U), 'T.Cast("int32", u)', (0, 255), (1, 0)),
    (cast("int32", cast("uint8", K)), 'T.Cast("int32", T.Cast("uint8", k))', (0, 7), (1, 0)),
    (cast("int64", I) * 2 - cast("int64", I), 'T.Cast("int64", i)', (0, 99), (1, 0)),
    (cast("bool", I), 'T.Cast("bool", i)', None, None),
    (cast("bool", const(3)), 'T.bool(True)', None, None),
    (U + U, 'u * T.uint8(2)', (0, 255), (1, 0)),
    (U * 2 // 2, 'u * T.uint8(2) // T.uint8(2)', (0, 127), (1, 0)),
    (B8 + B8, 'b * T.int8(2)', (-128, 127), (1, 0)),
    (B8 * 2 // 2, 'b * T.int8(2) // T.int8(2)', (-64, 63), (1, 0)),
    (B8 < 127, 'b < T.int8(127)', None, None),
    (L * 2 // 2, 'l', (-1000, 1000), (1, 0)),
    (intrin.likely(I < 100), 'T.bool(True)', None, None),
    (intrin.likely(I < 50), 'T.likely(i < 50)', None, None),
    (intrin.if_then_else(I < 100, I, J), 'i', (0, 99), (1, 0)),
    (intrin.if_then_else(I < 50, I, I), 'i', (0, 99), (1, 0)),
    (intrin.if_then_else(P, I * 2, J * 4), 'T.if_then_else(p, i * 2, j * 4)', (0, 252), (2, 0)),
    (I << 3, 'T.shift_left(i, 3)', (0, 792), (8, 0)),
    ((I << 3) >> 3, 'T.shift_right(T.shift_left(i, 3), 3)', (0, 99), (1, 0)),
    ((I * 8 + K) >> 3, 'T.shift_right(i * 8 + k, 3)', (0, 99), (1, 0)),
    ((I * 8 + K) & 7, 'T.bitwise_and(i * 8 + k, 7)', (0, 7), (1, 0)),
    (I & 0, '0', (0, 0), (0, 0)),
    (I & 127, 'T.bitwise_and(i, 127)', (0, 99), (1, 0)),
    (K | 8, 'T.bitwise_or(k, 8)', (8, 15), (1, 0)),
    (K ^ K, 'T.bitwise_xor(k, k)', (0, 7), (1, 0)),
    (X + 0.0, 'x + T.float32(0.0)', None, None),
    (X - 0.0, 'x', None, None),
    (X * 1.0, 'x', None, None),
    (X * 0.0, 'x * T.float32(0.0)', None, None),
    (X - X, 'x - x', None, None),
    (X < X, 'T.bool(False)', None, None),
    (X == X, 'x == x', None, None),
    (X != X, 'x != x', None, None),
    (Max(X, X), 'x', None, None),
    (Let(K, I + 1, K * 2), 'T.Let(k * 2, where={k: i + 1})', (2, 200), (2, 0)),
    (Ramp(I, const(0), 4), 'T.Broadcast(i, 4)', None, None),
    (Ramp(I, const(1), 4) + Broadcast(J, 4), 'T.Ramp(i + j, 1, 4)', None, None),
    (Ramp(I, const(1), 4) * Broadcast(const(2), 4), 'T.Ramp(i * 2, 2, 4)', None, None),
    (Ramp(I * 4, const(1), 4) // Broadcast(const(4), 4), 'T.Broadcast(i, 4)', None, None),
    (Ramp(I * 4, const(1), 4) % Broadcast(const(4), 4), 'T.Ramp(0, 1, 4)', None, None),
    (Ramp(I * 4, const(1), 8) // Broadcast(const(4), 4 * 2),
     'T.Ramp(i * 4, 1, 8) // T.Broadcast(4, 8)', None, None),
    (Ramp(I, const(1), 4) < Broadcast(const(200), 4), 'T.Broadcast(T.bool(True), 4)', None, None),
    (Ramp(I, const(1), 4) < Broadcast(const(101), 4),
     'T.Ramp(i, 1, 4) < T.Broadcast(101, 4)', None, None),
    (Broadcast(I, 4) + Broadcast(J, 4), 'T.Broadcast(i + j, 4)', None, None),
    (Broadcast(I, 4) < Broadcast(J, 4), 'T.Broadcast(i < j, 4)', None, None),
    (cast("int64x4", Ramp(I, const(1), 4)),
     'T.Ramp(T.Cast("int64", i), T.int64(1), 4)', None, None),
    (cast("int32x4", Broadcast(U, 4)), 'T.Broadcast(T.Cast("int32", u), 4)', None, None),
    (Not(Broadcast(P, 4)), 'not (T.Broadcast(p, 4))', None, None),
    (Select(Broadcast(P, 4), Ramp(I, const(1), 4), Ramp(I, const(1), 4)),
     'T.Ramp(i, 1, 4)', None, None),
    (I * J - J * I, '0', (0, 0), (0, 0)),
    ((I + J) * 4 - J * 4, 'i * 4', (0, 396), (4, 0)),
    ((I + 1) * (J + 1), 'i * j + i + j + 1', (1, 6400), (1, 0)),
    (I * 0, '0', (0, 0), (0, 0)),
    (I * 1 + 0, 'i', (0, 99), (1, 0)),
    (0 - (0 - I), 'i', (0, 99), (1, 0)),
    (I + J + I - J, 'i * 2', (0, 198), (2, 0)),
    ((I - 1) * 3 + 3, 'i * 3', (0, 297), (3, 0)),
    (cast("int32", P) * 2 == 1, 'T.bool(False)', None, None),
    (cast("int32", P) * 2 != 1, 'T.bool(True)', None, None),
    (1 - cast("int32", P) > 0, 'not p', None, None),
    (Max(I, J) < 100, 'T.bool(True)', None, None),
    (Max(I, J) + Min(J, K) < 107, 'T.bool(True)', None, None),
    (Max(I - J, J - I) >= 0, '-1 < T.max(i - j, j - i)', None, None),
    (I * 4 + J * 6, 'j * 6 + i * 4', (0, 774), (2, 0)),
    (I * 4 - K * 8 + 3, 'i * 4 - k * 8 + 3', (-53, 399), (4, 3)),
    (N * 12 + I * 8, 'n * 12 + i * 8', (12, 12792), (4, 0)),
    (I % 8 * 4 + 1, 'i % 8 * 4 + 1', (1, 29), (4, 1)),
    ((I * 6 + 2) % 4, '(i * 3 + 1) % 2 * 2', (0, 2), (2, 0)),
    ((I * 6) % 4, 'i * 3 % 2 * 2', (0, 2), (2, 0)),
    (-S, 's * -1', (-20, 20), (1, 0)),
    (S * -3, 's * -3', (-60, 60), (3, 0)),
    (S * J, 'j * s', (-1260, 1260), (1, 0)),
    (S * S, 's * s', (-400, 400), (1, 0)),
    (Div(S, J + 1), 'T.truncdiv(s, j + 1)', (-20, 20), (1, 0)),
    (Mod(S, J + 1), 'T.truncmod(s, j + 1)', (-20, 20), (1, 0)),
    (S // (J + 1), 's // (j + 1)', (-20, 20), (1, 0)),
    (S % (J + 1), 's % (j + 1)', (0, 63), (1, 0)),
    (I // (K + 1), 'i // (k + 1)', (0, 99), (1, 0)),
    ((I + N - 1) // N, '(i - 1) // n + 1', (0, 99), (1, 0)),
    ((I + 15) // 16 * 16, '(i + 15) // 16 * 16', (0, 112), (16, 0)),
    (Min(I, K * 4), 'T.min(k * 4, i)', (0, 28), (1, 0)),
    (Max(S * 3, const(-7)), 'T.max(s * 3, -7)', (-7, 60), (1, 0)),
    (Select(S < 0, -S, S), 'T.Select(s < 0, s * -1, s)', (-20, 20), (1, 0)),
    (cast("uint8", S), 'T.Cast("uint8", s)', (0, 255), (1, 0)),
    (cast("int8", I * 4), 'T.Cast("int8", i * 4)', (-128, 127), (4, 0)),
    (cast("int16", I * 400), 'T.Cast("int16", i * 400)', (-32768, 32767), (16, 0)),
    (cast("uint16", S), 'T.Cast("uint16", s)', (0, 65535), (1, 0)),
    (cast("int64", U), 'T.Cast("int64", u)', (0, 255), (1, 0)),
    (intrin.if_then_else(S < 0, S * 6, S * 4 + 2),
     'T.if_then_else(s < 0, s * 6, s * 4 + 2)', (-120, 120), (2, 0)),
    (S << 1, 'T.shift_left(s, 1)', (-40, 40), (2, 0)),
    (S >> 1, 'T.shift_right(s, 1)', (-10, 10), (1, 0)),
    (I >> 2, 'T.shift_right(i, 2)', (0, 24), (1, 0)),
    (K & 5, 'T.bitwise_and(k, 5)', (0, 5), (1, 0)),
    (S & 7, 'T.bitwise_and(s, 7)', (0, 7), (1, 0)),
    (K | 1, 'T.bitwise_or(k, 1)', (1, 7), (1, 0)),
    (I ^ 1, 'T.bitwise_xor(i, 1)', (0, 127), (1, 0)),
    (Not(S == 3), 's != 3', None, None),
    (Not(I % 4 == 1), 'i % 4 != 1', None, None),
    (Or(S < 3, S > 3), 's < 3 or 3 < s', None, None),
    (And(S <= 3, S >= 3), 's < 4 and 2 < s', None, None),
    (And(I < J, J < I), 'T.bool(False)', None, None),
    (And(I < J, J < K), 'i < j and j < k', None, None),
    (Or(I < J, J <= I), 'T.bool(True)', None, None),
    (Or(I < J, I == J), 'i < j or i == j', None, None),
    ((I + J) % 8 == (J + I) % 8, 'T.bool(True)', None, None),
    (I // 8 == J // 8, 'i // 8 == j // 8', None, None),
    (I * 8 + K == J * 8 + 3, 'i * 8 + k == j * 8 + 3', None, None),
    (Div(I, K + 1), 'i // (k + 1)', (0, 99), (1, 0)),
    (Mod(I, K + 1), 'i % (k + 1)', (0, 7), (1, 0)),
    (Div(I + 1, K + 2), '(i + 1) // (k + 2)', (0, 50), (1, 0)),
    (Mod(S, K + 1), 'T.truncmod(s, k + 1)', (-7, 7), (1, 0)),
    (Mod(I, N * 2), 'i % (n * 2)', (0, 99), (1, 0)),
    (Div(-I - 1, K + 1), 'T.truncdiv(i * -1 - 1, k + 1)', (-100, 0), (1, 0)),
]  # fmt: skip


@pytest.fixture(scope="module")
def analyzer() -> Analyzer:
    """One that knows the ranges."""
    made = Analyzer()
    made.bind_bounds(RANGES)
    return made


def point(rng: random.Random) -> dict[Var, Any]:
    """Values of all variables."""
    found: dict[Var, Any] = {
        var: rng.choice([low, high, rng.randint(low, high)]) for var, (low, high) in RANGES.items()
    }
    some = {P: rng.random() < 0.5, Q: rng.random() < 0.5, X: rng.choice([1.5, -2.0, 0.0])}
    return {**found, **some}


@pytest.mark.parametrize(("expr", "form", "bound", "residue"), FORMS)
def test_forms(expr: Expr, form: str, bound: Any, residue: Any, analyzer: Analyzer) -> None:
    made = analyzer.simplify(expr)
    assert str(made) == form and made.dtype is expr.dtype
    if bound is not None:
        found, modular = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
        assert ((found[0], found[1]), (modular.coeff, modular.base)) == (bound, residue)
    rng = random.Random(form)
    for _ in range(4):
        values = point(rng)
        assert np.array_equal(evaluate(expr, values), evaluate(made, values))


@pytest.mark.parametrize(
    ("domain", "expr", "bound"),
    [
        (Range(K, 3), V, (0, 9)),
        (Range(K, J), V, (0, 69)),
        (Range(const(2), N), V, (2, 1001)),
        (Range(S * 2, 1), V, (-40, 40)),
        (Range(K, J), V - K, (0, 62)),
    ],
)
def test_bounds_of_ranges(domain: Range, expr: Expr, bound: tuple[int, int]) -> None:
    known = Analyzer()
    known.bind_bounds(RANGES)
    known.bind(V, domain)
    found = known.const_int_bound(known.simplify(expr))
    assert (found[0], found[1]) == bound


def test_ranges_are_facts() -> None:
    known = Analyzer()
    known.bind_bounds(RANGES)
    known.bind(V, Range(K * 2, J))
    assert known.can_prove(K * 2 <= V) and known.can_prove(V < K * 2 + J)
    assert not known.can_prove(K * 2 < V) and not known.can_prove(V < K * 2 + J - 1)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int32", "int64", "int64"),
        ("int64", "int32", "int64"),
        ("int32", "uint32", "int32"),
        ("uint32", "int32", "int32"),
        ("uint8", "int32", "int32"),
        ("bool", "int8", "int8"),
        ("int8", "bool", "int8"),
        ("bool", "float16", "float16"),
        ("int64", "float16", "float16"),
        ("float16", "int64", "float16"),
        ("float16", "float32", "float32"),
        ("float16", "bfloat16", "float32"),
        ("bfloat16", "float16", "float32"),
        ("int32", "int32", "int32"),
        ("uint16", "uint8", "uint16"),
    ],
)
def test_types_that_meet(one: str, other: str, both: str) -> None:
    assert promote(dtype(one), dtype(other)) == both


def test_numbers_that_are_not_known_yet() -> None:
    class Later:
        """Stands for an expression."""

        def __tileloom_expr__(self) -> Expr:
            return I

    assert const(Later()) is I and str(const(Later(), "int64")) == 'T.Cast("int64", i)'
