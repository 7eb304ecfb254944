"""The native entries of PJRT's table, called as a C program does."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from hlo.pjrt.interface import interface
from hlo.pjrt.native.code import addresses
from tests.harness.pjrt import TYPES, Failed, TestDevice, call, function, get


@pytest.fixture(scope="module")
def device() -> TestDevice:
    return TestDevice()


def test_a_buffer_is_read_back(device: TestDevice) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    made = device.put(array)
    assert call("Event_IsReady", event=made.done_with_host_buffer).is_ready
    assert np.array_equal(get(made.buffer, array), array)
    dims = call("Buffer_Dimensions", buffer=made.buffer)
    assert (ctypes.c_int64 * dims.num_dims).from_address(dims.dims)[:] == [3, 4]
    assert call("Buffer_OnDeviceSizeInBytes", buffer=made.buffer).on_device_size_in_bytes == 48
    assert call("Buffer_Device", buffer=made.buffer).device == device.at
    layout = call("Buffer_GetMemoryLayout", buffer=made.buffer).layout
    assert (ctypes.c_int64 * 2).from_address(layout.tiled.minor_to_major)[:] == [1, 0]
    call("Buffer_Destroy", buffer=made.buffer)


def test_memory_of_the_caller_is_used_until_the_buffer_is_destroyed(device: TestDevice) -> None:
    array = np.arange(5, dtype=np.int64)
    made = device.put(array, "kImmutableZeroCopy")
    event = made.done_with_host_buffer
    at = call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=made.buffer).device_memory_ptr
    assert at == array.ctypes.data
    copy = call("Buffer_CopyToDevice", buffer=made.buffer, dst_device=device.at).dst_buffer
    call("Buffer_Destroy", buffer=made.buffer)
    assert not call("Event_IsReady", event=event).is_ready
    call("Buffer_Destroy", buffer=copy)
    assert call("Event_IsReady", event=event).is_ready
    call("Event_Destroy", event=event)


@pytest.mark.parametrize("offset", [1, 4, 8])
def test_memory_of_the_caller_that_is_not_aligned_is_copied(
    device: TestDevice, offset: int
) -> None:
    room = np.zeros(64, np.uint8)
    start = -room.ctypes.data % 16 + offset
    array = room[start : start + 20].view(np.int32)
    array[:] = range(5)
    made = device.put(array, "kImmutableZeroCopy")
    assert call("Event_IsReady", event=made.done_with_host_buffer).is_ready
    at = call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=made.buffer).device_memory_ptr
    assert at != array.ctypes.data and np.array_equal(get(made.buffer, array), range(5))
    call("Buffer_Destroy", buffer=made.buffer)
    dims = (ctypes.c_int64 * 1)(5)
    with pytest.raises(Failed, match="is not aligned to 16 bytes"):
        call(
            "Client_CreateViewOfDeviceBuffer", device_buffer_ptr=array.ctypes.data, num_dims=1,
            dims=ctypes.addressof(dims), element_type=TYPES["S32"], device=device.at,
        )  # fmt: skip


def test_an_external_reference_keeps_memory_after_deletion(device: TestDevice) -> None:
    array = np.arange(5, dtype=np.int64)
    made = device.put(array, "kImmutableZeroCopy")
    call("Buffer_IncreaseExternalReferenceCount", buffer=made.buffer)
    call("Buffer_Delete", buffer=made.buffer)
    assert call("Buffer_IsDeleted", buffer=made.buffer).is_deleted
    assert not call("Event_IsReady", event=made.done_with_host_buffer).is_ready
    call("Buffer_DecreaseExternalReferenceCount", buffer=made.buffer)
    assert call("Event_IsReady", event=made.done_with_host_buffer).is_ready
    with pytest.raises(Failed, match="no external reference"):
        call("Buffer_DecreaseExternalReferenceCount", buffer=made.buffer)
    with pytest.raises(Failed, match="deleted or donated"):
        call("Buffer_UnsafePointer", buffer=made.buffer)
    call("Buffer_Destroy", buffer=made.buffer)


def test_an_event_is_waited_for_and_calls_back() -> None:
    called: list[tuple[int, int]] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)(
        lambda error, argument: called.append((error, argument))
    )
    address = ctypes.cast(callback, ctypes.c_void_p).value
    event = call("Event_Create").event
    call("Event_OnReady", event=event, callback=address, user_arg=7)
    assert not call("Event_IsReady", event=event).is_ready and not called
    call("Event_Set", event=event)
    assert called == [(0, 7)]
    call("Event_OnReady", event=event, callback=address, user_arg=8)
    assert called == [(0, 7), (0, 8)]
    call("Event_Await", event=event)
    with pytest.raises(Failed, match="set already"):
        call("Event_Set", event=event)
    call("Event_Destroy", event=event)


def test_an_event_with_an_error_returns_it_each_time() -> None:
    event = call("Event_Create").event
    text = b"out of luck"
    message = ctypes.create_string_buffer(text)
    call(
        "Event_Set", event=event, error_code=13, error_message=ctypes.addressof(message),
        error_message_size=len(text),
    )  # fmt: skip
    for name in ("Event_Error", "Event_Await"):
        with pytest.raises(Failed, match="INTERNAL: out of luck"):
            call(name, event=event)
    call("Event_Destroy", event=event)


# --- bad arguments -------------------------------------------------------------------------------

_VOID = {"Error_Destroy", "Error_Message"}
_ALL = [name for name in interface().arguments if name not in _VOID]


@pytest.mark.parametrize("name", _ALL)
def test_arguments_that_are_null_or_too_small_are_an_error(name: str) -> None:
    with pytest.raises(Failed, match=f"PJRT_{name}: the arguments are null"):
        _call_at(name, 0)
    if (
        "struct_size" in interface().arguments[name].types
        and len(interface().arguments[name].types) > 2
    ):
        with pytest.raises(Failed, match="smaller than in PJRT 0"):
            call(name, 16)


def _call_at(name: str, address: int) -> None:
    from tests.harness.pjrt import check

    check(function(name)(address))


@pytest.mark.parametrize("name", [n for n in _ALL if n.startswith("Buffer_")])
def test_a_freed_or_foreign_buffer_is_an_error(name: str, device: TestDevice) -> None:
    field = "src" if name == "Buffer_ToHostBuffer" else "buffer"
    made = device.put(np.zeros(3))
    call("Buffer_Destroy", buffer=made.buffer)
    with pytest.raises(Failed, match=r"has been destroyed|not implemented"):
        call(name, **{field: made.buffer})
    if name != "Buffer_Destroy":
        with pytest.raises(Failed, match=r"buffer is null|not implemented"):
            call(name, **{field: 0})
    foreign = (ctypes.c_int64 * 32)()
    with pytest.raises(Failed, match=r"none of this plug-in's|not implemented"):
        call(name, **{field: ctypes.addressof(foreign)})


@pytest.mark.parametrize(
    "changes",
    [{"data": 0}, {"type": 99}, {"type": 0}, {"dims": 0}, {"device": 0}],
    ids=lambda c: next(iter(c)),
)
def test_a_buffer_of_bad_arguments_is_an_error(device: TestDevice, changes: Any) -> None:
    array = np.zeros(4, np.float32)
    dims = (ctypes.c_int64 * 1)(4)
    fields = {
        "data": array.ctypes.data, "type": 11, "dims": ctypes.addressof(dims), "num_dims": 1,
        "device": device.at,
    }  # fmt: skip
    with pytest.raises(Failed, match="INVALID_ARGUMENT"):
        call("Client_BufferFromHostBuffer", **{**fields, **changes})


@pytest.mark.parametrize("sizes", [[-1], [1 << 40, 1 << 40], [1 << 62, 8], [3, -2]])
def test_dimensions_that_no_memory_has_are_an_error(device: TestDevice, sizes: list[int]) -> None:
    dims = (ctypes.c_int64 * len(sizes))(*sizes)
    with pytest.raises(Failed, match="a dimension is invalid"):
        call(
            "Client_BufferFromHostBuffer", data=1 << 20, type=11, dims=ctypes.addressof(dims),
            num_dims=len(sizes), device=device.at,
        )  # fmt: skip


def test_large_blocks_are_used_again() -> None:
    new = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int64)(addresses()["block_new"])
    release = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(addresses()["block_release"])
    blocks = {new(1 << 20) for _ in range(3)}
    for block in blocks:
        release(block)
    assert {new(1 << 20) for _ in range(3)} == blocks
    for block in blocks:
        release(block)


def test_contexts_of_runs_are_taken_and_have_nothing_in_them() -> None:
    context = call("ExecuteContext_Create").context
    assert context
    call("FFI_UserData_Add", context=context)
    call("ExecuteContext_Destroy", context=context)
