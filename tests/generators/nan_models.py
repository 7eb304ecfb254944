"""Modules of any size with one more instruction, `seeded`, that makes a NaN or an infinity.

It follows a random value of floats in what runs whenever the module does: its entry, calls, fusions
and bodies of loops. Other values are left as they are, or become what comes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hlo.ir import Computation, Instruction, Module
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, array

# By the source: what the operation makes of |x| + 1 and x - x, for any finite x.
_SOURCES = {
    "log-of-negative": "log",
    "one-by-zero": "divide",
    "zero-by-zero": "divide",
    "zero-variance": "rsqrt",
    "sqrt-of-negative": "sqrt",
}
_TYPES = ("f32", "f64", "bf16", "f16")


@dataclass(frozen=True)
class Seed:
    """A source in a module: which, behind which instruction, and whether what comes of it is
    hidden from the rest."""

    source: str
    behind: str
    computation: str
    hidden: bool


def seed(module: Module, number: int) -> Seed:
    """Put a source into a module, which is verified afterwards by whoever runs it."""
    rng = np.random.default_rng(number)
    places = [i for comp in _always_run(module) for i in comp if _is_place(i)]
    x = places[int(rng.integers(len(places)))]
    source = list(_SOURCES)[number % len(_SOURCES)]
    hidden = bool(rng.integers(2))
    comp, shape = x.parent, x.array_shape
    assert comp is not None
    users, is_root = x.users, x.is_root
    one = comp.create(
        "constant", array(shape.element_type.name, ()), (),
        {"literal": Literal.of(np.ones((), shape.element_type.dtype))}, like=x,
    )  # fmt: skip
    ones = comp.create("broadcast", shape, [one], {"dimensions": ()}, like=x)
    size = comp.create("abs", shape, [x], like=x)
    above = comp.create("add", shape, [size, ones], like=x)
    below = comp.create("negate", shape, [above], like=x)
    zero = comp.create("subtract", shape, [x, x], like=x)
    operands = {
        "one-by-zero": [above, zero], "zero-by-zero": [zero, zero], "zero-variance": [zero],
    }.get(source, [below])  # fmt: skip
    made = comp.create(_SOURCES[source], shape, operands, name="seeded", like=x)
    if hidden:
        pred = ArrayShape(array("pred", ()).element_type, shape.dims, shape.layout)
        finite = comp.create("is-finite", pred, [made], like=x)
        seen = comp.create("select", shape, [finite, made, x], like=x)
    else:
        seen = comp.create("add", shape, [made, x], like=x)
    for user in users:
        for n, operand in enumerate(user.operands):
            if operand is x:
                user.replace_operand(n, seen)
    if is_root:
        comp.set_root(seen)
    return Seed(source, x.name, comp.name, hidden)


def _always_run(module: Module) -> list[Computation]:
    """Return the computations that run on whole values, whatever conditions say."""
    found, pending = [], [module.entry]
    while pending:
        comp = pending.pop()
        found.append(comp)
        for inst in comp:
            if inst.opcode in ("call", "fusion", "while"):
                called = [inst.body] if inst.opcode == "while" else inst.called_computations
                pending += [c for c in called if c not in found and c not in pending]
    return found


def _is_place(inst: Instruction) -> bool:
    shape = inst.shape
    return (
        isinstance(shape, ArrayShape) and shape.element_type.name in _TYPES
        and not shape.is_dynamic and shape.num_elements > 0
        and inst.opcode not in ("constant", "parameter", "broadcast", "iota")
    )  # fmt: skip
