"""Prefix sums (scans): windows from the first element, or to the last one, in linear time.

Along contiguous memory a vector of elements becomes the vector of its prefix sums in a few
shuffles; long rows are split into blocks of fixed size, whose totals are computed first, so that
threads can divide a row. Across memory, a strip of totals is on the stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo.codegen.kernels.reduce.combiner import Accumulators, Combiner, element_type
from hlo.codegen.llvm import FALSE, TRUE, Builder, Index, Val
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.llvm import vector_type
from hlo.ops.attrs import WindowDim
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape

# Shorter rows are treated as ordinary windows.
_SHORT = 16
# Elements per step, and elements per block of a thread.
_CHUNK, _BLOCK = 512, 16384
# Bytes of totals on the stack.
_STRIP_BYTES = 8192


@dataclass(frozen=True)
class Running:
    """Prefix sums along one dimension.

    backward: suffix sums, from an element to the last one.
    """

    inst: Instruction
    combiner: Combiner
    dim: int
    backward: bool

    @staticmethod
    def of(inst: Instruction, combiner: Combiner) -> Running | None:
        """Return the prefix sum that the windows of an instruction are, if they are one."""
        shape = inst.operands[0].array_shape
        window = inst.window or (WindowDim(),) * shape.rank
        sliding = [d for d, w in enumerate(window) if w != WindowDim()]
        if len(sliding) != 1:
            return None
        (dim,) = sliding
        w, n = window[dim], shape.dims[dim]
        rest = w.size - 1
        if n < _SHORT or w.size < n or (w.stride, w.lhs_dilate, w.rhs_dilate) != (1, 1, 1):
            return None
        if (w.pad_low, w.pad_high) not in ((rest, 0), (0, rest)):
            return None
        backward = w.pad_low == 0
        # Backwards, the total so far is the right operand.
        if backward and not combiner.known and not combiner.splits(n):
            return None
        return Running(inst, combiner, dim, backward)

    @cached_property
    def operands(self) -> list[Instruction]:
        return self.inst.operands[: self.combiner.count]

    @property
    def shape(self) -> ArrayShape:
        """The shape of operands and results, in the first result's layout."""
        leaf = next(s for _, s in self.inst.shape.leaves())
        assert isinstance(leaf, ArrayShape)
        return leaf

    @property
    def length(self) -> int:
        return self.shape.dims[self.dim]

    @cached_property
    def order(self) -> list[int]:
        return loop_order(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """True when the scanned dimension is contiguous in memory."""
        return self.order[-1] == self.dim

    @property
    def lines(self) -> list[int]:
        """The other dimensions in memory order."""
        return [d for d in self.order if d != self.dim]

    @property
    def line_count(self) -> int:
        return math.prod(self.shape.dims[d] for d in self.lines)

    @property
    def block(self) -> int:
        """The number of elements of a row per thread."""
        return _BLOCK if self.combiner.splits(self.length) else self.length

    @property
    def blocks(self) -> int:
        return -(-self.length // self.block)


def plan_running(inst: Instruction, combiner: Combiner, target: Target) -> Plan | None:
    """Return the plan of prefix sums, None for other windows."""
    r = Running.of(inst, combiner)
    if r is None:
        return None
    if not r.is_contiguous:
        return Plan((_across,))
    if r.blocks == 1:
        return Plan((_along,))
    sizes = tuple(r.line_count * r.blocks * et.byte_width for et in combiner.held)
    return Plan((_block_totals, _along), sizes)


class RunningEmitter:
    """Emission of running totals into one kernel."""

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.b = k.b
        self.combiner = Combiner.of(k.inst.to_apply)
        running = Running.of(k.inst, self.combiner)
        assert running is not None
        self.r = running
        self.held = self.combiner.held

    def place(self, line: Sequence[Index], at: Index) -> Indices:
        """Return the indices of a position in a row; backwards, position 0 is the last one."""
        r = self.r
        if r.backward:
            at = self.b.sub(r.length - 1, at)
        found = dict(zip(r.lines, line, strict=True)) | {r.dim: at}
        return tuple(found.get(d, 0) for d in range(r.shape.rank))

    def inits(self) -> list[Value]:
        initial = self.k.inst.operands[self.combiner.count :]
        values = [self.k.elements.at(i, ()) for i in initial]
        return self.combiner.start(self.b, values, [element_type(i) for i in initial])

    def element(self, at: Indices) -> list[Value]:
        values = [self.k.elements.at(o, at) for o in self.r.operands]
        given = [element_type(o) for o in self.r.operands]
        return self.combiner.elements(self.b, values, given)

    def follow(self, held: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        """Return the total including the next element, in scan order."""
        pair = (new, held) if self.r.backward else (held, new)
        return self.combiner.apply(self.k.elements, *pair)

    def begin(self) -> list[Value] | None:
        """Return the empty total: the initial value, unless it must be the left operand."""
        return None if self.r.backward and not self.combiner.known else self.inits()

    def finish(self, total: Sequence[Value]) -> list[Value]:
        """Return a total including the initial value."""
        if self.begin() is not None:
            return list(total)
        return self.combiner.apply(self.k.elements, self.inits(), total)

    def store(self, values: Sequence[Value], at: Indices) -> None:
        shapes = [s for _, s in self.k.inst.shape.leaves() if isinstance(s, ArrayShape)]
        wanted = [s.element_type for s in shapes]
        for n, value in enumerate(self.combiner.result(self.b, values, wanted)):
            self.k.store(value, at, n)


# --- along memory -------------------------------------------------------------------------------


def _block_totals(k: Kernel) -> Extent:
    """Store the total of every block except the last one of its row."""
    w = RunningEmitter(k)
    b, r = k.b, w.r
    acc = Accumulators(b, w.held)
    with b.loop(k.begin, k.end) as share:
        line, block = split_index(b, share, [r.line_count, r.blocks])
        found = split_index(b, line, [r.shape.dims[d] for d in r.lines]) if r.lines else []
        first = b.mul(block, r.block)
        last = b.minimum(b.add(first, r.block), r.length)
        if r.combiner.rounds:
            _add_chunks(w, acc, found, first, last)
        else:
            acc.put(w.element(w.place(found, first)))
            with b.loop(b.add(first, 1), last) as at:
                acc.put(w.follow(acc.get(), w.element(w.place(found, at))))
        for et, value, base in zip(w.held, acc.get(), k.scratch, strict=True):
            scalar.store(b, et, value, base, share)
    return Extent(r.line_count * r.blocks, float(r.block))


def _add_chunks(
    w: RunningEmitter, acc: Accumulators, line: Sequence[Index], lo: Index, hi: Index
) -> None:
    """Add up elements of a row, those of each chunk first: sums of few are rounded less."""
    b, chunk = w.b, Accumulators(w.b, w.held)
    acc.put(w.combiner.identity())
    with b.loop(lo, hi, _CHUNK) as first:
        chunk.put(w.combiner.identity())
        with b.loop(0, b.minimum(_CHUNK, b.sub(hi, first))) as i:
            new = w.element(w.place(line, b.add(first, i)))
            chunk.put(w.combiner.apply(w.k.elements, chunk.get(), new))
        acc.put(w.combiner.apply(w.k.elements, acc.get(), chunk.get(), in_order=True))


def _along(k: Kernel) -> Extent:
    """Write the prefix sums block by block."""
    w = RunningEmitter(k)
    b, r = k.b, w.r
    acc = Accumulators(b, w.held)
    started = b.alloca("i1").name
    with b.loop(k.begin, k.end) as share:
        line, block = split_index(b, share, [r.line_count, r.blocks])
        found = split_index(b, line, [r.shape.dims[d] for d in r.lines]) if r.lines else []
        start = w.begin()
        total = _Total(w, acc, None if start is not None else started)
        total.reset(start)
        if r.blocks > 1:
            with b.loop(0, block) as before:
                at = b.add(b.mul(line, r.blocks), before)
                pairs = zip(w.held, k.scratch, strict=True)
                total.add([scalar.load(b, et, base, at) for et, base in pairs])
        first = b.mul(block, r.block)
        here = b.minimum(r.block, b.sub(r.length, first))
        _totals_of(w, total, lambda j: w.place(found, b.add(first, j)), here)
    return Extent(r.line_count * r.blocks, 2.0 * r.block)


class _Total:
    """The total so far, with a flag for the empty one."""

    def __init__(self, w: RunningEmitter, acc: Accumulators, flag: str | None) -> None:
        self.w, self.acc, self.flag = w, acc, flag

    def reset(self, start: Sequence[Value] | None) -> None:
        if start is not None:
            self.acc.put(start)
        elif self.flag is not None:
            self.w.b.store(FALSE, self.flag)

    def add(self, new: Sequence[Value]) -> list[Value]:
        """Add the next element; returns the new total."""
        w, b = self.w, self.w.b
        flag = self.flag
        if flag is None:
            total = w.follow(self.acc.get(), new)
            self.acc.put(total)
            return total
        begun = b.load("i1", flag)

        def more() -> list[Val]:
            self.acc.put(w.follow(self.acc.get(), new))
            return []

        def begin() -> list[Val]:
            self.acc.put(new)
            b.store(TRUE, flag)
            return []

        b.choose(begun, more, begin)
        return self.acc.get()


def _totals_of(
    w: RunningEmitter, total: _Total, place: Callable[[Index], Indices], count: Index
) -> None:
    """Write prefix sums of elements in memory order, given the address of each."""
    b = w.b
    vector = Vector.of(w.k.target, w.combiner)
    if vector is None:
        with b.loop(0, count) as j:
            at = place(j)
            w.store(w.finish(total.add(w.element(at))), at)
        return
    # Vectors of elements, then of their totals, pass through a small buffer on the stack, so that
    # elements may have any type and be fused.
    rows = Accumulators(b, w.held, _CHUNK)
    (buffer,) = rows.addresses()
    # What rounds is added up within a chunk, and then to the total before it: each element is part
    # of few sums, and most of them are small.
    rounds = w.combiner.rounds
    within = Accumulators(b, w.held) if rounds else total.acc
    with b.loop(0, count, _CHUNK) as first:
        here = b.minimum(_CHUNK, b.sub(count, first))
        with b.loop(0, here) as j:
            rows.put(w.element(place(b.add(first, j))), j)
        before = total.acc.get()
        if rounds:
            within.put(w.combiner.identity())
        vector.run(b, buffer, here, within)
        with b.loop(0, here) as j:
            found = rows.get(j)
            w.store(w.follow(before, found) if rounds else found, place(b.add(first, j)))
        if rounds:
            total.add(within.get())


@dataclass(frozen=True)
class Vector:
    """Vectors of values combined by a known operation."""

    combiner: Combiner
    element: str
    lanes: int

    @staticmethod
    def of(target: Target, combiner: Combiner) -> Vector | None:
        """Return the vectors of a machine, None if LLVM has no such type."""
        et = combiner.held[0]
        if combiner.known is None or et.is_complex or et.is_pred:
            return None
        lanes = max(2, target.vector_bits // et.bits)
        return Vector(combiner, scalar.ssa_type(et), min(lanes, 16))

    @property
    def type(self) -> str:
        return vector_type(self.lanes, self.element)

    def splat(self, value: Val) -> Val:
        """Return a constant in every lane."""
        return Val(self.type, f"splat ({value})")

    def combine(self, b: Builder, x: Val, y: Val) -> Val:
        """Apply the operation to two vectors, lane by lane."""
        et, opcode = self.combiner.held[0], self.combiner.known
        assert opcode is not None
        if opcode in ("maximum", "minimum"):
            kind = opcode if et.is_float else ("s" if et.is_signed else "u") + opcode[:3]
            return b.intrinsic(kind, self.type, [x, y])
        names = {"add": "fadd" if et.is_float else "add", "multiply": "mul"}
        return b.binary(names.get(opcode, opcode), x, y)

    def run(self, b: Builder, buffer: str, count: Index, total: Accumulators) -> None:
        """Replace the elements of a buffer by their prefix sums, and update `total`."""
        (identity,) = self.combiner.identity()
        assert isinstance(identity, Val)
        nothing = self.splat(identity)
        carry = b.alloca(self.type).name
        (start,) = total.get()
        assert isinstance(start, Val)
        first = b.insert_element(Val(self.type, "poison"), start, 0)
        b.store(b.shuffle_vector(first, first, [0] * self.lanes), carry)
        with b.loop(0, count, self.lanes, plain=True) as at:
            address = b.element_address(buffer, self.element, at)
            x = b.load(self.type, address)
            step = 1
            while step < self.lanes:
                below = [n - step if n >= step else self.lanes for n in range(self.lanes)]
                x = self.combine(b, x, b.shuffle_vector(x, nothing, below))
                step *= 2
            so_far = b.load(self.type, carry)
            b.store(self.combine(b, so_far, x), address)
            last = b.shuffle_vector(x, x, [self.lanes - 1] * self.lanes)
            b.store(self.combine(b, so_far, last), carry)
        # Lanes after the last element have stale contents: only the element counts.
        end = scalar.load(b, self.combiner.held[0], buffer, b.sub(count, 1))
        total.put([end])


# --- across memory ------------------------------------------------------------------------------


def _across(k: Kernel) -> Extent:
    """Write the totals of strips of adjacent rows, position by position."""
    w = RunningEmitter(k)
    b, r = k.b, w.r
    outer, minor = r.lines[:-1], r.lines[-1]
    width = r.shape.dims[minor]
    most = max(64, _STRIP_BYTES // sum(et.byte_width for et in w.held))
    strip = min(width, most)
    strips = -(-width // strip)
    sizes = [r.shape.dims[d] for d in outer]
    rows = Accumulators(b, w.held, strip)
    with b.loop(k.begin, k.end) as share:
        line, number = split_index(b, share, [math.prod(sizes), strips])
        found = split_index(b, line, sizes) if outer else []
        first = b.mul(number, strip)
        here = strip if width % strip == 0 else b.minimum(strip, b.sub(width, first))

        def place(j: Index, at: Index) -> Indices:
            return w.place([*found, b.add(first, j)], at)

        start = w.begin()
        with b.loop(0, here) as j:
            if start is not None:
                rows.put(start, j)
            else:
                element = w.element(place(j, 0))
                rows.put(element, j)
                w.store(w.finish(element), place(j, 0))
        with b.loop(0 if start is not None else 1, r.length) as at, b.loop(0, here) as j:
            total = w.follow(rows.get(j), w.element(place(j, at)))
            rows.put(total, j)
            w.store(w.finish(total), place(j, at))
    return Extent(math.prod(sizes) * strips, float(strip * r.length))
