"""Conversion of StableHLO functions to computations.

Regions capture outer values; computations cannot, so captured values become part of a loop's state,
or operands of a branch; constants are duplicated inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from hlo.errors import InferError, InstructionSpan, Source, TextError, did_you_mean
from hlo.frontends.stablehlo import quantized
from hlo.frontends.stablehlo.context import Context, Values, is_constant, shape_of
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.frontends.stablehlo.functions import Function, Parser, Program, callees_first
from hlo.frontends.stablehlo.locations import Locations
from hlo.frontends.stablehlo.ops import HANDLERS, NOT_TAKEN
from hlo.frontends.stablehlo.quantized_types import (
    Quantization,
    is_quantized,
    quantization_of,
    storage,
)
from hlo.frontends.stablehlo.signature import annotate, set_header, shard_results
from hlo.frontends.stablehlo.syntax import Block, Op, free_names
from hlo.frontends.stablehlo.types import FUTURE
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.names import legal_name
from hlo.values.literal import Literal
from hlo.values.sharding.shardy import Mesh, read_mesh
from hlo.values.types import ArrayShape, Shape, TupleShape, compatible

_ENTRY = "main"
# How many functions an error lists.
_LISTED = 20
_DIALECTS = ("stablehlo", "chlo", "sdy", "mhlo", "func")
# The specification does not have these: MLIR's verifier does not check their types, XLA neither.
_UNTYPED = frozenset({"einsum", "unary_einsum", "torch_index_select"})
_QUANTIZATIONS = ("uniform_quantize", "uniform_dequantize")
_RETURNS = ("return", "func.return", "stablehlo.return", "sdy.return", "mhlo.return")


def convert(source: Source, function: str | None = None) -> Module:
    """Convert a text to a module, whose entry is a function of it. Raises TextError."""
    return Converter(source, Parser(source.text, _refuse).program()).module(function)


def _refuse(name: str, start: int) -> NoReturn:
    """Raise TextError for an operation that is not converted."""
    reason = NOT_TAKEN.get(name)
    if reason is not None:
        raise TextError(f"{name}: HLO has no such operation: {reason}", start,
                        code="unknown-opcode")  # fmt: skip
    dialect = name.partition(".")[0]
    hint = did_you_mean(name, HANDLERS)
    if "." in name and dialect not in _DIALECTS:
        hint = f"the dialects that are read are {', '.join(_DIALECTS)}"
    raise TextError(f"there is no HLO operation for {name}", start,
                    code="unknown-opcode", hint=hint)  # fmt: skip


class Converter:
    """Converts the functions of one text, each once; the `Conversion` of their operations."""

    def __init__(self, source: Source, program: Program) -> None:
        self._source = source
        self._program = program
        self._module = Module(legal_name(program.name or _ENTRY, "v"), source=source)
        self._functions: dict[str, Function] = {}
        self._computations: dict[str, Computation] = {}
        self._locations = Locations(source.text, self._module)
        self.meshes = {name: self._mesh(mesh) for name, mesh in program.meshes.items()}
        self.sizes: list[Instruction] = []
        # Results of operations whose declared types nobody checks.
        self._untyped: set[Instruction] = set()
        # How the values that are quantized are.
        self._has_quantized = "!quant." in source.text
        self._quantized: dict[Instruction, Quantization] = {}
        # How many words of 32 bits elided constants have.
        self._elided_words = 0
        for function in program.functions:
            if function.name in self._functions:
                raise TextError(f"function @{function.name} is defined twice", function.start,
                                code="duplicate-name")  # fmt: skip
            self._functions[function.name] = function

    def _mesh(self, mesh: Tagged) -> Mesh:
        try:
            return read_mesh(mesh.text)
        except TextError as e:
            raise TextError(f"sdy.mesh: {e.message}", mesh.start, code=e.code) from None

    def module(self, function: str | None = None) -> Module:
        """Return the module whose entry is a function: the named one, `main`, or the only one."""
        main = self._entry(function)
        for called in callees_first(main, self._functions):
            self._convert(called)
        self._module.set_entry(self.function(main.name, main.start))
        try:
            set_header(self._module, self._program, main)
        except InferError as e:
            raise TextError(e.message, main.start, code=e.code) from None
        return self._module

    def _entry(self, name: str | None) -> Function:
        main = self._functions.get(_ENTRY if name is None else name)
        if main is None and name is None and len(self._functions) == 1:
            (main,) = self._functions.values()
        if main is None:
            missing = _ENTRY if name is None else name
            with_body = [f for f in self._functions.values() if f.block is not None]
            listed = ", ".join(f"@{f.name}" for f in with_body[:_LISTED])
            more = f" and {len(with_body) - _LISTED} others" if len(with_body) > _LISTED else ""
            hint = f"--function says which is the entry: {listed}{more}"
            raise TextError(f"there is no function @{missing}", 0, code="no-entry",
                            hint=hint if with_body else None)  # fmt: skip
        if main.block is None:
            raise TextError(f"function @{main.name} has no body", main.start, code="no-entry")
        return main

    def filled(self, literal: Literal) -> Literal:
        """Return an elided literal with values that no other one of the module has."""
        literal, self._elided_words = literal.filled_from(self._elided_words)
        return literal

    def adopt(self, comp: Computation) -> Computation:
        """Add a new computation to the module."""
        return self._module.add(comp)

    def discard(self, comp: Computation) -> None:
        """Remove a computation that is not called."""
        self._module.remove(comp)

    # --- functions ------------------------------------------------------------------------------

    def function(self, name: str, start: int) -> Computation:
        """Return the computation of a function; functions are converted before their callers."""
        if name in self._computations:
            return self._computations[name]
        if name in self._functions:
            raise TextError(f"function @{name} has no body", start, code="undefined-computation")
        raise TextError(f"there is no function @{name}", start, code="undefined-computation",
                        hint=did_you_mean(name, self._functions))  # fmt: skip

    def _convert(self, function: Function) -> None:
        assert function.block is not None
        comp = Computation(legal_name(function.name or "function", "v"))
        values: Values = {}
        names = [name for name, _ in function.block.arguments]
        for number, (name, declared) in enumerate(zip(names, function.arguments, strict=True)):
            shape = storage(declared.shape)
            inst = Builder(comp).parameter(number, shape, legal_name(name or "arg", "v"))
            self._remember(inst, declared.shape)
            inst.span = InstructionSpan(self._source, declared.start, declared.end)
            metadata = self._locations.name(declared.location, declared.start)
            if metadata is not None:
                inst.annotations["metadata"] = metadata
            values[name] = [inst]
        self._body(comp, function.block, values, function.start)
        self._check_results(comp, function)
        self._drop_sizes()
        try:
            for inst, declared in zip(comp.parameters, function.arguments, strict=True):
                annotate(inst, [inst], declared.attrs, self.meshes)
            shard_results(comp, [r.attrs for r in function.results], self.meshes)
        except InferError as e:
            raise TextError(e.message, function.start, code=e.code) from None
        self._computations[function.name] = self._module.add(comp)

    def _drop_sizes(self) -> None:
        """Remove the constants that were only used as sizes."""
        for inst in dict.fromkeys(self.sizes):
            if inst.opcode == "constant" and not (inst.users or inst.is_root):
                inst.parent.remove(inst)  # type: ignore[union-attr]
        self.sizes.clear()

    def _check_results(self, comp: Computation, function: Function) -> None:
        """Raise TextError unless a function returns its declared types."""
        shapes = [storage(r.shape) for r in function.results]
        declared = shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
        returned = {comp.root, *(comp.root.operands if comp.root.opcode == "tuple" else ())}
        if not returned & self._untyped and not compatible(comp.result_shape, declared):
            raise TextError(
                f"function @{function.name} returns {comp.result_shape.to_string(False)}, its type "
                f"says {declared.to_string(False)}", function.start, code="signature-mismatch",
            )  # fmt: skip

    def region(
        self, block: Block, name: str, shapes: Sequence[Shape], op: Op, outer: Values
    ) -> Computation:
        """Return the computation of a region that takes values of these shapes one by one."""
        comp = Computation(legal_name(name or "region", "v"))
        values = self._constants(comp, block, outer, op)
        if len(block.arguments) != len(shapes):
            self.fail(op, f"a region of {len(shapes)} arguments is due, "
                      f"not {len(block.arguments)}", "bad-computation")  # fmt: skip
        for number, (argument, shape) in enumerate(block.arguments):
            inst = Builder(comp).parameter(number, storage(shape), legal_name(argument, "v"))
            self._remember(inst, shape)
            values[argument] = [inst]
        self._body(comp, block, values, op.start)
        return self._module.add(comp)

    def _constants(
        self, comp: Computation, block: Block, outer: Values, op: Op, known: Sequence[str] = ()
    ) -> Values:
        """Duplicate the outer constants that a region uses; any other captured value is an error.

        known: values that are passed in another way.
        """
        values: Values = {}
        for name in free_names(block):
            found = outer.get(name, [])
            for i, inst in enumerate(found):
                if f"{name}#{i}" in known:
                    continue
                if not is_constant(inst):
                    self.fail(op, f"its region uses %{name} from outside, which HLO cannot",
                              "bad-computation")  # fmt: skip
                repeated = values.setdefault(name, [])
                repeated += [inst] * (i + 1 - len(repeated))
                repeated[i] = _repeat(comp, inst)
        return values

    def unpacking(
        self, block: Block, name: str, names: Sequence[str], elements: Sequence[Instruction],
        c: Context, rest: int = 0,
    ) -> Computation:  # fmt: skip
        """Return the computation of a region that takes its values in one tuple.

        A single value is not wrapped. names: of the values inside. rest: how many of the last
        values it passes through after its results.
        """
        comp = Computation(name)
        b = Builder(comp)
        values = self._constants(comp, block, c.values, c.op, names)
        if len(elements) == 1:
            parts = [b.parameter(0, elements[0].shape, "state")]
        else:
            state = b.parameter(0, TupleShape(tuple(e.shape for e in elements)), "state")
            parts = [b.op("get-tuple-element", state, index=i) for i in range(len(names))]
        for n, part in zip(names, parts, strict=True):
            base, _, index = n.partition("#")
            if not index:
                values[base] = [part]
                continue
            found = values.setdefault(base, [])
            found += [part] * (int(index) + 1 - len(found))
            found[int(index)] = part
        for part, element in zip(parts, elements, strict=False):
            if element in self._quantized:
                self._quantized[part] = self._quantized[element]
        handed = parts[len(parts) - rest :] if rest else []
        self._body(comp, block, values, c.op.start, handed)
        return self._module.add(comp)

    def _body(
        self, comp: Computation, block: Block, values: Values, start: int,
        handed: Sequence[Instruction] = (),
    ) -> None:  # fmt: skip
        """Fill a computation with the operations of a block."""
        for op in block.ops:
            if op.name in _RETURNS:
                if op is not block.ops[-1]:
                    self.fail(op, "other operations follow it", "bad-computation")
                roots = [*self.operands(op, values), *handed]
                comp.set_root(roots[0] if len(roots) == 1 else Builder(comp).tuple(*roots))
                return
            self._operation(comp, op, values)
        raise TextError("a block that does not return", start, code="no-root")

    # --- operations -----------------------------------------------------------------------------

    def fail(self, op: Op, message: str, code: str = "bad-value") -> NoReturn:
        raise TextError(f"{op.name}: {message}", op.start, code=code)

    def operands(self, op: Op, values: Values) -> list[Instruction]:
        """Return the operands of an operation. Raises TextError unless they have its types."""
        found = []
        for name, start, shape in zip(
            op.operands, op.operand_starts, op.operand_types, strict=True
        ):
            base, _, index = name.partition("#")
            known = values.get(base, [])
            if len(index) > 9 or int(index or 0) >= len(known):
                hint = did_you_mean(f"%{base}", [f"%{v}" for v in values])
                raise TextError(f"there is no value %{name} here", start,
                                code="undefined-operand", hint=hint)  # fmt: skip
            inst = known[int(index or 0)]
            is_checked = shape is not FUTURE and inst not in self._untyped
            if self._has_quantized and quantization_of(shape) != self._quantized.get(inst):
                self.fail(op, f"%{name} is quantized in another way than its type says",
                          "operand-shape-mismatch")  # fmt: skip
            if is_checked and not compatible(inst.shape, storage(shape)):
                self.fail(op, f"%{name} is {inst.shape.to_string(False)}, its type says "
                          f"{shape.to_string(False)}", "operand-shape-mismatch")  # fmt: skip
            found.append(inst)
        return found

    def _operation(self, comp: Computation, op: Op, values: Values) -> None:
        handler = HANDLERS.get(op.name)
        if handler is None:
            _refuse(op.name, op.start)
        b = Builder(comp)
        operands = self.operands(op, values)
        try:
            context = Context(self, b, op, operands, values)
            if self._has_quantized and is_quantized([*op.operand_types, *op.result_types]):
                made = quantized.append(context, handler)
            elif op.kind in _QUANTIZATIONS:
                self.fail(op, "neither its operand nor its result is quantized", "type-mismatch")
            else:
                made = handler(context)
            if b.built:
                inst = made if made in b.built else b.built[-1]
                annotate(inst, b.built, op.attrs, self.meshes)
        except InferError as e:
            raise TextError(f"{op.name}: {e.message}", op.start, code=e.code, hint=e.hint) from None
        span = InstructionSpan(self._source, op.start, op.end)
        for inst in b.built:
            inst.span = span
        self._bind(b, op, made, values)
        self._locate(b.built, op.location, op.start)

    def _locate(self, instructions: Sequence[Instruction], location: str, start: int) -> None:
        """Set the locations of instructions."""
        metadata = self._locations.metadata(location, start) if location else None
        if metadata is not None:
            for inst in instructions:
                inst.annotations["metadata"] = metadata

    def _bind(self, b: Builder, op: Op, made: Instruction, values: Values) -> None:
        """Name the results of an operation."""
        count = sum(n for _, n in op.results)
        results = [made]
        if isinstance(made.shape, TupleShape) and (
            count != 1 or not isinstance(shape_of(op), TupleShape)
        ):
            if count not in (0, len(made.shape.elements)):
                self.fail(op, f"{len(made.shape.elements)} results have {count} names",
                          "operand-count")  # fmt: skip
            results = [b.element(made, i) for i in range(count)]
        elif count > 1:
            self.fail(op, f"one result has {count} names", "operand-count")
        declared = op.result_types[-len(results) :] if op.result_types and results else []
        for inst, shape in zip(results, declared, strict=False):
            if op.kind in _UNTYPED and isinstance(shape, ArrayShape):
                self._untyped.add(inst)
            elif not (shape is FUTURE or compatible(inst.shape, storage(shape))):
                self.fail(op, f"its result is {inst.shape.to_string(False)}, its type says "
                          f"{shape.to_string(False)}", "shape-mismatch")  # fmt: skip
        if self._has_quantized:
            for inst, shape in zip(results, declared, strict=False):
                self._remember(inst, shape)
        at = 0
        for name, n in op.results:
            values[name] = results[at : at + n]
            at += n

    def _remember(self, inst: Instruction, shape: Shape) -> None:
        """Keep how a value of a type is quantized."""
        quantization = quantization_of(shape)
        if quantization is not None:
            self._quantized[inst] = quantization


def _repeat(comp: Computation, inst: Instruction) -> Instruction:
    """Append a copy of a constant, or of the broadcast of one."""
    return comp.add(inst.clone([_repeat(comp, o) for o in inst.operands]))
