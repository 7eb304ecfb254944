"""Operations that StableHLO and CHLO have by HLO's names, with the same operands and attributes."""

from __future__ import annotations

STABLEHLO = (
    "abs add and atan2 bitcast-convert cbrt ceil clamp complex convert cosine count-leading-zeros "
    "divide exponential exponential-minus-one floor imag is-finite log log-plus-one logistic "
    "maximum minimum multiply negate not or partition-id popcnt power real remainder replica-id "
    "reshape round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic "
    "shift-right-logical sign sine sqrt subtract tan tanh xor"
).split()
CHLO = "acos acosh asin asinh atanh cosh erf mulhi sinh".split()


def spelled(opcode: str) -> str:
    """Return the name of an operation as StableHLO spells it."""
    return opcode.replace("-", "_")
