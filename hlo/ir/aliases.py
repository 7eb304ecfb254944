"""Input-output aliasing and buffer donors of a module's header."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.ops.attrs import write_index


@dataclass(frozen=True, slots=True)
class InputOutputAlias:
    """The output at `output` may (or must) use the buffer of a parameter at `index`."""

    output: tuple[int, ...]
    parameter: int
    index: tuple[int, ...] = ()
    must: bool = False

    def __str__(self) -> str:
        kind = "must-alias" if self.must else "may-alias"
        return f"{write_index(self.output)}: ({self.parameter}, {write_index(self.index)}, {kind})"


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """A parameter's buffer, at `index`, that the program may overwrite."""

    parameter: int
    index: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"({self.parameter}, {write_index(self.index)})"
