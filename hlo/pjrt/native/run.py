"""A run on one device: its record, memory for its results, and the program's call."""

from __future__ import annotations

import ctypes

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.interface import interface, struct
from hlo.pjrt.native.python import entry_number
from hlo.pjrt.native.writer import NULL, Code, Record, Writer
from hlo.pjrt.records import Block, Buffer, Event, Failure, Loaded, Result, Task
from hlo.runtime.watch import (
    ARENA,
    ARGUMENTS,
    CONSTANTS,
    ENTRY,
    HOST,
    RESULTS,
    STOP,
    THREADS,
    WORDS,
    Ended,
)

# A run on the device at an index of its program. keeps_args: it has references to their memory.
# After it tables of words: of arguments, first those for the program, then their blocks and their
# events; of results, first those for the program, then what is copied there before the run, and
# their blocks.
Run = struct(
    "Run",
    [
        *(f"{n}:{t}" for n, t in Task.types.items()), "loaded:ptr", "index:i64", "keeps_args:i64",
        "event:ptr", "args:ptr", "arg_blocks:ptr", "arg_events:ptr", "outs:ptr", "sources:ptr",
        "out_blocks:ptr",
    ],
)  # fmt: skip
TABLES = ("args", "arg_blocks", "arg_events"), ("outs", "sources", "out_blocks")
_Options = interface().structs["ExecuteOptions"]


def write(code: Code) -> None:
    """Write what `runs` calls:

    - `run_program(run)`, which returns an error or null
    - `run_task(run)`, what a device does with a run
    - `run_outputs(run, arguments, options)`: has memory for all results, or returns an error
    - `is_donatable(options, number)`
    """
    _write_task(code)
    _write_results(code)


def _write_task(code: Code) -> None:
    """Write `run_program(run)`, which returns an error or null, and `run_task(run)`."""
    with code.function("run_program", "ptr") as (b, at):
        run = b.record(Run, at)
        loaded = b.record(Loaded, run.loaded)

        def copy(n: Val) -> None:
            source = b.get(run.sources, n)
            with b.when(b.is_not_zero(source)):
                b.copy(
                    b.record(Block, b.get(run.out_blocks, n)).data,
                    source,
                    result_of(b, loaded, n).bytes,
                )

        b.each(loaded.num_outputs, copy)
        arena = b.run("block_new", loaded.arena_bytes)
        b.fail_if(
            b.is_null(arena), "RESOURCE_EXHAUSTED", "there is no memory for the temporary arrays"
        )
        pool, hosts = loaded.pool, loaded.hosts
        threads = b.either(b.is_not_zero(pool), lambda: b.load("ptr", pool.name), NULL)
        host = b.either(b.is_not_zero(hosts), lambda: b.get(hosts, run.index), NULL)
        words = {
            ARGUMENTS: run.args, RESULTS: run.outs, ARENA: b.record(Block, arena).data,
            CONSTANTS: loaded.constants, THREADS: threads, HOST: host,
        }  # fmt: skip
        (status,) = b.choose(
            b.is_null(loaded.stop),
            lambda: [b.call_address(loaded.entry, list(words.values()), "i32")],
            lambda: [_run_watched(b, loaded, words)],
        )
        failure = b.record(Failure, b.alloca("i64", 3))
        failure.loaded, failure.device = loaded.at, run.index
        failure.status = b.cast("sext", status, "i64")
        error = b.either(
            b.is_not_zero(status),
            lambda: b.run("python_call", entry_number("failure"), failure.at),
            NULL,
        )
        # Until an error has been raised, other devices may read from it.
        b.do("block_release", arena)
        b.ret(error)

    with code.function("run_task", "ptr", result="void") as (b, at):
        run = b.record(Run, at)
        loaded = b.record(Loaded, run.loaded)
        error = b.alloca("ptr")
        b.store(NULL, error.name)

        def await_argument(n: Val) -> None:
            event = b.record(Event, b.get(run.arg_events, n))
            b.do("event_wait", event.at)
            is_first = b.both(b.is_not_zero(event.error), b.is_null(b.load("ptr", error.name)))
            with b.when(is_first):
                b.store(b.run("error_copy", event.error), error.name)

        b.each(loaded.num_args, await_argument)
        with b.when(b.is_null(b.load("ptr", error.name))):
            b.store(b.run("run_program", at), error.name)

        release_arguments(b, loaded, run)
        b.each(loaded.num_args, lambda n: b.do("event_release", b.get(run.arg_events, n)))
        b.each(loaded.num_outputs, lambda n: b.do("block_release", b.get(run.out_blocks, n)))
        b.do("event_complete", run.event, b.load("ptr", error.name))
        b.do("event_release", run.event)
        count_runs(b, loaded, -1)
        b.do("loaded_release", loaded.at)
        b.free(at)
        b.ret()


def _run_watched(b: Writer, loaded: Record, words: dict[int, Val]) -> Val:
    """Run a program so that a word of its executable stops it; returns its status."""
    watch = b.alloca("i64", WORDS)
    for number in range(WORDS):
        b.put(watch, number, words.get(number, i64(0)))
    b.put(watch, ENTRY, loaded.entry)
    b.put(watch, STOP, loaded.stop)
    (status,) = b.choose(
        b.is_zero(b.load("i64", loaded.stop.name)),
        lambda: [b.call_address(loaded.run, [watch], "i32")],
        lambda: [Val("i32", str(int(Ended.STOPPED)))],
    )
    return status


# --- results -------------------------------------------------------------------------------------


def result_of(b: Writer, loaded: Record, number: Val) -> Record:
    return b.record(Result, b.after(loaded.results, b.product(number, ctypes.sizeof(Result))))


def _write_results(code: Code) -> None:
    """Write `run_outputs(run, arguments, options)`: has memory for all results, or an error; and
    `is_donatable(options, number)`."""
    with code.function("is_donatable", "ptr", "i64", result="i1") as (b, at, argument):
        options = b.record(_Options, at)
        found = b.alloca("i64")
        b.store(i64(1), found.name)

        def compare(n: Val) -> None:
            with b.when(
                b.icmp("eq", b.get(options.non_donatable_input_indices, n, "i64"), argument)
            ):
                b.store(i64(0), found.name)

        b.each(options.num_non_donatable_input_indices, compare)
        b.ret(b.is_not_zero(b.load("i64", found.name)))

    with code.function("run_outputs", "ptr", "ptr", "ptr") as (b, at, list_at, options):
        run = b.record(Run, at)
        loaded = b.record(Loaded, run.loaded)
        missing = b.alloca("i64")
        b.store(i64(0), missing.name)

        def allocate(n: Val) -> None:
            result = result_of(b, loaded, n)
            with b.when(b.icmp("sge", result.argument, 0)):
                argument = b.record(Buffer, b.get(list_at, result.argument))
                b.put(run.sources, n, argument.data)
                block = b.record(Block, argument.block)
                # Memory that others read, or that is not ours, is copied. Two references are the
                # argument's and this run's.
                is_own = b.both(b.icmp("eq", block.refs, 2), b.is_zero(block.is_immutable))
                may = b.call("is_donatable", [options, result.argument], "i1")
                with b.when(b.both(is_own, may)):
                    b.do("block_retain", block.at)
                    b.put(run.out_blocks, n, block.at)
                    b.put(run.sources, n, NULL)
            with b.when(b.is_null(b.get(run.out_blocks, n))):
                block = b.record(Block, b.run("block_new", result.bytes))
                b.put(run.out_blocks, n, block.at)
                with b.when(b.is_null(block.at)):
                    b.store(i64(1), missing.name)
            with b.when(b.is_zero(b.load("i64", missing.name))):
                with b.when(b.icmp("sge", result.slot, 0)):
                    data = b.record(Block, b.get(run.out_blocks, n)).data
                    b.put(run.outs, result.slot, data)

        b.each(loaded.num_outputs, allocate)
        with b.exit_if(b.is_zero(b.load("i64", missing.name))):
            b.ret(NULL)

        def give_back(n: Val) -> None:
            block = b.get(run.out_blocks, n)
            with b.when(b.is_not_zero(block)):
                b.do("block_release", block)

        b.each(loaded.num_outputs, give_back)
        b.ret(b.error("RESOURCE_EXHAUSTED", "there is no memory for the results"))


def count_runs(b: Writer, loaded: Record, more: int) -> None:
    """Count the runs of a program on several devices."""
    with b.when(b.is_not_zero(loaded.stop)):
        b.atomic_add(loaded.address("running"), more)


def release_arguments(b: Writer, loaded: Record, run: Record) -> None:
    with b.when(b.is_not_zero(run.keeps_args)):
        b.each(loaded.num_args, lambda n: b.do("block_release", b.get(run.arg_blocks, n)))
