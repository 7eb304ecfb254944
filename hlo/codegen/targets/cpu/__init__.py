"""Processors: a class for each architecture, in a file for each family."""

from __future__ import annotations

from hlo.codegen.choices import Choices
from hlo.codegen.targets.cpu.arm import AArch64, Armv7
from hlo.codegen.targets.cpu.base import Cpu
from hlo.codegen.targets.cpu.riscv import RiscV64
from hlo.codegen.targets.cpu.wasm import Wasm32
from hlo.codegen.targets.cpu.x86 import I686, X86_64


class UnlistedCpu(Cpu):
    """A processor of which nothing is known: this machine's own, where it is none of the others."""

    name = ""
    has_half_conversion = False


ARCHITECTURES: dict[str, type[Cpu]] = {
    cpu.name: cpu for cpu in (X86_64, AArch64, RiscV64, Wasm32, I686, Armv7)
}
_NAMED = {name: cpu for cpu in ARCHITECTURES.values() for name in (cpu.name, *cpu.aliases)}


def architecture_of(triple: str) -> type[Cpu]:
    """Return the architecture of a triple, `UnlistedCpu` where there is none of its name."""
    return _NAMED.get(triple.split("-")[0].lower(), UnlistedCpu)


def cpu_target(triple: str, data_layout: str, features: str, choices: Choices | None = None) -> Cpu:
    """Return a processor from its triple and LLVM's feature string (`+avx2,-avx512f,...`)."""
    have = frozenset(f[1:] for f in features.split(",") if f.startswith("+"))
    return architecture_of(triple)(triple, data_layout, have, choices)
