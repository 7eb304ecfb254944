"""The entry computation with sizes beside its arrays."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.errors import HloError, InferError
from hlo.expansions.dynamic.draft import SizedDraft
from hlo.expansions.dynamic.sized import declared_flags, flags_of, marked, need_bounds, packed_shape
from hlo.ir import Computation, Module
from hlo.values.types import ArrayShape, Shape

Path = tuple[int, ...]
Aliases = Mapping[Path, tuple[int, Path]]


def with_sizes(entry: Computation, aliases: Aliases) -> tuple[Computation, Shape, Aliases]:
    """Return a computation that takes and gives sizes beside arrays.

    Also returns the shape of its result, with the dimensions that vary, and the aliases of results
    and parameters. Parameters have sizes for dimensions that are declared to vary. Raises HloError
    for what has no bound.
    """
    d = SizedDraft(entry.root)
    d.comp = Computation(entry.name)
    args = []
    for p in entry.parameters:
        d.inst = p
        try:
            need_bounds(p)
        except InferError as e:
            raise HloError.at(e.code, f"{p.name}: {e.message}", p.span) from None
        flags = declared_flags(p.shape)
        shape = packed_shape(p.shape, flags)
        number = p.parameter_number
        made = d.comp.create("parameter", shape, (), {"number": number}, name=p.name, like=p)
        args.append(d.unpacked(made, p.shape, flags))
    result = d.run(entry, args)
    flags = flags_of(result)
    shape = marked(entry.root.shape, flags)
    d.inst = entry.root
    d.comp.set_root(d.relaid(d.packed(result, flags), packed_shape(entry.root.shape, flags)))
    if entry.module is not None:
        # What collectives do depends on the numbers of devices that a module is for.
        module = Module(entry.module.name, attrs=entry.module.attrs)
        module.adopt(module.add(d.comp, entry=True))
    places = {
        _array_in(shape, output): (number, _array_in(entry.parameters[number].shape, path))
        for output, (number, path) in aliases.items()
    }
    return d.comp, shape, places


def _array_in(shape: Shape, path: Path) -> Path:
    """Return where an array is when the sizes stand beside those that vary."""
    leaf = shape.at(path)
    return (*path, 0) if isinstance(leaf, ArrayShape) and leaf.dynamic else path
