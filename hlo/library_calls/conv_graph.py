"""Convolutions of cuDNN with a graph of elementwise operations behind them.

The graph is text in the configuration, `2:[f32]conv();5:[f16]scale(2);9:[f16]relu(5);`: each
operation has a number, the type of its result, a name, and the numbers of operands in the graph.
The others are operands of the call after input and filter, in order. Source: XLA's
cudnn_fused_conv_rewriter.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlo.ir import Computation, Instruction
from hlo.library_calls import activations
from hlo.library_calls.call import Call, default_layout, library_call
from hlo.library_calls.convolution import convolve, forward_of

_OPERATION = re.compile(r"\s*(\d+):\[(\w+)\](\w+)\(([\d,\s]*)\);?")
_BINARY = {
    "add": "add", "scale": "multiply", "invscale": "divide", "min": "minimum", "max": "maximum",
}  # fmt: skip
_UNARY: dict[str, activations.Activation] = {"relu": activations.relu, "elu": activations.elu}


@library_call("__cudnn$convForwardGraph", section="cudnn_conv_backend_config")
def _graph(c: Call) -> Computation:
    """The last operation, then the largest absolute values (`amax`) that the graph asks for."""
    text = c.config.text("serialized_graph")
    c.need_operands(2, len(c.operands))
    values: dict[int, Instruction] = {}
    extra = iter(c.operands[2:])
    last, largest, at = None, [], 0
    while at < len(text.rstrip()):
        m = _OPERATION.match(text, at)
        if m is None:
            raise c.wrong(f"serialized_graph {text!r} does not read at {text[at : at + 20]!r}")
        at = m.end()
        number, name = int(m[1]), m[3]
        operands = [_value(c, values, int(n)) for n in m[4].split(",") if n.strip()]
        if name == "conv":
            made = convolve(c, forward_of(c), c.operands[0], c.operands[1], c.wide)
        elif name in _BINARY:
            x = operands[0] if operands else _external(c, extra, name)
            y = operands[1] if len(operands) > 1 else _external(c, extra, name)
            like = x if x.array_shape.rank >= y.array_shape.rank else y
            made = c.op(_BINARY[name], c.fitted(x, like), c.fitted(y, like))
        elif name in _UNARY and len(operands) == 1:
            made = _UNARY[name](c, operands[0])
        elif name == "amax" and len(operands) == 1:
            size = c.op("abs", operands[0])
            largest.append(c.total(size, range(size.array_shape.rank), "maximum"))
            continue
        else:
            raise c.wrong(f"serialized_graph: operation {m[0].strip()!r} is not known",
                          "unsupported")  # fmt: skip
        values[number] = last = made
    if last is None:
        raise c.wrong("serialized_graph is missing")
    if next(extra, None) is not None:
        raise c.wrong("serialized_graph does not use all operands", "operand-count")
    return c.done(last, *largest)


def _value(c: Call, values: dict[int, Instruction], number: int) -> Instruction:
    if number not in values:
        raise c.wrong(f"serialized_graph: there is no operation {number} before its use")
    return values[number]


def _external(c: Call, extra: Iterator[Instruction], name: str) -> Instruction:
    operand = next(extra, None)
    if operand is None:
        raise c.wrong(f"serialized_graph: no operand is left for {name}", "operand-count")
    return c.as_wide(c.relaid(operand, default_layout(operand)))
