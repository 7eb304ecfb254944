"""Types and attributes of StableHLO itself in bytecode.

A portable artifact has them where the operation is not of StableHLO: a token through a manual
computation of Shardy keeps its type. Source: the numbers in StableHLO's StablehloBytecode.cpp.
"""

from __future__ import annotations

from hlo.frontends.stablehlo.bytecode.codes import Code, decoder
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Stream
from hlo.frontends.stablehlo.bytecode.vhlo_types import Bounds


def _token(r: Reader, s: Stream) -> Value:
    return Value("!stablehlo.token")


def _future(r: Reader, s: Stream) -> Value:
    return Value(f"!stablehlo.future<{', '.join(t.text for t in r.types(s))}>")


def _bounds(r: Reader, s: Stream) -> Value:
    return Value(str(Bounds(tuple(s.signed_list()))))


decode_type = decoder({0: Code(_token), 1: Code(_future)}, "a type of the dialect stablehlo")
decode_attribute = decoder({13: Code(_bounds)}, "an attribute of the dialect stablehlo")
