"""Copies of tiles from global to shared memory: by `cp.async`, or through registers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Computed, Dims, Product, count
from hlo.codegen.llvm import TRUE, Builder, Index, Val, i32, i64, int_const
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.layouts import CHUNK, TileLayout
from hlo.codegen.targets.gpu.kernels.matmul.operands import Operand, Place, place_at
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Share, Stager
from hlo.values.layout.plain import loop_order
from hlo.values.types import ElementType

_WIDTHS = (16, 8, 4)
# Elements that a thread loads before sums are taken, to store them after: more would leave no
# registers for sums. Half of them where they are converted, twice as many if they lie side by side:
# one register has the address of several. So many are loaded at a time otherwise.
_AHEAD = 8
# A thread that copies more often than so does it in a loop.
_MOST_COPIES = 16


@dataclass(frozen=True)
class Slots:
    """Where the tiles of an operand are in shared memory.

    base: the address of all slots; first: where the operand begins in each, in bytes; size: of a
    slot.
    """

    base: str
    first: int
    size: int

    def address(self, b: Builder, slot: Index) -> str:
        at = b.add(b.mul(slot, self.size), self.first)
        return b.element_address(self.base, "i8", at)


def copied_width(p: Product, side: str, et: ElementType, aligned: int) -> int:
    """Return how many bytes of an operand can be copied at a time as they are, 0 if none.

    et: the type wanted. aligned: what the operand's address is a multiple of.
    """
    source = p.source(side)
    if isinstance(source.memory, Computed) or source.et is not et:
        return 0
    whole = side_by_side(p, side) * et.byte_width
    return next((w for w in _WIDTHS if whole and math.gcd(whole, aligned) % w == 0), 0)


def side_by_side(p: Product, side: str) -> int:
    """Return of how many neighbours in memory all groups are that an operand consists of.

    A group is all inside the product or all outside, and begins at a multiple of its size. 0: there
    are none.
    """
    near, far = p.k, p.free(side)
    if not runs_along_k(p, side):
        near, far = far, near
    if not near or near[-1].stride(side) != 1 or near[-1].name:
        return 0
    others = [d.stride(side) for d in (*near[:-1], *far, *p.batch)]
    return math.gcd(near[-1].size, p.source(side).offset, *others)


def runs_along_k(p: Product, side: str) -> bool:
    """True where neighbours along k are closer in an operand's memory than those along m or n."""

    def step(dims: Dims) -> int:
        return min((abs(s) for d in dims if d.size > 1 and (s := d.stride(side))), default=1 << 62)

    return step(p.k) <= step(p.free(side))


@dataclass(frozen=True)
class Own:
    """An element that a thread copies: its index along m or n in the tile, that in the product, and
    its index along k in the tile."""

    free: Index
    place: Place
    depth: Index


class Tiles(Stager):
    """What tiles of an operand are made by some threads.

    checks_free, checks_k: whether a tile may reach beyond the product.
    """

    def __init__(
        self, k: Kernel, block: Block, p: Product, side: str, share: Share, layout: TileLayout,
        slots: Slots, et: ElementType, threads: int,
    ) -> None:  # fmt: skip
        self.k, self.p, self.share, self.et = k, p, share, et
        self.layout, self.slots, self.threads = layout, slots, threads
        self.side, self.operand = side, Operand(k, p, side, et)
        self.thread = block.thread_index()
        self.dims = p.free(side)
        # Neighbouring threads copy neighbours in memory, however a tile lies.
        self.along_k = runs_along_k(p, side)
        self.first = share.row if side == "a" else share.column
        self.checks_free = count(self.dims) % layout.free != 0
        self.checks_k = count(p.k) % layout.depth != 0

    def places(self, width: int) -> list[Own]:
        """Return which elements are the thread's, every `width`-th of the innermost dimension."""
        return [self.place(n, width) for n in range(self.number(width))]

    def number(self, width: int) -> int:
        """Return how many of these there are."""
        layout = self.layout
        return -(-layout.free * layout.depth // (width * self.threads))

    @contextmanager
    def in_turns(self, width: int, most: int) -> Iterator[list[Own]]:
        """Run code for some of these at a time, so many at the most, in a loop."""
        total = self.number(width)
        together = math.gcd(most, total)
        with self.k.b.loop(0, total, together, plain=True) as turn:
            yield [self.place(self.k.b.add(turn, n), width) for n in range(together)]

    def place(self, number: Index, width: int) -> Own:
        """Return one of these."""
        b, layout = self.k.b, self.layout
        across = (layout.depth if self.along_k else layout.free) // width
        if self.threads % across == 0:
            line = b.add(b.udiv(self.thread, across), b.mul(number, self.threads // across))
            along = b.urem(self.thread, across)
        else:
            at = b.add(self.thread, b.mul(number, self.threads))
            line, along = b.udiv(at, across), b.urem(at, across)
        along = b.mul(along, width)
        free, depth = (line, along) if self.along_k else (along, line)
        place = place_at(b, self.dims, b.add(self.first, free), is_checked=self.checks_free)
        return Own(free, place, depth)

    def inner(self, first: Index, depth: Index) -> Place:
        return place_at(self.k.b, self.p.k, self.k.b.add(first, depth), is_checked=self.checks_k)


class CopiedTiles(Tiles):
    """Tiles that are copied as they are, some bytes at a time, while the threads go on."""

    def __init__(
        self, k: Kernel, block: Block, p: Product, side: str, share: Share, layout: TileLayout,
        slots: Slots, et: ElementType, threads: int, width: int,
    ) -> None:  # fmt: skip
        super().__init__(k, block, p, side, share, layout, slots, et, threads)
        self.width = width
        # What is left over would be copied into the next tile.
        assert layout.free * layout.depth * et.byte_width >= width * threads
        is_short = self.number(self.together) <= _MOST_COPIES
        self.own = self.places(self.together) if is_short else []

    @property
    def together(self) -> int:
        """The elements of a copy."""
        return self.width // self.et.byte_width

    def begin(self, first: Index, slot: Index) -> None:
        b = self.k.b
        to = self.slots.address(b, slot)
        for own in self.own:
            self._copy(own, first, to)
        if not self.own:
            with self.in_turns(self.together, _MOST_COPIES // 2) as some:
                for own in some:
                    self._copy(own, first, to)

    def _copy(self, own: Own, first: Index, to: str) -> None:
        """Begin to copy some elements. to: where the tile is."""
        b = self.k.b
        inner = self.inner(first, own.depth)
        at, inside = self.operand.position(self.share.batch, own.place, inner)
        if inside != TRUE:
            at = b.select(inside, i64(at), i64(0)).name
        source = b.element_address(self.operand.base, scalar.memory_type(self.et), at)
        target = b.element_address(to, "i8", self.layout.at(b, own.free, own.depth))
        copy_async(b, target, source, self.width, inside)

    def finish(self, slot: Index) -> None:
        """What is copied needs no further help."""


class LoadedTiles(Tiles):
    """Tiles whose elements are loaded, or computed.

    A thread does that for some neighbours in memory, so many as it can store at a time: that makes
    wide loads of what they are computed from, too.
    """

    def __init__(
        self, k: Kernel, block: Block, p: Product, side: str, share: Share, layout: TileLayout,
        slots: Slots, et: ElementType, threads: int,
    ) -> None:  # fmt: skip
        super().__init__(k, block, p, side, share, layout, slots, et, threads)
        self.width = self._width()
        ahead = _AHEAD if self.operand.source.et is et else _AHEAD // 2
        self.most = max(1, ahead * min(2, self.width) // self.width)
        self.own = self.places(self.width) if self.number(self.width) <= self.most else []
        self.loaded: list[list[Val]] = []
        self.from_k: Index = 0

    def _width(self) -> int:
        """Return how many neighbours a thread loads and stores."""
        layout, source = self.layout, self.operand.source
        each = layout.free * layout.depth
        if layout.along_k != self.along_k or each % self.threads:
            return 1
        line = 0
        if isinstance(source.memory, Computed):
            shape = source.memory.instruction(self.k.inst).array_shape
            line = shape.dims[loop_order(shape)[-1]]
        most = math.gcd(CHUNK // self.et.byte_width, each // self.threads, layout.inner)
        return math.gcd(most, line, side_by_side(self.p, self.side) or 1)

    def begin(self, first: Index, slot: Index) -> None:
        self.from_k = first
        self.loaded = [self._load(own) for own in self.own]

    def finish(self, slot: Index) -> None:
        b = self.k.b
        to = self.slots.address(b, slot)
        if self.own:
            self._store(to, self.own, self.loaded)
            return
        # There are too many for registers: some after others.
        with self.in_turns(self.width, self.most) as own:
            self._store(to, own, [self._load(each) for each in own])

    def _load(self, own: Own) -> list[Val]:
        inner = self.inner(self.from_k, own.depth)
        return self.operand.bits_at(self.share.batch, own.place, inner, self.width)

    def _store(self, to: str, own: Sequence[Own], values: Sequence[Sequence[Val]]) -> None:
        b, size = self.k.b, self.et.byte_width
        for each, group in zip(own, values, strict=True):
            at = b.element_address(to, "i8", self.layout.at(b, each.free, each.depth))
            for n, value in enumerate(group):
                # What is known to be aligned becomes one store.
                aligned = 0 if n else self.width * size
                b.store(value, b.element_address(at, "i8", n * size), aligned)


def tiles_of(
    k: Kernel, block: Block, p: Product, side: str, share: Share, layout: TileLayout,
    slots: Slots, et: ElementType, threads: int, aligned: int,
) -> Tiles:  # fmt: skip
    """Return what makes the tiles of an operand. aligned: what its address is a multiple of."""
    width = copied_width(p, side, et, aligned)
    if width and layout.along_k == runs_along_k(p, side):
        return CopiedTiles(k, block, p, side, share, layout, slots, et, threads, width)
    return LoadedTiles(k, block, p, side, share, layout, slots, et, threads)


# --- cp.async -----------------------------------------------------------------------------------


def copy_async(b: Builder, target: str, source: str, width: int, inside: Val) -> None:
    """Begin to copy so many bytes to shared memory, or zeros where they are not inside."""
    # What is read once, in whole chunks, need not be in the first-level cache.
    name = f"llvm.nvvm.cp.async.{'cg' if width == CHUNK else 'ca'}.shared.global.{width}"
    places = ((target, "ptr addrspace(3)"), (source, "ptr addrspace(1)"))
    args = [b.cast("addrspacecast", Val("ptr", address), space) for address, space in places]
    if inside != TRUE:
        name += ".s"
        args.append(b.select(inside, i32(width), i32(0)))
    b.module.declare(name, "void", [a.type for a in args], "nounwind")
    b.call_void(name, args)


def commit_copies(b: Builder) -> None:
    """End the group of copies that have been begun since the last one."""
    name = "llvm.nvvm.cp.async.commit.group"
    b.module.declare(name, "void", [], "nounwind")
    b.call_void(name, [])


def wait_for_copies(b: Builder, pending: int) -> None:
    """Wait until all groups of copies but the last so many are done."""
    name = "llvm.nvvm.cp.async.wait.group"
    b.module.declare(name, "void", ["i32 immarg"], "nounwind")
    b.call_void(name, [int_const(32, pending)])
