"""A compiled module: native code, and the description that a call needs."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.errors import TextError
from hlo.io.arguments import Parameter, Path
from hlo.io.random import Domain
from hlo.runtime.blocks import ALIGNMENT, block
from hlo.runtime.collectives import Collective
from hlo.runtime.outside import Import
from hlo.values.shape_text import parse_shape
from hlo.values.types import ArrayShape, Shape, arrays_of


@dataclass(frozen=True)
class NativeProgram:
    """A compiled module.

    code: object files, one of which defines `symbol`. constants: the data that the code expects,
    aligned to 64 bytes. aliases: pairs of a result leaf and an argument leaf, by number among the
    array leaves, that share memory: the argument's value has to be in the result's memory before
    the call. cost: counts of one run (`operations`, `transcendentals`, `bytes`) and whether they
    are `exact`. support: the object file with the functions that all programs share. is_parallel:
    some kernels are split into chunks for threads. checks: status codes that the code returns on
    an error, the error's code, and its message. imports: the external functions that the code
    calls by number. collectives: those of several devices. meetings: the object file with the
    functions that they call, empty if there are none. uses_host: it needs the host's table, or its
    device ids. device_counts: the numbers of replicas and of partitions that a run needs. domains:
    the valid ranges of the leaves of parameters, by the parameter's number and index path. elided:
    names of the constants without values that results depend on. unused_devices: the device
    annotations of a module that runs on one device regardless.
    """

    name: str
    symbol: str
    code: tuple[bytes, ...]
    parameters: tuple[Parameter, ...]
    result: Shape
    arena_bytes: int
    constants: np.ndarray
    aliases: tuple[tuple[int, int], ...] = ()
    cost: Mapping[str, int] = field(default_factory=dict)
    support: bytes = b""
    imports: tuple[Import, ...] = ()
    uses_host: bool = False
    device_counts: tuple[int, int] = (1, 1)
    domains: Mapping[tuple[int, Path], Domain] = field(default_factory=dict)
    elided: tuple[str, ...] = ()
    unused_devices: str = ""
    is_parallel: bool = False
    checks: tuple[tuple[int, str, str], ...] = ()
    collectives: tuple[Collective, ...] = ()
    meetings: bytes = b""

    @property
    def arguments(self) -> list[ArrayShape]:
        """The array leaves of the parameters, in order."""
        return [s for p in self.parameters for s in array_leaves(p.shape)]

    @property
    def results(self) -> list[ArrayShape]:
        """The array leaves of the result, in order."""
        return array_leaves(self.result)


def array_leaves(shape: Shape) -> list[ArrayShape]:
    """Return the arrays of a shape: its leaves, and the sizes of those that vary."""
    leaves = (s for _, s in shape.leaves() if isinstance(s, ArrayShape))
    return [s for leaf in leaves for _, s in arrays_of(leaf)]


# --- constants ----------------------------------------------------------------------------------


def constant_data(size_bytes: int, pieces: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """Return one block of memory with each array at its offset."""
    memory = block(size_bytes)
    end = 0
    for offset, data in pieces:
        # The gaps are zeroed, so that equal modules make equal blocks.
        memory[end:offset] = 0
        flat = data.reshape(-1).view(np.uint8)
        end = offset + flat.size
        memory[offset:end] = flat
    memory[end:] = 0
    return memory


# --- as bytes -----------------------------------------------------------------------------------

# The length of a header in JSON and the header, then the sections: the object files of the support
# and of the meetings, the constants, the program's object files, each at a multiple of ALIGNMENT
# from the start.
_LENGTH = struct.Struct("<Q")


def to_bytes(program: NativeProgram) -> list[bytes | memoryview]:
    """Return a program as pieces of a byte string that `from_bytes` reads."""
    sections: list[bytes | memoryview] = [
        program.support, program.meetings, program.constants.data, *program.code
    ]  # fmt: skip
    header = json.dumps(
        {
            "sections": [len(section) for section in sections],
            "name": program.name,
            "symbol": program.symbol,
            "parameters": [[p.number, p.name, p.shape.to_string()] for p in program.parameters],
            "result": program.result.to_string(),
            "arena_bytes": program.arena_bytes,
            "aliases": program.aliases,
            "cost": dict(program.cost),
            "imports": [list(vars(i).values()) for i in program.imports],
            "collectives": [c.to_json() for c in program.collectives],
            "uses_host": program.uses_host,
            "device_counts": program.device_counts,
            "domains": [[n, path, *vars(d).values()] for (n, path), d in program.domains.items()],
            "elided": program.elided,
            "unused_devices": program.unused_devices,
            "is_parallel": program.is_parallel,
            "checks": program.checks,
        }
    ).encode()
    pieces: list[bytes | memoryview] = [_LENGTH.pack(len(header)), header]
    at = _LENGTH.size + len(header)
    for section in sections:
        gap = -at % ALIGNMENT
        pieces += [bytes(gap), section]
        at += gap + len(section)
    return pieces


def from_bytes(data: memoryview) -> NativeProgram:
    """Return the program in `data`, whose constants stay where they are. Raises ValueError."""
    try:
        at = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        header = json.loads(bytes(data[_LENGTH.size : at]))
        sections = []
        for size in header["sections"]:
            at += -at % ALIGNMENT
            sections.append(data[at : at + size])
            at += size
        program = _from_header(header, *sections)
        if at != len(data) or not _is_sound(program):
            raise ValueError("not a compiled program")
        return program
    except (
        struct.error, KeyError, TypeError, AttributeError, OverflowError, RecursionError, TextError
    ) as e:  # fmt: skip
        raise ValueError(f"not a compiled program: {e}") from None


def _is_sound(program: NativeProgram) -> bool:
    """Return whether the parts of a program have the right types and are consistent."""
    p = program
    texts = (p.name, p.symbol, p.unused_devices, *p.elided, *(x.name for x in p.parameters))
    texts += tuple(text for _, *texts_of_check in p.checks for text in texts_of_check)
    texts += tuple(text for i in p.imports for text in (i.opcode, i.target, i.text))
    texts += tuple(text for c in p.collectives for text in c.texts)
    counts = (p.arena_bytes, *p.device_counts, *(i.api_version for i in p.imports))
    counts += tuple(d for c in p.collectives for group in c.groups for d in group)
    places = [(len(p.results), out) for out, _ in p.aliases]
    places += [(len(p.arguments), argument) for _, argument in p.aliases]
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(n) is int and n >= 0 for n in counts)
        and all(type(n) is int and 0 <= n < end for end, n in places)
        and [x.number for x in p.parameters] == list(range(len(p.parameters)))
        and len(p.device_counts) == 2 and all(p.device_counts)
        and isinstance(p.cost, dict) and isinstance(p.uses_host, bool)
        and isinstance(p.is_parallel, bool)
    )  # fmt: skip


def _from_header(
    header: dict[str, Any], support: memoryview, meetings: memoryview, constants: memoryview,
    *code: memoryview,
) -> NativeProgram:  # fmt: skip
    return NativeProgram(
        header["name"],
        header["symbol"],
        tuple(map(bytes, code)),
        tuple(
            Parameter(number, name, parse_shape(text))
            for number, name, text in header["parameters"]
        ),
        parse_shape(header["result"]),
        header["arena_bytes"],
        np.frombuffer(constants, np.uint8),
        tuple((out, arg) for out, arg in header["aliases"]),
        header["cost"],
        bytes(support),
        tuple(Import(*fields) for fields in header["imports"]),
        header["uses_host"],
        tuple(header["device_counts"]),
        {(n, tuple(path)): Domain(*rest) for n, path, *rest in header["domains"]},
        tuple(header["elided"]),
        header["unused_devices"],
        header["is_parallel"],
        tuple((number, code, message) for number, code, message in header["checks"]),
        tuple(Collective.from_json(c) for c in header["collectives"]),
        bytes(meetings),
    )
