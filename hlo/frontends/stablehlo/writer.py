"""Modules as StableHLO: functions, regions and values. The operations are in `write_rules.py`.

StableHLO hardly supports tuples: they are written as the values of their leaves, and only the entry
function takes tuples. Called computations are functions, others are regions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hlo.errors import HloError, InferError
from hlo.frontends.stablehlo.spelling import dictionary, integer, string, symbol, type_of
from hlo.frontends.stablehlo.values import (
    Tree,
    flat,
    leaves,
    location_of,
    notes_of,
    shaped,
    strings,
    with_sharding,
)
from hlo.frontends.stablehlo.write_rules import RULES
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.sharding import TupleSharding
from hlo.values.types import ArrayShape, Layout, Shape, TupleShape

Value = tuple[str, Shape]
# Shapes of a block's arguments, and the function that writes its body: from their names to the
# returned values.
Region = tuple[list[Shape], Callable[[list[str]], list[Value]]]

# The nesting of regions that readers accept, ours and MLIR's.
_MAX_DEPTH = 30
# Regions are repeated where several operations share a computation.
_MAX_LINES = 2_000_000


# Appends the equivalent of an instruction, from the values of its operands; returns its value.
Special = Callable[["Body", Instruction, Sequence[Tree]], Tree]


class ModuleWriter:
    """Writes the functions of a module, one for each called computation.

    special: by opcode, functions for operations without a rule in `write_rules.py`.
    """

    def __init__(self, module: Module, special: Mapping[str, Special]) -> None:
        self.module = module
        self.special = special
        self._names: dict[Computation, str] = {}
        self._pending: list[Computation] = []
        self.lines = 0

    def text(self) -> str:
        """Return the text of the module. Raises HloError."""
        functions = [Body(self).entry(self.module)]
        while self._pending:
            comp = self._pending.pop()
            functions.append(Body(self).function(comp, self._names[comp]))
        attrs = {}
        for name, count in zip(("replicas", "partitions"), self.module.device_counts, strict=True):
            if count > 1:
                attrs[f"mhlo.num_{name}"] = integer(count, 32)
        notes = self.module.attrs.get("frontend_attributes")
        if notes:
            attrs["mhlo.frontend_attributes"] = strings(notes)
        head = f" attributes {dictionary(attrs)}" if attrs else ""
        name = symbol(self.module.name)
        return f"module {name}{head} {{\n" + "".join(functions) + "}\n"

    def function_of(self, comp: Computation) -> str:
        """Return the name of the function for a computation."""
        if comp not in self._names:
            taken = {"main", *self._names.values()}
            name, count = comp.name, 0
            while name in taken:
                count += 1
                name = f"{comp.name}_{count}"
            self._names[comp] = name
            self._pending.append(comp)
        return symbol(self._names[comp])


@dataclass
class Body:
    """The lines of one function."""

    writer: ModuleWriter
    lines: list[str] = field(default_factory=list)
    indent: str = "    "
    count: int = 0

    # --- functions ------------------------------------------------------------------------------

    def entry(self, module: Module) -> str:
        """Return the entry function, whose arguments are the parameters, unflattened."""
        comp = module.entry
        layouts, result_layout = module.program_shapes
        arguments: list[str] = []
        args: list[Tree] = []
        for number, p in enumerate(comp.parameters):
            notes = _argument_notes(module, number) | _layout_note(layouts[number])
            with_sharding(p, notes)
            arguments.append(f"%arg{number}: {self.type(p)}{_spaced(notes)}")
            args.append(self.unpacked(p, f"%arg{number}", p.shape))
        tree = self.computation(comp, args)
        root = comp.root
        several = isinstance(root.shape, TupleShape) and len(root.shape.elements) != 1
        shapes = list(root.shape.elements) if several else [root.shape]  # type: ignore[attr-defined]
        sharding = root.annotations.get("sharding")
        results = []
        for i, shape in enumerate(shapes):
            notes = _layout_note(result_layout.at((i,)) if several else result_layout)
            if isinstance(sharding, TupleSharding) and several:
                notes["mhlo.sharding"] = string(str(sharding.elements[i]))
            results.append(f"{type_of(shape)}{_spaced(notes)}")
        parts = tree if several else (tree,)
        values = [(self.packed(root, part, s), s) for part, s in zip(parts, shapes, strict=True)]
        self.end("return", values)
        return self._function("public @main", arguments, results)

    def function(self, comp: Computation, name: str) -> str:
        """Return a called function, whose arguments are the leaves of the parameters."""
        arguments: list[str] = []
        args: list[Tree] = []
        for p in comp.parameters:
            names = []
            for leaf in leaves(p.shape):
                names.append(f"%arg{len(arguments)}")
                arguments.append(f"{names[-1]}: {type_of(leaf)}")
            args.append(shaped(names, p.shape))
        values = self.values(self.computation(comp, args), comp.root.shape)
        self.end("return", values)
        return self._function(f"private {symbol(name)}", arguments, [type_of(s) for _, s in values])

    def _function(self, name: str, arguments: list[str], results: list[str]) -> str:
        head = f"  func.func {name}({', '.join(arguments)})"
        if results:
            head += f" -> ({', '.join(results)})"
        return f"{head} {{\n" + "".join(f"{line}\n" for line in self.lines) + "  }\n"

    def end(self, name: str, values: Sequence[Value]) -> None:
        types = ", ".join(type_of(s) for _, s in values)
        names = ", ".join(n for n, _ in values)
        self.line(f"{name} {names} : {types}" if values else name)

    # --- values ---------------------------------------------------------------------------------

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def values(self, tree: Tree, shape: Shape) -> list[Value]:
        """Return the leaves of a value with their shapes."""
        return list(zip(flat(tree), leaves(shape), strict=True))

    def unpacked(self, inst: Instruction, name: str, shape: Shape) -> Tree:
        """Return the leaves of a tuple value."""
        if not isinstance(shape, TupleShape):
            return name
        found: list[Tree] = []
        for i, element in enumerate(shape.elements):
            attrs = {"index": integer(i, 32)}
            (part,) = self.operation(
                "stablehlo.get_tuple_element", [(name, shape)], [element], attrs
            )
            found.append(self.unpacked(inst, part, element))
        return tuple(found)

    def packed(self, inst: Instruction, tree: Tree, shape: Shape) -> str:
        """Return a value as a single one, packed if it is a tuple."""
        if not isinstance(shape, TupleShape):
            assert isinstance(tree, str)
            return tree
        parts = [(self.packed(inst, t, s), s) for t, s in zip(tree, shape.elements, strict=True)]
        (name,) = self.operation("stablehlo.tuple", parts, [shape])
        return name

    def type(self, inst: Instruction) -> str:
        try:
            return type_of(inst.shape)
        except InferError as e:
            raise _error(inst, e) from None

    # --- lines ----------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)
        self.writer.lines += 1
        if self.writer.lines > _MAX_LINES:
            raise InferError(f"the text would have more than {_MAX_LINES} lines", code="too-large")

    def operation(
        self, name: str, operands: Sequence[Value], results: Sequence[Shape],
        attrs: dict[str, str] | None = None, regions: Sequence[Region] = (),
        notes: dict[str, str] | None = None, location: str = "",
    ) -> list[str]:  # fmt: skip
        """Append an operation in its generic form; returns the names of its results."""
        types = ", ".join(type_of(s) for _, s in operands)
        outs = [type_of(s) for s in results]
        out = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
        tail = f" : ({types}) -> {out}{location}"
        if notes:
            tail = f" {dictionary(notes)}{tail}"
        result = self.fresh() if results else ""
        left = f"{result}:{len(results)} = " if len(results) > 1 else f"{result} = " * bool(results)
        text = f'{left}"{name}"({", ".join(n for n, _ in operands)})'
        if attrs:
            inside = ", ".join(k if v == "unit" else f"{k} = {v}" for k, v in attrs.items())
            text += f" <{{{inside}}}>"
        if not regions:
            self.line(text + tail)
        else:
            self.line(text + " ({")
            for i, (shapes, fill) in enumerate(regions):
                if i:
                    self.line("}, {")
                self._region(shapes, fill)
            self.line("})" + tail)
        if len(results) == 1:
            return [result]
        return [f"{result}#{i}" for i in range(len(results))]

    def _region(self, shapes: list[Shape], fill: Callable[[list[str]], list[Value]]) -> None:
        outer = self.indent
        if len(outer) > 4 + 2 * _MAX_DEPTH:
            raise InferError(f"regions nest more than {_MAX_DEPTH} deep", code="nesting-too-deep")
        names = [self.fresh() for _ in shapes]
        if names:
            pairs = zip(names, shapes, strict=True)
            self.line(f"^bb0({', '.join(f'{n}: {type_of(s)}' for n, s in pairs)}):")
        self.indent = outer + "  "
        values = fill(names)
        self.end("stablehlo.return", values)
        self.indent = outer

    # --- computations ---------------------------------------------------------------------------

    def computation(self, comp: Computation, args: Sequence[Tree]) -> Tree:
        """Append a computation inline, on arguments; returns its result."""
        known: dict[Instruction, Tree] = dict(zip(comp.parameters, args, strict=True))
        for inst in comp.in_order():
            if inst not in known:
                try:
                    known[inst] = self.instruction(inst, known)
                except InferError as e:
                    raise _error(inst, e) from None
        return known[comp.root]

    def region_of(self, comp: Computation) -> Region:
        """Return a computation as a region, on the leaves of its parameters."""
        shapes = [leaf for p in comp.parameters for leaf in leaves(p.shape)]

        def fill(names: list[str]) -> list[Value]:
            rest = list(names)
            args = []
            for p in comp.parameters:
                size = len(leaves(p.shape))
                args.append(shaped(rest[:size], p.shape))
                del rest[:size]
            return self.values(self.computation(comp, args), comp.root.shape)

        return shapes, fill

    def instruction(self, inst: Instruction, known: dict[Instruction, Tree]) -> Tree:
        """Append an instruction; returns its value. Raises InferError."""
        trees = [known[o] for o in inst.operands]
        # The value between a start and a done has no counterpart in StableHLO.
        ends = inst.spec.continued_by
        if ends and (inst.is_root or any(u.opcode not in ends for u in inst.users)):
            raise InferError(
                "StableHLO uses the value of a start only in its done", code="no-counterpart"
            )
        rule = RULES.get(inst.opcode)
        if rule is not None:
            for key in rule.unsaid:
                if inst.spec.attrs[key].prints(inst.attrs[key]):
                    raise InferError(f"StableHLO has no {key} of it", code="no-counterpart")
            regions = [self.region_of(inst.attrs[key]) for key in rule.regions]
            names = self.operation(
                rule.name, self.operands(inst, trees), leaves(inst.shape), rule.attrs(inst),
                regions, notes_of(inst), location_of(inst),
            )  # fmt: skip
            return shaped(names, inst.shape)
        if inst.spec.has(Trait.CALL) or inst.opcode == "async-start":
            return self.call(inst, trees)
        special = self.writer.special.get(inst.opcode)
        if special is None:
            raise InferError("StableHLO has no such operation", code="no-counterpart")
        return special(self, inst, trees)

    def operands(self, inst: Instruction, trees: Sequence[Tree]) -> list[Value]:
        """Return the leaves of all operands."""
        pairs = zip(trees, inst.operands, strict=True)
        return [value for tree, o in pairs for value in self.values(tree, o.shape)]

    def call(self, inst: Instruction, trees: Sequence[Tree]) -> Tree:
        """Append a function call."""
        comp = inst.attrs["to_apply" if inst.opcode == "call" else "calls"]
        attrs = {"callee": self.writer.function_of(comp)}
        shape = comp.root.shape
        names = self.operation("func.call", self.operands(inst, trees), leaves(shape), attrs, (),
                               notes_of(inst), location_of(inst))  # fmt: skip
        return shaped(names, shape)


def _error(inst: Instruction, e: InferError) -> HloError:
    return HloError.at(e.code, f"{inst.name}: {inst.opcode}: {e.message}", inst.span, e.hint)


def _spaced(notes: dict[str, str]) -> str:
    return f" {dictionary(notes)}" if notes else ""


def _layout_note(shape: Shape) -> dict[str, str]:
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return {}
    order = shape.layout.minor_to_major
    if order == Layout.default(shape.rank).minor_to_major:
        return {}
    return {"mhlo.layout_mode": string(f"{{{','.join(map(str, order))}}}")}


def _argument_notes(module: Module, number: int) -> dict[str, str]:
    for alias in module.attrs.get("input_output_alias", ()):
        if alias.parameter == number and not alias.index and len(alias.output) <= 1:
            return {"tf.aliasing_output": integer(alias.output[0] if alias.output else 0, 32)}
    donors = module.attrs.get("buffer_donor", ())
    if any(d.parameter == number and not d.index for d in donors):
        return {"jax.buffer_donor": "true"}
    return {}
