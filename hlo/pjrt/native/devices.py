"""Devices: queues of tasks, each with a thread that runs them one after the other."""

from __future__ import annotations

from hlo.codegen.llvm import Val
from hlo.pjrt.native.writer import NULL, Code, Writer, need
from hlo.pjrt.records import DEVICE_TAG, Device, Memory, Task

# Of what each thread has: its device.
_KEY = Val("ptr", "@device_key")


def this_thread(b: Writer) -> Val:
    """Return the number of the thread that runs this."""
    b.module.declare("pthread_self", "i64", [])
    return b.call("pthread_self", [], "i64")


def device_of_thread(b: Writer) -> Val:
    """Return the device whose thread runs this, or null."""
    b.module.declare("pthread_getspecific", "ptr", ["i32"])
    key = b.load("i32", _KEY.name)
    return b.call("pthread_getspecific", [key], "ptr")


def write(code: Code) -> None:
    """Write `device_enqueue(device, task)`, and what callers ask for memories.

    A device's thread starts with its first task.
    `devices_start()` is called once, before.
    """
    code.variable(_KEY.name[1:])
    with code.function("devices_start", result="void", exported=True) as (b,):
        b.module.declare("pthread_key_create", "i32", ["ptr", "ptr"])
        b.call("pthread_key_create", [_KEY, NULL], "i32")
        b.ret()

    with code.function("device_main", "ptr") as (b, at):
        device = b.record(Device, at)
        b.module.declare("pthread_setspecific", "i32", ["i32", "ptr"])
        b.call("pthread_setspecific", [b.load("i32", _KEY.name), at], "i32")
        with b.repeat(lambda: Val("i1", "true")):
            b.lock(device)
            with b.repeat(lambda: b.is_null(device.first)):
                b.wait(device)
            task = b.record(Task, device.first)
            device.first = task.next
            with b.when(b.is_null(device.first)):
                device.last = 0
            b.unlock(device)
            b.call_void_address(task.run, [task.at])
            b.release()
            b.atomic_add(device.address("pending"), -1)
        b.ret(NULL)

    with code.function("device_enqueue", "ptr", "ptr", result="void", exported=True) as (
        b, at, task_at,
    ):  # fmt: skip
        device, task = b.record(Device, at), b.record(Task, task_at)
        b.lock(device)
        task.next = 0
        last = device.last
        with b.when(b.is_null(last)):
            device.first = task.at
        with b.when(b.is_not_zero(last)):
            b.record(Task, last).next = task.at
        device.last = task.at
        b.atomic_add(device.address("pending"), 1)
        is_new = b.is_zero(device.is_started)
        device.is_started = 1
        b.wake(device)
        b.unlock(device)
        with b.when(is_new):
            thread = b.alloca("i64")
            b.module.declare("pthread_create", "i32", ["ptr"] * 4)
            b.module.declare("pthread_detach", "i32", ["i64"])
            main = Val("ptr", "@device_main")
            b.call("pthread_create", [Val("ptr", thread.name), NULL, main, at], "i32")
            b.call("pthread_detach", [b.load("i64", thread.name)], "i32")
        b.ret()

    with code.entry("Memory_Kind") as (b, args):
        memory = need(b, Memory, args.memory, DEVICE_TAG, "memory")
        args.kind, args.kind_size = memory.kind, memory.size

    with code.entry("Memory_Kind_Id") as (b, args):
        memory = need(b, Memory, args.memory, DEVICE_TAG, "memory")
        args.kind_id = b.cast("trunc", memory.kind_id, "i32")
