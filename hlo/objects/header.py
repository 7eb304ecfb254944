"""The C header of a compiled module, for C99, C++11 and later."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from hlo.codegen.targets.cpu import architecture_of
from hlo.objects.exports import BAD_PROCESSOR, BAD_WORKSPACE
from hlo.objects.interface import ALIGNMENT, Interface, Leaf, c_type, type_note
from hlo.runtime.outside import Import
from hlo.version import __version__

_SHARED = f"""\
/* What a function returns that did nothing: the workspace is missing or not aligned, or the
 * processor lacks instructions of the code. */
#ifndef HLO_BAD_WORKSPACE
#define HLO_BAD_WORKSPACE ({BAD_WORKSPACE})
#endif
#ifndef HLO_BAD_PROCESSOR
#define HLO_BAD_PROCESSOR ({BAD_PROCESSOR})
#endif
"""
TYPES = """\
#ifndef HLO_TYPES
#define HLO_TYPES

#if defined(__cplusplus)
#define HLO_STATIC_ASSERT(condition, name) static_assert(condition, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define HLO_STATIC_ASSERT(condition, name) _Static_assert(condition, #name)
#else
#define HLO_STATIC_ASSERT(condition, name) typedef char name[(condition) ? 1 : -1]
#endif

/* An array that is passed by address. `type` is its HLO shape: the numbers in braces are its
 * dimensions from the one whose elements are neighbours in memory to the slowest. */
typedef struct hlo_array {
  const char *name;
  const char *type;
  size_t bytes;
  size_t rank;
  const int64_t *dims;
} hlo_array;

/* How work is shared out. run() calls task(context, begin, end) for shares that make up [0, n),
 * each once, from any threads in any order, and returns when all have returned. `chunk` is the
 * length of a share that is worth handing out. Results are the same for any shares. */
typedef struct hlo_threads {
  void (*run)(void *state, void (*task)(void *context, int64_t begin, int64_t end), void *context,
              int64_t n, int64_t chunk);
  void *state;
} hlo_threads;

HLO_STATIC_ASSERT(CHAR_BIT == 8 && sizeof(float) == 4 && sizeof(double) == 8, hlo_number_types);

#endif
"""


def header(interface: Interface, source: str, file: str) -> str:
    """Return the text of a header.

    source: what the module was read from, for the first line. file: name of the header itself.
    """
    name = interface.symbol
    body = [
        *macros(_sizes(interface)),
        *([] if not interface.uses_host else ["", "struct hlo_host;"]),
        "",
        *_functions(interface),
        "",
        *data_declarations(name),
    ]
    check = f"HLO_STATIC_ASSERT(sizeof(void *) == {_pointer_bytes(interface)}, {name}_target);"
    about, types = _compiled_for(interface), [_SHARED, TYPES]
    return header_text(file, source, about, types, body, [check, ""])


def header_text(
    file: str, source: str, about: Sequence[str], types: Sequence[str], body: Sequence[str],
    checks: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a header in C, which C++ may include, too, any number of times.

    about: the lines that end the comment at the beginning. body: the declarations. types, checks:
    lines before and after them.
    """
    once = guard(file)
    lines = [
        f"/* {comment(file)}: made by hlo-tools {__version__} from {comment(source)}.",
        *about,
        f"#ifndef {once}",
        f"#define {once}",
        "",
        "#include <limits.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *types,
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *body,
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        *checks,
        "#endif",
        "",
    ]
    return "\n".join(lines)


def data_declarations(name: str) -> list[str]:
    """Return the declarations of what describes a program."""
    return [
        "/* Name, type and size of each argument and result, in order. */",
        f"extern const hlo_array {name}_inputs[];",
        f"extern const hlo_array {name}_outputs[];",
        "",
        "/* All of this as text, for programs. */",
        f"extern const char {name}_signature[];",
    ]


def _compiled_for(interface: Interface) -> list[str]:
    """Describe the target, and the features that a processor needs."""
    levels = interface.levels
    names = [comment(level.cpu) for level in levels]
    for n, level in enumerate(levels):
        if level.is_native:
            names[n] += ": the processor that it was compiled on, not any other of the kind"
    text = (
        f"HLO module {comment(interface.module)}, compiled for {comment(interface.triple)}, "
        f"cpu {'; '.join(names)}."
    )
    if len(levels) > 1:
        text += " The first call chooses the last of them that the processor can run."
    for level, name in zip(levels, names, strict=True):
        if level.features:
            subject = "It" if len(levels) == 1 else name.partition(":")[0]
            text += f" {subject} needs {', '.join(level.features)}."
    if interface.asks_processor:
        without = "without them" if len(levels) == 1 else "that runs none of them"
        text += f" On a processor {without} the functions return HLO_BAD_PROCESSOR."
    lines = textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False)
    return [f" * {line}" for line in lines[:-1]] + [f" * {lines[-1]} */"]


def _sizes(interface: Interface) -> list[tuple[str, str]]:
    name = interface.symbol
    counts, sizes = array_sizes(interface)
    own = [
        (f"{name}_WORKSPACE_BYTES", _size(interface.workspace_bytes)),
        (f"{name}_WORKSPACE_ALIGNMENT", str(ALIGNMENT)),
        *import_count(interface),
    ]
    if interface.uses_host:
        own.append((f"{name}_COLLECTIVES", str(len(interface.collectives))))
    return [*counts, *own, *sizes]


def import_count(interface: Interface) -> list[tuple[str, str]]:
    """Return the macro for the number of functions in the host's table, if there is a table."""
    count = str(len(interface.imports))
    return [(f"{interface.symbol}_IMPORTS", count)] if interface.uses_host else []


def array_sizes(interface: Interface) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return macros, each with its value: the numbers of arrays, and the size of each array."""
    name, leaves = interface.symbol, (*interface.inputs, *interface.outputs)
    counts = [
        (f"{name}_INPUTS", str(len(interface.inputs))),
        (f"{name}_OUTPUTS", str(len(interface.outputs))),
    ]
    return counts, [(f"{name}_BYTES_{x.ident}", _size(x.size_bytes)) for x in leaves]


def macros(values: list[tuple[str, str]]) -> list[str]:
    """Return the definitions of macros."""
    return [f"#define {macro} {value}" for macro, value in values]


def _functions(interface: Interface) -> list[str]:
    name = interface.symbol
    host = host_parameter(interface)
    lines = [
        *described_arrays(interface),
        " *",
        " * Each address is aligned as its C type wants; multiples of 64 are best. Results overlap",
        " * neither arguments nor each other"
        + (", except as stated: an argument whose memory is a" if interface.aliases else "."),
    ]
    if interface.aliases:
        lines.append(" * result's is overwritten, any other is copied there first.")
    lines += _workspace_note(interface)
    lines += host_note(interface, "Returns n + 1 when the function number n fails.")
    refused = "HLO_BAD_WORKSPACE"
    if interface.asks_processor:
        refused += " or HLO_BAD_PROCESSOR"
    lines += [
        f" * Returns 0, or {refused}. There is no other state:",
        " * calls with different workspaces may run at the same time. */",
    ]
    if interface.is_typed:
        params = [*typed_parameters(interface), "void *workspace", *host]
        lines += [*prototype(f"int {name}", params), ""]
        lines += [
            "/* The same, with addresses in order; on several threads unless `threads` is null. */"
        ]
    lines += prototype(
        f"int {name}_call",
        ["const void *const *in", "void *const *out", "void *workspace",
         "const hlo_threads *threads", *host],
    )  # fmt: skip
    lines += ["", f"/* {name}_WORKSPACE_BYTES, as the code has it. */"]
    lines.append(f"size_t {name}_workspace_bytes(void);")
    if interface.names_processor:
        lines += [
            "",
            "/* The processor whose code runs here, by LLVM's name; null if this one has not the",
            " * instructions of any. */",
            f"const char *{name}_processor(void);",
        ]
    return lines


def described_arrays(interface: Interface) -> list[str]:
    """Return the beginning of a comment: arguments and results, with shapes and sizes."""
    shared = [(r, f"; may be {interface.inputs[a].ident} itself") for r, a in interface.aliases]
    arguments, results = _described(interface.inputs, []), _described(interface.outputs, shared)
    return ["/* Arguments:", *arguments, " * Results:", *results]


def typed_parameters(interface: Interface) -> list[str]:
    """Return the parameters of a C function that takes each array by its address."""
    inputs = [f"const {c_type(x.shape)} *{x.ident}" for x in interface.inputs]
    return [*inputs, *(f"{c_type(x.shape)} *{x.ident}" for x in interface.outputs)]


def _described(leaves: list[Leaf], remarks: list[tuple[int, str]]) -> list[str]:
    lines = []
    for n, leaf in enumerate(leaves):
        note = type_note(leaf.shape)
        text = f" *   {leaf.ident}: {leaf.shape.to_string()}, {leaf.size_bytes} bytes"
        text += f" ({note})" if note else ""
        if leaf.name != leaf.ident:
            text += f", {comment(leaf.name)} in the module"
        lines.append(text + "".join(remark for at, remark in remarks if at == n))
    return lines or [" *   none"]


def _workspace_note(interface: Interface) -> list[str]:
    if not interface.workspace_bytes:
        return [" * workspace: not used, may be null."]
    return [
        f" * workspace: {interface.workspace_bytes} bytes aligned to {ALIGNMENT}, of any content."
    ]


def _with_attributes(which: Import) -> str:
    """Return the description of an operation for its external function."""
    said = re.search(rf"^  ROOT .* {which.opcode}\([^()]*\)(.*)$", which.text, re.M)
    attributes = said[1] if said is not None else ""
    return which.opcode + attributes.partition(", metadata=")[0]


def host_parameter(interface: Interface) -> list[str]:
    """Return the parameter for the table of external functions, if there are any."""
    return ["const struct hlo_host *host"] if interface.uses_host else []


def host_note(interface: Interface, failure: str) -> list[str]:
    """Describe the table of external functions. failure: what happens when one of them fails."""
    if not interface.uses_host:
        return []
    lines = [" * host: who calls, and the functions that are called; see hlo_ffi.h. In this order:"]
    lines += [
        f" *   {n}: {comment(i.target or _with_attributes(i))}"
        for n, i in enumerate(interface.imports)
    ]
    if interface.imports:
        lines.append(f" * {failure}")
    else:
        lines = [" * host: who calls; see hlo_ffi.h. Null counts as replica 0 of partition 0."]
    if interface.collectives:
        lines.append(
            " * host->collectives: what reaches other devices, see hlo_collectives.h, for these:"
        )
        lines += [
            f" *   {n}: {comment(str(c))} of {comment(c.operands)}, devices {_groups(c.groups)}"
            for n, c in enumerate(interface.collectives)
        ]
        lines.append(" * Returns HLO_COLLECTIVE_FAILED + n when collective number n fails.")
    return lines


def _groups(groups: tuple[tuple[int, ...], ...]) -> str:
    """Return the groups of a collective; those of many devices are too long for a comment."""
    text = ",".join("{" + ",".join(map(str, group)) + "}" for group in groups)
    return f"{{{text}}}" if len(text) < _LONGEST_GROUPS else f"of {len(groups)} groups"


_LONGEST_GROUPS = 200


def prototype(start: str, params: list[str]) -> list[str]:
    """Return a declaration, wrapped at the line length."""
    lines, line = [], f"{start}("
    for n, param in enumerate(params):
        text = param + (");" if n + 1 == len(params) else ",")
        if len(line) + len(text) > 98 and not line.endswith("("):
            lines.append(line.rstrip())
            line = "    "
        line += text + " "
    return [*lines, line.rstrip()]


def guard(file: str) -> str:
    """Return the name of a header's include guard."""
    word = "".join(c if c.isascii() and c.isalnum() else "_" for c in file.upper())
    return word if word[:1].isalpha() else f"HLO_{word}"


def comment(text: str) -> str:
    """Return text that is safe in a C comment: without its end marker, on one line."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def c_string(text: str | bytes) -> str:
    """Return a C string literal."""
    data = text if isinstance(text, bytes) else text.encode()
    body = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\?' else f"\\{c:03o}" for c in data)
    return f'"{body}"'


def _size(n: int) -> str:
    return f"((size_t){n})"


def _pointer_bytes(interface: Interface) -> int:
    return architecture_of(interface.triple).c_pointer_bits // 8
