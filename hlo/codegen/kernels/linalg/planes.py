"""Matrices in the workspace: real ones in one plane, complex ones in two.

The workspace has f32 or f64, row after row, each padded to whole vectors, so that loops over rows
need no remainder. Elements beyond a row's end never affect a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.microkernels import Microkernel, block_function
from hlo.codegen.kernels.matmul.microkernels.outer_product import outer_product
from hlo.codegen.llvm import TRUE, Builder, Index, Val, i64, ptr
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.loops.vectors import vector_at
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.codegen.targets.base import Target
from hlo.llvm import vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType, complex_part

# One value in each plane: scalars or vectors.
Parts = list[Val]


@dataclass(frozen=True)
class Field:
    """The arithmetic of an algorithm.

    et: the element type of operands and results. part: f32 or f64.
    """

    et: ElementType
    part: ElementType
    lanes: int

    @staticmethod
    def of(et: ElementType, target: Target) -> Field:
        """Return the arithmetic for an element type: in f32 for narrower ones."""
        part = complex_part(et)
        if part.bits < 32:
            part = ELEMENT_TYPES["f32"]
        return Field(et, part, max(1, target.vector_bits // part.bits))

    @property
    def planes(self) -> int:
        return 2 if self.et.is_complex else 1

    @property
    def bytes(self) -> int:
        return self.part.bits // 8

    @property
    def type(self) -> str:
        return scalar.memory_type(self.part)

    @property
    def vector(self) -> str:
        return vector_type(self.lanes, self.type)

    def parts(self, b: Builder, value: Value) -> Parts:
        """Convert an element to the arithmetic's numbers."""
        if isinstance(value, Cplx):
            return [value.re, value.im]
        wide = scalar.convert(b, value, self.et, self.part)
        assert isinstance(wide, Val)
        return [wide]

    def value(self, b: Builder, parts: Parts) -> Value:
        """Convert the arithmetic's numbers to an element."""
        if self.planes == 2:
            return Cplx(*parts)
        return scalar.convert(b, parts[0], self.part, self.et)

    def microkernel(self, target: Target, columns: int) -> Microkernel:
        """Return the microkernel for updates of a number of columns."""
        vectors = 1 if columns <= self.lanes else 2
        registers = target.vector_registers - 1 - vectors
        rows = max(1, min(12, (registers - 1) // vectors))
        return outer_product(target, self.part, rows, vectors)


@dataclass(frozen=True)
class WorkMatrix:
    """A matrix in the workspace.

    base: address of the first element of the first plane; pitch: distance of rows; plane: of
    planes, all in elements.
    """

    field: Field
    base: str
    pitch: int
    plane: int

    def at(self, b: Builder, row: Index, column: Index) -> Index:
        return b.add(b.mul(row, self.pitch), column)

    def address(self, b: Builder, row: Index, column: Index, plane: int = 0) -> str:
        at = b.add(self.at(b, row, column), plane * self.plane)
        return b.element_address(self.base, self.field.type, at)

    def load(self, b: Builder, row: Index, column: Index) -> Parts:
        """Return an element."""
        t = self.field.type
        return [b.load(t, self.address(b, row, column, p)) for p in range(self.field.planes)]

    def store(self, b: Builder, parts: Sequence[Val], row: Index, column: Index) -> None:
        for p, part in enumerate(parts):
            b.store(part, self.address(b, row, column, p))

    def vector(self, b: Builder, row: Index, column: Index) -> Parts:
        """Return the elements from a column on."""
        f = self.field
        return [
            vector_at(
                b, f.vector, self.base, f.type, b.add(self.at(b, row, column), p * self.plane)
            )
            for p in range(f.planes)
        ]

    def store_vector(self, b: Builder, parts: Parts, row: Index, column: Index) -> None:
        for p, part in enumerate(parts):
            address = self.address(b, row, column, p)
            b.store(part, address, align=self.field.bytes)


def spread(b: Builder, field: Field, parts: Parts) -> Parts:
    """Broadcast a number to all lanes."""
    return [b.splat(p, field.lanes) for p in parts]


def multiply_add(b: Builder, x: Parts, y: Parts, total: Parts) -> Parts:
    """Return x * y + total."""

    def plus(p: Val, q: Val, t: Val, sign: str = "add") -> Val:
        product = b.binary("fmul", p, q, "contract")
        return b.binary(f"f{sign}", t, product, "contract")

    if len(x) == 1:
        return [plus(x[0], y[0], total[0])]
    (a, c), (d, e) = x, y
    return [plus(c, e, plus(a, d, total[0]), "sub"), plus(c, d, plus(a, e, total[1]))]


def negated(b: Builder, parts: Parts) -> Parts:
    """Return -x."""
    return [b.unary("fneg", p) for p in parts]


def conjugate(b: Builder, parts: Parts) -> Parts:
    """Return x with the imaginary part, where there is one, negated."""
    return [parts[0], *negated(b, parts[1:])]


class Divisor:
    """A number to divide vectors by. Complex ones are scaled first, so that nothing overflows."""

    def __init__(self, b: Builder, field: Field, parts: Parts) -> None:
        self._b = b
        if len(parts) == 1:
            self._parts = spread(b, field, parts)
            return
        t, (c, d) = parts[0].type, parts
        big = [b.intrinsic("fabs", t, [x]) for x in parts]
        real = b.fcmp("oge", big[0], big[1])
        one, zero = (scalar.constant(field.part, field.part.dtype.type(x)) for x in (1, 0))
        assert isinstance(one, Val) and isinstance(zero, Val)
        large, small = b.select(real, c, d), b.select(real, d, c)
        none = b.fcmp("oeq", large, zero)
        ratio = b.select(none, zero, b.binary("fdiv", small, large))
        product = b.binary("fmul", small, ratio, "contract")
        whole = b.binary("fadd", large, product, "contract")
        p, q = b.select(real, one, ratio), b.select(real, ratio, one)
        self._parts = spread(b, field, [p, q, b.select(none, big[0], whole)])

    def divide(self, x: Parts) -> Parts:
        """Return vectors divided by the number."""
        b = self._b
        if len(x) == 1:
            return [b.binary("fdiv", x[0], self._parts[0])]
        p, q, whole = self._parts

        def times(v: Val, w: Val) -> Val:
            return b.binary("fmul", v, w, "contract")

        re = b.binary("fadd", times(x[0], p), times(x[1], q), "contract")
        im = b.binary("fsub", times(x[1], p), times(x[0], q), "contract")
        return [b.binary("fdiv", v, whole) for v in (re, im)]


def update(
    k: Kernel,
    kernel: Microkernel,
    left: WorkMatrix,
    right: WorkMatrix,
    target: WorkMatrix,
    *,
    rows: tuple[Index, Index],
    inner: tuple[Index, Index],
    columns: tuple[Index, Index],
) -> None:
    """Add to rows of `target` the products of a block of `left` with rows of `right`.

    target[i, j] += sum over kk in `inner` of left[kk, i] * right[kk, j], for i in `rows` and j in
    `columns`. `left` has a third plane where there are two: minus the second.
    """
    b, f = k.b, target.field
    # Blocks are small.
    block = block_function(b.module, kernel, is_light=True)
    (i0, i1), (k0, k1), (j0, j1) = rows, inner, columns
    count, depth, width = b.sub(i1, i0), b.sub(k1, k0), b.sub(j1, j0)
    products = [(0, 0, 0)] if f.planes == 1 else [(0, 0, 0), (2, 1, 0), (0, 1, 1), (1, 0, 1)]
    for p, q, r in products:
        b.call_void(
            block,
            [
                ptr(left.address(b, k0, i0, p)), i64(1), i64(left.pitch), i64(count),
                ptr(right.address(b, k0, j0, q)), i64(right.pitch), i64(kernel.nr), i64(width),
                i64(depth), ptr(target.address(b, i0, j0, r)), i64(target.pitch), TRUE,
            ],
        )  # fmt: skip


def over_vectors(
    b: Builder, field: Field, first: Index, last: Index, body: Callable[[str], None]
) -> None:
    """Emit the body for each vector with a column in [first, last)."""
    start = b.mul(b.udiv(first, field.lanes), field.lanes)
    with b.loop(start, last, field.lanes, plain=True) as j:
        body(j)
