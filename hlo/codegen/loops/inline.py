"""Inline emission of scalar computations: reducers, comparators, functions of scatters and maps.

Loops, branches and calls inside them are included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.loops.function import call_function
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.errors import HloError
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.types import ArrayShape

# What computes elements from elements, or only moves them.
_OF_ELEMENTS = Trait.ELEMENTWISE | Trait.VIEW

# A value: an SSA value for an array, a list of values for a tuple, None for a token.
Tree = Any


def inline(
    b: Builder,
    comp: Computation,
    args: Sequence[Tree],
    root: Instruction | None = None,
    known: Mapping[Instruction, Val] | None = None,
) -> list[Value]:
    """Return the result leaves of a computation on scalars.

    root: an instruction to compute instead of the result; arguments that it does not depend on may
    be None. known: what instructions are known to result in, which need not be computed.
    """
    if root is None and not works_on_scalars(comp):
        return call_function(b, comp, [leaf for a in args for leaf in _leaves(a)])
    return _leaves(_evaluate(b, comp, args, root or comp.root, known))


def works_on_scalars(comp: Computation) -> bool:
    """True when a function of scalars has no arrays as intermediate values."""
    return all(
        all(not isinstance(s, ArrayShape) or not s.dims for _, s in inst.shape.leaves())
        and (
            all(map(works_on_scalars, inst.called_computations))
            if inst.opcode in _ON_TREES or inst.spec.has(Trait.FORWARDS)
            else _is_scalar(inst)
        )
        for inst in comp
    )


# Opcodes with a case of their own in `_value`.
_ON_TREES = frozenset(
    """parameter tuple get-tuple-element after-all dynamic-slice pad gather dynamic-update-slice map
    reduce reduce-window while conditional""".split()
)


def _evaluate(
    b: Builder,
    comp: Computation,
    args: Sequence[Tree],
    root: Instruction,
    known: Mapping[Instruction, Val] | None = None,
) -> Tree:
    needed = _ancestors(root)
    values: dict[Instruction, Tree] = dict(known or {})
    before = b.locate(root.span)
    for inst in comp.in_order():
        if inst in needed and inst not in values:
            values[inst] = _value(b, inst, args, values)
    b.locate(before)
    return values[root]


def _ancestors(root: Instruction) -> set[Instruction]:
    found: set[Instruction] = set()
    todo = [root]
    while todo:
        inst = todo.pop()
        if inst not in found:
            found.add(inst)
            todo.extend(inst.operands)
    return found


def _value(
    b: Builder, inst: Instruction, args: Sequence[Tree], values: Mapping[Instruction, Tree]
) -> Tree:
    operands = [values[o] for o in inst.operands]
    b.locate(inst.span)
    match inst.opcode:
        case "parameter":
            return args[inst.parameter_number]
        case "tuple":
            return operands
        case "get-tuple-element":
            return operands[0][inst.tuple_index]
        case "after-all":
            return None
        case "dynamic-slice" | "pad" | "gather":
            # An array of rank 0 has one element.
            return operands[0]
        case "dynamic-update-slice":
            return operands[1]
        case "map":
            return _evaluate(b, inst.to_apply, operands, inst.to_apply.root)
        case "reduce" | "reduce-window":
            return _reduced(b, inst, operands)
        case "while":
            return _loop(b, inst, operands[0])
        case "conditional":
            return _branch(b, inst, operands)
        case _ if inst.spec.has(Trait.FORWARDS):
            return operands[0]
    _need_scalars(inst)
    return scalar.elementwise(b, inst, operands)


def _is_scalar(inst: Instruction) -> bool:
    shapes = [inst.shape, *inst.operand_shapes]
    return all(isinstance(s, ArrayShape) and not s.dims for s in shapes) and (
        inst.spec.has(_OF_ELEMENTS) or inst.opcode in ("constant", "bitcast", "bitcast-convert")
    )


def _need_scalars(inst: Instruction) -> None:
    if _is_scalar(inst):
        return
    raise HloError.at(
        "unsupported",
        f"{inst.opcode} on {inst.shape.to_string(False)}: functions that are applied to elements "
        f"are compiled on scalars only",
    )


def _reduced(b: Builder, inst: Instruction, operands: list[Tree]) -> Tree:
    """A reduction of one element: the initial value and that element."""
    count = len(operands) // 2
    comp = inst.to_apply
    return _evaluate(b, comp, [*operands[count:], *operands[:count]], comp.root)


def _leaves(tree: Tree) -> list[Value]:
    if isinstance(tree, list):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [] if tree is None else [tree]


def _like(tree: Tree, leaves: list[Value]) -> Tree:
    """Return a tree of the same structure with the given leaves, which are consumed."""
    if isinstance(tree, list):
        return [_like(part, leaves) for part in tree]
    return None if tree is None else leaves.pop(0)


def _parts(tree: Tree) -> list[Val]:
    """Return the SSA values of a tree."""
    found: list[Val] = []
    for leaf in _leaves(tree):
        found += [leaf.re, leaf.im] if isinstance(leaf, Cplx) else [leaf]
    return found


def _from_parts(tree: Tree, parts: Sequence[Val]) -> Tree:
    """Return a tree of the same structure from SSA values."""
    rest, leaves = list(parts), list[Value]()
    for leaf in _leaves(tree):
        leaves.append(Cplx(rest.pop(0), rest.pop(0)) if isinstance(leaf, Cplx) else rest.pop(0))
    return _like(tree, leaves)


def _loop(b: Builder, inst: Instruction, state: Tree) -> Tree:
    """Emit a while loop; its state is in allocas, which LLVM promotes to registers."""
    start = _parts(state)
    slots = [b.alloca(v.type).name for v in start]

    def put(parts: Sequence[Val]) -> None:
        for slot, part in zip(slots, parts, strict=True):
            b.store(part, slot)

    def get() -> Tree:
        pairs = zip(slots, start, strict=True)
        return _from_parts(state, [b.load(v.type, slot) for slot, v in pairs])

    def go_on() -> Val:
        (test,) = inline(b, inst.condition, [get()])
        assert isinstance(test, Val)
        return test

    body: Computation = inst.body
    put(start)
    with b.repeat(go_on, is_polled=True):
        put(_parts(_evaluate(b, body, [get()], body.root)))
    return get()


def _branch(b: Builder, inst: Instruction, operands: list[Tree]) -> Tree:
    """Emit a conditional: the last branch is the default for an invalid index."""
    chosen, *args = operands
    assert isinstance(chosen, Val)
    form: list[Tree] = []

    def body(number: int) -> Callable[[], list[Val]]:
        def emit() -> list[Val]:
            comp = inst.called_computations[number]
            tree = _evaluate(b, comp, [args[number]], comp.root)
            form.append(tree)
            return _parts(tree)

        return emit

    def among(first: int) -> Callable[[], list[Val]]:
        if first == len(inst.called_computations) - 1:
            return body(first)
        if chosen.type == "i1":
            test = chosen
        else:
            test = b.icmp("eq", chosen, first)
        return lambda: b.choose(test, body(first), among(first + 1))

    parts = among(0)()
    return _from_parts(form[0], parts)
