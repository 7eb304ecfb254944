"""The calls of the host that a program for a GPU makes, as C programs are to make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo.codegen.entry.imports import Imports
from hlo.codegen.entry.records import shape_leaves
from hlo.compiler.binding import import_of
from hlo.errors import HloError, InferError
from hlo.ir import Instruction
from hlo.objects.gpu.calls import (
    Attribute,
    DeviceId,
    FunctionCall,
    HostStep,
    Operation,
    SizeCheck,
)
from hlo.ops import Trait
from hlo.ops.host.custom_targets import CHECK_SIZE, WAIT
from hlo.ops.host.ffi_attributes import (
    API_NUMBERS,
    TYPE_NUMBERS,
    FfiAttribute,
    ffi_attributes,
)
from hlo.ops.rules import need_one_size
from hlo.runtime.outside import Import
from hlo.values.scan import to_bytes
from hlo.values.types import ArrayShape, TupleShape


@dataclass(frozen=True)
class HostCalls:
    """What C programs do for the calls of the host, by number.

    imports: the functions that they call. problem: why they cannot, or None.
    """

    steps: tuple[HostStep, ...]
    imports: tuple[Import, ...]
    problem: HloError | None

    @property
    def uses_host(self) -> bool:
        """True if they need a table of functions, or who runs them."""
        return any(not isinstance(step, SizeCheck) for step in self.steps)


def host_calls(calls: Sequence[Instruction], device_counts: tuple[int, int]) -> HostCalls:
    """Return what C programs do for a program's calls of the host.

    device_counts: the numbers of replicas and partitions that the program is for.
    """
    imports, steps = Imports(), list[HostStep]()
    for inst in calls:
        is_wait = inst.opcode == "custom-call" and inst.custom_call_target == WAIT
        if inst.spec.has(Trait.COLLECTIVE) or is_wait:
            problem = HloError.at(
                "no-launcher", f"{inst.name}: {inst.opcode} needs other devices, which C programs "
                "that run code of a GPU do not reach", inst.span,
            )  # fmt: skip
            return HostCalls((), (), problem)
        try:
            steps.append(_step(inst, imports))
        except InferError as e:
            raise HloError.at(e.code, f"{inst.name}: {e.message}", inst.span, e.hint) from None
    functions = tuple(import_of(inst, device_counts) for inst in imports.instructions)
    return HostCalls(tuple(steps), functions, None)


def _step(inst: Instruction, imports: Imports) -> HostStep:
    if inst.opcode == "custom-call" and inst.custom_call_target == CHECK_SIZE:
        return SizeCheck(str(inst.annotations["backend_config"]))
    if inst.opcode in ("replica-id", "partition-id"):
        return DeviceId(inst.opcode == "partition-id")
    for alias in inst.output_to_operand_aliasing:
        need_one_size(inst, alias)
    return FunctionCall(imports.number(inst), _operation(inst), _in_place(inst))


def _operation(inst: Instruction) -> Operation:
    attrs = inst.attrs
    is_typed = attrs.get("api_version") == "API_VERSION_TYPED_FFI"
    return Operation(
        to_bytes(str(attrs.get("custom_call_target", inst.opcode))),
        to_bytes(str(inst.annotations.get("backend_config", ""))),
        API_NUMBERS.get(str(attrs.get("api_version")), 0),
        isinstance(inst.shape, TupleShape),
        tuple((TYPE_NUMBERS[s.element_type.name], s) for s in shape_leaves(inst.operand_shapes)),
        tuple((TYPE_NUMBERS[s.element_type.name], s) for s in shape_leaves([inst.shape])),
        _attributes(ffi_attributes(inst)) if is_typed else (),
    )


def _attributes(attributes: Mapping[str, FfiAttribute]) -> tuple[Attribute, ...]:
    found = []
    for name, a in attributes.items():
        kind, count, value = a.in_c()
        held: int | bytes | tuple[int, ...] | tuple[Attribute, ...]
        if isinstance(value, dict):
            held = _attributes(value)
        else:
            held = tuple(value) if isinstance(value, list) else value
        found.append(Attribute(to_bytes(name), kind, a.type_number, count, held))
    return tuple(found)


def _in_place(inst: Instruction) -> dict[int, int]:
    """Return the array leaves of the result that are in the memory of an operand's, by number."""
    results = [path for path, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
    operands = [
        (n, path)
        for n, shape in enumerate(inst.operand_shapes)
        for path, s in shape.leaves()
        if isinstance(s, ArrayShape)
    ]
    return {
        results.index(tuple(a.output)): operands.index((a.operand, tuple(a.operand_index)))
        for a in inst.output_to_operand_aliasing
    }
