"""What the plug-in's handles point to: records that native code and Python share.

Each begins with a tag, by which entries recognize null, freed and foreign handles. Python makes
devices, memories and executables; native code makes the others.
"""

from __future__ import annotations

from hlo.pjrt.interface import struct

# --- tags, one a kind of handle ------------------------------------------------------------------

EVENT_TAG, BUFFER_TAG, LOADED_TAG, DEVICE_TAG = 0x0E7E47, 0x0B0FFE, 0x10ADED, 0x0DE71C
LAYOUT_TAG = 0x1A7007

# --- errors and events ---------------------------------------------------------------------------

# code: of `Error_Code`. The message follows the record.
Error = struct("Error", ["code:i64", "message:ptr", "size:i64"])

# state: 0 until it is ready. error: None or an Error that is its own. waiters: a list of Waiter.
Event = struct(
    "Event",
    [
        "tag:i64",
        "refs:i64",
        "state:i64",
        "error:ptr",
        "waiters:ptr",
        "mutex:lock",
        "condition:lock",
    ],
)
# What is called when an event is ready: `callback(error, argument)`, with an error of its own.
Waiter = struct("Waiter", ["next:ptr", "callback:ptr", "argument:ptr"])

# --- memory --------------------------------------------------------------------------------------

# Memory of elements, which several buffers may share. size: of the allocation that begins with this
# record, 0 where `data` is others' memory; then `release(data, argument)` is called at the end.
# is_immutable: nothing may be written to it.
Block = struct(
    "Block",
    ["refs:i64", "size:i64", "data:ptr", "release:ptr", "argument:ptr", "is_immutable:i64"],
)

# How the elements of an array of a rank are arranged: the text as HLO has it, and its size; the
# dimensions, the one that varies fastest first. None is freed.
Layout = struct("Layout", ["tag:i64", "text:ptr", "size:i64", "order:ptr", "rank:i64"])
# The rank of the largest arrays in default order of which there is a layout.
MOST_DIMENSIONS = 64

# type: of `Buffer_Type`. bytes: of the elements. event: when they are there. holds: external
# references. layout: null for the default one. The dimensions follow the record.
Buffer = struct(
    "Buffer",
    [
        "tag:i64", "block:ptr", "data:ptr", "dims:ptr", "rank:i64", "type:i32", "is_deleted:i32",
        "bytes:i64", "device:ptr", "memory:ptr", "event:ptr", "holds:i64",
        "layout:ptr",
    ],
)  # fmt: skip

# --- devices -------------------------------------------------------------------------------------

# The first word is the table of functions that newer callers look for: none. kind: its name, which
# callers ask for at each dispatch.
Memory = struct(
    "Memory",
    ["functions:ptr", "tag:i64", "device:ptr", "id:i64", "kind:ptr", "size:i64", "kind_id:i64"],
)

# A device runs its tasks one after the other, on a thread of its own. pending: how many it has not
# completed. is_started: whether it has its thread. memory: the default one
# of its memories, by kind.
Device = struct(
    "Device",
    [
        "tag:i64", "memory:ptr", "memories:ptr", "id:i64", "pending:i64", "is_started:i64",
        "thread:i64",
        "first:ptr", "last:ptr", "mutex:lock", "condition:lock",
    ],
)  # fmt: skip

# What a device has to run: `run(task)`, which also frees it.
Task = struct("Task", ["next:ptr", "run:ptr"])

# --- programs ------------------------------------------------------------------------------------

# type, rank, dims, bytes, layout: as of a buffer. kind: which of the device's memories. slot: where
# the program's table of results has it, -1 for a token, which it has not. argument: whose memory it
# takes if that is donated, the value being there before the run; -1 for none.
Result = struct(
    "Result",
    [
        "type:i64", "rank:i64", "dims:ptr", "bytes:i64", "layout:ptr", "kind:i64", "slot:i64",
        "argument:i64",
    ],
)  # fmt: skip

# A loaded executable, for one device or several; both of PJRT's handles point to it.
#
# is_short: it takes less time than handing it to a thread.
# calls_host: it is of one device, and calls functions outside of its code. entry: the program's
# native function. pool: the address of the word with the handle of its thread pool,
# or 0. hosts: for each device, the table of its external functions, or 0 for all. slots: for each
# argument, where the program's table of arguments has it, -1 for a token. donated: the arguments
# that are gone after a run. devices: the addresses of its devices. stop: where several devices run
# together, the address of the word that stops them, and `run` calls the program so that it can be
# stopped (`watch_run`). running: how many of its runs have not ended. next: of those that are
# destroyed, and whose Python objects may go.
Loaded = struct(
    "Loaded",
    [
        "tag:i64", "refs:i64", "is_deleted:i64", "is_short:i64",
        "calls_host:i64",
        "entry:ptr", "constants:ptr", "arena_bytes:i64", "pool:ptr", "hosts:ptr",
        "num_args:i64", "slots:ptr", "num_outputs:i64", "results:ptr",
        "donated:ptr", "num_donated:i64",
        "num_devices:i64", "devices:ptr", "num_replicas:i64", "num_partitions:i64",
        "stop:ptr", "run:ptr", "running:i64", "next:ptr",
    ],
)  # fmt: skip

# What the Python entry "failure" is called with where a run has ended with a status: that of a
# loaded executable, on the device at an index of its own. "renew" gets the executable alone.
Failure = struct("Failure", ["loaded:ptr", "device:i64", "status:i64"])
