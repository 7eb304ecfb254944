"""The tensor core's instructions, as records, and which of them computes a product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo.codegen.kernels.matmul.product import Product
from hlo.codegen.llvm import Builder, Val, float_const, int_const
from hlo.codegen.targets.gpu.base import TOGETHER, Gpu
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.gpu.work import Unit as Core
from hlo.ir import Instruction
from hlo.values.types import ELEMENT_TYPES, ElementType

# Columns of a tile of `mma`.
COLUMNS = 8
# The bits of an f32 that a tf32 has.
_TF32_MASK = 0xFFFFE000 - (1 << 32)
# Half of the last digit of a tf32, in the bits of an f32, and what is rounded to infinity with it.
_HALF, _MOST = 0x1000, float.fromhex("0x1.ffep127")


@dataclass(frozen=True)
class Unit:
    """An instruction `mma`: a warp multiplies `rows` rows by 8 columns, `depth` of k at a time.

    intrinsic: the end of LLVM's name. lhs, rhs: the types of elements in shared memory. total: that
    of sums. register: the LLVM type of the registers that hold operands. is_split: operands are
    taken apart into numbers of fewer digits, whose products are added up apart. core: what computes
    it.
    """

    intrinsic: str
    lhs: ElementType
    rhs: ElementType
    total: ElementType
    depth: int
    register: str
    rows: int = 16
    is_split: bool = False
    core: Core = Core.TENSOR_F16

    @property
    def size(self) -> int:
        """Bytes of an element in shared memory."""
        return self.lhs.byte_width

    @property
    def sums(self) -> int:
        """How many sums a lane has of each tile."""
        return self.rows // 4

    def multiply_add(
        self, b: Builder, x: Sequence[Val], y: Sequence[Val], totals: Sequence[Val]
    ) -> list[Val]:
        """Return a tile's sums and the products of fragments, added up."""
        args = [*x, *y, *totals]
        kind = totals[0].type
        struct = f"{{ {', '.join([kind] * len(totals))} }}"
        name = f"llvm.nvvm.mma.{self.intrinsic}"
        b.module.declare(name, struct, [a.type for a in args], f"{TOGETHER} memory(none)")
        found = b.call(name, args, struct)
        return [b.extract_value(found, kind, n) for n in range(len(totals))]

    def typed(self, b: Builder, registers: Sequence[Val]) -> list[Val]:
        """Return words of shared memory as the registers of operands."""
        if self.lhs is _F32 and not self.is_split:
            mask = int_const(32, _TF32_MASK)
            return [b.binary("and", r, mask) for r in registers]
        return [
            r if r.type == self.register else b.cast("bitcast", r, self.register) for r in registers
        ]


def split(b: Builder, registers: Sequence[Val]) -> tuple[list[Val], list[Val]]:
    """Return f32 numbers as sums of two that tf32 has, but for the last digit of the second.

    Both are rounded: what the product of two second numbers leaves out is as small as a rounding
    then, and of any sign. What is infinite or NaN has a second number that is NaN or 0.
    """
    limit = float_const("float", _MOST)
    high, low = [], []
    for whole in registers:
        number = b.cast("bitcast", whole, "float")
        # The largest numbers would be rounded to infinity, and NaN to anything.
        is_safe = b.fcmp("olt", b.intrinsic("fabs", "float", [number]), limit)
        top = b.select(is_safe, _nearer(b, whole), whole)
        top = b.binary("and", top, int_const(32, _TF32_MASK))
        rest = b.binary("fsub", number, b.cast("bitcast", top, "float"))
        high.append(top)
        # `mma` does not look at the digits that tf32 does not have.
        low.append(_nearer(b, b.cast("bitcast", rest, "i32")))
    return high, low


def _nearer(b: Builder, number: Val) -> Val:
    """Return an f32 that, cut to a tf32, is the one nearest to a number, of two the larger."""
    return b.binary("add", number, int_const(32, _HALF))


# --- choice -------------------------------------------------------------------------------------

_F16, _BF16, _F32, _F64, _S32 = (ELEMENT_TYPES[n] for n in ("f16", "bf16", "f32", "f64", "s32"))
_S8, _U8 = ELEMENT_TYPES["s8"], ELEMENT_TYPES["u8"]

TF32 = Unit("m16n8k8.row.col.tf32", _F32, _F32, _F32, 8, "i32", core=Core.TENSOR_TF32)
SPLIT = replace(TF32, is_split=True)
HALF = Unit("m16n8k16.row.col.f32.f32", _F16, _F16, _F32, 16, "<2 x half>")
BRAIN = Unit("m16n8k16.row.col.bf16", _BF16, _BF16, _F32, 16, "i32")
DOUBLE = Unit("m8n8k4.row.col.f64", _F64, _F64, _F64, 4, "double", rows=8, core=Core.TENSOR_F64)

# All of whose numbers another type has.
_NARROW = frozenset(
    {
        "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
        "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "s8", "u8", "s4", "u4", "s2", "u2", "pred",
    }
)  # fmt: skip
_IN_F16 = _NARROW | {"f16"}
_IN_BF16 = _NARROW | {"bf16", "f8e8m0fnu"}
# What `mma` multiplies as it is, by PTX's names, and from which GPUs on: LLVM's version of PTX for
# those before does not have it.
_F8, _F8_CAPABILITY = {"f8e4m3fn": "e4m3", "f8e5m2": "e5m2"}, 100
# What an algorithm computes products of f32 in.
_ALGORITHMS = {"dot_tf32_tf32_f32": TF32, "dot_bf16_bf16_f32": BRAIN, "dot_f16_f16_f32": HALF}
_SIGNED, _UNSIGNED = frozenset({"s8", "s4", "s2"}), frozenset({"u8", "u4", "u2", "pred"})


def unit_of(p: Product, sums: Sum, inst: Instruction, gpu: Gpu) -> Unit | None:
    """Return the instruction that computes products of these types, None if there is none."""
    if gpu.capability < 80 or sums.total.is_complex:
        return None
    names = p.a.et.name, p.b.et.name
    total = sums.total
    if total is _F64:
        return DOUBLE
    if total is _F32:
        if gpu.capability >= _F8_CAPABILITY and not p.exact and _F8.keys() >= set(names):
            kinds = ".".join(_F8[name] for name in names)
            name = f"m16n8k32.row.col.f32.{kinds}.f32"
            return Unit(name, p.a.et, p.b.et, _F32, 32, "i32", core=Core.TENSOR_F8)
        if _IN_F16.issuperset(names):
            return HALF
        if _IN_BF16.issuperset(names):
            return BRAIN
        if (_IN_F16 | _IN_BF16).issuperset(names):
            return TF32
        if inst.algorithm in _ALGORITHMS:
            return _ALGORITHMS[inst.algorithm]
        return None if p.exact else SPLIT
    if total.is_integer and total.bits <= 32 and (_SIGNED | _UNSIGNED).issuperset(names):
        ets = [_S8 if name in _SIGNED else _U8 for name in names]
        kinds = ets[0].name if ets[0] is ets[1] else f"{ets[0]}.{ets[1]}"
        return Unit(
            f"m16n8k32.row.col.{kinds}", ets[0], ets[1], _S32, 32, "i32", core=Core.TENSOR_S8
        )
    return None
