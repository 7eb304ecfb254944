"""Devices, their descriptions and their memories.

A device is a queue of this process. It has the kinds of memory that XLA's CPU has, all of them
ordinary memory.
"""

from __future__ import annotations

import ctypes
from typing import Any

from hlo.pjrt import records
from hlo.pjrt.entries import PjrtError, entry
from hlo.pjrt.handles import Handles
from hlo.pjrt.memory import FREE, Held

# The kinds of memory; the first is the default one.
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
KIND_IDS = {kind: n for n, kind in enumerate(MEMORY_KINDS)}


class Description:
    """What is known of a device without a client."""

    def __init__(self, platform: str, number: int) -> None:
        self.id, self.kind = number, "cpu"
        self.short_name = f"{platform}:{number}"
        self.long_name = f"{platform.capitalize()}Device(id={number})"
        self.held = Held()
        self.address = self.held.record(ctypes.c_int64(number))
        DESCRIPTIONS.add(self.address, self)


class Memory:
    """A kind of memory of a device."""

    def __init__(self, platform: str, device: Device, kind: str) -> None:
        self.device, self.kind = device, kind
        self.id = device.id * len(MEMORY_KINDS) + KIND_IDS[kind]
        self.short_name = f"{platform.upper()}_{kind.upper()}_{self.id}"
        self.held = Held()
        name, size = self.held.string(kind)
        self.record = records.Memory(
            tag=records.DEVICE_TAG, device=device.address, id=self.id, kind=name, size=size,
            kind_id=KIND_IDS[kind],
        )  # fmt: skip
        self.address = self.held.record(self.record)
        MEMORIES.add(self.address, self)


class Device:
    """A device of a client, with a record that native code works with."""

    def __init__(self, platform: str, number: int) -> None:
        self.id = number
        self.description = Description(platform, number)
        self.held = Held()
        self.record = records.Device(tag=records.DEVICE_TAG, id=number)
        self.address = self.held.record(self.record)
        self.memories = [Memory(platform, self, kind) for kind in MEMORY_KINDS]
        self.memories_at = self.held.addresses(m.address for m in self.memories)
        self.this_at = self.held.addresses([self.address])
        self.record.memory = self.memories[0].address
        self.record.memories = self.memories_at
        DEVICES.add(self.address, self)


DEVICES: Handles[Device] = Handles("device")
DESCRIPTIONS: Handles[Description] = Handles("device description")
MEMORIES: Handles[Memory] = Handles("memory")

# --- descriptions --------------------------------------------------------------------------------


@entry("DeviceDescription_Id")
def _id(args: Any) -> None:
    args.id = DESCRIPTIONS[args.device_description].id


@entry("DeviceDescription_ProcessIndex")
def _process_index(args: Any) -> None:
    DESCRIPTIONS[args.device_description]
    args.process_index = 0


@entry("DeviceDescription_Attributes")
def _attributes(args: Any) -> None:
    DESCRIPTIONS[args.device_description]
    args.attributes, args.num_attributes = 0, 0


@entry("DeviceDescription_Kind")
def _kind(args: Any) -> None:
    d = DESCRIPTIONS[args.device_description]
    args.device_kind, args.device_kind_size = d.held.string(d.kind)


@entry("DeviceDescription_DebugString")
def _debug_string(args: Any) -> None:
    d = DESCRIPTIONS[args.device_description]
    args.debug_string, args.debug_string_size = d.held.string(d.short_name)


@entry("DeviceDescription_ToString")
def _to_string(args: Any) -> None:
    d = DESCRIPTIONS[args.device_description]
    args.to_string, args.to_string_size = d.held.string(d.long_name)


# --- devices -------------------------------------------------------------------------------------


@entry("Device_GetDescription")
def _description(args: Any) -> None:
    args.device_description = DEVICES[args.device].description.address


@entry("Device_IsAddressable")
def _is_addressable(args: Any) -> None:
    DEVICES[args.device]
    args.is_addressable = 1


@entry("Device_LocalHardwareId")
def _local_hardware_id(args: Any) -> None:
    args.local_hardware_id = DEVICES[args.device].id


@entry("Device_AddressableMemories")
def _memories(args: Any) -> None:
    device = DEVICES[args.device]
    args.memories, args.num_memories = device.memories_at, len(device.memories)


@entry("Device_DefaultMemory")
def _default_memory(args: Any) -> None:
    args.memory = DEVICES[args.device].memories[0].address


@entry("Device_MemoryStats")
def _memory_stats(args: Any) -> None:
    DEVICES[args.device]
    # As of XLA's CPU: JAX then says that it knows nothing of the memory.
    raise PjrtError("UNIMPLEMENTED", "the memory of a device is that of the process, see its size")


@entry("Device_GetAttributes")
def _device_attributes(args: Any) -> None:
    DEVICES[args.device]
    args.attributes, args.num_attributes = 0, 0
    args.device_attributes, args.attributes_deleter = 0, FREE


# --- memories ------------------------------------------------------------------------------------


@entry("Memory_Id")
def _memory_id(args: Any) -> None:
    args.id = MEMORIES[args.memory].id


@entry("Memory_DebugString")
def _memory_debug_string(args: Any) -> None:
    m = MEMORIES[args.memory]
    args.debug_string, args.debug_string_size = m.held.string(m.short_name)


@entry("Memory_ToString")
def _memory_to_string(args: Any) -> None:
    m = MEMORIES[args.memory]
    args.to_string, args.to_string_size = m.held.string(m.short_name)


@entry("Memory_AddressableByDevices")
def _memory_devices(args: Any) -> None:
    args.devices, args.num_devices = MEMORIES[args.memory].device.this_at, 1
