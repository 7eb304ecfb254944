"""A finished computation: what other computations call, and what becomes a module."""

from __future__ import annotations

from typing import Any

from hlo.frontends.text.header import ProgramShape
from hlo.ir import Computation, Module
from hlo.ir.extract import module_of
from hlo.support.signature import fitted


class XlaComputation:
    """A computation that a builder has built. Immutable; any number of programs may call it.

    >>> b = hlo.XlaBuilder("larger")
    >>> larger = b.build(b.max_(b.parameter(0, "f32[]"), b.parameter(1, "f32[]")))
    >>> b = hlo.XlaBuilder("largest")
    >>> b.reduce(b.parameter(0, "f32[2,3]"), -np.inf, larger, [1]).shape, str(larger.program_shape)
    (<ArrayShape f32[2]{0}>, '(f32[], f32[])->f32[]')
    """

    def __init__(self, computation: Computation) -> None:
        self.computation = computation

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self.computation.name

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes of the parameters and of the result."""
        comp = self.computation
        return ProgramShape(tuple(comp.parameter_shapes), comp.result_shape)

    def module(self, name: str | None = None, **attrs: Any) -> Module:
        """Return a new module with this computation as its entry.

        It is a module as any other: print, verify, optimize, interpret and compile it. attrs: of
        the header, such as `replica_count=2` or `num_partitions=4`.

        >>> b = hlo.XlaBuilder("next")
        >>> module = b.build(b.parameter(0, "s32[]") + 1).module("successor", replica_count=2)
        >>> module, module.device_counts
        (<Module successor: (parameter: s32[]) -> s32[], 3 instructions in 1 computation>, (2, 1))
        """
        module = module_of(self.computation.clone(self.name))
        module.name = fitted(name, str | None, "module: name") or self.name
        module.attrs.update(attrs)
        return module

    def __str__(self) -> str:
        return str(self.module())

    def __repr__(self) -> str:
        return f"<XlaComputation {self.name}: {self.program_shape}>"
