"""Matrix products: packed panels and a register-tiled microkernel.

A product is `C[b,m,n] = sum over k of A[b,m,k] * B[b,k,n]`, where each of b, m, n, k is a run of
dimensions. The microkernel keeps a tile of `rows x (vectors * lanes)` of C in registers and runs
over all of k; what differs is where it reads:
  - A straight from the operand, when its elements are what the kernel computes in and lie at
    constant strides; else from strips of `rows` that a first step packs, k outside, rows inside;
  - B likewise, when n is contiguous and the panel is small or read once; else from packed strips.
When k is contiguous in both and one side is narrow, the sums run along k in vectors instead, and
nothing is packed. Every element of C is one sum in order of k (or of the lanes of k), whatever the
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hlo.codegen import scalar
from hlo.codegen.element import Indices
from hlo.codegen.fusion import Role
from hlo.codegen.kernel import Extent, Kernel, KernelEmitter, Plan, split_index
from hlo.codegen.llvm import Builder, Index, Module, Val
from hlo.codegen.target import Target
from hlo.ir import Instruction
from hlo.types import ELEMENT_TYPES, ArrayShape, ElementType

# A right-hand side up to this many bytes is read in place: it stays in the second-level cache.
_IN_PLACE_BYTES = 256 * 1024
_FIRST_CACHE_BYTES = 32 * 1024


@dataclass(frozen=True)
class Side:
    """One operand: its dimensions by role, in the order in which their product is counted."""

    inst: Instruction
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]

    @property
    def shape(self) -> ArrayShape:
        assert isinstance(self.inst.shape, ArrayShape)
        return self.inst.shape

    def size(self, dims: Sequence[int]) -> int:
        return math.prod(self.shape.dims[d] for d in dims)

    def indices(self, b: Builder, batch: Index, free: Index, k: Index) -> Indices:
        """Return the operand's indices at a place of the product."""
        result: list[Index] = [0] * self.shape.rank
        for dims, at in ((self.batch, batch), (self.free, free), (self.contracted, k)):
            parts = split_index(b, at, [self.shape.dims[d] for d in dims]) if dims else []
            for d, i in zip(dims, parts, strict=True):
                result[d] = i
        return tuple(result)

    def stride(self, dims: Sequence[int]) -> int | None:
        """Return the distance in elements between neighbours of a run of dims, if constant."""
        strides = element_strides(self.shape)
        wide = [d for d in dims if self.shape.dims[d] != 1]
        if not wide:
            return 0
        for outer, inner in pairwise(wide):
            if strides[outer] != strides[inner] * self.shape.dims[inner]:
                return None
        return strides[wide[-1]]


def element_strides(shape: ArrayShape) -> list[int]:
    """Return the distance in elements between neighbours of each dimension."""
    assert shape.layout is not None
    strides, step = [0] * shape.rank, 1
    for d in shape.layout.minor_to_major:
        strides[d] = step
        step *= shape.dims[d]
    return strides


@dataclass(frozen=True)
class Product:
    """A product to compute. `swapped`: A is the right operand, so that C is counted n before m."""

    a: Side
    b: Side
    et: ElementType  # what sums are kept in
    swapped: bool

    @property
    def batch(self) -> int:
        return self.a.size(self.a.batch)

    @property
    def m(self) -> int:
        return self.a.size(self.a.free)

    @property
    def n(self) -> int:
        return self.b.size(self.b.free)

    @property
    def k(self) -> int:
        return self.a.size(self.a.contracted)

    def result(self, b: Builder, shape: ArrayShape, at: tuple[Index, Index, Index]) -> Indices:
        """Return the indices in the result of the place (batch, m, n)."""
        batch, m, n = at
        left, right = (self.b, self.a) if self.swapped else (self.a, self.b)
        i, j = (n, m) if self.swapped else (m, n)
        parts: list[Index] = []
        for side, dims, index in (
            (left, left.batch, batch), (left, left.free, i), (right, right.free, j),
        ):  # fmt: skip
            if dims:
                parts += split_index(b, index, [side.shape.dims[d] for d in dims])
        assert len(parts) == shape.rank
        return tuple(parts)


def product_of(inst: Instruction) -> Product:
    """Return a dot as a product, the side with more free elements as B when the other is small."""
    lhs, rhs = inst.operands
    assert isinstance(inst.shape, ArrayShape)
    attrs = inst.attrs
    sides = []
    for operand, name in ((lhs, "lhs"), (rhs, "rhs")):
        shape = operand.shape
        assert isinstance(shape, ArrayShape)
        batch, contracted = attrs[f"{name}_batch_dims"], attrs[f"{name}_contracting_dims"]
        free = tuple(d for d in range(shape.rank) if d not in batch and d not in contracted)
        sides.append(Side(operand, tuple(batch), free, tuple(contracted)))
    product = Product(sides[0], sides[1], sum_type(inst.shape.element_type), False)
    b = product.b
    flipped = replace(product, a=product.b, b=product.a, swapped=True)
    # Vectors run along n of B: where only the left operand is contiguous that way, swap.
    straight, other = b.stride(b.free) in (0, 1), flipped.b.stride(flipped.b.free) in (0, 1)
    if product.n == 1 or (not straight and other and product.m >= product.n):
        return flipped
    return product


def sum_type(et: ElementType) -> ElementType:
    """Return the type that sums are kept in: f32 for narrower floats, others themselves."""
    if et.is_float and et.bits < 32:
        return ELEMENT_TYPES["f32"]
    return et


@dataclass(frozen=True)
class Tiling:
    """The microkernel's tile, and which operands are packed."""

    rows: int
    vectors: int
    lanes: int
    pack_a: bool
    pack_b: bool

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def in_place(side: Side, et: ElementType, roles: Mapping[Instruction, Role]) -> bool:
    """True when the microkernel can read an operand itself: in memory, of the type, at strides."""
    return (
        roles[side.inst] is not Role.FUSED
        and roles[side.inst] is not Role.SCALAR
        and side.shape.element_type is et
        and side.stride(side.free) is not None
        and side.stride(side.contracted) is not None
    )


def tiling_of(p: Product, roles: Mapping[Instruction, Role], target: Target) -> Tiling:
    """Choose the tile for a product on a target."""
    lanes = max(1, target.vector_bits // max(p.et.bits, 8))
    accumulators = 24 if target.vector_registers >= 32 else 12
    rows_most = 12 if target.vector_registers >= 32 else 6
    rows = min(p.m, rows_most)
    vectors = max(1, min(8, accumulators // rows, -(-p.n // lanes)))
    # Rows of an operand in place lie far apart: where a large one is read many times over, the
    # strips of a packed copy are worth their making (rows a power of two apart share few cache
    # lines).
    reread = p.n >= 4 * vectors * lanes and p.m * p.k * p.et.bits // 8 > _FIRST_CACHE_BYTES
    pack_a = not in_place(p.a, p.et, roles) or reread
    small = p.k * p.n * p.et.bits // 8 <= _IN_PLACE_BYTES or p.m <= rows
    direct = in_place(p.b, p.et, roles) and p.b.stride(p.b.free) == 1
    exact = p.n % (vectors * lanes) == 0
    return Tiling(rows, vectors, lanes, pack_a, not (direct and small and exact))


def plan_product(p: Product, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Return the steps of a product: pack what needs it, then multiply."""
    t = tiling_of(p, roles, target)
    width = scalar_bytes(p.et)
    steps: list[KernelEmitter] = []
    scratch: list[int] = []
    if t.pack_a:
        scratch.append(p.batch * -(-p.m // t.rows) * t.rows * p.k * width)
        steps.append(_Pack(p, t, "a", len(scratch) - 1))
    if t.pack_b:
        scratch.append(p.batch * -(-p.n // t.columns) * t.columns * p.k * width)
        steps.append(_Pack(p, t, "b", len(scratch) - 1))
    steps.append(_Multiply(p, t))
    return Plan(tuple(steps), tuple(max(1, s) for s in scratch))


def scalar_bytes(et: ElementType) -> int:
    return max(1, et.bits // 8)


@dataclass(frozen=True)
class _Pack:
    """Copies an operand into strips `[batch][strip][k][width]`, the last filled with zeros."""

    p: Product
    t: Tiling
    which: str
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        b, p = k.b, self.p
        side, width = (p.a, self.t.rows) if self.which == "a" else (p.b, self.t.columns)
        count = side.size(side.free)
        strips = -(-count // width)
        target = k.scratch[self.scratch]
        mem = scalar.memory_type(p.et)
        zero = scalar.constant(p.et, p.et.dtype.type(0))
        # The inner loop follows what is contiguous in the operand.
        k_inside = side.stride(side.contracted) == 1
        with b.loop(k.begin, k.end) as at:
            batch, strip = split_index(b, at, [p.batch, strips])
            first = b.mul(strip, width)
            base = b.element_address(target, mem, b.mul(at, p.k * width))

            def copy(kk: Index, i: Index) -> None:
                value = k.elements.at(side.inst, side.indices(b, batch, b.add(first, i), kk))
                value = scalar.convert(b, value, side.shape.element_type, p.et)
                scalar.store(b, p.et, value, base, b.add(b.mul(kk, width), i))

            here = b.minimum(width, b.sub(count, first))
            if k_inside:
                with b.loop(0, here) as i, b.loop(0, p.k, plain=True) as kk:
                    copy(kk, i)
            else:
                with b.loop(0, p.k) as kk, b.loop(0, here) as i:
                    copy(kk, i)
            if count % width:
                with b.loop(0, p.k) as kk, b.loop(here, width, plain=True) as i:
                    scalar.store(b, p.et, zero, base, b.add(b.mul(kk, width), i))
        return Extent(p.batch * strips, p.k * width)


@dataclass(frozen=True)
class _Multiply:
    """Computes C tile by tile; threads share the tiles."""

    p: Product
    t: Tiling

    def __call__(self, k: Kernel) -> Extent:
        b, p, t = k.b, self.p, self.t
        mem = scalar.memory_type(p.et)
        n_strips, m_strips = -(-p.n // t.columns), -(-p.m // t.rows)
        # Strips of A that share one strip of B while it is in the cache.
        group = min(m_strips, max(1, 96 // t.rows))
        groups = -(-m_strips // group)
        tile = b.alloca(mem, t.rows * t.columns, align=64)
        with b.loop(k.begin, k.end) as at:
            batch, rest = split_index(b, at, [p.batch, n_strips * groups])
            n_strip, group_at = split_index(b, rest, [n_strips, groups])
            n0 = b.mul(n_strip, t.columns)
            first = b.mul(group_at, group)
            last = b.minimum(b.add(first, group), m_strips)
            with b.loop(first, last) as m_strip:
                m0 = b.mul(m_strip, t.rows)
                self._tile(k, tile, batch, m_strip, n_strip, m0, n0)
                rows_here = b.minimum(t.rows, b.sub(p.m, m0))
                columns_here = b.minimum(t.columns, b.sub(p.n, n0))
                with b.loop(0, rows_here) as i, b.loop(0, columns_here) as j:
                    value = scalar.load(b, p.et, tile.name, b.add(b.mul(i, t.columns), j))
                    value = scalar.convert(b, value, p.et, k.shape.element_type)
                    place = p.result(b, k.shape, (batch, b.add(m0, i), b.add(n0, j)))
                    k.store(value, place)
        return Extent(
            p.batch * n_strips * groups, group * t.rows * t.columns * max(p.k, 1) / t.lanes
        )

    def _tile(
        self,
        k: Kernel,
        tile: Val,
        batch: Index,
        m_strip: Index,
        n_strip: Index,
        m0: Index,
        n0: Index,
    ) -> None:
        """Call the microkernel for the tile at (m0, n0)."""
        b, p, t = k.b, self.p, self.t
        s = scalar.memory_type(p.et)
        scratch = iter(k.scratch)
        rows: Index = t.rows
        if t.pack_a:
            strips = -(-p.m // t.rows)
            at = b.mul(b.add(b.mul(batch, strips), m_strip), p.k * t.rows)
            a_base, a_row, a_k = b.element_address(next(scratch), s, at), 1, t.rows
        else:
            a_base, a_row, a_k = self._origin(k, p.a, batch, m0)
            rows = b.minimum(t.rows, b.sub(p.m, m0))
        if t.pack_b:
            strips = -(-p.n // t.columns)
            at = b.mul(b.add(b.mul(batch, strips), n_strip), p.k * t.columns)
            b_base, b_k = b.element_address(next(scratch), s, at), t.columns
        else:
            b_base, _, b_k = self._origin(k, p.b, batch, n0)
        name = microkernel(b.module, p.et, t.rows, t.vectors, t.lanes)
        b.write(
            f"call void @{name}(ptr {a_base}, i64 {a_row}, i64 {a_k}, i64 {rows}, "
            f"ptr {b_base}, i64 {b_k}, i64 {p.k}, ptr {tile.name})"
        )

    def _origin(self, k: Kernel, side: Side, batch: Index, free: Index) -> tuple[str, int, int]:
        """Return the address of an operand's element (batch, free, 0) and its two strides."""
        b = k.b
        strides = element_strides(side.shape)
        at: Index = 0
        if side.batch:
            parts = split_index(b, batch, [side.shape.dims[d] for d in side.batch])
            for d, i in zip(side.batch, parts, strict=True):
                at = b.add(at, b.mul(i, strides[d]))
        row, step = side.stride(side.free), side.stride(side.contracted)
        assert row is not None and step is not None
        at = b.add(at, b.mul(free, row))
        mem = scalar.memory_type(side.shape.element_type)
        return b.element_address(k.pointer(side.inst), mem, at), row, step


def microkernel(module: Module, et: ElementType, rows: int, vectors: int, lanes: int) -> str:
    """Return the name of the function that computes one tile, adding it to the module.

    `void f(a, a_row, a_k, rows_here, b, b_k, k, tile)`: the sum over k of the products of column k
    of A and row k of B, strides in elements. Rows from rows_here on repeat the last one, so that
    nothing beyond A is read. It depends on no shape: a module has one for each tile size.
    """
    name = f"tile.{et}.{rows}x{vectors}x{lanes}"
    if name in module.functions:
        return name
    b = Builder(module)
    s = scalar.memory_type(et)
    vector, align = f"<{lanes} x {s}>", scalar_bytes(et)
    zero = Val(vector, "zeroinitializer")
    slots = [[b.alloca(vector, align=64) for _ in range(vectors)] for _ in range(rows)]
    for row in slots:
        for slot in row:
            b.write(f"store {zero}, ptr {slot.name}")
    last = b.sub("%rows", 1)
    bases = [b.element_address("%a", s, b.mul(b.minimum(i, last), "%a_row")) for i in range(rows)]
    with b.loop(0, "%k") as kk:
        columns = []
        from_b = b.mul(kk, "%b_k")
        for j in range(vectors):
            address = b.element_address("%b", s, b.add(from_b, j * lanes))
            columns.append(b.effect(vector, f"load {vector}, ptr {address}, align {align}"))
        from_a = b.mul(kk, "%a_k")
        for base, row in zip(bases, slots, strict=True):
            one = b.effect(s, f"load {s}, ptr {b.element_address(base, s, from_a)}")
            splat = splat_of(b, one, lanes)
            for slot, column in zip(row, columns, strict=True):
                total = b.effect(vector, f"load {vector}, ptr {slot.name}")
                total = multiply_add(b, splat, column, total, et.is_float)
                b.write(f"store {total}, ptr {slot.name}")
    for i, row in enumerate(slots):
        for j, slot in enumerate(row):
            total = b.effect(vector, f"load {vector}, ptr {slot.name}")
            address = b.element_address("%tile", s, i * vectors * lanes + j * lanes)
            b.write(f"store {total}, ptr {address}, align {align}")
    b.write("ret void")
    module.functions[name] = b.finish(
        f"define internal void @{name}(ptr readonly %a, i64 %a_row, i64 %a_k, i64 %rows, "
        f"ptr readonly %b, i64 %b_k, i64 %k, ptr noalias %tile) noinline nounwind"
    )
    return name


def splat_of(b: Builder, value: Val, lanes: int) -> Val:
    """Return a vector with the value in every lane."""
    vector = f"<{lanes} x {value.type}>"
    first = b.op(vector, f"insertelement {vector} poison, {value}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    return b.op(vector, f"shufflevector {first}, {vector} poison, {zeros}")


def multiply_add(b: Builder, x: Val, y: Val, total: Val, is_float: bool) -> Val:
    """Return x * y + total."""
    f = "f" if is_float else ""
    note = " contract" if is_float else ""
    product = b.op(x.type, f"{f}mul{note} {x}, {y.name}")
    return b.op(x.type, f"{f}add{note} {total}, {product.name}")
