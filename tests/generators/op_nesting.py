"""Control flow around a computation: the same function, called in another way.

Each wrapper takes a computation that returns a tuple of arrays and returns one of the same
parameters and results, perhaps with parameters more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.ir import Computation, Instruction
from hlo.values.types import ELEMENT_TYPES, PRED, S32, ArrayShape, Shape, TupleShape, array
from tests.generators.op_builder import Cases

Wrapper = Callable[[Cases, Computation], Computation]
# What a fusion holds: operations whose elements can be computed one by one.
_NOT_FUSED = {
    "sort", "topk", "cholesky", "triangular-solve", "fft", "custom-call", "rng-bit-generator",
    "scan", "call", "while", "conditional", "fusion", "async-start", "async-done", "copy-start",
    "copy-done", "all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter",
    "collective-broadcast", "batch-norm-training", "batch-norm-grad",
    "batch-norm-inference", "all-reduce-start", "all-reduce-done", "all-gather-start",
    "all-gather-done", "collective-permute-start", "collective-permute-done", "opt-barrier",
    "after-all", "add-dependency", "ragged-all-to-all", "partition-id", "replica-id", "domain",
}  # fmt: skip


def nest(g: Cases, comp: Computation) -> Computation:
    """Return a computation with up to three levels of control flow around it."""
    if not comp.root.operands:
        return comp
    for _ in range(g.rng.choice((0, 0, 0, 1, 1, 1, 2, 3))):
        comp = g.rng.choice(_WRAPPERS)(g, comp)
    return _in_tuples(g, comp) if g.chance(0.1) else comp


class _Inside:
    """Builds another computation for a while."""

    def __init__(self, g: Cases, name: str) -> None:
        self.g, self.outer, self.made = g, g.comp, Computation(name)

    def __enter__(self) -> Computation:
        self.g.comp = self.made
        return self.made

    def __exit__(self, *_: object) -> None:
        self.g.comp = self.outer


def _parameters(g: Cases, shapes: Sequence[Shape]) -> list[Instruction]:
    return [g.emit("parameter", shape=s, fixed=True, number=n) for n, s in enumerate(shapes)]


def _elements(g: Cases, whole: Instruction) -> list[Instruction]:
    assert isinstance(whole.shape, TupleShape)
    return [g.emit("get-tuple-element", [whole], index=n) for n in range(len(whole.shape.elements))]


def _call(g: Cases, comp: Computation) -> Computation:
    g.module.add(comp)
    with _Inside(g, "calling") as outer:
        made = g.emit("call", _parameters(g, comp.parameter_shapes), to_apply=comp)
        outer.set_root(g.emit("tuple", _elements(g, made)))
    return outer


def _fusion(g: Cases, comp: Computation) -> Computation:
    while dead := [i for i in comp if not i.num_users and not i.is_root and i.operands]:
        for inst in dead:
            comp.remove(inst)
    # In a fusion everything has a use.
    if any(i.opcode in _NOT_FUSED or not (i.num_users or i.is_root) for i in comp):
        return _call(g, comp)
    g.module.add(comp)
    kind = g.rng.choice(("kLoop", "kInput", "kOutput", "kCustom"))
    with _Inside(g, "fusing") as outer:
        made = g.emit(
            "fusion", _parameters(g, comp.parameter_shapes), shape=comp.result_shape, kind=kind,
            calls=comp,
        )  # fmt: skip
        outer.set_root(g.emit("tuple", _elements(g, made)))
    return outer


def _async(g: Cases, comp: Computation) -> Computation:
    g.module.add(comp)
    with _Inside(g, "wrapped") as wrapped:
        params = _parameters(g, comp.parameter_shapes)
        wrapped.set_root(g.emit("call", params, to_apply=comp))
    g.module.add(wrapped)
    shape = TupleShape(
        (TupleShape(tuple(comp.parameter_shapes)), comp.result_shape,
         array(ELEMENT_TYPES["u32"], ()))
    )  # fmt: skip
    with _Inside(g, "starting") as outer:
        made = g.emit(
            "async-start", _parameters(g, comp.parameter_shapes), shape=shape, fixed=True,
            calls=wrapped,
        )  # fmt: skip
        if g.chance(0.3):
            made = g.emit("async-update", [made], shape=shape, fixed=True)
        done = g.emit("async-done", [made], shape=comp.result_shape, fixed=True)
        outer.set_root(g.emit("tuple", _elements(g, done)))
    return outer


def _filled(g: Cases, shape: Shape) -> Instruction:
    assert isinstance(shape, ArrayShape)
    one = g.scalar(shape.element_type, 1)
    return g.emit("broadcast", [one], shape=shape, dimensions=())


def _while(g: Cases, comp: Computation) -> Computation:
    """Compute the same in each of a few turns, or in none; results may be kept turn by turn."""
    g.module.add(comp)
    turns = g.rng.randint(0, 3)
    stacks = turns > 0 and g.chance(0.5)
    results = comp.root.operand_shapes
    with _Inside(g, "looping") as outer:
        params = _parameters(g, comp.parameter_shapes)
        first = [_filled(g, _stacked(s, turns) if stacks else s) for s in results]
        inner = g.emit("tuple", params)
        init = g.emit("tuple", [g.scalar(S32, 0), inner, *first])
        with _Inside(g, "condition") as condition:
            state = _parameters(g, [init.shape])[0]
            at = g.emit("get-tuple-element", [state], index=0)
            limit = g.scalar(S32, turns)
            condition.set_root(g.emit("compare", [at, limit], direction="LT"))
        with _Inside(g, "body") as body:
            state = _parameters(g, [init.shape])[0]
            at, args, *old = _elements(g, state)
            called = g.emit("call", _elements(g, args), to_apply=comp)
            new = _elements(g, called)
            if stacks:
                new = [_kept(g, n, o, at) for n, o in zip(new, old, strict=True)]
            after = g.emit("add", [at, g.scalar(S32, 1)])
            body.set_root(g.emit("tuple", [after, args, *new]))
        g.module.add(condition)
        g.module.add(body)
        made = g.emit("while", [init], condition=condition, body=body)
        outer.set_root(g.emit("tuple", _elements(g, made)[2:]))
    return outer


def _stacked(shape: Shape, turns: int) -> ArrayShape:
    assert isinstance(shape, ArrayShape)
    return array(shape.element_type, (turns, *shape.dims))


def _kept(g: Cases, value: Instruction, stack: Instruction, at: Instruction) -> Instruction:
    shape = value.shape
    assert isinstance(shape, ArrayShape)
    update = g.emit("reshape", [value], shape=array(shape.element_type, (1, *shape.dims)))
    zeros = [g.scalar(S32, 0)] * shape.rank
    return g.emit("dynamic-update-slice", [stack, update, at, *zeros])


def _conditional(g: Cases, comp: Computation) -> Computation:
    g.module.add(comp)
    by_number = g.chance(0.5)
    count = g.rng.randint(1, 3) if by_number else 2
    taken = g.rng.randrange(count)
    branches = []
    for n in range(count):
        with _Inside(g, f"branch_{n}") as branch:
            whole = _parameters(g, [TupleShape(tuple(comp.parameter_shapes))])[0]
            if n == taken:
                made = g.emit("call", _elements(g, whole), to_apply=comp)
                branch.set_root(g.emit("tuple", _elements(g, made)))
            else:
                filled = [_filled(g, s) for s in comp.root.operand_shapes]
                branch.set_root(g.emit("tuple", filled))
        branches.append(g.module.add(branch))
    with _Inside(g, "choosing") as outer:
        params = _parameters(g, comp.parameter_shapes)
        choice = g.indices((), -1, 3, S32) if by_number else g.value(PRED, ())
        whole = g.emit("tuple", params)
        if by_number:
            made = g.emit("conditional", [choice, *[whole] * count],
                          branch_computations=tuple(branches))  # fmt: skip
        else:
            made = g.emit("conditional", [choice, whole, whole], true_computation=branches[0],
                          false_computation=branches[1])  # fmt: skip
        outer.set_root(g.emit("tuple", _elements(g, made)))
    return outer


def _in_tuples(g: Cases, comp: Computation) -> Computation:
    """Take arguments and return results in tuples in tuples. Changes the arguments to match."""
    if len(g.args) < 2:
        return comp
    g.module.add(comp)
    shapes = comp.parameter_shapes
    at = g.rng.randint(1, len(shapes) - 1)
    nested = TupleShape((TupleShape(tuple(shapes[:at])), TupleShape(tuple(shapes[at:]))))
    with _Inside(g, "unpacking") as outer:
        left, right = _elements(g, _parameters(g, [nested])[0])
        made = g.emit("call", [*_elements(g, left), *_elements(g, right)], to_apply=comp)
        outer.set_root(g.emit("tuple", [made, left]))
    g.args = [(tuple(g.args[:at]), tuple(g.args[at:]))]
    return outer


_WRAPPERS: tuple[Wrapper, ...] = (
    _call, _fusion, _fusion, _fusion, _async, _while, _while, _while, _conditional, _conditional,
)  # fmt: skip
