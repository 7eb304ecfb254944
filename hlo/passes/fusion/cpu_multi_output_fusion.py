"""Loops of one shape that read the same, as one loop."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Module
from hlo.passes.fusion._siblings import Pair, merge_all, neighbours
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape

_MAX_OUTPUTS = 20
_MAX_OPERANDS = 20


@module_pass
def cpu_multi_output_fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse loops of equal shape that share an operand, the largest operand first.

    Unlike multi-output-fusion, it makes no loop of a loop and one over its result.
    """
    merge_all(
        module, rewrites, "cpu_multi_output_fusion", _pairs,
        max_outputs=_MAX_OUTPUTS, max_operands=_MAX_OPERANDS,
    )  # fmt: skip


def _pairs(comp: Computation, effects: Effects) -> list[Pair]:
    found: list[tuple[int, Pair]] = []
    for shared in comp.in_order():
        shape = shared.shape
        if shared.num_users > 1 and isinstance(shape, ArrayShape) and shape.num_elements > 1:
            pairs = neighbours(shared.users, effects)
            found.extend((shape.byte_size, pair) for pair in pairs)
    return [pair for _, pair in sorted(found, key=lambda f: -f[0])]
