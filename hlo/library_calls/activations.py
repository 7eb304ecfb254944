"""Activation functions that libraries apply to results, by XLA's names of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from hlo.ir import Instruction
from hlo.library_calls.call import Call


def relu(c: Call, x: Instruction) -> Instruction:
    return c.op("maximum", x, c.number(0, x))


def relu6(c: Call, x: Instruction) -> Instruction:
    et = x.array_shape.element_type
    return c.op("clamp", c.constant(et, 0), x, c.constant(et, 6))


def leaky_relu(c: Call, x: Instruction, slope: float) -> Instruction:
    return c.op("select", c.compare(x, c.number(0, x), "GT"), x, c.times(x, slope))


def elu(c: Call, x: Instruction) -> Instruction:
    below = c.op("exponential-minus-one", x)
    return c.op("select", c.compare(x, c.number(0, x), "GT"), x, below)


def sigmoid(c: Call, x: Instruction) -> Instruction:
    return c.op("logistic", x)


def swish(c: Call, x: Instruction) -> Instruction:
    """SiLU: `x * logistic(x)`."""
    return c.op("multiply", x, sigmoid(c, x))


def tanh(c: Call, x: Instruction) -> Instruction:
    return c.op("tanh", x)


def gelu(c: Call, x: Instruction) -> Instruction:
    """GELU by tanh, `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`."""
    cube = c.op("multiply", c.op("multiply", x, x), x)
    inner = c.times(c.op("add", x, c.times(cube, 0.044715)), math.sqrt(2 / math.pi))
    return _gated(c, x, c.op("tanh", inner))


def gelu_erf(c: Call, x: Instruction) -> Instruction:
    """GELU by the error function, `x / 2 * (1 + erf(x / sqrt(2)))`."""
    return _gated(c, x, c.op("erf", c.times(x, math.sqrt(0.5))))


def _gated(c: Call, x: Instruction, gate: Instruction) -> Instruction:
    return c.op("multiply", c.times(x, 0.5), c.op("add", gate, c.number(1, gate)))


Activation = Callable[[Call, Instruction], Instruction]
