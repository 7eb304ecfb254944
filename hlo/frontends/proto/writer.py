"""A module to messages.

Computations are written callees first and instructions in topological order, as XLA's reader
requires. The compile options in the header of the text (`replica_count`, `num_partitions`,
`allow_spmd_sharding_propagation_to_*`, `alias_passthrough_params`) have no fields in the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hlo.frontends.proto.attributes import called, encodings, usual_comparison
from hlo.frontends.proto.metadata import write_frontend_attributes, write_metadata, write_statistics
from hlo.frontends.proto.origin import write_origin, write_recovery
from hlo.frontends.proto.schema import Message
from hlo.frontends.proto.shapes import write_literal, write_program_shape, write_shape
from hlo.frontends.proto.shardings import write_sharding
from hlo.frontends.text import parse
from hlo.frontends.text.header import FileLocation, StackFrame
from hlo.frontends.text.order import instruction_post_order, post_order
from hlo.ir import Computation, Instruction, Module
from hlo.ir.names import unique_names
from hlo.ops.attrs import LITERAL
from hlo.values.scan import to_bytes
from hlo.verifier import verify

# Annotations by name: their field, and how to write it.
_ANNOTATIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "parameter_replication": (
        "parameter_replication", lambda v: Message(replicated_at_leaf_buffers=list(v)),
    ),
    "sharding": ("sharding", write_sharding),
    "frontend_attributes": ("frontend_attributes", write_frontend_attributes),
    "statistics": ("statistics_viz", write_statistics),
    "origin": ("original_value", write_origin),
    "metadata": ("metadata", write_metadata),
    "backend_config": ("backend_config", to_bytes),
}  # fmt: skip

# Ids of instructions have the id of the computation above these bits, as in XLA.
_COMPUTATION_BITS = 32


class Numbering(NamedTuple):
    """The computations and their instructions in the order in which they are written, and ids.

    XLA's reader needs callees and operands first, and orders computations by their ids.
    """

    order: dict[Computation, list[Instruction]]
    ids: dict[Computation | Instruction, int]


def numbering_of(module: Module) -> Numbering:
    """Return ids that count the computations, and the instructions of each of them."""
    order = {comp: comp.in_order() for comp in module.callees_first()}
    ids: dict[Computation | Instruction, int] = {c: n for n, c in enumerate(module.computations)}
    for comp, instructions in order.items():
        first = first_id(ids[comp])
        ids |= {inst: first + n for n, inst in enumerate(instructions)}
    return Numbering(order, ids)


def first_id(computation: int) -> int:
    """Return the first id of the instructions in the computation of an id."""
    return computation << _COMPUTATION_BITS


# Messages that XLA writes for each instruction even if they are empty.
_ALWAYS = ("metadata", "frontend_attributes", "statistics_viz")


def write_xla_module(module: Module) -> Message:
    """Return the HloModuleProto as XLA writes it: in the order of the graph, with empty messages.

    Raises InferError for what messages cannot express.
    """
    m = write_module(module)
    messages = dict(zip(module.callees_first(), m["computations"], strict=True))
    m["computations"] = [messages[comp] for comp in post_order(module)]
    for comp, of in messages.items():
        written = dict(zip(comp.in_order(), of["instructions"], strict=True))
        of["instructions"] = [written[inst] for inst in instruction_post_order(comp)]
        for i in of["instructions"]:
            for key in _ALWAYS:
                i.setdefault(key, Message())
    m.setdefault("frontend_attributes", Message())
    return m


def write_module(module: Module, numbering: Numbering | None = None) -> Message:
    """Return the HloModuleProto of a module. Raises InferError for what messages cannot express.

    numbering: by default that of `numbering_of`.
    """
    order, ids = numbering or numbering_of(module)
    names = unique_names(order)
    fused = {
        callee
        for inst in module.instructions()
        if inst.opcode == "fusion"
        for callee in inst.called_computations
    }
    m = Message(
        name=module.name,
        entry_computation_name=module.entry.name,
        entry_computation_id=ids[module.entry],
        computations=[
            _computation(c, instructions, ids, names, is_fused=c in fused)
            for c, instructions in order.items()
        ],
    )
    parameters, result = module.program_shapes
    m["host_program_shape"] = write_program_shape(
        parameters, result, [f"p{i}" for i in range(len(parameters))]
    )
    if module.is_scheduled:
        m["schedule"] = Message(
            sequences=[
                Message(key=ids[c], value=Message(instruction_ids=[ids[i] for i in c]))
                for c in order
                if c not in fused
            ]
        )
    _header(module, m)
    return m


def _header(module: Module, m: Message) -> None:
    attrs = module.attrs
    m["input_output_alias"] = Message(
        entries=[
            Message(
                output_shape_index=list(a.output), parameter_number=a.parameter,
                parameter_shape_index=list(a.index), kind="MUST_ALIAS" if a.must else "MAY_ALIAS",
            )
            for a in attrs.get("input_output_alias", ())
        ]
    )  # fmt: skip
    m["buffer_donor"] = Message(
        entries=[
            Message(parameter_number=d.parameter, parameter_shape_index=list(d.index))
            for d in attrs.get("buffer_donor", ())
        ]
    )
    m.update(module.unprinted)
    if "origin_recovery_table" in attrs:
        m["original_value_recovery_table"] = write_recovery(
            attrs["origin_recovery_table"], _recovery_module
        )
    if attrs.get("frontend_attributes"):
        m["frontend_attributes"] = write_frontend_attributes(attrs["frontend_attributes"])
    if attrs.get("backend_config"):
        m["backend_config"] = to_bytes(attrs["backend_config"])
    if module.tables:
        tables = module.tables
        m["stack_frame_index"] = Message(
            file_names=list(tables.get("FileNames", ())),
            function_names=list(tables.get("FunctionNames", ())),
            file_locations=_records(tables.get("FileLocations", ())),
            # The text numbers the callers of frames from 2 on; 1 means none.
            stack_frames=_records(
                f._replace(parent_frame_id=f.parent_frame_id - 1)
                for f in tables.get("StackFrames", ())
            ),
        )


def _recovery_module(text: str) -> Message:
    module = parse(text, "origin_recovery_table")
    verify(module)
    return write_module(module)


def _records(lines: Any) -> list[Message]:
    records: list[FileLocation | StackFrame] = list(lines)
    return [Message(record._asdict()) for record in records]


def _computation(
    comp: Computation,
    order: list[Instruction],
    ids: dict[Computation | Instruction, int],
    names: dict[Instruction, str],
    *,
    is_fused: bool,
) -> Message:
    m = Message(
        name=comp.name,
        id=ids[comp],
        instructions=[_instruction(i, names[i], ids) for i in order],
        program_shape=write_program_shape(
            comp.parameter_shapes, comp.result_shape, [names[p] for p in comp.parameters]
        ),
        root_id=ids[comp.root],
        is_fusion_computation=is_fused,
    )
    if comp.execution_thread != "main":
        m["execution_thread"] = comp.execution_thread
    if comp.backend_config:
        m["backend_config"] = to_bytes(comp.backend_config)
    return m


def _instruction(
    inst: Instruction, name: str, ids: dict[Computation | Instruction, int]
) -> Message:
    m = Message(
        name=name,
        opcode=inst.opcode,
        shape=write_shape(inst.shape),
        id=ids[inst],
        operand_ids=[ids[o] for o in inst.operands],
        control_predecessor_ids=[ids[o] for o in inst.control_predecessors],
    )
    for key, encoding in encodings(inst.spec):
        value = inst.attrs[key]
        if inst.spec.attrs[key].codec is LITERAL:
            m["literal"] = write_literal(value)
        elif value is not None:
            encoding.write(value, m)
    if inst.opcode == "compare":
        # XLA writes it even where there is only one possibility.
        m.setdefault("comparison_type", usual_comparison([o.shape for o in inst.operands]))
    callees: list[Computation] = []
    for key in called(inst.spec):
        value = inst.attrs[key]
        callees += value if isinstance(value, tuple) else [] if value is None else [value]
    m["called_computation_ids"] = [ids[c] for c in callees]
    for key, value in inst.annotations.items():
        field, write = _ANNOTATIONS[key]
        m[field] = write(value)
    return m
