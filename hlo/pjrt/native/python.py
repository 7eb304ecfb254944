"""Entries that are Python, and how native code calls them.

Such an entry may be called while an exception is pending, by threads that Python does not know, and
with Python's lock or without.
"""

from __future__ import annotations

from hlo.codegen.llvm import Val, i64
from hlo.pjrt.entries import ENTRY_NAMES
from hlo.pjrt.interface import interface
from hlo.pjrt.native.devices import this_thread
from hlo.pjrt.native.writer import NULL, Code, Writer


def entry_number(name: str) -> Val:
    """Return the number of a Python entry."""
    return i64(ENTRY_NAMES.index(name))


def write(code: Code) -> None:
    """Write `python_call(number, arguments)`, which returns an error or null.

    The entries of all functions that no other file has written are calls of it.

    Python sets `python_function`, and when it ends, zero.
    """
    _write_end(code)
    function = code.variable("python_function")
    with code.function("python_call", "i64", "ptr") as (b, which, args):
        b.do("hold_back")
        python = b.load("ptr", function.name)
        b.fail_if(b.is_null(python), "UNAVAILABLE", "Python has ended")
        state = _python(b, "PyGILState_Ensure", [], "i32")
        pending = [b.alloca("ptr") for _ in range(3)]
        _python(b, "PyErr_Fetch", pending)
        error = b.call_address(python, [which, args], "ptr")
        _python(b, "PyErr_Restore", [b.load("ptr", p.name) for p in pending])
        _python(b, "PyGILState_Release", [state])
        b.do("hold_back")
        b.ret(error)

    written = set(code.entries)
    for name in interface().arguments:
        if name not in written:
            with code.entry(name) as (b, args):
                if name == "Compile":
                    _need_thread_of_python(b)
                b.pass_on(b.run("python_call", entry_number(name), args.at))


def _need_thread_of_python(b: Writer) -> None:
    """Return an error on a thread that Python does not know.

    JAX 0.10 compiles for a topology on a thread of its own, while another that waits for it has
    Python's lock: an entry in Python would wait for ever.
    """
    state = _python(b, "PyGILState_GetThisThreadState", [], "ptr")
    b.fail_if(
        b.is_null(state), "UNIMPLEMENTED",
        "hlo-tools compiles for devices only, not for a topology: lower for jax.devices()",
    )  # fmt: skip


def _write_end(code: Code) -> None:
    """Write `hold_back()`, which keeps other threads from going on when the main thread ends.

    `ending_thread` is the number of that thread then. Python ends others where they ask for its
    lock, which aborts the process if that is in a C++ function of JAX's runtime.
    """
    ending = code.variable("ending_thread")
    with code.function("hold_back", result="void") as (b,):
        number = b.load("i64", ending.name)
        is_other = b.both(b.is_not_zero(number), b.icmp("ne", number, this_thread(b)))
        b.module.declare("pause", "i32", [])
        with b.when(is_other):
            with b.repeat(lambda: Val("i1", "true")):
                b.call("pause", [], "i32")
        b.ret()


def _python(b: Writer, name: str, args: list[Val], result: str = "void") -> Val:
    b.module.declare(name, result, [a.type for a in args])
    if result == "void":
        b.call_void(name, args)
        return NULL
    return b.call(name, args, result)
