"""Products of two rows by two columns in one instruction: smmla, ummla, usmmla, bfmmla of AArch64.

A row, or a column, is eight bytes of k; a vector holds two of either, or the four sums. That of
bf16 takes denormals for zero and rounds sums to odd.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.codegen.kernels.matmul.microkernels.record import Microkernel, PanelFormat, PanelOrder
from hlo.codegen.kernels.matmul.microkernels.registry import family, suits
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.vectors import vector_at
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType

_S8, _U8, _BF16, _F32 = (ELEMENT_TYPES[name] for name in ("s8", "u8", "bf16", "f32"))
# By the types of panels: the feature and the intrinsic function of LLVM.
_INSTRUCTIONS = {
    (_S8, _S8): ("i8mm", "llvm.aarch64.neon.smmla.v4i32.v16i8"),
    (_U8, _S8): ("i8mm", "llvm.aarch64.neon.usmmla.v4i32.v16i8"),
    (_U8, _U8): ("i8mm", "llvm.aarch64.neon.ummla.v4i32.v16i8"),
    (_BF16, _BF16): ("bf16", "llvm.aarch64.neon.bfmmla"),
}
_SIDE = 8


@family
def squares(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for integers of 8 bits, and for bf16, summed in 32 bits."""
    if target.vector_bits != 128 or target.vector_registers < 32 or total.bits != 32:
        return
    for (left, right), (feature, name) in _INSTRUCTIONS.items():
        if suits((left, right), lhs, rhs, total) and feature in target.features:
            yield _square(name, feature, left, right, total)


def _square(
    name: str, feature: str, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Microkernel:
    """Return the microkernel of tiles of eight rows and columns. name: of LLVM's intrinsic."""
    group = 64 // lhs.bits

    def emit(b: Builder, kernel: Microkernel) -> None:
        _emit_tile(b, kernel, name)

    return Microkernel(
        name=f"squares.{total}.{lhs}.{rhs}",
        mr=_SIDE,
        nr=_SIDE,
        kr=2 * group,
        lhs=PanelFormat(lhs, PanelOrder.K_INNERMOST, group, is_padded=True),
        rhs=PanelFormat(rhs, PanelOrder.K_OUTERMOST, group, is_padded=True),
        total=total,
        # Sixteen sums for two groups, and bringing rows of A together.
        cycles=32 + 8,
        tile_cycles=48,
        emit=emit,
        lanes=4,
        exact=lhs is not _BF16,
        features=frozenset({feature}),
    )


def _emit_tile(b: Builder, kernel: Microkernel, name: str) -> None:
    s, half = kernel.arithmetic.type, _SIDE // 2
    sums, pair = vector_type(4, s), vector_type(2, "i64")
    operand = vector_type(16, "i8") if kernel.lhs.element.bits == 8 else vector_type(8, "bfloat")
    b.module.declare(name, sums, [sums, operand, operand])
    rows = [b.element_address("%a", "i64", b.mul(i, "%a_row")) for i in range(_SIDE)]
    zero = Val(sums, "zeroinitializer")
    with b.carrying(0, "%k", [zero] * half**2, 2, plain=True) as turn:
        lines = [_bytes_at(b, pair, row, turn.index, kernel.lhs.element) for row in rows]
        totals = turn.values
        for step in (0, 1):
            lefts = [
                b.shuffle_vector(x, y, (step, 2 + step))
                for x, y in zip(lines[::2], lines[1::2], strict=True)
            ]
            line = b.element_address("%b", "i64", b.mul(b.add(turn.index, step), "%b_k"))
            rights = [
                _bytes_at(b, pair, line, 2 * j, kernel.rhs.element) for j in range(half)
            ]  # fmt: skip
            xs, ys = ([b.cast("bitcast", v, operand) for v in side] for side in (lefts, rights))
            products = [(x, y) for x in xs for y in ys]
            totals = [
                b.call(name, [total, x, y], sums)
                for total, (x, y) in zip(totals, products, strict=True)
            ]
        turn.values = totals
    done = []
    for i in range(half):
        squares = turn.values[i * half : (i + 1) * half]
        for low in (0, 2):
            done += [
                b.shuffle_vector(x, y, (low, low + 1, low + 4, low + 5))
                for x, y in zip(squares[::2], squares[1::2], strict=True)
            ]
    targets = [
        (b.element_address("%c", s, b.mul(i, "%c_row")), j) for i in range(_SIDE) for j in (0, 4)
    ]

    def added() -> list[Val]:
        return [
            kernel.arithmetic.add(b, vector_at(b, sums, row, s, j), total)
            for (row, j), total in zip(targets, done, strict=True)
        ]

    totals = list(b.choose(Val("i1", "%more"), added, lambda: done))
    for (row, j), total in zip(targets, totals, strict=True):
        b.store(total, b.element_address(row, s, j), align=4)


def _bytes_at(b: Builder, vector: str, base: str, at: Index, element: ElementType) -> Val:
    """Load two groups, which are as far aligned as an element."""
    return b.load(vector, b.element_address(base, "i64", at), align=element.bits // 8)
