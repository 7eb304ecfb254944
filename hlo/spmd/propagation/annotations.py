"""Annotations of a module in the form of GSPMD: what its shardings demand of propagation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hlo.errors import HloError, InferError
from hlo.ir import Instruction, Module
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.values.sharding import (
    NamedSharding,
    ShardGroup,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
)
from hlo.values.types import ArrayShape, Shape

_UNSPECIFIED = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")
ANNOTATION = "annotation"
PARAMETERS = "allow_spmd_sharding_propagation_to_parameters"
RESULTS = "allow_spmd_sharding_propagation_to_output"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is said of one array.

    Attributes:
        spec: the axes that cut it, as far as they are said.
        open: the dimensions that may be cut further.
        sharding: the sharding as the module has it, where it says everything.
        priorities: for each dimension, the round from which on its axes propagate; empty for 0.
        replicated: axes that must not cut it.
        group: the group of arrays of the same sharding that it is in, of GSPMD or of Shardy.
    """

    spec: PartitionSpec
    open: tuple[bool, ...]
    sharding: Sharding | None = None
    priorities: tuple[int, ...] = ()
    replicated: Axes = ()
    group: tuple[str, int] | None = None


Annotations = dict[tuple[Instruction, int], Annotation]
"""Annotations by instruction and number of the leaf of its shape."""


def is_call_of(inst: Instruction, *targets: str) -> bool:
    """Return whether an instruction is a custom call of one of the targets."""
    return inst.opcode == "custom-call" and inst.custom_call_target in targets


def leaf_shapes(shape: Shape) -> list[Shape]:
    """Return the shapes of the leaves of a shape."""
    return [s for _, s in shape.leaves()]


def leaf_shardings(sharding: Sharding, shape: Shape) -> list[Sharding]:
    """Return the sharding of each leaf of a shape."""
    count = len(leaf_shapes(shape))
    if isinstance(sharding, TupleSharding) and shape.is_tuple:
        if count and len(sharding.elements) != count:
            raise InferError(
                f"the sharding has {len(sharding.elements)} elements, the value has {count} leaves",
                attr="sharding", code="bad-sharding",
            )  # fmt: skip
        return list(sharding.elements[:count])
    return [sharding] * count


def shardings_of(module: Module) -> Iterator[Sharding]:
    """Yield the shardings of single arrays that the instructions of a module have."""
    for inst in module.instructions():
        sharding = inst.annotations.get("sharding")
        if sharding is not None:
            yield from sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)


def is_allowed(module: Module, key: str, number: int, count: int) -> bool:
    """Return whether the header lets propagation choose a parameter or result, of `count`."""
    flags: Sequence[bool] = module.attrs.get(key, ())
    if len(flags) == 1 and count != 1:
        return bool(flags[0])
    return number < len(flags) and bool(flags[number])


def at_instruction(error: InferError, inst: Instruction) -> HloError:
    """Return the error of an instruction's annotation."""
    span = inst.span.attr("sharding") if inst.span is not None else None
    return HloError.at(error.code, f"{inst.name}: {error.message}", span, error.hint)


def read_annotations(module: Module, mesh: DeviceMesh) -> Annotations:
    """Return the annotations of the instructions of a module.

    Raises HloError (`bad-sharding`) for a sharding that does not fit the mesh or its value.
    """
    found: Annotations = {}
    for inst in module.instructions():
        sharding = inst.annotations.get("sharding")
        if sharding is None:
            continue
        try:
            shardings = leaf_shardings(sharding, inst.shape)
            for leaf, (one, shape) in enumerate(
                zip(shardings, leaf_shapes(inst.shape), strict=True)
            ):
                if isinstance(shape, ArrayShape):
                    annotation = _of_leaf(inst, one, shape, mesh)
                    if annotation is not None:
                        found[inst, leaf] = annotation
        except InferError as e:
            raise at_instruction(e, inst) from None
    _free_results(module, found)
    return found


def _of_leaf(
    inst: Instruction, sharding: Sharding, shape: ArrayShape, mesh: DeviceMesh
) -> Annotation | None:
    sharding.check(shape, mesh.size if mesh.size > 1 else None)
    group = _group(sharding)
    if isinstance(sharding, WholeSharding) and sharding.kind == "unknown":
        spec = PartitionSpec.replicated(shape.rank)
        return Annotation(spec, (True,) * shape.rank, group=group) if group else None
    spec = mesh.spec(sharding, shape.rank) if mesh.size > 1 else PartitionSpec.replicated(
        shape.rank
    )  # fmt: skip
    if isinstance(sharding, NamedSharding) and sharding.kind == "dims" and sharding.dims:
        open_ = tuple(not d.closed for d in sharding.dims)
    else:
        unspecified = _unspecified_dims(inst)
        open_ = tuple(d in unspecified for d in range(shape.rank))
    return Annotation(spec, open_, sharding, group=group)


def _group(sharding: Sharding) -> tuple[str, int] | None:
    group: ShardGroup | None = None
    if isinstance(sharding, (WholeSharding, TiledSharding)):
        group = sharding.group
    return ("shard", group.id) if group is not None else None


def _unspecified_dims(inst: Instruction) -> frozenset[int]:
    """Return the dimensions that an annotation leaves to propagation."""
    if inst.opcode != "custom-call":
        return frozenset()
    config: Any = inst.annotations.get("backend_config", "")
    m = _UNSPECIFIED.search(str(config))
    return frozenset(int(w) for w in m[1].split(",") if w.strip()) if m else frozenset()


def _free_results(module: Module, found: Annotations) -> None:
    """Forget that results are replicated where the header lets propagation choose them.

    A tuple has shardings for all of its elements; those that nobody chose are replicated.
    """
    root = module.entry.root
    count = len(leaf_shapes(root.shape))
    for leaf in range(count):
        said = found.get((root, leaf))
        if said is None or not root.shape.is_tuple or not said.spec.is_replicated:
            continue
        if is_allowed(module, RESULTS, leaf, count):
            del found[root, leaf]
