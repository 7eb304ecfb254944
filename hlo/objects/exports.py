"""The exported functions and data of an object, in LLVM IR."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from hlo.codegen.llvm import FALSE, Builder, ModuleBuilder, Val, i32, i64, ptr
from hlo.llvm import Function
from hlo.objects.interface import ALIGNMENT, Interface, Leaf

# The status for a missing or misaligned workspace, and for a processor that lacks instructions of
# the code. An entry returns 0, or the number of the external function that failed, counted from
# one.
BAD_WORKSPACE = -1
BAD_PROCESSOR = -2


def add_exports(
    module: ModuleBuilder,
    interface: Interface,
    entries: Sequence[str],
    constants: str,
    constant_bytes: int,
    pointer_bits: int,
) -> None:
    """Add C functions that call an entry of a program, and what describes them.

    entries: the functions that code generation emitted, one for each level. constants: the symbol
    of their data, which is defined later, as is the function that `processor.choice` returns.
    """
    name, size = interface.symbol, f"i{pointer_bits}"
    for entry in entries:
        module.declare(entry, "i32", ["ptr"] * _ENTRY_ARGUMENTS)
    data = "null"
    if constant_bytes:
        data = module.define(
            constants, f"external hidden constant [{constant_bytes} x i8], align {ALIGNMENT}"
        )
    _string(module, f"{name}_signature", interface.to_bytes(), "")
    _table(module, f"{name}_inputs", interface.inputs, size)
    _table(module, f"{name}_outputs", interface.outputs, size)
    b = Builder(module)
    b.ret(Val(size, str(interface.workspace_bytes)))
    module.add(b.finish(Function(f"{name}_workspace_bytes", [], result=size)))
    module.add(_generic(module, interface, entries, data, pointer_bits))
    if interface.names_processor:
        module.add(_processor(module, interface))
    if interface.is_typed:
        module.add(_typed(module, interface))


_ENTRY_ARGUMENTS = 6
_STATUS = "signext i32"


def _generic(
    module: ModuleBuilder, interface: Interface, entries: Sequence[str], constants: str,
    pointer_bits: int,
) -> Function:  # fmt: skip
    """Return the function that takes arrays of pointers."""
    b, size = Builder(module), f"i{pointer_bits}"
    level = None
    if interface.asks_processor:
        level = b.call(f"{interface.symbol}.choose", [], "i32")
        unfit, fit = b.new_label("unfit"), b.new_label("fit")
        b.branch(b.icmp("ugt", level, len(entries)), unfit, fit)
        b.place(unfit)
        b.ret(i32(BAD_PROCESSOR))
        b.place(fit)
    if interface.workspace_bytes:
        address = b.cast("ptrtoint", ptr("%workspace"), size)
        is_crooked = b.icmp("ne", b.binary("and", address, ALIGNMENT - 1), 0)
        is_absent = b.icmp("eq", ptr("%workspace"), "null")
        refuse, good = b.new_label("refuse"), b.new_label("good")
        b.branch(b.binary("or", is_crooked, is_absent), refuse, good)
        b.place(refuse)
        b.ret(i32(BAD_WORKSPACE))
        b.place(good)
    if interface.aliases:
        module.declare("llvm.memmove.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1 immarg"])
    for result, argument in interface.aliases:
        # The entry reads the argument from the result's memory.
        source, target = (
            b.load("ptr", b.element_address(table, "ptr", n, pointer_bits))
            for table, n in (("%in", argument), ("%out", result))
        )
        with b.when(b.icmp("ne", source, target)):
            count = i64(interface.outputs[result].size_bytes)
            b.call_void("llvm.memmove.p0.p0.i64", [target, source, count, FALSE])
    host = "%host" if interface.uses_host else "null"
    args = ("%in", "%out", "%workspace", constants, "%threads", host)
    *others, best = entries
    for number, entry in enumerate(others, 1):
        assert level is not None
        lower, higher = b.new_label("lower"), b.new_label("higher")
        b.branch(b.icmp("eq", level, number), lower, higher)
        b.place(lower)
        b.ret(b.call(entry, [ptr(x) for x in args], "i32"))
        b.place(higher)
    b.ret(b.call(best, [ptr(x) for x in args], "i32"))
    names = ["in", "out", "workspace", "threads", *(["host"] if interface.uses_host else [])]
    parameters = [f"ptr %{name}" for name in names]
    return b.finish(Function(f"{interface.symbol}_call", parameters, result=_STATUS))


def _typed(module: ModuleBuilder, interface: Interface) -> Function:
    """Return the function that takes each array as an argument."""
    b = Builder(module)
    inputs = [f"%in{n}" for n in range(len(interface.inputs))]
    outputs = [f"%out{n}" for n in range(len(interface.outputs))]
    host = ["%host"] if interface.uses_host else []
    tables = []
    for values in (inputs, outputs):
        table = b.alloca(f"[{max(1, len(values))} x ptr]")
        tables.append(table)
        for n, value in enumerate(values):
            b.store(ptr(value), b.element_address(table.name, "ptr", n, 32))
    args = [*tables, ptr("%workspace"), ptr("null"), *map(ptr, host)]
    status = b.call(f"{interface.symbol}_call", args, _STATUS)
    b.ret(Val("i32", status.name))
    parameters = [f"ptr {name}" for name in (*inputs, *outputs, "%workspace", *host)]
    return b.finish(Function(interface.symbol, parameters, result=_STATUS))


def _processor(module: ModuleBuilder, interface: Interface) -> Function:
    """Return the function that names the level whose code the processor runs, or returns null."""
    b, name = Builder(module), f"{interface.symbol}_processor"
    names = [
        ptr(_string(module, f"{name}.{number}", level.cpu.encode() + b"\0"))
        for number, level in enumerate(interface.levels, 1)
    ]
    found = names[-1]
    if interface.asks_processor:
        level = b.call(f"{interface.symbol}.choose", [], "i32")
        found = ptr("null")
        for number, known in enumerate(names, 1):
            found = b.select(b.icmp("eq", level, number), known, found)
    b.ret(found)
    return b.finish(Function(name, [], result="ptr"))


# --- data ---------------------------------------------------------------------------------------

_TABLE_ENTRY = "{{ ptr, ptr, {size}, {size}, ptr }}"


def _table(module: ModuleBuilder, name: str, leaves: Sequence[Leaf], size: str) -> None:
    """Add the `hlo_array` table of some arrays."""
    entry, rows, symbols = _TABLE_ENTRY.format(size=size), [], list[str]()
    for n, leaf in enumerate(leaves):
        place, dims = f"{name}.{n}", leaf.shape.dims
        numbers = ", ".join(f"i64 {d}" for d in dims)
        fields = [
            _string(module, f"{place}.name", leaf.name.encode() + b"\0"),
            _string(module, f"{place}.type", leaf.shape.to_string().encode() + b"\0"),
            module.define(
                f"{place}.dims", f"private unnamed_addr constant [{len(dims)} x i64] [{numbers}]"
            ),
        ]
        symbols += [f"{place}.name", f"{place}.type", f"{place}.dims"]
        rows.append(
            f"{entry} {{ ptr {fields[0]}, ptr {fields[1]}, {size} {leaf.size_bytes}, "
            f"{size} {len(dims)}, ptr {fields[2]} }}"
        )
    module.define(name, f"constant [{len(rows)} x {entry}] [{', '.join(rows)}]", symbols)


def _string(
    module: ModuleBuilder, symbol: str, data: bytes, linkage: str = "private unnamed_addr "
) -> str:
    """Add bytes; returns their address."""
    value = f'{linkage}constant [{len(data)} x i8] c"{_escaped(data)}", align 1'
    return module.define(symbol, value)


# LLVM's notation of any byte.
_ESCAPES = np.array([list(b"\\%02X" % i) for i in range(256)], np.uint8)


def _escaped(data: bytes | np.ndarray) -> str:
    flat = np.frombuffer(data, np.uint8)
    return np.take(_ESCAPES, flat, axis=0).tobytes().decode("ascii")


# --- constants ----------------------------------------------------------------------------------


def spelled_constants(symbol: str, data: np.ndarray) -> str:
    """Return the definition of data in read-only memory."""
    return (
        f'@{symbol} = hidden constant [{data.size} x i8] c"{_escaped(data)}", align {ALIGNMENT}\n'
    )


class Reserved:
    """Data that is patched into the object file when it is written.

    LLVM would take seconds and several times the memory to read and write a large array. So the
    module contains zeros after a marker that is found again in the file. `externally_initialized`
    keeps LLVM from using the zeros.
    """

    def __init__(self, symbol: str, data: np.ndarray) -> None:
        self._data = data
        self.mark = hashlib.sha512(f"hlo-tools data {symbol} {data.size}".encode()).digest()
        rest = max(0, data.size - len(self.mark))
        self.definition = (
            f"@{symbol} = hidden externally_initialized constant "
            f"<{{ [{len(self.mark)} x i8], [{rest} x i8] }}> "
            f'<{{ [{len(self.mark)} x i8] c"{_escaped(self.mark)}", '
            f"[{rest} x i8] zeroinitializer }}>, align {ALIGNMENT}\n"
        )

    def fill(self, code: bytes) -> bytes:
        """Return an object file with the data in it."""
        at = code.find(self.mark)
        assert at >= 0 and code.find(self.mark, at + 1) < 0, "the mark is there once"
        filled = bytearray(code)
        filled[at : at + len(self.mark)] = bytes(len(self.mark))
        filled[at : at + self._data.size] = self._data.data
        return bytes(filled)
