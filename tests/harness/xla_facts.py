"""What an XLA takes, asked of its parsers: opcodes, types, attributes, words, forms of text.

    python -m tests.harness.xla_facts < questions.json > facts.json

Runs in any Python that has jaxlib, and needs nothing else: `hlo` need not be there. What may be an
opcode or a type is found among the strings in jaxlib's library; whether it is one, its parser says.
Questions are texts (`questions` in `tests/sweeps/drift.py` makes them of the op table):

    known: words that may be names, wherever jaxlib has them (of which it has no strings)
    attributes: what may have them, as an opcode -> text with an attribute that there is not; XLA's
        error lists those that there are
    words: name -> text with `@` in place of a word
    texts: name -> text, which is taken or not
    mlir: name -> StableHLO, the same

The answers have the same keys but `known`, with lists of names in place of texts, and `version`,
`opcodes`, `types`; `operations` and `operation_attributes` of StableHLO's dialects.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jaxlib
from jaxlib import _hlo
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy
from jaxlib.mlir.dialects import stablehlo as mlir_stablehlo

_ALLOWED = re.compile(r"Allowed attributes: ([\w, -]+)")
_DIALECTS = ("stablehlo", "chlo", "mhlo", "sdy")
# An opcode or a type, and any other word that the text format has; strings end with them.
_NAME = re.compile(rb"[a-z][a-z0-9-]{0,39}$")
_WORD = re.compile(rb"[a-z][a-z0-9_]{0,25}|[A-Z][A-Z0-9_]{0,25}|k[A-Z]\w{0,25}")
_CONSTANT = re.compile(rb"[A-Z][A-Z0-9_]{0,39}")


# --- what may be a name -------------------------------------------------------------------------


def candidates() -> tuple[set[str], set[str]]:
    """Return what may be an opcode or a type, and what may be another word of the text.

    That are strings in jaxlib's library, and constants in its protos, of which XLA makes words: in
    lower case, and without the words in front that they have in common with others.
    """
    path = Path(jaxlib.__file__).parent / "libjax_common.so"
    names: set[bytes] = set()
    words: set[bytes] = set()
    with path.open("rb") as file:
        for section, start, size in _sections(file.read, file.seek):
            file.seek(start)
            if section == ".rodata":
                strings = set(file.read(size).split(b"\0"))
                # One string may be the end of another.
                names |= {m[0] for m in map(_NAME.search, strings) if m}
                words |= {s for s in strings if _WORD.fullmatch(s)}
            elif section == "protodesc_cold":
                for constant in set(_CONSTANT.findall(file.read(size))):
                    parts = constant.split(b"_")
                    tails = {b"_".join(parts[n:]) for n in range(len(parts))}
                    words |= tails | {tail.lower() for tail in tails}
    names |= words
    return {n.decode() for n in names}, {w.decode() for w in words if w}


def _sections(read, seek) -> Iterator[tuple[str, int, int]]:  # type: ignore[no-untyped-def]
    """Yield name, offset and size in bytes of each section of a 64-bit ELF file."""
    head = read(64)
    (table,) = struct.unpack_from("<Q", head, 40)
    entry, count, names_at = struct.unpack_from("<HHH", head, 58)
    seek(table)
    data = read(entry * count)
    rows = [struct.unpack_from("<IIQQQQ", data, i * entry) for i in range(count)]
    seek(rows[names_at][4])
    names = read(rows[names_at][5])
    for name, _, _, _, start, size in rows:
        yield names[name : names.index(b"\0", name)].decode(), start, size


# --- asking -------------------------------------------------------------------------------------


def ask(texts: Iterable[str]) -> list[str | None]:
    """Return what XLA's parser says of each text: nothing where it takes it, None if it crashes."""
    texts, answers = list(texts), []
    while len(answers) < len(texts):
        answers += _ask_until_it_crashes(texts[len(answers) :])
    return answers


def _ask_until_it_crashes(texts: list[str]) -> list[str | None]:
    """Ask in a process of its own; the last answer is None if that did not live to give it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writing, "w") as out:
            for text in texts:
                # A line that is not complete is no answer.
                out.write(json.dumps(_error(text)) + "\n")
                out.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        answers: list[str | None] = [json.loads(line) for line in lines]
    os.waitpid(child, 0)
    return answers if len(answers) == len(texts) else [*answers, None]


def _error(text: str) -> str:
    try:
        _hlo.hlo_module_from_text(text)
    # Whatever its bindings raise is the answer.
    except Exception as e:
        return str(e) or type(e).__name__
    return ""


def opcodes(words: Iterable[str]) -> list[str]:
    """Return the words that are opcodes."""
    asked = sorted(w for w in words if re.fullmatch(r"[a-z][a-z0-9-]*", w))
    # Operands that end too soon: nothing is made of the opcode, whatever it would need.
    head = "ENTRY e { ROOT r = ((f32[]), f32[], s32[]) "
    said = ask(f"HloModule m\n{head}{w}(%a" for w in asked)
    other = (f"2:{len(head) + 1}: error: expects opcode", "Unknown opcode")
    return [
        w
        for w, error in zip(asked, said, strict=True)
        if error and not any(words in error for words in other)
    ]


def types(words: Iterable[str]) -> list[str]:
    """Return the words that are types: of elements, and of values that are no arrays."""
    asked = sorted(w for w in words if re.fullmatch(r"[a-z][a-z0-9]*", w))
    text = "HloModule m\nENTRY e {{ ROOT r = {}[] parameter(0) }}"
    return [w for w, error in zip(asked, ask(map(text.format, asked)), strict=True) if error == ""]


def attributes(texts: dict[str, str], known: Iterable[str]) -> dict[str, list[str]]:
    """Return the attributes that XLA lists as allowed where it meets one that is not.

    known: opcodes. One without a text is asked on arrays, up to three.
    """
    found = {name: error for name, error in zip(texts, ask(texts.values()), strict=True) if error}
    arrays = "HloModule m\nENTRY e {{ a = f32[2] parameter(0)\n ROOT r = f32[2] {}({}), drift=1 }}"
    for name in sorted(set(known) - texts.keys()):
        said = ask(arrays.format(name, ", ".join("a" * n)) for n in range(4))
        found[name] = next((error for error in said if error and _ALLOWED.search(error)), "")
    return {
        n: sorted(m[1].split(", ")) for n, error in found.items() if (m := _ALLOWED.search(error))
    }


def taken_words(texts: dict[str, str], words: Iterable[str]) -> dict[str, list[str]]:
    """Return the words that may stand in place of `@` in each text."""
    asked = sorted(words)
    found = {}
    for name, text in texts.items():
        said = ask(text.replace("@", w) for w in asked)
        found[name] = [w for w, error in zip(asked, said, strict=True) if error == ""]
    return found


def dialects() -> dict[str, list[str]]:
    """Return operations of StableHLO's dialects and names of attributes of its own operations.

    As jaxlib's bindings have them.
    """
    folder = Path(jaxlib.__file__).parent / "mlir" / "dialects"
    texts = {name: (folder / f"_{name}_ops_gen.py").read_text() for name in _DIALECTS}
    operations = re.findall(r'OPERATION_NAME = "([^"]+)"', "".join(texts.values()))
    own = texts["stablehlo"] + texts["chlo"]
    attributes = set(re.findall(r'attributes\["(\w+)"\]', own))
    return {"operations": sorted(operations), "operation_attributes": sorted(attributes)}


def taken_by_mlir(texts: dict[str, str]) -> list[str]:
    """Return the names of the texts that MLIR's parser and verifier take."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    sdy.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    chlo.register_dialect(context)
    mlir_stablehlo.register_dialect(context)
    found = []
    with context:
        for name, text in texts.items():
            try:
                ir.Module.parse(text).operation.verify()
            except ir.MLIRError:
                continue
            found.append(name)
    return found


def facts(questions: dict[str, Any]) -> dict[str, object]:
    """Answer questions: see the top of the file."""
    names, words = (some | set(questions["known"]) for some in candidates())
    found = opcodes(names)
    said = ask(questions["texts"].values())
    return {
        "version": jaxlib.__version__,
        "opcodes": found,
        "types": types(names),
        "attributes": attributes(questions["attributes"], found),
        "words": taken_words(questions["words"], words),
        "texts": [n for n, error in zip(questions["texts"], said, strict=True) if error == ""],
        "mlir": taken_by_mlir(questions["mlir"]),
        **dialects(),
    }


if __name__ == "__main__":
    json.dump(facts(json.load(sys.stdin)), sys.stdout, indent=1)
