"""`jax.experimental.custom_partitioning` on the plug-in: its calls are partitioned by JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo.spmd.partitioners import PARTITIONERS, Partitioned

if TYPE_CHECKING:
    from hlo.ir import Instruction
    from hlo.jax.private.partitioning import Arrays as Given
    from hlo.spmd.partitioners import Arrays


def install() -> None:
    """Have JAX say how calls of custom partitioning are partitioned."""
    PARTITIONERS["CustomSPMDPartitioning"] = _partition


def _partition(call: Instruction, operands: Arrays, results: Arrays) -> Partitioned:
    from hlo.errors import InferError
    from hlo.frontends.proto import wire
    from hlo.frontends.proto.schema import schema
    from hlo.frontends.proto.shardings import read_sharding
    from hlo.frontends.stablehlo import from_stablehlo
    from hlo.jax.private import partitioning

    config = str(call.annotations.get("backend_config", ""))
    is_tuple = call.shape.is_tuple
    try:
        made = partitioning.partition(config, _given(operands), _given(results), is_tuple)
    except Exception as e:  # of the function that JAX's user wrote
        raise InferError(
            f"custom-call: its function for partitioning failed: {type(e).__name__}: {e}",
            code="custom-call-failed",
        ) from e
    text, before, after = made
    kind = schema()["OpSharding"]
    shardings = [[read_sharding(wire.decode(p, kind)) for p in side] for side in (before, after)]
    return Partitioned(from_stablehlo(text, "partition"), *shardings)


def _given(arrays: Arrays) -> Given:
    from hlo.frontends.proto import wire
    from hlo.frontends.proto.schema import schema
    from hlo.frontends.proto.shardings import write_sharding

    kind = schema()["OpSharding"]
    return [
        (shape.element_type.dtype, shape.dims, wire.encode(write_sharding(sharding), kind))
        for shape, sharding in arrays
    ]
