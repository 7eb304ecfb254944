"""Many single instructions as one module, so that XLA compiles once for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES

_INSTRUCTION = re.compile(r"(\S+) ([\w-]+)\((.*?)\)(.*)", re.S)
_OPERAND = re.compile(r"(\w+)\[([\d,]*)\]")


def combine(instructions: Sequence[str]) -> str:
    """Return a module whose result is the tuple of `shape opcode(shape name, ...), attributes`."""
    body, results, count = [], [], 0
    for number, text in enumerate(instructions):
        match = _INSTRUCTION.fullmatch(text.strip())
        assert match, text
        shape, opcode, operands, rest = match.groups()
        names = []
        for operand in _OPERAND.finditer(operands):
            names.append(f"p{count}")
            body.append(f"  p{count} = {operand[0]} parameter({count})")
            count += 1
        body.append(f"  r{number} = {shape} {opcode}({', '.join(names)}){rest}")
        results.append((shape, f"r{number}"))
    shapes, names = (", ".join(part) for part in zip(*results, strict=True))
    body.append(f"  ROOT result = ({shapes}) tuple({names})")
    return "HloModule combined\n\nENTRY main {\n" + "\n".join(body) + "\n}\n"


def operands(
    instructions: Sequence[str], seed: int = 0, *, edges: bool = False
) -> list[np.ndarray]:
    """Return random arguments for the module that `combine` makes; `edges` as in `inputs`."""
    rng = np.random.default_rng(seed)
    arrays = []
    for text in instructions:
        match = _INSTRUCTION.fullmatch(text.strip())
        assert match, text
        for et, dims in _OPERAND.findall(match[3]):
            shape = tuple(int(d) for d in dims.split(",") if d)
            arrays.append(random_array(rng, ELEMENT_TYPES[et], shape, edges=edges))
    return arrays
