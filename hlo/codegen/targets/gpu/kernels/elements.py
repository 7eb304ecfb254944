"""Kernels whose result elements are computed independently: a thread an element.

Neighbouring threads compute neighbouring elements of the result's memory, so that their accesses
coalesce.
"""

from __future__ import annotations

import math

from hlo.analysis.fusion.operations import is_multi_output
from hlo.codegen.loops.collapse import collapsible, collapsible_reads
from hlo.codegen.loops.kernel import Kernel, grouped, indices_of, split_index
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.values.layout.plain import loop_order

THREADS = 256


def emit_elements(k: Kernel) -> Grid:
    """Emit a kernel of one or several results of equal dimensions, an element a thread."""
    assert isinstance(k.target, Gpu)
    b, block, inst = k.b, Block(k.b, k.target), k.inst
    results = inst.operands if is_multi_output(inst) else (inst,)
    shape = results[0].array_shape
    order = loop_order(shape)
    if is_multi_output(inst):
        merged = collapsible_reads(results, k.roles, order)
    else:
        merged = collapsible(inst, k.roles, order)
    groups = grouped(order, merged) if order else []
    sizes = [math.prod(shape.dims[d] for d in g) for g in groups]
    count = math.prod(sizes)
    threads = min(THREADS, -(-count // k.target.lanes) * k.target.lanes)
    at = block.global_index(threads)
    b.is_careful = True
    with b.when(b.compare("slt", at, count)):
        found = split_index(b, at, sizes) if sizes else []
        indices = indices_of(b, shape, groups, found)
        if is_multi_output(inst):
            # All loads precede the stores: a result may share the buffer of an operand.
            values = [k.elements.at(result, indices) for result in results]
        else:
            values = [k.elements.compute(inst, indices)]
        for number, value in enumerate(values):
            k.store(value, indices, number)
    return Grid(count, 1.0, -(-count // threads), threads)
