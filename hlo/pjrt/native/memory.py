"""Memory of elements: blocks, with a count of who uses them.

The memory of large blocks is kept for the next of the same size: a training step asks for the same
sizes each time, and fresh pages cost more than most kernels.
"""

from __future__ import annotations

import ctypes

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.interface import struct
from hlo.pjrt.native.writer import NULL, Code, Record, Writer
from hlo.pjrt.records import Block

_ALIGNMENT = 64
# Allocations from this size on are kept, so many of them, of so many bytes together.
_LARGE = 1 << 16
_SLOTS = 64
_LIMIT_BYTES = 256 << 20

_Slot = struct("Slot", ["size:i64", "memory:ptr"])
# next: the slot that is replaced when all are in use.
_Kept = struct("Kept", ["mutex:lock", "bytes:i64", "next:i64"])
_KEPT = Val("ptr", "@kept_memory")


def write(code: Code) -> None:
    """Write what other native code calls:

    - `block_new(bytes)`: null where there is no memory
    - `block_of(data, release, argument)`: memory of others, which is immutable
    - `block_retain(block)`, `block_release(block)`
    """
    size = ctypes.sizeof(_Kept) + _SLOTS * ctypes.sizeof(_Slot)
    code.module.define("kept_memory", f"internal global [{size} x i8] zeroinitializer, align 64")
    _write_kept(code)

    with code.function("block_new", "i64", exported=True) as (b, size):
        total = b.sum(size, ctypes.sizeof(Block) + _ALIGNMENT)
        b.module.declare("malloc", "ptr", ["i64"])
        is_large = b.icmp("uge", total, _LARGE)
        (at,) = b.choose(
            is_large,
            lambda: [b.run("memory_take", total)],
            lambda: [b.call("malloc", [total], "ptr")],
        )
        with b.exit_if(b.is_null(at)):
            b.ret(NULL)
        block = b.record(Block, at)
        first = b.cast("ptrtoint", b.after(at, ctypes.sizeof(Block) + _ALIGNMENT - 1), "i64")
        block.refs, block.size, block.release, block.argument = 1, total, 0, 0
        block.is_immutable = 0
        block.data = b.cast("inttoptr", b.binary("and", first, -_ALIGNMENT), "ptr")
        b.ret(at)

    with code.function("block_of", "ptr", "ptr", "ptr", exported=True) as (
        b, data, release, argument,
    ):  # fmt: skip
        block = b.new(Block)
        block.refs, block.data, block.release, block.argument = 1, data, release, argument
        block.is_immutable = 1
        b.ret(block.at)

    with code.function("block_retain", "ptr", result="void") as (b, at):
        b.retain(b.record(Block, at))
        b.ret()

    with code.function("block_release", "ptr", result="void", exported=True) as (b, at):
        block = b.record(Block, at)
        with b.last_release(block):
            with b.when(b.is_not_zero(block.release)):
                b.call_void_address(block.release, [block.data, block.argument])
            is_large = b.icmp("uge", block.size, _LARGE)
            with b.when(is_large):
                b.do("memory_keep", at, block.size)
            with b.when(b.negated(is_large)):
                b.free(at)
        b.ret()


def _slot(b: Writer, number: Val) -> Record:
    first = b.after(_KEPT, ctypes.sizeof(_Kept))
    return b.record(_Slot, b.after(first, b.product(number, ctypes.sizeof(_Slot))))


def _write_kept(code: Code) -> None:
    """Write `memory_take(bytes)` and `memory_keep(address, bytes)`."""
    with code.function("memory_take", "i64") as (b, size):
        kept, found = b.record(_Kept, _KEPT), b.alloca("ptr")
        b.store(NULL, found.name)
        b.lock(kept)
        number = b.alloca("i64")
        b.store(i64(0), number.name)

        def looks_on() -> Val:
            is_missing = b.is_null(b.load("ptr", found.name))
            return b.both(is_missing, b.icmp("ult", b.load("i64", number.name), _SLOTS))

        with b.repeat(looks_on):
            slot = _slot(b, b.load("i64", number.name))
            with b.when(b.icmp("eq", slot.size, size)):
                b.store(slot.memory, found.name)
                slot.size, slot.memory = 0, 0
                kept.bytes = b.binary("sub", kept.bytes, size)
            b.store(b.sum(b.load("i64", number.name), 1), number.name)
        b.unlock(kept)
        with b.exit_if(b.is_not_zero(b.load("ptr", found.name))):
            b.ret(b.load("ptr", found.name))
        b.ret(b.call("malloc", [size], "ptr"))

    with code.function("memory_keep", "ptr", "i64", result="void") as (b, at, size):
        with b.exit_if(b.icmp("ugt", size, _LIMIT_BYTES // 4)):
            b.free(at)
            b.ret()
        kept = b.record(_Kept, _KEPT)
        b.lock(kept)
        slot = _slot(b, kept.next)
        old, old_size = slot.memory, slot.size
        slot.memory, slot.size = at, size
        kept.next = b.binary("and", b.sum(kept.next, 1), _SLOTS - 1)
        kept.bytes = b.binary("sub", b.sum(kept.bytes, size), old_size)
        too_many = b.icmp("ugt", kept.bytes, _LIMIT_BYTES)
        b.unlock(kept)
        b.free(old)
        with b.when(too_many):
            b.do("memory_drop")
        b.ret()

    with code.function("memory_drop", result="void") as (b,):
        kept = b.record(_Kept, _KEPT)
        b.lock(kept)

        def free_slot(number: Val) -> None:
            slot = _slot(b, number)
            b.free(slot.memory)
            slot.memory, slot.size = 0, 0

        b.each(i64(_SLOTS), free_slot)
        kept.bytes = 0
        b.unlock(kept)
        b.ret()
