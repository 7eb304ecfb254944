"""Entries that have nothing to do: the ends of clients and topologies, and registrations."""

from __future__ import annotations

from hlo.codegen.llvm import i64
from hlo.pjrt.native.writer import Code

# Of all contexts: none has anything in it.
_CONTEXT = 1


def write(code: Code) -> None:
    """Write the entries. To destroy is to do nothing: Python, which owns these, may have ended."""
    for name in ("Client_Destroy", "TopologyDescription_Destroy", "ExecuteContext_Destroy"):
        with code.entry(name):
            pass

    # JAX's runtime makes one for each run on a platform called `cpu`, for data of FFI handlers:
    # ours find Python's functions otherwise.
    with code.entry("ExecuteContext_Create") as (b, args):
        args.context = b.cast("inttoptr", i64(_CONTEXT), "ptr")

    # `hlo.jax.partitioning` asks JAX itself how it partitions a call: what JAX registers here takes
    # MLIR's bytecode, which only jaxlib reads.
    for name in ("FFI_UserData_Add", "Register_Custom_Partitioner", "Register_Batch_Partitionable"):
        with code.entry(name):
            pass
