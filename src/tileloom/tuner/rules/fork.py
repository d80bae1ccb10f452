"""Another schedule to go on with from where one stands."""

from __future__ import annotations

from ...schedule.schedule import Schedule


def fork(sch: Schedule) -> Schedule:
    """A copy of a schedule with random numbers of its own: it does not draw what the other draws.

    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]), seed=1); other = fork(sch)
    >>> sch.fork_seed() == other.fork_seed()
    False
    """
    other = sch.copy()
    other.seed(sch.fork_seed())
    return other
