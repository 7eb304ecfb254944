"""Types and attributes of StableHLO itself in bytecode.

A portable artifact has them where the operation is not of StableHLO: a token through a manual
computation of Shardy keeps its type. Source: the numbers in StableHLO's StablehloBytecode.cpp.
"""

from __future__ import annotations

from hlo.frontends.stablehlo.bytecode.builtin import decoder
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Stream


def _token(r: Reader, s: Stream) -> Value:
    return Value("!stablehlo.token")


def _future(r: Reader, s: Stream) -> Value:
    return Value(f"!stablehlo.future<{', '.join(t.text for t in r.types(s))}>")


def _bounds(r: Reader, s: Stream) -> Value:
    bounds = ", ".join("?" if b < 0 else str(b) for b in s.signed_list())
    return Value(f"#stablehlo.bounds<{bounds}>")


decode_type = decoder({0: _token, 1: _future}, "a type of the dialect stablehlo")
decode_attribute = decoder({13: _bounds}, "an attribute of the dialect stablehlo")
