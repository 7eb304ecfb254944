"""A small C program that calls a compiled module, and its build: a command, make, CMake."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from hlo.objects.header import c_string, comment
from hlo.objects.interface import Interface, Leaf, c_type
from hlo.objects.targets import Platform

_SOURCE = """\
/* Calls {symbol}, compiled from {source}.
 *
 * Build: {build}
 * Run:   ./{program} [-o PREFIX] [ARGUMENT.bin ...]
 *
 * Each file holds the bytes of an argument, in order; an argument without a file is zero. With -o
 * the bytes of each result go to PREFIX0.bin, PREFIX1.bin, ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "{header}"
{outside}
/* Memory that is aligned, which C99 has no function for; in front of it lies what to free. */
static void *memory(size_t bytes) {{
  char *all = calloc(1, bytes + {symbol}_WORKSPACE_ALIGNMENT + sizeof(void *));
  char *at = all;
  if (all == NULL) {{
    fprintf(stderr, "no memory for %lu bytes\\n", (unsigned long)bytes);
    exit(1);
  }}
  at += sizeof(void *);
  at += -(uintptr_t)at % {symbol}_WORKSPACE_ALIGNMENT;
  memcpy(at - sizeof all, &all, sizeof all);
  return at;
}}

static void release(const void *at) {{
  void *all;
  memcpy(&all, (const char *)at - sizeof all, sizeof all);
  free(all);
}}

{transfer}
int main(int argc, char **argv) {{
  int first = argc > 2 && strcmp(argv[1], "-o") == 0 ? 3 : 1;
  if (argc - first > {inputs}) {{
    fprintf(stderr, "%s: too many files: at most {inputs}, not %d\\n", argv[0], argc - first);
    return 1;
  }}
{body}
  return 0;
}}
"""

TRANSFER = """\
static void transfer(const char *path, const char *mode, void *data, size_t bytes) {
  FILE *file = fopen(path, mode);
  size_t done = 0;
  if (file != NULL) {
    done = *mode == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
    if (fclose(file) != 0) done = 0;
  }
  if (file == NULL || done != bytes) {
    fprintf(stderr, "%s: cannot %s %lu bytes\\n", path, *mode == 'r' ? "read" : "write",
            (unsigned long)bytes);
    exit(1);
  }
}
"""

_SHOWN = 8


def example(
    interface: Interface, source: str, header: str, objects: Sequence[str], compiler: str
) -> str:
    """Return the text of a C program.

    source: what the module was read from. header, objects: files of it and of the code, as named in
    the build command. compiler: the C compiler's command.
    """
    program = "example"
    build = f"{compiler} -O2 example.c {shlex.join(objects)} -o {program}"
    return _SOURCE.format(
        symbol=interface.symbol, inputs=len(interface.inputs), source=comment(source), build=build,
        program=program, header=header, transfer=TRANSFER,
        outside="\n".join(function_stubs(interface)),
        body="\n".join(f"  {line}" if line else "" for line in _body(interface)),
    )  # fmt: skip


_MAKEFILE = """\
# Builds the program that calls {symbol}, compiled from {source}.
CC = {compiler}
CFLAGS = -O2

example{ending}: example.c {objects} {headers}
\t$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) example.c {objects} $(LDLIBS) -o $@

clean:
\trm -f example{ending}

.PHONY: clean
"""

_CMAKE = """\
# Builds the program that calls {symbol}, compiled from {source}.
cmake_minimum_required(VERSION 3.10)
{machine}project({symbol}_example C)

set(CMAKE_C_STANDARD 99)
add_executable(example example.c {objects})
set_source_files_properties({objects} PROPERTIES EXTERNAL_OBJECT TRUE)
"""
_CMAKE_MACHINE = """\
if(NOT CMAKE_C_COMPILER)
  # Another machine's: there is no running what CMake tries.
  set(CMAKE_SYSTEM_NAME {system})
  set(CMAKE_C_COMPILER {command})
{more}endif()
"""


def makefile(
    interface: Interface, source: str, headers: Sequence[str], objects: Sequence[str],
    platform: Platform,
) -> str:  # fmt: skip
    """Return the text of a Makefile that builds the example; see `example`."""
    return _MAKEFILE.format(
        symbol=interface.symbol, source=comment(source), compiler=platform.compiler,
        ending=_ending(platform), objects=shlex.join(objects), headers=shlex.join(headers),
    )  # fmt: skip


def cmake_lists(
    interface: Interface, source: str, objects: Sequence[str], platform: Platform
) -> str:
    """Return the text of a CMakeLists.txt that builds the example; see `example`."""
    machine = ""
    if not platform.is_host:
        command, *options = shlex.split(platform.compiler)
        triple = "".join(o.removeprefix("--target=") for o in options)
        system = {"elf": "Linux", "coff": "Windows"}.get(platform.container, "Generic")
        more = f"  set(CMAKE_C_COMPILER_TARGET {triple})\n" if triple else ""
        machine = _CMAKE_MACHINE.format(system=system, command=command, more=more)
    return _CMAKE.format(
        symbol=interface.symbol, source=comment(source), machine=machine,
        objects=shlex.join(objects),
    )  # fmt: skip


def _ending(platform: Platform) -> str:
    """Return what compilers for a machine add to a program's name."""
    return ".exe" if platform.container == "coff" else ""


def build_command(text: str) -> str:
    """Return the command that builds an example, as its first comment says."""
    return text.split("Build: ", 1)[1].split("\n", 1)[0]


def _body(interface: Interface) -> list[str]:
    name, has_host = interface.symbol, interface.uses_host
    said, message = (": %s", ", message") if has_host else ("", "")
    lines = [
        f"const void *in[{name}_INPUTS + 1];",
        f"void *out[{name}_OUTPUTS + 1];",
        f"for (int i = 0; i < {name}_INPUTS; i++) {{",
        f"  size_t bytes = {name}_inputs[i].bytes;",
        "  void *data = memory(bytes);",
        '  if (first + i < argc) transfer(argv[first + i], "rb", data, bytes);',
        "  in[i] = data;",
        "}",
        f"for (int i = 0; i < {name}_OUTPUTS; i++) out[i] = memory({name}_outputs[i].bytes);",
        f"void *workspace = memory({name}_WORKSPACE_BYTES);",
        "",
        *host_table(interface),
        f"int status = {_call(interface)};",
        *_refused(interface),
        "if (status != 0) {",
        f'  fprintf(stderr, "{name} returns %d{said}\\n", status{message});',
        "  return 1;",
        "}",
        "",
    ]
    for n, leaf in enumerate(interface.outputs):
        lines += shown_result(n, leaf, name)
    return [
        *lines,
        *stored_results(name),
        f"for (int i = 0; i < {name}_INPUTS; i++) release(in[i]);",
        f"for (int i = 0; i < {name}_OUTPUTS; i++) release(out[i]);",
        "release(workspace);",
        *(["release(host);"] if has_host else []),
    ]


def _refused(interface: Interface) -> list[str]:
    """Return the lines for a processor that the code is not for."""
    if not interface.asks_processor:
        return []
    why = "this processor lacks instructions of its code"
    return [
        "if (status == HLO_BAD_PROCESSOR) {",
        f'  fprintf(stderr, "{interface.symbol} returns %d: {why}\\n", status);',
        "  return 1;",
        "}",
    ]


def _call(interface: Interface) -> str:
    name, host = interface.symbol, [] if not interface.uses_host else ["host"]
    if not interface.is_typed:
        return f"{name}_call({', '.join(['in', 'out', 'workspace', 'NULL', *host])})"
    inputs = [f"in[{n}]" for n in range(len(interface.inputs))]
    outputs = [f"out[{n}]" for n in range(len(interface.outputs))]
    return f"{name}({', '.join([*inputs, *outputs, 'workspace', *host])})"


def stored_results(name: str) -> list[str]:
    """Return the lines that write the results to files, if the program is told to."""
    return [
        f"for (int i = 0; first == 3 && i < {name}_OUTPUTS; i++) {{",
        "  char path[4096];",
        '  snprintf(path, sizeof path, "%s%d.bin", argv[2], i);',
        f'  transfer(path, "wb", out[i], {name}_outputs[i].bytes);',
        "}",
    ]


def shown_result(number: int, leaf: Leaf, name: str) -> list[str]:
    """Return the lines that print the first elements of a result."""
    kind = c_type(leaf.shape)
    et = leaf.shape.element_type
    cast, form = ("double", "%g") if kind in ("float", "double") else ("long long", "%lld")
    if kind == "uint64_t":
        cast, form = "unsigned long long", "%llu"
    if et.is_float and et.bits < 32:
        cast, form = "unsigned", "0x%x"
    title = f'printf("%s %s:", {name}_outputs[{number}].name, {name}_outputs[{number}].type);'
    if not leaf.size_bytes:
        return [title, 'printf("\\n");', ""]
    return [
        f"const {kind} *{leaf.ident} = out[{number}];",
        title,
        f"for (size_t i = 0; i < {_SHOWN} && i < {name}_BYTES_{leaf.ident} / sizeof *{leaf.ident}; "
        "i++) {",
        f'  printf(" {form}", ({cast}){leaf.ident}[i]);',
        "}",
        'printf("\\n");',
        "",
    ]


def function_stubs(interface: Interface) -> list[str]:
    """Return stubs of the external functions that the code calls."""
    if not interface.uses_host:
        return []
    lines = ['#include "hlo_ffi.h"', ""]
    for n, target in enumerate(i.target or i.opcode for i in interface.imports):
        lines += [
            f"static int32_t outside{n}(hlo_ffi_call *call) {{",
            f"  static const char message[] = {c_string(f'{target}: to be written')};",
            "  return hlo_ffi_fail(call, message, sizeof message - 1);",
            "}",
            "",
        ]
    return lines


def host_table(interface: Interface) -> list[str]:
    """Return the lines that fill the table of those."""
    if not interface.uses_host:
        return []
    count = len(interface.imports)
    return [
        'char message[256] = "";',
        f"struct hlo_host *host = memory(sizeof *host + {count} * sizeof host->imports[0]);",
        "host->message = message;",
        "host->message_size = sizeof message;",
        *(f"host->imports[{n}].function = outside{n};" for n in range(count)),
        "",
    ]
