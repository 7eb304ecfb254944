"""What a thread asks of the GPU: which it is, barriers, shared memory, values of other lanes."""

from __future__ import annotations

from hlo.codegen.llvm import Builder, Index, Val, i32
from hlo.codegen.targets.gpu.base import Gpu
from hlo.llvm import Call, byte_size

_PURE = "nounwind speculatable memory(none)"
# What dynamic shared memory begins at a multiple of, in bytes.
_DYNAMIC_ALIGN = 128


class Block:
    """One thread's view of its block, in a kernel under construction."""

    def __init__(self, b: Builder, gpu: Gpu) -> None:
        self.b, self.gpu = b, gpu

    # --- who this is ----------------------------------------------------------------------------

    def thread(self) -> Val:
        """Return the number of the thread in its block, an i32."""
        return self._register(self.gpu.thread_register)

    def block(self) -> Val:
        """Return the number of the block in the grid, an i32."""
        if self.gpu.is_one_block:
            return Val("i32", "%block")
        return self._register(self.gpu.block_register)

    def lane(self) -> Val:
        """Return the number of the thread in its warp, an i32, in blocks of whole warps."""
        return self.b.binary("and", self.thread(), i32(self.gpu.lanes - 1))

    def warp(self) -> Val:
        """Return the number of the warp in its block, an i32, in blocks of whole warps."""
        return self.b.binary("lshr", self.thread(), i32(self.gpu.lanes.bit_length() - 1))

    def _register(self, name: str) -> Val:
        self.b.module.declare(name, "i32", [], _PURE)
        return self.b.op("i32", Call("", "i32", f"@{name}", (), ()))

    def index(self, value: Val) -> Index:
        """Return an i32 that is not negative as an index."""
        return self.b.cast("zext", value, "i64").name

    def thread_index(self) -> Index:
        return self.index(self.thread())

    def block_index(self) -> Index:
        return self.index(self.block())

    def global_index(self, threads: int) -> Index:
        """Return the number of the thread in the grid, of blocks of so many threads."""
        return self.b.add(self.b.mul(self.block_index(), threads), self.thread_index())

    # --- shared memory --------------------------------------------------------------------------

    def shared_array(self, type_: str, count: int, align: int = 16) -> str:
        """Define an array in the block's shared memory; returns its address, a generic one."""
        module, space = self.b.module, self.gpu.shared_space
        name = f"shared.{len(module.globals)}"
        module.block_memory[name] = count * byte_size(type_)
        module.define(
            name,
            f"internal addrspace({space}) global [{count} x {type_}] undef, align {align}",
            space=space, align=align,
        )  # fmt: skip
        return self.b.converted(f"ptr addrspace({space})", f"@{name}")

    def dynamic_shared(self) -> str:
        """Return the address of the dynamic shared memory, of as many bytes as the grid says."""
        space, name = self.gpu.shared_space, "shared_dynamic"
        text = f"external addrspace({space}) global [0 x i8], align {_DYNAMIC_ALIGN}"
        self.b.module.define(name, text, space=space, align=_DYNAMIC_ALIGN)
        return self.b.converted(f"ptr addrspace({space})", f"@{name}")

    def barrier(self) -> None:
        """Wait until all threads of the block are here; what they wrote before is visible after."""
        # A kernel's caller may have more threads than the kernel.
        self.gpu.barrier(self.b, Val("i32", "%threads") if self.gpu.is_one_block else None)

    def barrier_of(self, threads: int) -> None:
        """Wait until the first threads of the block are here, so many."""
        self.gpu.barrier(self.b, i32(threads))

    # --- other lanes ----------------------------------------------------------------------------

    def from_lane_xor(self, value: Val, mask: int) -> Val:
        """Return the value of the lane whose number differs in the bits of a mask."""
        return self._exchange(value, "xor", i32(mask))

    def from_lane_above(self, value: Val, distance: int) -> Val:
        """Return the value of the lane so much further on, or the own where there is none."""
        return self._exchange(value, "down", i32(distance))

    def from_lane_below(self, value: Val, distance: int) -> Val:
        """Return the value of the lane so much before, or the own where there is none."""
        return self._exchange(value, "up", i32(distance))

    def from_lane(self, value: Val, lane: Val) -> Val:
        """Return the value of a lane."""
        return self._exchange(value, "idx", lane)

    def _exchange(self, value: Val, how: str, which: Val) -> Val:
        """Exchange a value of any type in words of 32 bits."""
        b = self.b
        bits = _bits(value.type)
        whole = value if value.type == f"i{bits}" else b.cast("bitcast", value, f"i{bits}")
        if bits < 32:
            whole = b.cast("zext", whole, "i32")
        width = max(bits, 32)
        assert width % 32 == 0, value.type
        words = [
            b.cast("trunc", b.binary("lshr", whole, Val(whole.type, str(32 * n))), "i32")
            if width > 32
            else whole
            for n in range(width // 32)
        ]
        got = [self.gpu.exchange_word(b, word, how, which) for word in words]
        found = got[0]
        if width > 32:
            found = b.cast("zext", found, whole.type)
            for n, word in enumerate(got[1:], 1):
                high = b.cast("zext", word, whole.type)
                high = b.binary("shl", high, Val(whole.type, str(32 * n)))
                found = b.binary("or", found, high)
        elif bits < 32:
            found = b.cast("trunc", found, f"i{bits}")
        return found if value.type == f"i{bits}" else b.cast("bitcast", found, value.type)

    # --- control --------------------------------------------------------------------------------

    def is_first_thread(self) -> Val:
        return self.b.icmp("eq", self.thread(), 0)


def _bits(type_: str) -> int:
    """Return the width of a scalar type."""
    named = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
    return named[type_] if type_ in named else int(type_[1:])
