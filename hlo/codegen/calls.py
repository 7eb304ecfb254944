"""Calls of kernels: emitted once for each structure, run by one thread or by many."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernel import (
    SHARES,
    Extent,
    Inputs,
    Kernel,
    KernelEmitter,
    scalar_parameter,
    structure_key,
)
from hlo.codegen.llvm import PLACE_MARK, Builder, Module, Val, i64, ptr
from hlo.codegen.scalar import Cplx, Value
from hlo.codegen.target import Target
from hlo.ir import Instruction

# Work below this many rough scalar operations is done by the calling thread alone: waking another
# takes some microseconds.
_PARALLEL_COST = 60_000

# A kernel's share. One that has no others is compiled for all iterations.
_BEGIN, _END = re.compile(r"%begin\b"), re.compile(r"%end\b")

_RUN = """\
define internal void @hlo.run(
    ptr %threads, ptr %task, ptr %context, i64 %n, i64 %chunk, i64 %piece) noinline nounwind {
  %alone = icmp eq ptr %threads, null
  br i1 %alone, label %here, label %shared
here:
  call void ALONE
  ret void
shared:
  %run = load ptr, ptr %threads
  %at = getelementptr inbounds ptr, ptr %threads, i64 1
  %state = load ptr, ptr %at
  call void %run(ptr %state, ptr %task, ptr %context, i64 %n, i64 %chunk)
  ret void
}"""

_ALONE = "%task(ptr %context, i64 0, i64 %n)"
_ALONE_WATCHED = "@hlo.alone(ptr %task, ptr %context, i64 %n, i64 %piece)"
# What a thread that works alone does of a kernel before it looks whether to go on: milliseconds.
_PIECE_COST = 1 << 24


@dataclass(frozen=True)
class Emitted:
    """A finished kernel: its function and how its work divides."""

    function: str
    extent: Extent


def _is_shared(extent: Extent) -> bool:
    """True when a kernel's iterations are worth sharing out over threads."""
    return extent.iterations > 1 and extent.iterations * extent.cost >= _PARALLEL_COST


@dataclass
class KernelCache:
    """The kernels of an LLVM module, by what they are emitted from, and by their code."""

    # Steps are functions, or values that are equal when they emit the same.
    by_key: dict[tuple[KernelEmitter, str, tuple[int, ...]], Emitted] = field(default_factory=dict)
    by_body: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many kernels there are."""
        return len(self.by_body)


@dataclass
class Kernels:
    """The calls of kernels from one function."""

    module: Module
    target: Target
    b: Builder
    cache: KernelCache
    # One block of memory holds the arguments of whichever kernel runs on threads.
    context_slots: int = 0

    def __post_init__(self) -> None:
        self.context = self.b.fresh()

    def reserve_context(self) -> None:
        """Reserve the memory for arguments, when all calls are known."""
        self.b.alloca("i64", max(1, self.context_slots), align=8, name=self.context)

    @property
    def uses_threads(self) -> bool:
        """True when some kernel is worth sharing out."""
        return "hlo.run" in self.module.functions

    def emit(
        self,
        inst: Instruction,
        roles: Mapping[Instruction, Role],
        step: KernelEmitter,
        inputs: Inputs,
        outputs: list[int],
        places: int,
        scratch: int,
        tables: int = 0,
    ) -> Emitted:
        """Return the kernel of one step of an instruction.

        outputs: buffer numbers of the results. places, scratch, tables: how many buffers of
        each it takes.
        """
        key = (step, structure_key(inst, roles, inputs), tuple(outputs))
        found = self.cache.by_key.get(key)
        if found is not None:
            return found
        k = Kernel(self.module, inst, roles, inputs, self.target)
        k.outputs = [f"%buf{n}" for n in outputs]
        k.scratch = [f"%buf{places + n}" for n in range(scratch)]
        k.tables = [f"%buf{places + scratch + n}" for n in range(tables)]
        k.b.locate(inst.span)
        extent = step(k)
        k.b.ret()
        params = [
            f"ptr {'noalias ' if n in outputs or n >= places else 'readonly '}%buf{n}"
            for n in range(places + scratch)
        ]
        params += [f"ptr noalias readonly {table}" for table in k.tables]
        for n, leaf in enumerate(inputs.scalars):
            held = scalar_parameter(leaf, n)
            params += [str(held.re), str(held.im)] if isinstance(held, Cplx) else [str(held)]
        is_shared = _is_shared(extent)
        if is_shared:
            params += ["i64 %begin", "i64 %end"]
        # Inlined into its task and its callers, it would be compiled as many times.
        body = k.b.finish(f"define internal void @NAME({', '.join(params)}) noinline nounwind")
        if not is_shared:
            body = _BEGIN.sub("0", _END.sub(str(extent.iterations), body))
        code = body
        if self.module.is_located:
            code = "\n".join(x for x in body.split("\n") if not x.startswith(PLACE_MARK))
        name = self.cache.by_body.get(code)
        if name is None:
            name = self.cache.by_body[code] = self._name(inst)
            self.module.functions[name] = body.replace("@NAME(", f"@{name}(", 1)
        emitted = self.cache.by_key[key] = Emitted(name, extent)
        return emitted

    def _name(self, inst: Instruction) -> str:
        """Return a new function's name: that of its instruction, for debuggers and profilers."""
        stem = f"kernel.{re.sub(r'[^A-Za-z0-9_.-]', '_', inst.name)}"
        # By far most names are free.
        return next(
            name
            for name in itertools.chain([stem], (f"{stem}.{n}" for n in itertools.count(1)))
            if name not in self.module.functions
        )

    def call(self, emitted: Emitted, pointers: Sequence[str], scalars: Sequence[Value]) -> float:
        """Write the call of a kernel on buffers and scalars.

        Returns what it costs at the most after it has last looked whether to go on.
        """
        args = [ptr(p) for p in pointers]
        for held in scalars:
            args += [held.re, held.im] if isinstance(held, Cplx) else [held]
        extent = emitted.extent
        if not _is_shared(extent):
            self.b.call_void(emitted.function, args)
            return extent.iterations * extent.cost
        # A share is large enough to be worth handing out, and there are enough to balance.
        chunk = max(
            -(-extent.iterations // SHARES), math.ceil(_PARALLEL_COST / 4 / max(extent.cost, 1e-9))
        )
        chunk = min(chunk, extent.iterations)
        # One that works alone looks up less often, as each piece prepares for itself.
        piece = chunk * max(1, int(_PIECE_COST / max(chunk * extent.cost, 1e-9)))
        context = self._context(args)
        task = self._task(emitted.function, args)
        if self.module.is_watched:
            self.module.declare("hlo.alone", "void", ["ptr", "ptr", "i64", "i64"])
        alone = _ALONE_WATCHED if self.module.is_watched else _ALONE
        self.module.functions.setdefault("hlo.run", _RUN.replace("ALONE", alone))
        counts = [i64(n) for n in (extent.iterations, chunk, piece)]
        self.b.call_void("hlo.run", [ptr("%threads"), ptr(f"@{task}"), ptr(context), *counts])
        return piece * extent.cost

    def _context(self, args: Sequence[Val]) -> str:
        """Store a kernel's arguments where its tasks find them; returns the address."""
        if len(args) > self.context_slots:
            self.context_slots = len(args)
        for n, arg in enumerate(args):
            at = self.b.element_address(self.context, "i64", n)
            self.b.store(arg, at)
        return self.context

    def _task(self, function: str, args: Sequence[Val]) -> str:
        """Return the function that runs a share of a kernel with arguments from its context."""
        name = f"{function}.task"
        if name not in self.module.functions:
            lines, names = [], []
            for n, arg in enumerate(args):
                t = arg.type
                lines += [
                    f"  %p{n} = getelementptr inbounds i64, ptr %context, i64 {n}",
                    f"  %a{n} = load {t}, ptr %p{n}",
                ]
                names.append(f"{t} %a{n}")
            call = ", ".join([*names, "i64 %begin", "i64 %end"])
            self.module.functions[name] = "\n".join(
                [
                    f"define internal void @{name}(ptr %context, i64 %begin, i64 %end) "
                    "noinline nounwind {",
                    *lines, f"  call void @{function}({call})", "  ret void", "}",
                ]
            )  # fmt: skip
        return name
