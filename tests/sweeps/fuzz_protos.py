"""Mutates protos and reads what comes out: only our own errors, each with a place, and soon.

    python -m tests.sweeps.fuzz_protos --count 5000 [--seed 0] [--corpus DIR]... [--keep DIR]

Prints the first input of every kind of failure, and exits 1 when there was one.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hlo
from hlo.errors import HloError
from hlo.frontends.proto import from_pbtxt, to_pbtxt
from hlo.frontends.proto.schema import EnumType, Message, MessageType, schema
from hlo.frontends.proto.wire import decode, encode
from hlo.ops import OPS
from tests.sweeps import fuzz
from tests.sweeps.fuzz import tally, watched

_KIND = schema()["HloModuleProto"]
_NUMBERS = (0, 1, 2, 3, 7, 77, -1, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
_TEXTS = ("", "x", "a b", "p", "e", "é", "f32", "{", '"', "add", "\0", "x" * 1000, "{a=1")


# What examples of operations do not have: all that a header can say, and annotations.
_HEADER = """HloModule m, is_scheduled=true, input_output_alias={ {1}: (1, {0}, must-alias) },
  buffer_donor={ (0, {}) }, frontend_attributes={a="b"}, origin_recovery_table={
  {"v1"} : {"v2" {1}},
  "
    ENTRY r { ROOT q = f32[2] parameter(0) }
  "
  {"v3"} : {""}
}

FileNames
1 "f.py"

FunctionNames
1 "g"

FileLocations
1 {file_name_id=1 function_name_id=1 line=2 end_line=3 column=4 end_column=5}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY e {
  a = f32[2]{0:T(4)S(1)} parameter(0), sharding={devices=[2]<=[2]}, metadata={op_name="n"}
  b = (s32[2], s4[3]{0:E(4)}) parameter(1), parameter_replication={true,false}
  c = s32[2] get-tuple-element(b), index=0, origin={{"v" {1}}}, backend_config="x"
  ROOT r = (f32[2], s32[2]) tuple(a, c), control-predecessors={b},
    statistics={visualizing_index=1,s=2}
}
"""


def corpus(folders: Sequence[Path] = ()) -> list[bytes]:
    """Return the valid protos that mutation starts from."""
    texts = [spec.examples[0] for spec in OPS.values()]
    found = [hlo.to_proto(hlo.parse(text)) for text in (*texts, *[_HEADER] * 8)]
    for text in fuzz.texts_in(folders):
        try:
            module = hlo.parse(text)
            hlo.verify(module)
            found.append(hlo.to_proto(module))
        except HloError:
            continue  # what is no module, or none that a proto can hold
    return found


# --- mutations ----------------------------------------------------------------------------------


def _bytes(rng: random.Random, data: bytes, _: list[bytes]) -> bytes:
    out = bytearray(data)
    for _i in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del out[at : at + rng.randint(1, 4)]
        elif kind == 1:
            out[at:at] = rng.randbytes(rng.randint(1, 4))
        elif at < len(out):
            out[at] = rng.randrange(256) if kind == 2 else out[at] ^ (1 << rng.randrange(8))
    return bytes(out)


def _truncate(rng: random.Random, data: bytes, _: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _pieces(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Put a piece of this or of another proto somewhere."""
    other = rng.choice((data, rng.choice(others))) or b"\0"
    start, at = rng.randrange(len(other)), rng.randrange(len(data) + 1)
    return data[:at] + other[start : start + rng.choice((2, 10, 100))] + data[at:]


def _nest(rng: random.Random, data: bytes, _: list[bytes]) -> bytes:
    """Put a shape of tuples in tuples into the host's program shape."""
    inside = b""
    for _i in range(rng.choice((3, 60, 70, 98, 120, 300))):
        inside = encode(Message(element_type="TUPLE"), schema()["ShapeProto"]) + _field(4, inside)
    return data + _field(4, _field(2, inside))


def _field(number: int, content: bytes) -> bytes:
    size, head = len(content), bytearray([number << 3 | 2])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes(head) + bytes([size]) + content


def _values(rng: random.Random, data: bytes, _: list[bytes]) -> bytes:
    """Change fields to other values of their types, which keeps the proto well-formed."""
    try:
        message = decode(data, _KIND)
    except Exception:
        return data
    for _i in range(rng.choice((1, 1, 2, 5))):
        place, kind = message, _KIND
        while True:
            inner = [
                (x, f.kind)
                for f in kind.by_name.values()
                if isinstance(f.kind, MessageType) and f.name in place
                for x in (place[f.name] if f.repeated else [place[f.name]])
            ]
            if not inner or rng.random() < 0.2:
                break
            place, kind = rng.choice(inner)
        here = [kind.by_name[n] for n in place] if rng.random() < 0.7 else []
        entry = rng.choice(here or list(kind.by_name.values()))
        value = _value(rng, entry.kind, place.get(entry.name))
        if entry.repeated:
            old = list(place.get(entry.name, []))
            value = rng.choice(([], [value], [*old, value], old[1:], old[::-1], old * 2))
        if rng.random() < 0.2:
            place.pop(entry.name, None)
        else:
            place[entry.name] = value
    try:
        return encode(message, _KIND)
    except OverflowError:
        return data


def _value(rng: random.Random, kind: Any, old: Any) -> Any:
    if isinstance(kind, MessageType):
        return Message()
    if isinstance(kind, EnumType):
        return rng.choice([*kind.words.values(), 99])
    if kind == "string":
        return rng.choice((*_TEXTS, *OPS))
    if kind == "bytes":
        return rng.choice(_TEXTS).encode() + rng.randbytes(rng.randrange(4))
    if kind == "bool":
        return rng.random() < 0.5
    if kind in ("float", "double"):
        return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    numbers = [*_NUMBERS, old + 1, old - 1] if isinstance(old, int) else _NUMBERS
    return rng.choice(numbers)


_MUTATIONS: list[Callable[[random.Random, bytes, list[bytes]], bytes]] = [
    _bytes, _bytes, _truncate, _pieces, _nest, _values, _values, _values, _values, _values,
]  # fmt: skip


def mutants(count: int, seed: int, folders: Sequence[Path] = ()) -> Iterator[bytes | str]:
    """Yield mutated protos, one in eight of them as text."""
    rng = random.Random(seed)
    start = corpus(folders)
    for i in range(count):
        data = rng.choice(start)
        if i % 8 == 7:
            yield _mutated_text(rng, to_pbtxt(hlo.from_proto(data)))
            continue
        for _i in range(rng.choice((1, 1, 2))):
            data = rng.choice(_MUTATIONS)(rng, data, start)
        yield data


def _mutated_text(rng: random.Random, text: str) -> str:
    tokens = re.findall(r'"[^"]*"|\w+|\s+|.', text)
    at = rng.randrange(len(tokens))
    words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        "<",
        '"',
        "\\",
        "-",
        "#",
        "1e999",
        "0x",
        "9" * 20,
    ]
    tokens[at : at + rng.randrange(2)] = [rng.choice([*words, *tokens])]
    return "".join(tokens)


# --- judging ------------------------------------------------------------------------------------


def failure(data: bytes | str) -> str | None:
    """Return what is wrong with how a proto is taken, or None. Valid and rejected are both fine."""

    def check() -> str | None:
        module = hlo.from_proto(data) if isinstance(data, bytes) else from_pbtxt(data)
        printed = str(module)
        try:
            hlo.verify(module)
        except HloError:
            return None
        return fuzz.difference(module, printed)

    def judge(error: HloError) -> str | None:
        shown = str(error)
        place = r"error: <bytes>: byte \d+: " if isinstance(data, bytes) else r"<string>:\d+:\d+: "
        # A module in the header is checked when it is written again.
        place += (
            r"|error: <bytes>: not an HloModuleProto: .* at byte 0 |origin_recovery_table:\d+:\d+: "
        )
        return None if re.match(place, shown) else f"no place: {shown[:200]}"

    return watched(check, judge)


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--count", type=int, default=5000)
    arguments.add_argument("--seed", type=int, default=0)
    fuzz.add_folders(arguments)
    options = arguments.parse_args()
    inputs = mutants(options.count, options.seed, options.corpus)
    return tally(inputs, failure, fuzz.keeper(options.keep, f"{options.seed}"))


if __name__ == "__main__":
    sys.exit(main())
