"""Calls of kernels: emitted once for each structure, launched in the target's way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.analysis.fusion.roles import Role
from hlo.codegen.entry.kernel_key import step_key
from hlo.codegen.llvm import Builder, ModuleBuilder, ptr
from hlo.codegen.loops.kernel import (
    Inputs,
    Kernel,
    KernelEmitter,
    Structure,
    scalar_parameter,
    structure_of,
)
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.codegen.targets.base import Extent, LlvmTarget
from hlo.ir import Instruction
from hlo.llvm import Function, Origin, with_operands


@dataclass(frozen=True)
class Emitted:
    """An emitted kernel: its function and how its work divides."""

    function: str
    extent: Extent


# The number of buffers of arguments and results, of scratch memory, and of tables.
_Buffers = tuple[int, int, int]


@dataclass
class KernelCache:
    """The kernels of an LLVM module, keyed by structure, and by their code or symbol."""

    # Steps are functions, or values that are equal if they emit the same code.
    by_key: dict[tuple[KernelEmitter, str, tuple[int, ...]], Emitted] = field(default_factory=dict)
    by_body: dict[str, str] = field(default_factory=dict)
    # Those that are not written, as there is object code of them.
    by_symbol: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of kernels."""
        return len(self.by_body) + len(self.by_symbol)


@dataclass
class Kernels:
    """The calls of kernels from one function."""

    module: ModuleBuilder
    target: LlvmTarget
    b: Builder
    cache: KernelCache

    def __post_init__(self) -> None:
        self.launcher = self.target.launcher(self.b)

    def emit(
        self,
        inst: Instruction,
        roles: Mapping[Instruction, Role],
        step: KernelEmitter,
        inputs: Inputs,
        outputs: list[int],
        num_buffers: int,
        scratch: int,
        tables: int = 0,
    ) -> Emitted:
        """Return the kernel of one step of an instruction.

        outputs: buffer numbers of the results. num_buffers: of results and inputs. scratch,
        tables: the number of buffers of each kind.
        """
        structure = structure_of(inst, inputs)
        key = (step, structure.key, tuple(outputs))
        found = self.cache.by_key.get(key)
        if found is None:
            buffers = (num_buffers, scratch, tables)
            origin = self._origin(step, structure, outputs, buffers)
            found = self._reused(inst, origin) or self._written(
                inst, roles, step, inputs, outputs, buffers, origin
            )
            self.cache.by_key[key] = found
        return found

    def _origin(
        self, step: KernelEmitter, structure: Structure, outputs: list[int], buffers: _Buffers
    ) -> str:
        """Return what a kernel is made from, or nothing if it is not to be kept."""
        named = step_key(step, structure.numbers) if self.module.known is not None else None
        return f"kernel {named} {outputs} {buffers} {structure.key}" if named is not None else ""

    def _reused(self, inst: Instruction, origin: str) -> Emitted | None:
        """Return the kernel of an origin if there is object code of it."""
        name = self._name(inst)
        known = self.module.reuse(name, origin) if origin else None
        if known is None:
            return None
        name = self.cache.by_symbol.setdefault(known.name, name)
        iterations, cost = known.note
        return Emitted(name, Extent(int(iterations), cost))

    def _written(
        self, inst: Instruction, roles: Mapping[Instruction, Role], step: KernelEmitter,
        inputs: Inputs, outputs: list[int], buffers: _Buffers, origin: str,
    ) -> Emitted:  # fmt: skip
        """Return the kernel of a step, written into the module."""
        num_buffers, scratch, tables = buffers
        k = Kernel(self.module, inst, roles, inputs, self.target)
        k.outputs = [f"%buf{n}" for n in outputs]
        k.scratch = [f"%buf{num_buffers + n}" for n in range(scratch)]
        k.tables = [f"%buf{num_buffers + scratch + n}" for n in range(tables)]
        k.b.locate(inst.span)
        extent = step(k)
        k.b.ret()
        params = [
            f"ptr {'noalias ' if n in outputs else 'readonly '}%buf{n}" for n in range(num_buffers)
        ]
        alone = "" if k.meets else "noalias "
        params += [f"ptr {alone}{name}" for name in k.scratch]
        params += [f"ptr noalias readonly {table}" for table in k.tables]
        for n, leaf in enumerate(inputs.scalars):
            held = scalar_parameter(leaf, n)
            params += [str(held.re), str(held.im)] if isinstance(held, Cplx) else [str(held)]
        params += self.launcher.parameters(extent)
        # If it were inlined into its task and its callers, it would be compiled that many times.
        function = Function(
            "", params, ("noinline", "nounwind"), linkage="internal",
            is_light=k.is_light,
            origin=Origin(origin, (extent.iterations, extent.cost)) if origin else None,
        )  # fmt: skip
        k.b.finish(function)
        if not self.launcher.divides(extent):
            # A kernel that is not divided is compiled for all iterations.
            share = {k.begin: "0", k.end: str(extent.iterations)}
            function.body = with_operands(function.body, share)
        is_located = self.module.is_located
        code = function.text_without_locations if is_located else function.text
        name = self.cache.by_body.get(code)
        if name is None:
            name = function.name = self.cache.by_body[code] = self._name(inst)
            self.module.add(function)
        return Emitted(name, extent)

    def _name(self, inst: Instruction) -> str:
        """Return a new function's name: that of its instruction, for debuggers and profilers."""
        stem = f"kernel.{re.sub(r'[^A-Za-z0-9_.-]', '_', inst.name)}"
        # Nearly all names are free.
        return next(
            name
            for name in itertools.chain([stem], (f"{stem}.{n}" for n in itertools.count(1)))
            if not self.module.has(name)
        )

    def call(self, emitted: Emitted, pointers: Sequence[str], scalars: Sequence[Value]) -> float:
        """Write the launch of a kernel on buffers and scalars.

        Returns its maximum cost after its last poll.
        """
        args = [ptr(p) for p in pointers]
        for held in scalars:
            args += [held.re, held.im] if isinstance(held, Cplx) else [held]
        return self.launcher.launch(emitted.function, args, emitted.extent)
