"""Slices that are parts of an array in memory, read where they are.

A slice that is one run of the array's memory is an array itself, at an address in it. Kernels get
that address: those of an unrolled loop, which read one row after the other of an array, have the
same code then, though each reads another row.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from hlo.analysis.fusion.operations import is_multi_output
from hlo.analysis.fusion.roles import Role
from hlo.codegen.plan.liveness import collect_leaves
from hlo.codegen.plan.tree import computations_of
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_plain, loop_order, minor_to_major

# The fewest parts of one shape of an array: kernels of less have little in common.
_FEWEST = 4
# A kernel that reads more parts would have more addresses than registers.
_MOST_READ = 6


def read_parts_in_place(entry: Computation, roles: MutableMapping[Instruction, Role]) -> None:
    """Make fused slices names of parts of memory, where kernels would only differ by them."""
    for comp in computations_of(entry):
        if not comp.has_opcode(("slice",)):
            continue
        found = _parts(comp, roles)
        if found:
            trial = {**roles, **dict.fromkeys(found, Role.ALIAS)}
            crowded = _of_crowded_kernels(comp, trial, found)
            roles.update(dict.fromkeys(found - crowded, Role.ALIAS))


def _parts(comp: Computation, roles: Mapping[Instruction, Role]) -> set[Instruction]:
    """Return the slices of a computation that may be names of parts of memory."""
    alike: dict[object, list[Instruction]] = {}
    for inst in comp:
        if inst.opcode == "slice" and _is_part(inst, roles):
            (source,) = inst.operands
            alike.setdefault((source, inst.array_shape), []).append(inst)
    return {inst for slices in alike.values() if len(slices) >= _FEWEST for inst in slices}


def _is_part(inst: Instruction, roles: Mapping[Instruction, Role]) -> bool:
    """True for a fused slice of an array in memory that is one run of it."""
    (source,) = inst.operands
    if roles[inst] is not Role.FUSED or roles[source] is Role.FUSED:
        return False
    # Pieces of a concatenation are read from the whole array.
    if any(u.opcode == "concatenate" or is_multi_output(u) for u in inst.users):
        return False
    shape, whole = inst.array_shape, source.array_shape
    if not shape.num_elements or not is_plain(shape) or not is_plain(whole):
        return False
    order = loop_order(shape)
    if order != [d for d in loop_order(whole) if shape.dims[d] != 1]:
        return False
    # The innermost dimensions are whole, the next one is a run, those outside it are of one index.
    is_whole = True
    for d in minor_to_major(whole):
        if not is_whole and shape.dims[d] != 1:
            return False
        if shape.dims[d] != whole.dims[d]:
            is_whole = False
            if shape.dims[d] != 1 and inst.slice[d].stride != 1:
                return False
    return True


def _of_crowded_kernels(
    comp: Computation, roles: Mapping[Instruction, Role], parts: set[Instruction]
) -> set[Instruction]:
    """Return the parts among those that some kernel reads too many of."""
    crowded: set[Instruction] = set()
    for inst in comp:
        if roles[inst] in (Role.KERNEL, Role.SCALAR):
            read = parts.intersection(collect_leaves(inst, roles))
            if len(read) > _MOST_READ:
                crowded |= read
    return crowded
