"""A program for a GPU as one C source: its header, the driver's functions, tables, and code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hlo.gpu.plan import LaunchPlan
from hlo.objects.gpu.calls import HostStep
from hlo.objects.gpu.header import PROGRAM, gpu_header
from hlo.objects.gpu.tables import Row, Tables, table_text
from hlo.objects.header import c_string, comment, host_parameter, prototype, typed_parameters
from hlo.objects.interface import Interface, Leaf
from hlo.runtime.program import constant_data

_INCLUDE = Path(__file__).parent.parent.parent / "include"
# The declarations of the driver's functions.
DRIVER = _INCLUDE / "hlo_cuda_driver.h"
# The declarations of functions of the host, which programs that call some have besides.
FUNCTIONS = _INCLUDE / "hlo_ffi.h"
# Words of 64 bits in a line of C, and the characters of each: 0x, 16 digits, a comma, a space.
_WORDS_IN_LINE, _WORD_DIGITS = 5, 20


@dataclass(frozen=True)
class Embedded:
    """Code that a C source holds.

    capabilities: ten times the compute capability of the first and the last device that runs it.
    """

    code: bytes
    capabilities: tuple[int, int]


def launcher(
    interface: Interface, plan: LaunchPlan, host_steps: Sequence[HostStep], embedded: Embedded,
    source: str, file: str, *, constants: bytes | None = None,
) -> str:  # fmt: skip
    """Return a C source that runs a launch plan.

    host_steps: see `Tables`. source: what the module was read from. file: name of the header that
    goes with it, whose text it holds. constants: the beginning of their memory, with zeros after
    it; by default all that the plan says.
    """
    tables = Tables(plan, host_steps)
    lines = [
        "/* Compile it as C99 or later; with HLO_USE_CUDA_H for the declarations of cuda.h. */",
        gpu_header(interface, source, file),
        DRIVER.read_text(),
        *([FUNCTIONS.read_text()] if interface.uses_host else []),
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <string.h>",
        "",
        (_INCLUDE / "hlo_gpu_launcher.c").read_text(),
        f"/* --- {comment(interface.symbol)} --- */",
        "",
        *_array_table(f"{interface.symbol}_inputs", interface.inputs),
        *_array_table(f"{interface.symbol}_outputs", interface.outputs),
        *_signature(interface),
        "",
        *_words("hlo_gpu_code", embedded.code + b"\0"),
        *_constants(plan, constants),
        *_plan(interface, tables, embedded),
        "",
        *_functions(interface),
        "",
    ]
    return "\n".join(lines)


def constants_of(plan: LaunchPlan) -> np.ndarray:
    """Return the constants of a plan in one piece, as bytes."""
    return constant_data(plan.constant_bytes, plan.constants)[: plan.constant_bytes]


def _constants(plan: LaunchPlan, given: bytes | None) -> list[str]:
    if not plan.constant_bytes:
        return []
    data = constants_of(plan).tobytes() if given is None else given
    return _words("hlo_gpu_constants", data, max(plan.constant_bytes, len(data)))


def _words(name: str, data: bytes, size: int = 0) -> list[str]:
    """Return data as an array of words, little-endian as all machines that have CUDA.

    size: of the array in bytes, if that is more than the data, which zeros follow then.
    """
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    digits = np.frombuffer(words.astype(">u8").tobytes().hex().encode(), np.uint8)
    shown = np.empty((len(words), _WORD_DIGITS), np.uint8)
    shown[:, :2] = np.frombuffer(b"0x", np.uint8)
    shown[:, 2:18] = digits.reshape(-1, 16)
    shown[:, 18] = ord(",")
    shown[:, 19] = ord(" ")
    shown[_WORDS_IN_LINE - 1 :: _WORDS_IN_LINE, 19] = ord("\n")
    count = -(-max(size, len(data)) // 8)
    text = shown.tobytes().decode().rstrip()
    return [f"static const uint64_t {name}[{count}] = {{", text, "};"]


def _signature(interface: Interface) -> list[str]:
    """Return the text that describes the interface, in pieces that compilers take."""
    text = interface.to_bytes()
    numbers = [str(byte) for byte in text]
    rows = [numbers[at : at + 24] for at in range(0, len(numbers), 24)]
    name = f"{interface.symbol}_signature"
    return [f"const char {name}[] = {{", *(f"    {', '.join(r)}," for r in rows), "};"]


def _array_table(name: str, leaves: Sequence[Leaf]) -> list[str]:
    """Return what describes arguments or results; C has no table without rows."""
    lines, rows = list[str](), list[Row]()
    for number, leaf in enumerate(leaves):
        dims = "NULL"
        if leaf.shape.dims:
            dims = f"hlo_gpu_dims_{name}_{number}"
            numbers = ", ".join(map(str, leaf.shape.dims))
            lines.append(f"static const int64_t {dims}[] = {{{numbers}}};")
        type_ = leaf.shape.to_string()
        sizes = (str(leaf.size_bytes), str(len(leaf.shape.dims)))
        rows.append((c_string(leaf.name), c_string(type_), *sizes, dims))
    rows = rows or [("NULL", "NULL", "0", "0", "NULL")]
    shown = ["    {" + ", ".join(row) + "}," for row in rows]
    return [*lines, f"const hlo_array {name}[] = {{", *shown, "};", ""]


def _plan(interface: Interface, t: Tables, embedded: Embedded) -> list[str]:
    plan, name = t.plan, interface.symbol
    aliases = [(str(result), str(argument)) for result, argument in plan.aliases]
    tables: dict[str, tuple[str, Sequence[Row]]] = {
        "hlo_gpu_steps_table": ("hlo_gpu_step", t.steps),
        "hlo_gpu_launches": ("hlo_gpu_launch", t.launches),
        "hlo_gpu_places": ("hlo_gpu_place", t.places),
        "hlo_gpu_copies": ("hlo_gpu_copy", t.copies),
        "hlo_gpu_loops": ("hlo_gpu_loop", t.loops),
        "hlo_gpu_switches": ("hlo_gpu_switch", t.switches),
        "hlo_gpu_branches": ("hlo_gpu_steps", t.branches),
        "hlo_gpu_checks": ("hlo_gpu_check", t.checks),
        "hlo_gpu_ids": ("hlo_gpu_id", t.ids),
        "hlo_gpu_calls": ("hlo_gpu_call", t.calls),
        "hlo_gpu_call_arrays": ("hlo_gpu_call_array", t.call_arrays),
        "hlo_gpu_kernels": ("hlo_gpu_kernel", t.kernel_rows()),
        "hlo_gpu_aliases": ("hlo_gpu_alias", aliases),
    }
    have = {table: (table if rows else "NULL") for table, (_, rows) in tables.items()}
    lines = list(t.operations.lines)
    lines += [x for table, (type_, rows) in tables.items() for x in table_text(type_, table, rows)]
    if t.messages:
        shown = [f"    {c_string(message)}," for message in t.messages]
        lines += ["static const char *const hlo_gpu_messages[] = {", *shown, "};"]
    values = {
        "code": "hlo_gpu_code",
        "least_capability": embedded.capabilities[0],
        "most_capability": embedded.capabilities[1],
        "steps": have["hlo_gpu_steps_table"],
        "main": "{" + ", ".join(t.main) + "}",
        "launches": have["hlo_gpu_launches"],
        "places": have["hlo_gpu_places"],
        "copies": have["hlo_gpu_copies"],
        "loops": have["hlo_gpu_loops"],
        "switches": have["hlo_gpu_switches"],
        "branches": have["hlo_gpu_branches"],
        "checks": have["hlo_gpu_checks"],
        "ids": have["hlo_gpu_ids"],
        "calls": have["hlo_gpu_calls"],
        "call_arrays": have["hlo_gpu_call_arrays"],
        "most_call_arrays": t.most_call_arrays,
        "host_bytes": t.host_bytes,
        "kernels": have["hlo_gpu_kernels"],
        "kernel_count": len(t.kernels),
        "most_parameters": t.most_parameters,
        "inputs": f"{name}_inputs",
        "outputs": f"{name}_outputs",
        "input_count": len(interface.inputs),
        "output_count": len(interface.outputs),
        "aliases": have["hlo_gpu_aliases"],
        "alias_count": len(aliases),
        "constants": "hlo_gpu_constants" if plan.constant_bytes else "NULL",
        "constant_bytes": plan.constant_bytes,
        "arena_bytes": plan.arena_bytes,
        "scalar_bytes": plan.scalar_bytes,
        "counter_bytes": plan.counter_bytes,
        "messages": "hlo_gpu_messages" if t.messages else "NULL",
        "message_count": len(t.messages),
    }
    members = [f"    .{member} = {value}," for member, value in values.items()]
    return [*lines, "static const hlo_gpu_plan hlo_gpu_the_plan = {", *members, "};"]


def _functions(interface: Interface) -> list[str]:
    name, p = interface.symbol, PROGRAM
    head = f"{name}_program *{p}"
    plain = f"(hlo_gpu_program *){p}"
    host = host_parameter(interface)
    given = "host" if interface.uses_host else "NULL"
    definitions: list[tuple[str, list[str], list[str]]] = [
        (f"int {name}_create", [f"{name}_program **{p}", "int device", "struct CUctx_st *context"],
         ["hlo_gpu_program *made = NULL;",
          "int status = hlo_gpu_create(&made, &hlo_gpu_the_plan, device, context);",
          f"if ({p} == NULL) {{", "  hlo_gpu_destroy(made);", "  return HLO_BAD_ARGUMENT;", "}",
          f"*{p} = ({name}_program *)made;", "return status;"]),
        (f"void {name}_destroy", [head], [f"hlo_gpu_destroy({plain});"]),
        (f"int {name}_run", [head, "const hlo_device_address *in", "const hlo_device_address *out",
                             "struct CUstream_st *stream", *host],
         [f"return hlo_gpu_run({plain}, in, out, stream, {given});"]),
        (f"int {name}_call", [head, "const void *const *in", "void *const *out", *host],
         [f"return hlo_gpu_run_on_host({plain}, in, out, {given});"]),
        (f"const char *{name}_error", [f"const {name}_program *{p}"],
         [f'return {p} != NULL ? ((const hlo_gpu_program *){p})->message : "";']),
        (f"const char *{name}_status_text", ["int status"],
         ["return hlo_gpu_text(&hlo_gpu_the_plan, status);"]),
        (f"size_t {name}_device_bytes", ["void"],
         ["return (size_t)hlo_gpu_device_bytes(&hlo_gpu_the_plan);"]),
    ]  # fmt: skip
    if interface.is_typed:
        inputs, outputs = ([x.ident for x in xs] for xs in (interface.inputs, interface.outputs))
        definitions.append(
            (f"int {name}", [head, *typed_parameters(interface), *host],
             [f"const void *in_[] = {{{', '.join([*inputs, 'NULL'])}}};",
              f"void *out_[] = {{{', '.join([*outputs, 'NULL'])}}};",
              f"return hlo_gpu_run_on_host({plain}, in_, out_, {given});"])
        )  # fmt: skip
    lines: list[str] = []
    for start, params, body in definitions:
        *first, last = prototype(start, params)
        lines += [*first, last.removesuffix(";") + " {", *(f"  {x}" for x in body), "}", ""]
    return lines[:-1]
