"""Calls of the table of collectives that a program gets from its caller.

The memory of a call, and the tables of its operands and results, are the entry's own: one for each
place in the program that calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.entry.collectives.descriptor import describe
from hlo.codegen.entry.collectives.structs import CALL, TABLE
from hlo.codegen.entry.imports import COLLECTIVE_FAILED
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import Builder, ModuleBuilder, Val, i32, ptr
from hlo.ir import Instruction
from hlo.llvm import Function

# Of the table that a program gets: `hlo_host`.
_HOST = "{ ptr, i64, i32, i32, ptr }"
_MESSAGE, _MESSAGE_SIZE, _REPLICA, _PARTITION, _COLLECTIVES = range(5)


def emit_collective(
    e: EntryState, inst: Instruction, operands: Sequence[str], results: Sequence[str], *,
    is_apart: bool,
) -> None:  # fmt: skip
    """Emit a collective on arrays at these addresses.

    is_apart: it only starts, and `emit_wait` emits its end.
    """
    b, number = e.b, len(e.imports.collectives)
    described = describe(e.module, inst, number, e.device_counts, e.target)
    e.imports.collectives.append(described)
    call = b.alloca(CALL.type).name
    CALL.store(b, ptr(described.constant), call, "op")
    CALL.store(b, ptr(table_of(e, operands)), call, "operands")
    CALL.store(b, ptr(table_of(e, results)), call, "results")
    _call(e, call, "start" if is_apart else "run", number)
    if is_apart:
        e.started[inst] = call, number


def emit_wait(e: EntryState, start: Instruction) -> None:
    """Emit the end of a collective that has been started."""
    call, number = e.started[start]
    _call(e, call, "wait", number)


def table_of(e: EntryState, pointers: Sequence[str]) -> str:
    """Store addresses in a table; returns the address of the first."""
    table = e.b.alloca("ptr", max(1, len(pointers)))
    for n, pointer in enumerate(pointers):
        e.b.store(ptr(pointer), e.b.element_address(table.name, "ptr", n))
    return table.name


def _call(e: EntryState, call: str, what: str, number: int) -> None:
    b = e.b
    e.imports.uses_host = True
    name = _define(e.module, what, e.device_counts[1])
    failed = b.call(name, [ptr("%host"), ptr(call)], "i32")
    stop, go = b.new_label("failed"), b.new_label("met")
    b.branch(b.icmp("ne", failed, 0), stop, go)
    b.place(stop)
    b.ret(i32(COLLECTIVE_FAILED + number))
    b.place(go)


def _define(module: ModuleBuilder, what: str, partitions: int) -> str:
    """Add the function that calls one of the table's; it returns 0, or something else."""
    name = f"hlo.collective.{what}"
    if name in module.functions:
        return name
    function = Function(name, ["ptr %host", "ptr %call"], result="i32", linkage="internal")
    module.add(function)
    b = Builder(module)

    def need(address: str) -> None:
        missing, go = b.new_label("missing"), b.new_label("go")
        b.branch(b.icmp("eq", ptr(address), "null"), missing, go)
        b.place(missing)
        b.ret(i32(1))
        b.place(go)

    def field(number: int, type_: str) -> Val:
        return b.load(type_, b.field_address(_HOST, "%host", i32(0), i32(number)))

    need("%host")
    table = field(_COLLECTIVES, "ptr").name
    need(table)
    if what != "wait":
        replica, partition = (
            b.cast("zext", field(n, "i32"), "i64") for n in (_REPLICA, _PARTITION)
        )
        first = b.binary("mul", replica, partitions)
        for key, value in {
            "size": Val("i64", CALL.size),
            "context": TABLE.load(b, table, "context"),
            "request": ptr("null"),
            "message": field(_MESSAGE, "ptr"),
            "message_size": field(_MESSAGE_SIZE, "i64"),
            "device": b.binary("add", first, partition),
        }.items():
            CALL.store(b, value, "%call", key)
    b.ret(b.call_address(TABLE.load(b, table, what), [ptr("%call")], "i32"))
    b.finish(function)
    return name
