"""Weights: parameters of a module that are turned into constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hlo.errors import HloError, did_you_mean
from hlo.io.archives import read_archive
from hlo.io.arguments import Parameter, as_leaf
from hlo.io.files import named_file, read_npy
from hlo.ir import Computation, Instruction, Module
from hlo.values.arrays import DynamicArray
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Shape, TupleShape
from hlo.verifier import verify

Index = tuple[int, ...]
# The leaves of a parameter that are baked in, by index path.
Baked = Mapping[Index, Literal]
_NAMED = 8


def read_weights(paths: Sequence[str | Path]) -> dict[str, Any]:
    """Return arrays by name, from npz and safetensors files and folders of npy files.

    Raises HloError, also for a name that two files have.
    """
    found: dict[str, Any] = {}
    for path in paths:
        for name, value in _read(path).items():
            if name in found:
                raise HloError.at("bad-file", f"{path}: {name!r} is also in an earlier file")
            found[name] = value
    return found


def _read(path: str | Path) -> dict[str, Any]:
    place = named_file(path)
    if not place.is_dir():
        if place.suffix == ".npy":
            raise HloError.at(
                "bad-file", f"{path} holds one array, without a name",
                hint="put it into a folder, or into an npz file",
            )  # fmt: skip
        return dict(read_archive(path))
    files = sorted(place.glob("*.npy"))
    if not files:
        raise HloError.at("bad-file", f"{path}: there are no .npy files in this folder")
    return {f.stem: read_npy(f) for f in files}


def bake(module: Module, weights: Mapping[str, Any], source: str = "weights") -> int:
    """Make constants of parameters of a module's entry, in place; returns how many arrays.

    weights: arrays by the parameter's name, by the `op_name` of its metadata, or by its number (`3`
    or `arg3`); a leaf of a tuple has its index appended (`p.0`). source: their origin, for errors.
    The other parameters, and the other leaves of a tuple, move up; what the header says of
    parameters follows. Raises HloError, also for an invalid module and for a name that is no
    parameter's.
    """
    verify(module)
    leaves = _chosen(module, weights, source)
    if not leaves:
        return 0
    entry = module.entry
    order, places = list(entry), {}
    parameters = list(entry.parameters)
    for number, baked in leaves.items():
        places[parameters[number]] = _replace(entry, parameters[number], baked)
    entry.reorder([new for inst in order for new in places.get(inst, [inst])])
    for number, parameter in enumerate(entry.parameters):
        parameter.attrs["number"] = number
    _mend_header(module, [p.shape for p in parameters], leaves)
    return sum(map(len, leaves.values()))


def bake_given(module: Module, weights: Mapping[str, Any] | str | Path) -> int:
    """Bake in what is given as arrays or as the name of a file; see `bake` and `read_weights`."""
    if isinstance(weights, (str, Path)):
        return bake(module, read_weights([weights]), str(weights))
    return bake(module, weights)


# --- names and values ---------------------------------------------------------------------------


def _chosen(module: Module, weights: Mapping[str, Any], source: str) -> Mapping[int, Baked]:
    """Return the literals to bake in by parameter and index path, checked. Raises HloError."""
    names = _names(module.entry.parameters)
    unknown = [key for key in weights if key.removeprefix("%") not in names]
    if unknown:
        own = [p.name for p in module.entry.parameters]
        raise HloError.at(
            "unknown-input", f"{source}: no parameter is called {_listed(unknown)}",
            hint=did_you_mean(unknown[0], names) or f"the parameters are {_listed(own) or 'none'}",
        )  # fmt: skip
    found: dict[int, dict[Index, Literal]] = {}
    for key, value in weights.items():
        number, path, shape = names[key.removeprefix("%")]
        parameter = module.entry.parameters[number]
        what = f"{source}: {key}"
        if parameter.name != key.removeprefix("%"):
            what += f" (parameter {parameter.name})"
        of = found.setdefault(number, {})
        if path in of:
            raise HloError.at("unknown-input", f"{what} is given twice", parameter.span)
        of[path] = _literal(value, shape, what)
    return found


def _names(parameters: Sequence[Instruction]) -> dict[str, tuple[int, Index, Shape]]:
    """Return number, index path and shape of each leaf by all of its names."""
    found: dict[str, tuple[int, Index, Shape]] = {}
    said = [_op_name(p) for p in parameters]
    # A parameter's own name takes precedence over other parameters' metadata, and that over
    # numbers.
    for spelled in (
        [p.name for p in parameters],
        [name if said.count(name) == 1 else "" for name in said],
        [f"arg{n}" for n in range(len(parameters))],
        [str(n) for n in range(len(parameters))],
    ):
        for number, (start, inst) in enumerate(zip(spelled, parameters, strict=True)):
            for path, _, shape in Parameter(number, inst.name, inst.shape).leaves():
                if start:
                    name = ".".join([start, *map(str, path)])
                    found.setdefault(name, (number, path, shape))
    return found


def _op_name(parameter: Instruction) -> str:
    metadata = parameter.annotations.get("metadata")
    return str(metadata.op_name) if metadata is not None else ""


def _literal(value: Any, shape: Shape, what: str) -> Literal:
    array = as_leaf(value, shape, what)
    assert isinstance(shape, ArrayShape)
    if isinstance(array, DynamicArray) or array.shape != shape.dims:
        raise HloError.at(
            "unsupported", f"{what}: {shape.to_string(False)} has no fixed size, as constants have"
        )
    return Literal(shape, array)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


# --- the entry ----------------------------------------------------------------------------------


def _replace(entry: Computation, parameter: Instruction, baked: Baked) -> list[Instruction]:
    """Replace a parameter by constants and its remaining leaves. Returns the replacement."""
    made: list[Instruction] = []

    def create(
        opcode: str, shape: Shape, operands: Iterable[Instruction] = (), **attrs: Any
    ) -> Instruction:
        made.append(
            entry.create(opcode, shape, operands, attrs, name=parameter.name, like=parameter)
        )
        return made[-1]

    def value(shape: Shape, path: Index, rest: Instruction | None) -> Instruction:
        """Return the value at a path; `rest` is the remaining parameter."""
        if path in baked:
            return create("constant", shape, literal=baked[path])
        if rest is not None and not _is_cut(path, baked):
            return rest
        assert isinstance(shape, TupleShape)
        elements, index = [], 0
        for i, part in enumerate(shape.elements):
            left, inner = _rest(part, baked, (*path, i)), None
            if left is not None:
                assert rest is not None
                inner = create("get-tuple-element", left, [rest], index=index)
                index += 1
            elements.append(value(part, (*path, i), inner))
        return create("tuple", shape, elements)

    shape = _rest(parameter.shape, baked)
    rest = None if shape is None else create("parameter", shape, number=parameter.parameter_number)
    new = value(parameter.shape, (), rest)
    parameter.replace_all_uses_with(new)
    parameter.drop_edges()
    entry.remove(parameter)
    entry.rename(rest or new, parameter.name)
    return made


def _is_cut(path: Index, baked: Baked) -> bool:
    """True when a leaf at or below a path is baked in."""
    return any(b[: len(path)] == path for b in baked)


def _rest(shape: Shape, baked: Baked, path: Index = ()) -> Shape | None:
    """Return the rest of the shape at a path, None if nothing remains."""
    if path in baked:
        return None
    if not isinstance(shape, TupleShape) or not _is_cut(path, baked):
        return shape
    parts = [_rest(s, baked, (*path, i)) for i, s in enumerate(shape.elements)]
    left = tuple(p for p in parts if p is not None)
    return TupleShape(left) if left else None


# --- the header ---------------------------------------------------------------------------------


def _mend_header(module: Module, shapes: Sequence[Shape], leaves: Mapping[int, Baked]) -> None:
    """Update a module's attributes to the new parameters.

    shapes: of the old ones.
    """
    attrs = module.attrs
    left = [_rest(s, leaves.get(n, {})) is not None for n, s in enumerate(shapes)]

    def moved(of: Any) -> Any:
        """Return an alias or a donor of the new parameters, None if it is a constant now."""
        index = _moved(shapes[of.parameter], leaves.get(of.parameter, {}), of.index)
        if index is None:
            return None
        return replace(of, parameter=sum(left[: of.parameter]), index=index)

    layout = attrs.get("entry_computation_layout")
    if layout is not None:
        rests = [_rest(s, leaves.get(n, {})) for n, s in enumerate(layout.parameters)]
        parameters = tuple(s for s in rests if s is not None)
        attrs["entry_computation_layout"] = replace(layout, parameters=parameters)
    for key in ("input_output_alias", "buffer_donor"):
        if key in attrs:
            attrs[key] = tuple(new for old in attrs[key] if (new := moved(old)) is not None)
            if not attrs[key]:
                del attrs[key]
    propagated = attrs.get("allow_spmd_sharding_propagation_to_parameters", ())
    if len(propagated) == len(shapes) and len(shapes) > 1:
        kept = tuple(p for p, is_left in zip(propagated, left, strict=True) if is_left)
        attrs["allow_spmd_sharding_propagation_to_parameters"] = kept or (False,)
    # Refers to the old parameters by number, and text does not have it.
    for key in ("spmd_parameters_shardings", "cross_program_prefetches"):
        module.unprinted.pop(key, None)


def _moved(shape: Shape, baked: Baked, index: Index) -> Index | None:
    """Return the new path of a parameter's leaf, None if it was baked in."""
    found: list[int] = []
    for depth, i in enumerate(index):
        assert isinstance(shape, TupleShape)
        path = index[:depth]
        is_left = [_rest(s, baked, (*path, j)) is not None for j, s in enumerate(shape.elements)]
        if not is_left[i]:
            return None
        found.append(sum(is_left[:i]))
        shape = shape.elements[i]
    return None if _is_cut(index, baked) else tuple(found)
