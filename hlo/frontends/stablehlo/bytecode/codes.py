"""Tables of codes: how the attributes and types of a dialect are decoded and encoded.

An attribute, or a type, begins with its code in its dialect. One entry has both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from hlo.frontends.stablehlo.bytecode.assembly import Encoder, Write
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Output, Stream, fail
from hlo.frontends.stablehlo.bytecode.versions import OLDEST, Version

Read = Callable[[Reader, Stream], Value]


def _nothing(e: Encoder, out: Output, what: Any) -> None:
    """Write nothing: the code says all."""


class Code(NamedTuple):
    """How one kind of attribute or type is decoded, and encoded.

    key: by what the encoder finds it; None for what we never write. since: the version of StableHLO
    that introduced it.
    """

    read: Read
    key: Hashable = None
    write: Write = _nothing
    since: Version = OLDEST


Codes = Mapping[int, Code]


def decoder(codes: Codes, what: str) -> Read:
    """Return the decoder whose first number selects an entry of a table."""

    def decode(r: Reader, s: Stream) -> Value:
        start, code = s.pos, s.varint()
        if code not in codes:
            fail(f"{what} has the code {code}, which is not read", start)
        return codes[code].read(r, s)

    return decode


def encoder(codes: Codes, key_of: Callable[[Any], Hashable], what: str) -> Write:
    """Return what writes an attribute or a type with its code."""
    numbers = {code.key: number for number, code in codes.items() if code.key is not None}

    def encode(e: Encoder, out: Output, value: Any) -> None:
        number = numbers.get(key_of(value))
        if number is None:
            e.refuse(f"a portable artifact has no {what} such as {value}")
        code = codes[number]
        e.need(code.since, value)
        out.varint(number)
        code.write(e, out, value)

    return encode
