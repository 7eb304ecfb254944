"""What the partitioner did, for people and for programs: text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.ir import Instruction, Module
from hlo.spmd.builder import Note, Program
from hlo.spmd.propagation.graph import running_computations
from hlo.values.sharding import Sharding
from hlo.values.types import ArrayShape, Shape


@dataclass(frozen=True)
class Collective:
    """A collective of the partitioned program.

    Attributes:
        bytes: of its result, on one device and in one run.
    """

    opcode: str
    bytes: int


@dataclass(frozen=True)
class Change:
    """An array whose distribution is changed for an instruction.

    Attributes:
        array: the instruction of the original program that it is the result of.
        source, target: before and after.
        bytes: of the results of its collectives, on one device; 0 for slices only.
    """

    array: str
    shape: Shape
    source: Sharding
    target: Sharding
    bytes: int


@dataclass
class Entry:
    """An instruction of the original program.

    Attributes:
        sharding: what propagation gave to it; None for none: it is replicated.
        origin: where that came from.
        changes: the arrays whose distribution is changed for it.
        collectives: what devices exchange for it, those of the changes included.
    """

    computation: str
    name: str
    opcode: str
    shape: Shape
    sharding: Sharding | None
    origin: str
    changes: list[Change] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """What the partitioner did with a module.

    Attributes:
        module: its name.
        replicas, partitions: the numbers of devices.
        axes: the sizes of the mesh axes that its shardings are told in.
        entries: the instructions, a computation at a time, in the order in which they run.
        notes: the arrays that each device has to have all of.

    >>> module = hlo.parse('''HloModule m, num_partitions=2 ENTRY e {
    ...   x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
    ...   ROOT y = f32[2,4] transpose(x), dimensions={1,0}, sharding={devices=[2,1]<=[2]} }''')
    >>> print(hlo.partition(module).report)
    m: 2 partitions
    <BLANKLINE>
    e:
      x = f32[4,2] parameter  {devices=[2,1]<=[2]}  annotation
      y = f32[2,4] transpose  {devices=[2,1]<=[2]}  annotation
          x: {devices=[2,1]<=[2]} -> {devices=[1,2]<=[2]}, 16 bytes
          all-to-all of 16 bytes
    <BLANKLINE>
    1 collective, 16 bytes on each device
    """

    module: str
    replicas: int
    partitions: int
    axes: tuple[int, ...]
    entries: tuple[Entry, ...]
    notes: tuple[Note, ...]

    @property
    def collectives(self) -> list[Collective]:
        """All collectives; those in loops once."""
        return [c for entry in self.entries for c in entry.collectives]

    def __str__(self) -> str:
        devices = f"{self.partitions} partitions"
        if self.replicas > 1:
            devices = f"{self.replicas} replicas of {devices}"
        if len(self.axes) > 1:
            devices += f", mesh {'x'.join(map(str, self.axes))}"
        lines = [f"{self.module}: {devices}"]
        columns = [_columns(entry) for entry in self.entries]
        widths = [min(60, max((len(c[n]) for c in columns), default=0)) for n in (0, 1)]
        computation = ""
        for entry, (what, sharding, origin) in zip(self.entries, columns, strict=True):
            if entry.computation != computation:
                computation = entry.computation
                lines += ["", f"{computation}:"]
            lines.append(f"  {what:{widths[0]}}  {sharding:{widths[1]}}  {origin}".rstrip())
            lines += [f"      {_change(change)}" for change in entry.changes]
            lines += [f"      {c.opcode} of {c.bytes} bytes" for c in entry.collectives]
        found = self.collectives
        plural = "" if len(found) == 1 else "s"
        moved = sum(c.bytes for c in found)
        lines += ["", f"{len(found)} collective{plural}, {moved} bytes on each device"]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON has it: dicts, lists, strings and numbers."""
        return {
            "module": self.module,
            "replicas": self.replicas,
            "partitions": self.partitions,
            "mesh": list(self.axes),
            "instructions": [_entry_json(entry) for entry in self.entries],
            "collectives": len(self.collectives),
            "bytes": sum(c.bytes for c in self.collectives),
            "notes": [
                {
                    "instruction": note.instruction, "shape": note.shape.to_string(False),
                    "sharding": str(note.source), "reason": note.reason, "bytes": note.bytes,
                }
                for note in self.notes
            ],
        }  # fmt: skip


def entries_of(module: Module, origins: Mapping[Instruction, str]) -> list[Entry]:
    """Return the instructions of a module that is going to be partitioned.

    origins: where shardings came from, for those that it knows.
    """
    return [
        Entry(
            comp.name, inst.name, inst.opcode, inst.shape, inst.annotations.get("sharding"),
            origins.get(inst, ""),
        )
        for comp in running_computations(module)
        for inst in comp.in_order()
    ]  # fmt: skip


def report_of(program: Program, entries: Sequence[Entry]) -> Report:
    """Return the report of a program that has just been written, from these instructions."""
    mesh = program.mesh
    by_name = {(entry.computation, entry.name): entry for entry in entries}
    for reshard in program.reshards:
        by_name[reshard.computation, reshard.user].changes.append(
            Change(
                reshard.instruction, reshard.shape, mesh.tiles(reshard.source),
                mesh.tiles(reshard.target), reshard.bytes,
            )
        )  # fmt: skip
    for user, inst in program.collectives:
        assert user.parent is not None
        entry = by_name[user.parent.name, user.name]
        shapes = [s for _, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
        entry.collectives.append(Collective(inst.opcode, sum(s.byte_size for s in shapes)))
    return Report(
        program.module.name, mesh.replicas, mesh.size, mesh.sizes, tuple(entries),
        tuple(program.notes),
    )  # fmt: skip


def _columns(entry: Entry) -> tuple[str, str, str]:
    what = f"{entry.name} = {entry.shape.to_string(False)} {entry.opcode}"
    return what, _text(entry.sharding), entry.origin


def _text(sharding: Sharding | None) -> str:
    return "{replicated}" if sharding is None else str(sharding)


def _change(change: Change) -> str:
    moved = f"{change.bytes} bytes" if change.bytes else "nothing to send"
    return f"{change.array}: {change.source} -> {change.target}, {moved}"


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "computation": entry.computation,
        "name": entry.name,
        "opcode": entry.opcode,
        "shape": entry.shape.to_string(False),
        "sharding": _text(entry.sharding),
        "origin": entry.origin,
        "reshards": [
            {
                "array": change.array, "from": str(change.source), "to": str(change.target),
                "bytes": change.bytes,
            }
            for change in entry.changes
        ],
        "collectives": [{"opcode": c.opcode, "bytes": c.bytes} for c in entry.collectives],
    }  # fmt: skip
