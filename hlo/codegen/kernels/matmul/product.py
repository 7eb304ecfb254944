"""Matrix products as loops over strided memory: what dots and convolutions have in common.

A product is `C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n]`. Each of batch, m, n
and k stands for several dimensions, the outermost first, with a stride in every array. An operand
may be read beyond its ends, where `Bound`s say that there are zeros: the padding of a convolution,
whose positions are dimensions of m and whose taps are dimensions of k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.llvm import Builder, Index
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar.operations import Value, memory_type
from hlo.ir import Instruction
from hlo.ops.rules import higher_precision
from hlo.values.layout.plain import loop_order
from hlo.values.types import ELEMENT_TYPES, ElementType, complex_part


@dataclass(frozen=True)
class Dim:
    """One dimension of the loops: its size, and its stride in each array, 0 where it has none.

    name: what bounds call it; a dimension without one may be merged with its neighbour.
    """

    size: int
    a: int = 0
    b: int = 0
    c: int = 0
    name: str = ""

    def stride(self, side: str) -> int:
        return int(getattr(self, side))


Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Bound:
    """Where an operand has elements in one dimension.

    That is where 0 <= free * step + tap * jump + low < size.
    free: the name of a dimension of m or n; tap: of one of k, of which `unit` elements count as one
    tap.
    """

    free: str
    tap: str
    step: int
    jump: int
    low: int
    size: int
    unit: int = 1


@dataclass(frozen=True)
class Leaf:
    """The buffer of what a kernel reads, by its number among `Inputs.leaves`."""

    number: int


@dataclass(frozen=True)
class Computed:
    """What is computed while it is packed; strides are those of an array of its layout.

    path: the numbers of operands that lead to it from the kernel's instruction.
    """

    path: tuple[int, ...]

    def instruction(self, root: Instruction) -> Instruction:
        """Return what is computed, from the kernel's instruction."""
        for number in self.path:
            root = root.operands[number]
        return root

    def run(self, k: Kernel, at: Index, types: Types) -> Callable[[Index], Value]:
        """Return what computes the elements of a run of the innermost dimension, by their number.

        at: where the first one is, in memory order. types: what elements pass through.
        """
        inst = self.instruction(k.inst)
        shape = inst.array_shape
        # A run is along the innermost dimension that has one.
        order = loop_order(shape) or list(range(shape.rank))[-1:]
        *outer, start = split_index(k.b, at, [shape.dims[d] for d in order])

        def element(j: Index) -> Value:
            where = dict(zip(order, [*outer, k.b.add(start, j)], strict=True))
            value = k.elements.at(inst, tuple(where.get(d, 0) for d in range(shape.rank)))
            return types.through(k.b, value)

        return element


@dataclass(frozen=True)
class Source:
    """An operand in memory: a leaf's buffer, or scratch memory by number; or a computed one.

    offset: of the element at index 0 of every dimension.
    """

    memory: Leaf | int | Computed
    et: ElementType
    offset: int = 0
    bounds: tuple[Bound, ...] = ()

    def address(self, k: Kernel) -> str:
        """Return the address of the element at index 0, which need not exist."""
        assert not isinstance(self.memory, Computed), "it is not in memory"
        if isinstance(self.memory, int):
            base = k.scratch[self.memory]
        else:
            base = k.pointer(k.inputs.leaves[self.memory.number])
        parts = 2 if self.et.is_complex else 1
        return k.b.element_address(base, memory_type(self.et), parts * self.offset)


@dataclass(frozen=True)
class Product:
    """A product to compute.

    store: the types that a sum passes through on its way to memory. is_whole: False where other
    products write elements of the same result between its own. exact: True where every product is
    one of the type of sums, of denormals too, which some units take for zero.
    """

    a: Source
    b: Source
    batch: Dims
    m: Dims
    n: Dims
    k: Dims
    arithmetic: Arithmetic
    store: Types
    c_offset: int = 0
    is_whole: bool = True
    exact: bool = False

    @property
    def key(self) -> str:
        """What its speed depends on: all but where operands come from."""

        def dims(name: str, found: Dims) -> str:
            texts = (f"{d.size}:{d.a},{d.b},{d.c}{d.name and ' ' + d.name}" for d in found)
            return f"{name}[{' '.join(texts)}]"

        def operand(source: Source) -> str:
            bounds = "".join(f" {b}" for b in source.bounds)
            made = " computed" if isinstance(source.memory, Computed) else ""
            return f"{source.et}+{source.offset}{made}{bounds}"

        p = self.simplified()
        sizes = ("batch", p.batch), ("m", p.m), ("n", p.n), ("k", p.k)
        types = f"{operand(p.a)} x {operand(p.b)} -> {p.arithmetic.total} -> {p.store}"
        types += " exact" * p.exact
        return " ".join(["product", types, *(dims(*s) for s in sizes)])

    def source(self, side: str) -> Source:
        return self.a if side == "a" else self.b

    def free(self, side: str) -> Dims:
        return self.m if side == "a" else self.n

    def flipped(self) -> Product:
        """Return the same product with the operands, and so m and n, in each other's place."""

        def turn(dims: Dims) -> Dims:
            return tuple(replace(d, a=d.b, b=d.a) for d in dims)

        return replace(
            self, a=self.b, b=self.a, batch=turn(self.batch), m=turn(self.n), n=turn(self.m),
            k=turn(self.k),
        )  # fmt: skip

    def simplified(self) -> Product:
        """Return the same product in the fewest dimensions, ordered as they lie in the result."""
        batch = sorted(self.batch, key=lambda d: -abs(d.c))
        m = sorted(self.m, key=lambda d: -abs(d.c))
        n = sorted(self.n, key=lambda d: -abs(d.c))
        return replace(
            self, batch=merged(batch, "abc"), m=merged(m, "ac"), n=merged(n, "bc"),
            k=merged(self.k, "ab"),
        )  # fmt: skip


def is_exact(inst: Instruction) -> bool:
    """True when an operand of a dot or convolution asks for more than the default precision."""
    return not {"high", "highest"}.isdisjoint(inst.operand_precision)


def offset_at(b: Builder, start: Index, dims: Dims, indices: Sequence[Index], side: str) -> Index:
    """Return where the element at some indices is in an array, from the one at index 0 of all."""
    for d, i in zip(dims, indices, strict=True):
        start = b.add(start, b.mul(i, d.stride(side)))
    return start


def count(dims: Sequence[Dim]) -> int:
    """Return the number of index tuples of some dimensions."""
    return math.prod(d.size for d in dims)


def merged(dims: Sequence[Dim], sides: str) -> Dims:
    """Return dimensions without those of size one, neighbours as one where all arrays allow it."""
    result: list[Dim] = []
    for d in dims:
        if d.size == 1 and not d.name:
            continue
        if result and not d.name and not result[-1].name:
            outer = result[-1]
            if all(outer.stride(s) == d.stride(s) * d.size for s in sides):
                result[-1] = replace(d, size=outer.size * d.size)
                continue
        result.append(d)
    return tuple(result)


def uniform_stride(dims: Sequence[Dim], side: str) -> int | None:
    """Return the distance between neighbours of a run of dimensions in an array, if constant."""
    stride: int | None = None
    for d in dims:
        if d.size == 1:
            continue
        inner = d.stride(side)
        if stride is not None and stride != inner * d.size:
            return None
        stride = inner
    return stride or 0


# --- arithmetic ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SumTypes:
    """How products of two element types are added up and stored.

    total: the type of sums, of their parts where `is_complex`.
    """

    total: ElementType
    is_complex: bool
    store: Types


def sums_of(lhs: ElementType, rhs: ElementType, result: ElementType) -> SumTypes:
    """Return the arithmetic of a contraction.

    Floats are summed in f32 or f64, integers in the type of the result, in which they wrap. A
    result that is no float gets what its operands' common type makes of the sum.
    """
    common = higher_precision(lhs, rhs)
    f32, f64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
    parts = [complex_part(common), complex_part(result)]
    if common.is_complex or common.is_float or result.is_float or result.is_complex:
        exact = common.is_integer and common.bits > 16
        total = f64 if exact or any(t.is_float and t.bits > 32 for t in parts) else f32
        through = [complex_part(common)] if result.is_integer else []
        # Complex products are stored as their parts; a real sum may become a complex number.
        last = complex_part(result) if common.is_complex else result
        return SumTypes(total, common.is_complex, Types.of(total, *through, last))
    if result.is_pred:
        total = _whole(common)
        return SumTypes(total, False, Types.of(total, common, result))
    total = _whole(result)
    return SumTypes(total, False, Types.of(total, result))


def _whole(et: ElementType) -> ElementType:
    """Return an integer type of at least a byte."""
    if et.is_pred or et.bits >= 8:
        return et
    return ELEMENT_TYPES["s8" if et.is_signed else "u8"]
