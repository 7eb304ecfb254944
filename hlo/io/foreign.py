"""Files that are no modules, recognized by their first bytes: what they are, and how to get HLO."""

from __future__ import annotations

import re
from typing import NamedTuple

from hlo.errors import HloError

_TO_JAX = "in JAX, jax.jit(f).lower(x).as_text('hlo') is the HLO of a function"
_TO_TENSORFLOW = (
    "in TensorFlow, tf.function(f, jit_compile=True).experimental_get_compiler_ir(x)() is the HLO"
)
_TO_TORCH = "torch_xla.stablehlo.exported_program_to_stablehlo(...) gives StableHLO of a program"
_OF_XLA = "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text' makes XLA write HLO"
_OF_DUMP = "the module is in the file of the dump that ends in after_optimizations.txt"
_OF_DUMP_BEFORE = "the module is in the files of the dump that end in optimizations.txt"
_UNPACK = "unpack it first"


class Foreign(NamedTuple):
    """What a file is, and how to get HLO instead."""

    what: str
    hint: str


# By their first bytes, binary files.
_BINARY: tuple[tuple[bytes, str, str], ...] = (
    (rb"\x7fELF", "an ELF object file, library or program", _OF_XLA),
    (rb"\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe", "a Mach-O file", _OF_XLA),
    (rb"MZ(?=[\s\S]{0,60}\0\0)", "a Windows program or library", _OF_XLA),
    (rb"(?:\x64\x86|\x4c\x01|\x64\xaa)[\s\S]{2}[\s\S]{12}\0", "a COFF object file", _OF_XLA),
    (rb"!<arch>\n", "an archive of object files", _OF_XLA),
    (rb"\0asm", "a WebAssembly module", _OF_XLA),
    (rb"\x50\xed\x55\xba|\xb1\x43\x62\x46", "a fat binary of CUDA", _OF_XLA),
    (rb"BC\xc0\xde|\xde\xc0\x17\x0b", "LLVM bitcode", _OF_XLA),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it first, with zstd -d"),
    (rb"BZh[1-9]1AY", "compressed by bzip2", "unpack it first, with bunzip2"),
    (rb"\xfd7zXZ\0", "compressed by xz", "unpack it first, with unxz"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4", "unpack it first, with lz4 -d"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (rb"\x93NUMPY", "an array of NumPy", "hlo-run takes values with --input"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file, perhaps a model of Keras", _TO_TENSORFLOW),
    (rb"[\s\S]{8}\{\s*\"(?:__metadata__|[^\"]+)\"\s*:\s*\{", "a safetensors file",
     "it has arrays and no program; hlo-run takes it with --inputs"),
    (rb"\x80[\x02-\x05](?:\x95|[}\](cX\x8c\x8a])", "a pickle of Python", _TO_JAX),
    (rb"[\s\S]{4}TFL3", "a model of TFLite (LiteRT)", _TO_TENSORFLOW),
    (rb"SQLite format 3\0", "an SQLite database, perhaps a profile of Nsight Systems", _OF_XLA),
    (rb"\x89PNG\r\n\x1a\n", "a PNG image", _OF_XLA),
    (rb"\xff\xd8\xff|GIF8[79]a|RIFF[\s\S]{4}WEBP", "an image", _OF_XLA),
    (rb"%PDF-", "a PDF document", "copy the text out of it"),
    (rb"\x08\x01\x12[\s\S]{1,6}\x0a", "a SavedModel of TensorFlow", _TO_TENSORFLOW),
    (rb"\x08[\x01-\x1f](?:\x12.[\x20-\x7e]+|\x3a|\x42)", "a model of ONNX",
     "it is no program of XLA; a converter of ONNX to StableHLO or JAX makes one"),
    (rb"\n.{1,4}?\n.[\w./:^-]+\x12(?:\x0bPlaceholder|\x05Const|\x0bVarHandleOp|\nVariableV2|\x04NoOp)",
     "a GraphDef of TensorFlow", _TO_TENSORFLOW),
    (rb"\n[\s\S]{1,5}(?:\x08[\s\S]{1,10})?\x12.(?:/host:|/device:|Task Environment)",
     "a trace of a profiler (XSpace)", "TensorBoard or xprof shows it"),
)  # fmt: skip
# Texts, by how they begin.
_SPACE = r"(?>(?:\s++|#(?![ \t]*include)[^\n]*+\n|//[^\n]*+\n)*)"
_PYTHON_SPACE = r"""(?>(?:\s++|#[^\n]*+\n|"{3}[\s\S]*?"{3}|'{3}[\s\S]*?'{3})*)"""
_TEXT: tuple[tuple[str, str, str], ...] = (
    (r"BufferAssignment:", "XLA's buffer assignment of a module", _OF_DUMP),
    (r"HloLiveRange \(max", "XLA's live ranges of buffers", _OF_DUMP),
    (r"\s*Total bytes used: \d", "XLA's list of the values in buffers", _OF_DUMP),
    (r"Memory Space: \w+ \(color=|Total bytes: \d", "XLA's report of memory usage", _OF_DUMP),
    (r"\s*xla_\w+: ", "XLA's debug options", _OF_DUMP),
    (r"\s*(?:version: \d+\s+)?results \{\s+(?:device|hlo):", "XLA's results of autotuning",
     _OF_DUMP),
    (r"\s*(?:platform_name: \"|gpu_device_info \{\s+\w+:)",
     "XLA's description of a target machine", _OF_DUMP),
    (r"\s*\d{3}: k[A-Z]\w+\b", "XLA's sequence of thunks", _OF_DUMP),
    (r"\s*(?:; ModuleID|source_filename = \"|target (?:datalayout|triple) = \"|"
     r"(?:define|declare) [^\n]*@[\w.\"]+\()", "LLVM IR", _OF_DUMP),
    (rf"{_SPACE}\.version \d+\.\d+\s", "PTX, assembly of NVIDIA's GPUs", _OF_DUMP),
    (rf"{_SPACE}\.(?:text|file|globl|section|intel_syntax|att_syntax|arch|amdgcn_target)\b",
     "assembly", _OF_DUMP),
    (r"\s*(?:strict\s+)?digraph\b", "a graph of Graphviz", _OF_DUMP_BEFORE),
    (r"\s*(?:<!DOCTYPE html|<html\b)", "an HTML page", _OF_DUMP_BEFORE),
    (r"\s*<\?xml|\s*<svg\b", "XML", _OF_XLA),
    (r"\s*\{ ?lambda\b", "a jaxpr of JAX", _TO_JAX),
    (rf"{_PYTHON_SPACE}(?:import [\w.]+(?: as \w+)?\s*(?:$|\#|,)|from [\w.]+ import )|\#!.*python",
     "a program in Python", _TO_JAX),
    (rf"{_SPACE}(?:graph\(%[\w.]+ : |class \w+\((?:torch\.)?nn\.Module\)|ExportedProgram:)",
     "a program of PyTorch", _TO_TORCH),
    (rf"{_SPACE}#[ \t]*(?:include|define|pragma|ifndef|ifdef)\b", "a program in C or C++", _OF_XLA),
    (r"\s*[\{\[]\s*(?:\"|\]|\}|\d|\{|\[|null|true|false)", "JSON", _OF_XLA),
    (r"\s*(?:ir_version|opset_import|producer_name)\s*[:{]", "a model of ONNX as text",
     "it is no program of XLA; a converter of ONNX to StableHLO or JAX makes one"),
    (r"\s*(?:saved_model_schema_version: |meta_graphs \{\s+\w+ \{)",
     "a SavedModel of TensorFlow as text", _TO_TENSORFLOW),
    (r"\s*node \{\s+name:", "a GraphDef of TensorFlow as text", _TO_TENSORFLOW),
    (r"\s*\*+ \*+|\s*NVIDIA Nsight", "a report of a profiler", _OF_XLA),
    (r"\s*-----BEGIN [A-Z ]+-----", "a key or a certificate", _OF_XLA),
)  # fmt: skip
# Files of a dump that only their names tell.
_NAMES: tuple[tuple[str, str, str], ...] = (
    (r"-memory-usage-report\.pb$", "XLA's report of memory usage", _OF_DUMP),
    (r"thunk_sequence\.\w+$|-thunk-sequence\.\w+$", "XLA's sequence of thunks", _OF_DUMP),
    (r"\.(?:execution_options|target_config|gpu_target_config)\.\w+$", "options of XLA", _OF_DUMP),
    (r"\.debug_options$", "XLA's debug options", _OF_DUMP),
    (r"autotune_results?\.\w+$", "XLA's results of autotuning", _OF_DUMP),
    (r"\.xplane\.pb$", "a trace of a profiler (XSpace)", "TensorBoard or xprof shows it"),
)
_ZIP = (
    (b".npy", "an archive of arrays of NumPy (npz)", "hlo-run takes it with --inputs"),
    (b"data.pkl", "an archive of PyTorch", _TO_TORCH),
    (b"archive/", "an archive of PyTorch", _TO_TORCH),
    (b"metadata.json", "a model of Keras", _TO_TENSORFLOW),
    (b"", "a zip archive", _UNPACK),
)
# So many bytes of a file tell what it is.
LOOKED_AT = 4096


def foreign_bytes(data: bytes, name: str) -> Foreign | None:
    """Return what a binary file is that is no module; None if it may be one, or is text."""
    if data.startswith(b"PK\x03\x04"):
        return next(Foreign(what, hint) for mark, what, hint in _ZIP if mark in data[:LOOKED_AT])
    for pattern, what, hint in _BINARY:
        if re.compile(pattern).match(data):
            return Foreign(what, hint)
    if data[257:262] == b"ustar":
        return Foreign("a tar archive", _UNPACK)
    return _by_name(name)


def foreign_text(text: str, name: str) -> Foreign | None:
    """Return what a text is that is no module; None if it may be one."""
    for pattern, what, hint in _TEXT:
        if re.compile(pattern, re.M).match(text):
            return Foreign(what, hint)
    return _by_name(name)


def not_a_module(name: str, foreign: Foreign) -> HloError:
    """Return the error of a file that is no module, code `not-a-module`."""
    return HloError.at(
        "not-a-module", f"{name} is not a module: it is {foreign.what}", None, foreign.hint
    )


def _by_name(name: str) -> Foreign | None:
    for pattern, what, hint in _NAMES:
        if re.search(pattern, name):
            return Foreign(what, hint)
    return None
