"""Calls of kernels: emitted once for each structure, launched in the target's way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import Builder, ModuleBuilder, ptr
from hlo.codegen.loops.kernel import Inputs, Kernel, KernelEmitter, scalar_parameter, structure_key
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.codegen.targets.base import Extent, LlvmTarget
from hlo.ir import Instruction
from hlo.llvm import Function, with_operands


@dataclass(frozen=True)
class Emitted:
    """An emitted kernel: its function and how its work divides."""

    function: str
    extent: Extent


@dataclass
class KernelCache:
    """The kernels of an LLVM module, keyed by structure, and by their code."""

    # Steps are functions, or values that are equal if they emit the same code.
    by_key: dict[tuple[KernelEmitter, str, tuple[int, ...]], Emitted] = field(default_factory=dict)
    by_body: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of kernels."""
        return len(self.by_body)


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
        key = (step, structure_key(inst, roles, inputs), tuple(outputs))
        found = self.cache.by_key.get(key)
        if found is not None:
            return found
        k = Kernel(self.module, inst, roles, inputs, self.target)
        k.outputs = [f"%buf{n}" for n in outputs]
        k.scratch = [f"%buf{num_buffers + n}" for n in range(scratch)]
        k.tables = [f"%buf{num_buffers + scratch + n}" for n in range(tables)]
        k.b.locate(inst.span)
        extent = step(k)
        k.b.ret()
        params = [
            f"ptr {'noalias ' if n in outputs or n >= num_buffers else 'readonly '}%buf{n}"
            for n in range(num_buffers + scratch)
        ]
        params += [f"ptr noalias readonly {table}" for table in k.tables]
        for n, leaf in enumerate(inputs.scalars):
            held = scalar_parameter(leaf, n)
            params += [str(held.re), str(held.im)] if isinstance(held, Cplx) else [str(held)]
        is_shared = self.launcher.divides(extent)
        if is_shared:
            params += ["i64 %begin", "i64 %end"]
        # If it were inlined into its task and its callers, it would be compiled that many times.
        function = Function(
            "", params, ("noinline", "nounwind"), linkage="internal",
            is_light=k.is_light,
        )  # fmt: skip
        k.b.finish(function)
        if not is_shared:
            # A kernel that is not divided is compiled for all iterations.
            share = {k.begin: "0", k.end: str(extent.iterations)}
            function.body = with_operands(function.body, share)
        is_located = self.module.is_located
        code = function.text_without_locations if is_located else function.text
        name = self.cache.by_body.get(code)
        if name is None:
            name = function.name = self.cache.by_body[code] = self._name(inst)
            self.module.add(function)
        emitted = self.cache.by_key[key] = Emitted(name, extent)
        return emitted

    def _name(self, inst: Instruction) -> str:
        """Return a new function's name: that of its instruction, for debuggers and profilers."""
        stem = f"kernel.{re.sub(r'[^A-Za-z0-9_.-]', '_', inst.name)}"
        # Nearly all names are free.
        return next(
            name
            for name in itertools.chain([stem], (f"{stem}.{n}" for n in itertools.count(1)))
            if name not in self.module.functions
        )

    def call(self, emitted: Emitted, pointers: Sequence[str], scalars: Sequence[Value]) -> float:
        """Write the launch of a kernel on buffers and scalars.

        Returns its maximum cost after its last poll.
        """
        args = [ptr(p) for p in pointers]
        for held in scalars:
            args += [held.re, held.im] if isinstance(held, Cplx) else [held]
        return self.launcher.launch(emitted.function, args, emitted.extent)
