"""Arrays gathered from devices, as sums of what each device has among zeros."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import build_computation
from hlo.passes.expand._groups import place_in_group
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES, U32, ArrayShape, ElementType, array


@module_pass
def all_gather_decomposer(module: Module, rewrites: Rewrites) -> None:
    """Express `all-gather` by an `all-reduce` that ORs the bits of all devices.

    Each device puts its part in its place, where the others have zeros. Not for complex numbers,
    and not for elements of less than a byte.
    """
    rule = "all_gather_decomposer.decompose"
    expand_instructions(module, rewrites, rule, ["all-gather"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    operands = [o.array_shape for o in inst.operands]
    types = [_bits_of(s.element_type) for s in operands]
    # One all-reduce has one function, so that all arrays have to be of one type.
    if len(set(types)) > 1 or types[0] is None or any(s.is_dynamic for s in operands):
        return None
    d, et = Draft(inst), types[0]
    place = place_in_group(d, inst)
    if place is None:
        return None
    (dim,) = inst.dimensions
    wholes = [s for _, s in inst.shape.leaves()]
    padded = []
    for x, part, whole in zip(d.parameters, operands, wholes, strict=True):
        assert isinstance(whole, ArrayShape)
        if part.element_type is not et:
            x = d.op("bitcast-convert", x, shape=array(et, part.dims))
        starts = [d.constant(U32, 0)] * part.rank
        starts[dim] = d.op("multiply", place, d.constant(U32, part.dims[dim]))
        padded.append(d.op("dynamic-update-slice", d.filled(et, whole.dims, 0), x, *starts))
    scalar = array(et, ())
    either = build_computation("either", [scalar] * 2, lambda b, x, y: b.op("or", x, y), inst)
    attrs = {key: value for key, value in inst.attrs.items() if key != "dimensions"}
    gathered = d.op("all-reduce", *padded, to_apply=either, **attrs)
    parts = []
    for n, whole in enumerate(wholes):
        assert isinstance(whole, ArrayShape)
        bits = d.element(gathered, n) if gathered.shape.is_tuple else gathered
        if whole.element_type is not et:
            bits = d.op("bitcast-convert", bits, shape=array(whole.element_type, whole.dims))
        parts.append(d.relaid(bits, whole))
    return d.done(d.tuple(*parts) if inst.shape.is_tuple else parts[0])


def _bits_of(et: ElementType) -> ElementType | None:
    """Return the type in which `or` takes the bits of two elements together."""
    if et.is_integer or et.is_pred:
        return et
    return ELEMENT_TYPES.get(f"u{et.bits}") if et.is_float and et.bits >= 8 else None
