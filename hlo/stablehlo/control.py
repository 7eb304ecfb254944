"""Calls, loops and branches: what their regions use from outside goes in with them."""

from __future__ import annotations

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.stablehlo.context import Context
from hlo.stablehlo.syntax import Block, free_names
from hlo.types import TupleShape


def call(c: Context) -> Instruction:
    """Append a call of another function."""
    callee = c.converter.function(str(c.attr("@", "callee")), c.op.start)
    return c.b.op("call", *c.operands, to_apply=callee)


def _captured(c: Context, *blocks: Block) -> tuple[list[str], list[Instruction]]:
    """Return the values that regions use from outside: their names inside, and what they are."""
    names: list[str] = []
    values: list[Instruction] = []
    for name in dict.fromkeys(n for block in blocks for n in free_names(block)):
        known = c.values.get(name, [])
        for i, inst in enumerate(known):
            if inst not in values:
                names.append(f"{name}#{i}")
                values.append(inst)
    return names, values


def _with_state(c: Context, block: Block) -> Block:
    """Return a region of a loop with its arguments, which the pretty form names once for both."""
    names = c.op.state or _names(block)
    if len(names) != len(c.operands):
        raise InferError(f"{len(c.operands)} values have {len(names)} names", code="operand-count")
    return Block([(n, o.shape) for n, o in zip(names, c.operands, strict=True)], block.ops)


def _names(block: Block) -> list[str]:
    return [name for name, _ in block.arguments]


def while_(c: Context) -> Instruction:
    """Append a loop over one tuple, which holds what its regions use from outside too."""
    if len(c.op.regions) != 2:
        raise InferError("a loop has two regions", code="bad-computation")
    cond, body = (_with_state(c, block) for block in c.op.regions)
    names, captured = _captured(c, cond, body)
    elements = [*c.operands, *captured]
    shape = TupleShape(tuple(o.shape for o in elements))
    start = c.b.tuple(*elements)
    make = c.converter.unpacking
    loop = c.b.op(
        "while", start, shape=shape,
        condition=make(cond, "condition", [*_names(cond), *names], shape, c.op, -1),
        body=make(body, "body", [*_names(body), *names], shape, c.op, len(captured)),
    )  # fmt: skip
    results = [c.b.element(loop, i) for i in range(len(c.operands))]
    return results[0] if len(results) == 1 else c.b.tuple(*results)


def conditional(c: Context) -> Instruction:
    """Append a conditional, whose branches take what they use from outside."""
    branches, arguments = [], []
    several = len(c.op.result_types) != 1
    for block in c.op.regions:
        names, captured = _captured(c, block)
        argument = c.b.tuple(*captured)
        shape = TupleShape(tuple(v.shape for v in captured))
        branches.append(
            c.converter.unpacking(block, "branch", names, shape, c.op, 0 if several else -1)
        )
        arguments.append(argument)
    if c.op.name == "stablehlo.if":
        if len(branches) != 2:
            raise InferError("two regions are due", code="bad-computation")
        attrs = {"true_computation": branches[0], "false_computation": branches[1]}
    else:
        attrs = {"branch_computations": tuple(branches)}  # type: ignore[dict-item]
    return c.b.op("conditional", *c.operands, *arguments, shape=c.shape, **attrs)
