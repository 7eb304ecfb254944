"""Messages to a module.

Everything that parsing HLO text checks is checked here, by the same rules: attributes are decoded
to values, whose text is parsed again. The rest is left to `verify`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from hlo.errors import TextError
from hlo.frontends.proto.attributes import called, encodings
from hlo.frontends.proto.metadata import (
    Payloads,
    read_frontend_attributes,
    read_metadata,
    read_statistics,
)
from hlo.frontends.proto.origin import read_origin, read_recovery
from hlo.frontends.proto.schema import UNPRINTED, Message
from hlo.frontends.proto.shapes import read_literal, read_shape
from hlo.frontends.proto.shardings import read_sharding
from hlo.frontends.text import terminals
from hlo.frontends.text.annotations import ANNOTATIONS
from hlo.frontends.text.header import MODULE_ATTRS, TABLES, ProgramShape
from hlo.ir import Computation, Instruction, Module
from hlo.ir.aliases import BufferDonor, InputOutputAlias
from hlo.ops import OPS, OpSpec
from hlo.ops.aliases import opcode_hint
from hlo.ops.attrs import COMPUTATIONS, LITERAL, Codec
from hlo.values.scan import from_bytes
from hlo.values.sharding import for_leaves
from hlo.values.types import PRED, ArrayShape, Shape

_NAME = re.compile(terminals.BARE_NAME)


def _fail(message: str, m: Message, code: str) -> NoReturn:
    raise TextError(message, m.offset, code=code)


@lru_cache(maxsize=1 << 14)
def _read_text(codec: Codec, text: str) -> Any:
    return codec.parse(text)


def _checked(codec: Codec, value: Any, what: str, m: Message) -> Any:
    """Return a value as parsed from its text. Raises TextError if it is not valid."""
    text = codec.write(value)
    try:
        return _read_text(codec, text)
    except TextError as e:
        raise TextError(f"{what}={text}: {e.message}", m.offset, code=e.code, hint=e.hint) from None


class _Draft(NamedTuple):
    """A computation and its messages."""

    comp: Computation
    message: Message
    by_id: dict[int, Instruction]


def read_module(m: Message) -> Module:
    """Return the module in a HloModuleProto. Raises TextError at the first error."""
    return _ModuleReader(m).module()


class _ModuleReader:
    def __init__(self, m: Message) -> None:
        self._message = m
        self._payloads = Payloads(m.get("payloads"))
        self._drafts: dict[int, _Draft] = {}

    def module(self) -> Module:
        m = self._message
        module = Module(_name(m, "the module") if m.get("name") else "module")
        names: set[str] = set()
        for c in m.get("computations", ()):
            name = _name(c, "a computation")
            number = c.get("id", 0)
            if name in names:
                _fail(f"computation {name} is defined twice", c, "duplicate-name")
            if number in self._drafts:
                _fail(f"two computations have the number {number}", c, "duplicate-name")
            names.add(name)
            thread = c.get("execution_thread") or "main"
            comp = Computation(name, execution_thread=thread)
            comp.backend_config = from_bytes(c.get("backend_config", b""))
            self._drafts[number] = _Draft(comp, c, {})
        for _, draft in sorted(self._drafts.items()):
            self._fill(draft)
            module.add(draft.comp)
        if not self._drafts:
            _fail("the module has no computation", m, "no-entry")
        entry = self._drafts.get(m.get("entry_computation_id", 0))
        if entry is None:
            _fail(f"there is no computation {m.get('entry_computation_id', 0)}, the entry", m,
                  "no-entry")  # fmt: skip
        module.set_entry(entry.comp)
        self._schedule(module)
        self._header(module)
        return module

    # --- the header -----------------------------------------------------------------------------

    def _header(self, module: Module) -> None:
        m, attrs = self._message, module.attrs
        aliases = tuple(
            InputOutputAlias(
                tuple(e.get("output_shape_index", ())), e.get("parameter_number", 0),
                tuple(e.get("parameter_shape_index", ())), e.get("kind") == "MUST_ALIAS",
            )
            for e in m.sub("input_output_alias").get("entries", ())
        )  # fmt: skip
        donors = tuple(
            BufferDonor(e.get("parameter_number", 0), tuple(e.get("parameter_shape_index", ())))
            for e in m.sub("buffer_donor").get("entries", ())
        )
        found: dict[str, Any] = {
            "input_output_alias": aliases,
            "buffer_donor": donors,
            "frontend_attributes": read_frontend_attributes(m.sub("frontend_attributes")),
            "backend_config": from_bytes(m.get("backend_config", b"")),
            "origin_recovery_table": read_recovery(
                m.sub("original_value_recovery_table"), lambda inner: str(read_module(inner))
            ),
        }
        if "host_program_shape" in m:
            program = m["host_program_shape"]
            parameters = tuple(map(read_shape, program.get("parameters", ())))
            found["entry_computation_layout"] = ProgramShape(
                parameters, read_shape(program.sub("result"))
            )
        for key, value in found.items():
            if value:
                attrs[key] = _checked(MODULE_ATTRS[key], value, key, m)
        module.unprinted = {key: m[key] for key in UNPRINTED if key in m}
        index = m.sub("stack_frame_index")
        for table, field in (
            ("FileNames", "file_names"), ("FunctionNames", "function_names"),
            ("FileLocations", "file_locations"), ("StackFrames", "stack_frames"),
        ):  # fmt: skip
            record = TABLES[table]
            lines = index.get(field, [])
            if record is not None:
                lines = [record(*(x.get(f, 0) for f in record._fields)) for x in lines]
            if table == "StackFrames":
                # The text numbers the callers of frames from 2 on; 1 means none.
                lines = [x._replace(parent_frame_id=x.parent_frame_id + 1) for x in lines]
            if index:
                module.tables[table] = lines

    def _schedule(self, module: Module) -> None:
        if "schedule" not in self._message:
            return
        module.attrs["is_scheduled"] = True
        for entry in self._message["schedule"].get("sequences", ()):
            draft = self._drafts.get(entry.get("key", 0))
            if draft is None:
                _fail(f"the schedule has a computation {entry.get('key', 0)}, the module has none",
                      entry, "bad-schedule")  # fmt: skip
            ids = entry.sub("value").get("instruction_ids", [])
            if sorted(ids) != sorted(draft.by_id):
                _fail(f"the schedule of {draft.comp.name} does not name each instruction once",
                      entry, "bad-schedule")  # fmt: skip
            draft.comp.reorder([draft.by_id[i] for i in ids])

    # --- computations ---------------------------------------------------------------------------

    def _fill(self, draft: _Draft) -> None:
        comp, m, by_id = draft
        for i in m.get("instructions", ()):
            number = i.get("id", 0)
            if number in by_id:
                _fail(f"two instructions of {comp.name} have the number {number}", i,
                      "duplicate-name")  # fmt: skip
            name = _name(i, f"an instruction of {comp.name}")
            if comp.get(name) is not None:
                _fail(f"instruction {name} of {comp.name} is defined twice", i, "duplicate-name")
            try:
                by_id[number] = comp.add(self._instruction(i, name, by_id))
            except TextError as e:
                # Offsets in errors of values inside the instruction are relative to those.
                raise TextError(f"{name}: {e.message}", e.offset or i.offset, code=e.code,
                                hint=e.hint) from None  # fmt: skip
        for i in m.get("instructions", ()):
            for before in i.get("control_predecessor_ids", ()):
                if before not in by_id:
                    _fail(f"{i['name']}: {comp.name} has no instruction {before}", i,
                          "undefined-operand")  # fmt: skip
                by_id[i.get("id", 0)].add_control_predecessor(by_id[before])
        root = by_id.get(m.get("root_id", 0))
        if root is None:
            _fail(f"the root of {comp.name} is not one of its instructions", m, "no-root")
        comp.set_root(root)

    def _instruction(self, m: Message, name: str, by_id: dict[int, Instruction]) -> Instruction:
        opcode = m.get("opcode", "")
        spec = OPS.get(opcode)
        if spec is None:
            raise TextError(f"unknown opcode {opcode!r}", m.offset, code="unknown-opcode",
                            hint=opcode_hint(opcode))  # fmt: skip
        operands = []
        for number in m.get("operand_ids", ()):
            operand = by_id.get(number)
            if operand is None:
                _fail(f"there is no instruction {number} before it", m, "undefined-operand")
            operands.append(operand)
        if spec.payload is not None and operands:
            _fail(f"{opcode} takes no operands", m, "operand-count")
        shape = read_shape(m.sub("shape"))
        shapes = [o.shape for o in operands]
        attrs: dict[str, Any] = {}
        for key, encoding in encodings(spec):
            codec = spec.attrs[key].codec
            if codec is LITERAL:
                if "literal" not in m:
                    _fail("a constant without its literal", m, "missing-attribute")
                attrs[key] = read_literal(m["literal"], shape)
                continue
            value = encoding.read(m, shapes)
            settled = spec.attrs[key].settled
            if settled is not None and value is not None:
                value = settled(value, shapes)
            if value is not None:
                value = _checked(codec, value, key, m)
            elif spec.attrs[key].required:
                _fail(f"{opcode} needs {key}", m, "missing-attribute")
            attrs[key] = value
        attrs |= self._callees(m, spec, shapes)
        return Instruction(
            name, opcode, shape, operands, attrs, annotations=self._annotations(m, shape)
        )

    def _callees(self, m: Message, spec: OpSpec, operands: list[Shape]) -> dict[str, Any]:
        """Return the attributes that are computations."""
        found = []
        for number in m.get("called_computation_ids", ()):
            draft = self._drafts.get(number)
            if draft is None:
                _fail(f"there is no computation {number}", m, "undefined-computation")
            found.append(draft.comp)
        keys = called(spec)
        if spec.name == "conditional":
            first = operands[0] if operands else None
            by_pred = isinstance(first, ArrayShape) and first.element_type is PRED
            if not by_pred or len(found) != 2:
                return {"branch_computations": tuple(found)}
            return {"true_computation": found[0], "false_computation": found[1]}
        if any(spec.attrs[k].codec is COMPUTATIONS for k in keys):
            return {"called_computations": tuple(found)}
        needed = [k for k in keys if spec.attrs[k].required]
        if len(found) != len(needed) and len(found) != len(keys):
            _fail(f"{spec.name} calls {len(keys)} computations, not {len(found)}", m,
                  "bad-computation")  # fmt: skip
        return dict(zip(keys, found, strict=False))

    def _annotations(self, m: Message, shape: Shape) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, (field, read) in _ANNOTATIONS.items():
            if field not in m:
                continue
            value = read_metadata(m[field], self._payloads) if read is None else read(m[field])
            if key == "metadata":
                if value.fields:
                    found[key] = value
            elif value:
                found[key] = _checked(ANNOTATIONS[key], value, key, m)
        if "sharding" in found:
            found["sharding"] = for_leaves(found["sharding"], shape)
        payload = m.get("backend_config_payload")
        if payload is not None:
            found["backend_config"] = self._payloads.read(payload)
        return {key: found[key] for key in ANNOTATIONS if key in found}


def _name(m: Message, what: str) -> str:
    name: str = m.get("name", "")
    if not _NAME.fullmatch(name):
        _fail(f"{name!r} is not a valid name for {what}", m, "bad-name")
    return name


# Annotations by name: their field, and how to read it.
_ANNOTATIONS: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "parameter_replication": (
        "parameter_replication", lambda m: tuple(m.get("replicated_at_leaf_buffers", ())),
    ),
    "sharding": ("sharding", read_sharding),
    "frontend_attributes": ("frontend_attributes", read_frontend_attributes),
    "statistics": ("statistics_viz", lambda m: m.get("statistics") and read_statistics(m)),
    "origin": ("original_value", read_origin),
    "metadata": ("metadata", None),
    "backend_config": ("backend_config", from_bytes),
}  # fmt: skip
