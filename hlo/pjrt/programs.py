"""Programs as they come: what is known of one that was compiled before needs no module."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hlo.pjrt.compile_options import CompileOptions
from hlo.pjrt.program_shape import ProgramShape, shape_of

if TYPE_CHECKING:
    from hlo.ir import Module


class Program:
    """A program as it came, for the devices that its options say.

    Attributes:
        shape: what a device takes and gives.
    """

    def __init__(
        self, code: bytes, form: str, options: CompileOptions, shape: ProgramShape | None = None
    ) -> None:
        """shape: where that is known already. Raises PjrtError or HloError."""
        self.code, self.form, self.options = code, form, options
        self.shape = shape or shape_of(self.module, options.num_partitions > 1)

    @cached_property
    def module(self) -> Module:
        """The module that each device runs, on its shards. Raises PjrtError or HloError."""
        from hlo.pjrt.prepare import prepared, read_program

        return prepared(read_program(self.code, self.form), self.options)

    def forget_module(self) -> None:
        """Drop the module, which is read again if it is asked for."""
        self.__dict__.pop("module", None)
