"""Modules whose entry becomes a function that is called several times, with different arguments."""

from __future__ import annotations

import numpy as np

import hlo
from hlo.ir import Computation, Instruction, Module
from hlo.testing.compare import is_inexact
from hlo.values.types import ArrayShape, TupleShape


def called(module: Module, seed: int) -> Module:
    """Return a module that calls another one's entry two to four times.

    Some of the calls have equal arguments, the result of an earlier call, or a result that nothing
    uses, which the passes drop or merge.
    """
    rng = np.random.default_rng(seed)
    module = module.clone()
    module.attrs.pop("entry_computation_layout", None)
    function = module.entry
    caller = Computation("calls")
    parameters = [
        caller.add(Instruction(f"arg{n}", "parameter", p.shape, (), {"number": n}))
        for n, p in enumerate(function.parameters)
    ]
    results: list[list[Instruction]] = []
    for number in range(rng.integers(2, 5)):
        arguments = [
            _argument(caller, p, [r for result in results for r in result], rng) if number else p
            for p in parameters
        ]
        call = Instruction(f"call{number}", "call", function.root.shape, arguments)
        call.attrs["to_apply"] = function
        results.append(_elements(caller, caller.add(call)))
    first, *others = (results[n] for n in rng.permutation(len(results)))
    for other in others:
        first = [_joined(caller, a, b, rng) for a, b in zip(first, other, strict=True)]
    shape = TupleShape(tuple(a.shape for a in first))
    caller.add(Instruction("results", "tuple", shape, first), root=True)
    module.add(caller, entry=True)
    return hlo.parse(str(module))


def _elements(caller: Computation, value: Instruction) -> list[Instruction]:
    if not isinstance(value.shape, TupleShape):
        return [value]
    return [
        caller.add(Instruction(f"{value.name}.{n}", "get-tuple-element", s, [value], {"index": n}))
        for n, s in enumerate(value.shape.elements)
    ]


def _argument(
    caller: Computation, p: Instruction, earlier: list[Instruction], rng: np.random.Generator
) -> Instruction:
    """Return an argument for another call: the same, a result of an earlier one, or others."""
    same = [r for r in earlier if r.shape == p.shape]
    choice = rng.integers(4)
    if choice == 0 or not isinstance(p.shape, ArrayShape):
        return p
    if choice == 1 and same:
        return same[rng.integers(len(same))]
    if is_inexact(p.array_shape.element_type.dtype):
        opcode = "negate"
    elif p.array_shape.element_type.dtype.kind == "i":
        opcode = "abs"
    else:
        return p
    return caller.add(Instruction(f"{p.name}.{opcode}", opcode, p.shape, [p]))


def _joined(
    caller: Computation, a: Instruction, b: Instruction, rng: np.random.Generator
) -> Instruction:
    """Return a value made of two results: one of them, or both."""
    choice = rng.integers(3)
    if choice == 0 or not isinstance(a.shape, ArrayShape):
        return a
    if choice == 1 and is_inexact(a.shape.element_type.dtype):
        return caller.add(Instruction("difference", "subtract", a.shape, [a, b]))
    picks = caller.add(Instruction("picks", "constant", _TRUE.shape, (), {"literal": _TRUE}))
    return caller.add(Instruction("picked", "select", a.shape, [picks, b, a]))


_TRUE = hlo.parse("HloModule t ENTRY e { ROOT p = pred[] constant(true) }")["p"].literal
