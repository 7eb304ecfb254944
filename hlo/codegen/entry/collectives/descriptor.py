"""The description of a collective as a constant: an `hlo_collective` of `hlo_collectives.h`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hlo.codegen.entry.collectives.combine import ERRORS, KIND_NUMBERS, define_combine
from hlo.codegen.entry.collectives.reducer import define_reducer, known_reduction
from hlo.codegen.entry.collectives.structs import COLLECTIVE
from hlo.codegen.entry.records import Record, Records, shape_leaves
from hlo.codegen.llvm import ModuleBuilder
from hlo.codegen.targets.base import LlvmTarget
from hlo.ir import Computation, Instruction
from hlo.ops.collective.device_groups import device_groups, id_groups
from hlo.values.scan import to_bytes
from hlo.values.types import ArrayShape

# Of this opcode rows are cut by numbers in tables.
_RAGGED = "ragged-all-to-all"


@dataclass(frozen=True)
class Described:
    """A collective of a program.

    constant: the address of its description. groups: the devices that meet.
    """

    inst: Instruction
    constant: str
    groups: tuple[tuple[int, ...], ...]


def describe(
    module: ModuleBuilder, inst: Instruction, number: int, device_counts: tuple[int, int],
    target: LlvmTarget,
) -> Described:  # fmt: skip
    """Add the description of a collective to a module.

    number: among those of the program. device_counts: the numbers of replicas and partitions that
    the program is for.
    """
    return _Descriptor(module, inst, number, device_counts, target).described()


class _Descriptor(Records):
    def __init__(
        self, module: ModuleBuilder, inst: Instruction, number: int,
        device_counts: tuple[int, int], target: LlvmTarget,
    ) -> None:  # fmt: skip
        super().__init__(module, f"hlo.collective.{number}")
        self.inst = inst
        self.number = number
        self.device_counts = device_counts
        self.target = target
        self.operands = shape_leaves(inst.operand_shapes)
        self.results = shape_leaves([inst.shape])
        self.groups = device_groups(inst, device_counts)

    def described(self) -> Described:
        """Add the constant."""
        inst, opcode = self.inst, self.inst.opcode
        ends = [sum(map(len, self.groups[: n + 1])) for n in range(len(self.groups))]
        combine = define_combine(self.module, opcode)
        errors = [Record([("ptr", self.string(to_bytes(text)))]) for _, text in ERRORS]
        fields = {
            "size": COLLECTIVE.size,
            "name": self.string(to_bytes(inst.name)),
            "opcode": self.string(to_bytes(opcode)),
            "signature": self.string(to_bytes(self._signature())),
            "kind": KIND_NUMBERS[opcode],
            "number": self.number,
            "channel_id": inst.channel_id or 0,
            "num_replicas": self.device_counts[0],
            "num_partitions": self.device_counts[1],
            "num_groups": len(self.groups),
            "group_ends": self.numbers("i64", list(map(str, ends))),
            "devices": self.numbers("i64", [str(d) for g in self.groups for d in g]),
            "sources": self.numbers("i64", list(map(str, self._sources()))),
            "has_parts": int(inst.split_dimensions is not None),
            "has_dynamic_root": int(bool(inst.has_dynamic_root)),
            "num_operands": len(self.operands),
            "operands": self.array([self._array(n, s) for n, s in enumerate(self.operands)]),
            "num_results": len(self.results),
            "results": self.array([self._array(n, s) for n, s in enumerate(self.results)]),
            "combine": f"@{combine}",
            "errors": self.array(errors),
        }
        record = Record([(type_, str(fields[name])) for name, type_ in COLLECTIVE.fields])
        constant = self.module.define(self.prefix, f"private constant {record}", record.symbols)
        return Described(inst, constant, self.groups)

    def _signature(self) -> str:
        """Return what has to be the same for all that meet."""
        inst = self.inst
        shapes = ", ".join(s.to_string() for s in self.operands)
        parts = [f"{inst.opcode} {shapes}"]
        for name in ("dimensions", "source_target_pairs", "has_dynamic_root"):
            value = inst.attrs.get(name)
            if value:
                parts.append(f"{name}={value}")
        return ", ".join(parts)

    def _sources(self) -> Sequence[int]:
        """Return the place in its group that each place gets data from, -1 for none."""
        if "source_target_pairs" not in self.inst.attrs:
            return ()
        sources = {target: source for source, target in self.inst.source_target_pairs}
        groups = id_groups(self.inst, self.device_counts)
        ids = list(groups[0]) if groups else []
        return [ids.index(sources[i]) if i in sources else -1 for i in ids]

    def _array(self, number: int, shape: ArrayShape) -> Record:
        inst, dims = self.inst, shape.dims
        rows, columns = self._cut(shape)
        part, reduction, reduce = columns, 0, "null"
        if inst.split_dimensions is not None and inst.opcode != _RAGGED:
            _, part = min(self._cut(s) for s in (self.operands[number], self.results[number]))
            if inst.opcode == "all-to-all":
                part = columns // max(1, self._members)
        data = len(self.operands) - bool(inst.has_dynamic_root)
        comp = inst.attrs.get("to_apply")
        if isinstance(comp, Computation) and number < data:
            et = shape.element_type
            reduction = known_reduction(comp, et)
            reduce = f"@{define_reducer(self.module, comp, et, self.target)}"
        width = shape.element_type.byte_width
        return Record(
            [
                self.shape(shape), ("i64", str(width)), ("i64", str(prod(dims))),
                ("i64", str(rows)), ("i64", str(columns)), ("i64", str(part)),
                ("i32", str(reduction)), ("i32", "0"), ("ptr", reduce),
            ]
        )  # fmt: skip

    @property
    def _members(self) -> int:
        """The size of the groups, of collectives of which all have one."""
        return len(self.groups[0]) if self.groups else 1

    def _cut(self, shape: ArrayShape) -> tuple[int, int]:
        """Return the rows and columns of an array at the dimension that is cut.

        Rows are the dimensions that vary slower in memory than it does.
        """
        if self.inst.opcode == _RAGGED:
            first = shape.dims[0] if shape.dims else 1
            return first, prod(shape.dims[1:])
        dims = self.inst.split_dimensions
        if dims is None or dims[0] >= shape.rank:
            return 1, prod(shape.dims)
        assert shape.layout is not None
        order = shape.layout.minor_to_major
        at = order.index(dims[0])
        faster = prod(shape.dims[d] for d in order[: at + 1])
        return prod(shape.dims[d] for d in order[at + 1 :]), faster
