"""Random programs with loops and branches around integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from tile.axis_programs import PREDICATES, Generator, wrapped
from tileloom.tile.dialects.scf import ForLoop, make_for, make_if, make_yield
from tileloom.tile.ir.attributes import EnumAttr
from tileloom.tile.ir.core import Operation, Value
from tileloom.tile.ir.rewriter import OpBuilder
from tileloom.tile.ir.types import I32, PointerType, TensorType, Type


class LoopGenerator(Generator):
    """Makes a program with a loop that carries values, perhaps one with a branch or another loop
    in it. Arithmetic that is not defined in the first iteration is left out; a program in which
    it is not defined later has no meaning."""

    def grow_with_loop(self, steps: int) -> None:
        """Adds operations, a loop, and operations on its results."""
        self.grow(steps)
        self.loop(steps, depth=2)
        for _ in range(3):
            self.add_binary()

    def carried(self, count: int) -> list[Value]:
        """Values to carry through a loop."""
        types = [
            type
            for type in self.pools
            if type is I32
            or (isinstance(type, TensorType) and isinstance(type.element, PointerType))
            or (isinstance(type, TensorType) and type.element is I32)
        ]
        chosen = [self.random.choice(types) for _ in range(count)]
        return [self.random.choice(self.pools[type]) for type in chosen]

    def loop(self, steps: int, depth: int) -> None:
        """A loop of a few iterations."""
        lower, trips = self.random.choice((0, 0, 1, 16)), self.random.choice((0, 1, 2, 3, 5))
        step = self.random.choice((1, 2, 16, 32))
        numbers = (lower, lower + trips * step, step)
        bounds = [self.constant(number) for number in numbers]
        inits = self.carried(self.random.randrange(1, 4))
        op = self.build.insert(make_for(bounds[0], bounds[1], bounds[2], inits))
        loop = ForLoop(op)
        outer, pools = self.build, {type: list(pool) for type, pool in self.pools.items()}
        self.build = OpBuilder(loop.body)
        first = [self.execution.now[bounds[0]], *self.execution.arrays(inits)]
        self.execution.give(loop.body.arguments, first)
        for argument in loop.body.arguments:
            self.keep(argument)
            self.keep(argument)
        self.body(steps, depth)
        yields = [self.update(argument) for argument in loop.iter_args]
        loop.body.append(make_yield(yields))
        self.build, self.pools = outer, pools
        self.execution.give(op.results, self.execution.arrays(inits))
        for result in op.results:
            self.keep(result)

    def constant(self, number: int) -> Value:
        """A constant of i32."""
        value = self.build.constant(number, I32)
        self.execution.give([value], [wrapped(number, 32)])
        return value

    def update(self, argument: Value) -> Value:
        """What a loop yields for an argument: something of its type, often made of it."""
        users = [v for op in argument.users for v in op.results if v.type is argument.type]
        users = [v for v in users if v in self.pools[argument.type]]
        if users and self.random.random() < 0.7:
            return self.random.choice(users)
        return self.random.choice(self.pools[argument.type])

    def body(self, steps: int, depth: int) -> None:
        """Operations in a loop or a branch."""
        for _ in range(steps):
            pick = self.random.random()
            if depth and pick < 0.08:
                self.loop(steps // 2, depth - 1)
            elif depth and pick < 0.2:
                self.branch(steps // 2, depth - 1)
            else:
                self.add_binary()
                self.add_pointer()

    def branch(self, steps: int, depth: int) -> None:
        """A branch on a comparison of scalars."""
        left = self.random.choice(self.pools[I32])
        predicate = EnumAttr("keyword", self.random.choice(PREDICATES))
        bound = self.constant(self.random.choice((0, 16, 64)))
        condition = self.emit("arith.cmpi", left, bound, predicate=predicate)
        types = [value.type for value in self.carried(2)]
        op = self.build.insert(make_if(condition, types))
        outer, pools = self.build, self.pools
        chosen: list[Sequence[Value]] = []
        for region in op.regions:
            self.pools = {type: list(pool) for type, pool in pools.items()}
            self.build = OpBuilder(region.blocks[0])
            self.body(steps, depth)
            chosen.append([self.random.choice(self.pools[type]) for type in types])
            region.blocks[0].append(make_yield(chosen[-1]))
        self.build, self.pools = outer, pools
        self.finish(op, types, chosen[0])

    def finish(self, op: Operation, types: Sequence[Type], taken: Sequence[Value]) -> None:
        """Lets the results of a branch be operands."""
        self.execution.give(op.results, self.execution.arrays(taken))
        for result in op.results:
            self.keep(result)
