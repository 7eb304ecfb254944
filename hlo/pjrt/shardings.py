"""PJRT's extension for shardings: how arguments and results are cut among devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.pjrt.entries import entry
from hlo.pjrt.executables import EXECUTABLES, Executable


def _answer(
    args: Any, e: Executable, side: str, shardings: Sequence[str] | None, count: int
) -> int:
    """Set the arrays of an answer; returns how many shardings there are, none being null."""
    key = f"{side} shardings"
    if key not in e.kept:
        contents = [_message(s) for s in shardings or ()]
        e.kept[key] = e.held.strings(contents) if contents else (0, 0)
    args.shardings, args.sharding_sizes = e.kept[key]
    return count


def _message(sharding: str) -> bytes:
    """Return a sharding as an OpSharding."""
    from hlo.frontends.proto import wire
    from hlo.frontends.proto.schema import schema
    from hlo.frontends.proto.shardings import write_sharding
    from hlo.values.scan import Scanner
    from hlo.values.sharding.text import read_sharding

    return wire.encode(write_sharding(read_sharding(Scanner(sharding))), schema()["OpSharding"])


@entry("Shardings_PJRT_Executable_ParameterShardings")
def _parameter_shardings(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    shardings, count = e.program.shape.argument_shardings, len(e.program.shape.arguments)
    args.num_parameters = _answer(args, e, "parameter", shardings, count)


@entry("Shardings_PJRT_Executable_OutputShardings")
def _output_shardings(args: Any) -> None:
    e = EXECUTABLES[args.executable]
    shardings, count = e.program.shape.result_shardings, len(e.program.shape.results)
    args.num_outputs = _answer(args, e, "output", shardings, count)
