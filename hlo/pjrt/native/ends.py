"""What has no end, or nothing in it: clients, topologies, and contexts of runs."""

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

    with code.entry("FFI_UserData_Add"):
        pass
