"""Grouped convolutions by loops over groups."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.expand._inline import expand_instructions, rounds
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import array


@module_pass
def convolution_group_converter(
    module: Module, rewrites: Rewrites, *, feature_groups: bool = True, batch_groups: bool = True
) -> None:
    """Express grouped convolutions by a loop that convolves one group per iteration.

    XLA fills the filter with zeros instead, which makes NaN of infinities in other groups.
    """
    chosen = {"feature_group_count": feature_groups, "batch_group_count": batch_groups}

    def expansion(inst: Instruction) -> Computation | None:
        name = next((n for n, on in chosen.items() if on and inst.attrs[n] > 1), None)
        return None if name is None else _expanded(inst, name)

    rule = "convolution_group_converter.convert"
    expand_instructions(module, rewrites, rule, ["convolution"], expansion, approximate=rounds)


def _expanded(inst: Instruction, name: str) -> Computation | None:
    if inst.sparsity_config is not None:
        return None
    if any(i.array_shape.is_dynamic for i in (*inst.operands, inst)):
        return None
    d, labels, groups = Draft(inst), inst.dim_labels, inst.attrs[name]
    shape = inst.array_shape
    # Which dimension a group is a part of: of the input, the filter and the result.
    by_feature = name == "feature_group_count"
    cut = labels.input_feature if by_feature else labels.input_batch

    def part(b: Builder, x: Instruction, dim: int, group: Instruction) -> Instruction:
        sizes = list(x.array_shape.dims)
        sizes[dim] //= groups
        place = _place(b, len(sizes), dim, sizes[dim], group)
        return b.op("dynamic-slice", x, *place, dynamic_slice_sizes=tuple(sizes))

    def step(
        b: Builder, group: Instruction, done: list[Instruction], fixed: list[Instruction]
    ) -> list[Instruction]:
        x, w = part(b, fixed[0], cut, group), part(b, fixed[1], labels.kernel_output, group)
        at = labels.output_feature
        sizes = list(shape.dims)
        sizes[at] //= groups
        one = b.op(
            "convolution", x, w, shape=array(shape.element_type, sizes),
            **{**inst.attrs, name: 1},
        )  # fmt: skip
        place = _place(b, len(sizes), at, sizes[at], group)
        return [b.op("dynamic-update-slice", done[0], one, *place)]

    (result,) = counted_loop(d, groups, [d.zeros(shape)], d.parameters, step)
    return d.done(result)


def _place(b: Builder, rank: int, dim: int, size: int, group: Instruction) -> list[Instruction]:
    """Append where a group begins that has some size along a dimension."""
    et = group.array_shape.element_type
    zero = b.constant(et, 0)
    start = b.op("multiply", group, b.constant(et, size))
    return [start if n == dim else zero for n in range(rank)]
