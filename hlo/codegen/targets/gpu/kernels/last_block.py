"""Which of several blocks is the last: it goes on with what all of them have stored.

So a value that depends on several blocks takes one launch. No block waits for another, so it does
not matter how many run at a time. What the last block computes is the same whichever block it is.
"""

from __future__ import annotations

from hlo.codegen.llvm import Val, i32
from hlo.codegen.targets.gpu.block import Block
from hlo.llvm import Fence

COUNTER_TYPE = "i32"


def is_last_block(block: Block, counter: str, count: int) -> Val:
    """Return whether the other ones of `count` blocks have been here, in all threads of a block.

    The threads of the last block see all that the blocks stored before. counter: the address of a
    number that is 0 when the first block comes, and again when the last one was here.
    """
    b, scope = block.b, block.gpu.device_scope
    found = block.shared_array(COUNTER_TYPE, 1)
    # The fences are for all threads: the barriers order what those do before, and after.
    block.barrier()
    with b.when(block.is_first_thread()):
        b.write(Fence(scope, "release"))
        before = b.atomic_update("uinc_wrap", i32(count - 1), counter, scope)
        b.write(Fence(scope, "acquire"))
        b.store(before, found)
    block.barrier()
    return b.icmp("eq", b.load(COUNTER_TYPE, found), count - 1)
