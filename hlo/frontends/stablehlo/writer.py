"""Modules as StableHLO: functions, regions and values. The operations are in `write_rules.py`.

StableHLO hardly supports tuples: they are written as the values of their leaves, and only the entry
function takes tuples. Called computations are functions, others are regions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hlo.errors import HloError, InferError
from hlo.frontends.stablehlo.attributes import Attribute, Boolean, Integer, Location, String, Symbol
from hlo.frontends.stablehlo.spelling import type_of
from hlo.frontends.stablehlo.tree import Attributes, Block, Function, Operation, Program, Value
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

# Shapes of a block's arguments, and the function that fills its body: from their names to the
# returned values.
Region = tuple[list[Shape], Callable[[list[str]], list[Value]]]

# The nesting of regions that readers accept, ours and MLIR's.
_MAX_DEPTH = 30
# Regions are repeated where several operations share a computation.
_MAX_OPERATIONS = 2_000_000


# Appends the equivalent of an instruction, from the values of its operands; returns its value.
Special = Callable[["Body", Instruction, Sequence[Tree]], Tree]


class ModuleWriter:
    """Makes the functions of a module, one for each called computation.

    special: by opcode, functions for operations that a rule in `write_rules.py` is not enough for.
    """

    def __init__(self, module: Module, special: Mapping[str, Special]) -> None:
        self.module = module
        self.special = special
        self._names: dict[Computation, str] = {}
        self._pending: list[Computation] = []
        self.operations = 0

    def program(self) -> Program:
        """Return the module as a program. Raises HloError."""
        functions = [Body(self).entry(self.module)]
        while self._pending:
            comp = self._pending.pop()
            functions.append(Body(self).function(comp, self._names[comp]))
        attrs: Attributes = {}
        for name, count in zip(("replicas", "partitions"), self.module.device_counts, strict=True):
            if count > 1:
                attrs[f"mhlo.num_{name}"] = Integer(count, "i32")
        notes = self.module.attrs.get("frontend_attributes")
        if notes:
            attrs["mhlo.frontend_attributes"] = strings(notes)
        return Program(self.module.name, attrs, functions)

    def function_of(self, comp: Computation) -> Symbol:
        """Return a reference to the function for a computation."""
        if comp not in self._names:
            taken = {"main", *self._names.values()}
            name, count = comp.name, 0
            while name in taken:
                count += 1
                name = f"{comp.name}_{count}"
            self._names[comp] = name
            self._pending.append(comp)
        return Symbol(self._names[comp])


@dataclass
class Body:
    """The operations of one function, and the block that they are appended to."""

    writer: ModuleWriter
    block: Block = field(default_factory=lambda: Block([]))
    depth: int = 0
    count: int = 0
    argument_count: int = 0
    # What the arguments of the function are of.
    parameters: list[Instruction] = field(default_factory=list)
    # The instruction whose equivalent is appended.
    source: Instruction | None = None

    # --- functions ------------------------------------------------------------------------------

    def entry(self, module: Module) -> Function:
        """Return the entry function, whose arguments are the parameters, unflattened."""
        comp = module.entry
        layouts, result_layout = module.program_shapes
        argument_notes: list[Attributes] = []
        args: list[Tree] = []
        for number, p in enumerate(comp.parameters):
            notes = _argument_notes(module, number) | _layout_note(layouts[number])
            with_sharding(p, notes)
            argument_notes.append(notes)
            args.append(self.unpacked(p, self._argument(p, p.shape), p.shape))
        tree = self.computation(comp, args)
        root = comp.root
        several = isinstance(root.shape, TupleShape) and len(root.shape.elements) != 1
        shapes = list(root.shape.elements) if several else [root.shape]  # type: ignore[attr-defined]
        sharding = root.annotations.get("sharding")
        result_notes: list[Attributes] = []
        for i in range(len(shapes)):
            notes = _layout_note(result_layout.at((i,)) if several else result_layout)
            if isinstance(sharding, TupleSharding) and several:
                notes["mhlo.sharding"] = String(str(sharding.elements[i]))
            result_notes.append(notes)
        parts = tree if several else (tree,)
        self.block.returned = [
            (self.packed(root, part, s), s) for part, s in zip(parts, shapes, strict=True)
        ]
        return Function(
            "main", True, self.block, self.parameters, shapes, argument_notes, result_notes
        )

    def function(self, comp: Computation, name: str) -> Function:
        """Return a called function, whose arguments are the leaves of the parameters."""
        args: list[Tree] = []
        for p in comp.parameters:
            names = [self._argument(p, leaf) for leaf in leaves(p.shape)]
            args.append(shaped(names, p.shape))
        self.block.returned = self.values(self.computation(comp, args), comp.root.shape)
        shapes = [s for _, s in self.block.returned]
        no_notes: list[Attributes] = [{} for _ in self.block.arguments]
        return Function(
            name, False, self.block, self.parameters, shapes, no_notes, [{} for _ in shapes]
        )

    def _argument(self, p: Instruction, shape: Shape) -> str:
        """Append an argument of the function; returns its name."""
        try:
            type_of(shape)
        except InferError as e:
            raise error_at(p, e) from None
        name = self._next_argument()
        self.block.arguments.append((name, shape))
        self.parameters.append(p)
        return name

    # --- values ---------------------------------------------------------------------------------

    # Names are those that MLIR prints.

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def _next_argument(self) -> str:
        self.argument_count += 1
        return f"%arg{self.argument_count - 1}"

    def values(self, tree: Tree, shape: Shape) -> list[Value]:
        """Return the leaves of a value with their shapes."""
        return list(zip(flat(tree), leaves(shape), strict=True))

    def unpacked(self, inst: Instruction, name: str, shape: Shape) -> Tree:
        """Return the leaves of a tuple value."""
        if not isinstance(shape, TupleShape):
            return name
        found: list[Tree] = []
        for i, element in enumerate(shape.elements):
            attrs = {"index": Integer(i, "i32")}
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

    # --- operations -----------------------------------------------------------------------------

    def operation(
        self, name: str, operands: Sequence[Value], results: Sequence[Shape],
        attrs: Mapping[str, Attribute] | None = None, regions: Sequence[Region] = (),
        notes: Mapping[str, Attribute] | None = None, location: Location | None = None,
    ) -> list[str]:  # fmt: skip
        """Append an operation; returns the names of its results.

        Raises InferError for a type that StableHLO lacks.
        """
        for shape in results:
            type_of(shape)
        self.writer.operations += 1
        if self.writer.operations > _MAX_OPERATIONS:
            raise InferError(
                f"the program would have more than {_MAX_OPERATIONS} operations", code="too-large"
            )
        op = Operation(
            name, operands, self.fresh() if results else "", results, attrs or {},
            notes=notes or {}, location=location, source=self.source,
        )  # fmt: skip
        self.block.operations.append(op)
        op.regions = [self._region(shapes, fill) for shapes, fill in regions]
        return op.result_names

    def _region(self, shapes: list[Shape], fill: Callable[[list[str]], list[Value]]) -> Block:
        if self.depth > _MAX_DEPTH:
            raise InferError(f"regions nest more than {_MAX_DEPTH} deep", code="nesting-too-deep")
        outer, self.block = self.block, Block([(self._next_argument(), s) for s in shapes])
        self.depth += 1
        self.block.returned = fill([name for name, _ in self.block.arguments])
        self.depth -= 1
        made, self.block = self.block, outer
        return made

    # --- computations ---------------------------------------------------------------------------

    def computation(self, comp: Computation, args: Sequence[Tree]) -> Tree:
        """Append a computation inline, on arguments; returns its result."""
        known: dict[Instruction, Tree] = dict(zip(comp.parameters, args, strict=True))
        for inst in comp.in_order():
            if inst in known:
                continue
            outer, self.source = self.source, inst
            try:
                known[inst] = self.instruction(inst, known)
            except InferError as e:
                raise error_at(inst, e) from None
            self.source = outer
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
        special = self.writer.special.get(inst.opcode)
        if special is not None:
            return special(self, inst, trees)
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
        raise InferError("StableHLO has no such operation", code="no-counterpart")

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


def error_at(inst: Instruction, e: InferError) -> HloError:
    return HloError.at(e.code, f"{inst.name}: {inst.opcode}: {e.message}", inst.span, e.hint)


def _layout_note(shape: Shape) -> Attributes:
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return {}
    order = shape.layout.minor_to_major
    if order == Layout.default(shape.rank).minor_to_major:
        return {}
    return {"mhlo.layout_mode": String(f"{{{','.join(map(str, order))}}}")}


def _argument_notes(module: Module, number: int) -> Attributes:
    for alias in module.attrs.get("input_output_alias", ()):
        if alias.parameter == number and not alias.index and len(alias.output) <= 1:
            return {"tf.aliasing_output": Integer(alias.output[0] if alias.output else 0, "i32")}
    donors = module.attrs.get("buffer_donor", ())
    if any(d.parameter == number and not d.index for d in donors):
        return {"jax.buffer_donor": Boolean(True)}
    return {}
