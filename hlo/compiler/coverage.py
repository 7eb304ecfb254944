"""Which operations have native code for which element types, determined by compiling them.

Every example of the op table is tried in every element type. A pair of operation and type counts
when the verifier accepts such an instruction and the interpreter runs it; then it has to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.io.arguments import need_size
from hlo.io.random import random_array
from hlo.ir import Module
from hlo.ops import OPS, OpSpec
from hlo.runtime.jit import Machine, host_machine
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.types import ELEMENT_TYPES, Shape, TokenShape, TupleShape
from hlo.verifier import verify

_TYPE = re.compile(r"\b(" + "|".join(sorted(ELEMENT_TYPES, key=len, reverse=True)) + r")(?=\[)")


@dataclass(frozen=True)
class Support:
    """One operation in one element type. `problem` says why it does not compile, if it does not."""

    opcode: str
    type: str
    text: str
    problem: str | None = None


def supported(
    opcodes: list[str] | None = None, types: list[str] | None = None
) -> Iterator[Support]:
    """Yield every meaningful pair of operation and element type.

    opcodes, types: which to try; by default all.
    """
    machine = host_machine()
    for opcode in sorted(OPS) if opcodes is None else opcodes:
        for name in ELEMENT_TYPES if types is None else types:
            found = _pair(OPS[opcode], name, machine)
            if found is not None:
                yield found


def _pair(spec: OpSpec, name: str, machine: Machine) -> Support | None:
    """Return the support of an operation in a type, with the first form that fails, if any."""
    good = None
    for text in instances(spec, name):
        module = _valid(text)
        if module is None or not _runs(module):
            continue
        problem = _problem(module, machine)
        if problem is not None:
            return Support(spec.name, name, text, problem)
        good = good or Support(spec.name, name, text)
    return good


def instances(spec: OpSpec, name: str) -> Iterator[str]:
    """Yield the examples of an operation with one of their types replaced by another.

    Not all of them are valid: a shift has no meaning on floats.
    """
    seen: set[str] = set()
    for example in spec.examples:
        for old in dict.fromkeys(_TYPE.findall(example)):
            text = re.sub(rf"\b{old}(?=\[)", name, example)
            if text not in seen:
                seen.add(text)
                yield text


def _valid(text: str) -> Module | None:
    try:
        module = parse(text, "<example>")
        verify(module)
    except HloError:
        return None
    return module


def _runs(module: Module) -> bool:
    try:
        interpret(module, [_value(p.shape, n) for n, p in enumerate(module.entry.parameters)])
    except HloError:
        return False
    return True


def _value(shape: Shape, seed: int) -> object:
    if isinstance(shape, TupleShape):
        return tuple(_value(s, seed + n) for n, s in enumerate(shape.elements))
    if isinstance(shape, TokenShape):
        return TOKEN_VALUE
    return random_array(need_size(shape, "an example"), [seed])


def _problem(module: Module, machine: Machine) -> str | None:
    try:
        build(module, machine, Clock(), passes="")
    except HloError as e:
        return e.diagnostics[0].message
    # Any other exception is a gap in support, which this list is meant to show.
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None
