"""Tuples, tokens, loops that never run, and sizes of dimensions."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.passes.algsimp._match import returns_constant
from hlo.passes.algsimp._rules import rule
from hlo.passes.cleanup.tuple_simplifier import element_of_tuple, tuple_of_elements
from hlo.values.types import S32

rule("get-tuple-element", "tuple(x0, x1, ...)[i] = xi", dynamic=True)(element_of_tuple)
rule("tuple", "tuple(t[0], t[1], ...) = t, for all of t's elements in order", dynamic=True)(
    tuple_of_elements
)


@rule("while", "while(x) = x, for a condition that is never true")
def loop_that_never_runs(inst: Instruction, b: Builder) -> Instruction | None:
    return inst.operands[0] if returns_constant(inst.condition) == 0 else None


# --- tokens -------------------------------------------------------------------------------------


@rule("after-all", "after-all(t) = t, for a token t")
def after_one(inst: Instruction, b: Builder) -> Instruction | None:
    if len(inst.operands) != 1 or not inst.operands[0].shape.is_token:
        return None
    return inst.operands[0]


@rule("after-all", "after-all(t, t, u) = after-all(t, u)")
def after_all_once(inst: Instruction, b: Builder) -> Instruction | None:
    once = list(dict.fromkeys(inst.operands))
    return None if len(once) == len(inst.operands) else b.op("after-all", *once)


@rule("after-all", "after-all(after-all(), t) = after-all(t), for what comes after nothing")
def after_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    rest = [t for t in inst.operands if t.opcode != "after-all" or t.operands]
    return None if len(rest) == len(inst.operands) else b.op("after-all", *rest)


@rule("add-dependency", "add-dependency(x, after-all()) = x", dynamic=True)
def dependency_on_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    x, token = inst.operands
    return x if token.opcode == "after-all" and not token.operands else None


# --- sizes of dimensions ------------------------------------------------------------------------


@rule("get-dimension-size", "the size of a dimension of a static array is a constant")
def size_of_static_array(inst: Instruction, b: Builder) -> Instruction | None:
    return b.constant(S32, inst.operands[0].array_shape.dims[inst.dimensions[0]])


@rule("get-dimension-size", "the size of a static dimension among dynamic ones is a constant",
      dynamic=True)  # fmt: skip
def size_of_static_dimension(inst: Instruction, b: Builder) -> Instruction | None:
    shape, d = inst.operands[0].array_shape, inst.dimensions[0]
    if not shape.is_dynamic or shape.is_dynamic_dim(d):
        return None
    return b.constant(S32, shape.dims[d])


@rule("get-dimension-size", "get(set(x, n, d), d) = n, get(set(x, n, e), d) = get(x, d)",
      dynamic=True)  # fmt: skip
def size_that_was_set(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "set-dimension-size":
        return None
    if inner.dimensions == inst.dimensions:
        # A size outside its bound is an error as long as something else is left that sets it.
        n, (dim,) = inner.operands[1], inst.dimensions
        is_known = (
            n.opcode == "constant" and 0 <= int(n.literal.array) <= (inner.array_shape.dims[dim])
        )
        return n if is_known or len(inner.users) > 1 else None
    return b.op("get-dimension-size", inner.operands[0], **inst.attrs)
