"""How a processor runs a kernel: a call, or many by the caller's threads, each of a share.

The caller of the program passes `Threads` (see `hlo.codegen.entry.emitter`), or null to do all by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.codegen.llvm import Builder, Val, i64, ptr
from hlo.codegen.targets.base import Extent, Launcher
from hlo.llvm import Call, Function, GetElementPtr, Instruction, Load, Return

# Work below this many rough scalar operations is done by the calling thread alone: waking another
# takes some microseconds.
_PARALLEL_COST = 60_000
# What a thread that works alone does of a kernel before it looks whether to go on: milliseconds.
_PIECE_COST = 1 << 24
# Attributes of functions between a launch and its kernel, which LLVM need not optimize.
_BETWEEN = ("noinline", "optnone", "nounwind")


class ThreadLauncher(Launcher):
    """Writes calls of kernels, and of a function that has threads do the large ones.

    shares: how many a kernel is cut into at the most.
    """

    def __init__(self, b: Builder, shares: int) -> None:
        self._b = b
        self._module = b.module
        self._shares = shares
        # One block of memory holds the arguments of whichever kernel runs on threads.
        self._context = b.fresh()
        self._context_slots = 0

    def divides(self, extent: Extent) -> bool:
        return extent.iterations > 1 and extent.iterations * extent.cost >= _PARALLEL_COST

    def share(self, extent: Extent) -> int:
        """Return the iterations of a share of a kernel that is divided.

        It is large enough to be worth handing out, and there are enough to balance.
        """
        chunk = max(
            -(-extent.iterations // self._shares),
            math.ceil(_PARALLEL_COST / 4 / max(extent.cost, 1e-9)),
        )
        return min(chunk, extent.iterations)

    @property
    def is_parallel(self) -> bool:
        return "hlo.run" in self._module.functions

    def finish(self) -> None:
        self._b.alloca("i64", max(1, self._context_slots), align=8, name=self._context)

    def launch(self, function: str, arguments: Sequence[Val], extent: Extent) -> float:
        b = self._b
        if not self.divides(extent):
            b.call_void(function, arguments)
            return extent.iterations * extent.cost
        chunk = self.share(extent)
        # One that works alone looks up less often, as each piece prepares for itself.
        piece = chunk * max(1, int(_PIECE_COST / max(chunk * extent.cost, 1e-9)))
        self._store(arguments)
        task = self._task(function, arguments)
        self._define_run()
        counts = [i64(n) for n in (extent.iterations, chunk, piece)]
        b.call_void("hlo.run", [ptr("%threads"), ptr(f"@{task}"), ptr(self._context), *counts])
        return piece * extent.cost

    def _store(self, arguments: Sequence[Val]) -> None:
        """Store a kernel's arguments where its tasks find them."""
        self._context_slots = max(self._context_slots, len(arguments))
        for n, argument in enumerate(arguments):
            at = self._b.element_address(self._context, "i64", n)
            self._b.store(argument, at)

    def _task(self, function: str, arguments: Sequence[Val]) -> str:
        """Return the function that runs a share of a kernel with arguments from its context."""
        name = f"{function}.task"
        if name not in self._module.functions:
            parameters = ["ptr %context", "i64 %begin", "i64 %end"]
            lines: list[Instruction] = []
            for n, arg in enumerate(arguments):
                at = GetElementPtr("inbounds", "i64", ("ptr", "i64"), ("%context", str(n)))
                lines += [
                    Instruction(f"%p{n}", at),
                    Instruction(f"%a{n}", Load(arg.type, (f"%p{n}",))),
                ]
            types = (*(arg.type for arg in arguments), "i64", "i64")
            operands = (*(f"%a{n}" for n in range(len(arguments))), "%begin", "%end")
            lines.append(Instruction("", Call("", "void", f"@{function}", types, operands)))
            lines.append(Instruction("", Return("void", ())))
            task = Function(name, parameters, _BETWEEN, linkage="internal", body=lines)
            self._module.add(task)
        return name

    def _define_run(self) -> None:
        """Add the function that runs a task on threads, or alone where the caller has none."""
        module = self._module
        if "hlo.run" in module.functions:
            return
        names = ("ptr %threads", "ptr %task", "ptr %context", "i64 %n", "i64 %chunk", "i64 %piece")
        function = Function("hlo.run", names, _BETWEEN, linkage="internal")
        module.add(function)
        b = Builder(module)
        here, shared = b.new_label("here"), b.new_label("shared")
        b.branch(b.icmp("eq", ptr("%threads"), "null"), here, shared)
        b.place(here)
        task, context, n = ptr("%task"), ptr("%context"), i64("%n")
        if module.is_watched:
            module.declare("hlo.alone", "void", ["ptr", "ptr", "i64", "i64"])
            b.call_void("hlo.alone", [task, context, n, i64("%piece")])
        else:
            b.call_void_address(task, [context, i64(0), n])
        b.ret()
        b.place(shared)
        run = b.load("ptr", "%threads")
        state = b.load("ptr", b.element_address("%threads", "ptr", 1))
        b.call_void_address(run, [state, task, context, n, i64("%chunk")])
        b.ret()
        b.finish(function)
