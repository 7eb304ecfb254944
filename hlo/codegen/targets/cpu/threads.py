"""How a processor runs a kernel: a call, or many by the caller's threads, each of a share.

The caller of the program passes `Threads` (see `hlo.codegen.entry.emitter`), or null to do all by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.codegen.llvm import Builder, Val, i64, ptr
from hlo.codegen.targets.base import Extent, Launcher

# Work below this many rough scalar operations is done by the calling thread alone: waking another
# takes some microseconds.
_PARALLEL_COST = 60_000
# What a thread that works alone does of a kernel before it looks whether to go on: milliseconds.
_PIECE_COST = 1 << 24

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

    @property
    def is_parallel(self) -> bool:
        return "hlo.run" in self._module.functions

    def finish(self) -> None:
        self._b.alloca("i64", max(1, self._context_slots), align=8, name=self._context)

    def launch(self, function: str, arguments: Sequence[Val], extent: Extent) -> float:
        b, module = self._b, self._module
        if not self.divides(extent):
            b.call_void(function, arguments)
            return extent.iterations * extent.cost
        # A share is large enough to be worth handing out, and there are enough to balance.
        chunk = max(
            -(-extent.iterations // self._shares),
            math.ceil(_PARALLEL_COST / 4 / max(extent.cost, 1e-9)),
        )
        chunk = min(chunk, extent.iterations)
        # One that works alone looks up less often, as each piece prepares for itself.
        piece = chunk * max(1, int(_PIECE_COST / max(chunk * extent.cost, 1e-9)))
        self._store(arguments)
        task = self._task(function, arguments)
        if module.is_watched:
            module.declare("hlo.alone", "void", ["ptr", "ptr", "i64", "i64"])
        alone = _ALONE_WATCHED if module.is_watched else _ALONE
        module.functions.setdefault("hlo.run", _RUN.replace("ALONE", alone))
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
            lines, names = [], []
            for n, argument in enumerate(arguments):
                lines += [
                    f"  %p{n} = getelementptr inbounds i64, ptr %context, i64 {n}",
                    f"  %a{n} = load {argument.type}, ptr %p{n}",
                ]
                names.append(f"{argument.type} %a{n}")
            call = ", ".join([*names, "i64 %begin", "i64 %end"])
            self._module.functions[name] = "\n".join(
                [
                    f"define internal void @{name}(ptr %context, i64 %begin, i64 %end) "
                    "noinline nounwind {",
                    *lines, f"  call void @{function}({call})", "  ret void", "}",
                ]
            )  # fmt: skip
        return name
