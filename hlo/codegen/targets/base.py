"""What code generation asks of a machine.

`Target` is what planning asks: which kernels compute an instruction, how wide vectors are, how many
shares a kernel divides into, where memory begins. `LlvmTarget` is what the writers of LLVM IR ask
besides: the instructions that are chosen by hand, and the code that launches a kernel.

Targets are immutable and hashable: schedules are remembered by them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# Targets are named and described without generating code: that loads neither of these.
if TYPE_CHECKING:
    import numpy as np

    from hlo.analysis.fusion.chains import ChainLimits
    from hlo.analysis.fusion.limits import FusionLimits
    from hlo.analysis.fusion.roles import Role
    from hlo.analysis.fusion.rows import RowLimits
    from hlo.codegen.choices import Choices
    from hlo.codegen.kernels.matmul.microkernels.record import Microkernel
    from hlo.codegen.llvm import Builder, Val
    from hlo.ir import Instruction
    from hlo.values.types import ElementType

_PANEL_BYTES = 192 * 1024

# --- what a kernel is ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """How a kernel's work divides: iterations of the outermost loop, and the cost of one.

    cost: in rough scalar operations; bytes count as one per four.
    """

    iterations: int
    cost: float = 1.0


@dataclass(frozen=True)
class Plan:
    """How an instruction is computed: kernels one after the other, and memory that they share.

    steps: the kernels; what each is called with is the target's matter, for targets of LLVM a
    `hlo.codegen.loops.kernel.Kernel`. scratch_bytes: sizes of memory for this instruction
    only. All of a step is done before the next begins, so a later step may read all that an earlier
    one wrote. tables: constants that the kernels read. counters: integers of 32 bits, after the
    other scratch memory, that are 0 when the kernels begin, and that they leave as 0.
    """

    steps: tuple[Callable[..., Any], ...]
    scratch_bytes: tuple[int, ...] = ()
    tables: tuple[np.ndarray, ...] = ()
    counters: int = 0


# --- what planning asks -------------------------------------------------------------------------


class Target(ABC):
    """A machine, as planning sees it.

    choices: what was measured to be the fastest, and where there was a choice; None to go by
    estimates.
    """

    choices: Choices | None = None

    @property
    def vector_bits(self) -> int:
        """The width of a vector register."""
        return 128

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are: tiles of products and transforms fit into them."""
        return 16

    @property
    def has_masked_memory(self) -> bool:
        """True when vectors of any element type are loaded and stored under a mask."""
        return False

    @property
    def most_shares(self) -> int:
        """How many shares a kernel's iterations are cut into at the most.

        Each of them may have work space of its own.
        """
        return 64

    @property
    def panel_bytes(self) -> int:
        """The size of a packed block of an operand of a product, about: what a cache holds."""
        return _PANEL_BYTES

    @property
    def saves_memory(self) -> bool:
        """True when products make neither packed copies of whole operands nor partial sums."""
        return False

    @property
    def wanted_iterations(self) -> int:
        """How many iterations an outermost loop over elements should have, to divide well."""
        return 256

    @property
    def chain_limits(self) -> ChainLimits | None:
        """Which products are fused into the kernels that use them, see `chains`; None for none."""
        from hlo.analysis.fusion.chains import USUAL_CHAINS

        return USUAL_CHAINS

    @property
    def has_endings(self) -> bool:
        """True when products and reductions compute what is made of each element of their results,
        see `endings`."""
        return False

    @property
    def row_limits(self) -> RowLimits:
        """Which rows are computed by one kernel, reductions and all, see `rows`."""
        from hlo.analysis.fusion.rows import USUAL_ROWS

        return USUAL_ROWS

    @property
    def fusion_limits(self) -> FusionLimits:
        """When values are computed in the kernels that use them, see `roles`."""
        from hlo.analysis.fusion.limits import USUAL

        return USUAL

    def joins_reduction(self, inst: Instruction) -> bool:
        """Return whether a reduction may be one kernel with others that read the same arrays."""
        return False

    @property
    def buffer_alignment(self) -> int:
        """What offsets in the arena are multiples of, in bytes: a power of two."""
        return 64

    @abstractmethod
    def plan(self, inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan:
        """Return the kernels of an instruction whose role is `KERNEL`.

        Raises HloError, code `unsupported`, for an operation that the machine has no kernels for.
        """

    def microkernels(
        self, lhs: ElementType, rhs: ElementType, total: ElementType
    ) -> Sequence[Microkernel]:
        """Return the ways to compute a tile of a matrix product, for blocked products.

        lhs, rhs: the types of the operands as they lie in memory; total: that of the sums.
        """
        return ()

    def slots(self, iterations: int) -> int:
        """Return how many blocks of work space a kernel needs that has one for each share."""
        return max(1, min(iterations, self.most_shares))


# --- what writers of LLVM IR ask ----------------------------------------------------------------


class LlvmTarget(Target):
    """A machine that LLVM generates code for.

    triple, data_layout, features: as LLVM has them; features without sign.
    """

    triple: str
    data_layout: str
    features: frozenset[str]

    @property
    def pointer_bits(self) -> int:
        """The width of an address."""
        return 32 if re.search(r"-p:32:", self.data_layout) else 64

    @property
    @abstractmethod
    def has_vectors(self) -> bool:
        """False where a register is said to hold one element."""

    @property
    @abstractmethod
    def has_half_conversion(self) -> bool:
        """True when LLVM converts between `half` and `float` without calling a library."""

    @property
    def has_float_maximum(self) -> bool:
        """True when the larger of two floats, as `llvm.maximum` has it, takes few instructions."""
        return True

    @property
    @abstractmethod
    def folds_loops(self) -> bool:
        """True when the last turn of a vectorized loop is best a masked one, for any type."""

    @abstractmethod
    def launcher(self, b: Builder) -> Launcher:
        """Return what writes launches of kernels into a function under construction."""


class Launcher(ABC):
    """Writes the launches of kernels from one function, and the code that they need.

    A kernel is a function of its arguments and, if it is divided, of the first iteration to do and
    the one behind the last.
    """

    @abstractmethod
    def divides(self, extent: Extent) -> bool:
        """True when a kernel's iterations are worth sharing out."""

    def parameters(self, extent: Extent) -> list[str]:
        """Return what a kernel takes besides buffers and scalars, as LLVM IR writes it."""
        return ["i64 %begin", "i64 %end"] if self.divides(extent) else []

    @abstractmethod
    def launch(self, function: str, arguments: Sequence[Val], extent: Extent) -> float:
        """Write the launch of all of a kernel's iterations, and the wait for them.

        Returns what it costs at the most after it has last looked whether to go on.
        """

    @abstractmethod
    def finish(self) -> None:
        """Write what all launches of the function share, when all of them are known."""

    @property
    @abstractmethod
    def is_parallel(self) -> bool:
        """True when some launch of the module is divided."""
