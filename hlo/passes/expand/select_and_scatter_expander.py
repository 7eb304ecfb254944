"""Select-and-scatter by a reduction of windows and a scatter."""

from __future__ import annotations

from hlo.analysis.patterns import single_binary_op
from hlo.expansions import Draft
from hlo.expansions.loop import counter_type
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation, build_reducer
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES, ElementType, array


@module_pass
def select_and_scatter_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `select-and-scatter` by a `reduce-window` that finds indices, and a `scatter`.

    Sums of floats add up in f64 or c128 and are rounded once.
    """
    rule = "select_and_scatter_expander.expand"
    expand_instructions(module, rewrites, rule, ["select-and-scatter"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    shape, source = (o.array_shape for o in inst.operands[:2])
    et = shape.element_type
    scalars = (*inst.select.parameters, *inst.scatter.parameters)
    if shape.is_dynamic or source.is_dynamic:
        return None
    if any(i.array_shape.element_type is not et for i in (*scalars, *inst.operands)):
        return None
    d = Draft(inst)
    x, updates, init = d.parameters
    if not source.num_elements or not shape.num_elements:
        return d.done(d.relaid(d.broadcast(init, shape), shape))
    # The place of every element in row-major order; -1 where a window has none.
    at = counter_type(shape.num_elements)
    places = d.op("iota", shape=array(at, (shape.num_elements,)), iota_dimension=0)
    found = d.op(
        "reduce-window", x, d.reshape(places, shape.dims), d.zero(et), d.constant(at, -1),
        window=inst.window, to_apply=_chooser(inst, et, at),
    )  # fmt: skip
    chosen = d.reshape(d.element(found, 1), (source.num_elements, 1))
    scatter, wide = inst.scatter, et
    if single_binary_op(scatter) == "add" and (et.is_float or et.is_complex):
        wide = ELEMENT_TYPES["c128" if et.is_complex else "f64"]
        scatter = build_reducer("add", wide, inst, "sum")
    start = d.broadcast(d.convert(init, wide), array(wide, (shape.num_elements,)))
    total = d.op(
        "scatter", start, chosen, d.convert(d.reshape(updates, (source.num_elements,)), wide),
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1, to_apply=scatter,
    )  # fmt: skip
    return d.done(d.relaid(d.convert(d.reshape(total, shape.dims), et), shape))


def _chooser(inst: Instruction, et: ElementType, at: ElementType) -> Computation:
    """Return a function that keeps a value and its place while `select` says so."""
    select: Computation = inst.select

    def body(b: Builder, *p: Instruction) -> Instruction:
        kept, kept_at, new, new_at = p
        stays = b.op("call", kept, new, shape=select.root.shape, to_apply=select)
        some = b.compare(kept_at, b.constant(at, 0), "GE")
        stays = b.op("and", stays, some)
        return b.tuple(b.op("select", stays, kept, new), b.op("select", stays, kept_at, new_at))

    return build_computation("choose", [array(t, ()) for t in (et, at, et, at)], body, inst)
