"""Buffers: arrays on devices, which are memory of this process, row-major and dense.

A copy on another device shares the memory: it is never written to as long as two buffers have it.
"""

from __future__ import annotations

import ctypes

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.interface import interface, struct
from hlo.pjrt.native.events import READY
from hlo.pjrt.native.python import entry_number
from hlo.pjrt.native.writer import NULL, Code, Record, Writer, need
from hlo.pjrt.records import BUFFER_TAG, DEVICE_TAG, Block, Buffer, Device, Memory

_ZERO_COPY = interface().enums["HostBufferSemantics"]["kImmutableZeroCopy"]
# What XLA:CPU asks of the caller's memory if it is to be used without a copy.
_ALIGNMENT = 16

# A copy to the host that waits for its source: source is a block.
_Copy = struct("Copy", ["block:ptr", "source:ptr", "target:ptr", "bytes:i64", "event:ptr"])


def write(code: Code) -> None:
    """Write the entries, and what other native code calls:

    - `buffer_new(block, type, dims, rank, bytes, device, event)`, which takes the references
    - `buffer_delete(buffer)`: its memory is gone unless others have it
    """
    parameters = ("ptr", "i32", "ptr", "i64", "i64", "ptr", "ptr")
    with code.function("buffer_new", *parameters, exported=True) as (
        b, block, type_, dims, rank, size, device, event,
    ):  # fmt: skip
        dims_bytes = b.product(rank, 8)
        buffer = b.new(Buffer, dims_bytes)
        own = b.after(buffer.at, ctypes.sizeof(Buffer))
        b.copy(own, dims, dims_bytes)
        buffer.tag, buffer.block, buffer.data = BUFFER_TAG, block, b.record(Block, block).data
        buffer.dims, buffer.rank, buffer.type, buffer.bytes = own, rank, type_, size
        buffer.device, buffer.memory = device, b.record(Device, device).memory
        buffer.event = event
        b.ret(buffer.at)

    with code.function("buffer_delete", "ptr", result="void") as (b, at):
        buffer = b.record(Buffer, at)
        with b.when(b.is_zero(buffer.is_deleted)):
            buffer.is_deleted = 1
            b.do("block_release", buffer.block)
        b.ret()

    _write_facts(code)
    _write_life(code)
    _write_copies(code)
    _write_host_buffers(code)


def _buffer(b: Writer, at: Val) -> Record:
    """Return a buffer, or have the entry return an error."""
    return need(b, Buffer, at, BUFFER_TAG, "buffer")


def _live(b: Writer, at: Val) -> Record:
    """Return a buffer that is not deleted, or have the entry return an error."""
    buffer = _buffer(b, at)
    b.fail_if(
        b.is_not_zero(buffer.is_deleted), "INVALID_ARGUMENT",
        "the buffer has been deleted or donated",
    )  # fmt: skip
    return buffer


def _device(b: Writer, at: Val, memory: Val) -> Val:
    """Return the device that is meant, by itself or by its memory, or return an error."""
    slot = b.alloca("ptr")
    b.store(at, slot.name)
    with b.when(b.is_not_zero(memory)):
        space = b.record(Memory, memory)
        b.fail_if(
            b.icmp("ne", space.tag, DEVICE_TAG), "INVALID_ARGUMENT",
            "the memory is none of this plug-in's",
        )  # fmt: skip
        b.store(space.device, slot.name)
    device = b.load("ptr", slot.name)
    return need(b, Device, device, DEVICE_TAG, "device").at


def _write_facts(code: Code) -> None:
    with code.entry("Buffer_ElementType") as (b, args):
        args.type = _buffer(b, args.buffer).type

    with code.entry("Buffer_Dimensions") as (b, args):
        buffer = _buffer(b, args.buffer)
        args.dims, args.num_dims = buffer.dims, buffer.rank

    with code.entry("Buffer_UnpaddedDimensions") as (b, args):
        buffer = _buffer(b, args.buffer)
        args.unpadded_dims, args.num_dims = buffer.dims, buffer.rank

    with code.entry("Buffer_DynamicDimensionIndices") as (b, args):
        args.dynamic_dim_indices, args.num_dynamic_dims = _buffer(b, args.buffer).dims, 0

    with code.entry("Buffer_OnDeviceSizeInBytes") as (b, args):
        args.on_device_size_in_bytes = _buffer(b, args.buffer).bytes

    with code.entry("Buffer_Device") as (b, args):
        args.device = _buffer(b, args.buffer).device

    with code.entry("Buffer_Memory") as (b, args):
        args.memory = _buffer(b, args.buffer).memory

    with code.entry("Buffer_IsOnCpu") as (b, args):
        _buffer(b, args.buffer)
        args.is_on_cpu = 1


def _write_life(code: Code) -> None:
    with code.entry("Buffer_Destroy") as (b, args):
        with b.exit_if(b.is_null(args.buffer)):
            b.ret(NULL)
        buffer = _buffer(b, args.buffer)
        b.do("buffer_delete", buffer.at)
        b.do("event_release", buffer.event)
        buffer.tag = 0
        b.free(buffer.at)

    with code.entry("Buffer_Delete") as (b, args):
        b.do("buffer_delete", _buffer(b, args.buffer).at)

    with code.entry("Buffer_IsDeleted") as (b, args):
        args.is_deleted = b.cast("trunc", _buffer(b, args.buffer).is_deleted, "i8")

    with code.entry("Buffer_ReadyEvent") as (b, args):
        buffer = _buffer(b, args.buffer)
        b.do("event_retain", buffer.event)
        args.event = buffer.event

    # Who has the address keeps the memory, though the buffer is deleted.
    with code.entry("Buffer_IncreaseExternalReferenceCount") as (b, args):
        buffer = _live(b, args.buffer)
        b.atomic_add(buffer.address("holds"), 1)
        b.do("block_retain", buffer.block)

    with code.entry("Buffer_DecreaseExternalReferenceCount") as (b, args):
        buffer = _buffer(b, args.buffer)
        b.fail_if(
            b.is_zero(buffer.holds), "FAILED_PRECONDITION", "the buffer has no external reference"
        )
        b.atomic_add(buffer.address("holds"), -1)
        b.do("block_release", buffer.block)

    with code.entry("Buffer_OpaqueDeviceMemoryDataPointer") as (b, args):
        args.device_memory_ptr = _live(b, args.buffer).data

    with code.entry("Buffer_UnsafePointer") as (b, args):
        args.buffer_pointer = b.cast("ptrtoint", _live(b, args.buffer).data, "i64")


def _write_copies(code: Code) -> None:
    with code.function("buffer_share", "ptr", "ptr") as (b, at, device):
        buffer = b.record(Buffer, at)
        b.do("block_retain", buffer.block)
        b.do("event_retain", buffer.event)
        copy = b.run(
            "buffer_new", buffer.block, buffer.type, buffer.dims, buffer.rank, buffer.bytes,
            device, buffer.event,
        )  # fmt: skip
        b.record(Buffer, copy).layout = buffer.layout
        b.ret(copy)

    with code.entry("Buffer_CopyToDevice") as (b, args):
        buffer = _live(b, args.buffer)
        args.dst_buffer = b.run("buffer_share", buffer.at, _device(b, args.dst_device, NULL))

    with code.entry("Buffer_CopyToMemory") as (b, args):
        buffer = _live(b, args.buffer)
        b.fail_if(b.is_null(args.dst_memory), "INVALID_ARGUMENT", "the memory is null")
        copy = b.run("buffer_share", buffer.at, _device(b, NULL, args.dst_memory))
        b.record(Buffer, copy).memory = args.dst_memory
        args.dst_buffer = copy

    with code.function("copy_when_ready", "ptr", "ptr", result="void") as (b, error, at):
        copy = b.record(_Copy, at)
        with b.when(b.is_null(error)):
            b.copy(copy.target, copy.source, copy.bytes)
        b.do("block_release", copy.block)
        b.do("event_complete", copy.event, error)
        b.do("event_release", copy.event)
        b.free(at)
        b.ret()

    # Copies so many bytes of a buffer from an offset on, now or when they are there.
    with code.function("copy_to_host", "ptr", "i64", "ptr", "i64") as (b, at, offset, target, size):
        buffer = b.record(Buffer, at)
        source = b.after(buffer.data, offset)
        with b.exit_if(b.icmp("eq", buffer.event, READY.name)):
            b.copy(target, source, size)
            b.ret(READY)
        b.do("block_retain", buffer.block)
        copy = b.new(_Copy)
        event = b.run("event_new", i64(2))
        copy.block, copy.source, copy.target, copy.bytes = buffer.block, source, target, size
        copy.event = event
        b.do("event_then", buffer.event, Val("ptr", "@copy_when_ready"), copy.at)
        b.ret(event)

    with code.entry("Buffer_CopyRawToHost") as (b, args):
        buffer = _live(b, args.buffer)
        b.fail_if(b.is_null(args.dst), "INVALID_ARGUMENT", "the destination is null")
        end = b.sum(args.offset, args.transfer_size)
        is_outside = b.binary(
            "or", b.icmp("slt", args.offset, 0), b.icmp("slt", args.transfer_size, 0)
        )
        is_outside = b.binary("or", is_outside, b.icmp("sgt", end, buffer.bytes))
        b.fail_if(is_outside, "INVALID_ARGUMENT", "the bytes to copy are not all in the buffer")
        args.event = b.run("copy_to_host", buffer.at, args.offset, args.dst, args.transfer_size)

    with code.entry("Buffer_ToHostBuffer") as (b, args):
        buffer = _live(b, args.src)
        with b.exit_if(b.is_null(args.dst)):
            args.dst_size = buffer.bytes
            b.ret(NULL)
        # Layouts of the host are Python's.
        with b.exit_if(b.is_not_zero(args.host_layout)):
            b.ret(b.run("python_call", entry_number("Buffer_ToHostBuffer"), args.at))
        b.fail_if(
            b.icmp("ult", args.dst_size, buffer.bytes), "INVALID_ARGUMENT",
            "the destination is smaller than the buffer",
        )  # fmt: skip
        args.event = b.run("copy_to_host", buffer.at, i64(0), args.dst, buffer.bytes)


def _write_host_buffers(code: Code) -> None:
    with code.function("host_buffer_done", "ptr", "ptr", result="void") as (b, _, event):
        b.do("event_complete", event, NULL)
        b.do("event_release", event)
        b.ret()

    with code.entry("Client_BufferFromHostBuffer") as (b, args):
        device = _device(b, args.device, args.memory)
        size = _bytes(b, args)
        is_dense = b.call("is_dense", [args.at, size], "i1")
        is_dense = b.both(is_dense, b.is_null(args.device_layout))
        # Other layouts are Python's.
        with b.exit_if(b.negated(is_dense)):
            b.ret(b.run("python_call", entry_number("Client_BufferFromHostBuffer"), args.at))
        b.fail_if(
            b.both(b.is_null(args.data), b.is_not_zero(size)), "INVALID_ARGUMENT",
            "the data are null",
        )  # fmt: skip
        is_kept = b.icmp("sge", args.host_buffer_semantics, int(_ZERO_COPY))
        is_kept = b.both(is_kept, _is_aligned(b, args.data))
        block, event = b.choose(is_kept, lambda: _kept(b, args), lambda: _copied(b, args, size))
        b.fail_if(b.is_null(block), "RESOURCE_EXHAUSTED", "there is no memory for the buffer")
        args.done_with_host_buffer = event
        buffer = b.run(
            "buffer_new", block, args.type, args.dims, args.num_dims, size, device, READY
        )
        with b.when(b.is_not_zero(args.memory)):
            b.record(Buffer, buffer).memory = args.memory
        args.buffer = buffer

    with code.entry("Client_CreateViewOfDeviceBuffer") as (b, args):
        device = _device(b, args.device, args.memory)
        size = _bytes(b, args, "element_type")
        # Layouts are Python's.
        with b.exit_if(b.is_not_zero(args.layout)):
            b.ret(b.run("python_call", entry_number("Client_CreateViewOfDeviceBuffer"), args.at))
        b.fail_if(
            b.both(b.is_null(args.device_buffer_ptr), b.is_not_zero(size)), "INVALID_ARGUMENT",
            "the data are null",
        )  # fmt: skip
        b.fail_if(
            b.negated(_is_aligned(b, args.device_buffer_ptr)), "INVALID_ARGUMENT",
            f"the address of the data is not aligned to {_ALIGNMENT} bytes",
        )  # fmt: skip
        block = b.run(
            "block_of", args.device_buffer_ptr, args.on_delete_callback, args.on_delete_callback_arg
        )
        args.buffer = b.run(
            "buffer_new", block, args.element_type, args.dims, args.num_dims, size, device, READY
        )

    _write_density(code)


def _is_aligned(b: Writer, address: Val) -> Val:
    return b.icmp("eq", b.binary("and", b.cast("ptrtoint", address, "i64"), _ALIGNMENT - 1), 0)


def _kept(b: Writer, args: Record) -> list[Val]:
    """Return the caller's memory as a block, and the event of when it is not needed any more."""
    event = b.run("event_new", i64(2))
    return [b.run("block_of", args.data, Val("ptr", "@host_buffer_done"), event), event]


def _copied(b: Writer, args: Record, size: Val) -> list[Val]:
    """Return a copy of the caller's memory, null where there is no memory, and its event."""
    block = b.run("block_new", size)
    with b.when(b.is_not_zero(block)):
        b.copy(b.record(Block, block).data, args.data, size)
    return [block, READY]


def _bytes(b: Writer, args: Record, type_: str = "type") -> Val:
    """Return the bytes of an array, or return an error if its type or a dimension is none."""
    b.fail_if(
        b.both(b.is_null(args.dims), b.is_not_zero(args.num_dims)), "INVALID_ARGUMENT",
        "the dimensions are null",
    )  # fmt: skip
    size = b.call("bytes_of", [getattr(args, type_), args.dims, args.num_dims], "i64")
    b.fail_if(b.icmp("slt", size, 0), "INVALID_ARGUMENT", "the type or a dimension is invalid")
    return size


def _write_density(code: Code) -> None:
    """Write `bytes_of(type, dims, rank)` and `is_dense(arguments, bytes)`."""
    widths = _widths()
    table = ", ".join(f"i64 {w}" for w in widths)
    code.module.define("widths", f"private constant [{len(widths)} x i64] [{table}]")

    with code.function("bytes_of", "i32", "ptr", "i64", result="i64") as (b, type_, dims, rank):
        with b.exit_if(b.icmp("uge", type_, len(widths))):
            b.ret(i64(-1))
        total = b.alloca("i64")
        b.store(b.get(Val("ptr", "@widths"), b.cast("zext", type_, "i64"), "i64"), total.name)

        def multiply(number: Val) -> None:
            dim = b.get(dims, number, "i64")
            before = b.load("i64", total.name)
            product = b.binary("mul", before, dim)
            # Of a negative one, or of what takes more than 62 bits, the total stays negative.
            limit = b.binary("udiv", i64(1 << 62), b.select(b.icmp("sgt", dim, 0), dim, i64(1)))
            is_wrong = b.binary("or", b.icmp("slt", dim, 0), b.icmp("ugt", before, limit))
            b.store(b.select(is_wrong, i64(-1), product), total.name)

        b.each(rank, multiply)
        b.ret(b.load("i64", total.name))

    arguments = interface().arguments["Client_BufferFromHostBuffer"]
    with code.function("is_dense", "ptr", "i64", result="i1") as (b, at, size):
        args = b.record(arguments, at)
        # Strides are of no matter where there are none, or no elements.
        is_plain = b.binary("or", b.is_null(args.byte_strides), b.is_zero(size))
        is_plain = b.binary("or", is_plain, b.is_zero(args.num_byte_strides))
        with b.exit_if(is_plain):
            b.ret(Val("i1", "true"))
        stride, is_dense = b.alloca("i64"), b.alloca("i64")
        width = b.get(Val("ptr", "@widths"), b.cast("zext", args.type, "i64"), "i64")
        b.store(width, stride.name)
        b.store(i64(1), is_dense.name)
        rank = args.num_dims

        def check(number: Val) -> None:
            at_ = b.binary("sub", b.sum(rank, -1), number)
            dim, given = b.get(args.dims, at_, "i64"), b.get(args.byte_strides, at_, "i64")
            wanted = b.load("i64", stride.name)
            fits = b.binary("or", b.icmp("eq", given, wanted), b.icmp("eq", dim, 1))
            before = b.load("i64", is_dense.name)
            b.store(b.binary("and", before, b.cast("zext", fits, "i64")), is_dense.name)
            b.store(b.binary("mul", wanted, dim), stride.name)

        b.each(rank, check)
        b.ret(b.is_not_zero(b.load("i64", is_dense.name)))


def _widths() -> list[int]:
    """Return the bytes of an element by PJRT's type; -1 for those without elements."""
    from hlo.values.types import element_type

    found = []
    for name in interface().enums["Buffer_Type"].__members__:
        if name in ("INVALID", "TOKEN"):
            found.append(-1 if name == "INVALID" else 1)
        else:
            found.append(element_type(name.lower()).byte_width)
    return found
