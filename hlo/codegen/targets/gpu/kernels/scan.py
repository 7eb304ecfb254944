"""Prefix sums: windows from the first element, or to the last one, in linear time.

Along contiguous memory a group of threads takes a tile of a line at a time: each thread the sums of
a few elements that follow each other, then those of the threads before by exchange between lanes.
Across memory each thread goes along a line of its own. Few long lines are cut into chunks: one
launch computes the total of each, and in a second one each chunk begins with those before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.reduce.combiner import Accumulators, Combiner
from hlo.codegen.kernels.reduce.running import Running, RunningEmitter
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.team import (
    SharedValues,
    chosen,
    combine_threads,
    exchanged,
)
from hlo.ir import Instruction

# Threads of a block, and those of a line at the most.
_BLOCK, _LONGEST_GROUP = 128, 256
# Bytes that a thread reads by one instruction, and elements that it takes at once.
_VECTOR_BYTES, _AT_ONCE = 16, 4
# Lines that lie side by side are a thread's each, unless there are fewer of them.
_SIDE_BY_SIDE = 16
# Threads and blocks that keep a GPU busy.
_WANTED_THREADS, _WANTED_BLOCKS = 1 << 15, 256
# Elements of a chunk at least, in tiles of a group or for a thread; chunks of a line at the most.
_CHUNK_TILES, _CHUNK_ELEMENTS, _MOST_CHUNKS, _MOST_THREAD_CHUNKS = 4, 64, 1024, 32


@dataclass(frozen=True)
class Lines:
    """How threads share the lines of a prefix sum.

    group: the threads of a line's chunk; one takes all elements in turn. vector: elements that
    follow each other which a thread takes. chunk: of a line, in elements. at_once: the lines, or
    chunks, of a block.
    """

    count: int
    length: int
    group: int
    vector: int
    chunk: int
    at_once: int

    @property
    def chunks(self) -> int:
        return -(-self.length // self.chunk)

    @property
    def tile(self) -> int:
        return self.group * self.vector

    @property
    def tiles(self) -> int:
        """The tiles of a chunk."""
        return -(-self.chunk // self.tile)

    @property
    def blocks(self) -> int:
        return -(-self.count * self.chunks // self.at_once)


def plan_scan(inst: Instruction, roles: Mapping[Instruction, Role], _: object) -> Plan | None:
    """Return the launches of a prefix sum, None for other windows."""
    combiner = Combiner.of(inst.to_apply)
    if 0 in inst.operands[0].array_shape.dims:
        return None
    r = Running.of(inst, combiner)
    # Backwards, the initial value is the left operand, and the total so far the right one.
    if r is None or (r.backward and not combiner.known):
        return None
    lines = _lines_of(r)
    if lines.chunks == 1:
        return Plan((Scan(lines),))
    sizes = tuple(lines.count * lines.chunks * et.byte_width for et in combiner.held)
    return Plan((Scan(lines, is_total=True), Scan(lines)), sizes)


def _lines_of(r: Running) -> Lines:
    width = 1 if r.is_contiguous else r.shape.dims[r.lines[-1]]
    lines = Lines(r.line_count, r.length, 1, 1, r.length, _BLOCK)
    if not r.combiner.splits(r.length) or width >= _SIDE_BY_SIDE:
        if r.combiner.known:
            wanted = -(-_WANTED_THREADS // lines.count)
            chunks = min(wanted, _MOST_THREAD_CHUNKS, r.length // _CHUNK_ELEMENTS)
            lines = replace(lines, chunk=-(-r.length // max(1, chunks)))
        return lines
    # What lines do not divide into is read in pairs: LLVM would read behind the end for a third.
    most = min(_VECTOR_BYTES // r.shape.element_type.byte_width, 2 * _AT_ONCE)
    vector = max(2, math.gcd(r.length, most))
    group = 1 << max(0, -(-r.length // vector) - 1).bit_length()
    group = min(group, _LONGEST_GROUP)
    tile = group * vector
    chunk = -(-r.length // tile) * tile
    if r.combiner.known and lines.count < _WANTED_BLOCKS:
        chunks = min(_MOST_CHUNKS, -(-_WANTED_BLOCKS // lines.count))
        tiles = max(_CHUNK_TILES, -(-r.length // (tile * chunks)))
        chunk = min(chunk, tiles * tile)
    at_once = max(1, min(_BLOCK // group, lines.count))
    return replace(lines, group=group, vector=vector, chunk=chunk, at_once=at_once)


@dataclass(frozen=True)
class Scan:
    """Emits one launch of a prefix sum. is_total: that of the total of each chunk."""

    lines: Lines
    is_total: bool = False

    def __call__(self, k: Kernel) -> Grid:
        assert isinstance(k.target, Gpu)
        d, lanes = self.lines, k.target.lanes
        threads = -(-d.group * d.at_once // lanes) * lanes
        (_Alone if d.group == 1 else _Together)(k, d, threads, self.is_total).emit()
        return Grid(d.blocks * threads, 1.0, d.blocks, threads)


class _Emitter:
    """What one thread does, in both ways."""

    def __init__(self, k: Kernel, d: Lines, threads: int, is_total: bool) -> None:
        assert isinstance(k.target, Gpu)
        self.k, self.b, self.d, self.threads, self.is_total = k, k.b, d, threads, is_total
        self.w = RunningEmitter(k)
        self.block = Block(k.b, k.target)
        self.b.is_careful = True

    def find(self) -> tuple[Index, Val]:
        """Find the thread's line and chunk; returns its number in the group and whether it is one.

        Threads without a chunk of their own take another one, and store nothing.
        """
        b, d, r = self.b, self.d, self.w.r
        thread = self.block.thread_index()
        number = b.add(b.mul(self.block.block_index(), d.at_once), b.udiv(thread, d.group))
        is_own = b.both(
            b.compare("slt", number, d.count * d.chunks),
            b.compare("slt", thread, d.group * d.at_once),
        )
        number = b.minimum(number, d.count * d.chunks - 1)
        # Neighbouring threads have neighbouring lines.
        self.chunk, self.line = split_index(b, number, [d.chunks, d.count])
        sizes = [r.shape.dims[x] for x in r.lines]
        self.found = split_index(b, self.line, sizes) if sizes else []
        self.first = b.mul(self.chunk, d.chunk)
        return b.urem(thread, d.group), is_own

    def element(self, at: Index) -> list[Value]:
        return self.w.element(self.w.place(self.found, at))

    def store(self, total: list[Value], at: Index) -> None:
        self.w.store(total, self.w.place(self.found, at))

    def inits(self) -> list[Value]:
        return self.w.inits()

    def follow(self, held: list[Value], new: list[Value]) -> list[Value]:
        """Return the total including what follows; sums are in this order."""
        pair = (new, held) if self.w.r.backward else (held, new)
        return self.w.combiner.apply(self.k.elements, *pair, in_order=True)

    def leave(self, total: list[Value]) -> None:
        """Store the total of the chunk."""
        at = self.b.add(self.b.mul(self.chunk, self.d.count), self.line)
        for et, value, base in zip(self.w.held, total, self.k.scratch, strict=True):
            scalar.store(self.b, et, value, base, at)

    def left(self, chunk: Index) -> list[Value]:
        """Return the total of a chunk of the line."""
        at = self.b.add(self.b.mul(chunk, self.d.count), self.line)
        pairs = zip(self.w.held, self.k.scratch, strict=True)
        return [scalar.load(self.b, et, base, at) for et, base in pairs]


class _Alone(_Emitter):
    """A thread goes along a line, or a chunk of it."""

    def emit(self) -> None:
        """Write the code."""
        b, d = self.b, self.d
        _, is_own = self.find()
        with b.when(is_own):
            acc = Accumulators(b, self.w.held)
            last = b.minimum(b.add(self.first, d.chunk), d.length)
            acc.put(self.w.combiner.identity() if self.is_total else self.inits())
            if d.chunks > 1 and not self.is_total:
                with b.loop(0, self.chunk, plain=True) as before:
                    acc.put(self.follow(acc.get(), self.left(before)))
            self._run(acc, self.first, last)
            if self.is_total:
                self.leave(acc.get())

    def _run(self, acc: Accumulators, first: Index, last: Index) -> None:
        """Follow the elements of a chunk, some of which are read at once."""
        b = self.b

        def step(places: list[Index]) -> None:
            total = acc.get()
            for at, new in zip(places, [self.element(at) for at in places], strict=True):
                total = self.follow(total, new)
                if not self.is_total:
                    self.store(total, at)
            acc.put(total)

        turns = b.udiv(b.sub(last, first), _AT_ONCE)
        with b.loop(0, turns, plain=True) as n:
            at = b.add(first, b.mul(n, _AT_ONCE))
            step([b.add(at, i) for i in range(_AT_ONCE)])
        with b.loop(b.add(first, b.mul(turns, _AT_ONCE)), last, plain=True) as at:
            step([at])


class _Together(_Emitter):
    """A group of threads takes a tile of a line at a time."""

    def emit(self) -> None:
        """Write the code."""
        b, d = self.b, self.d
        self.member, is_own = self.find()
        self.warps = d.group // self.block.gpu.lanes
        self.shared = None
        if self.warps > 1:
            count = self.threads // self.block.gpu.lanes
            self.shared = SharedValues(self.block, self.w.held, count)
        acc = Accumulators(b, self.w.held)
        acc.put(self._nothing() if self.is_total else self._before())
        with b.loop(0, d.tiles, plain=True) as n:
            start = b.add(b.add(self.first, b.mul(n, d.tile)), b.mul(self.member, d.vector))
            places, clamped, exist = self._places(start)
            totals = [self.element(clamped[0])]
            for at in clamped[1:]:
                totals.append(self.follow(totals[-1], self.element(at)))
            exists, before, whole = self._threads_before(totals[-1])
            held = acc.get()
            following = self.follow(held, whole)
            if self.is_total:
                following = chosen(self.block, b.compare("eq", n, 0), whole, following)
            else:
                held = chosen(self.block, exists, self.follow(held, before), held)
                totals = [self.follow(held, total) for total in totals]
                self._store_all(is_own, exist, places, totals)
            acc.put(following)
        if self.is_total:
            with b.when(b.both(is_own, b.compare("eq", self.member, 0))):
                self.leave(acc.get())

    def _places(self, start: Index) -> tuple[list[Index], list[Index], list[Val]]:
        """Return where elements from `start` are, where to read them, and whether they exist.

        What is behind the end is read from before it: it changes nothing that is stored.
        """
        b, d = self.b, self.d
        places = [b.add(start, i) for i in range(d.vector)]
        if d.length % d.vector == 0:
            safe = b.minimum(start, d.length - d.vector)
            exists = b.compare("slt", start, d.length)
            return places, [b.add(safe, i) for i in range(d.vector)], [exists] * d.vector
        clamped = [b.minimum(at, d.length - 1) for at in places]
        return places, clamped, [b.compare("slt", at, d.length) for at in places]

    def _store_all(
        self, is_own: Val, exist: list[Val], places: list[Index], totals: list[list[Value]]
    ) -> None:
        """Store what exists, by one instruction if all or nothing does."""
        b = self.b
        if len(set(exist)) == 1:
            with b.when(b.both(is_own, exist[0])):
                for at, total in zip(places, totals, strict=True):
                    self.store(total, at)
            return
        for exists, at, total in zip(exist, places, totals, strict=True):
            with b.when(b.both(is_own, exists)):
                self.store(total, at)

    def _nothing(self) -> list[Value]:
        return [scalar.constant(et, np.zeros((), et.dtype)) for et in self.w.held]

    def _before(self) -> list[Value]:
        """Return the initial value followed by the totals of the chunks before."""
        b, d = self.b, self.d
        if d.chunks == 1:
            return self.inits()
        each = -(-d.chunks // d.group)
        own = self.w.combiner.identity()
        for n in range(each):
            at = b.add(b.mul(self.member, each), n)
            exists = b.compare("slt", at, self.chunk)
            found = self.left(b.minimum(at, d.chunks - 1))
            own = self.follow(own, chosen(self.block, exists, found, self.w.combiner.identity()))
        total = combine_threads(
            self.block, own, self.w.held, d.group, self.threads, self.follow, in_order=True
        )
        return self.follow(self.inits(), total)

    def _threads_before(self, own: list[Value]) -> tuple[Val, list[Value], list[Value]]:
        """Return whether there are threads before, their total, and that of the tile."""
        b, block, lanes = self.b, self.block, self.block.gpu.lanes
        size = min(self.d.group, lanes)
        lane = b.urem(self.member, lanes)
        for level in range(size.bit_length() - 1):
            distance = 1 << level
            below = exchanged(own, partial(block.from_lane_below, distance=distance))
            takes = b.compare("sge", lane, distance)
            own = chosen(block, takes, self.follow(below, own), own)
        before = exchanged(own, lambda v: block.from_lane_below(v, 1))
        exists = b.compare("sge", lane, 1)
        last = b.binary("or", block.lane(), size - 1)
        whole = exchanged(own, lambda v: block.from_lane(v, last))
        if self.shared is None:
            return exists, before, whole
        number = block.index(block.warp())
        with b.when(b.compare("eq", lane, lanes - 1)):
            self.shared.put(own, number)
        block.barrier()
        begin = b.mul(b.udiv(number, self.warps), self.warps)
        here = b.sub(number, begin)
        whole = self.shared.get(begin)
        warps_before = whole
        for n in range(1, self.warps):
            warps_before = chosen(block, b.compare("eq", here, n), whole, warps_before)
            whole = self.follow(whole, self.shared.get(b.add(begin, n)))
        block.barrier()  # before the next tile's are written
        is_later = b.compare("sgt", here, 0)
        both = chosen(block, exists, self.follow(warps_before, before), warps_before)
        value = chosen(block, is_later, both, before)
        return b.binary("or", exists, is_later), value, whole
