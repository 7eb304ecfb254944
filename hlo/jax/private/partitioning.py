"""How JAX partitions calls of `jax.experimental.custom_partitioning`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Arrays = Sequence[tuple[np.dtype, tuple[int, ...], bytes]]


def partition(
    config: str, operands: Arrays, results: Arrays, is_tuple: bool
) -> tuple[str, list[bytes], list[bytes]]:
    """Return StableHLO of what a device does for a call, and the shardings of both sides.

    config: of the call, by which JAX finds its author's functions. operands, results: the element
    types, dimensions and shardings (OpSharding) of arrays. Raises what the author's function does.

    `custom_partitioning._custom_partitioning_partition`: JAX registers it with XLA, for plug-ins
    too, but then it hands over MLIR's bytecode, which only jaxlib reads.
    """
    from jax._src import custom_partitioning
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client as xc
    from jaxlib.mlir import ir

    shapes = [xc.Shape.array_shape(*array[:2]) for array in operands]
    out_shapes = [xc.Shape.array_shape(*array[:2]) for array in results]
    out_shape = xc.Shape.tuple_shape(out_shapes) if is_tuple else out_shapes[0]
    outs = [_sharding(array[2]) for array in results]
    out = xc.HloSharding.tuple_sharding(out_shape, outs) if is_tuple else outs[0]
    code, given, returned = custom_partitioning._custom_partitioning_partition(
        shapes, [_sharding(array[2]) for array in operands], out_shape, out, config.encode()
    )
    with mlir.make_ir_context():
        text = str(ir.Module.parse(code))
    found = returned.tuple_elements() if is_tuple else [returned]
    return text, [_proto(s) for s in given], [_proto(s) for s in found]


def _sharding(proto: bytes) -> Any:
    from jax._src.lib import xla_client as xc

    message = xc.OpSharding()
    message.ParseFromString(proto)
    return xc.HloSharding.from_proto(message)


def _proto(sharding: Any) -> bytes:
    content: bytes = sharding.to_proto().SerializeToString()
    return content
