"""The times of a profile, at the instructions of a module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hlo.errors import HloError
from hlo.io.files import read_text
from hlo.ir import Instruction, Module

# Entries that are no instruction: what is around the kernels.
_AROUND = frozenset({"entry", "call", "results"})


@dataclass(frozen=True)
class Times:
    """Seconds of one run by instruction; `elsewhere` is what no instruction of the module took."""

    seconds: Mapping[Instruction, float]
    elsewhere: float


def read_profile(given: Any) -> Mapping[str, Any] | None:
    """Return a profile as JSON: of a profile, of its JSON, or of a file with it; None for None.

    Raises HloError for what is no profile, and for files that cannot be read.
    """
    if given is None:
        return None
    if isinstance(given, str | Path):
        text = read_text(given)
        try:
            given = json.loads(text)
        except ValueError as e:
            raise HloError.at("bad-file", f"{given}: not JSON: {e}") from None
    elif hasattr(given, "to_json"):
        given = given.to_json()
    # One a device, where there are several: the first.
    if isinstance(given, list) and given:
        given = given[0]
    entries_of(given)
    return given


def times_of(module: Module, profile: Mapping[str, Any]) -> Times:
    """Return what a profile, as `hlo-run --profile` writes it, says of a module's instructions.

    A kernel counts at the instruction that it is named after, or the call of a library of which
    that is a part. Where passes have renamed or replaced that, its time is elsewhere. Raises
    HloError for what is no profile.
    """
    by_name: dict[str, list[Instruction]] = {}
    for comp in module.computations:
        for inst in comp:
            by_name.setdefault(inst.name, []).append(inst)
    seconds: dict[Instruction, float] = {}
    elsewhere = 0.0
    for entry in entries_of(profile):
        names = [entry["name"], *entry.get("fused", ())] if entry["kind"] not in _AROUND else []
        found = None
        calls = [call for own in names for call in _calls_of(own, by_name)]
        for name in [*names, *calls]:
            same = by_name.get(name, [])
            inside = [i for i in same if i.parent and i.parent.name == entry.get("computation")]
            if len(inside) == 1 or len(same) == 1:
                found = (inside or same)[0]
                break
        if found is None:
            elsewhere += entry["self_s"]
        else:
            seconds[found] = seconds.get(found, 0.0) + entry["self_s"]
    return Times(seconds, elsewhere)


def _calls_of(name: str, by_name: Mapping[str, list[Instruction]]) -> Iterator[str]:
    """Yield the calls that an instruction came from: `gemm.1` is what `gemm.1.dot` is a part of."""
    while "." in name:
        name = name.rpartition(".")[0]
        if all(inst.opcode == "custom-call" for inst in by_name.get(name, [])):
            yield name


def entries_of(profile: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries of a profile. Raises HloError for what is no profile."""
    entries = profile.get("entries") if isinstance(profile, Mapping) else None
    if not isinstance(entries, list) or not all(_is_entry(e) for e in entries):
        raise HloError.at(
            "bad-value", "this is not a profile",
            hint="hlo-run model.hlo --profile=profile.json writes one",
        )  # fmt: skip
    return entries


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("kind"), str)
        and isinstance(entry.get("self_s"), int | float)
    )
