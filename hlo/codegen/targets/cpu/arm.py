"""ARM: 64 bits with 32 registers of NEON; 32 bits without vectors."""

from __future__ import annotations

from hlo.codegen.targets.cpu.base import SCALAR_BITS, SMALL_PANEL_BYTES, SMALL_SHARES, Cpu


class AArch64(Cpu):
    name = "aarch64"
    aliases = ("arm64",)
    tools = "aarch64-linux-gnu"
    vector_bits = 128
    vector_registers = 32
    has_half_conversion = True
    # Those of microkernels.
    probed = ("bf16", "dotprod", "i8mm")


class Armv7(Cpu):
    """The baseline of the hard-float ABI: VFPv3 with 16 registers.

    NEON flushes denormals to zero, so it is not used for floats.
    """

    name = "armv7"
    aliases = ("armv7a", "armv7hl", "armv7l")
    baseline = "+vfp3d16,-neon"
    always = "-neonfp"
    c_pointer_bits = 32
    tools = "arm-linux-gnueabihf"
    vector_bits = SCALAR_BITS
    most_shares = SMALL_SHARES
    panel_bytes = SMALL_PANEL_BYTES
    saves_memory = True

    @property
    def has_half_conversion(self) -> bool:
        return "fp16" in self.features

    @classmethod
    def features_seen(cls, assembly: str) -> list[str]:
        return ["+fp16"] if "vcvtb.f32.f16" in assembly else []
