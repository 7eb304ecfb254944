"""The plug-in and its clients."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from hlo.pjrt.devices import Device
from hlo.pjrt.entries import PjrtError, entry
from hlo.pjrt.handles import Handles
from hlo.pjrt.memory import Held, read_named_values
from hlo.pjrt.options import Options, client_options
from hlo.pjrt.topology import Topology, platform_version
from hlo.version import STABLEHLO_VERSIONS


class Client:
    """What programs are compiled for and run on. Callers may use its devices after its end, when
    Python is gone: it is kept for ever."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.held = Held()
        self.address = self.held.record(ctypes.c_int64(0))
        self.devices = [Device(options.platform, n) for n in range(options.num_devices)]
        self.devices_at = self.held.addresses(d.address for d in self.devices)
        memories = [m for d in self.devices for m in d.memories]
        self.num_memories = len(memories)
        self.memories_at = self.held.addresses(m.address for m in memories)
        self.topology = Topology(options, [d.description for d in self.devices])
        CLIENTS.add(self.address, self)

    def device(self, number: int) -> Device:
        """Return a device by its number. Raises PjrtError."""
        if not 0 <= number < len(self.devices):
            raise PjrtError(
                "INVALID_ARGUMENT", f"there is no device {number}, but {len(self.devices)} devices"
            )
        return self.devices[number]


# Between two looks whether devices are done.
_WAIT_SECONDS = 0.001

CLIENTS: Handles[Client] = Handles("client")


def wait_for_devices() -> None:
    """Return when no device of any client runs anything."""
    records = [device.record for _, client in CLIENTS.items() for device in client.devices]
    while any(record.pending for record in records):
        time.sleep(_WAIT_SECONDS)


# --- the plug-in ---------------------------------------------------------------------------------

_plugin = Held()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_plugin))


@entry("Plugin_Initialize")
def _initialize(args: Any) -> None:
    """Nothing is left to do once there is a table."""


@entry("Plugin_Attributes")
def _plugin_attributes(args: Any) -> None:
    args.attributes, args.num_attributes = _plugin.named_values(
        {
            "xla_version": 2,
            "stablehlo_current_version": STABLEHLO_VERSIONS[1],
            "stablehlo_minimum_version": STABLEHLO_VERSIONS[0],
        }
    )


# --- clients -------------------------------------------------------------------------------------


@entry("Client_Create")
def _create(args: Any) -> None:
    given = read_named_values(args.create_options, args.num_options)
    args.client = Client(client_options(given)).address


@entry("Client_PlatformName")
def _platform_name(args: Any) -> None:
    c = CLIENTS[args.client]
    args.platform_name, args.platform_name_size = c.held.string(c.options.platform)


@entry("Client_PlatformVersion")
def _platform_version(args: Any) -> None:
    c = CLIENTS[args.client]
    args.platform_version, args.platform_version_size = c.held.string(platform_version(c.options))


@entry("Client_ProcessIndex")
def _process_index(args: Any) -> None:
    CLIENTS[args.client]
    args.process_index = 0


@entry("Client_TopologyDescription")
def _topology(args: Any) -> None:
    args.topology = CLIENTS[args.client].topology.address


@entry("Client_Devices")
def _devices(args: Any) -> None:
    c = CLIENTS[args.client]
    args.devices, args.num_devices = c.devices_at, len(c.devices)


@entry("Client_AddressableDevices")
def _addressable_devices(args: Any) -> None:
    c = CLIENTS[args.client]
    args.addressable_devices, args.num_addressable_devices = c.devices_at, len(c.devices)


@entry("Client_AddressableMemories")
def _addressable_memories(args: Any) -> None:
    c = CLIENTS[args.client]
    args.addressable_memories, args.num_addressable_memories = c.memories_at, c.num_memories


@entry("Client_LookupDevice")
def _lookup_device(args: Any) -> None:
    args.device = CLIENTS[args.client].device(args.id).address


@entry("Client_LookupAddressableDevice")
def _lookup_addressable_device(args: Any) -> None:
    args.addressable_device = CLIENTS[args.client].device(args.local_hardware_id).address


@entry("Client_DefaultDeviceAssignment")
def _default_device_assignment(args: Any) -> None:
    c = CLIENTS[args.client]
    count = args.num_replicas * args.num_partitions
    if not 0 < count <= len(c.devices):
        raise PjrtError(
            "INVALID_ARGUMENT", f"a program for {args.num_replicas} x {args.num_partitions} devices"
            f" (replicas, partitions) does not run on {len(c.devices)}",
        )  # fmt: skip
    if args.default_assignment_size < count:
        raise PjrtError(
            "FAILED_PRECONDITION", f"there is room for {args.default_assignment_size} devices of "
            f"{count}",
        )  # fmt: skip
    if not args.default_assignment:
        raise PjrtError("INVALID_ARGUMENT", "the memory for the assignment is null")
    (ctypes.c_int32 * count).from_address(args.default_assignment)[:] = range(count)


@entry("Client_UpdateGlobalProcessInfo")
def _update_process_info(args: Any) -> None:
    CLIENTS[args.client]  # there is one process
