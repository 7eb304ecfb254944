"""Programs for GPUs as bytes, for the cache."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.gpu.plan import Copy, HostCall, Launch, LaunchPlan, Place, Region, Step, Switch, While
from hlo.gpu.work import Unit, Work
from hlo.values.shape_text import parse_shape
from hlo.values.types import ArrayShape, Shape


@dataclass(frozen=True)
class StoredProgram:
    """A program for a GPU, which makes no calls of the host.

    arguments, results: the array leaves, result: the value that they are parts of. code: PTX.
    binary: the same assembled, nothing where that was not possible. cost: as of `Executable.cost`.
    """

    arguments: tuple[ArrayShape, ...]
    results: tuple[ArrayShape, ...]
    result: Shape
    plan: LaunchPlan
    code: str
    binary: bytes = b""
    cost: Mapping[str, Any] = field(default_factory=dict)


# The length of a header in JSON and the header, then the sections that it has the lengths of: the
# code, the binary, the pieces of the constants.
_LENGTH = struct.Struct("<Q")


def to_bytes(program: StoredProgram) -> list[bytes | memoryview]:
    """Return a program as pieces of a byte string that `from_bytes` reads."""
    plan = program.plan
    sections: list[bytes | memoryview] = [program.code.encode(), program.binary]
    for _, array in plan.constants:
        sections.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    header = json.dumps(
        {
            "sections": [len(section) for section in sections],
            "arguments": [s.to_string() for s in program.arguments],
            "results": [s.to_string() for s in program.results],
            "result": program.result.to_string(),
            "cost": dict(program.cost),
            "steps": _steps(plan.steps),
            "sizes": [
                plan.arguments, plan.results, plan.arena_bytes, plan.scalar_bytes,
                plan.constant_bytes, plan.counter_bytes,
            ],
            "constants": [offset for offset, _ in plan.constants],
            "aliases": plan.aliases,
        }
    ).encode()  # fmt: skip
    return [_LENGTH.pack(len(header)), header, *sections]


def from_bytes(data: memoryview) -> StoredProgram:
    """Return the program that `to_bytes` was of; its constants are views of the data."""
    [size] = _LENGTH.unpack(data[: _LENGTH.size])
    at = _LENGTH.size + size
    found = json.loads(bytes(data[_LENGTH.size : at]))
    sections = []
    for length in found["sections"]:
        sections.append(data[at : at + length])
        at += length
    code, binary, *pieces = sections
    arguments, results, arena, scalars, constants, counters = found["sizes"]
    arrays = [np.frombuffer(piece, np.uint8) for piece in pieces]
    plan = LaunchPlan(
        _read_steps(found["steps"]), tuple(arguments), tuple(results), arena, scalars, constants,
        list(zip(found["constants"], arrays, strict=True)),
        tuple((result, argument) for result, argument in found["aliases"]), counters,
    )  # fmt: skip
    return StoredProgram(
        tuple(map(_array_shape, found["arguments"])), tuple(map(_array_shape, found["results"])),
        parse_shape(found["result"]), plan, bytes(code).decode(), bytes(binary), found["cost"],
    )  # fmt: skip


def _array_shape(text: str) -> ArrayShape:
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape), text
    return shape


# --- steps --------------------------------------------------------------------------------------


def _steps(steps: Sequence[Step]) -> list[Any]:
    return [_step(step) for step in steps]


def _step(step: Step) -> dict[str, Any]:
    match step:
        case Launch():
            work = step.work
            return {
                "kernel": step.kernel, "grid": [step.blocks, step.threads, step.shared_bytes],
                "places": [_place(p) for p in step.places], "instruction": step.instruction,
                "work": [
                    [[unit.value, count] for unit, count in work.operations],
                    work.global_bytes, work.cached_bytes, work.shared_bytes,
                ],
            }  # fmt: skip
        case Copy():
            return {"copy": [_place(step.target), _place(step.source), step.size]}
        case While():
            return {
                "condition": _steps(step.condition), "flag": _place(step.flag),
                "body": _steps(step.body), "trips": step.trips, "never_ends": step.never_ends,
            }  # fmt: skip
        case Switch():
            return {"index": _place(step.index), "branches": [_steps(b) for b in step.branches]}
        case HostCall():
            raise ValueError("calls of the host are not stored")


def _read_steps(found: Sequence[Any]) -> tuple[Step, ...]:
    return tuple(map(_read_step, found))


def _read_step(found: Mapping[str, Any]) -> Step:
    if "kernel" in found:
        blocks, threads, shared = found["grid"]
        operations, *moved = found["work"]
        work = Work(tuple((Unit(unit), count) for unit, count in operations), *moved)
        places = tuple(map(_read_place, found["places"]))
        return Launch(found["kernel"], blocks, threads, places, shared, found["instruction"], work)
    if "copy" in found:
        target, source, size = found["copy"]
        return Copy(_read_place(target), _read_place(source), size)
    if "condition" in found:
        return While(
            _read_steps(found["condition"]), _read_place(found["flag"]),
            _read_steps(found["body"]), found["trips"], found["never_ends"],
        )  # fmt: skip
    return Switch(_read_place(found["index"]), tuple(map(_read_steps, found["branches"])))


def _place(place: Place) -> list[Any]:
    return [place.region.value, place.offset, place.number]


def _read_place(found: Sequence[Any]) -> Place:
    region, offset, number = found
    return Place(Region(region), offset, number)
