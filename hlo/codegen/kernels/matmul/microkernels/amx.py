"""AMX: tiles of 16 rows and 16 columns, of which a step takes 64 bytes of k.

Of the eight tile registers four hold sums. Products of bf16 take denormals for zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.codegen.kernels.matmul.microkernels.record import (
    ANY_SIZE,
    Microkernel,
    PanelFormat,
    PanelOrder,
)
from hlo.codegen.kernels.matmul.microkernels.registry import family, suits
from hlo.codegen.llvm import Builder, Index, Val, i64, int_const, ptr
from hlo.codegen.loops.vectors import lanes_of, vector_at, vector_constant
from hlo.codegen.targets.base import LlvmTarget
from hlo.llvm import vector_type
from hlo.values.types import ELEMENT_TYPES, ElementType

_S8, _U8, _BF16, _F32 = (ELEMENT_TYPES[name] for name in ("s8", "u8", "bf16", "f32"))
# By the types of panels: the feature and the instruction.
_INSTRUCTIONS = {
    (_S8, _S8): ("amx-int8", "tdpbssd"),
    (_S8, _U8): ("amx-int8", "tdpbsud"),
    (_U8, _S8): ("amx-int8", "tdpbusd"),
    (_U8, _U8): ("amx-int8", "tdpbuud"),
    (_BF16, _BF16): ("amx-bf16", "tdpbf16ps"),
}
# Rows and columns of a tile, and its registers.
_SIDE, _REGISTERS = 16, 8
# What an instruction takes of the time of a vector's multiply-add: 16 cycles, two of those in each.
_CYCLES = 32.0


@family
def amx(
    target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
) -> Iterator[Microkernel]:
    """Yield microkernels for integers of 8 bits, and for bf16, summed in 32 bits."""
    if not ("amx-tile" in target.features and target.pointer_bits == 64 and total.bits == 32):
        return
    for (left, right), (feature, name) in _INSTRUCTIONS.items():
        if not suits((left, right), lhs, rhs, total) or feature not in target.features:
            continue
        for (down, across), m in (((2, 2), ANY_SIZE), ((1, 4), range(1, _SIDE + 1))):
            yield _tiles(target, name, feature, (left, right, total), (down, across), m)


def _tiles(
    target: LlvmTarget,
    name: str,
    feature: str,
    types: tuple[ElementType, ElementType, ElementType],
    size: tuple[int, int],
    m: range,
) -> Microkernel:
    """Return the microkernel of so many tiles below and beside each other."""
    (lhs, rhs, total), (down, across) = types, size
    group = 32 // lhs.bits

    def emit(b: Builder, kernel: Microkernel) -> None:
        _emit_tile(b, kernel, name, down, across)

    return Microkernel(
        name=f"amx.{total}.{lhs}.{rhs}.{down}x{across}",
        mr=_SIDE * down,
        nr=_SIDE * across,
        kr=_SIDE * group,
        lhs=PanelFormat(lhs, PanelOrder.K_INNERMOST, group, is_padded=True),
        rhs=PanelFormat(rhs, PanelOrder.K_OUTERMOST, group, is_padded=True),
        total=total,
        # A tile is loaded in eight cycles.
        cycles=max(_CYCLES * down * across, _CYCLES / 2 * (down + across)),
        tile_cycles=_CYCLES * down * across,
        emit=emit,
        lanes=min(_SIDE, lanes_of(target, total)),
        m=m,
        exact=lhs is not _BF16,
        features=frozenset({"amx-tile", feature}),
        prologue=_configure,
        epilogue=lambda b: _call(b, "tilerelease"),
    )


def _call(b: Builder, name: str, *args: Val | int) -> None:
    """Call an instruction's intrinsic function of LLVM. Integers are numbers of tile registers."""
    operands = [x if isinstance(x, Val) else int_const(8, x) for x in args]
    types = [
        v.type if isinstance(x, Val) else "i8 immarg" for x, v in zip(args, operands, strict=True)
    ]
    b.module.declare(f"llvm.x86.{name}", "void", types)
    b.call_void(f"llvm.x86.{name}", operands)


def _configure(b: Builder) -> None:
    """Make all registers tiles of 16 rows of 64 bytes."""
    memory = b.alloca("i8", 64, align=64).name
    # The palette; bytes of a row, as two bytes each, from 16 on; rows, as one byte, from 48 on.
    parts = ((0, [1] + [0] * 15), (16, [64, 0] * _REGISTERS), (32, [0] * 16),
             (48, [_SIDE] * _REGISTERS + [0] * 8))  # fmt: skip
    for at, numbers in parts:
        b.store(vector_constant("i8", numbers), b.element_address(memory, "i8", at), align=16)
    _call(b, "ldtilecfg", ptr(memory))


def _emit_tile(b: Builder, kernel: Microkernel, name: str, down: int, across: int) -> None:
    s, lanes, width = kernel.arithmetic.type, kernel.lanes, kernel.nr
    scratch = b.alloca(s, kernel.mr * width, align=64).name
    places = [(i, j) for i in range(down) for j in range(across)]
    sums = {place: number for number, place in enumerate(places)}
    lefts = range(len(sums), len(sums) + down)
    rights = range(lefts.stop, _REGISTERS)

    def load(register: int, base: str, at: Index, stride: Index) -> None:
        address = b.element_address(base, kernel.lhs.type, at)
        _call(b, "tileloadd64", register, ptr(address), i64(b.mul(stride, 4)))

    for register in sums.values():
        _call(b, "tilezero", register)
    with b.loop(0, "%k", _SIDE, plain=True) as k:
        for i, register in enumerate(lefts):
            load(register, "%a", b.add(b.mul("%a_row", _SIDE * i), k), "%a_row")
        first = b.mul(k, "%b_k")
        for j in range(across):
            register = rights[j % len(rights)]
            load(register, "%b", b.add(first, _SIDE * j), "%b_k")
            for i, left in enumerate(lefts):
                _call(b, name, sums[i, j], left, register)
    # With `more`, sums are added to C at the end.
    more = Val("i1", "%more")
    to = b.select(more, ptr(scratch), ptr("%c")).name
    row = b.select(more, i64(width), i64("%c_row")).name
    for (i, j), register in sums.items():
        address = b.element_address(to, s, b.add(b.mul(row, _SIDE * i), _SIDE * j))
        _call(b, "tilestored64", register, ptr(address), i64(b.mul(row, 4)))
    vector = vector_type(lanes, s)
    with b.when(more), b.loop(0, kernel.mr, plain=True) as at:
        line = b.element_address("%c", s, b.mul(at, "%c_row"))
        extra = b.element_address(scratch, s, b.mul(at, width))
        for j in range(0, width, lanes):
            old, new = (vector_at(b, vector, base, s, j) for base in (line, extra))
            total = kernel.arithmetic.add(b, old, new)
            b.store(total, b.element_address(line, s, j), align=4)
