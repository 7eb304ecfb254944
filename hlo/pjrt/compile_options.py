"""What JAX says of a compilation: a CompileOptionsProto."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hlo.errors import TextError
from hlo.frontends.proto import wire
from hlo.frontends.proto.schema import Message, schema
from hlo.pjrt.entries import PjrtError
from hlo.pjrt.options import COMPILER_OPTIONS, Options, with_option
from hlo.values.types import Shape

_INTEGERS = {"int32": 31, "int64": 63}
_INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class CompileOptions:
    """A decoded CompileOptionsProto.

    content: its bytes. options: the client's, with what the program's `compiler_options` change.
    assignment: for each replica the devices of its partitions; None where the caller leaves that
    open. argument_layouts, result_layout: shapes with layouts, where they are given.
    outputs_may_be_cut: per output, or one for all, whether the compiler chooses its sharding;
    arguments_may_be_cut likewise.
    """

    # Equal options differ in it: it has maps, and what only XLA knows.
    content: bytes = field(repr=False)
    options: Options
    num_replicas: int = 1
    num_partitions: int = 1
    assignment: tuple[tuple[int, ...], ...] | None = None
    argument_layouts: tuple[Shape, ...] | None = None
    result_layout: Shape | None = None
    is_portable: bool = False
    outputs_may_be_cut: tuple[bool, ...] = ()
    arguments_may_be_cut: tuple[bool, ...] = ()

    @property
    def num_devices(self) -> int:
        """How many devices a run takes."""
        return self.num_replicas * self.num_partitions


def _shape(message: Message) -> Shape:
    from hlo.frontends.proto.shapes import read_shape

    return read_shape(message)


def read_compile_options(content: bytes, options: Options) -> CompileOptions:
    """Return the options in the bytes of a message, for a client with options of its own.

    Raises PjrtError, or HloError for values of our own options.
    """
    try:
        message = wire.decode(content, schema()["CompileOptionsProto"])
        build = message.sub("executable_build_options")
        arguments = tuple(_shape(m) for m in message.get("argument_layouts", ()))
        result = _shape(build["result_layout"]) if "result_layout" in build else None
    except TextError as e:
        raise PjrtError("INVALID_ARGUMENT", f"the compile options cannot be read: {e}") from None
    replicas, partitions = (max(1, build.get(k, 1)) for k in ("num_replicas", "num_partitions"))
    return CompileOptions(
        content,
        _overridden(options, message),
        replicas,
        partitions,
        _assignment(build, replicas, partitions),
        arguments or None,
        result,
        message.get("compile_portable_executable", False),
        tuple(build.get("allow_spmd_sharding_propagation_to_output", ())),
        tuple(build.get("allow_spmd_sharding_propagation_to_parameters", ())),
    )


def _assignment(
    build: Message, replicas: int, partitions: int
) -> tuple[tuple[int, ...], ...] | None:
    """Return the devices by replica and partition. The message has them the other way round."""
    if "device_assignment" not in build:
        return None
    columns = [
        m.get("replica_device_ids", [])
        for m in build["device_assignment"].get("computation_devices", ())
    ]
    if len(columns) != partitions or any(len(c) != replicas for c in columns):
        raise PjrtError(
            "INVALID_ARGUMENT", f"the device assignment is not of {replicas} x {partitions} devices"
            " (replicas, partitions)",
        )  # fmt: skip
    return tuple(tuple(c[r] for c in columns) for r in range(replicas))


def assignment_bytes(assignment: tuple[tuple[int, ...], ...]) -> bytes:
    """Return the bytes of a DeviceAssignmentProto."""
    columns = [Message(replica_device_ids=list(c)) for c in zip(*assignment, strict=True)]
    message = Message(
        replica_count=len(assignment), computation_count=len(columns), computation_devices=columns
    )
    return wire.encode(message, schema()["DeviceAssignmentProto"])


# --- options by name -----------------------------------------------------------------------------


def _overridden(options: Options, message: Message) -> Options:
    """Return options with the values that `compiler_options` give them."""
    for given in message.get("env_option_overrides", ()):
        name = given.get("key", "")
        value = next(iter(given.sub("value").values()), "")
        if name in COMPILER_OPTIONS:
            options = with_option(options, COMPILER_OPTIONS[name], value, name)
        elif name in _of_xla():
            _check(name, value, _of_xla()[name])
        else:
            raise PjrtError("INVALID_ARGUMENT", f"No such compile option: '{name}'")
    return options


def _check(name: str, value: Any, kind: str) -> None:
    """Raise PjrtError, in XLA's words, for a value that an option of XLA's does not have."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    fits = True
    if kind == "bool":
        fits = isinstance(value, bool) or text.lower() in ("true", "false")
    elif kind in _INTEGERS:
        fits = not isinstance(value, bool | float) and _INTEGER.fullmatch(text) is not None
        fits = fits and -(2 ** _INTEGERS[kind]) <= int(text) < 2 ** _INTEGERS[kind]
    elif kind == "float":
        fits = not isinstance(value, bool) and _is_number(text)
    elif kind in ("string", "enum"):
        fits = isinstance(value, str)
    if not fits:
        raise PjrtError(
            "INVALID_ARGUMENT",
            f"While setting option {name}, '{text}' is not a valid {kind} value.",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@cache
def _of_xla() -> Mapping[str, str]:
    """Return the type of each of XLA's debug options."""
    lines = Path(__file__).with_name("xla_options.txt").read_text().splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {name: kind for kind, *names in rows for name in names}
