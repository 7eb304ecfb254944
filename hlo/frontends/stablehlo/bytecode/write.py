"""Portable artifacts that are written: a program as bytecode of VHLO at a version of StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hlo.errors import HloError, InferError
from hlo.frontends.stablehlo.attributes import (
    Attribute,
    Dictionary,
    List,
    Location,
    String,
    TypeAttribute,
)
from hlo.frontends.stablehlo.bytecode import builtin, layout, vhlo, vhlo_types
from hlo.frontends.stablehlo.bytecode.assembly import Encoder, Tables
from hlo.frontends.stablehlo.bytecode.operations import Definition, vhlo_of
from hlo.frontends.stablehlo.bytecode.stream import Output
from hlo.frontends.stablehlo.bytecode.versions import (
    OLDEST,
    TooOldError,
    Version,
    shown,
    version_of,
)
from hlo.frontends.stablehlo.bytecode.vhlo_types import FunctionType
from hlo.frontends.stablehlo.tree import Attributes, Block, Function, Operation, Program, Value
from hlo.frontends.stablehlo.writer import error_at
from hlo.ir import Instruction


def portable_artifact(program: Program, version: str | None = None) -> bytes:
    """Return a program as a portable artifact. Raises HloError for what it cannot have.

    version: of StableHLO; without one the oldest, from 1.0.0 on, that has all that the program has.
    """
    target = OLDEST if version is None else version_of(version)
    while True:
        try:
            return _Writer(target).file(program)
        except _RefusedError as e:
            error, source = e.error, e.source
        if version is None and isinstance(error, TooOldError):
            target = error.needed
        elif source is None:
            raise HloError.at(error.code, error.message, None, error.hint)
        else:
            raise error_at(source, error)


class _RefusedError(Exception):
    """Bytecode cannot have something. source: the instruction that it is of, if it is of one."""

    def __init__(self, error: InferError, source: Instruction | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.source = source


# The numbers of values by their names.
_Scope = dict[str, int]


class _Writer:
    """Writes a program for one version of StableHLO."""

    def __init__(self, target: Version) -> None:
        self._target = target
        self._tables = Tables()
        self._vhlo = Encoder(
            self._tables, "vhlo", vhlo.encode_attribute, vhlo_types.encode_type, target
        )
        codes = (builtin.encode_attribute, builtin.encode_type)
        self._builtin = Encoder(self._tables, "builtin", *codes, target)
        # The attributes of an operation are a dictionary of builtin with values of VHLO.
        self._mixed = Encoder(self._tables, "builtin", *codes, target, values=self._vhlo)
        self._unknown = self._builtin.attribute(Location())

    def file(self, program: Program) -> bytes:
        """Return the file. Raises _RefusedError."""
        out = Output()
        out.flagged(1, False)
        try:
            self._module(out, program)
        except InferError as e:
            raise _RefusedError(e, None) from None
        producer = f"StableHLO_v{shown(self._target)}"
        return self._tables.file(layout.NEWEST, producer, out)

    def _module(self, out: Output, program: Program) -> None:
        attrs = self._builtin.attribute(Dictionary(program.attrs)) if program.attrs else None
        properties = Output()
        properties.flagged(self._builtin.attribute(String(program.name)), True)
        # It has no visibility.
        properties.flagged(0, False)
        self._head(out, "builtin.module", None, attrs, properties, layout.HAS_REGIONS)
        # Its region is isolated, as are those of functions: its values are its own, and it is a
        # section.
        out.flagged(1, True)
        region = Output()
        # One block, no values, and as many operations as there are functions, no arguments.
        region.varint(1)
        region.varint(0)
        region.flagged(len(program.functions), False)
        for function in program.functions:
            self._function(region, function)
        out.section(layout.IR, region)

    def _of(self, source: Instruction | None, write: Callable[..., object], *args: object) -> None:
        """Write something of an instruction. Raises _RefusedError, which names it."""
        try:
            write(*args)
        except InferError as e:
            raise _RefusedError(e, source) from None

    def _head(
        self, out: Output, name: str, location: Location | None, attrs: int | None,
        properties: Output | None, mask: int,
    ) -> None:  # fmt: skip
        """Write what an operation begins with. mask: what it has besides."""
        out.varint(self._tables.op_name(name))
        has_attrs, has_properties = attrs is not None, properties is not None
        mask |= has_attrs * layout.HAS_ATTRIBUTES | has_properties * layout.HAS_PROPERTIES
        out.byte(mask)
        known = location is not None
        out.varint(self._builtin.attribute(location) if known else self._unknown)
        if attrs is not None:
            out.varint(attrs)
        if properties is not None:
            out.varint(self._tables.properties(properties))

    def _properties(self, values: Mapping[str, Attribute]) -> Output | None:
        """Return the record of an operation's properties, which are in order."""
        if not values:
            return None
        out = Output()
        for value in values.values():
            out.varint(self._vhlo.attribute(value))
        return out

    def _function(self, out: Output, function: Function) -> None:
        body = function.body
        for (_, shape), parameter in zip(body.arguments, function.parameters, strict=True):
            self._of(parameter, self._vhlo.type, shape)
        kind = FunctionType(tuple(s for _, s in body.arguments), tuple(function.results))
        properties = self._properties({
            "arg_attrs": _dictionaries(function.argument_notes),
            "function_type": TypeAttribute(kind),
            "res_attrs": _dictionaries(function.result_notes),
            "sym_name": String(function.name),
            "sym_visibility": String("public" if function.is_public else "private"),
        })  # fmt: skip
        self._head(out, "vhlo.func_v1", None, None, properties, layout.HAS_REGIONS)
        out.flagged(1, True)
        region = Output()
        self._region(region, body, {}, 0)
        out.section(layout.IR, region)

    def _region(self, out: Output, block: Block, scope: _Scope, start: int) -> None:
        """Write a region of one block, whose values have numbers from `start` on."""
        count = len(block.arguments) + sum(len(op.results) for op in block.operations)
        out.varint(1)
        out.varint(count)
        out.flagged(len(block.operations) + 1, bool(block.arguments))
        if block.arguments:
            out.varint(len(block.arguments))
            for _, shape in block.arguments:
                # Without a location.
                out.flagged(self._vhlo.type(shape), False)
            # The orders of uses are those of reading.
            out.byte(0)
        number, end = start, start + count
        for name, _ in block.arguments:
            scope[name] = number
            number += 1
        for op in block.operations:
            for name in op.result_names:
                scope[name] = number
                number += 1
            self._of(op.source, self._operation, out, op, scope, end)
        self._head(out, "vhlo.return_v1", None, None, None, _mask(block.returned, (), ()))
        self._operands(out, block.returned, scope)

    def _operation(self, out: Output, op: Operation, scope: _Scope, end: int) -> None:
        """Write an operation. end: the number of the first value inside of its regions."""
        made: Definition = vhlo_of(op, self._target)
        attrs = self._mixed.attribute(Dictionary(made.notes)) if made.notes else None
        properties = self._properties(made.properties)
        mask = _mask(op.operands, op.results, op.regions)
        self._head(out, made.name, op.location, attrs, properties, mask)
        if op.results:
            self._vhlo.types(out, op.results)
        self._operands(out, op.operands, scope)
        if op.regions:
            out.flagged(len(op.regions), False)
            for region in op.regions:
                self._region(out, region, scope, end)

    def _operands(self, out: Output, values: Sequence[Value], scope: _Scope) -> None:
        if values:
            out.varint(len(values))
            for name, _ in values:
                out.varint(scope[name])


def _mask(operands: object, results: object, regions: object) -> int:
    return (
        bool(operands) * layout.HAS_OPERANDS
        | bool(results) * layout.HAS_RESULTS
        | bool(regions) * layout.HAS_REGIONS
    )


def _dictionaries(notes: list[Attributes]) -> List:
    """Return the attributes of each argument or result; none where none has some."""
    return List(tuple(map(Dictionary, notes)) if any(notes) else ())
