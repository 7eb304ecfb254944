"""Descriptions of a client's devices that need no client, to compile for them ahead of time."""

from __future__ import annotations

import ctypes
import hashlib
import json
from typing import Any

from hlo.pjrt.devices import Description
from hlo.pjrt.entries import PjrtError, bytes_at, entry
from hlo.pjrt.handles import Handles
from hlo.pjrt.memory import FREE, Held, handed, read_named_values
from hlo.pjrt.options import COMPILER_OPTIONS, Options, client_options
from hlo.version import __version__


def platform_version(options: Options) -> str:
    """Return what compiles and runs programs: the version, and options that programs depend on.

    It is part of the keys of JAX's persistent cache.
    """
    default = Options()
    words = [f"hlo-tools {__version__}"]
    for name in COMPILER_OPTIONS.values():
        value = getattr(options, name)
        if name != "cache" and value != getattr(default, name):
            words.append(f"{name}={value}")
    return " ".join(words)


class Topology:
    """The devices of a client with some options."""

    def __init__(self, options: Options, descriptions: list[Description]) -> None:
        self.options, self.descriptions = options, descriptions
        self.held = Held()
        self.descriptions_at = self.held.addresses(d.address for d in descriptions)
        self.address = self.held.record(ctypes.c_int64(len(descriptions)))
        TOPOLOGIES.add(self.address, self)

    def to_bytes(self) -> bytes:
        """Return what `topology_of_bytes` reads."""
        fields = {"platform": self.options.platform, "num_devices": len(self.descriptions)}
        return json.dumps(fields).encode()


TOPOLOGIES: Handles[Topology] = Handles("topology")


def _made(options: Options) -> Topology:
    numbers = range(options.num_devices)
    return Topology(options, [Description(options.platform, n) for n in numbers])


@entry("TopologyDescription_Create")
def _create(args: Any) -> None:
    given = read_named_values(args.create_options, args.num_options)
    args.topology = _made(client_options(given)).address


@entry("TopologyDescription_PlatformName")
def _platform_name(args: Any) -> None:
    t = TOPOLOGIES[args.topology]
    args.platform_name, args.platform_name_size = t.held.string(t.options.platform)


@entry("TopologyDescription_PlatformVersion")
def _platform_version(args: Any) -> None:
    t = TOPOLOGIES[args.topology]
    args.platform_version, args.platform_version_size = t.held.string(platform_version(t.options))


@entry("TopologyDescription_GetDeviceDescriptions")
def _descriptions(args: Any) -> None:
    t = TOPOLOGIES[args.topology]
    args.descriptions, args.num_descriptions = t.descriptions_at, len(t.descriptions)


@entry("TopologyDescription_Attributes")
def _attributes(args: Any) -> None:
    TOPOLOGIES[args.topology]
    args.attributes, args.num_attributes = 0, 0


@entry("TopologyDescription_Serialize")
def _serialize(args: Any) -> None:
    content = TOPOLOGIES[args.topology].to_bytes()
    args.serialized_bytes = args.serialized_topology = handed(content)
    args.serialized_bytes_size, args.serialized_topology_deleter = len(content), FREE


@entry("TopologyDescription_Deserialize")
def _deserialize(args: Any) -> None:
    content = bytes_at(args.serialized_topology, args.serialized_topology_size)
    try:
        given = json.loads(content)
        named = {name: given[name] for name in ("platform", "num_devices")}
    except (ValueError, TypeError, KeyError):
        raise PjrtError("INVALID_ARGUMENT", "these bytes are no serialized topology") from None
    args.topology = _made(client_options(named)).address


@entry("TopologyDescription_Fingerprint")
def _fingerprint(args: Any) -> None:
    t = TOPOLOGIES[args.topology]
    digest = hashlib.sha256(t.to_bytes() + platform_version(t.options).encode())
    args.fingerprint = int.from_bytes(digest.digest()[:8], "little", signed=True)
