"""Calls, loops and branches: values captured by their regions become explicit."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context, is_constant
from hlo.frontends.stablehlo.quantized_types import storage
from hlo.frontends.stablehlo.syntax import Block, free_names
from hlo.ir import Instruction
from hlo.values.types import Shape, compatible


def call(c: Context) -> Instruction:
    """Append a call of another function."""
    callee = c.converter.function(str(c.attr("callee")), c.op.start)
    return c.b.op("call", *c.operands, to_apply=callee)


def _captured(c: Context, *blocks: Block) -> tuple[list[str], list[Instruction]]:
    """Return the values captured by regions: their names and values.

    Constants are repeated inside.
    """
    names: list[str] = []
    values: list[Instruction] = []
    for name in dict.fromkeys(n for block in blocks for n in free_names(block)):
        known = c.values.get(name, [])
        for i, inst in enumerate(known):
            if inst not in values and not is_constant(inst):
                names.append(f"{name}#{i}")
                values.append(inst)
    return names, values


def _names(block: Block) -> list[str]:
    return [name for name, _ in block.arguments]


def _fits(block: Block, shapes: Sequence[Shape]) -> bool:
    """Whether a region takes values of these shapes."""
    arguments = [storage(shape) for _, shape in block.arguments]
    return len(arguments) == len(shapes) and all(map(compatible, arguments, shapes))


def while_(c: Context) -> Instruction:
    """Append a loop over one tuple, which includes the captured values of its regions."""
    if len(c.op.regions) != 2:
        raise InferError("a loop has two regions", code="bad-computation")
    cond, body = c.op.regions
    shapes = [o.shape for o in c.operands]
    if not all(_fits(block, shapes) for block in (cond, body)):
        raise InferError(
            "its regions have other arguments than its operands", code="bad-computation"
        )
    names, captured = _captured(c, cond, body)
    elements = [*c.operands, *captured]
    start = elements[0] if len(elements) == 1 else c.b.tuple(*elements)
    make = c.converter.unpacking
    loop = c.b.op(
        "while", start, shape=start.shape,
        condition=make(cond, "condition", [*_names(cond), *names], elements, c),
        body=make(body, "body", [*_names(body), *names], elements, c, len(captured)),
    )  # fmt: skip
    if len(elements) == 1:
        return loop
    results = [c.b.element(loop, i) for i in range(len(c.operands))]
    return results[0] if len(results) == 1 else c.b.tuple(*results)


def conditional(c: Context) -> Instruction:
    """Append a conditional, whose branches take captured values as operands."""
    branches, arguments = [], []
    for block in c.op.regions:
        if block.arguments:
            raise InferError("a branch has no arguments", code="bad-computation")
        names, captured = _captured(c, block)
        arguments.append(captured[0] if len(captured) == 1 else c.b.tuple(*captured))
        branches.append(c.converter.unpacking(block, "branch", names, captured, c))
    if c.op.kind == "if":
        if len(branches) != 2:
            raise InferError("two regions are needed", code="bad-computation")
        attrs = {"true_computation": branches[0], "false_computation": branches[1]}
    else:
        attrs = {"branch_computations": tuple(branches)}  # type: ignore[dict-item]
    return c.b.op("conditional", *c.operands, *arguments, shape=c.shape, **attrs)
