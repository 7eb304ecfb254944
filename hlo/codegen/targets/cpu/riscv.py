"""RISC-V, 64 bits: 32 registers, of vectors where it has them."""

from __future__ import annotations

from hlo.codegen.targets.cpu.base import PIC, SCALAR_BITS, Cpu


class RiscV64(Cpu):
    name = "riscv64"
    baseline = "+m,+a,+f,+d,+c"
    generic = "generic-rv64"
    abi = "lp64d"
    flags = (PIC, '!{i32 1, !"target-abi", !"lp64d"}')
    tools = "riscv64-linux-gnu"
    vector_registers = 32

    @property
    def vector_bits(self) -> int:
        # Vectors have at least 128 bits; without them, one element takes a register.
        return 128 if "v" in self.features else SCALAR_BITS

    @property
    def has_half_conversion(self) -> bool:
        return not self.features.isdisjoint({"zfh", "zfhmin"})

    @classmethod
    def features_seen(cls, assembly: str) -> list[str]:
        found = ["+v"] if "vfadd.vv" in assembly else []
        return found if "__extendhfsf2" in assembly else [*found, "+zfhmin"]
