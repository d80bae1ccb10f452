"""The matrix product of TVM's own test of these features, number by number."""

from __future__ import annotations

import numpy as np

from tuner.features.common import HEADER, features

SCRIPT = (
    HEADER
    + """
def main(A: T.Buffer((512, 512)), B: T.Buffer((512, 512)), C: T.Buffer((512, 512))):
    for i_o in T.parallel(32):
        for j_o in T.parallel(64):
            for k in T.unroll(512):
                for j_i in T.vectorized(8):
                    for i_i in range(16):
                        with T.block("matmul"):
                            vi = T.axis.spatial(512, i_o * 16 + i_i)
                            vj = T.axis.spatial(512, j_o * 8 + j_i)
                            vk = T.axis.reduce(512, k)
                            with T.init():
                                C[vi, vj] = T.float32(0)
                            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
)
OPERATIONS = [0, 27, 27, 0, 0, 0, 0, 0, 29, 29, 0, 0, 0, 0, 0, 0]
LOOPS = [
    *[1, 3.169925, 3.169925, 0, 0, 0, 0, 0, 0, 0, 1],
    *[1, 9.002815, 9.002815, 0, 0, 0, 0, 0, 0, 0, 1],
    *[1.58496, 11.0007, 6.022368, 0, 0, 0, 0, 0, 0, 0, 1],
]
THREADS = [0, *[1] * 7]
SLOTS = [
    *[1, 0, 0, 29, 20, 27, 14, 1, 0, 0, 4.087463, 7.0552826, 3.169925],
    *[26, 17, 24, 11.0007, 9.002815],
    *[0, 0, 1, 29, 20, 27, 14, 1, 0, 0, 7.011227, 9.250298, 9.002815],
    *[20, 11.0007, 18, 5.044394, 9.002815],
    *[1, 0, 0, 29, 20, 19, 14, 1, 0, 0, 1, 3.70044, 4.087463],
    *[25, 16, 15, 10.001408, 0],
]
CURVE = [
    *[3.812599, 4.464822, 4.912349, 5.253426, 5.529086],
    *[5.76043, 5.959752, 6.134849, 6.290977, 6.431846],
]
TAIL = [20, 18, 1, 27, 27, 2.584963, 0]


def test_numbers_are_those_of_tvm() -> None:
    rows = features(SCRIPT)
    expected = [*OPERATIONS, *LOOPS, *THREADS, *SLOTS, *[0] * 36, *CURVE, *TAIL]
    np.testing.assert_allclose(rows, [expected], rtol=1e-5, atol=1e-5)
