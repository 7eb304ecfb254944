"""Shardy's operations, and its shardings of values.

A sharding becomes a tiled sharding of HLO, and is also kept in a frontend attribute for
partitioners that support Shardy, as in XLA. Source: Shardy's dialect; XLA's `sdy_round_trip`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hlo.errors import InferError, TextError
from hlo.frontends.stablehlo.context import Context
from hlo.frontends.stablehlo.cursor import Tagged
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.values.sharding import Sharding
from hlo.values.sharding.shardy import Mesh, per_value, read_sharding, read_shardings
from hlo.values.types import Shape, TupleShape

NOTE = "xla.sdy.sharding"

# --- annotations --------------------------------------------------------------------------------


def annotate(inst: Instruction, value: Any, meshes: Mapping[str, Mesh]) -> None:
    """Set the sharding of an instruction from `sdy.sharding = ..`. Raises InferError."""
    if not isinstance(value, Tagged) or value.name not in (_ONE, _EACH):
        raise InferError("sdy.sharding is #sdy.sharding<..>", code="bad-sharding")
    try:
        if value.name == _ONE:
            shardings = [read_sharding(value.text, meshes)]
        else:
            shardings = read_shardings(value.text, meshes)
    except TextError as e:
        raise InferError(f"sdy.sharding: {e.message}", code=e.code) from None
    found = per_value(shardings, inst.shape)
    inst.annotations["sharding"] = found
    note(inst, NOTE, value)


_ONE, _EACH = "sdy.sharding", "sdy.sharding_per_value"


def note(inst: Instruction, key: str, value: Tagged | str) -> None:
    """Add a frontend attribute to an instruction."""
    text = f"#{value.name}<{' '.join(value.text.split())}>" if isinstance(value, Tagged) else value
    known = dict(inst.annotations.get("frontend_attributes", {}))
    known[key] = text
    inst.annotations["frontend_attributes"] = MappingProxyType(dict(sorted(known.items())))


def _named(c: Context, name: str, tag: str) -> Tagged:
    """Return an attribute, whose name the pretty form leaves out."""
    value = c.attr(name)
    if not isinstance(value, Tagged):
        raise InferError(f"{name} is #{tag}<..>", code="bad-value")
    return Tagged(tag, value.text, value.start) if not value.name else value


def custom_call(
    c: Context, target: str, operands: list[Instruction], shape: Shape, *, effect: bool = True
) -> Instruction:
    """Append one of the custom calls that annotate values for XLA's partitioner."""
    return c.b.op("custom-call", *operands, shape=shape, custom_call_target=target,
                  custom_call_has_side_effect=effect)  # fmt: skip


# --- operations ---------------------------------------------------------------------------------


def sharding_constraint(c: Context) -> Instruction:
    """Append a sharding annotation of a value."""
    x = c.operand(0)
    value = c.attr("sharding")
    if not isinstance(value, Tagged):
        raise InferError("sharding is #sdy.sharding<..>", code="bad-sharding")
    inst = custom_call(c, "Sharding", [x], x.shape, effect=False)
    one = f"[<{value.text}>]" if value.name in ("", _ONE) else value.text
    annotate(inst, Tagged(_EACH, one, value.start), c.converter.meshes)
    return inst


def manual_computation(c: Context) -> Instruction:
    """Append a call of the per-device computation, between conversions to local shapes and back."""
    block = c.region(0)
    listed = _named(c, "manual_axes", "sdy.manual_axes")
    inside = listed.text.strip().removeprefix("{").removesuffix("}")
    axes = Tagged("sdy", f"manual_axes{{{inside}}}", listed.start)
    local = [s for _, s in block.arguments]
    body = c.converter.region(block, "xla.sdy.manual_computation_body", local, c.op, c.values)
    parts = list(c.operands)
    if parts:
        shardings = _checked(c, "in_shardings", len(parts))
        shape = local[0] if len(local) == 1 else TupleShape(tuple(local))
        inst = custom_call(c, "xla.sdy.GlobalToLocalShape", parts, shape)
        note(inst, "xla.sdy.in_shardings", shardings)
        note(inst, "xla.sdy.manual_axes", axes)
        parts = [inst] if len(local) == 1 else [c.b.element(inst, i) for i in range(len(local))]
    call = c.b.op("call", *parts, to_apply=body)
    note(call, "inlineable", "false")
    results = c.op.result_types
    if not results:
        return call
    shardings = _checked(c, "out_shardings", len(results))
    whole = isinstance(call.shape, TupleShape)
    out = [c.b.element(call, i) for i in range(len(results))] if whole else [call]
    inst = custom_call(c, "xla.sdy.LocalToGlobalShape", out, c.shape)
    note(inst, "xla.sdy.out_shardings", shardings)
    note(inst, "xla.sdy.manual_axes", axes)
    return inst


def _checked(c: Context, name: str, count: int) -> Tagged:
    """Return the shardings of operands or results, checked for their number and their meshes."""
    value = _named(c, name, _EACH)
    try:
        found = len(read_shardings(value.text, c.converter.meshes))
    except TextError as e:
        raise InferError(f"{name}: {e.message}", code=e.code) from None
    if found != count:
        raise InferError(f"{name} has {found} shardings for {count} values", code="bad-sharding")
    text = value.text if value.text.strip().startswith("[") else f"[{value.text}]"
    return Tagged(_EACH, text, value.start)


def named_computation(c: Context) -> Instruction:
    """Append a call of a region with a name."""
    block = c.region(0)
    value = c.attr("name")
    name = str(value)
    shapes = [o.shape for o in c.operands]
    body = c.converter.region(block, name, shapes, c.op, c.values)
    return c.b.op("call", *c.operands, to_apply=body)


_DIRECTIONS = ("NONE", "FORWARD", "BACKWARD", "BOTH")


def propagation_barrier(c: Context) -> Instruction:
    """Append an annotation that stops sharding propagation at a value."""
    x = c.operand(0)
    direction = c.attr("allowed_direction")
    if isinstance(direction, Tagged):
        direction = direction.text.split()[-1:]
        direction = direction[0] if direction else ""
    number = direction if isinstance(direction, int) else (
        _DIRECTIONS.index(direction) if direction in _DIRECTIONS else None)  # fmt: skip
    if number is None:
        raise InferError(f"allowed_direction is one of {', '.join(_DIRECTIONS)}", code="bad-value")
    inst = custom_call(c, "xla.sdy.PropagationBarrier", [x], x.shape)
    note(inst, "xla.sdy.allowed_direction", f"{number} : i32")
    return inst


def sharding_group(c: Context) -> Instruction:
    """Append an annotation that the values of a group have the same sharding."""
    inst = custom_call(c, "xla.sdy.ShardingGroup", [c.operand(0)], TupleShape(()))
    note(inst, "xla.sdy.sharding_group_id", f"{c.integer('group_id')} : i64")
    return inst


def result_sharding(
    b: Builder, x: Instruction, value: Any, meshes: Mapping[str, Mesh]
) -> tuple[Instruction, Sharding]:
    """Return a function result with its sharding annotation, and that sharding."""
    if not isinstance(value, Tagged) or value.name != _ONE:
        raise InferError("sdy.sharding is #sdy.sharding<..>", code="bad-sharding")
    try:
        found = per_value([read_sharding(value.text, meshes)], x.shape)
    except TextError as e:
        raise InferError(f"sdy.sharding: {e.message}", code=e.code) from None
    inst = b.op("custom-call", x, shape=x.shape, custom_call_target="xla.sdy.FuncResultSharding",
             custom_call_has_side_effect=True)  # fmt: skip
    note(inst, NOTE, Tagged(_EACH, f"[<{value.text}>]", value.start))
    return inst, found
