"""Shardings for a module that has none: by names of values and axes of a grid of devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from hlo.errors import HloError, InferError, did_you_mean
from hlo.ir import Instruction, Module
from hlo.values.sharding import Sharding, TiledSharding, TupleSharding, WholeSharding
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.types import ArrayShape, Shape

DimAxes = Sequence[Sequence[int]]
"""For each dimension of an array, the axes of the grid that cut it; missing ones are whole."""

_RESULT = "out"


def annotate(module: Module, devices: Sequence[int], shards: Mapping[str, DimAxes]) -> None:
    """Distribute a module over a grid of devices, in place.

    Args:
        module: a valid module without shardings.
        devices: the sizes of the grid's axes.
        shards: the axes that cut each dimension of a value, by its name: of an instruction of the
            entry, `argN` for parameter N, or `out` and `outN` for the result or a leaf of it. A
            name may be a pattern with `*` of names of parameters.

    Raises:
        HloError: for names of nothing, axes that the grid has not, and axes used twice.
    """
    if not devices or any(d < 1 for d in devices):
        raise HloError.at("bad-value", "a grid of devices has axes of at least one device")
    module.attrs["num_partitions"] = math.prod(devices)
    entry = module.entry
    replicated = WholeSharding("replicated")
    for parameter in entry.parameters:
        parameter.annotations["sharding"] = _of_leaves(parameter.shape, replicated)
    results = [s for _, s in entry.result_shape.leaves()]
    outputs: dict[int, Sharding] = {}
    for name, dims in shards.items():
        number = _result_number(name, len(results))
        if number is not None:
            outputs[number] = _sharding(name, results[number], devices, dims)
            continue
        for inst in _named(module, name):
            inst.annotations["sharding"] = _sharding(name, inst.shape, devices, dims)
    if outputs:
        leaves = tuple(outputs.get(n, replicated) for n in range(len(results)))
        is_tuple = entry.root.shape.is_tuple
        root = entry.root
        root.annotations["sharding"] = TupleSharding(leaves) if is_tuple else leaves[0]


def read_dims(text: str) -> list[list[int]]:
    """Read `0,-,1+2`: for each dimension its axes, `-` for none. Raises HloError."""
    found: list[list[int]] = []
    for part in text.split(","):
        axes = [] if part.strip() in ("-", "") else part.split("+")
        if not all(a.strip().isdecimal() for a in axes):
            raise HloError.at(
                "bad-value", f"{part!r} is not an axis, axes joined by '+', or '-'",
                hint="as in x=0,-,1: dimension 0 along axis 0 of the devices, dimension 2 along 1",
            )  # fmt: skip
        found.append([int(a) for a in axes])
    return found


def _of_leaves(shape: Shape, sharding: Sharding) -> Sharding:
    count = sum(1 for _ in shape.leaves())
    return TupleSharding((sharding,) * max(count, 1)) if shape.is_tuple else sharding


def _result_number(name: str, count: int) -> int | None:
    if name == _RESULT and count == 1:
        return 0
    digits = name.removeprefix(_RESULT)
    if name.startswith(_RESULT) and digits.isdecimal() and int(digits) < count:
        return int(digits)
    return None


def _named(module: Module, name: str) -> list[Instruction]:
    """Return the instructions of the entry that a name means."""
    entry = module.entry
    if (inst := entry.get(name.removeprefix("%"))) is not None:
        return [inst]
    digits = name.removeprefix("arg")
    if name.startswith("arg") and digits.isdecimal() and int(digits) < len(entry.parameters):
        return [entry.parameters[int(digits)]]
    found = [p for p in entry.parameters if fnmatchcase(p.name, name)]
    if not found:
        known = [*(p.name for p in entry.parameters), _RESULT]
        raise HloError.at(
            "unknown-instruction",
            f"{name!r} is not an instruction of the entry",
            hint=did_you_mean(name, known),
        )
    return found


def _sharding(name: str, shape: Shape, devices: Sequence[int], dims: DimAxes) -> Sharding:
    if not isinstance(shape, ArrayShape):
        raise HloError.at(
            "bad-sharding",
            f"{name} is {shape.to_string(False)}, which cannot be sharded: it is not an array",
        )
    used = [a for axes in dims for a in axes]
    if len(dims) > shape.rank:
        raise HloError.at(
            "bad-sharding",
            f"{name}: {len(dims)} dimensions are cut, the value is {shape.to_string(False)}",
        )
    if any(not 0 <= a < len(devices) for a in used) or len(set(used)) != len(used):
        raise HloError.at(
            "bad-sharding", f"{name}: axes {', '.join(map(str, used))}; each of the "
            f"{len(devices)} axes of the devices, from 0 on, can be used once",
        )  # fmt: skip
    cut = [list(axes) for axes in dims] + [[] for _ in range(shape.rank - len(dims))]
    rest = [a for a in range(len(devices)) if a not in used]
    counts = [math.prod(devices[a] for a in axes) for axes in cut]
    if math.prod(counts) == 1:
        return WholeSharding("replicated")
    last = math.prod(devices[a] for a in rest)
    grid = DeviceGrid.iota([*counts, *([last] if last > 1 else [])], devices, [*used, *rest])
    sharding = TiledSharding(grid, ("replicated",) if last > 1 else ())
    try:
        sharding.check(shape)
    except InferError as e:
        raise HloError.at(e.code, f"{name}: {e.message}") from None
    return sharding
