"""The inverse of the error function, for which HLO has no operation."""

from __future__ import annotations

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.stablehlo.context import Context
from hlo.types import F32

# M. Giles, "Approximating the erfinv function", 2010: the polynomials in single precision.
_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def erf_inv(c: Context) -> Instruction:
    """Append the inverse of erf, in f32, as polynomials in -log(1 - x^2) for its two parts."""
    b, result = c.b, c.operand(0).array_shape
    if result.element_type.name not in ("f32", "bf16", "f16"):
        raise InferError(f"there is none in {result.element_type}", code="type-mismatch")
    x = b.convert(c.operands[0], F32)
    shape = x.array_shape

    def number(value: float) -> Instruction:
        return b.filled(F32, shape.dims, value)

    w = b.op("negate", b.op("log-plus-one", b.op("negate", b.op("multiply", x, x))))
    central = b.compare(w, number(5), "LT")
    w = b.op(
        "select", central, b.op("subtract", w, number(2.5)),
        b.op("subtract", b.op("sqrt", w), number(3)),
    )  # fmt: skip
    p = b.op("select", central, number(_CENTRAL[0]), number(_TAIL[0]))
    for near, far in zip(_CENTRAL[1:], _TAIL[1:], strict=True):
        p = b.op("add", b.op("select", central, number(near), number(far)),
                 b.op("multiply", p, w))  # fmt: skip
    at_one = b.compare(b.op("abs", x), number(1), "EQ")
    inverse = b.op("multiply", b.op("select", at_one, number(float("inf")), p), x)
    return b.convert(inverse, result.element_type)
