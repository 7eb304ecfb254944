"""What code generation has to know of a machine."""

from __future__ import annotations

from dataclasses import dataclass

# What stands for the width of vectors where there are none.
_SCALAR_BITS = 32


@dataclass(frozen=True)
class Target:
    """A machine to generate code for.

    vector_bits: width of a vector register; vector_registers: how many of them; features: names as
    LLVM has them, without sign.
    """

    triple: str
    data_layout: str
    vector_bits: int = 128
    vector_registers: int = 16
    features: frozenset[str] = frozenset()

    @property
    def has_vectors(self) -> bool:
        """False where a register is said to hold one element."""
        return self.vector_bits > _SCALAR_BITS

    @staticmethod
    def of(triple: str, data_layout: str, features: str) -> Target:
        """Describe a machine from its triple and LLVM's feature string (`+avx2,-avx512f,...`)."""
        have = frozenset(f[1:] for f in features.split(",") if f.startswith("+"))
        arch = triple.split("-")[0]
        if arch in ("x86_64", "i686", "i586", "i486", "i386"):
            if "avx512f" in have:
                return Target(triple, data_layout, 512, 32, have)
            return Target(triple, data_layout, 256 if "avx2" in have else 128, 16, have)
        if arch.startswith("armv7"):
            # NEON takes subnormal numbers for zero, so there are no vectors of floats.
            return Target(triple, data_layout, _SCALAR_BITS, 16, have)
        if arch in ("aarch64", "arm64"):
            return Target(triple, data_layout, 128, 32, have)
        if arch == "riscv64":
            # Vectors have at least 128 bits; without them, one element takes a register.
            return Target(triple, data_layout, 128 if "v" in have else _SCALAR_BITS, 32, have)
        if arch.startswith("wasm"):
            # Registers of the machine on which the code will be compiled again.
            bits = 128 if "simd128" in have else _SCALAR_BITS
            return Target(triple, data_layout, bits, 16, have)
        return Target(triple, data_layout, 128, 16, have)
