"""The C header of a program for a GPU, for C99, C++11 and later."""

from __future__ import annotations

import textwrap

from hlo.objects.exports import BAD_PROCESSOR
from hlo.objects.header import (
    TYPES,
    array_sizes,
    comment,
    data_declarations,
    described_arrays,
    header_text,
    host_note,
    host_parameter,
    import_count,
    macros,
    prototype,
    typed_parameters,
)
from hlo.objects.interface import Interface

# What functions return besides the driver's errors, which are positive.
NO_MEMORY, BAD_ARGUMENT, CALL_FAILED = -3, -4, -5
# The status of a plan's first message; one less for each further one.
FIRST_MESSAGE = -16

_SHARED = f"""\
/* What functions return besides the errors of the driver (CUresult), which are positive: the device
 * does not run the code; the host has no memory; the address of an array or of the program is
 * null, or the array's no multiple of 16. */
#ifndef HLO_BAD_PROCESSOR
#define HLO_BAD_PROCESSOR ({BAD_PROCESSOR})
#endif
#ifndef HLO_NO_MEMORY
#define HLO_NO_MEMORY ({NO_MEMORY})
#endif
#ifndef HLO_BAD_ARGUMENT
#define HLO_BAD_ARGUMENT ({BAD_ARGUMENT})
#endif
"""
_CALL_FAILED = f"""\
/* What functions return if one of the host's functions fails. */
#ifndef HLO_CALL_FAILED
#define HLO_CALL_FAILED ({CALL_FAILED})
#endif

struct hlo_host;
"""
_GPU_TYPES = """\
#ifndef HLO_GPU_TYPES
#define HLO_GPU_TYPES
/* An address in the memory of the device: a CUdeviceptr of cuda.h. */
typedef unsigned long long hlo_device_address;
#endif
/* What cuda.h calls CUcontext and CUstream points to these. */
struct CUctx_st;
struct CUstream_st;
"""
# The parameter that no array has the name of: theirs do not end so.
PROGRAM = "program_"


def gpu_header(interface: Interface, source: str, file: str) -> str:
    """Return the text of a header.

    source: what the module was read from, for the first line. file: name of the header itself.
    """
    counts, sizes = array_sizes(interface)
    body = [
        *macros([*counts, *import_count(interface), *sizes]),
        "",
        *_functions(interface),
        "",
        *data_declarations(interface.symbol),
    ]
    types = [_SHARED, TYPES, _GPU_TYPES, *([_CALL_FAILED] if interface.uses_host else [])]
    return header_text(file, source, _compiled_for(interface), types, body)


def _compiled_for(interface: Interface) -> list[str]:
    (level,) = interface.levels
    text = (
        f"HLO module {comment(interface.module)}, compiled for {interface.triple}, {level.cpu}. "
        "Programs are linked with the CUDA driver (-lcuda), and need nothing else of CUDA. On a "
        "device that does not run the code, creation returns HLO_BAD_PROCESSOR."
    )
    lines = textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False)
    return [f" * {line}" for line in lines[:-1]] + [f" * {lines[-1]} */"]


def _functions(interface: Interface) -> list[str]:
    name, host = interface.symbol, host_parameter(interface)
    lines = [
        "/* The program on a device: its code and constants, and memory for temporary arrays, of",
        f" * {name}_device_bytes() in all. Calls of one program run one after the other: from one",
        " * thread at a time, and on one stream, or on several that wait for each other. Programs",
        " * that run at the same time, in several threads, are created several times. */",
        f"typedef struct {name}_program {name}_program;",
        "",
        "/* Creates the program on a device, by its number, in the device's primary context; or in",
        " * `context`, if that is not null, on its device. Returns 0, or what is wrong, and then",
        " * *program_ is null. */",
        f"int {name}_create({name}_program **{PROGRAM}, int device, struct CUctx_st *context);",
        "",
        "/* Gives all memory of a program back, when its last call has ended. */",
        f"void {name}_destroy({name}_program *{PROGRAM});",
        "",
        *described_arrays(interface),
        " *",
    ]
    if interface.aliases:
        lines += [
            " * A result overlaps no argument, except as stated, and no other result: an argument",
            " * whose memory is a result's is overwritten, any other is copied there first.",
        ]
    else:
        lines.append(" * Results overlap neither arguments nor each other.")
    lines += host_note(
        interface, "Returns HLO_CALL_FAILED when one fails. Arrays are copied to the host for it."
    )
    lines[-1] += " */"
    lines += [
        "",
        "/* Runs on arrays of the device, at multiples of 16, in order. The stream may be null,",
        " * the default one. Returns when all is in the stream; where loops or branches depend on",
        " * data, the host waits for it. */",
        *prototype(
            f"int {name}_run",
            [f"{name}_program *{PROGRAM}", "const hlo_device_address *in",
             "const hlo_device_address *out", "struct CUstream_st *stream", *host],
        ),
        "",
        "/* Runs on arrays of the host, which are copied; returns when the results are there. */",
        *prototype(
            f"int {name}_call",
            [f"{name}_program *{PROGRAM}", "const void *const *in", "void *const *out", *host],
        ),
    ]  # fmt: skip
    if interface.is_typed:
        params = [f"{name}_program *{PROGRAM}", *typed_parameters(interface), *host]
        lines += ["", "/* The same, with each array as an argument. */"]
        lines += prototype(f"int {name}", params)
    return [
        *lines,
        "",
        "/* What was wrong in the last call of a program, or an empty text. */",
        f"const char *{name}_error(const {name}_program *{PROGRAM});",
        "",
        "/* What a status means, in words. */",
        f"const char *{name}_status_text(int status);",
        "",
        "/* The memory of the device that a program has, besides code and arrays. */",
        f"size_t {name}_device_bytes(void);",
    ]


def gpu_exports(interface: Interface) -> list[str]:
    """Return the symbols of what a header declares."""
    name = interface.symbol
    parts = ["create", "destroy", "run", "call", "error", "status_text", "device_bytes"]
    parts += ["inputs", "outputs", "signature"]
    return [*([name] if interface.is_typed else []), *(f"{name}_{p}" for p in parts)]
