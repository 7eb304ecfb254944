"""Sums of the counts of all threads before each, in shared memory."""

from __future__ import annotations

from hlo.codegen.llvm import Val, i32
from hlo.codegen.targets.gpu.block import Block


def prefix_sum(block: Block, count: Val, threads: int) -> Val:
    """Return the sum of the i32 of all threads before this one in a block of so many.

    It may be called again only behind a barrier.
    """
    b, thread = block.b, block.thread_index()
    counts = block.shared_array("i32", 2 * threads)
    b.store(count, b.element_address(counts, "i32", thread))
    block.barrier()
    total, side, step = count, 0, 1
    while step < threads:
        here, there = side * threads, (1 - side) * threads
        before = b.maximum(b.sub(thread, step), 0)
        other = b.load("i32", b.element_address(counts, "i32", b.add(before, here)))
        added = b.select(b.compare("sge", thread, step), other, i32(0))
        total = b.binary("add", total, added)
        b.store(total, b.element_address(counts, "i32", b.add(thread, there)))
        block.barrier()
        side, step = 1 - side, 2 * step
    return b.binary("sub", total, count)
