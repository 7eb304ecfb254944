"""From a program as JAX hands it over to the module that each device runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hlo.errors import TextError
from hlo.frontends.proto import from_proto, wire
from hlo.frontends.proto.schema import schema
from hlo.frontends.stablehlo import from_stablehlo
from hlo.frontends.text.header import ProgramShape
from hlo.ir import Module
from hlo.pjrt.compile_options import CompileOptions
from hlo.pjrt.devices import KIND_IDS
from hlo.pjrt.entries import PjrtError
from hlo.spmd.contract import contract_of
from hlo.values.sharding import Sharding
from hlo.values.types import ArrayShape, Shape, TupleShape, with_layouts_of

# The number of bytes by which MLIR's bytecode begins.
_BYTECODE = b"ML\xefR"


@dataclass(frozen=True)
class Program:
    """A program, and what a device has of it.

    Attributes:
        module: what each device runs, on its shards.
        parameter_shardings, result_shardings: of the leaves of the parameters and the result, None
            for a program that is not partitioned.
    """

    module: Module
    parameter_shardings: tuple[Sharding, ...] | None = None
    result_shardings: tuple[Sharding, ...] | None = None

    @staticmethod
    def of_device(module: Module, options: CompileOptions) -> Program:
        """Return the program of a module for each device, which has been prepared for options."""
        _set_counts(module, options)
        if options.num_partitions == 1:
            return Program(module)
        contract = contract_of(module)
        assert contract is not None
        return Program(module, contract.parameter_shardings, contract.result_shardings)

    @cached_property
    def arguments(self) -> list[Shape]:
        """The shapes of the arguments of a device: arrays and tokens."""
        return [leaf for s in self.module.program_shapes[0] for _, leaf in s.leaves()]

    @cached_property
    def results(self) -> list[Shape]:
        """The shapes of the results of a device: arrays and tokens."""
        return [leaf for _, leaf in self.module.program_shapes[1].leaves()]

    @cached_property
    def memory_kinds(self) -> tuple[list[int], list[int]]:
        """The kinds of memory that arguments are taken from and results put to, by number."""
        notes = self.module.attrs.get("frontend_attributes", {})
        return (
            _kinds(notes.get("parameter_memory_kinds"), len(self.arguments)),
            _kinds(notes.get("result_memory_kinds"), len(self.results)),
        )

    @cached_property
    def donated(self) -> list[int]:
        """The arguments that are gone after a run, by number."""
        attrs, numbers = self.module.attrs, self._argument_numbers
        given = [(a.parameter, a.index) for a in attrs.get("input_output_alias", ())]
        given += [(d.parameter, d.index) for d in attrs.get("buffer_donor", ())]
        return sorted({numbers[place] for place in given if place in numbers})

    @cached_property
    def aliases(self) -> dict[int, int]:
        """By the number of a result, the argument whose memory it takes."""
        results = {p: n for n, (p, _) in enumerate(self.module.program_shapes[1].leaves())}
        numbers = self._argument_numbers
        return {
            results[a.output]: numbers[a.parameter, a.index]
            for a in self.module.attrs.get("input_output_alias", ())
        }

    @cached_property
    def _argument_numbers(self) -> dict[tuple[int, tuple[int, ...]], int]:
        shapes = self.module.program_shapes[0]
        places = [(n, path) for n, s in enumerate(shapes) for path, _ in s.leaves()]
        return {place: number for number, place in enumerate(places)}


def _kinds(said: str | None, count: int) -> list[int]:
    """Return the kinds of memory in an attribute of a module. Raises PjrtError."""
    names = said.split(",") if said else []
    unknown = [name for name in names if name not in KIND_IDS]
    if unknown:
        raise PjrtError("INVALID_ARGUMENT", f"there is no kind of memory {unknown[0]!r}")
    # What is no part of a program as JAX writes it is in the usual one.
    return [KIND_IDS[name] for name in names] if len(names) == count else [0] * count


def read_program(code: bytes, form: str) -> Module:
    """Return the module in a program of one of PJRT's formats. Raises PjrtError or HloError."""
    if form == "mlir":
        given = code if code.startswith(_BYTECODE) else code.rstrip(b"\0").decode(errors="replace")
        return from_stablehlo(given, "program")
    if form == "hlo":
        return from_proto(code, "program")
    if form == "hlo_with_config":
        try:
            message = wire.decode(code, schema()["HloModuleProtoWithConfig"])
        except TextError as e:
            raise PjrtError("INVALID_ARGUMENT", f"the program cannot be read: {e}") from None
        return from_proto(wire.encode(message.sub("hlo_module"), schema()["HloModuleProto"]))
    raise PjrtError("INVALID_ARGUMENT", f"a program of the format {form!r} is not known here")


def prepare(source: Module, options: CompileOptions) -> Program:
    """Return a program for the devices that its options say. Raises PjrtError or HloError."""
    _set_counts(source, options)
    _set_layouts(source, options)
    _need_static(source)
    if options.num_partitions == 1:
        return Program(source)
    from hlo.compiler.partition import partition

    module = partition(source).module
    _take_layouts(module, source)
    return Program.of_device(module, options)


def _take_layouts(module: Module, source: Module) -> None:
    """Have a device's arrays arranged as those of the program on whole arrays."""
    parameters, result = source.program_shapes
    entry = module.entry
    shapes = [
        with_layouts_of(p.shape, s) for p, s in zip(entry.parameters, parameters, strict=True)
    ]
    module.attrs["entry_computation_layout"] = ProgramShape(
        tuple(shapes), with_layouts_of(entry.result_shape, result)
    )


def _set_counts(module: Module, options: CompileOptions) -> None:
    """Have a module's header say how many devices its options ask for."""
    counts = {"replica_count": options.num_replicas, "num_partitions": options.num_partitions}
    for key, count in counts.items():
        said = module.attrs.get(key, 1)
        if said not in (1, count):
            raise PjrtError(
                "INVALID_ARGUMENT", f"the program says {key}={said}, its compile options {count}"
            )
        module.attrs.pop(key, None)
        if count > 1:
            module.attrs[key] = count


def _set_layouts(module: Module, options: CompileOptions) -> None:
    """Have a module take and give arrays in the layouts of the compile options, where these have
    any."""
    if options.argument_layouts is None and options.result_layout is None:
        return
    parameters, result = module.program_shapes
    given = options.argument_layouts
    if given is not None:
        if len(given) != len(parameters):
            raise PjrtError(
                "INVALID_ARGUMENT", f"the compile options have layouts of {len(given)} arguments, "
                f"the program takes {len(parameters)}",
            )  # fmt: skip
        parameters = [_laid_out(s, g) for s, g in zip(parameters, given, strict=True)]
    if options.result_layout is not None:
        result = _laid_out(result, options.result_layout)
    module.attrs["entry_computation_layout"] = ProgramShape(tuple(parameters), result)


def _laid_out(shape: Shape, layout: Shape) -> Shape:
    """Return a shape with the layouts of another, where that has any."""
    if isinstance(shape, TupleShape) and isinstance(layout, TupleShape):
        pairs = zip(shape.elements, layout.elements, strict=True)
        return TupleShape(tuple(_laid_out(s, g) for s, g in pairs))
    if isinstance(layout, ArrayShape) and layout.layout is not None:
        return with_layouts_of(shape, layout)
    return shape


def _need_static(module: Module) -> None:
    """Raise PjrtError for arguments and results that no buffer can hold."""
    shapes, result = module.program_shapes
    sides: Sequence[tuple[str, Sequence[Shape]]] = (("argument", shapes), ("result", [result]))
    for what, of in sides:
        for shape in of:
            for _, leaf in shape.leaves():
                if isinstance(leaf, ArrayShape) and leaf.is_dynamic:
                    raise PjrtError(
                        "UNIMPLEMENTED", f"an {what} has the dynamic shape {leaf}: "
                        "buffers of this plug-in have static shapes",
                    )  # fmt: skip
