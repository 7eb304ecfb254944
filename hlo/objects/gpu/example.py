"""A small C program that runs a compiled module on a GPU, and its build."""

from __future__ import annotations

from hlo.objects.example import (
    TRANSFER,
    function_stubs,
    host_table,
    shown_result,
    stored_results,
)
from hlo.objects.header import comment
from hlo.objects.interface import Interface

_SOURCE = """\
/* Runs {symbol}, compiled from {source}, on the first GPU.
 *
 * Build: cc -O2 example.c {symbol}.c -lcuda -o example
 * Run:   ./example [-o PREFIX] [ARGUMENT.bin ...]
 *
 * Each file holds the bytes of an argument, in order; an argument without a file is zero. With -o
 * the bytes of each result go to PREFIX0.bin, PREFIX1.bin, ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "{symbol}.h"
{functions}
static void *memory(size_t bytes) {{
  void *at = calloc(1, bytes + 1);
  if (at == NULL) {{
    fprintf(stderr, "no memory for %lu bytes\\n", (unsigned long)bytes);
    exit(1);
  }}
  return at;
}}

{transfer}
int main(int argc, char **argv) {{
  int first = argc > 2 && strcmp(argv[1], "-o") == 0 ? 3 : 1;
  if (argc - first > {inputs}) {{
    fprintf(stderr, "%s: too many files: at most {inputs}, not %d\\n", argv[0], argc - first);
    return 1;
  }}
{body}
  return status != 0;
}}
"""
_MAKEFILE = """\
# Builds the program that runs {symbol}, compiled from {source}.
# CUDA_LIBRARIES: where libcuda.so is, the driver's or the toolkit's.
CC = cc
CFLAGS = -O2
CUDA_LIBRARIES = /usr/local/cuda/lib64/stubs

example: example.c {symbol}.c {symbol}.h
\t$(CC) $(CPPFLAGS) $(CFLAGS) example.c {symbol}.c $(LDFLAGS) -L$(CUDA_LIBRARIES) -lcuda -o $@

clean:
\trm -f example

.PHONY: clean
"""
_CMAKE = """\
# Builds the program that runs {symbol}, compiled from {source}.
cmake_minimum_required(VERSION 3.17)
project({symbol}_example C)

find_package(CUDAToolkit REQUIRED)
set(CMAKE_C_STANDARD 99)
add_executable(example example.c {symbol}.c)
target_link_libraries(example CUDA::cuda_driver)
"""


def gpu_example_texts(interface: Interface, source: str) -> dict[str, str]:
    """Return the program and its build, by the names of the files.

    source: what the module was read from.
    """
    name, said = interface.symbol, comment(source)
    body = "\n".join(f"  {line}" if line else "" for line in _body(interface))
    program = _SOURCE.format(
        symbol=name, inputs=len(interface.inputs), source=said, transfer=TRANSFER, body=body,
        functions="\n".join(function_stubs(interface)),
    )  # fmt: skip
    return {
        "example.c": program,
        "Makefile": _MAKEFILE.format(symbol=name, source=said),
        "CMakeLists.txt": _CMAKE.format(symbol=name, source=said),
    }


def _body(interface: Interface) -> list[str]:
    name, host = interface.symbol, ", host" if interface.uses_host else ""
    lines = [
        f"void *in[{name}_INPUTS + 1];",
        f"void *out[{name}_OUTPUTS + 1];",
        f"{name}_program *program;",
        f"int status = {name}_create(&program, 0, NULL);",
        "if (status != 0) {",
        f'  fprintf(stderr, "{name} on the first GPU: %s\\n", {name}_status_text(status));',
        "  return 1;",
        "}",
        f"for (int i = 0; i < {name}_INPUTS; i++) {{",
        f"  in[i] = memory({name}_inputs[i].bytes);",
        f'  if (first + i < argc) transfer(argv[first + i], "rb", in[i], {name}_inputs[i].bytes);',
        "}",
        f"for (int i = 0; i < {name}_OUTPUTS; i++) out[i] = memory({name}_outputs[i].bytes);",
        "",
        *host_table(interface),
        f"status = {name}_call(program, (const void *const *)in, out{host});",
        "if (status != 0) {",
        f'  fprintf(stderr, "{name} returns %d: %s\\n", status, {name}_error(program));',
        "}",
    ]
    shown: list[str] = []
    for number, leaf in enumerate(interface.outputs):
        shown += shown_result(number, leaf, name)
    shown += stored_results(name)
    return [
        *lines,
        "if (status == 0) {",
        *(f"  {line}" if line else "" for line in shown),
        "}",
        f"for (int i = 0; i < {name}_INPUTS; i++) free(in[i]);",
        f"for (int i = 0; i < {name}_OUTPUTS; i++) free(out[i]);",
        f"{name}_destroy(program);",
        *(["free(host);"] if interface.uses_host else []),
    ]
