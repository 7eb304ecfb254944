"""What `hlo.find_nan` finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hlo.analysis.source_location import SourceLocation
from hlo.debug.trace.record import Frame
from hlo.debug.trace.values_table import values_html
from hlo.ir import Module
from hlo.support.notebook import block, paragraph


@dataclass(frozen=True)
class Finding:
    """A NaN or an infinity, and where it comes from; `hlo.find_nan` returns it.

    kind: `nan` or `inf`. source: `instruction`, which made it; or `parameter` or `constant`, which
    had a NaN, where no instruction made one. instruction, opcode, computation: of the given module.
    frames: the callers, the outermost first. leaf: the index path in a result that is a tuple.
    index: of the first such element; count: how many of the result there are. operands: their names
    and values. value: the result. module: runnable, with that instruction alone, or the one that
    applies the function that it is in; its parameters are the operands, `inputs`. given: parameters
    and constants that have a NaN of their own. pass_made: the instruction of the optimized module,
    where only that one makes it.
    """

    kind: str
    source: str
    instruction: str
    opcode: str
    computation: str
    frames: tuple[Frame, ...] = ()
    leaf: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    count: int = 0
    operands: tuple[tuple[str, Any], ...] = ()
    value: Any = None
    location: SourceLocation = field(default_factory=SourceLocation)
    device: int = 0
    module: Module | None = None
    inputs: tuple[Any, ...] = ()
    given: tuple[str, ...] = ()
    pass_made: str = ""

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
        if self.source != "instruction":
            return f"{self.source} {self.instruction} has NaN, and no instruction makes any other"
        what = "NaN" if self.kind == "nan" else "an infinity"
        return f"{self.instruction} ({self.opcode}) makes {what}"

    def __repr__(self) -> str:
        where = f", at {self.location}" if str(self.location) else ""
        return f"<Finding: {self.headline}{where}>"

    def _repr_html_(self) -> str:
        named = [("operand", *o) for o in self.operands] + [("result", self.path, self.value)]
        shown = values_html(named)
        return block(paragraph(repr(self).strip("<>")), shown)
