"""Functions of StableHLO to computations.

Regions see the values around them; computations do not, so what a region uses from outside joins a
loop's state, or is what a branch takes; a constant is repeated inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from hlo.errors import InferError, InstructionSpan, Source, TextError, did_you_mean
from hlo.ir import Computation, Instruction, Module
from hlo.ir.aliases import InputOutputAlias
from hlo.ir.builder import Builder
from hlo.scan import Scanner
from hlo.sharding_text import read_sharding
from hlo.stablehlo.context import Context, shape_of
from hlo.stablehlo.ops import HANDLERS
from hlo.stablehlo.syntax import Block, Function, Op, Parser, free_names
from hlo.types import Shape, TupleShape, compatible

Values = dict[str, list[Instruction]]
_ENTRY = "main"
_RETURNS = ("return", "func.return", "stablehlo.return")


def convert(source: Source) -> Module:
    """Return the module of a text. Raises TextError."""
    name, functions = Parser(source.text).module()
    return Converter(source, name, functions).module()


class Converter:
    """Converts the functions of one text, each once."""

    def __init__(self, source: Source, name: str, functions: list[Function]) -> None:
        self._source = source
        self._module = Module(_identifier(name) or "module", source=source)
        self._functions: dict[str, Function] = {}
        self._computations: dict[str, Computation | None] = {}
        for function in functions:
            if function.name in self._functions:
                raise TextError(f"function @{function.name} is there twice", function.start,
                                code="duplicate-name")  # fmt: skip
            self._functions[function.name] = function

    def module(self) -> Module:
        main = self._functions.get(_ENTRY)
        if main is None and len(self._functions) == 1:
            (main,) = self._functions.values()
        if main is None:
            raise TextError(f"there is no function @{_ENTRY}", 0, code="no-entry")
        entry = self.function(main.name, main.start)
        aliases = []
        for p, attrs in zip(entry.parameters, main.argument_attrs, strict=True):
            self._annotate(p, attrs, main.start)
            output = attrs.get("tf.aliasing_output")
            if isinstance(output, int):
                index = (output,) if isinstance(entry.result_shape, TupleShape) else ()
                aliases.append(InputOutputAlias(index, p.attrs["number"]))
        if aliases:
            self._module.attrs["input_output_alias"] = tuple(aliases)
        self._module.set_entry(entry)
        return self._module

    def _annotate(self, inst: Instruction, attrs: dict[str, Any], start: int) -> None:
        text = attrs.get("mhlo.sharding")
        if isinstance(text, str):
            try:
                inst.annotations["sharding"] = read_sharding(Scanner(text))
            except TextError as e:
                raise TextError(f"mhlo.sharding: {e.message}", start, code=e.code) from None

    # --- functions ------------------------------------------------------------------------------

    def function(self, name: str, start: int) -> Computation:
        """Return the computation of a function."""
        if name in self._computations:
            found = self._computations[name]
            if found is None:
                raise TextError(f"function @{name} calls itself", start, code="recursive-call")
            return found
        function = self._functions.get(name)
        if function is None:
            raise TextError(f"there is no function @{name}", start, code="undefined-computation",
                            hint=did_you_mean(name, self._functions))  # fmt: skip
        self._computations[name] = None
        comp = Computation(_identifier(name) or "function")
        values: Values = {}
        for number, (argument, shape) in enumerate(function.block.arguments):
            inst = Builder(comp).parameter(number, shape, _identifier(argument) or "arg")
            values[argument] = [inst]
        self._body(comp, function.block, values, function.start)
        self._computations[name] = self._module.add(comp)
        return comp

    def region(
        self, block: Block, name: str, shapes: Sequence[Shape], op: Op, outer: Values
    ) -> Computation:
        """Return the computation of a region that takes values of these shapes one by one."""
        comp = Computation(name)
        values: Values = self._constants(comp, block, outer, op)
        names = block.arguments or []
        if len(names) != len(shapes):
            self.fail(op, f"a region of {len(shapes)} arguments is due, not {len(names)}",
                      "bad-computation")  # fmt: skip
        for number, (argument, shape) in enumerate(names):
            values[argument] = [Builder(comp).parameter(number, shape, _identifier(argument))]
        self._body(comp, block, values, op.start)
        return self._module.add(comp)

    def _constants(self, comp: Computation, block: Block, outer: Values, op: Op) -> Values:
        """Repeat the constants of outside that a region uses; anything else is an error."""
        values: Values = {}
        for name in free_names(block):
            for inst in outer.get(name, []):
                if inst.opcode != "constant":
                    self.fail(op, f"its region uses %{name} from outside, which HLO cannot",
                              "bad-computation")  # fmt: skip
                values.setdefault(name, []).append(comp.add(inst.clone()))
        return values

    def unpacking(
        self, block: Block, name: str, names: Sequence[str], shape: TupleShape, op: Op, rest: int
    ) -> Computation:
        """Return the computation of a region that takes all its values in one tuple.

        rest: how many of the last elements it hands on behind its results; -1: it returns a value.
        """
        comp = Computation(name)
        b = Builder(comp)
        state = b.parameter(0, shape, "state")
        parts = [b.op("get-tuple-element", state, index=i) for i in range(len(names))]
        values: Values = {}
        for n, part in zip(names, parts, strict=True):
            base, _, index = n.partition("#")
            known = values.setdefault(base, [])
            if index:
                known += [part] * (int(index) + 1 - len(known))
                known[int(index)] = part
            else:
                values[base] = [part]
        handed = parts[len(parts) - rest :] if rest > 0 else []
        self._body(comp, block, values, op.start, handed, as_tuple=rest >= 0)
        return self._module.add(comp)

    def _body(
        self, comp: Computation, block: Block, values: Values, start: int,
        handed: Sequence[Instruction] = (), *, as_tuple: bool = False,
    ) -> None:  # fmt: skip
        """Fill a computation with the operations of a block."""
        for op in block.ops:
            if op.name in _RETURNS:
                roots = [*self.operands(op, values), *handed]
                if len(roots) == 1 and not as_tuple:
                    comp.set_root(roots[0])
                else:
                    comp.set_root(Builder(comp).tuple(*roots))
                return
            self._operation(comp, op, values)
        raise TextError("a block that does not return", start, code="no-root")

    # --- operations -----------------------------------------------------------------------------

    def fail(self, op: Op, message: str, code: str = "bad-value") -> NoReturn:
        raise TextError(f"{op.name}: {message}", op.start, code=code)

    def operands(self, op: Op, values: Values) -> list[Instruction]:
        found = []
        for name, start in zip(op.operands, op.operand_starts, strict=True):
            base, _, index = name.partition("#")
            known = values.get(base, [])
            if int(index or 0) >= len(known):
                raise TextError(f"there is no value %{name} here", start, code="undefined-operand",
                                hint=did_you_mean(base, values))  # fmt: skip
            found.append(known[int(index or 0)])
        return found

    def _operation(self, comp: Computation, op: Op, values: Values) -> None:
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise TextError(
                f"there is no operation of HLO for {op.name}", op.start, code="unknown-opcode",
                hint=did_you_mean(op.name, HANDLERS),
            )  # fmt: skip
        b = Builder(comp)
        operands = self.operands(op, values)
        if op.operand_types is not None and len(op.operand_types) == len(operands):
            for name, inst, shape in zip(op.operands, operands, op.operand_types, strict=True):
                if not compatible(inst.shape, shape):
                    self.fail(op, f"%{name} is {inst.shape.to_string(False)}, its type says "
                              f"{shape.to_string(False)}", "operand-shape-mismatch")  # fmt: skip
        context = Context(self, b, op, operands, values)
        try:
            made = handler(context)
        except InferError as e:
            self.fail(op, e.message, e.code)
        span = InstructionSpan(self._source, op.start, op.end)
        for inst in b.built:
            inst.span = span
        self._bind(b, op, made, values)

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
            if not compatible(inst.shape, shape):
                self.fail(op, f"its result is {inst.shape.to_string(False)}, its type says "
                          f"{shape.to_string(False)}", "shape-mismatch")  # fmt: skip
        at = 0
        for name, n in op.results:
            values[name] = results[at : at + n]
            at += n


def _identifier(name: str) -> str:
    """Return a name that HLO text can say."""
    word = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
    return f"v{word}" if word and not (word[0].isalpha() or word[0] == "_") else word
