"""Select-and-scatter: every window selects one of its elements, to which a source value is added.

Positions along dimensions without windows are independent: they are distributed over threads, and
adjacent ones are processed together as a strip. Windows are visited in row-major order, so that the
order of additions is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import Accumulators, Combiner, element_type
from hlo.codegen.kernels.reduce.window import Windows
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.address import Indices, physical_index
from hlo.codegen.loops.collapse import collapsible_reads
from hlo.codegen.loops.kernel import Kernel, loop_nest, over_elements, planner, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import S32, S64, ElementType

# Maximum number of adjacent positions that are processed together.
_STRIP = 1024


@planner("select-and-scatter")
def plan_select_and_scatter(
    inst: Instruction, roles: Mapping[Instruction, Role], _: Target
) -> Plan:
    """Add to the result itself, or, if sums have another type, to the workspace first."""
    combiner = Combiner.of(inst.scatter)
    shape = inst.array_shape
    if not shape.num_elements:
        return Plan(())
    # A function on narrower numbers rounds, although sums are as wide as the result.
    if combiner.held[0] is combiner.parameters[0] is shape.element_type:
        return Plan((_scatter,))
    return Plan((_scatter, _round), (shape.num_elements * combiner.held[0].byte_width,))


class ScatterEmitter:
    """Emission of a select-and-scatter into one kernel."""

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.b = k.b
        self.operand, self.source, self.initial = k.inst.operands
        self.windows = Windows.of(self.operand.array_shape, k.inst.window)
        self.combiner = Combiner.of(k.inst.scatter)
        self.held = self.combiner.held[0]
        order = loop_order(self.operand.array_shape)
        self.columns = self._columns(order)
        self.own = [d for d in order if d not in (*self.columns, *self.windows.sliding)]
        # Without columns a strip is one position.
        self.width = self.size(self.columns)
        self.strip = min(self.width, _STRIP)
        self.first: Index = 0
        self.here: Index = 1
        volume = math.prod(w.size for w in self.windows.window)
        self.number_type: ElementType = S32 if volume < 1 << 31 else S64

    def _columns(self, order: list[int]) -> list[int]:
        """Return the innermost dimensions without windows that collapse into one loop."""
        if not order or order[-1] in self.windows.sliding:
            return []
        flags = collapsible_reads([self.operand, self.source], self.k.roles, order)
        first = len(order) - 1
        while first and flags[first - 1] and order[first - 1] not in self.windows.sliding:
            first -= 1
        return order[first:]

    def size(self, dims: list[int]) -> int:
        return math.prod(self.windows.dims[d] for d in dims)

    def indices(self, dims: list[int], at: Index) -> dict[int, Index]:
        if not dims:
            return {}
        parts = split_index(self.b, at, [self.windows.dims[d] for d in dims])
        return dict(zip(dims, parts, strict=True))

    def place(self, at: Mapping[int, Index]) -> Indices:
        return tuple(at.get(d, 0) for d in range(len(self.windows.dims)))

    def over_window(
        self, at: Mapping[int, Index], body: Callable[[dict[int, Index], Index], None]
    ) -> None:
        """Emit the body for the elements of a window: their indices and number in the window."""
        number: Index = 0
        place = dict(at)
        with ExitStack() as stack:
            for d in self.windows.sliding:
                elements = self.windows.elements(self.b, d, at.get(d, 0))
                place[d], offset = stack.enter_context(elements)
                number = self.b.add(self.b.mul(number, self.windows.window[d].size), offset)
            body(place, number)

    def use_strip(self, number: Index) -> None:
        """Let `column` loop over a strip, by its number."""
        b = self.b
        self.first = b.mul(number, self.strip)
        whole = self.width % self.strip == 0
        self.here = self.strip if whole else b.minimum(self.strip, b.sub(self.width, self.first))

    @contextmanager
    def column(self) -> Iterator[tuple[Index, dict[int, Index]]]:
        """Emit the body for every column of the strip: its number in the strip, its indices."""
        if not self.columns:
            yield 0, {}
            return
        with self.b.loop(0, self.here) as j:
            yield j, self.indices(self.columns, self.b.add(self.first, j))

    def element(self, at: Mapping[int, Index]) -> Value:
        return self.k.elements.at(self.operand, self.place(at))

    def moves(self, kept: Value, new: Value, none: Val) -> Val:
        """Return whether a window's selection moves on to the next element."""
        select = self.k.inst.select
        given = element_type(self.operand)
        args = [
            scalar.convert(self.b, v, given, element_type(p))
            for v, p in zip((kept, new), select.parameters, strict=True)
        ]
        (stays,) = self.k.elements.call(select, args)
        assert isinstance(stays, Val)
        return self.b.select(none, Val("i1", "true"), self.b.binary("xor", stays, "true"))

    # --- the result so far ----------------------------------------------------------------------

    def offset(self, at: Mapping[int, Index]) -> Index:
        return physical_index(self.b, self.k.shape, self.place(at))

    def put(self, value: Value, offset: Index) -> None:
        base = self.k.scratch[0] if self.k.scratch else self.k.outputs[0]
        scalar.store(self.b, self.held, value, base, offset)

    def get(self, offset: Index) -> Value:
        base = self.k.scratch[0] if self.k.scratch else self.k.outputs[0]
        return scalar.load(self.b, self.held, base, offset)

    def start(self) -> Value:
        given = [element_type(self.initial)]
        return self.combiner.start(self.b, [self.k.elements.at(self.initial, ())], given)[0]

    def scattered(self, old: Value, window: Mapping[int, Index]) -> Value:
        """Return an element of the result after a window has added its source value."""
        value = self.k.elements.at(self.source, self.place(window))
        new = self.combiner.elements(self.b, [value], [element_type(self.source)])
        return self.combiner.apply(self.k.elements, [old], new)[0]


def _scatter(k: Kernel) -> Extent:
    """Fill the result with the initial value, then add to it window by window."""
    w = ScatterEmitter(k)
    b, windows = k.b, w.windows
    sliding, own = windows.sliding, w.size(w.own)
    strips = -(-w.width // w.strip)
    choose = _Columns(w) if w.columns else _Single(w)
    with b.loop(k.begin, k.end) as share:
        line, number = split_index(b, share, [own, strips])
        fixed = w.indices(w.own, line)
        w.use_strip(number)

        def fill(found: tuple[str, ...]) -> None:
            at = fixed | dict(zip(sliding, found, strict=True))
            with w.column() as (_, more):
                w.put(w.start(), w.offset(at | more))

        def window(found: tuple[str, ...]) -> None:
            choose.run(fixed | dict(zip(sliding, found, strict=True)))

        loop_nest(b, [(0, windows.dims[d]) for d in sliding], fill)
        loop_nest(b, [(0, windows.out[d]) for d in sliding], window)
    volume = math.prod(windows.window[d].size for d in sliding)
    steps = w.size(sliding) + 2 * volume * math.prod(windows.out[d] for d in sliding)
    return Extent(own * strips, float(w.strip * steps))


class _Single:
    """One window at a time, with the position of the selected element, -1 for none."""

    def __init__(self, w: ScatterEmitter) -> None:
        self.w = w
        self.value = Accumulators(w.b, [element_type(w.operand)])
        self.place = Accumulators(w.b, [S64])

    def run(self, window: dict[int, Index]) -> None:
        """Select an element of a window, and add its source value there."""
        w, b = self.w, self.w.b
        self.place.put([Val("i64", "-1")])
        self.value.put([nothing(w)])

        def visit(at: dict[int, Index], _: Index) -> None:
            (kept,), (place,) = self.value.get(), self.place.get()
            assert isinstance(place, Val)
            new = w.element(at)
            moves = w.moves(kept, new, b.compare("slt", place.name, 0))
            self.value.put([scalar.select(b, moves, new, kept)])
            self.place.put([b.select(moves, Val("i64", str(w.offset(at))), place)])

        w.over_window(window, visit)
        (place,) = self.place.get()
        assert isinstance(place, Val)
        with b.when(b.compare("sge", place.name, 0)):
            w.put(w.scattered(w.get(place.name), window), place.name)


class _Columns:
    """A strip of windows at a time, each with the number of its selected element, -1 for none.

    The window's elements are visited twice, once to select and once to add, because vectors cannot
    scatter to the elements that their lanes select.
    """

    def __init__(self, w: ScatterEmitter) -> None:
        self.w = w
        self.values = Accumulators(w.b, [element_type(w.operand)], w.strip)
        self.numbers = Accumulators(w.b, [w.number_type], w.strip)

    def run(self, window: dict[int, Index]) -> None:
        """Select elements of a strip of windows, and add their source values there."""
        w, b = self.w, self.w.b
        with w.column() as (j, _):
            self.numbers.put([scalar.constant(w.number_type, w.number_type.dtype.type(-1))], j)
            self.values.put([nothing(w)], j)

        def choose(at: dict[int, Index], number: Index) -> None:
            here = scalar.from_index(b, number, w.number_type)
            with w.column() as (j, more):
                (kept,), (chosen,) = self.values.get(j), self.numbers.get(j)
                assert isinstance(chosen, Val) and isinstance(here, Val)
                new = w.element(at | more)
                moves = w.moves(kept, new, b.icmp("slt", chosen, 0))
                self.values.put([scalar.select(b, moves, new, kept)], j)
                self.numbers.put([b.select(moves, here, chosen)], j)

        def add(at: dict[int, Index], number: Index) -> None:
            here = scalar.from_index(b, number, w.number_type)
            with w.column() as (j, more):
                (chosen,) = self.numbers.get(j)
                assert isinstance(chosen, Val) and isinstance(here, Val)
                offset = w.offset(at | more)
                old = w.get(offset)
                hit = b.icmp("eq", chosen, here)
                w.put(scalar.select(b, hit, w.scattered(old, window | more), old), offset)

        w.over_window(window, choose)
        w.over_window(window, add)


def nothing(w: ScatterEmitter) -> Value:
    """Return the placeholder value of an empty selection."""
    et = element_type(w.operand)
    return scalar.constant(et, et.dtype.type(0))


def _round(k: Kernel) -> Extent:
    """Write the sums in the workspace to the result."""
    w = ScatterEmitter(k)

    def body(at: Indices) -> None:
        total = w.get(w.offset(dict(enumerate(at))))
        (value,) = w.combiner.result(k.b, [total], [k.shape.element_type])
        k.store(value, at)

    return over_elements(k, k.shape, body, [True] * (len(loop_order(k.shape)) - 1))
