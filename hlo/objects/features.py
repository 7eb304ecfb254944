"""Which features of a processor can be tested at run time."""

from __future__ import annotations

from collections.abc import Collection

from hlo.codegen.targets.cpu import architecture_of
from hlo.codegen.targets.cpu.x86 import CPUID_BITS, X86


def can_be_asked(triple: str) -> bool:
    """True where a processor says which features it has."""
    return issubclass(architecture_of(triple), X86)


def needed_features(triple: str, features: Collection[str]) -> frozenset[str]:
    """Return those of the features that can be tested and that not all of a kind have."""
    cpu = architecture_of(triple)
    if not issubclass(cpu, X86):
        return frozenset()
    return frozenset(features).intersection(CPUID_BITS) - cpu.implied
