"""From a program as JAX hands it over to the module that each device runs."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import TextError
from hlo.frontends.proto import from_proto, wire
from hlo.frontends.proto.schema import schema
from hlo.frontends.stablehlo import from_stablehlo
from hlo.frontends.text.header import ProgramShape as EntryLayout
from hlo.ir import Module
from hlo.pjrt.compile_options import CompileOptions
from hlo.pjrt.entries import PjrtError
from hlo.values.types import ArrayShape, Shape, TupleShape, with_layouts_of

# The number of bytes by which MLIR's bytecode begins.
_BYTECODE = b"ML\xefR"


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


def prepared(source: Module, options: CompileOptions) -> Module:
    """Return the module of each device that its options say. Raises PjrtError or HloError."""
    _set_counts(source, options)
    _set_layouts(source, options)
    _set_freedom(source, options)
    _need_static(source)
    if options.num_partitions == 1:
        return source
    from hlo.compiler.partition import partition

    module = partition(source).module
    _take_layouts(module, source)
    return module


def _take_layouts(module: Module, source: Module) -> None:
    """Have a device's arrays arranged as those of the program on whole arrays."""
    parameters, result = source.program_shapes
    entry = module.entry
    shapes = [
        with_layouts_of(p.shape, s) for p, s in zip(entry.parameters, parameters, strict=True)
    ]
    module.attrs["entry_computation_layout"] = EntryLayout(
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


def _set_freedom(module: Module, options: CompileOptions) -> None:
    """Have a module say of which arguments and results the compiler chooses the sharding."""
    given = {
        "allow_spmd_sharding_propagation_to_parameters": options.arguments_may_be_cut,
        "allow_spmd_sharding_propagation_to_output": options.outputs_may_be_cut,
    }
    for key, allowed in given.items():
        if any(allowed):
            module.attrs[key] = allowed


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
    module.attrs["entry_computation_layout"] = EntryLayout(tuple(parameters), result)


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
