"""Parts of kernels as functions of their own.

What is around them, which runs seldom, is then compiled without optimization, and they are compiled
with nothing around them. Their names are made of their code, so that equal ones are one function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from hlo.codegen.llvm import Val, ptr
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.scalar.operations import Cplx
from hlo.llvm import Function, Instruction


def call_outlined(k: Kernel, arguments: Mapping[str, Val], write: Callable[[Kernel], None]) -> None:
    """Write a part of a kernel as a function, and the call of it.

    write: writes its code, for a kernel that has the same parameters. arguments: what it depends on
    besides, by the names inside; where this is that of a parameter, it gets another value.
    Addresses among them are of the kernel's own memory.
    """
    inner = Kernel(k.b.module, k.inst, k.roles, k.inputs, k.target)
    inner.outputs, inner.tables = k.outputs, k.tables
    inner.b.keeps_indices = True
    inner.b.locate(k.inst.span)
    write(inner)
    inner.b.ret()
    attributes = ("noinline", "nounwind")
    function = inner.b.finish(Function("", [], attributes, linkage="internal", is_general=True))
    own = {v.name: v for v in _parameters_of(k, function)} | dict(arguments)
    # As in the kernel, nothing else is at the addresses of results and of its own memory.
    alone = {*k.outputs, *(name for name, v in arguments.items() if v.type == "ptr")}
    function.parameters = [
        f"{v.type}{' noalias' if name in alone else ''} {name}" for name, v in own.items()
    ]
    digest = hashlib.sha256(function.text_without_locations.encode()).hexdigest()
    name = function.name = f"part.{digest[:16]}"
    if name not in k.b.module.functions:
        k.b.module.add(function)
    k.b.call_void(name, list(own.values()))


def _parameters_of(k: Kernel, function: Function) -> list[Val]:
    """Return the kernel's parameters that a function uses, in their order of first use."""
    buffers = [*k.outputs, *k.tables, *map(k.pointer, k.inputs.buffer_of)]
    known = {name: ptr(name) for name in buffers}
    for leaf in k.inputs.scalars:
        held = k.scalar(leaf)
        for value in (held.re, held.im) if isinstance(held, Cplx) else (held,):
            known[value.name] = value
    operands = dict.fromkeys(
        operand
        for line in function.body
        if isinstance(line, Instruction)
        for operand in line.operation.operands
    )
    return [known[name] for name in operands if name in known]
