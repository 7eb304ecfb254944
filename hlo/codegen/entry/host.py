"""Calls of external functions: custom calls, queues, random state.

The entry refers to external functions by number: its caller passes a table of them, so that an
object has no undefined symbols and no state. Their arguments are declared in
`hlo/include/hlo_ffi.h`, which matches this file. A call that fails ends the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo.analysis.started import is_started, started_by
from hlo.codegen.entry.collectives.calls import emit_collective, emit_wait, table_of
from hlo.codegen.entry.commands import HostCall
from hlo.codegen.entry.records import Record, Records, shape_leaves
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import Builder, ModuleBuilder, Val, i32, i64, ptr
from hlo.codegen.plan.liveness import Path
from hlo.codegen.scalar import operations as scalar
from hlo.errors import HloError, InferError
from hlo.ir import Instruction
from hlo.llvm import Function
from hlo.ops import Trait
from hlo.ops.host.custom_targets import CHECK_SIZE, WAIT
from hlo.ops.host.ffi_attributes import API_NUMBERS, FfiAttribute, ffi_attributes
from hlo.ops.rules import need_one_size
from hlo.values.scan import to_bytes
from hlo.values.types import ArrayShape, Shape, TupleShape

_CALL = "{ i64, ptr, ptr, ptr, ptr, ptr, i64 }"
_HOST = "{ ptr, i64, i32, i32, ptr, [0 x { ptr, ptr }] }"
_DEVICE_IDS = {"replica-id": 0, "partition-id": 1}


def _emit_check(e: EntryState, inst: Instruction) -> None:
    """Emit the check that ends the program for a size outside its bound."""
    b, (size, bound) = e.b, map(e.scalar, inst.operands)
    assert isinstance(size, Val) and isinstance(bound, Val)
    stop, go = b.new_label("outside"), b.new_label("inside")
    bad = b.icmp("ugt", size, bound)
    b.branch(bad, stop, go)
    b.place(stop)
    message = str(inst.annotations["backend_config"])
    b.ret(i32(e.imports.check("index-out-of-range", message)))
    b.place(go)


def emit_host(e: EntryState, command: HostCall) -> None:
    """Emit an instruction that the host runs, or that queries the device ids."""
    inst, targets = command.inst, command.results
    if inst.opcode == "custom-call" and inst.custom_call_target == CHECK_SIZE:
        _emit_check(e, inst)
        return
    if inst.opcode == "custom-call" and inst.custom_call_target == WAIT:
        emit_wait(e, started_by(inst))
        for buffer, operand in zip(targets.values(), inst.operands, strict=False):
            source = leaf_addresses(e, operand)[0]
            if source != e.pointers[buffer]:
                e.copy_bytes(source, e.pointers[buffer], operand.array_shape)
        return
    e.imports.uses_host = True
    if inst.opcode in _DEVICE_IDS:
        _define_device_id(e.module)
        args = [ptr("%host"), i64(_DEVICE_IDS[inst.opcode])]
        e.scalars[inst, ()] = e.b.call("hlo.device_id", args, "i32")
        return
    pointers = {path: e.pointers[buffer] for path, buffer in targets.items()}
    operands = _operand_addresses(e, inst)
    if inst.spec.has(Trait.COLLECTIVE):
        emit_collective(e, inst, operands, list(pointers.values()), is_apart=is_started(inst))
    else:
        _call_function(e, inst, operands, pointers)
    for path, pointer in pointers.items():
        leaf = inst.shape.at(path)
        assert isinstance(leaf, ArrayShape)
        if not leaf.dims:
            e.scalars[inst, path] = scalar.load(e.b, leaf.element_type, pointer, 0)


def _call_function(
    e: EntryState, inst: Instruction, operands: list[str], pointers: Mapping[Path, str]
) -> None:
    """Emit the call of an external function."""
    b, number = e.b, e.imports.number(inst)
    _check(inst)
    # Operands that the call updates in place have to be in the result's buffer.
    leaf_number = _leaf_numbers(inst.operand_shapes)
    for alias in inst.output_to_operand_aliasing:
        at = leaf_number[alias.operand, tuple(alias.operand_index)]
        target, leaf = pointers[tuple(alias.output)], inst.shape.at(alias.output)
        assert isinstance(leaf, ArrayShape)
        if operands[at] != target:
            e.copy_bytes(operands[at], target, leaf)
        operands[at] = target
    tables = [table_of(e, addresses) for addresses in (operands, list(pointers.values()))]
    _define_call_out(e.module)
    try:
        op = Description(e.module, f"hlo.op.{number}").op(inst)
    except InferError as error:
        message = f"{inst.name}: {error.message}"
        raise HloError.at(error.code, message, inst.span, error.hint) from None
    args = [ptr("%host"), i64(number), ptr(op), *map(ptr, tables)]
    failed = b.call("hlo.call_out", args, "i32")
    stop, go = b.new_label("failed"), b.new_label("called")
    bad = b.icmp("ne", failed, 0)
    b.branch(bad, stop, go)
    b.place(stop)
    b.ret(i32(number + 1))
    b.place(go)


def _check(inst: Instruction) -> None:
    """Raise HloError unless values that a call updates in place keep their shape."""
    for alias in inst.output_to_operand_aliasing:
        try:
            need_one_size(inst, alias)
        except InferError as e:
            raise HloError.at(e.code, f"{inst.name}: {e.message}", inst.span) from None


def _leaf_numbers(shapes: Sequence[Shape]) -> dict[tuple[int, Path], int]:
    """Return the numbers of array leaves by operand and index path."""
    found: dict[tuple[int, Path], int] = {}
    for n, shape in enumerate(shapes):
        for path, leaf in shape.leaves():
            if isinstance(leaf, ArrayShape):
                found[n, path] = len(found)
    return found


def _operand_addresses(e: EntryState, inst: Instruction) -> list[str]:
    """Return the addresses of all array leaves of the operands."""
    return [address for operand in inst.operands for address in leaf_addresses(e, operand)]


def leaf_addresses(e: EntryState, operand: Instruction) -> list[str]:
    """Return the addresses of the array leaves of a value; scalars are stored first."""
    found = []
    for path, leaf in operand.shape.leaves():
        if not isinstance(leaf, ArrayShape):
            continue
        buffer = e.buffer(operand, path)
        if buffer is not None:
            found.append(e.pointers[buffer])
            continue
        value = e.scalar(operand, path)
        et = leaf.element_type
        slot = e.b.alloca(scalar.memory_type(et), 2 if et.is_complex else 1, align=16)
        scalar.store(e.b, et, value, slot.name, 0)
        found.append(slot.name)
    return found


def _define_call_out(module: ModuleBuilder) -> None:
    """Add the function that calls an external function; it returns 0, or 1 for a failure."""
    if "hlo.call_out" in module.functions:
        return
    names = ("%host", "%n", "%op", "%operands", "%results")
    parameters = [f"{'i64' if name == '%n' else 'ptr'} {name}" for name in names]
    function = Function("hlo.call_out", parameters, result="i32", linkage="internal")
    module.add(function)
    b = Builder(module)
    call = b.alloca(_CALL).name
    missing, look, go = (b.new_label(x) for x in ("missing", "look", "go"))
    b.branch(b.icmp("eq", ptr("%host"), "null"), missing, look)
    b.place(look)

    def entry(field: int) -> Val:
        return b.load("ptr", b.field_address(_HOST, "%host", i64(0), i32(5), i64("%n"), i32(field)))

    handler = entry(0)
    b.branch(b.icmp("eq", handler, "null"), missing, go)
    b.place(missing)
    b.ret(i32(1))
    b.place(go)
    # The size of the struct is what a second one would be behind null.
    size = b.cast("ptrtoint", ptr(b.field_address(_CALL, "null", i64(1))), "i64")
    room = b.load("i64", b.field_address(_HOST, "%host", i64(0), i32(1)))
    fields = [size, entry(1), ptr("%op"), ptr("%operands"), ptr("%results"),
              b.load("ptr", "%host"), room]  # fmt: skip
    for n, value in enumerate(fields):
        b.store(value, b.field_address(_CALL, call, i64(0), i32(n)) if n else call)
    b.ret(b.call_address(handler, [ptr(call)], "i32"))
    b.finish(function)


def _define_device_id(module: ModuleBuilder) -> None:
    """Add the function that returns an id of the device that the program runs on."""
    if "hlo.device_id" in module.functions:
        return
    parameters = ["ptr %host", "i64 %offset"]
    function = Function("hlo.device_id", parameters, result="i32", linkage="internal")
    module.add(function)
    b = Builder(module)
    zero, look = b.new_label("zero"), b.new_label("look")
    b.branch(b.icmp("eq", ptr("%host"), "null"), zero, look)
    b.place(zero)
    b.ret(i32(0))
    b.place(look)
    ids = b.field_address(_HOST, "%host", i64(0), i32(2))
    b.ret(b.load("i32", b.field_address("i32", ids, i64("%offset"))))
    b.finish(function)


# --- descriptions of calls ----------------------------------------------------------------------


class Description(Records):
    """Writes the constants that describe an instruction: shapes and attributes."""

    def __init__(self, module: ModuleBuilder, prefix: str) -> None:
        super().__init__(module, prefix)
        # What fills a union of eight bytes up behind a pointer.
        self._pad = [("i32", "0")] if module.pointer_bits == 32 else []

    def op(self, inst: Instruction) -> str:
        """Return the name of the constant that describes a call."""
        if self.prefix in self.module.globals:
            return f"@{self.prefix}"
        attrs = inst.attrs
        typed = attrs.get("api_version") == "API_VERSION_TYPED_FFI"
        config = to_bytes(str(inst.annotations.get("backend_config", "")))
        target = to_bytes(str(attrs.get("custom_call_target", inst.opcode)))
        results = shape_leaves([inst.shape])
        operands = shape_leaves(inst.operand_shapes)
        attributes = ffi_attributes(inst) if typed else {}
        fields = [
            ("ptr", self.string(target)), ("ptr", self.string(config)), ("i64", str(len(config))),
            ("i32", str(API_NUMBERS.get(str(attrs.get("api_version")), 0))),
            ("i32", str(int(isinstance(inst.shape, TupleShape)))),
            ("i64", str(len(operands))), ("ptr", self.array(list(map(self.shape, operands)))),
            ("i64", str(len(results))), ("ptr", self.array(list(map(self.shape, results)))),
            ("i64", str(len(attributes))), ("ptr", self._attributes(attributes)),
        ]  # fmt: skip
        constant = Record(fields)
        value = f"private constant {constant}"
        return self.module.define(self.prefix, value, constant.symbols)

    def _attributes(self, attributes: Mapping[str, FfiAttribute]) -> str:
        if not attributes:
            return "null"
        items = [self._attribute(name, a) for name, a in attributes.items()]
        # C's union has two forms here, so that what C sees as an array is a struct.
        types = ", ".join(i.type for i in items)
        return self.constant(f"{{ {types} }} {{ {', '.join(map(str, items))} }}", items)

    def _attribute(self, name: str, a: FfiAttribute) -> Record:
        kind, count, value = a.in_c()
        data: list[tuple[str, str]]
        if isinstance(value, int):
            data = [("i64", str(value))]
        elif isinstance(value, bytes):
            data = [("ptr", self.string(value)), *self._pad]
        elif isinstance(value, dict):
            data = [("ptr", self._attributes(value)), *self._pad]
        else:
            data = [("ptr", self.numbers("i64", [str(x) for x in value])), *self._pad]
        fields = [
            ("ptr", self.string(to_bytes(name))), ("i32", str(kind)), ("i32", str(a.type_number)),
            ("i64", str(count)), *data,
        ]  # fmt: skip
        return Record(fields)
