"""Operations of many devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.constants import dense_array
from hlo.frontends.stablehlo.context import Context, integers
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.ir import Instruction
from hlo.ir.builder import build_computation
from hlo.values.scan import Scanner
from hlo.values.sharding.replica_groups import ListedGroups, ReplicaGroups
from hlo.values.sharding.replica_groups import read as read_groups
from hlo.values.types import ArrayShape, array


def channel_id(c: Context) -> int | None:
    """Return the channel id, None if there is none or it is 0."""
    handle = c.op.attrs.get("channel_handle")
    if handle is None:
        return None
    (channel,) = integers([c.tagged("channel_handle").get("handle", 0)], "handle")
    return channel or None


def pairs_of(c: Context, name: str) -> list[list[int]]:
    """Return an attribute of two dimensions, `dense<[[0, 1]]>`."""
    value = c.attr(name)
    if not isinstance(value, Tagged) or not isinstance(value.type, ArrayShape):
        raise InferError(f"{name} is not dense<..>", code="bad-value")
    lists = dense_array(value.text, value.type, value.start)
    if lists.ndim != 2 or lists.dtype != np.int64:
        raise InferError(f"{name} has two dimensions, of i64", code="bad-value")
    found: list[list[int]] = lists.tolist()
    return found


def _groups(c: Context) -> ReplicaGroups:
    value = c.op.attrs.get("replica_groups")
    if value is None:
        return ListedGroups()
    if isinstance(value, Tagged) and value.type is None:
        return _mesh_groups(c, value)
    # A group that is shorter than others ends in -1.
    rows = [tuple(i for i in row if i != -1) for row in pairs_of(c, "replica_groups")]
    return ListedGroups(tuple(row for row in rows if row))


def _mesh_groups(c: Context, value: Tagged) -> ReplicaGroups:
    """Return the groups of `#stablehlo.replica_group_mesh_axes<mesh = .., axes = ..>`.

    The mesh is given, or named: `@mesh` is that of the module's `sdy.mesh`.
    """
    found = value.pairs()
    names = ",".join(_axis(a.pairs()) for a in _parts(found, "axes"))
    try:
        return read_groups(Scanner(f"{_mesh(c, found.get('mesh'))} {{{names}}}"))
    except TextError as e:
        raise InferError(f"replica_groups: {e.message}", code=e.code) from None


def _mesh(c: Context, mesh: Any) -> str:
    """Return a mesh as HLO writes it."""
    ids = ""
    if isinstance(mesh, Tagged):
        pairs = (a.pairs() for a in _parts(mesh.pairs(), "axes"))
        sizes = [(a.get("name"), a.get("size")) for a in pairs]
    else:
        known = c.converter.meshes.get(str(mesh))
        if known is None:
            raise InferError(f"replica_groups: there is no mesh @{mesh}", code="bad-sharding")
        sizes = [*known.axes]
        if known.devices:
            ids = f", device_ids=({','.join(map(str, known.devices))})"
    axes = ",".join(f"'{name}'={size}" for name, size in sizes)
    return f"mesh[{axes}]{ids}"


def _axis(axis: dict[str, Any]) -> str:
    part = axis.get("sub_axis_info")
    if not isinstance(part, Tagged):
        return f"'{axis.get('name')}'"
    pre_size, _, size = part.text.strip(" ()").partition(")")
    return f"'{axis.get('name')}':({pre_size}){size}"


def _parts(found: dict[str, Any], key: str) -> list[Tagged]:
    values = found.get(key)
    if not isinstance(values, list) or not all(isinstance(v, Tagged) for v in values):
        raise InferError(f"replica_groups: {key} is a list of attributes", code="bad-value")
    return values


def _collective(c: Context) -> dict[str, Any]:
    found: dict[str, Any] = {"replica_groups": _groups(c), "channel_id": channel_id(c)}
    if c.flag("use_global_device_ids"):
        found["use_global_device_ids"] = True
    return found


def all_gather(c: Context) -> Instruction:
    """Append an all-gather."""
    return c.make("all-gather", dimensions=(c.integer("all_gather_dim"),), **_collective(c))


def all_reduce(c: Context) -> Instruction:
    """Append an all-reduce."""
    return c.make("all-reduce", to_apply=c.combiner(), **_collective(c))


def cross_replica_sum(c: Context) -> Instruction:
    """Append an all-reduce with addition."""
    scalar = array(c.operand(0).array_shape.element_type, ())
    add = build_computation("sum", [scalar] * 2, lambda b, x, y: b.op("add", x, y))
    return c.make("all-reduce", to_apply=c.converter.adopt(add), **_collective(c))


def reduce_scatter(c: Context) -> Instruction:
    """Append a reduce-scatter."""
    return c.make("reduce-scatter", to_apply=c.combiner(),
                  dimensions=(c.integer("scatter_dimension"),), **_collective(c))  # fmt: skip


def all_to_all(c: Context) -> Instruction:
    """Append an all-to-all; the results of one on a single array are concatenated.

    Each device receives a part of the split dimension from each, and concatenates them along
    another one.
    """
    attrs = _collective(c)
    if len(c.operands) > 1:
        return c.make("all-to-all", **attrs)
    split, concat = c.integer("split_dimension"), c.integer("concat_dimension")
    count = c.integer("split_count")
    x = c.operand(0)
    dims = list(x.array_shape.dims)
    if x.array_shape.is_dynamic:
        raise InferError(
            f"{x.shape.to_string(False)} is of dynamic size", code="unbounded-dimension"
        )
    if not (0 <= split < len(dims) and 0 <= concat < len(dims) and count > 0):
        raise InferError(f"dimensions {split} and {concat} of {x.shape}, {count} parts",
                         code="bad-dimension")  # fmt: skip
    if dims[split] % count:
        raise InferError(f"dimension {split} of {x.shape} has no {count} equal parts",
                         code="bad-dimension")  # fmt: skip
    y = c.b.op("all-to-all", x, shape=x.shape, dimensions=(split,), **attrs)
    if split == concat:
        return y
    dims[split] //= count
    y = c.b.reshape(y, [*dims[:split], count, *dims[split:]])
    # The dimension of the parts is moved before the one they are concatenated along.
    order = [i for i in range(len(dims) + 1) if i != split]
    order.insert(concat, split)
    y = c.b.op("transpose", y, dimensions=tuple(order))
    dims[concat] *= count
    return c.b.reshape(y, dims)


def collective_permute(c: Context) -> Instruction:
    """Append a collective-permute."""
    pairs = tuple(map(tuple, pairs_of(c, "source_target_pairs")))
    return c.make("collective-permute", source_target_pairs=pairs, channel_id=channel_id(c))


def collective_broadcast(c: Context) -> Instruction:
    """Append a collective-broadcast."""
    return c.make("collective-broadcast", **_collective(c), **_dynamic_root(c))


def collective_reduce(c: Context) -> Instruction:
    """Append a collective-reduce."""
    return c.make("collective-reduce", to_apply=c.combiner(), **_collective(c), **_dynamic_root(c))


def _dynamic_root(c: Context) -> dict[str, Any]:
    return {"has_dynamic_root": c.flag("has_dynamic_root")}
