"""Scatters by loops that combine one window a step."""

from __future__ import annotations

from hlo.analysis.patterns import single_binary_op
from hlo.errors import HloError
from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation
from hlo.ops import OPS, Trait
from hlo.ops.movement.gather_scatter import index_dims
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.expand._starts import Starts
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import PRED, array

_MODES = ("all", "simple", "indeterminate")


@module_pass
def scatter_expander(module: Module, rewrites: Rewrites, *, mode: str = "all") -> None:
    """Express scatters by a loop that combines one window at a time, in index order.

    mode: `all`; `simple` for those of one window, which need no loop; `indeterminate` for those
    whose result depends on the order.
    """
    if mode not in _MODES:
        words = f"scatter-expander: mode is one of {', '.join(_MODES)}, not {mode}"
        raise HloError.at("bad-pass-option", words)

    def expansion(inst: Instruction) -> Computation | None:
        if mode == "indeterminate" and _any_order_will_do(inst):
            return None
        return _expanded(inst, most=1 if mode == "simple" else None)

    expand_instructions(module, rewrites, "scatter_expander.expand", ["scatter"], expansion)


def _any_order_will_do(inst: Instruction) -> bool:
    """True where no two updates meet, or where combining them is associative and commutative."""
    if inst.unique_indices:
        return True
    et, op = inst.operands[0].array_shape.element_type, single_binary_op(inst.to_apply)
    if op is None or et.is_complex:
        return False
    return OPS[op].has(Trait.COMMUTATIVE) and OPS[op].is_associative(et)


def _expanded(inst: Instruction, most: int | None) -> Computation | None:
    if any(o.array_shape.is_dynamic for o in inst.operands):
        return None
    n = len(inst.operands) // 2
    shape, updates = inst.operands[0].array_shape, inst.operands[n + 1].array_shape
    dims = index_dims(inst)
    starts = Starts.of(inst.operands[0], inst.operands[n], dims)
    if most is not None and starts.count > most:
        return None
    d = Draft(inst)
    olds = d.parameters[:n]
    if not shape.num_elements or not updates.num_elements:
        return d.done(_results(d, inst, olds))
    inside = inst.update_window_dims
    order = [*(x for x in range(updates.rank) if x not in inside), *inside]
    sizes = [1] * shape.rank
    for dim, at in zip(dims.window_dims(shape.rank), inside, strict=True):
        sizes[dim] = updates.dims[at]
    functions = _one_by_one(inst, n)

    def row(b: Builder, value: Instruction) -> Instruction:
        """Append the updates with one window a row."""
        moved = b.op("transpose", value, dimensions=tuple(order))
        return b.reshape(moved, (starts.count, *sizes))

    def combined(
        b: Builder, at: Instruction, olds: list[Instruction], rows: list[Instruction],
        vectors: Instruction,
    ) -> list[Instruction]:  # fmt: skip
        place = starts.at(b, vectors, at)
        zeros = [b.constant(at.array_shape.element_type, 0)] * shape.rank
        before = [b.op("dynamic-slice", x, *place, dynamic_slice_sizes=tuple(sizes)) for x in olds]
        new = []
        for r in rows:
            piece = b.op("dynamic-slice", r, at, *zeros, dynamic_slice_sizes=(1, *sizes))
            new.append(b.reshape(piece, sizes))
        every = tuple(range(shape.rank))
        after = [b.op("map", *before, *new, dimensions=every, to_apply=f) for f in functions]
        # A window that is not wholly inside is left out; where it was clamped to, all stays.
        fits = b.broadcast(_fits(b, place, shape.dims, sizes), array(PRED, sizes))
        return [
            b.op("dynamic-update-slice", x, b.op("select", fits, a, o), *place)
            for x, a, o in zip(olds, after, before, strict=True)
        ]

    def step(
        b: Builder, at: Instruction, olds: list[Instruction], fixed: list[Instruction]
    ) -> list[Instruction]:
        return combined(b, at, olds, fixed[:n], fixed[n])

    rows = [row(d, u) for u in d.parameters[n + 1 :]]
    vectors = starts.vectors(d, d.parameters[n])
    if starts.count == 1:
        return d.done(
            _results(d, inst, combined(d, d.constant(starts.type, 0), olds, rows, vectors))
        )
    done = counted_loop(d, starts.count, olds, [*rows, vectors], step)
    return d.done(_results(d, inst, done))


def _results(d: Draft, inst: Instruction, values: list[Instruction]) -> Instruction:
    return d.relaid(d.tuple(*values) if inst.shape.is_tuple else values[0], inst.shape)


def _one_by_one(inst: Instruction, n: int) -> list[Computation]:
    """Return functions of scalars, one for each operand, which is what `map` takes."""
    whole: Computation = inst.to_apply
    if not whole.root.shape.is_tuple:
        return [whole]
    shapes = [p.shape for p in whole.parameters]

    def part(k: int) -> Computation:
        def body(b: Builder, *p: Instruction) -> Instruction:
            return b.element(b.op("call", *p, shape=whole.root.shape, to_apply=whole), k)

        return build_computation(f"{whole.name}.{k}", shapes, body, inst)

    return [part(k) for k in range(n)]


def _fits(
    b: Builder, place: list[Instruction], dims: tuple[int, ...], sizes: list[int]
) -> Instruction:
    """Append whether a window of some sizes lies within an array."""
    inside = b.constant(PRED, True)
    for start, dim, size in zip(place, dims, sizes, strict=True):
        if start.opcode == "constant":
            continue  # it begins at 0, and is no larger than the array
        for limit, direction in ((0, "GE"), (dim - size, "LE")):
            bound = b.constant(start.array_shape.element_type, limit)
            holds = b.compare(start, bound, direction)
            inside = b.op("and", inside, holds)
    return inside
