"""Operations that run on one device alone, which their sharding names; the others get the results.

What an operation does besides computing its result, as with a queue of the host, happens once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ir import Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.owned import joining_opcode, no_value
from hlo.spmd.handlers.whole import whole_values
from hlo.spmd.mesh import PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.sharding import (
    DeviceMeshSharding,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
)
from hlo.values.types import PRED, TOKEN, U32, ArrayShape, Shape, TupleShape, array


def device_of(inst: Instruction) -> int | None:
    """Return the device that an instruction's sharding names as the only one.

    Of a token, that is said in many programs where the arrays beside it are cut.
    """
    sharding: Sharding | None = inst.annotations.get("sharding")
    shapes = [s for _, s in inst.shape.leaves()]
    leaves = sharding.elements if isinstance(sharding, TupleSharding) else [sharding] * len(shapes)
    arrays = [leaf for leaf, s in zip(leaves, shapes, strict=False) if s.is_array]
    devices = {_only_device(leaf) for leaf in arrays or leaves}
    return devices.pop() if len(devices) == 1 else None


def _only_device(sharding: Sharding | None) -> int | None:
    if isinstance(sharding, WholeSharding | DeviceMeshSharding):
        return sharding.device
    if isinstance(sharding, TiledSharding) and sharding.grid.size == 1:
        return int(sharding.grid.array().reshape(-1)[0])
    return None


def on_one_device(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], device: int
) -> Value:
    """Run an operation on one device, and give its results to all."""
    state = b.packed(tuple(whole_values(b, operands, "it runs on one device")))
    here = b.op(
        "compare", b.partition_id(), b.constant(U32, device), shape=array(PRED, ()), direction="EQ"
    )

    def run(to: Builder, given: Instruction) -> Instruction:
        elements = [to.element(given, n) for n in range(len(operands))]
        made = to.copy(inst, elements)
        made.annotations.pop("sharding", None)
        return made

    def skip(to: Builder, given: Instruction) -> Instruction:
        return _nothing(to, inst.shape)

    module = b.program.module
    branches = {
        f"{kind}_computation": module.add(build_computation(name, [state.shape], body, inst))
        for kind, name, body in (
            ("true", f"{inst.name}.run", run), ("false", f"{inst.name}.skip", skip)
        )
    }  # fmt: skip
    made = b.op("conditional", here, state, state, shape=inst.shape, **branches)
    return _shared(b, made, inst.shape)


def _nothing(to: Builder, shape: Shape) -> Instruction:
    """Append a value that has nothing of what another device has."""
    if isinstance(shape, TupleShape):
        return to.tuple(*(_nothing(to, s) for s in shape.elements))
    if isinstance(shape, ArrayShape):
        return to.broadcast(no_value(to, shape.element_type), shape)
    return to.op("after-all", shape=TOKEN)


def _shared(b: SpmdBuilder, value: Instruction, shape: Shape) -> Value:
    """Return the value that one device has and the others have nothing of."""
    if isinstance(shape, TupleShape):
        parts = (b.element(value, n) for n in range(len(shape.elements)))
        return tuple(_shared(b, p, s) for p, s in zip(parts, shape.elements, strict=True))
    if not isinstance(shape, ArrayShape):
        return Unsharded(value)
    total = b.all_reduce(value, b.mesh.axes, joining_opcode(shape.element_type))
    return Sharded(total, PartitionSpec.replicated(shape.rank), shape)
