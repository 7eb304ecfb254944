"""Events: what completes later, on another thread.

An event is shared by what it is the event of, so that its references are counted. One that has
always been ready stands for all that is complete when it is asked for.
"""

from __future__ import annotations

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.entries import ErrorCode
from hlo.pjrt.native.writer import NULL, Code, Record, Writer, need
from hlo.pjrt.records import EVENT_TAG, Event, Waiter

READY = Val("ptr", "@event_ready")
# References that are never all released.
_FOR_EVER = 1 << 60


def write(code: Code) -> None:
    """Write the entries, and what other native code calls:

    - `event_new(references)`
    - `event_retain(event)`, `event_release(event)`
    - `event_complete(event, error)`, which takes the error or null
    - `event_then(event, callback, argument)`: `callback(error, argument)` when it is ready
    - `event_wait(event)`
    """
    types = ", ".join(t if t != "lock" else "[8 x i64]" for t in Event.types.values())
    values = [f"i64 {EVENT_TAG}", f"i64 {_FOR_EVER}", "i64 1", "ptr null", "ptr null"]
    values += ["[8 x i64] zeroinitializer"] * 2
    code.module.define("event_ready", f"internal global {{ {types} }} {{ {', '.join(values)} }}")

    with code.function("event_new", "i64", exported=True) as (b, refs):
        event = b.new(Event)
        event.tag, event.refs = EVENT_TAG, refs
        b.ret(event.at)

    with code.function("event_retain", "ptr", result="void") as (b, at):
        b.retain(b.record(Event, at))
        b.ret()

    with code.function("event_release", "ptr", result="void", exported=True) as (b, at):
        event = b.record(Event, at)
        with b.last_release(event):
            event.tag = 0
            b.free(event.error)
            b.free(at)
        b.ret()

    _write_completion(code)
    _write_entries(code)


def _write_completion(code: Code) -> None:
    with code.function("event_complete", "ptr", "ptr", result="void", exported=True) as (
        b, at, error,
    ):  # fmt: skip
        event = b.record(Event, at)
        b.lock(event)
        event.error = error
        b.release()
        event.state = 1
        waiters = event.waiters
        event.waiters = 0
        b.wake(event)
        b.unlock(event)
        first = b.alloca("ptr")
        b.store(waiters, first.name)
        with b.repeat(lambda: b.is_not_zero(b.load("ptr", first.name))):
            waiter = b.record(Waiter, b.load("ptr", first.name))
            b.store(waiter.next, first.name)
            callback, argument = waiter.callback, waiter.argument
            b.free(waiter.at)
            b.call_void_address(callback, [b.run("error_copy", error), argument])
        b.ret()

    with code.function("event_then", "ptr", "ptr", "ptr", result="void", exported=True) as (
        b, at, callback, argument,
    ):  # fmt: skip
        event = b.record(Event, at)
        with b.exit_if(_is_ready(b, event)):
            b.call_void_address(callback, [b.run("error_copy", event.error), argument])
            b.ret()
        waiter = b.new(Waiter)
        waiter.callback, waiter.argument = callback, argument
        b.lock(event)
        is_late = b.is_not_zero(event.state)
        with b.when(b.negated(is_late)):
            waiter.next = event.waiters
            event.waiters = waiter.at
        b.unlock(event)
        with b.when(is_late):
            b.free(waiter.at)
            b.call_void_address(callback, [b.run("error_copy", event.error), argument])
        b.ret()

    with code.function("event_wait", "ptr", result="void", exported=True) as (b, at):
        event = b.record(Event, at)
        with b.exit_if(_is_ready(b, event)):
            b.ret()
        b.lock(event)
        with b.repeat(lambda: b.is_zero(event.state)):
            b.wait(event)
        b.unlock(event)
        b.ret()


def _event(b: Writer, args: Record) -> Record:
    """Return the event in arguments, or have the entry return an error."""
    return need(b, Event, args.event, EVENT_TAG, "event")


def _is_ready(b: Writer, event: Record) -> Val:
    state = event.state
    b.acquire()
    return b.is_not_zero(state)


def _write_entries(code: Code) -> None:
    with code.entry("Event_Destroy") as (b, args):
        with b.when(b.is_not_zero(args.event)):
            b.do("event_release", _event(b, args).at)

    with code.entry("Event_IsReady") as (b, args):
        event = _event(b, args)
        args.is_ready = b.cast("zext", _is_ready(b, event), "i8")

    with code.entry("Event_Error") as (b, args):
        event = _event(b, args)
        b.pass_on(b.run("error_copy", event.error))

    with code.entry("Event_Await") as (b, args):
        event = _event(b, args)
        b.do("event_wait", event.at)
        b.pass_on(b.run("error_copy", event.error))

    with code.entry("Event_OnReady") as (b, args):
        event = _event(b, args)
        b.fail_if(b.is_null(args.callback), "INVALID_ARGUMENT", "the callback is null")
        b.do("event_then", event.at, args.callback, args.user_arg)

    with code.entry("Event_Create") as (b, args):
        args.event = b.run("event_new", i64(1))

    with code.entry("Event_Set") as (b, args):
        event = _event(b, args)
        b.fail_if(b.is_not_zero(event.state), "FAILED_PRECONDITION", "the event is set already")
        b.fail_if(
            b.both(b.is_null(args.error_message), b.is_not_zero(args.error_message_size)),
            "INVALID_ARGUMENT", "the message is null",
        )  # fmt: skip
        b.fail_if(
            b.icmp("uge", args.error_code, len(ErrorCode)), "INVALID_ARGUMENT",
            "there is no such code of an error",
        )  # fmt: skip

        def made() -> Val:
            number = b.cast("sext", args.error_code, "i64")
            return b.run("error_new", number, args.error_message, args.error_message_size)

        error = b.either(b.is_not_zero(args.error_code), made, NULL)
        b.do("event_complete", event.at, error)
