"""x86: 16 registers of 128 or 256 bits, or 32 of 512."""

from __future__ import annotations

from typing import ClassVar

from hlo.codegen.targets.cpu.base import Cpu

# Features that LLVM's code generation depends on, by its names, with their `cpuid` bits: leaf and
# subleaf, register and bit.
CPUID_BITS: dict[str, tuple[int, int, str, int]] = {
    name: (leaf, part, register, bit)
    for leaf, part, register, names in (
        (1, 0, "d", {"cx8": 8, "cmov": 15, "mmx": 23, "sse": 25, "sse2": 26}),
        (1, 0, "c", {
            "sse3": 0, "ssse3": 9, "fma": 12, "sse4.1": 19, "sse4.2": 20, "movbe": 22, "popcnt": 23,
            "avx": 28, "f16c": 29,
        }),
        (7, 0, "b", {
            "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512ifma": 21,
            "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
        }),
        (7, 0, "c", {
            "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "avx512vnni": 11, "avx512bitalg": 12,
            "avx512vpopcntdq": 14,
        }),
        (7, 0, "d", {"amx-bf16": 22, "avx512fp16": 23, "amx-tile": 24, "amx-int8": 25}),
        (7, 1, "a", {"avxvnni": 4, "avx512bf16": 5, "avxifma": 23}),
        # The further registers stand for all of APX.
        (7, 1, "d", {"avxvnniint8": 4, "avxneconvert": 5, "avxvnniint16": 10, "egpr": 21}),
        (0x80000001, 0, "c", {"lzcnt": 5, "sse4a": 6, "xop": 11, "fma4": 16, "tbm": 21}),
    )
    for name, bit in names.items()
}  # fmt: skip


class X86(Cpu):
    """What 64 and 32 bits have in common.

    implied: the features of `CPUID_BITS` that all of the architecture have.
    """

    implied: ClassVar[frozenset[str]] = frozenset()
    probed = tuple(sorted(CPUID_BITS))

    @property
    def vector_bits(self) -> int:
        if "avx512f" in self.features:
            return 512
        return 256 if "avx2" in self.features else 128

    @property
    def vector_registers(self) -> int:
        return 32 if "avx512f" in self.features else 16

    @property
    def has_half_conversion(self) -> bool:
        return "f16c" in self.features

    @property
    def has_float_maximum(self) -> bool:
        return False

    @property
    def has_masked_memory(self) -> bool:
        return "avx512bw" in self.features

    @property
    def folds_loops(self) -> bool:
        return {"avx512bw", "avx512vl"} <= self.features


class X86_64(X86):
    name = "x86_64"
    implied = frozenset({"cmov", "cx8", "mmx", "sse", "sse2"})
    aliases = ("amd64", "x86-64")
    generic = "x86-64"
    tools = "x86_64-linux-gnu"


class I686(X86):
    """x87 arithmetic rounds twice, so the code uses SSE2."""

    name = "i686"
    aliases = ("i386", "i486", "i586")
    baseline = "+sse2"
    generic = "pentium4"
    # LLVM takes it for granted where there are no 64-bit registers.
    probed = tuple(sorted(CPUID_BITS.keys() - {"egpr"}))
    c_pointer_bits = 32
    tools = "i686-linux-gnu"
