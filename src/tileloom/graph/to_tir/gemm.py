"""Matrix products in the way of BLIS: packed panels, and a kernel that lives in registers.

A panel is `nr` columns of the right operand over a stretch of the depth, packed so that the
micro-kernel reads it in order. The micro-kernel (`microkernels`) keeps `mr x nr` partial sums in
registers. Convolutions use the same loops: packing a panel is then gathering the windows.

Two ways to share the work: by columns, where each worker packs its own panels and the depth is
blocked for its cache; or, when there are few columns, by rows over panels that were packed once.

Source: Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...expr import Expr, Min, Var, const
from ...target.cost import PARALLEL_WORK
from ...tir import PARALLEL, SERIAL, Buffer, For, IfThenElse, LetStmt, Stmt, make_buffer, seq
from ..symbols import bounds_of, everywhere_at_least, is_symbolic
from .gemm_pack import Packing
from .gemm_plan import Plan, Product, Stretch, Strip
from .gemm_sums import Sums
from .microkernels import Panel, Rows
from .nest import allocate, loop, with_workers

if TYPE_CHECKING:
    from .machine import Machine

#: Depth of a packed panel in steps: its columns and a strip of the left operand share the inner
#: caches.
DEPTH = 512
#: Panels that one worker packs at a time.
PANELS = 10
#: Bytes of panels over the whole depth that one worker packs at a time.
PANEL_BYTES = 1 << 20

#: Heights of the strip that is left where the number of rows is symbolic: the next is taken.
REST_HEIGHTS = (3, 6, 9)


def product_kernel(product: Product, machine: Machine) -> Stmt:
    """The loops of a product."""
    return _Gemm(Plan(product, machine), machine.workers).build()


class _Gemm:
    def __init__(self, plan: Plan, workers: int) -> None:
        self.plan, self.p = plan, plan.product
        self.packing, self.sums = Packing(plan), Sums(plan)
        self.nr, self.panels = plan.nr, plan.panels
        self.batch = 1
        for extent in self.p.batch:
            self.batch *= extent
        self.work = 2 * self.batch * self.p.rows * self.p.columns * self.p.depth
        self.workers = workers if everywhere_at_least(self.work, PARALLEL_WORK) is not False else 1
        self.most_panels = PANELS
        if plan.micro.from_zero:  # the depth is not blocked
            self.most_panels = max(1, min(PANELS, PANEL_BYTES // max(1, plan.steps * self.nr * 4)))

    def build(self) -> Stmt:
        return with_workers(self._loops(), self.work, PARALLEL_WORK)

    def _loops(self) -> Stmt:
        few = self.batch * self.panels < 2 * self.workers
        if self.workers > 1 and few and self.p.rows >= 2 * self.plan.mr:
            return self._by_rows()
        return self._by_columns()

    # ------------------------------------------------------------------ sharing the work

    def _by_columns(self) -> Stmt:
        groups = self._groups()
        most = PANELS if is_symbolic(self.panels) else -(-self.panels // groups)
        blocks, room = self._depth_blocks()

        def task(number: Expr) -> Stmt:
            at, group = self._position(number, groups)
            first, last = Var("first"), Var("last")

            def block(packed: Buffer, kb: Expr) -> Stmt:
                stretch = self._stretch(kb, blocks, room)
                return self._block(at, packed, first, last - first, stretch, SERIAL)

            body = self._with_panels(
                most * room, lambda packed: loop("kb", blocks, lambda kb: block(packed, kb))
            )
            body = LetStmt(last, (group + 1) * self.panels // groups, body)
            return LetStmt(first, group * self.panels // groups, body)

        return loop("task", self.batch * groups, task, PARALLEL if self.workers > 1 else SERIAL)

    def _depth_blocks(self) -> tuple[int, int]:
        """Into how many stretches the depth is cut, and how many steps they have."""
        steps = self.plan.steps
        whole = self.p.partial is None or self.plan.micro.from_zero
        if whole or bounds_of(steps)[1] <= DEPTH:
            return 1, steps
        if is_symbolic(steps):
            return -(-steps // DEPTH), DEPTH
        blocks = max(1, -(-steps // DEPTH))
        room = -(-steps // blocks)
        if self.packing.window > 1:  # whole windows, where that is not much more
            filled = -(-room // self.packing.window) * self.packing.window
            room = filled if filled <= 2 * DEPTH else room
        return -(-steps // room), room

    def _by_rows(self) -> Stmt:
        def matrix(number: Expr) -> Stmt:
            at, _ = self._position(number, 1)
            stretch = self._stretch(const(0), 1, self.plan.steps)
            panels = const(self.panels)
            return self._with_panels(
                self.panels * self.plan.steps,
                lambda packed: self._block(at, packed, const(0), panels, stretch, PARALLEL),
            )

        return loop("matrix", self.batch, matrix)

    def _with_panels(self, lines: int, make: Callable[[Buffer], Stmt]) -> Stmt:
        """A statement about panels: those given, or room for new ones of `lines` lines in all."""
        if self.plan.packed is not None:
            return make(self.plan.packed)
        size = lines * self.nr
        room = size if is_symbolic(size) else max(1, size)
        packed = make_buffer((room,), self.plan.micro.packed, "packed", scope="local")
        return allocate(packed, make(packed))

    def _block(
        self, at: list[Expr], packed: Buffer, first: Expr, count: Expr, stretch: Stretch, kind: str
    ) -> Stmt:
        """All rows times `count` panels over a stretch of the depth."""
        given = packed is self.plan.packed
        return seq(
            None if given else self.packing.panels(at, packed, first, count, stretch),
            self._multiply(at, packed, first, count, stretch, kind),
        )

    def _groups(self) -> int:
        """Into how many tasks the panels of one matrix are cut."""
        groups = -(-self.panels // self.most_panels)
        if is_symbolic(self.batch) or is_symbolic(self.panels):
            return -(-groups // self.workers) * self.workers  # those without panels do nothing
        shares = -(-self.workers // self.batch)
        if self.batch % self.workers:  # let every worker get as many
            groups = -(-groups // shares) * shares
        return max(1, min(groups, self.panels))

    def _position(self, number: Expr, groups: int) -> tuple[list[Expr], Expr]:
        """The batch position and the group of a task."""
        group = number % groups if groups > 1 else const(0)
        number = number // groups if groups > 1 else number
        at, step = [], self.batch
        for extent in self.p.batch:
            whole, step = step, step // extent
            inner = number if whole == self.batch else number % whole
            at.append(inner // step if step > 1 else inner)
        return at, group

    def _stretch(self, kb: Expr, blocks: int, room: int) -> Stretch:
        start, extent = kb * room, const(room)
        if blocks * room != self.plan.steps:
            extent = Min(const(room), const(self.plan.steps) - start)
        return Stretch(kb, blocks, start, extent, room)

    # ------------------------------------------------------------------ multiplying

    def _multiply(
        self,
        at: list[Expr],
        packed: Buffer,
        first: Expr,
        count: Expr,
        stretch: Stretch,
        kind: str,
    ) -> Stmt:
        def strip(strip: Strip) -> Stmt:
            def panels(rows: Rows) -> Stmt:
                q = Var("q")
                panel = self._micro(rows, at, strip, packed, (q, first + q), stretch)
                body = For(q, const(0), count, SERIAL, panel)
                return self.plan.micro.around(strip.height, self.nr, body)

            if self.plan.copies_left:
                return self.packing.with_copy(at, strip, stretch, panels)
            return panels(self.packing.rows(at, strip, stretch))

        mr = self.plan.mr
        whole, rest = divmod(self.p.rows, mr)
        body = None
        if whole:
            body = loop("ib", whole, lambda ib: strip(Strip(ib * mr, mr)), kind)
        if is_symbolic(rest):
            return seq(body, self._open_rest(const(whole) * mr, strip))
        return seq(body, strip(Strip(const(whole * mr), rest)) if rest else None)

    def _open_rest(self, start: Expr, strip: Callable[[Strip], Stmt]) -> Stmt:
        """The strip of the rows that are left: of the next height that there is."""
        count = const(self.p.rows) - start
        stmt = strip(Strip(start, self.plan.mr, count))
        for height in reversed([h for h in REST_HEIGHTS if h < self.plan.mr]):
            stmt = IfThenElse(count <= height, strip(Strip(start, height, count)), stmt)
        return IfThenElse(count > 0, stmt)

    def _micro(
        self,
        rows: Rows,
        at: list[Expr],
        strip: Strip,
        packed: Buffer,
        panel: tuple[Expr, Expr],
        stretch: Stretch,
    ) -> Stmt:
        """A strip of rows times one panel."""
        local, number = panel
        line = local * stretch.room
        if self.plan.packed is not None:
            line = number * self.plan.steps + stretch.start
        operand = Panel(packed, line, self.nr, self.plan.lanes)

        def multiply(acc: Buffer) -> Stmt:
            return self.plan.micro.multiply(acc, rows, operand, stretch.extent)

        return self.sums.around(at, strip, number, stretch, multiply)
