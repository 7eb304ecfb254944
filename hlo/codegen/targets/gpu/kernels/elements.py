"""Kernels whose result elements are computed independently: a thread an element.

Neighbouring threads compute neighbouring elements of the result's memory, so that their accesses
coalesce.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlo.analysis.fusion.operations import is_multi_output
from hlo.codegen.llvm import Index
from hlo.codegen.loops.address import Indices
from hlo.codegen.loops.collapse import collapsible, collapsible_reads
from hlo.codegen.loops.kernel import Kernel, grouped, indices_of, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order

THREADS = 256
# Bytes of the largest access of a thread.
_ACCESS_BYTES = 16
# A thread computes several elements only if there are still so many threads: they hide latencies.
_MANY_THREADS = 1 << 16


def emit_elements(k: Kernel) -> Grid:
    """Emit a kernel of one or several results of equal dimensions, an element a thread.

    Where all dimensions are one loop, a thread has several elements in a row, if there are enough.
    """
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
    each = _elements_of_thread(k, results, count) if len(groups) == 1 else 1
    turns = count // each
    threads = min(THREADS, -(-turns // k.target.lanes) * k.target.lanes)
    turn = block.global_index(threads)
    # Both versions of code with rare cases would be run by most warps.
    b.is_careful = True

    def element(at: Index) -> tuple[Indices, list[Value]]:
        indices = indices_of(b, shape, groups, split_index(b, at, sizes) if sizes else [])
        if is_multi_output(inst):
            return indices, [k.elements.at(result, indices) for result in results]
        return indices, [k.elements.compute(inst, indices)]

    with b.when(b.compare("slt", turn, turns)):
        first = b.mul(turn, each)
        # All loads precede the stores: a result may share the buffer of an operand.
        for indices, values in [element(b.add(first, n)) for n in range(each)]:
            for number, value in enumerate(values):
                k.store(value, indices, number)
    return Grid(count, 1.0, -(-turns // threads), threads)


def _elements_of_thread(k: Kernel, results: Sequence[Instruction], count: int) -> int:
    """Return how many elements in a row a thread computes: as many as one access of the widest."""
    arrays = [*results, *k.inputs.buffer_of]
    widest = max(a.array_shape.element_type.byte_width for a in arrays)
    each = max(1, _ACCESS_BYTES // widest)
    while each > 1 and (count % each or count // each < _MANY_THREADS):
        each //= 2
    return each
