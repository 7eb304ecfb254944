"""A module of LLVM IR under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# What a comment that gives the place of the following code begins with: line and column follow.
PLACE_MARK = "  ;@ "


@dataclass
class Module:
    """An LLVM module under construction: globals, declarations, functions."""

    target_triple: str
    data_layout: str
    pointer_bits: int
    globals: dict[str, str] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    metadata: list[str] = field(
        default_factory=lambda: [
            '!0 = !{!"llvm.loop.vectorize.enable", i1 false}',
            '!1 = !{!"llvm.loop.unroll.disable"}',
        ]
    )
    # The result types of those that `Builder.shared` calls.
    shared: dict[str, str] = field(default_factory=dict)
    _notes: dict[str, str] = field(default_factory=dict)
    # Whether LLVM converts between `half` and `float` without calling a library.
    has_half_conversion: bool = False
    # Whether the last turn of a vectorized loop is best a masked one.
    folds_loops: bool = False
    # Whether code says which HLO it is for, see `Builder.locate`.
    is_located: bool = False
    # Whether code looks from time to time if it is to go on, see `Builder.poll`.
    is_watched: bool = False
    # Writes a computation as a function of its own: see `hlo.codegen.loops.function`.
    write_function: Callable[[Any], Any] | None = None

    def declare(self, name: str, result: str, params: Sequence[str], attributes: str = "") -> None:
        """Declare an intrinsic or a function of another object."""
        text = f"declare {result} @{name}({', '.join(params)}) {attributes}"
        self.declarations[name] = text.rstrip()

    def rolled_loop(self, *, vectorized: bool) -> str:
        """Return metadata that keeps LLVM from unrolling a loop, and from vectorizing it or not.

        Unrolling a short loop of known length comes before vectorization, which then finds none.
        Not to vectorize is for loops that run seldom, or whose vector form would be gathers and
        scatters: it costs more to compile than it ever gains.
        """
        return self._distinct("!1" if vectorized else "!0, !1")

    def folded_loop(self) -> str:
        """Return metadata with which LLVM vectorizes a loop so that its last turn is a masked one.

        Without, there are two further loops for what the vectors leave over, and half of the code
        is theirs. Empty where the machine has no use for it.
        """
        if not self.folds_loops:
            return ""
        if "fold" not in self._notes:
            self._notes["fold"] = f"!{len(self.metadata)}"
            self.metadata.append(
                f'{self._notes["fold"]} = !{{!"llvm.loop.vectorize.predicate.enable", i1 true}}'
            )
        return self._distinct(self._notes["fold"])

    def _distinct(self, notes: str) -> str:
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = distinct !{{{name}, {notes}}}")
        return name

    def to_text(self) -> str:
        """Return the module as LLVM IR."""
        parts = [
            f'target datalayout = "{self.data_layout}"' if self.data_layout else "",
            f'target triple = "{self.target_triple}"',
            *self.globals.values(),
            *self.declarations.values(),
            *self.functions.values(),
            *self.metadata,
        ]
        return "\n".join(p for p in parts if p) + "\n"
