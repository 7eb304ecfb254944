"""What is shown of the word under the cursor, in Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.cost import cost_of, cost_of_instruction
from hlo.editor.document import Document
from hlo.editor.names import Symbol, instruction_of, statement_at, symbol_at
from hlo.editor.pages import link_of
from hlo.editor.words import ATTRIBUTE, OPCODE, TYPE, Word, word_at
from hlo.errors import InferError
from hlo.frontends.text.annotations import ANNOTATIONS
from hlo.frontends.text.sugar import AsyncOpcode
from hlo.frontends.text.units import Unit
from hlo.ir import Computation, Instruction
from hlo.ops import OPS, OpSpec, Trait
from hlo.ops.attrs import Attr
from hlo.values.layout.plain import size_bytes
from hlo.values.types import ELEMENT_TYPES, ArrayShape, Shape

_UNITS = ("", "Ki", "Mi", "Gi", "Ti")


@dataclass(frozen=True)
class Hover:
    """Markdown about the characters `[start, end)` of the document."""

    text: str
    start: int
    end: int


def hover(document: Document, offset: int) -> Hover | None:
    """Return what is known of what is at a character; None if nothing is."""
    statement = statement_at(document, offset)
    word = word_at(statement, offset - statement.start)
    if word is None:
        return None
    symbol = symbol_at(document, offset)
    if symbol is not None:
        text = _of_symbol(document, symbol)
    elif word.kind == OPCODE:
        built = statement.built
        text = operation_text(word.text, built.inst if built is not None else None)
    elif word.kind == ATTRIBUTE:
        text = _of_attribute(word, statement.record.opcode.strip() if statement.record else "")
    elif word.kind == TYPE:
        text = _of_type(word.text)
    else:
        return None
    if not text:
        return None
    return Hover(text, statement.start + word.start, statement.start + word.end)


def _of_symbol(document: Document, symbol: Symbol) -> str:
    if symbol.unit is None:
        for unit in document.parsed.units:
            if unit.comp.name == symbol.name and not unit.is_duplicate:
                return _of_computation(unit.comp, unit, document)
        return ""
    inst = instruction_of(symbol)
    return "" if inst is None else _of_instruction(inst, document)


def _of_instruction(inst: Instruction, document: Document) -> str:
    lines = [f"```hlo\n{inst.name} = {inst.shape} {inst.opcode}(...)\n```", size_text(inst.shape)]
    cost = _cost_text(inst, document)
    if cost:
        lines.append(cost)
    metadata = inst.annotations.get("metadata")
    if metadata is not None:
        fields = metadata.fields
        if fields.get("op_name"):
            lines.append(f"op_name: `{fields['op_name']}`")
        if fields.get("source_file"):
            lines.append(f"source: `{fields['source_file']}:{fields.get('source_line', '?')}`")
    return "\n\n".join(line for line in lines if line)


def _cost_text(inst: Instruction, document: Document) -> str:
    if document.module is None or document.diagnostics:
        # What breaks its rule, or calls what may, has no cost.
        if inst.spec.computation_attrs:
            return ""
        try:
            inst.spec.check_arity(len(inst.operands))
            inst.spec.infer(inst)
            inst.spec.verify(inst)
        except InferError:
            return ""
    cost = cost_of_instruction(inst)
    parts = []
    if cost.operations:
        parts.append(f"{cost.operations:,} operations")
    if cost.transcendentals:
        parts.append(f"{cost.transcendentals:,} transcendental functions")
    if cost.bytes:
        parts.append(f"{bytes_text(cost.bytes)} read and written")
    about = "" if cost.exact else " at least"
    return f"cost:{about} " + ", ".join(parts) if parts else ""


def _of_computation(comp: Computation, unit: Unit, document: Document) -> str:
    if not comp.has_root:
        return f"```hlo\n{comp.name}\n```"
    callers = sum(1 for u in document.parsed.units if comp.name in u.calls)
    lines = [f"```hlo\n{'ENTRY ' * unit.is_entry}{comp.name} {comp.signature}\n```"]
    lines.append(f"{len(comp)} instructions" + (f", named in {callers}" if callers else ""))
    if document.module is not None and not document.diagnostics:
        cost = cost_of(comp)
        lines.append(
            f"cost: {cost.operations:,} operations, {bytes_text(cost.bytes)} read and written"
        )
    return "\n\n".join(lines)


def operation_text(opcode: str, inst: Instruction | None = None) -> str:
    """Return the documentation of an operation from the op table."""
    spec = OPS.get(opcode)
    if spec is None:
        wrapped = AsyncOpcode.of(opcode)
        if wrapped is None:
            return ""
        return f"**{opcode}**: an asynchronous `{wrapped.inner.name}`\n\n" + operation_text(
            wrapped.inner.name
        )
    lines = [f"**{opcode}** ({spec.category.value}), {_operands(spec)}"]
    traits = [t.name.lower().replace("_", " ") for t in Trait if t and t.name and spec.has(t)]
    if traits:
        lines.append(", ".join(traits))
    attrs = [
        f"- `{key}`{' (required)' if attr.required else ''}: {_codec(attr)}"
        for key, attr in spec.attrs.items()
        if key != spec.payload
    ]
    if attrs:
        lines.append("\n".join(attrs))
    if inst is not None:
        lines.append(f"here: `{inst.shape}`. {size_text(inst.shape)}")
    lines.append("```hlo\n" + "\n".join(e.strip() for e in spec.examples[:2]) + "\n```")
    link = link_of(spec)
    if link is not None:
        lines.append(link)
    return "\n\n".join(lines)


def _codec(attr: Attr) -> str:
    default = attr.default
    written = "" if default in (None, (), "") else f", by default `{attr.codec.write(default)}`"
    return f"{attr.codec.name}{written}" if not attr.codec.holds_computations else "a computation"


def _operands(spec: OpSpec) -> str:
    if spec.payload is not None:
        return f"`{spec.name}({spec.payload})`"
    low, high = spec.arity if isinstance(spec.arity, tuple) else (spec.arity, spec.arity)
    count = str(low) if low == high else f"{low} or more" if high is None else f"{low} to {high}"
    return f"{count} operand{'' if count == '1' else 's'}"


def _of_attribute(word: Word, opcode: str) -> str:
    spec = OPS.get(opcode)
    attr = spec.attrs.get(word.text) if spec is not None else None
    if attr is not None:
        required = ", required" if attr.required else ""
        return f"**{word.text}** of `{opcode}`{required}: {_codec(attr)}"
    codec = ANNOTATIONS.get(word.text)
    return "" if codec is None else f"**{word.text}** of any operation: {codec.name}"


def _of_type(name: str) -> str:
    found = ELEMENT_TYPES.get(name)
    return "" if found is None else f"**{name}**: {found.bits} bits"


def size_text(shape: Shape) -> str:
    """Return how much memory a value takes in its layout."""
    total = 0
    arrays = [leaf for _, leaf in shape.leaves() if isinstance(leaf, ArrayShape)]
    try:
        for leaf in arrays:
            total += size_bytes(leaf)
    except (InferError, ValueError, OverflowError):
        return ""
    if not arrays:
        return ""
    count = f" in {len(arrays)} arrays" if len(arrays) > 1 else ""
    return f"size: {bytes_text(total)}{count}"


def bytes_text(count: int) -> str:
    """Return a number of bytes for people: `1.5 MiB (1,572,864 bytes)`."""
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    exact = f"{count:,} bytes"
    return exact if unit == 0 else f"{size:.4g} {_UNITS[unit]}B ({exact})"
