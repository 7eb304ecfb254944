"""Elementwise operations with attributes."""

from __future__ import annotations

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.context import Context, Handler, sized
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.ops.attrs import ACCURACY
from hlo.ops.elementwise.selection import FLOAT_ORDERS
from hlo.values.scan import Scanner


def plain(opcode: str) -> Handler:
    """Return a function that appends an operation without attributes."""
    return lambda c: c.make(opcode)


def function(opcode: str) -> Handler:
    """Return a function that appends an operation that may have a result accuracy."""
    assert "result_accuracy" in OPS[opcode].attrs, opcode

    def append(c: Context) -> Instruction:
        accuracy = _accuracy(c)
        return c.make(opcode, **({"result_accuracy": accuracy} if accuracy else {}))

    return append


def _accuracy(c: Context) -> object:
    """Return `#stablehlo.result_accuracy<ulps = 3, mode = ..>` as in HLO, None by default."""
    value = c.op.attrs.get("result_accuracy")
    if value is None:
        return None
    if not isinstance(value, Tagged):
        raise InferError("result_accuracy is #stablehlo.result_accuracy<..>", code="bad-value")
    found = value.pairs()
    mode = found.get("mode")
    word = mode.text.split()[-1] if isinstance(mode, Tagged) and mode.text.split() else str(mode)
    if word == "HIGHEST":
        if any(found.get(k, 0) for k in ("atol", "rtol", "ulps")):
            raise InferError("result_accuracy of mode HIGHEST has tolerances", code="bad-value")
        text = "{mode=highest}"
    elif word == "TOLERANCE":
        numbers = ",".join(f"{k}={found.get(k, 0)}" for k in ("atol", "rtol", "ulps"))
        text = f"{{tolerance={{{numbers}}}}}"
    elif word == "DEFAULT":
        return None
    else:
        raise InferError("the mode of result_accuracy is DEFAULT, HIGHEST or TOLERANCE",
                         code="bad-value")  # fmt: skip
    try:
        return ACCURACY.read(Scanner(text))
    except TextError as e:
        raise InferError(f"result_accuracy: {e.message}", code=e.code) from None


def compare(c: Context) -> Instruction:
    """Append a comparison."""
    kind = c.word("compare_type", default="NOTYPE")
    return c.make("compare", direction=c.word("comparison_direction"),
                  type=kind if kind in FLOAT_ORDERS else None)  # fmt: skip


def reduce_precision(c: Context) -> Instruction:
    """Append a reduce-precision."""
    bits = c.integer("exponent_bits"), c.integer("mantissa_bits")
    return c.make("reduce-precision", exponent_bits=bits[0], mantissa_bits=bits[1])


def rng(c: Context) -> Instruction:
    """Append random numbers; the operand with the shape is redundant: the type says it."""
    shape = sized(c)
    if c.constant(2) is not None and c.constants(2) != shape.dims:
        raise InferError(f"its shape is {list(c.constants(2))}, its type says "
                         f"{shape.to_string(False)}", code="shape-mismatch")  # fmt: skip
    word = c.word("rng_distribution")
    return c.on(c.operands[:2]).make("rng", distribution=f"rng_{word.lower()}")


def rng_bit_generator(c: Context) -> Instruction:
    """Append random bits."""
    word = c.word("rng_algorithm")
    return c.make("rng-bit-generator", algorithm=f"rng_{word.lower()}")
