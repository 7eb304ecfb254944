"""A row times a matrix that is read once: long runs of several of its rows at a time.

That is how memory is read fastest. Sums are in a first-level cache; narrow elements are converted
in registers, since to pack them would take longer than to multiply them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo.codegen.kernels.matmul.microkernels.record import (
    Microkernel,
    PanelFormat,
    PanelOrder,
    Writes,
)
from hlo.codegen.kernels.matmul.microkernels.registry import family
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.vectors import Types, lanes_of, vector_at
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type
from hlo.values.types import ElementType

# Vectors of a tile, and rows of the matrix that are read at a time.
_VECTORS, _ROWS = (32, 8), 8


@family
def streaming(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for columns of the type of sums or a narrower one."""
    if rhs is not total and not (8 <= rhs.bits < total.bits and _converts(target, rhs, total)):
        return
    lanes = lanes_of(target, total)
    for vectors in _VECTORS:
        yield Microkernel(
            name=f"stream.{total}.{rhs}.1x{vectors}x{lanes}",
            mr=1,
            nr=vectors * lanes,
            kr=1,
            lhs=PanelFormat(total, PanelOrder.ANY),
            rhs=PanelFormat(rhs, PanelOrder.K_OUTERMOST, is_padded=True),
            total=total,
            # Less than that of registers, whose runs are short.
            cycles=0.9 * vectors,
            tile_cycles=30 + 3 * vectors,
            emit=_emit_tile,
            writes=Writes.ROWS,
            lanes=lanes,
            m=range(1, 2),
        )


def _converts(target: LlvmTarget, source: ElementType, total: ElementType) -> bool:
    """True when vectors of a type are converted to that of sums."""
    if source.is_integer or total.is_integer:
        return source.is_integer
    return source.name in ("bf16", "f32") or (source.name == "f16" and target.has_half_conversion)


def _emit_tile(b: Builder, kernel: Microkernel) -> None:
    s, align, lanes = kernel.arithmetic.type, kernel.arithmetic.bytes, kernel.lanes
    vector = vector_type(lanes, s)
    types = Types.of(kernel.rhs.element, kernel.total)
    element = scalar.memory_type(kernel.rhs.element)
    sums = b.alloca(s, kernel.nr, align=64).name
    zero = Val(vector, "zeroinitializer")

    with b.loop(0, kernel.nr, lanes, plain=True) as j:
        b.store(zero, b.element_address(sums, s, j), align=align)

    def add(first: Index, rows: int) -> None:
        """Add the products of some rows of B to the sums."""
        places = [b.add(first, i) for i in range(rows)]
        left = [b.element_address("%a", s, b.mul(i, "%a_k")) for i in places]
        factors = [b.splat(b.load(s, at), lanes) for at in left]
        lines = [b.element_address("%b", element, b.mul(i, "%b_k")) for i in places]
        with b.loop(0, kernel.nr, lanes, plain=True) as j:
            at = b.element_address(sums, s, j)
            total = b.load(vector, at, align=align)
            for factor, line in zip(factors, lines, strict=True):
                raw = vector_at(b, vector_type(lanes, element), line, element, j)
                total = kernel.arithmetic.multiply_add(b, factor, types.convert(b, raw), total)
            b.store(total, at, align=align)

    whole = b.mul(b.udiv("%k", _ROWS), _ROWS)
    with b.loop(0, whole, _ROWS, plain=True) as k:
        add(k, _ROWS)
    with b.loop(whole, "%k", plain=True) as k:
        add(k, 1)

    with b.loop(0, kernel.nr, lanes, plain=True) as j:
        new = b.load(vector, b.element_address(sums, s, j), align=align)

        def added(j: str = j, new: Val = new) -> Sequence[Val]:
            return [kernel.arithmetic.add(b, vector_at(b, vector, "%c", s, j), new)]

        def alone(new: Val = new) -> Sequence[Val]:
            return [new]

        (done,) = b.choose(Val("i1", "%more"), added, alone)
        b.store(done, b.element_address("%c", s, j), align=align)
