"""RunHloModuleLiterals: inputs and results of XLA's run_hlo_module, an entry per iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hlo.frontends.proto import pbtxt, wire
from hlo.frontends.proto.schema import Message, schema
from hlo.frontends.proto.shapes import read_literal, write_literal
from hlo.io.formats import PROTO_FIELD
from hlo.values.literal import Literal

_RUN, _ITERATION = "RunHloModuleLiterals", "RunHloModuleIterationLiterals"
# A message of iterations, unlike that of a single iteration, begins with the tag of its field.
_ITERATIONS_START = b"\n"


@dataclass
class Iteration:
    """The values of one run: its arguments, its result, and the result it was compared with."""

    arguments: list[Literal] = field(default_factory=list)
    result: Literal | None = None
    reference_result: Literal | None = None


def read_iterations(data: bytes | str) -> list[Iteration]:
    """Return the values of each run, from the bytes or the text of a message. Raises TextError.

    A message of a single iteration, without the list around it, is accepted as well.
    """
    if isinstance(data, str):
        first = PROTO_FIELD.match(data)
        has_list = first is not None and first["name"] == "iterations"
        message = pbtxt.parse(data, schema()[_RUN if has_list else _ITERATION])
    else:
        has_list = data.startswith(_ITERATIONS_START)
        message = wire.decode(data, schema()[_RUN if has_list else _ITERATION])
    return [_read(m) for m in (message.get("iterations", ()) if has_list else [message])]


def _read(m: Message) -> Iteration:
    results = [read_literal(m[key]) if key in m else None for key in ("result", "reference_result")]
    return Iteration([read_literal(a) for a in m.get("arguments", ())], *results)


def write_iterations(iterations: Sequence[Iteration], *, as_text: bool) -> bytes:
    """Return the message of some runs, as bytes or in its text form."""
    message = Message(iterations=[_written(i) for i in iterations])
    kind = schema()[_RUN]
    return pbtxt.write(message, kind).encode() if as_text else wire.encode(message, kind)


def _written(iteration: Iteration) -> Message:
    m = Message(arguments=[write_literal(a) for a in iteration.arguments])
    for key in ("result", "reference_result"):
        literal = getattr(iteration, key)
        if literal is not None:
            m[key] = write_literal(literal)
    return m
