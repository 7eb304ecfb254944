"""Runs of programs: what `LoadedExecutable_Execute` does, without Python.

A run on one device that takes less time than another thread needs to wake, and whose arguments are
there, is done by the caller; so is what a callback runs, whose device waits for it, and others may
wait for that; and what calls functions of the host on one device. Any other is a task of the
device: results are buffers at once, whose event is ready when the task is done. Tasks of a device
are in order; arguments from other devices are waited for. Several devices meet in collectives on
threads of their own.
"""

from __future__ import annotations

import ctypes

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.native.devices import device_of_thread
from hlo.pjrt.native.events import READY
from hlo.pjrt.native.python import entry_number
from hlo.pjrt.native.run import TABLES, Run, count_runs, release_arguments, result_of
from hlo.pjrt.native.writer import NULL, Code, Record, Writer, need
from hlo.pjrt.records import (
    BUFFER_TAG,
    DEVICE_TAG,
    LOADED_TAG,
    Buffer,
    Device,
    Event,
    Failure,
    Loaded,
)


def write(code: Code) -> None:
    """Write the entry."""
    _write_check(code)
    _write_start(code)

    with code.entry("LoadedExecutable_Execute") as (b, args):
        b.do("hold_back")
        loaded = need(b, Loaded, args.executable, LOADED_TAG, "executable")
        b.fail_if(
            b.is_not_zero(loaded.is_deleted), "INVALID_ARGUMENT", "the executable has been deleted"
        )
        b.fail_if(b.is_null(args.options), "INVALID_ARGUMENT", "the options are null")
        b.fail_if(
            b.icmp("ne", args.num_args, loaded.num_args), "INVALID_ARGUMENT",
            "the number of arguments is not that of the program",
        )  # fmt: skip
        count = args.num_devices
        is_elsewhere = b.is_not_zero(args.execute_device)
        expected = b.select(is_elsewhere, i64(1), loaded.num_devices)
        b.fail_if(
            b.icmp("ne", count, expected), "INVALID_ARGUMENT",
            "the number of argument lists is not that of the program's devices",
        )  # fmt: skip
        is_missing = b.binary("or", b.is_null(args.argument_lists), b.is_null(args.output_lists))
        b.fail_if(is_missing, "INVALID_ARGUMENT", "the lists of arguments or results are null")
        with b.when(b.is_not_zero(loaded.stop)):
            # After a failure, devices may be at different collectives.
            with b.when(b.is_not_zero(b.load("i64", loaded.stop.name))):
                failure = b.record(Failure, b.alloca("i64", 3))
                failure.loaded = loaded.at
                b.pass_on(b.run("python_call", entry_number("renew"), failure.at))

        def check(n: Val) -> None:
            device = _device(b, loaded, args, n)
            b.pass_on(b.run("run_check", loaded.at, device, b.get(args.argument_lists, n)))

        def start(n: Val) -> None:
            device = _device(b, loaded, args, n)
            events = args.device_complete_events
            event = b.select(b.is_null(events), NULL, b.word_at(events, n))
            b.pass_on(
                b.run(
                    "run_start", loaded.at, n, device, b.get(args.argument_lists, n),
                    b.get(args.output_lists, n), event, args.options,
                )
            )  # fmt: skip

        # All is checked before anything runs: devices wait for each other.
        b.each(count, check)
        b.each(count, start)


def _device(b: Writer, loaded: Record, args: Record, index: Val) -> Val:
    """Return the device that a list of arguments is for."""
    (device,) = b.choose(
        b.is_null(args.execute_device),
        lambda: [b.get(loaded.devices, index)],
        lambda: [args.execute_device],
    )
    return device


def _write_check(code: Code) -> None:
    """Write `run_check(loaded, device, arguments)`: an error, or null."""
    with code.function("run_check", "ptr", "ptr", "ptr") as (b, loaded_at, device_at, list_at):
        loaded = b.record(Loaded, loaded_at)
        need(b, Device, device_at, DEVICE_TAG, "device")
        b.fail_if(
            b.both(b.is_null(list_at), b.is_not_zero(loaded.num_args)), "INVALID_ARGUMENT",
            "a list of arguments is null",
        )  # fmt: skip

        def check(n: Val) -> None:
            buffer = need(b, Buffer, b.get(list_at, n), BUFFER_TAG, "argument")
            b.fail_if(
                b.is_not_zero(buffer.is_deleted), "INVALID_ARGUMENT",
                "an argument has been deleted or donated",
            )  # fmt: skip

        b.each(loaded.num_args, check)
        b.ret(NULL)


# --- from arguments to results -------------------------------------------------------------------


def _write_start(code: Code) -> None:
    """Write `run_start(loaded, index, device, arguments, results, event, options)`.

    Stores the results, and the event of the whole run where `event` is an address.
    """
    types = ("ptr", "i64", "ptr", "ptr", "ptr", "ptr", "ptr")
    with code.function("run_start", *types) as (
        b, loaded_at, index, device_at, list_at, results_at, event_at, options,
    ):  # fmt: skip
        loaded, device = b.record(Loaded, loaded_at), b.record(Device, device_at)
        run = _new_run(b, loaded, index)
        is_waiting = b.alloca("i64")
        # A task that waits may read memory that is donated here.
        pending = b.select(b.is_zero(loaded.num_donated), i64(0), device.pending)
        b.store(pending, is_waiting.name)

        def take(n: Val) -> None:
            buffer = b.record(Buffer, b.get(list_at, n))
            slot = b.get(loaded.slots, n, "i64")
            with b.when(b.icmp("sge", slot, 0)):
                b.put(run.args, slot, buffer.data)
            b.put(run.arg_blocks, n, buffer.block)
            event = b.record(Event, buffer.event)
            b.put(run.arg_events, n, event.at)
            is_there = b.both(b.is_not_zero(event.state), b.is_null(event.error))
            with b.when(b.negated(is_there)):
                b.store(i64(1), is_waiting.name)

        b.each(loaded.num_args, take)
        b.acquire()
        is_inside = b.is_not_zero(device_of_thread(b))
        # Functions of the host may wait for each other: each runs on the thread that asks for it.
        calls_host = b.both(b.is_not_zero(loaded.calls_host), b.is_zero(pending))
        is_here = b.binary("or", is_inside, calls_host)
        is_single = b.icmp("eq", loaded.num_devices, 1)
        failed = b.alloca("ptr")
        b.store(NULL, failed.name)

        def wait(n: Val) -> None:
            argument = b.record(Event, b.get(run.arg_events, n))
            b.do("event_wait", argument.at)
            with b.when(b.both(is_single, b.is_not_zero(argument.error))):
                b.store(argument.error, failed.name)

        with b.when(is_here):
            b.each(loaded.num_args, wait)
        with b.exit_if(b.is_not_zero(b.load("ptr", failed.name))):
            b.free(run.at)
            b.ret(b.run("error_copy", b.load("ptr", failed.name)))
        is_quick = b.both(b.is_not_zero(loaded.is_short), b.is_zero(b.load("i64", is_waiting.name)))
        is_now = b.binary("or", is_here, is_quick)
        # A count of references costs more than the rest that is done for an argument. It is of use
        # where another thread needs the argument, or memory is donated unless it is shared.
        keeps = b.binary("or", b.negated(is_now), b.is_not_zero(loaded.num_donated))
        run.keeps_args = b.cast("zext", keeps, "i64")
        with b.when(keeps):
            b.each(loaded.num_args, lambda n: b.do("block_retain", b.get(run.arg_blocks, n)))
        error = b.run("run_outputs", run.at, list_at, options)
        with b.exit_if(b.is_not_zero(error)):
            release_arguments(b, loaded, run)
            b.free(run.at)
            b.ret(error)
        count_runs(b, loaded, 1)
        (event,) = b.choose(is_now, lambda: [_run_now(b, run)], lambda: [_new_event(b, run)])
        # As with XLA:CPU, the error of what has run already is the caller's, not the results'.
        error = b.record(Event, event).error
        with b.exit_if(b.both(b.both(is_now, is_single), b.is_not_zero(error))):
            made = b.run("error_copy", error)
            b.each(loaded.num_outputs, lambda n: b.do("block_release", b.get(run.out_blocks, n)))
            release_arguments(b, loaded, run)
            b.do("event_release", event)
            b.free(run.at)
            b.ret(made)
        _write_buffers(b, loaded, run, device, results_at, event)
        with b.when(b.is_not_zero(event_at)):
            b.do("event_retain", event)
            b.store(event, event_at.name)
        with b.when(b.negated(is_now)):
            _retain(b, loaded, run)
        _donate(b, loaded, list_at, options)
        with b.exit_if(is_now):
            release_arguments(b, loaded, run)
            count_runs(b, loaded, -1)
            b.do("event_release", event)
            b.free(run.at)
            b.ret(NULL)
        b.do("device_enqueue", device.at, run.at)
        b.ret(NULL)


def _new_run(b: Writer, loaded: Record, index: Val) -> Record:
    args, outs = b.product(loaded.num_args, 8), b.product(loaded.num_outputs, 8)
    extra = b.product(b.sum(args, outs), 3)
    run = b.new(Run, extra)
    at = b.after(run.at, ctypes.sizeof(Run))
    for names, size in zip(TABLES, (args, outs), strict=True):
        for name in names:
            setattr(run, name, at)
            at = b.after(at, size)
    run.loaded, run.index = loaded.at, index
    run.run = Val("ptr", "@run_task")
    return run


def _run_now(b: Writer, run: Record) -> Val:
    """Run; returns the event of the results: one with the error, if there was one."""
    error = b.run("run_program", run.at)

    def failed() -> Val:
        event = b.run("event_new", i64(1))
        b.do("event_complete", event, error)
        return event

    return b.either(b.is_not_zero(error), failed, READY)


def _new_event(b: Writer, run: Record) -> Val:
    event = b.run("event_new", i64(1))
    run.event = event
    return event


def _write_buffers(
    b: Writer, loaded: Record, run: Record, device: Record, results_at: Val, event: Val
) -> None:
    def make(n: Val) -> None:
        result = result_of(b, loaded, n)
        b.do("event_retain", event)
        type_ = b.cast("trunc", result.type, "i32")
        block = b.get(run.out_blocks, n)
        at = b.run(
            "buffer_new", block, type_, result.dims, result.rank, result.bytes, device.at, event
        )
        buffer = b.record(Buffer, at)
        buffer.layout = result.layout
        with b.when(b.is_not_zero(result.kind)):
            buffer.memory = b.get(device.memories, result.kind)
        b.put(results_at, n, at)

    b.each(loaded.num_outputs, make)


def _retain(b: Writer, loaded: Record, run: Record) -> None:
    """Keep what a task uses until it is done."""

    b.each(loaded.num_args, lambda n: b.do("event_retain", b.get(run.arg_events, n)))
    b.each(loaded.num_outputs, lambda n: b.do("block_retain", b.get(run.out_blocks, n)))
    b.retain(loaded)


def _donate(b: Writer, loaded: Record, list_at: Val, options: Val) -> None:
    """Delete the arguments that are gone after the run."""

    def delete(n: Val) -> None:
        argument = b.get(loaded.donated, n, "i64")
        with b.when(b.call("is_donatable", [options, argument], "i1")):
            b.do("buffer_delete", b.get(list_at, argument))

    b.each(loaded.num_donated, delete)
