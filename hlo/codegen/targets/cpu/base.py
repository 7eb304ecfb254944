"""What the processors have in common: native functions, vectors in registers, threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo.codegen.targets.base import Launcher, LlvmTarget, Plan

if TYPE_CHECKING:
    from hlo.analysis.fusion.roles import Role
    from hlo.codegen.choices import Choices
    from hlo.codegen.kernels.matmul.microkernels.record import Microkernel
    from hlo.codegen.llvm import Builder
    from hlo.ir import Instruction
    from hlo.values.types import ElementType

# Of targets with little memory: how many threads have work space of their own, and the size of a
# packed block.
SMALL_SHARES, SMALL_PANEL_BYTES = 8, 16 * 1024
# What stands for the width of vectors where there are none.
SCALAR_BITS = 32
PIC = '!{i32 8, !"PIC Level", i32 2}'


@dataclass(frozen=True)
class Cpu(LlvmTarget):
    """A processor by LLVM's names; a subclass for each architecture, with what it is called.

    name: the first part of a triple, as LLVM spells it. aliases: other spellings. baseline:
    features that all supported processors have. always: those that are on or off for every one.
    generic: LLVM's name of the baseline processor. abi: LLVM's name of the ABI, if its default is
    not the system's. flags: LLVM's module flags. c_pointer_bits: the width of a C pointer. tools:
    prefix of GNU's cross compiler and linker. pause: the instruction of a spin loop, as LLVM IR:
    its declaration and a call. probed: features to ask a processor for by LLVM's names.
    """

    triple: str
    data_layout: str
    features: frozenset[str] = frozenset()
    choices: Choices | None = None

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    baseline: ClassVar[str] = ""
    always: ClassVar[str] = ""
    generic: ClassVar[str] = "generic"
    abi: ClassVar[str] = ""
    flags: ClassVar[tuple[str, ...]] = (PIC,)
    c_pointer_bits: ClassVar[int] = 64
    tools: ClassVar[str] = ""
    pause: ClassVar[tuple[str, str]] = ("", "")
    probed: ClassVar[tuple[str, ...]] = ()

    @property
    def has_vectors(self) -> bool:
        return self.vector_bits > SCALAR_BITS

    @property
    def folds_loops(self) -> bool:
        return False

    def plan(self, inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan:
        from hlo.codegen.kernels.planners import plan_of

        with nullcontext() if self.choices is None else self.choices.of(inst.name):
            return plan_of(inst, roles, self)

    def microkernels(
        self, lhs: ElementType, rhs: ElementType, total: ElementType
    ) -> Sequence[Microkernel]:
        from hlo.codegen.kernels.matmul.microkernels import microkernels

        return microkernels(self, lhs, rhs, total)

    def launcher(self, b: Builder) -> Launcher:
        from hlo.codegen.targets.cpu.threads import ThreadLauncher

        return ThreadLauncher(b, self.most_shares)

    @classmethod
    def features_seen(cls, assembly: str) -> list[str]:
        """Return the features that show in the assembly of the functions a target is tried on.

        By default those of `probed` that the processor has.
        """
        return [f"+{name}" for name in assembly.rpartition("# has:")[2].split()]
