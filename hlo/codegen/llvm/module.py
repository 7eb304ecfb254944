"""A module of LLVM IR under construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hlo.llvm import LlvmModule, LoopMetadata


@dataclass
class ModuleBuilder(LlvmModule):
    """An LLVM module under construction, and what its code is written for."""

    pointer_bits: int = 64
    # The result types of those that `Builder.shared` calls.
    shared: dict[str, str] = field(default_factory=dict)
    # Bytes of the arrays in the shared memory of a GPU's block, by name.
    block_memory: dict[str, int] = field(default_factory=dict)
    # Whether LLVM converts between `half` and `float` without calling a library.
    has_half_conversion: bool = False
    # Whether the larger of two floats, as `llvm.maximum` has it, takes few instructions.
    has_float_maximum: bool = True
    # Whether the last turn of a vectorized loop is best a masked one.
    folds_loops: bool = False
    # Whether code says which HLO it is for, see `Builder.locate`.
    is_located: bool = False
    # Whether code looks from time to time if it is to go on, see `Builder.poll`.
    is_watched: bool = False
    # Whether nothing is contracted, and functions of floats are computed in double precision.
    is_strict: bool = False
    # Writes a computation as a function of its own: see `hlo.codegen.loops.function`.
    write_function: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        spaces = [part[1:] for part in self.data_layout.split("-") if part.startswith("A")]
        # The address space of the stack.
        self.stack_space = int(spaces[0]) if spaces else 0
        self._unvectorized = self.node('!{!"llvm.loop.vectorize.enable", i1 false}')
        self._rolled = self.node('!{!"llvm.loop.unroll.disable"}')
        self._predicated: int | None = None

    def rolled_loop(self, *, vectorized: bool) -> LoopMetadata:
        """Return metadata that keeps LLVM from unrolling a loop, and from vectorizing it or not.

        Unrolling a short loop of known length comes before vectorization, which then finds none.
        Not to vectorize is for loops that run seldom, or whose vector form would be gathers and
        scatters: it costs more to compile than it ever gains.
        """
        if vectorized:
            return LoopMetadata(self._loop(self._rolled), is_final=False)
        return LoopMetadata(self._loop(self._unvectorized, self._rolled), is_final=True)

    def folded_loop(self) -> LoopMetadata | None:
        """Return metadata with which LLVM vectorizes a loop so that its last turn is a masked one.

        Without, there are two further loops for what the vectors leave over, and half of the code
        is theirs. None where the machine has no use for it.
        """
        if not self.folds_loops:
            return None
        if self._predicated is None:
            self._predicated = self.node('!{!"llvm.loop.vectorize.predicate.enable", i1 true}')
        return LoopMetadata(self._loop(self._predicated), is_final=False)

    def _loop(self, *nodes: int) -> int:
        """Add the node of a loop, which is told from others by its reference to itself."""
        number = len(self.metadata)
        return self.node(
            f"distinct !{{{', '.join(f'!{n}' for n in (number, *nodes))}}}", (number, *nodes)
        )
