"""Random shardings on the instructions of random modules: `generate_sharded(kind, seed)`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.literal import Literal
from hlo.values.sharding import Sharding, TiledSharding, TupleSharding, WholeSharding
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.types import ArrayShape, Shape, TupleShape, array
from tests.generators.dynamic import generate_dynamic
from tests.generators.modules import arguments, generate
from tests.generators.nested import generate_nested
from tests.generators.op_builder import Cases
from tests.generators.op_cases import Maker
from tests.generators.ops import MAKERS, Case, generate_ops, made_by
from tests.generators.rows import generate_rows

MESHES = ((2,), (4,), (2, 2), (2, 3), (8,))
_REPLICATED = WholeSharding("replicated")

# What says itself for which devices it is, or asks the host, has no counterpart on other devices.
_NOT_DISTRIBUTED = {"collective"}
_MODULES: dict[str, Callable[[int], Module]] = {
    "flat": generate, "nested": generate_nested, "rows": generate_rows,
    "dynamic-sizes": generate_dynamic,
}  # fmt: skip


def _shuffle(g: Cases) -> None:
    et, dims = g.type(lambda _: True), g.dims(1)
    moved = g.rng.sample(range(len(dims)), g.rng.randint(1, len(dims)))
    shifts = tuple(g.rng.randint(-9, 9) for _ in moved)
    x = g.value(et, dims)
    g.result(g.emit("shuffle", [x], dimensions=tuple(moved), mode="rotate", shifts=shifts))


def _rng(g: Cases) -> None:
    et, dims = g.pick("f32", "f64", "s32", "u8", "bf16"), g.dims()
    low, high = (g.emit("constant", shape=et, literal=Literal.of(np.full((), n, et.dtype)))
                 for n in (1, 7))  # fmt: skip
    shape = array(et, dims)
    normal = et.is_float and g.chance(0.5)
    attrs = {"distribution": "rng_normal" if normal else "rng_uniform"}
    # One alone: which of several draws first, nothing says.
    if g.chance(0.9):
        g.result(g.emit("rng", [low, high], shape=shape, **attrs), rtol=None)
    else:
        g.result(g.emit("rng-get-and-update-state", delta=g.rng.randint(0, 5)))


_MORE: dict[str, Maker] = {"shuffle": _shuffle, "rng": _rng}
KINDS = (*(m for m in MAKERS if m not in _NOT_DISTRIBUTED), *_MORE, *_MODULES)


def random_sharding(rng: random.Random, shape: ArrayShape, mesh: Sequence[int]) -> Sharding:
    """Return a sharding of an array over a mesh: tiles along some of its axes, in any order.

    Mostly of dimensions of more than one element; some have fewer elements than tiles.
    """
    if rng.random() < 0.12:
        return _REPLICATED
    axes = list(range(len(mesh)))
    if rng.random() < 0.5:
        rng.shuffle(axes)
    dims: list[list[int]] = [[] for _ in range(shape.rank)]
    rest: list[int] = []
    for axis in axes:
        long = [d for d, size in enumerate(shape.dims) if size > 1]
        choices = long if long and rng.random() < 0.95 else range(shape.rank)
        if choices and rng.random() < 0.8:
            dims[rng.choice(choices)].append(axis)
        else:
            rest.append(axis)
    tiles = [_count(mesh, d) for d in dims]
    copies = _count(mesh, rest)
    if copies == _count(mesh, axes):
        return _REPLICATED
    subgroups = ("replicated",) if copies > 1 else ()
    sizes = (*tiles, copies) if copies > 1 else tuple(tiles)
    perm = [a for d in dims for a in d] + rest
    grid = DeviceGrid.iota(sizes, mesh, perm)
    if rng.random() < 0.25:  # the same devices, or any order of them, as a list
        ids = grid.array().reshape(-1).tolist()
        if rng.random() < 0.4:
            rng.shuffle(ids)
        grid = DeviceGrid(tuple(sizes), ids=tuple(ids))
    return TiledSharding(grid, subgroups)


def _count(mesh: Sequence[int], axes: Sequence[int]) -> int:
    count = 1
    for axis in axes:
        count *= mesh[axis]
    return count


def annotate(rng: random.Random, module: Module, mesh: Sequence[int], often: float) -> None:
    """Give a module's instructions random shardings over a mesh, and its header their number."""
    module.attrs["num_partitions"] = _count(mesh, range(len(mesh)))
    for comp in _run_on_values(module.entry, {}):
        for inst in comp:
            outside = comp is module.entry and (inst.opcode == "parameter" or inst.is_root)
            if rng.random() < (0.8 if outside else often):
                sharding = _of_shape(rng, inst.shape, mesh)
                if sharding is not None:
                    inst.annotations["sharding"] = sharding
    for inst in module.instructions():
        alike = _alike(inst)
        said = [i.annotations["sharding"] for i in alike if "sharding" in i.annotations]
        if said:
            for other in alike:
                other.annotations["sharding"] = said[0]


def _alike(inst: Instruction) -> list[Instruction]:
    """Return the instructions that have to have the same sharding: callers, what they call."""
    if inst.opcode == "while":
        body, condition = inst.body, inst.condition
        return [inst, body.root, *body.parameters, *condition.parameters]
    if inst.opcode == "conditional":
        return [inst, *(c.root for c in inst.called_computations)]
    return []


def _run_on_values(comp: Computation, seen: dict[Computation, None]) -> Iterator[Computation]:
    if comp in seen:
        return
    seen[comp] = None
    yield comp
    for inst in comp:
        if inst.spec.has(Trait.CONTROL_FLOW):
            for callee in inst.called_computations:
                yield from _run_on_values(callee, seen)


def _of_shape(rng: random.Random, shape: Shape, mesh: Sequence[int]) -> Sharding | None:
    if isinstance(shape, ArrayShape):
        return random_sharding(rng, shape, mesh)
    leaves = [s for _, s in shape.leaves()]
    if not isinstance(shape, TupleShape) or not leaves:
        return None
    return TupleSharding(
        tuple(
            random_sharding(rng, s, mesh) if isinstance(s, ArrayShape) else _REPLICATED
            for s in leaves
        )
    )


def generate_sharded(kind: str, seed: int) -> tuple[Case, Case, tuple[int, ...]]:
    """Return a case for one device, the same with shardings, and the mesh that they are over.

    kind: one of `KINDS`: a maker of operations, or modules of 20 to 60 instructions.
    """
    rng = random.Random(f"shardings {kind} {seed}")
    mesh = rng.choice(MESHES)
    if kind in _MODULES:
        module = _MODULES[kind](seed)
        case = Case(module, arguments(seed, module), (kind,), 1e-4)
    elif kind in _MORE:
        case = made_by([(kind, _MORE[kind])], Cases(seed, kind), nested=False)
    else:
        case = generate_ops(seed, kind, nested=rng.random() < 0.15)
    module = case.module.clone()
    annotate(rng, module, mesh, rng.choice((0.15, 0.4, 0.8)))
    if rng.random() < 0.08 and kind != "rng":  # replicas draw numbers of their own
        module.attrs["replica_count"] = 2
    return case, replace(case, module=module), mesh
