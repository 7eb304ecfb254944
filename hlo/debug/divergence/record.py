"""What a search for a divergence finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hlo.analysis.source_location import SourceLocation
from hlo.debug.trace.record import Frame
from hlo.debug.trace.values_table import values_html
from hlo.ir import Module
from hlo.support.notebook import block, paragraph
from hlo.testing.compare import Comparison


@dataclass(frozen=True)
class Divergence:
    """The first instruction where two runs diverge; `hlo.first_divergence` returns it.

    kind: `instruction`, one that gives different results for the same operands; `together`, several
    that do when they run as one program, `instruction` being where it shows; `growth`, none that
    does: results differ because small differences grow. left, right: what runs on each side.
    between: what is to blame, `module`, `passes` or the name of a machine. instruction, opcode,
    computation, location: of the given module; empty for `growth`. frames: the callers, the
    outermost first. counterpart: the instruction of the other module, as text. comparison: of the
    left value with the right one; their elements `got` and `want`. operands: names and values.
    module, inputs: runnable, the instruction alone with its operands. rules: what passes did there.
    results: how the results of the two runs compare, by name, if both ran.
    """

    kind: str
    left: str
    right: str
    between: str
    instruction: str = ""
    opcode: str = ""
    computation: str = ""
    location: SourceLocation = field(default_factory=SourceLocation)
    frames: tuple[Frame, ...] = ()
    counterpart: str = ""
    comparison: Comparison | None = None
    operands: tuple[tuple[str, Any], ...] = ()
    got: Any = None
    want: Any = None
    module: Module | None = None
    inputs: tuple[Any, ...] = ()
    rules: tuple[str, ...] = ()
    results: Mapping[str, Comparison] = field(default_factory=dict)

    @property
    def iteration(self) -> int | None:
        """The iteration of the innermost loop, None outside of loops."""
        return next((f.iteration for f in reversed(self.frames) if f.iteration is not None), None)

    @property
    def path(self) -> str:
        """The callers and the instruction, as `while[3]/fusion/dot.1`."""
        return "/".join([*map(str, self.frames), self.instruction])

    @property
    def headline(self) -> str:
        """What was found, in a sentence."""
        sides = f"{self.left} and {self.right}"
        if self.kind == "growth":
            return (
                f"{sides} differ, but no instruction does on the same operands: "
                "small differences grow"
            )
        where = f"{sides} diverge at {self.instruction} ({self.opcode})"
        return where + (", compiled with what is around it" if self.kind == "together" else "")

    def __repr__(self) -> str:
        where = f", at {self.location}" if str(self.location) else ""
        return f"<Divergence: {self.headline}{where}>"

    def _repr_html_(self) -> str:
        named = [("operand", *o) for o in self.operands]
        if self.kind != "growth":
            named += [("found", self.left, self.got), ("expected", self.right, self.want)]
        lines = [] if self.comparison is None else [str(self.comparison)]
        lines += [f"by {rule}" for rule in self.rules]
        shown = values_html(named)
        return block(paragraph(repr(self).strip("<>")), shown, *map(paragraph, lines))
