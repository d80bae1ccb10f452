"""What blocks know of each other's accesses, by fences and atomic calls.

A thread that fences and then changes a word atomically releases what came before the fence: its own
accesses, and those of its block before the last barrier (and what others of the block had fenced
before that barrier). A thread that finds the word, or what others have made of it since, acquires
that with its next fence; its whole block does with the next barrier, as where one thread takes a
ticket and a barrier tells the others. An order of the call itself ("release", "acquire") is a fence
at that side.

Times are counted over the launch, by fences, barriers and atomic calls. Of a word that is changed
atomically, a log says which block had released what by when it changed it. What a thread knows is
how much of which log it has found: one number for each word, however many blocks there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from ..expr import Call
from ..tir import Evaluate, Stmt, pre_order, stmt_exprs
from ..tir.atomics import atomic_calls, atomic_order
from .thread_batch import Array

Knowledge = dict[int, int]  # by word: how many of its changes have been found


class _Log:
    """The changes of a word, each with what it releases."""

    def __init__(self) -> None:
        self.count = 0
        self.times: dict[int, tuple[list[int], list[int]]] = {}  # by block: changes, and times
        self.carried: dict[int, tuple[list[int], list[int]]] = {}  # by other word: changes, counts

    def time(self, block: int, count: int) -> int:
        """Until when a block's accesses are told of by so many changes; 0 if they are not."""
        return _latest(self.times.get(block), count)


def _latest(log: tuple[list[int], list[int]] | None, count: int) -> int:
    if log is None:
        return 0
    k = bisect_left(log[0], count)
    return log[1][k - 1] if k else 0


class Fences:
    """What the threads of a launch have released and acquired."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.threads = threads  # of a block
        self.now = 1
        self.fenced = np.zeros((blocks, threads), np.int64)  # when each thread did last
        self.fenced_before = np.zeros(blocks, np.int64)  # the last fence before a block's barrier
        self.barriers: dict[int, list[int]] = {}  # by block: when it passed one
        self.words: dict[int, _Log] = {}
        self.pending: dict[int, Knowledge] = {}  # by thread: found, and not yet acquired
        self.known: dict[int, Knowledge] = {}  # by thread
        self.known_to_all: dict[int, Knowledge] = {}  # by block

    def fence(self, numbers: Array) -> None:
        """These threads fence."""
        self.now += 1
        self.fenced.reshape(-1)[numbers - 1] = self.now
        if self.pending:
            for number in {*self.pending} & {*numbers.tolist()}:
                _join(self.known.setdefault(number, {}), self.pending.pop(number))

    def pass_barrier(self, blocks: Array) -> None:
        """All threads of these blocks pass a barrier."""
        self.now += 1
        self.fenced_before[blocks] = self.fenced[blocks].max(axis=1, initial=0)
        for block in blocks.tolist():
            self.barriers.setdefault(block, []).append(self.now)
        passed = {*blocks.tolist()} if self.pending or self.known else set()
        for table in (self.pending, self.known):
            for number in [n for n in table if (n - 1) // self.threads in passed]:
                block = (number - 1) // self.threads
                _join(self.known_to_all.setdefault(block, {}), table.pop(number))

    def change(self, numbers: Array, words: Sequence[int], order: str, changes: bool) -> None:
        """These threads call atomically for words, one after another."""
        if order in ("release", "acq_rel"):
            self.fence(numbers)
        self.now += 1
        for number, word in zip(numbers.tolist(), words, strict=True):
            log = self.words.setdefault(word, _Log())
            if changes:
                self._release(number, word, log)
                log.count += 1
            _join(self.pending.setdefault(number, {}), {word: log.count})
        if order in ("acquire", "acq_rel"):
            self.fence(numbers)

    def _release(self, number: int, word: int, log: _Log) -> None:
        block, thread = divmod(number - 1, self.threads)
        time = int(max(self.fenced[block, thread], self.fenced_before[block]))
        if not time:
            return
        _append(log.times, block, log.count, time)
        for knowledge in (self.known.get(number), self.known_to_all.get(block)):
            for other, count in (knowledge or {}).items():
                if other != word:
                    _append(log.carried, other, log.count, count)

    def ordered(self, who: Array, others: Array, when: Array, alone: Array) -> Array:
        """Whether what others did is known to these threads.

        Args:
            who, others: numbers of threads over the grid.
            when: times of what the others did.
            alone: whether that thread did it alone; else all of its block may have.
        """
        result = np.zeros(len(who), bool)
        if not (self.known or self.known_to_all):
            return result
        blocks, thread = np.divmod(others - 1, self.threads)
        mine = (who - 1) // self.threads
        told: dict[tuple[int, int], int] = {}
        for k in np.flatnonzero((others > 0) & (blocks != mine)).tolist():
            block, time = int(blocks[k]), int(when[k])
            until = 0
            for knows, table in ((int(who[k]), self.known), (-int(mine[k]), self.known_to_all)):
                if (knows, block) not in told:
                    told[knows, block] = self._told(table.get(abs(knows)), block)
                until = max(until, told[knows, block])
            if time < until:
                passed = self.barriers.get(block, [])
                after = bisect_right(passed, time)
                own = bool(alone[k]) and int(self.fenced[block, thread[k]]) > time
                result[k] = own or (after < len(passed) and passed[after] < until)
        return result

    def _told(self, knowledge: Knowledge | None, block: int) -> int:
        """Until when a block's accesses are known."""
        latest, seen, open_ = 0, dict[int, int](), list((knowledge or {}).items())
        while open_:
            word, count = open_.pop()
            if seen.get(word, 0) >= count:
                continue
            seen[word], log = count, self.words[word]
            latest = max(latest, log.time(block, count))
            open_ += [(other, _latest(carried, count)) for other, carried in log.carried.items()]
        return latest

    def last(self, who: Array, words: Sequence[int]) -> Array:
        """Whether each thread has found all changes of a word."""
        result = np.zeros(len(who), bool)
        for k, (number, word) in enumerate(zip(who.tolist(), words, strict=True)):
            log = self.words.get(word)
            tables = (
                self.pending.get(number),
                self.known.get(number),
                self.known_to_all.get((number - 1) // self.threads),
            )
            found = max((table.get(word, 0) for table in tables if table), default=0)
            result[k] = log is not None and found >= log.count
        return result


def _append(into: dict[int, tuple[list[int], list[int]]], key: int, at: int, value: int) -> None:
    changes, values = into.setdefault(key, ([], []))
    changes.append(at)
    values.append(max(value, values[-1] if values else 0))


def _join(into: Knowledge, more: Knowledge) -> None:
    for key, value in more.items():
        if value > into.get(key, 0):
            into[key] = value


def word_of(memory: object, cell: int) -> int:
    """A number for a word of memory that all blocks share."""
    return (id(memory) << 40) + cell


def orders_blocks(body: Stmt) -> bool:
    """Whether a kernel fences, so that blocks may learn from each other."""
    for node in pre_order(body):
        if isinstance(node, Evaluate) and _is_fence(node.value):
            return True
        for expr in stmt_exprs(node):
            if any(atomic_order(call) != "relaxed" for call in atomic_calls(expr)):
                return True
    return False


def _is_fence(value: object) -> bool:
    if not isinstance(value, Call) or value.op != "tir.memory_fence":
        return False
    return getattr(value.args[0], "value", "") != "block"
