"""Writing of operations that portable artifacts have in another form than text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.errors import InferError
from hlo.expansions import expand
from hlo.frontends.stablehlo.attributes import Dictionary, Integer, String, integers, listed
from hlo.frontends.stablehlo.composites import VERSION
from hlo.frontends.stablehlo.tree import Attributes
from hlo.frontends.stablehlo.values import Tree, leaves, location_of, notes_of, shaped
from hlo.frontends.stablehlo.write_rules import contracted, precisions
from hlo.frontends.stablehlo.write_special import SPECIAL
from hlo.frontends.stablehlo.writer import Body, Special
from hlo.ir import Instruction


def _ragged_dot(b: Body, inst: Instruction, trees: Sequence[Tree]) -> Tree:
    """Append a composite, which is what jaxlib writes: readers restore the operation.

    Others call its decomposition.
    """
    meaning = expand(inst)
    if meaning is None:
        raise InferError("it has no decomposition", code="no-counterpart")
    numbers = [*contracted(inst).values(), inst.lhs_ragged_dims, inst.rhs_group_dims]
    attrs: Attributes = {
        "name": String("chlo.ragged_dot"),
        "composite_attributes": Dictionary({
            "precision_config": listed(map(String, precisions(inst))),
            "ragged_dot_dimension_numbers": listed(map(integers, numbers)),
        }),
        "decomposition": b.writer.function_of(meaning),
        "version": Integer(VERSION, "i32"),
    }  # fmt: skip
    names = b.operation("stablehlo.composite", b.operands(inst, trees), leaves(inst.shape), attrs,
                        (), notes_of(inst), location_of(inst))  # fmt: skip
    return shaped(names, inst.shape)


PORTABLE: Mapping[str, Special] = {**SPECIAL, "ragged-dot": _ragged_dot}
