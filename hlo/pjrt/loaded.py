"""The records of loaded executables: what native code runs a program by."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence

from hlo.pjrt import records
from hlo.pjrt.devices import Device
from hlo.pjrt.entries import PjrtError
from hlo.pjrt.interface import interface
from hlo.pjrt.layout_handles import layout_handle
from hlo.pjrt.memory import Held
from hlo.pjrt.programs import Program
from hlo.runtime.executable import Executable as NativeExecutable
from hlo.values.layout import physical_bytes
from hlo.values.types import ArrayShape, Shape

BUFFER_TYPES = interface().enums["Buffer_Type"]

# A run that takes longer goes to the thread of its device: handing it over takes some microseconds.
_SHORT_SECONDS = 50e-6
# What a processor does at least, in a second: counts of a program's cost.
_RATES = {"operations": 2e9, "transcendentals": 1e8, "bytes": 4e9}


def buffer_type(shape: Shape) -> int:
    """Return the number of the type that buffers of a shape have. Raises PjrtError."""
    # A token is at the interface what JAX passes for one, a truth value.
    name = shape.element_type.name.upper() if isinstance(shape, ArrayShape) else "PRED"
    if name not in BUFFER_TYPES.__members__:
        raise PjrtError("UNIMPLEMENTED", f"PJRT has no buffers of type {name.lower()}")
    return int(BUFFER_TYPES[name])


def dims_of(shape: Shape) -> tuple[int, ...]:
    """Return the dimensions that buffers of a shape have."""
    return shape.dims if isinstance(shape, ArrayShape) else ()


def bytes_of(shape: Shape) -> int:
    """Return the size of buffers of a shape."""
    return physical_bytes(shape) if isinstance(shape, ArrayShape) else 1


def slots(shapes: Sequence[Shape]) -> list[int]:
    """Return the position of each shape among the arrays, -1 for a token."""
    numbers = itertools.count()
    return [next(numbers) if isinstance(s, ArrayShape) else -1 for s in shapes]


def is_short(cost: dict[str, int]) -> bool:
    """True for a program whose run takes a short time by the counts of its cost."""
    seconds = sum(cost.get(name, 0) / rate for name, rate in _RATES.items())
    return bool(cost.get("exact")) and seconds < _SHORT_SECONDS


def loaded_record(
    held: Held, program: Program, native: NativeExecutable, devices: Sequence[Device],
    counts: tuple[int, int], hosts: Sequence[int], stop: int,
) -> int:  # fmt: skip
    """Return the address of the record of a program on devices, which `held` keeps.

    counts: of replicas and partitions. hosts: the addresses of
    the devices' tables of external functions, none where the program needs none. stop: the address
    of the word that stops them, 0 where nothing has to.
    """
    known = native.native()
    arguments, results = program.shape.arguments, program.shape.results
    donated, argument_slots = program.shape.donated, slots(arguments)
    # The native code knows which it writes into: not all that may share memory do.
    aliases = {r: argument_slots.index(a) for r, a in known.aliases.items()}
    items = (records.Result * max(1, len(results)))()
    for n, (item, shape, slot) in enumerate(zip(items, results, slots(results), strict=False)):
        item.type, item.rank = buffer_type(shape), len(dims_of(shape))
        item.dims = held.array(ctypes.c_int64, dims_of(shape))
        item.bytes, item.slot, item.argument = bytes_of(shape), slot, aliases.get(slot, -1)
        item.kind = program.shape.result_kinds[n]
        if isinstance(shape, ArrayShape) and shape.layout and not shape.layout.is_default:
            item.layout = layout_handle(shape.layout)
    record = records.Loaded(
        tag=records.LOADED_TAG, refs=1,
        is_short=is_short(dict(native.cost)) and not native.uses_host and counts == (1, 1),
        calls_host=native.uses_host and counts == (1, 1),
        entry=known.entry, constants=known.constants, arena_bytes=native.arena_bytes,
        pool=known.threads_at, hosts=held.addresses(hosts),
        num_args=len(arguments), slots=held.array(ctypes.c_int64, argument_slots),
        num_outputs=len(results), results=held.record(items),
        donated=held.array(ctypes.c_int64, donated), num_donated=len(donated),
        num_devices=len(devices), devices=held.addresses(d.address for d in devices),
        num_replicas=counts[0], num_partitions=counts[1], stop=stop, run=known.run,
    )  # fmt: skip
    return held.record(record)
