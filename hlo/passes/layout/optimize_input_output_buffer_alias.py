"""Aliasing of results to donated arguments."""

from __future__ import annotations

from hlo.ir import Module
from hlo.ir.aliases import BufferDonor, InputOutputAlias
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Shape

Place = tuple[int, tuple[int, ...]]


@module_pass
def optimize_input_output_buffer_alias(
    module: Module, rewrites: Rewrites, *, registered_buffer_donor_only: bool = True
) -> None:
    """Alias results to donated arguments of the same shape.

    registered_buffer_donor_only: only those in the header's `buffer_donor`; else all arguments. If
    the caller does not donate an argument it is copied.
    """
    parameters, result = module.program_shapes
    aliases: list[InputOutputAlias] = list(module.attrs.get("input_output_alias", ()))
    donors: list[BufferDonor] = list(module.attrs.get("buffer_donor", ()))
    taken = {(a.parameter, a.index) for a in aliases}
    filled = {a.output for a in aliases}
    free: dict[Shape, list[Place]] = {}
    registered = {(d.parameter, d.index) for d in donors}
    for number, shape in enumerate(parameters):
        for index, leaf in shape.leaves():
            place = number, index
            given = place in registered or not registered_buffer_donor_only
            if isinstance(leaf, ArrayShape) and given and place not in taken:
                free.setdefault(leaf, []).append(place)
    used: set[Place] = set()
    for output, leaf in result.leaves():
        if output in filled or not free.get(leaf):
            continue
        if not rewrites.allow("optimize_input_output_buffer_alias.share", module.entry.root):
            break
        place = free[leaf].pop(0)
        used.add(place)
        aliases.append(InputOutputAlias(output, *place))
    if used:
        module.attrs["input_output_alias"] = tuple(aliases)
        left = tuple(d for d in donors if (d.parameter, d.index) not in used)
        module.attrs.pop("buffer_donor", None)
        if left:
            module.attrs["buffer_donor"] = left
