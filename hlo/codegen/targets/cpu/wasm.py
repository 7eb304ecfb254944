"""WebAssembly, which is compiled again: its registers are those of the machine that runs it."""

from __future__ import annotations

from hlo.codegen.targets.cpu.base import SCALAR_BITS, SMALL_PANEL_BYTES, SMALL_SHARES, Cpu


class Wasm32(Cpu):
    name = "wasm32"
    flags = ()
    c_pointer_bits = 32
    most_shares = SMALL_SHARES
    panel_bytes = SMALL_PANEL_BYTES
    saves_memory = True

    @property
    def vector_bits(self) -> int:
        return 128 if "simd128" in self.features else SCALAR_BITS

    @property
    def has_half_conversion(self) -> bool:
        return "fp16" in self.features

    @classmethod
    def features_seen(cls, assembly: str) -> list[str]:
        return ["+simd128"] if "f32x4.add" in assembly else []
