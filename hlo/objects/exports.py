"""The exported functions and data of an object, in LLVM IR."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from hlo.objects.interface import ALIGNMENT, Interface, Leaf

# The status for a missing or misaligned workspace. An entry returns 0, or the number of the
# external function that failed, counted from one.
BAD_WORKSPACE = -1


_MEMMOVE = "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1 immarg)"


def with_exports(
    llvm: str,
    interface: Interface,
    entry: str,
    constants: str,
    constant_bytes: int,
    pointer_bits: int,
) -> str:
    """Return a module with C functions that call its entry.

    entry: the function that code generation emitted. constants: the symbol of its data, which is
    defined later.
    """
    name = interface.symbol
    data = f"@{constants} = external hidden constant [{constant_bytes} x i8], align {ALIGNMENT}"
    size = f"i{pointer_bits}"
    return "\n".join(
        [
            llvm,
            *([data] if constant_bytes else []),
            _string(f"{name}_signature", interface.to_bytes(), ""),
            *_table(f"{name}_inputs", interface.inputs, size),
            *_table(f"{name}_outputs", interface.outputs, size),
            f"define {size} @{name}_workspace_bytes() nounwind {{",
            f"  ret {size} {interface.workspace_bytes}",
            "}",
            *_generic(interface, entry, f"@{constants}" if constant_bytes else "null", size),
            *(_typed(interface) if interface.is_typed else []),
            *([_MEMMOVE] if interface.aliases and "declare void @llvm.memmove" not in llvm else []),
            "",
        ]
    )


def _generic(interface: Interface, entry: str, constants: str, size: str) -> list[str]:
    """Return the function that takes arrays of pointers."""
    host = ", ptr %host" if interface.uses_host else ""
    lines = [
        f"define signext i32 @{interface.symbol}_call("
        f"ptr %in, ptr %out, ptr %workspace, ptr %threads{host}) nounwind {{",
        "entry:",
    ]
    if interface.workspace_bytes:
        lines += [
            f"  %address = ptrtoint ptr %workspace to {size}",
            f"  %low = and {size} %address, {ALIGNMENT - 1}",
            f"  %crooked = icmp ne {size} %low, 0",
            "  %absent = icmp eq ptr %workspace, null",
            "  %bad = or i1 %crooked, %absent",
            "  br i1 %bad, label %refuse, label %good",
            "refuse:",
            f"  ret i32 {BAD_WORKSPACE}",
            "good:",
        ]
    for n, (result, argument) in enumerate(interface.aliases):
        # The entry reads the argument from the result's memory.
        lines += [
            f"  %from.at{n} = getelementptr inbounds ptr, ptr %in, {size} {argument}",
            f"  %to.at{n} = getelementptr inbounds ptr, ptr %out, {size} {result}",
            f"  %from{n} = load ptr, ptr %from.at{n}",
            f"  %to{n} = load ptr, ptr %to.at{n}",
            f"  %apart{n} = icmp ne ptr %from{n}, %to{n}",
            f"  br i1 %apart{n}, label %copy{n}, label %same{n}",
            f"copy{n}:",
            f"  call void @llvm.memmove.p0.p0.i64(ptr %to{n}, ptr %from{n}, "
            f"i64 {interface.outputs[result].size_bytes}, i1 false)",
            f"  br label %same{n}",
            f"same{n}:",
        ]
    return [
        *lines,
        f"  %status = call i32 @{entry}(ptr %in, ptr %out, ptr %workspace, ptr {constants}, "
        f"ptr %threads{host or ', ptr null'})",
        "  ret i32 %status",
        "}",
    ]


def _typed(interface: Interface) -> list[str]:
    """Return the function that takes each array as an argument."""
    inputs = [f"%in{n}" for n in range(len(interface.inputs))]
    outputs = [f"%out{n}" for n in range(len(interface.outputs))]
    host = "%host" if interface.uses_host else ""
    params = ", ".join(
        f"ptr {p}" for p in (*inputs, *outputs, "%workspace", *([host] if host else []))
    )
    lines = [
        f"define signext i32 @{interface.symbol}({params}) nounwind {{",
        f"  %in = alloca [{max(1, len(inputs))} x ptr]",
        f"  %out = alloca [{max(1, len(outputs))} x ptr]",
    ]
    for table, values in (("%in", inputs), ("%out", outputs)):
        for n, value in enumerate(values):
            lines += [
                f"  {value}.at = getelementptr inbounds ptr, ptr {table}, i32 {n}",
                f"  store ptr {value}, ptr {value}.at",
            ]
    return [
        *lines,
        f"  %status = call signext i32 @{interface.symbol}_call("
        f"ptr %in, ptr %out, ptr %workspace, ptr null{', ptr ' + host if host else ''})",
        "  ret i32 %status",
        "}",
    ]


# --- data ---------------------------------------------------------------------------------------

_TABLE_ENTRY = "{{ ptr, ptr, {size}, {size}, ptr }}"


def _table(name: str, leaves: Sequence[Leaf], size: str) -> list[str]:
    """Return the `hlo_array` table of some arrays."""
    entry = _TABLE_ENTRY.format(size=size)
    lines, rows = [], []
    for n, leaf in enumerate(leaves):
        place, dims = f"{name}.{n}", leaf.shape.dims
        lines += [
            _string(f"{place}.name", leaf.name.encode() + b"\0"),
            _string(f"{place}.type", leaf.shape.to_string().encode() + b"\0"),
            f"@{place}.dims = private unnamed_addr constant [{len(dims)} x i64] "
            f"[{', '.join(f'i64 {d}' for d in dims)}]",
        ]
        rows.append(
            f"{entry} {{ ptr @{place}.name, ptr @{place}.type, {size} {leaf.size_bytes}, "
            f"{size} {len(dims)}, ptr @{place}.dims }}"
        )
    return [*lines, f"@{name} = constant [{len(rows)} x {entry}] [{', '.join(rows)}]"]


def _string(symbol: str, data: bytes, linkage: str = "private unnamed_addr ") -> str:
    return f'@{symbol} = {linkage}constant [{len(data)} x i8] c"{_escaped(data)}", align 1'


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
        self._mark = hashlib.sha512(f"hlo-tools data {symbol} {data.size}".encode()).digest()
        rest = max(0, data.size - len(self._mark))
        self.definition = (
            f"@{symbol} = hidden externally_initialized constant "
            f"<{{ [{len(self._mark)} x i8], [{rest} x i8] }}> "
            f'<{{ [{len(self._mark)} x i8] c"{_escaped(self._mark)}", '
            f"[{rest} x i8] zeroinitializer }}>, align {ALIGNMENT}\n"
        )

    def fill(self, code: bytes) -> bytes:
        """Return an object file with the data in it."""
        at = code.find(self._mark)
        assert at >= 0 and code.find(self._mark, at + 1) < 0, "the mark is there once"
        filled = bytearray(code)
        filled[at : at + len(self._mark)] = bytes(len(self._mark))
        filled[at : at + self._data.size] = self._data.data
        return bytes(filled)
